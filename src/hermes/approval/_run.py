"""Follows a script without running it: what would be run, with which words, where, and on what input.

This is an abstract interpreter. Every branch is taken, loops run a few times, and what cannot be known
stands in texts
as a mark. Each command is reported to ``Sink.command``, each place that a redirection writes to
``Sink.redirect``, and
what has to be asked about for itself to ``Sink.note``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from hermes._lazy import Lazy

from . import _functions as functions
from . import _loads as loads
from . import _marks as marks
from . import _nodes as nodes
from . import _paths as paths
from ._assign import assign as assigned
from ._assign import attributes, counted, declared, prefixes, settle
from ._call import Call, Sink
from ._decode import legible
from ._environment import BUILDS
from ._expand import Expander, matches
from ._globs import among
from ._marks import BEFORE, REMOTE, SPLIT, UNKNOWN
from ._nodes import constant, joined, leaves, many, quoted, stays, written
from ._parser import Parser
from ._state import State
from ._syntax import (
    Arith,
    Case,
    CFor,
    Coproc,
    For,
    Function,
    Group,
    If,
    Item,
    Loop,
    Node,
    Pipeline,
    Redirect,
    Redirected,
    Seq,
    Simple,
    Span,
    Test,
    Unparsable,
)
from ._words import MAX_PARTS

if TYPE_CHECKING:
    from ._rules import Rules

T = TypeVar("T")
MAX_DEPTH = 24
BINARY = "\x7fELF"
# Of what these print only that without an operand is for a shell; others start a command.
_VIEWS = frozenset(("lesspipe", "lesspipe.sh"))
_AGENTS = frozenset(("ssh-agent", "gpg-agent"))
_VERSIONED = Lazy(r"(?:python|pypy|perl|ruby|php)[\d.]+[tm]?")
_BINARY = Lazy(r"(?:/usr)?(?:/local)?/s?bin/[\w.+-]+$")
MAX_COMMANDS = 4000
FORK = 4  # commands that take as long as a copy of the state
MAX_WORDS = 16_000  # that commands are given, also those that are given to another by a wrapper
MAX_COMPARED = 50_000
MAX_FOUND = 300  # of one kind in a text, such as calls in code that run something
MAX_ROUNDS = 12

_NAME = Lazy(r"(?!-)[\w./+@%:,=~-]+")
# Functions of these names change what the commands of a session mean.
_SHADOWED = marks.names(
    "sudo su doas ssh scp git ls cat rm cp mv cd grep python python3 pip curl gpg passwd test kill hermes"
)
_MAKES = frozenset(("mkdir", "touch", "cp", "dd", "mktemp", "truncate", "fallocate", "mkfifo", "ln"))
_DECLARES = frozenset(("export", "declare", "typeset", "local", "readonly"))


class Interpreter:
    """Follows one request. ``handlers`` are the commands whose effect on the session, or whose carried
    commands, are known: each takes the interpreter and the call, and returns what the command prints.
    """

    def __init__(
        self,
        state: State,
        sink: Sink,
        *,
        home: str,
        handlers: Mapping[str, Callable[[Interpreter, Call], str]],
        acting: frozenset[str],
        trusted: Rules | None = None,
    ) -> None:
        self.state = state
        self.sink = sink
        self.home = home
        self.handlers = handlers
        self.acting = acting
        self.trusted = trusted
        self.budget = [MAX_PARTS]
        self.depth = 0
        self.commands = 0
        self.words = 0
        self.values = 0
        self.attributed = any(":" in one for one in state.options)  # some variable is a number, or the like
        self.compared: set[str] = set()  # the patterns of the line
        self.span: Span = (0, 0)
        self.place = ""
        self.typed = False  # its input is typed at the terminal of what runs
        self.lenient = False  # what is followed is a piece, and may be none of a command
        self.root = False
        self.captured = False
        self.active: list[tuple[str, int]] = []
        self.frames: list[functions.Frame] = []
        self.widened: set[tuple[Any, ...]] = set()
        self.nul = False  # what is printed goes to a program that separates by NULs
        self.parallel = 0
        self.scripts: list[tuple[str, tuple[str, ...]]] = []  # those of files, with their words
        self.forever = 0
        self.looped = 0  # in the condition of how many loops
        self.growing = 0  # how many loops go on for ever
        self.source = ""
        self.defined: dict[str, Node] = {}
        self.called: set[str] = set()
        self.expand = self._expander(state)
        self._nodes: dict[type, Callable[[Any, str | None], str]] = {
            Simple: self._simple,
            Pipeline: self._pipeline,
            Seq: self._seq,
            Group: self._group,
            If: self._if,
            Loop: self._loop,
            For: self._for,
            CFor: self._cfor,
            Case: self._case,
            Function: self._function,
            Test: self._test,
            Coproc: self._coproc,
            Redirected: self._redirected,
        }

    def _expander(self, state: State) -> Expander:
        return Expander(
            state,
            home=self.home,
            run=self._substitute,
            note=self.note,
            evaluate=self._evaluate,
            given=self.given,
            compared=self.compared,
        )

    def note(self, rule: str, reason: str, action: str = "ask") -> None:
        """Report what has to be asked about, at the place of the command in hand."""
        if self.lenient and rule in nodes.VAGUE:
            return
        self.sink.note(rule, reason, self.span, action)

    def first(self, found: Iterable[T], most: int = MAX_FOUND) -> Iterator[T]:
        """Return what was found in a text. Of more than this the rest is not looked at: it is asked about."""
        for number, one in enumerate(found):
            if number == most:
                self.sink.note("too-long", "there is more of one kind than is looked at", self.span)
                return
            yield one

    # Scripts

    def script(self, text: str, stdin: str | None = None, *, whole: bool = False) -> str:
        """Follow the text of a script in the present state. ``whole`` is for the request's own text."""
        if self.depth >= MAX_DEPTH:
            raise Unparsable("scripts are nested too deeply")
        if marks.REMOTE in text:
            self.note("remote-code", "runs what comes from the network")
        elif marks.DECODED in text:
            self.note("decoded-code", "runs what was decoded from an unreadable text")
            text = legible(text)
        elif marks.OUTPUT in text:
            self.note("unknown-code", "runs a text that another command printed")
        if whole:
            parser = Parser(text, budget=self.budget)
            self.source = text
        else:
            parser = Parser(text, fixed=self.span, budget=self.budget)
        try:
            body = parser.script()
        except Unparsable as error:
            if whole:
                raise
            self.note("unparsable", f"cannot read a script in the line: {error.reason}")
            return UNKNOWN
        saved = self.source
        if not whole:
            self.source = ""
        self.depth += 1
        try:
            return self.run(body, stdin)
        finally:
            self.depth -= 1
            self.source = saved

    def run(self, node: Node, stdin: str | None = None) -> str:
        """Follow a node and return what it prints."""
        return self._nodes[type(node)](node, stdin)

    def within(self, state: State, action: Callable[[], str], *, captured: bool | None = None) -> str:
        """Do something in another state."""
        saved, expand, held, span = self.state, self.expand, self.captured, self.span
        self.state, self.expand = state, self._expander(state)
        if captured is not None:
            self.captured = captured
        try:
            return action()
        finally:
            saved.crowded = saved.crowded or state.crowded  # files are shared
            self.state, self.expand, self.captured, self.span = saved, expand, held, span

    def subshell(self, action: Callable[[], str], *, captured: bool | None = None) -> str:
        """Do something in a copy of the state."""
        self.count(FORK)
        return self.within(self.state.fork(), action, captured=captured)

    def _substitute(self, body: Seq, state: State, stdin: str | None = None) -> str:
        self.count(FORK)
        self.depth += 1
        if self.depth >= MAX_DEPTH:
            raise Unparsable("scripts are nested too deeply")
        nul, self.nul = self.nul, False
        try:
            items = body.items
            if len(items) == 1 and isinstance(items[0].node, Simple) and not items[0].node.words:
                lone = items[0].node
                if len(lone.redirects) == 1 and lone.redirects[0].op == "<" and not lone.assigns:
                    # $(< file)
                    path = self.path(self.expand.text(lone.redirects[0].target))
                    return self.reading(path)
            return self.within(state, partial(self.run, body, stdin), captured=True)
        finally:
            self.nul = nul
            self.depth -= 1

    def quietly(self, text: str) -> str:
        """Follow a text that may be no script of this shell."""
        try:
            return self.script(text)
        except Unparsable:
            return UNKNOWN

    def _evaluate(self, text: str) -> None:
        for one in self.first(re.findall(r"\$\(([^()]*)\)|`([^`]*)`", text)):
            self.subshell(partial(self.script, one[0] or one[1]))

    def uncalled(self) -> None:
        """Follow the functions that are defined in the line and not called in it: they may be later."""
        for name in self.first([one for one in self.defined if one not in self.called]):
            call = Call([name], self.state.cwd, self.span, captured=True)
            self.subshell(partial(self.function, name, (self.defined[name],), call), captured=True)

    def set(self, name: str, value: str) -> None:
        """Set a variable by a command, and report it as an assignment is."""
        self.state.variables[name] = value
        self.sink.command(
            Call([], self.state.cwd, self.span, None, {name: value}, self.place, self.root, True)
        )

    def given(self, name: str, value: str) -> None:
        """Set a variable by something that assigns in passing; report those that programs look at."""
        if name.islower() and "_" not in name:
            self.state.variables[name] = value
        else:
            self.set(name, value)

    # Lists and pipelines

    def _seq(self, node: Seq, stdin: str | None) -> str:
        out: list[str] = []
        for number, item in enumerate(node.items):
            out.append(self._item(item, stdin, conditional=number > 0 and item.before != ";"))
        return joined(out)

    def _item(self, item: Item, stdin: str | None, *, conditional: bool) -> str:
        if item.background:
            if self.forever:
                if nodes.itself(item.node):
                    self.note("fork-bomb", "starts itself over and over", "block")
                self.note("endless", "starts processes without end")
            self.parallel += 1
            try:
                result = self.subshell(partial(self.run, item.node, stdin))
            finally:
                self.parallel -= 1
            self.state.variables["!"] = UNKNOWN
            return result
        if not conditional:
            return self.run(item.node, stdin)
        if item.before == "&&":
            # What follows is only reached when this was run, or is judged as if: `cd x && rm -rf y`.
            self._compare(len(self.state.variables))
            before = self.state.fork()
            result = self.run(item.node, stdin)
            changed = {
                name
                for name, value in self.state.variables.items()
                if name in before.variables and before.variables[name] != value
            }
            for name in changed:
                self.state.variables[name] = UNKNOWN
            for name, bodies in before.functions.items():
                mine = self.state.functions.get(name, ())
                self.state.functions[name] = mine + tuple(one for one in bodies if one not in mine)
            return result
        self._compare(len(self.state.variables))
        self.count()
        other = self.state.fork()
        result = self.within(other, partial(self.run, item.node, stdin))
        cwd = self.state.cwd
        self.state.join(other)
        if self.state.cwd != cwd and leaves(item.node):
            self.state.cwd = cwd
        return result

    def _compare(self, number: int) -> None:
        """Count how many variables and files have been gone through."""
        self.values += number
        if self.values > MAX_COMPARED:
            raise Unparsable("the line has too many variables or files")

    def _pipeline(self, node: Pipeline, stdin: str | None) -> str:
        text: str | None = stdin
        last = len(node.commands) - 1
        self.parallel += 1
        try:
            for number, command in enumerate(node.commands):
                captured = self.captured if number == last else True
                given = text
                self.nul = number < last and nodes.by_nul(node.commands[number + 1])
                text = self.subshell(
                    partial(self.run, command, given),
                    captured=captured,
                )
        finally:
            self.nul = False
            self.parallel -= 1
        return text or ""

    def _group(self, node: Group, stdin: str | None) -> str:
        if node.subshell:
            return self.subshell(partial(self.run, node.body, stdin))
        return self.run(node.body, stdin)

    # Branches and loops

    def _if(self, node: If, stdin: str | None) -> str:
        out: list[str] = []
        ends: list[State] = []
        covered = False
        for condition, body in node.branches:
            if condition is not None:
                out.append(self.run(condition, stdin))
            else:
                covered = True
            branch = self.state.fork()
            out.append(self.within(branch, partial(self.run, body, stdin)))
            if (
                condition is not None
                and not ends
                and len(condition.items) == 1
                and constant(condition.items[0].node)
            ):
                covered, ends = True, [branch]
                break
            ends.append(branch)
        if covered:
            first = ends.pop()
            self._become(first)
        for end in ends:
            self.state.join(end)
        return joined(out)

    def _become(self, other: State) -> None:
        for slot in State.__slots__:
            setattr(self.state, slot, getattr(other, slot))

    def _telling(self, value: str) -> bool:
        """Say whether a value is more than the name of a file of no importance."""
        return _NAME.fullmatch(value) is None or ".." in value or self.sink.special(self.path(value))

    def _twice(self, action: Callable[[], str]) -> str:
        """Do something that may be done any number of times."""
        self.count()
        before = self.state.fork()
        out = [action()]
        changed = self.state.variables != before.variables or self.state.cwd != before.cwd
        changed = changed or self.state.functions != before.functions
        self.state.join(before)
        if changed:
            out.append(action())
            self.state.join(before)
        return joined(out)

    def _loop(self, node: Loop, stdin: str | None) -> str:
        endless = len(node.condition.items) == 1 and constant(node.condition.items[0].node, loop=True)
        first = node.condition.items[0].node if node.condition.items else None
        makes = isinstance(first, Simple) and bool(first.words) and first.words[0].simple == "mkdir"
        growing = (endless or makes) and stays(node)
        self.forever += endless
        self.growing += growing
        try:
            return self._twice(
                lambda: joined([self._head(node.condition, stdin), self.run(node.body, stdin)])
            )
        finally:
            self.forever -= endless
            self.growing -= growing

    def _head(self, condition: Seq, stdin: str | None) -> str:
        self.looped += 1
        try:
            return self.run(condition, stdin)
        finally:
            self.looped -= 1

    def _for(self, node: For, stdin: str | None) -> str:
        values = self.expand.fields(node.words) if node.words is not None else None
        if values is None:
            every = self.expand.get("@")
            values = every if isinstance(every, list) else [SPLIT]
        out: list[str] = []
        if not values:
            # Nothing is run, but a look costs nothing.
            values = [""]
        if len(values) > MAX_ROUNDS:
            marked = "".join(marks.kinds(*values))
            # Of the others those are judged, too, that stand for more than a name that is not known.
            telling = [one for one in values[MAX_ROUNDS:] if self._telling(one)]
            values = [*values[:MAX_ROUNDS], *self.first(telling), marked]
        crowd = len(values) > MAX_ROUNDS
        self.forever += crowd and node.words is not None and many(node.words)
        try:
            for value in values:
                self.given(node.name, value.replace(SPLIT, UNKNOWN))
                settle(self)
                if "&" + node.name in self.state.variables:
                    self.expand.check_subscript(value)
                out.append(self._twice(partial(self.run, node.body, stdin)))
        finally:
            self.forever -= crowd and node.words is not None and many(node.words)
        return joined(out)

    def _cfor(self, node: CFor, stdin: str | None) -> str:
        self.expand.arithmetic(node.head)
        endless = node.head.text.replace(" ", "") == ";;"
        for name in re.findall(r"[A-Za-z_]\w*", node.head.text):
            self.state.variables[name] = UNKNOWN
        growing = endless and stays(node)
        self.forever += endless
        self.growing += growing
        try:
            return self._twice(partial(self.run, node.body, stdin))
        finally:
            self.forever -= endless
            self.growing -= growing

    def _case(self, node: Case, stdin: str | None) -> str:
        value = self.expand.text(node.word)
        out: list[str] = []
        before = self.state.fork()
        ends: list[State] = []
        for patterns, body in node.arms:
            fit = [matches(value, self.expand.pattern(pattern)) for pattern in patterns]
            if all(one is False for one in fit) and not marks.unknown(value):
                continue
            branch = before.fork()
            out.append(self.within(branch, partial(self.run, body, stdin)))
            ends.append(branch)
            if True in fit and None not in fit and len(ends) == 1:
                self._become(branch)
                return joined(out)
        for end in ends:
            self.state.join(end)
        return joined(out)

    def _function(self, node: Function, stdin: str | None) -> str:
        if node.name in _SHADOWED:
            self.note("shadowed-command", f"gives {node.name} another meaning")
        self.state.functions[node.name] = (node.body,)
        self.defined[node.name] = node.body
        return ""

    def _test(self, node: Test, stdin: str | None) -> str:
        for word in node.words:
            text = self.expand.text(word)
            if "[" in text or "$(" in text:
                self.expand.check_arithmetic(text)
        for index, word in enumerate(node.words):
            if word.simple in ("-eq", "-ne", "-lt", "-le", "-gt", "-ge"):
                for near in node.words[max(0, index - 1) : index + 2]:
                    self.expand.check_arithmetic(self.expand.text(near))
        settle(self)
        for word in node.words:
            for part in word.parts:
                if isinstance(part, Arith):
                    counted(self, part.text)
        return ""

    def _coproc(self, node: Coproc, stdin: str | None) -> str:
        self.subshell(partial(self.run, node.body, UNKNOWN), captured=True)
        return ""

    def _redirected(self, node: Redirected, stdin: str | None) -> str:
        call = Call([], self.state.cwd, self.span, stdin, place=self.place, root=self.root)
        files = self._redirects(node.redirects, call)
        captured = self.captured or bool(files)
        saved, self.captured = self.captured, captured
        try:
            out = self.run(node.node, call.stdin)
        finally:
            self.captured = saved
        return self._into(files, out, call)

    # Redirections

    def path(self, text: str, cwd: str | None = None) -> str:
        """Return the path that a word stands for, with the session's links followed."""
        return paths.normal(text, self.state.cwd if cwd is None else cwd, self.state.links, self.home)

    def reading(self, path: str) -> str:
        """Return what a file holds, as far as is known."""
        text = self.state.files.get(path)
        if text is not None:
            return text.replace(BEFORE, UNKNOWN)
        if path == "/dev/null":
            return ""
        if _BINARY.match(path):
            return f"{BINARY}{path}\n{UNKNOWN}"
        if marks.globbed(path):
            self._compare(len(self.state.files))
            found = [self.state.files[name] for name in among(self.state.files, path)]
            if found:
                return joined([*found, UNKNOWN]).replace(BEFORE, UNKNOWN)
        return self.sink.held_by(path)

    def _given(self, descriptor: str, text: str) -> None:
        """Remember what can be read from a descriptor other than the input."""
        self.state.descriptors[descriptor] = text
        if descriptor.isdigit():
            self.state.write(f"/dev/fd/{descriptor}", text)

    def _redirects(self, redirects: list[Redirect], call: Call) -> list[tuple[str, str, str]]:
        """Set the input of a call; return what is written: descriptor, operator, path."""
        files: list[tuple[str, str, str]] = []
        for one in redirects:
            if one.op == "<<":
                text = self.expand.text(one.target)
                self.sink.given(text)
                if one.fd in ("", "0"):
                    call.stdin = text
                else:
                    self._given(one.fd, text)
                continue
            if one.op == "<<<":
                text = self.expand.text(one.target) + "\n"
                self.sink.given(text)
                if one.fd in ("", "0"):
                    call.stdin = text
                else:
                    self._given(one.fd, text)
                continue
            targets = self.expand.word(one.target)
            target = targets[0] if len(targets) == 1 else self.expand.text(one.target)
            if one.op in ("<&", ">&") and re.fullmatch(r"\d*-?", target):
                if one.op == "<&" and one.fd in ("", "0"):
                    call.stdin = self.state.descriptors.get(target.rstrip("-"), call.stdin)
                elif target in self.state.descriptors and one.op == ">&":
                    where = self.state.descriptors[target]
                    self.sink.redirect(">&", where, "", call)
                    if where.startswith(("/", "~")):
                        files.append((one.fd or "1", ">>", where))
                continue
            path = self.path(target, call.cwd)
            if one.op == "<":
                if one.fd in ("", "0"):
                    call.stdin = self.reading(path)
                else:
                    self._given(one.fd, self.reading(path))
                self.sink.redirect("<", path, "", call)
                if path.startswith(("/dev/tcp/", "/dev/udp/")):
                    call.stdin = UNKNOWN + REMOTE
            elif one.op == "<>":
                self.sink.redirect("<>", path, "", call)
                if one.fd in ("", "0"):
                    call.stdin = (
                        UNKNOWN + REMOTE
                        if path.startswith(("/dev/tcp/", "/dev/udp/"))
                        else self.reading(path)
                    )
                files.append((one.fd or "0", ">>", path))
            else:
                op = ">>" if one.op in (">>", "&>>") else ">"
                files.append((one.fd or ("&" if one.op[0] == "&" or one.op == ">&" else "1"), op, path))
        if files and not call.to:
            call.to = next((path for fd, _, path in files if fd in ("1", "&")), "")
        return files

    def _into(self, files: list[tuple[str, str, str]], out: str, call: Call) -> str:
        """Write what a command prints where its redirections lead; return what is left of it."""
        left = out
        for fd, op, path in files:
            text = out if fd in ("1", "&") else "" if fd == "2" else UNKNOWN
            if self.growing and op == ">>" and not path.startswith("/dev/"):
                self.note("endless-output", "writes to a file without end")
            self.sink.redirect(op, path, text, call)
            if path in ("/dev/stdout", "/dev/tty", "/dev/fd/1", "/proc/self/fd/1"):
                continue
            if path not in ("/dev/null", "/dev/stderr"):
                self.state.write(path, text, append=op == ">>")
            if fd in ("1", "&"):
                left = ""
        return left

    # Simple commands

    def _simple(self, node: Simple, stdin: str | None) -> str:
        if self.depth == 0 or self.source:
            self.span = node.span
        self.count()
        words = node.words
        if words and self.state.aliases:
            first = words[0]
            if first.simple is not None and first.simple in self.state.aliases:
                self._alias(node, stdin)
        if len(words) > 1 and words[0].simple in _DECLARES:
            argv = declared(self, words)
        else:
            argv = self.expand.fields(words)
        if marks.DECODED in argv and words[0].simple is None:
            argv = [one for one in argv if one != marks.DECODED]
            self.note("decoded-code", "runs what was decoded from an unreadable text")
        env: dict[str, str] = {}
        for assign in node.assigns:
            assigned(self, assign, env if argv else None)
        if "keyword" in self.state.options:
            given = [one for one in argv[1:] if re.match(r"[A-Za-z_]\w*=", one)]
            argv = [*argv[:1], *(one for one in argv[1:] if one not in given)]
            env.update((one.partition("=")[0], one.partition("=")[2]) for one in given)
        call = Call(argv, self.state.cwd, self.span, stdin, env, self.place, self.root, self.captured)
        files = self._redirects(node.redirects, call) if node.redirects else []
        if files and any(fd in ("1", "&") for fd, _, _ in files):
            call.captured = True
        if not argv:
            if files or env or node.assigns:
                prefixes(self, node, call)
            return self._into(files, "", call) if files else ""
        if argv[0] == "exec" and len(argv) == 1:
            for fd, _, path in files:
                self.state.descriptors[fd] = path
            for one in node.redirects:
                if one.op == "<" and one.fd:
                    path = self.path(self.expand.text(one.target))
                    network = path.startswith(("/dev/tcp/", "/dev/udp/"))
                    self.state.descriptors[one.fd] = UNKNOWN + REMOTE if network else self.reading(path)
        if node.arrays:
            options = [one for one in argv if one[:1] in "-+"]
            for assign in node.arrays:
                attributes(self, options, assign.name)
                assigned(self, assign, None)
        if env:
            saved = {name: self.state.variables[name] for name in env if name in self.state.variables}
            out = self._with(env, call)
            for name in env:
                self.state.variables.pop(name, None)
            self.state.variables.update(saved)
        else:
            out = self.call(call)
        settle(self)
        self.state.last = argv[-1]
        return self._into(files, out, call) if files else out

    def _with(self, env: Mapping[str, str], call: Call) -> str:
        self.state.variables.update(env)
        return self.call(call)

    def _alias(self, node: Simple, stdin: str | None) -> None:
        """Follow the command with its alias replaced. Whether aliases are on is not known, so both are
        judged.
        """
        first = node.words[0].simple or ""
        text = self.state.aliases[first]
        rest = " ".join(quoted(one) for one in self.expand.fields(node.words[1:]))
        held = dict(self.state.aliases)
        del self.state.aliases[first]
        try:
            self.script(f"{text} {rest}", stdin)
        finally:
            self.state.aliases = held

    # Commands

    def count(self, number: int = 1) -> None:
        """Count what is run: a command that is written is one when it is read and one when it is judged,
        a loop, or what follows ``||``, is one more, and a subshell is four.
        """
        self.commands += number
        if self.commands > MAX_COMMANDS:
            raise Unparsable("the line runs too many commands")

    def call(self, call: Call) -> str:
        """Follow one command with its words resolved, and return what it prints."""
        self.count()
        argv = call.argv
        self.words += len(argv)
        if self.words > MAX_WORDS:
            raise Unparsable("the line gives too many words to commands")
        name = argv[0]
        functions = self.state.functions.get(name)
        if functions is not None:
            self.report(call, name)
            return self.function(name, functions, call)
        if not name.isascii() and marks.marked(name):
            named = nodes.computed(self, call)
            if named is None:
                return UNKNOWN
            name = named
        base = self.program(name)
        call.namesake = "/" in name and self.sink.namesake(base, self.path(name, call.cwd))
        if self.growing and base in _MAKES:
            self.note("endless-output", f"{base} makes files without end")
        if base.startswith("git-") and len(base) > 4 and base not in ("git-lfs", "git-filter-repo"):
            return self.call(msgspec.structs.replace(call, argv=["git", base[4:], *argv[1:]]))
        self.report(call, base)
        if self.typed and base in nodes.PASSWORDS:
            nodes.fed(self, base)
        if call.env or base in BUILDS:
            nodes.variables(self, call, base)
        if self.state.files or call.stdin:
            loads.judge(self, call)
        if self.state.files and ("/" in name or "PATH" in self.state.variables) and self._own(call):
            return UNKNOWN
        if self.trusted is not None and base in self.trusted.names and self.trusted.meets(call):
            if base in _AGENTS:
                self.handlers[base](self, call)  # what it starts
            if base not in _VIEWS or len(argv) == 1:
                return ""
        handler = None if call.namesake else self.handlers.get(base)
        if handler is None and _VERSIONED.fullmatch(base):
            handler = self.handlers.get(base.rstrip("0123456789.tm"))
        if handler is None:
            handler = self.handlers["<other>"]
        self.depth += 1
        if self.depth >= MAX_DEPTH:
            raise Unparsable("commands are nested too deeply")
        try:
            return handler(self, call)
        finally:
            self.depth -= 1

    def _own(self, call: Call) -> bool:
        """Follow a program that is a file of the session; say whether it is one."""
        name = call.argv[0]
        path = self.path(name, call.cwd) if "/" in name else nodes.searched(self, call)
        if path in self.state.links or written(self.state, path) is None:
            return False
        self.depth += 1
        if self.depth >= MAX_DEPTH:
            raise Unparsable("commands are nested too deeply")
        try:
            self.handlers["<file>"](self, msgspec.structs.replace(call, argv=[path, *call.argv[1:]]))
        finally:
            self.depth -= 1
        return True

    def report(self, call: Call, name: str) -> None:
        call.name = name
        self.sink.command(call)

    def program(self, name: str) -> str:
        """Return a program's name without its directory, with the session's copies and links followed."""
        if "/" in name:
            links = self.state.links
            if links:
                name = self.path(name)
            name = name.rpartition("/")[2] or name
        elif self.state.links:
            # A directory of the session in PATH, or `hash -p`.
            target = self.state.links.get("hash:" + name)
            if target is not None:
                return self.program(target)
        if name[:1] == "=":
            name = name[1:]  # where it lies, for zsh
        lower = name.lower()
        if lower.endswith((".exe", ".cmd", ".bat")):
            return lower[:-4]
        if lower != name and lower in self.sink.programs() and name not in self.sink.programs():
            return lower  # macOS finds it as well
        return name

    def function(self, name: str, bodies: tuple[Node, ...], call: Call) -> str:
        """Follow the body of a function."""
        return functions.follow(self, name, bodies, call)
