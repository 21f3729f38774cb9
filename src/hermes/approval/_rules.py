"""The rule language: patterns of commands, read from the rules file and from the user's configuration."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes._lazy import Lazy
from hermes.config import home, keep

from . import _marks as marks
from ._call import Call

Action = Literal["allow", "ask", "block"]
Severity = Literal["low", "medium", "high", "hardline"]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule, as the file and a user's configuration write it.

    ``patterns`` match a command; ``text`` are regular expressions for the words and input of ``programs``,
    without what is
    between single quotes in it where ``literals`` is false; where ``unless`` is found there they are not
    met. An option of which the value is ``plain`` is not one that patterns mean. ``match`` and ``not_match``
    are examples.
    """

    id: str
    action: Action
    reason: str = ""
    severity: Severity = "medium"
    patterns: tuple[str, ...] = ()
    plain: str = ""
    programs: str = ""
    text: tuple[str, ...] = ()
    literals: bool = True
    unless: str = ""
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()


# Of more words than these it is looked up whether any of them can be what a pattern says.
FEW = 16
_LITERAL = Lazy(r"(?<!\w)'(?:[^']|'')*'(?!\w)")


class BadRule(ValueError):
    """A rule of a user that is none; ``key`` is the setting that it is in."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class Shape:
    """The words of a command, told apart: options, and operands with whether each may be an option's
    value.
    """

    __slots__ = ("_looked_up", "compared", "flags", "operands", "words")

    def __init__(self, argv: Sequence[str]) -> None:
        self.words = argv
        self.flags: list[tuple[str, str, str]] = []  # name, value after "=", next word
        self.operands: list[tuple[str, bool]] = []
        self.compared = 0  # with how many patterns
        self._looked_up: tuple[frozenset[str], frozenset[str], frozenset[str]] | None = None
        after = False
        ended = False
        last = len(argv) - 1
        for index in range(1, len(argv)):
            word = argv[index]
            if ended or word[:1] != "-" or word == "-":
                self.operands.append((word.lower() if word.isascii() else marks.plain(word).lower(), after))
                after = False
            elif word == "--":
                ended = True
                self.operands.append(("--", True))
            else:
                name, equals, value = word.partition("=")
                self.flags.append((name, value if equals else "", argv[index + 1] if index < last else ""))
                after = not equals

    def look_up(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """Return the names of the options, the letters of those that may be clusters, and the operands, of
        which a long command has so many that they are not gone through for each pattern.
        """
        if self._looked_up is None:
            names = frozenset(name for name, _, _ in self.flags)
            letters = frozenset("".join(name if len(name) <= 8 else name[:2] for name in names))
            self._looked_up = names, letters, frozenset(word for word, _ in self.operands)
        return self._looked_up

    def without(self, plain: str) -> Shape:
        """Return the words without the options of which the value is this, as a regular expression."""
        other = Shape(())
        other.words, other.operands = self.words, self.operands
        other.flags = [one for one in self.flags if not re.fullmatch(plain, one[1] or one[2], re.IGNORECASE)]
        return other


class _Flag:
    """One flag of a pattern, with the value that it must have where it says one."""

    __slots__ = ("cluster", "long", "name", "value")

    def __init__(self, text: str) -> None:
        self.name, equals, value = text.partition("=")
        self.value = _glob(value) if equals and value else None
        if "*" in self.name:
            self.value, self.name = _glob(text), "*"
        self.long = self.name.startswith("--")
        self.cluster = (
            re.compile(f"-[A-Za-z0-9]*{re.escape(self.name[1:])}[A-Za-z0-9]*")
            if len(self.name) == 2
            else None
        )

    def _may(self, shape: Shape) -> bool:
        """Say whether any of many options can be this one."""
        names, letters, _ = shape.look_up()
        if self.long:  # or an abbreviation of it
            return any(self.name[:length] in names for length in range(3, len(self.name) + 1))
        return self.cluster is None or self.name[1] in letters

    def found(self, shape: Shape) -> bool:
        name = self.name
        if len(shape.flags) > FEW and not self._may(shape):
            return False
        if name == "*":
            assert self.value is not None
            return any(self.value(f"{one}={value}".rstrip("=")) for one, value, _ in shape.flags)
        for one, value, following in shape.flags:
            if one == name:
                if self.value is None or self.value(value or following):
                    return True
            elif self.long:
                # An abbreviation of a long option is that option.
                if (
                    len(one) > 2
                    and name.startswith(one)
                    and (self.value is None or self.value(value or following))
                ):
                    return True
            elif self.cluster is not None:
                if one[:2] == name and self.value is not None:
                    if self.value(one[2:] + ("=" + value if value else "")):
                        return True
                elif self.value is None and one[1:2] != "-":
                    if one[:2] == name or (len(one) <= 8 and self.cluster.fullmatch(one)):
                        return True
                elif (
                    self.value is not None
                    and one[1:2] != "-"
                    and one[-1] == name[1]
                    and len(one) <= 6
                    and self.value(following)
                ):
                    return True
            elif self.value is not None and one.startswith(name) and self.value(one[len(name) :] or value):
                return True
        return False


def _glob(pattern: str) -> Any:
    """Return a test of whether a text matches a glob, letters of any case."""
    if not any(sign in pattern for sign in "*?["):
        lower = pattern.lower()
        return lambda text: text.lower() == lower
    match = re.compile(fnmatch.translate(pattern.lower()), re.DOTALL).match
    return lambda text: match(text.lower()) is not None


class _Step:
    """A word of a pattern after the program: flags, operands, or both as alternatives."""

    __slots__ = ("end", "flags", "gap", "match", "names")

    def __init__(self, alternatives: list[str], gap: bool) -> None:
        self.gap = gap
        self.end = alternatives == ["END"]
        self.flags = [
            _Flag(one) for one in alternatives if one.startswith("-") and one != "-" and one != "--"
        ]
        plain = [one for one in alternatives if not one.startswith("-") or one in ("-", "--")]
        self.names = frozenset(one.lower() for one in plain if not any(sign in one for sign in "*?["))
        globs = [fnmatch.translate(one.lower()) for one in plain if any(sign in one for sign in "*?[")]
        self.match = re.compile("|".join(globs), re.DOTALL).match if globs else None

    @property
    def positional(self) -> bool:
        return bool(self.names or self.match)

    def fits(self, operand: str) -> bool:
        return operand in self.names or (self.match is not None and self.match(operand) is not None)


class Pattern:
    """A compiled pattern."""

    __slots__ = ("absent_flags", "absent_words", "free", "rule", "steps")

    def __init__(self, rule: Rule, text: str) -> None:
        words = _words(text)
        self.rule = rule
        self.steps: list[_Step] = []
        self.free: list[list[_Flag]] = []
        self.absent_flags: list[_Flag] = []
        self.absent_words: list[Any] = []
        gap = False
        for word in words[1:]:
            if word == "...":
                gap = True
                continue
            if word[0] == "!" and len(word) > 1:
                for one in word[1:].split("|"):
                    (
                        self.absent_flags.append(_Flag(one))
                        if one.startswith("-")
                        else self.absent_words.append(_glob(one))
                    )
                continue
            step = _Step(word.split("|"), gap)
            if step.flags and not step.positional:
                self.free.append(step.flags)
                continue
            self.steps.append(step)
            gap = False

    @property
    def needs(self) -> frozenset[str]:
        """The words of which a command that matches has one as an operand; empty where no such are known."""
        for step in self.steps:
            if step.names and not step.flags and step.match is None and not step.end:
                return step.names
        return frozenset()

    def matches(self, shape: Shape) -> bool:
        """Say whether the words of a command match; its program has been compared already."""
        if self.rule.plain and shape.flags:
            shape = shape.without(self.rule.plain)
        for flags in self.free:
            if not any(flag.found(shape) for flag in flags):
                return False
        if self.steps and not self._places(shape, 0, 0, [200]):
            return False
        if self.absent_flags and any(flag.found(shape) for flag in self.absent_flags):
            return False
        return not (
            self.absent_words and any(test(word) for word, _ in shape.operands for test in self.absent_words)
        )

    def without_others(self, words: Sequence[str]) -> list[str]:
        """Return a command without the options that this pattern does not write."""
        written = [flag for flags in self.free for flag in flags]
        written += [flag for step in self.steps for flag in step.flags]
        kept: list[str] = []
        for index, word in enumerate(words):
            if word == "--":
                return [*kept, *words[index:]]
            if index and word[:1] == "-" and word != "-":
                shape = Shape(["", *words[index : index + 2]])
                shape.flags = shape.flags[:1]
                if not any(flag.found(shape) for flag in written):
                    continue
            kept.append(word)
        return kept

    def _places(self, shape: Shape, number: int, index: int, budget: list[int]) -> bool:
        """Say whether the steps from one on match the operands from one on. What follows an option may be
        its value.
        """
        budget[0] -= 1
        if budget[0] < 0:
            return self.rule.action != "allow"
        if number == len(self.steps):
            return True
        step = self.steps[number]
        operands = shape.operands
        if step.end:
            return all(word == "--" for word, _ in operands[index:])
        if step.flags and any(flag.found(shape) for flag in step.flags):
            return self._places(shape, number + 1, index, budget)
        if len(operands) > FEW and step.match is None and step.names.isdisjoint(shape.look_up()[2]):
            return False
        while index < len(operands):
            word, maybe = operands[index]
            index += 1
            if step.fits(word) and self._places(shape, number + 1, index, budget):
                return True
            if not (maybe or step.gap):
                return False
        return False


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    if not words or not words[0]:
        raise ValueError("it has no program")
    return words


class _Of:
    """The patterns for one program. Most need a certain word, and are not looked at where it is missing."""

    __slots__ = ("_always", "_flagless", "_needing", "patterns")

    def __init__(self, patterns: list[Pattern]) -> None:
        self.patterns = patterns
        self._always: list[int] = []
        self._flagless: list[int] = []  # those of them that need no option
        self._needing: dict[str, list[int]] = {}
        for number, pattern in enumerate(patterns):
            needs = pattern.needs
            if not needs:
                self._always.append(number)
                if not pattern.free:
                    self._flagless.append(number)
            for word in needs:
                self._needing.setdefault(word, []).append(number)

    def matching(self, shape: Shape) -> list[Pattern]:
        """Return those that match the words of a command, in their order."""
        numbers = self._always if shape.flags else self._flagless
        needing, patterns = self._needing, self.patterns
        if needing:
            found = {number for word, _ in shape.operands if word in needing for number in needing[word]}
            if found:
                numbers = sorted(found.union(numbers))
        shape.compared += len(numbers)
        return [patterns[number] for number in numbers if patterns[number].matches(shape)] if numbers else []


class Rules:
    """Rules, found by the name of a program."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = {rule.id: rule for rule in rules}
        # Patterns and expressions are compiled when a program of theirs is met for the first time.
        self._named: dict[str, list[tuple[Rule, str]]] = {}
        self._globbed: list[tuple[list[str], Rule, str]] = []
        self._any: re.Pattern[str] | None = None  # all of those patterns
        self._texts: dict[str, list[tuple[Rule, str]]] = {}
        for rule in self.rules.values():
            for text in rule.patterns:
                alternatives = text.split(maxsplit=1)[0].split("|")
                globs = [one for one in alternatives if any(sign in one for sign in "*?[/")]
                for name in alternatives:
                    if name not in globs:
                        self._named.setdefault(name, []).append((rule, text))
                if globs:
                    self._globbed.append((globs, rule, text))
            for expression in rule.text:
                for name in rule.programs.split():
                    self._texts.setdefault(name, []).append((rule, expression))
        self._seen: dict[str, _Of] = {}
        self.names = frozenset(self._named) | frozenset(self._texts)

    def _of(self, name: str, path: str) -> _Of:
        key = path if path.startswith("/etc/") else name
        found = self._seen.get(key)
        if found is None:
            if len(self._seen) > 2000:
                self._seen.clear()
            patterns = [Pattern(rule, text) for rule, text in self._named.get(name, ())]
            for globs, rule, text in self._globbed if self._may(name, path) else ():
                if any(fnmatch.fnmatchcase(name, one) or fnmatch.fnmatchcase(path, one) for one in globs):
                    patterns.append(Pattern(rule, text))
            found = self._seen[key] = _Of(patterns)
        return found

    def _may(self, name: str, path: str) -> bool:
        """Say whether a program is one by a pattern for its name or its path."""
        if self._any is None:
            globs = {fnmatch.translate(one) for names, _, _ in self._globbed for one in names}
            self._any = re.compile("|".join(sorted(globs)) or "(?!)")
        return self._any.match(name) is not None or self._any.match(path) is not None

    def allowing(self, call: Call, shape: Shape) -> list[Pattern]:
        """Return the patterns of the rules with ``allow`` that a command meets."""
        return [
            pattern
            for pattern in self._of(call.name, call.argv[0]).matching(shape)
            if pattern.rule.action == "allow"
        ]

    def meets(self, call: Call, shape: Shape | None = None) -> bool:
        """Say whether a command meets any rule."""
        return bool(self.find(call, shape or Shape(call.argv)))

    def find(self, call: Call, shape: Shape) -> list[Rule]:
        """Return the rules that a command meets."""
        found = [pattern.rule for pattern in self._of(call.name, call.argv[0]).matching(shape)]
        texts = self._texts.get(call.name)
        if texts:
            said = " ".join(call.argv[1:])
            if call.stdin:
                said += "\n" + call.stdin
            bare = _LITERAL.sub("''", said)
            found += [
                rule
                for rule, expression in texts
                if re.search(expression, said if rule.literals else bare)
                and not (rule.unless and re.search(rule.unless, said))
            ]
        return found


# Options that are the same, of the commands that people write rules for.
_TWINS: tuple[tuple[list[str], tuple[str, ...]], ...] = (
    (["git", "push"], ("-f|--force", "-d|--delete")),
    (["rm"], ("-f|--force", "-r|-R|--recursive")),
)


def short(pattern: str, action: Action, number: int) -> Rule:
    """Return the rule that a pattern of ``approvals.deny``, ``ask`` or ``allow`` means."""
    words = _words(pattern)
    while len(words) > 1 and words[-1] == "*":
        words.pop()
    for start, twins in _TWINS:
        if words[: len(start)] == start:
            words = [next((one for one in twins if word in one.split("|")), word) for word in words]
    names = {"block": "deny", "ask": "ask", "allow": "allow"}
    text = " ".join(shlex.quote(word) if " " in word else word for word in words)
    return Rule(
        id=f"user-{names[action]}-{number}",
        action=action,
        reason=f"the configuration says so: {pattern}",
        severity="high" if action == "block" else "medium",
        patterns=(text,),
    )


def user_rules(
    rules: Sequence[Mapping[str, Any] | Rule] = (),
    *,
    deny: Sequence[str] = (),
    ask: Sequence[str] = (),
    allow: Sequence[str] = (),
) -> list[Rule]:
    """Return a user's rules, from maps in the language of the rules file and from short patterns.

    :raises ValueError: one of them is not a rule
    """
    found: list[Rule] = []
    for number, raw in enumerate(rules, 1):
        name = str(raw.id if isinstance(raw, Rule) else raw.get("id", number))
        try:
            rule = raw if isinstance(raw, Rule) else msgspec.convert(dict(raw), Rule)
        except msgspec.ValidationError as error:
            raise BadRule("rules", f"'{name}' is not a rule: {error}") from error
        for text in rule.patterns:
            try:
                Pattern(rule, text)
            except ValueError as error:
                raise BadRule("rules", f"the pattern {text!r} of the rule '{name}': {error}") from error
        for expression in (*rule.text, rule.unless, rule.plain):
            try:
                re.compile(expression)
            except re.error as error:
                said = f"the rule '{name}' has a broken expression {expression!r}: {error}"
                raise BadRule("rules", said) from error
        found.append(rule)
    lists: tuple[tuple[str, Action, Sequence[str]], ...] = (
        ("deny", "block", deny),
        ("ask", "ask", ask),
        ("allow", "allow", allow),
    )
    for key, action, patterns in lists:
        for number, pattern in enumerate(patterns, 1):
            try:
                rule = short(pattern, action, number)
                Pattern(rule, rule.patterns[0])
            except ValueError as error:
                raise BadRule(key, f"the pattern {pattern!r}, number {number}: {error}") from error
            found.append(rule)
    return found


class Shipped(msgspec.Struct, frozen=True):
    """The rules file."""

    rules: tuple[Rule, ...]
    wrappers: dict[str, str]
    paths: dict[str, list[str]]
    trusted: tuple[str, ...]
    read_only: tuple[str, ...]
    system: frozenset[str]


@lru_cache(maxsize=1)
def shipped_rules() -> tuple[Rules, Rules, Rules]:
    """Return the shipped rules, those for trusted output, and those for what only reads, ready for use."""
    own = shipped()
    return (
        Rules(own.rules),
        Rules([Rule(id="trusted", action="allow", patterns=own.trusted)]),
        Rules([Rule(id="read-only", action="allow", patterns=own.read_only)]),
    )


@lru_cache(maxsize=1)
def shipped() -> Shipped:
    """Return the rules that come with hermes. Reads the file once.

    To parse it takes longer than most of a command's start, so what came of it is kept in hermes's home,
    which is protected as the settings there are.
    """
    data = Path(__file__).with_name("rules.toml").read_bytes()
    kept = home() / "cache" / f"rules-{hashlib.sha256(data).hexdigest()[:16]}.json"
    try:
        return msgspec.json.decode(kept.read_bytes(), type=Shipped)
    except (OSError, msgspec.DecodeError):
        found = _parsed(data.decode("utf-8"))
    with contextlib.suppress(OSError):  # without it the next start is slower, no more
        keep(kept, msgspec.json.encode(found))
    return found


def _parsed(text: str) -> Shipped:
    import tomllib

    raw = tomllib.loads(text)
    return Shipped(
        rules=tuple(msgspec.convert(raw["rule"], list[Rule])),
        wrappers=raw["wrappers"],
        paths=raw["paths"],
        trusted=tuple(raw["trusted_output"]["patterns"]),
        read_only=tuple(raw["read_only"]["patterns"]),
        system=marks.names(raw["system"]),
    )
