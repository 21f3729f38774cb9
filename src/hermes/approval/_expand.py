"""From words to texts: what the shell makes of them before it runs anything."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

from hermes._lazy import Lazy

from . import _marks as marks
from ._globs import MAX_PATTERN
from ._marks import SPLIT, UNKNOWN
from ._state import State, Value
from ._syntax import Arith, Lit, Part, Proc, Seq, Sub, Unparsable, Var, Word

MAX_FIELDS = 2000
MAX_TEXT = 128 * 1024
MAX_PATTERNS = 150
MAX_SUM = 2000  # characters of a value in arithmetic
MAX_BRACES = 4000  # characters between two braces
_SECRET_NAME = Lazy(
    r"(?:.*_)?(?:API_?KEYS?|SECRETS?|SECRET_\w+|TOKENS?|PASSWORDS?|PASSWD|"
    r"PASSPHRASE|CREDENTIALS?|ACCESS_KEYS?|PRIVATE_KEYS?|APIKEY|PGPASSWORD|"
    r"\w*_SECRET_KEY|\w*_ACCESS_KEY|\w*PASSWORD|\w*TOKEN)",
    re.IGNORECASE,
)
_SUM = Lazy(r"\s*-?\d+(?:\s*[-+*]\s*\d+)*\s*")
_NAMES = Lazy(r"[A-Za-z_]\w*")
_GLOB_SIGNS = Lazy(r"[*?\[]")
_ALONE = Lazy(r"@\(([\w.-]+)\)")
_EXTENDED = Lazy(r"[?*+@!]\([^()]*\)?[^()]*\)?")
_RANGE = Lazy(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.(-?\d+))?")
_HOLE = 0x10FE00


def secret_name(name: str) -> bool:
    """Say whether a variable of this name holds a credential by its name."""
    return _SECRET_NAME.fullmatch(name) is not None


class Expander:
    """Expands words in a state. ``run`` runs the script of a substitution and returns its output; ``note``
    takes what has to be asked about, as a reason.
    """

    def __init__(
        self,
        state: State,
        *,
        home: str,
        run: Callable[[Seq, State, str | None], str],
        note: Callable[[str, str], None],
        evaluate: Callable[[str], None],
        given: Callable[[str, str], None],
        compared: set[str],
    ) -> None:
        self.state = state
        self.home = home
        self._run = run
        self._note = note
        self._evaluate = evaluate
        self._given = given
        self._compared = compared

    def fields(self, words: Sequence[Word]) -> list[str]:
        """Return the fields that words become."""
        out: list[str] = []
        for word in words:
            if word.simple is not None:
                out.append(word.simple)
            else:
                out += self.word(word)
                if len(out) > MAX_FIELDS * 10:
                    raise Unparsable("the line expands to too many words")
        return out

    def word(self, word: Word) -> list[str]:
        """Return the fields of one word."""
        if word.simple is not None:
            return [word.simple]
        parts = word.parts
        if any(isinstance(part, Lit) and not part.quoted and "{" in part.text for part in parts):
            out: list[str] = []
            for one in _braces_of(parts):
                out += self._fields(one)
            return out
        return self._fields(parts)

    def compare(self, pattern: str) -> str:
        """Count the different patterns of a line: each takes time of its own."""
        self._compared.add(pattern)
        if len(self._compared) > MAX_PATTERNS:
            raise Unparsable("the line has too many patterns")
        return pattern

    def text(self, word: Word | None, *, assignment: bool = False) -> str:
        """Return the text of a word where it is not split: a value, a target, a document."""
        if word is None:
            return ""
        if word.simple is not None:
            return word.simple
        out: list[str] = []
        for number, part in enumerate(word.parts):
            if isinstance(part, Lit):
                text = part.text
                if not part.quoted:
                    if number == 0 and text.startswith("~"):
                        text = self._tilde(text)
                    if assignment and ":~" in text:
                        text = text.replace(":~", f":{self.home}")
                out.append(text)
            else:
                value = self._value(part)
                out.append(value if isinstance(value, str) else " ".join(value))
        return marks.cut("".join(out), MAX_TEXT)

    def pattern(self, word: Word) -> str:
        """Return the text of a word, with the glob characters that are not quoted active."""
        if word.simple is not None:
            return self.compare(word.simple)
        out: list[str] = []
        for part in word.parts:
            if isinstance(part, Lit):
                if not part.quoted and _EXTENDED.match(part.text):
                    out.append(self._extended(part.text, UNKNOWN))
                else:
                    out.append(part.text if part.quoted else marks.active(part.text))
            else:
                value = self._value(part)
                text = value if isinstance(value, str) else " ".join(value)
                out.append(marks.active(text) if not part_quoted(part) else text)
        return self.compare(marks.cut("".join(out), MAX_TEXT))

    # Fields

    def _fields(self, parts: Sequence[Part]) -> list[str]:
        done: list[str] = []
        current = ""
        open_field = False
        splitter = self._separators()
        for number, part in enumerate(parts):
            if isinstance(part, Lit):
                text = part.text
                if not part.quoted:
                    if number == 0 and text.startswith("~"):
                        text = self._tilde(text)
                    elif "~" in text and "=" in text:
                        text = re.sub(r"(?<==)~(?=/|$)", self.home.replace("\\", r"\\"), text)
                    if _EXTENDED.match(text):
                        # All but a few names is as good as all; of the rest it is not known.
                        text = self._extended(text, marks.STAR + ("" if text[0] == "!" else UNKNOWN))
                    elif _GLOB_SIGNS.search(text):
                        text = marks.active(text)
                current += text
                open_field = open_field or part.quoted or bool(text)
                continue
            value = self._value(part)
            if part_quoted(part):
                if isinstance(value, str):
                    current += value
                    open_field = True
                elif value:
                    current += value[0]
                    for text in value[1:]:
                        done.append(current)
                        current = text
                    open_field = True
                continue
            for text in [value] if isinstance(value, str) else value:
                if not isinstance(value, str) and open_field and text is not value[0]:
                    done.append(current)
                    current, open_field = "", False
                if text == "":
                    continue
                pieces, before, after = splitter(text)
                if before and open_field:
                    done.append(current)
                    current, open_field = "", False
                for index, piece in enumerate(pieces):
                    if index:
                        done.append(current)
                        current = ""
                    if "extglob" in self.state.options and _EXTENDED.search(piece):
                        piece = _EXTENDED.sub("*" + UNKNOWN, _ALONE.sub(r"\1", piece))
                    current += marks.unquoted(piece)
                    open_field = True
                if after and open_field and pieces:
                    done.append(current)
                    current, open_field = "", False
        if open_field:
            done.append(current)
        if len(done) > MAX_FIELDS:
            raise Unparsable("a word expands to too many words")
        return [marks.cut(self.compare(one) if marks.globbed(one) else one, MAX_TEXT) for one in done]

    def _extended(self, text: str, mark: str) -> str:
        """Return what stands for an extended pattern, ``+(a|b)``, of which no more is known."""
        if "$(" in text or "`" in text:
            self._evaluate(text)
        alone = _ALONE.fullmatch(text)
        return alone.group(1) if alone else mark

    def _separators(self) -> Callable[[str], tuple[list[str], bool, bool]]:
        value = self.state.variables.get("IFS", " \t\n")
        if not isinstance(value, str):
            value = " \t\n"
        if marks.unknown(value):
            # Whatever it is, the text may fall apart anywhere.
            return lambda text: ([SPLIT] if text else [], False, False)
        blank = "".join(sign for sign in value if sign in " \t\n")
        other = "".join(sign for sign in value if sign not in " \t\n")

        def split(text: str) -> tuple[list[str], bool, bool]:
            if not other:
                if not blank:
                    return ([text] if text else [], False, False)
                if blank == " \t\n":
                    pieces = re.split(r"[ \t\n]+", text)
                else:
                    pieces = re.split(f"[{re.escape(blank)}]+", text)
                before, after = pieces[0] == "", pieces[-1] == ""
                return ([piece for piece in pieces if piece], before, after)
            space = f"[{re.escape(blank)}]*" if blank else ""
            around = f"{space}[{re.escape(other)}]{space}" + (f"|[{re.escape(blank)}]+" if blank else "")
            pieces = re.split(around, text)
            after = len(pieces) > 1 and pieces[-1] == ""
            return (pieces[:-1] if after else pieces if text else [], False, after)

        return split

    def _tilde(self, text: str) -> str:
        user, slash, rest = text.partition("/")
        if user == "~":
            home = self.state.variables.get("HOME", self.home)
            base = home if isinstance(home, str) else UNKNOWN
        elif user == "~+":
            base = self.state.cwd
        elif user == "~-":
            base = self.state.previous
        elif user == "~root":
            base = "/root"
        elif re.fullmatch(r"~[a-z_][\w.-]*", user):
            base = self.home if self.home.endswith("/" + user[1:]) else "/home/" + user[1:]
        else:
            return text
        return base + slash + rest

    # Values

    def _value(self, part: Part) -> str | list[str]:
        if isinstance(part, Var):
            return self._variable(part)
        if isinstance(part, Sub):
            return marks.output(self._run(part.body, self.state.fork(), None)).rstrip("\n")
        if isinstance(part, Arith):
            return self.arithmetic(part)
        if isinstance(part, Proc):
            return self.process(part)
        return part.text

    def process(self, part: Proc) -> str:
        """Run a process substitution; what can be read of it is a file of the session."""
        state = self.state.fork()
        path = f"/dev/fd/{len(self.state.files) + 1000}"
        if part.direction == "<":
            self.state.write(path, self._run(part.body, state, None))
        else:
            # What is written to it is not followed: it is text that a command printed.
            self._run(part.body, state, UNKNOWN + marks.OUTPUT)
        return path

    def arithmetic(self, part: Arith) -> str:
        text = self.text(part.inner)
        self.check_arithmetic(text)
        if _SUM.fullmatch(text) and len(text) < 60:
            total, sign = 0, 1
            for term in re.findall(r"[-+]|\d+(?:\s*\*\s*\d+)*", text):
                if term in "+-":
                    sign = 1 if term == "+" else -1
                    continue
                product = sign
                for factor in term.split("*"):
                    product *= int(factor)
                total, sign = total + product, 1
            return str(total)
        name = text.strip()
        value = self.state.variables.get(name) if name.isidentifier() else None
        if isinstance(value, str) and value.isdigit():
            return value
        return UNKNOWN

    def check_arithmetic(self, text: str) -> None:
        """Look for scripts in what arithmetic evaluates: a subscript in the value of a variable is run, and
        a value may be the name of another variable.
        """
        if text.isdigit():
            return
        if "$(" in text or "`" in text:
            self._note("arithmetic-code", "arithmetic that runs a command in a text")
            self._evaluate(text)
        seen: set[str] = set()
        texts = [text]
        while texts:
            for name in _NAMES.findall(texts.pop()):
                if name in seen:
                    continue
                seen.add(name)
                for one in self._held(name):
                    if "$(" in one or "`" in one:
                        self._note("arithmetic-code", f"arithmetic that runs what is in the variable {name}")
                        self._evaluate(one)
                    elif len(one) <= MAX_SUM:
                        texts.append(one)
                    else:
                        self._note("arithmetic-code", f"arithmetic with a long text in the variable {name}")

    def check_subscript(self, name: str) -> None:
        """Look for scripts in the subscript of a name that a command is given: it is arithmetic."""
        index = name.partition("[")[2] if "[" in name else name if "$(" in name or "`" in name else ""
        if index:
            self.check_arithmetic(index)

    def _held(self, name: str) -> Sequence[str]:
        variables = self.state.variables
        value = variables.get(name)
        if value is None:
            named = variables.get("&" + name)
            value = variables.get(named, named) if isinstance(named, str) else None
        return [value] if isinstance(value, str) else value or ()

    def get(self, name: str) -> Value | list[str]:
        """Return the value of a variable; UNKNOWN for one of the environment that was never set here."""
        state = self.state
        if name in ("@", "*"):
            return (
                [SPLIT]
                if state.parameters is None
                else list(state.parameters[1:] if state.parameters else ())
            )
        if name.isdigit():
            number = int(name)
            if number == 0:
                return state.parameters[0] if state.parameters else "bash"
            if state.parameters is None:
                return UNKNOWN
            if any(SPLIT in one for one in state.parameters[1 : number + 1]):
                return UNKNOWN  # how many words come before it is not known
            return state.parameters[number] if number < len(state.parameters) else ""
        if name in state.variables:
            return state.variables[name]
        named = state.variables.get("&" + name)
        if isinstance(named, str) and named != name and "&" + named not in state.variables:
            return self.get(named)
        if name == "_":
            return state.last
        if name == "HOME":
            return self.home
        if name == "PWD":
            return self.whole(state.cwd)
        if name == "OLDPWD":
            return self.whole(state.previous)
        if name in ("SHELL", "BASH"):
            return "/bin/bash"
        if name == "IFS":
            return " \t\n"
        if name == "PATH":
            return "/usr/" + UNKNOWN
        if name == "#":
            return UNKNOWN if state.parameters is None else str(max(0, len(state.parameters) - 1))
        if name == "-":
            return "hB"
        if name == "BASH_REMATCH":
            return UNKNOWN
        if name == "$":
            return UNKNOWN + marks.PIDS
        if name == "RANDOM" or name == "?" or name == "SECONDS":
            return UNKNOWN
        if name == "PPID":
            return UNKNOWN + marks.PIDS
        if name == "XDG_RUNTIME_DIR":
            return "/run/user/" + UNKNOWN
        if name == "HERMES_HOME":
            return self.home + "/.hermes"
        if secret_name(name):
            return UNKNOWN + marks.KEY
        return UNKNOWN

    def whole(self, path: str) -> str:
        """Return a directory as the shell would print it: ``~`` is written out where it is known."""
        return self.home + path[1:] if path == "~" or path[:2] == "~/" else path

    def known(self, name: str) -> bool:
        """Say whether a name was set (or unset) in the session, or is the shell's own."""
        return (
            name in self.state.variables
            or not re.fullmatch(r"[A-Za-z_]\w*", name)
            or name in ("HOME", "PWD", "PATH")
        )

    def _variable(self, part: Var) -> str | list[str]:
        name = part.name
        if part.op == "names":
            return SPLIT
        raw: Value | list[str]
        if part.index is not None:
            index = self.text(part.index)
            if index not in ("@", "*"):
                self.check_arithmetic(index)
            raw = self._element(name, index)
            if part.indirect:
                return UNKNOWN if part.op != "" or not isinstance(raw, str) else self._indirect(raw, part)
        else:
            raw = self.get(name)
            if part.indirect:
                return self._indirect(raw, part)
            if isinstance(raw, list) and name not in ("@", "*"):
                raw = raw[0] if raw else ""
        value = self._operate(part, raw)
        if (
            isinstance(value, list)
            and (name == "*" or (part.index is not None and part.index.simple == "*") or _star(part.index))
            and part.quoted
        ):
            separator = self.state.variables.get("IFS", " ")
            return (separator[:1] if isinstance(separator, str) else " ").join(value)
        return value

    def _element(self, name: str, index: str) -> Value:
        keyed = self.state.variables.get(f"{name}[{index}]")
        if isinstance(keyed, str):
            return keyed
        number = self.state.variables.get(index)
        if isinstance(number, str) and number.isdigit():
            index = number
        value = self.state.variables.get(name)
        if value is None:
            value = self.get(name) if name not in self.state.variables else ""
        if isinstance(value, str):
            if index in ("@", "*", "0"):
                return [value] if value and index != "0" else value
            # An index that is a name or a sum may come to 0.
            return "" if index.isdigit() and not marks.unknown(value) else UNKNOWN
        assert isinstance(value, list)
        if index in ("@", "*"):
            return list(value)
        if re.fullmatch(r"-?\d+", index):
            place = int(index)
            if any(SPLIT in one for one in (value[:place] if place >= 0 else value)):
                return UNKNOWN
            return value[place] if -len(value) <= place < len(value) else ""
        return UNKNOWN + "".join(sorted({mark for one in value for mark in one if mark in marks.kinds(one)}))

    def _indirect(self, raw: Value, part: Var) -> str | list[str]:
        if isinstance(raw, str) and re.fullmatch(r"[A-Za-z_]\w*|\d+|[@*]", raw):
            return self._operate(part, self.get(raw))
        if isinstance(raw, str) and "[" in raw and ("$(" in raw or "`" in raw):
            self._note("arithmetic-code", "an indirect expansion that runs a command")
            self._evaluate(raw)
        return UNKNOWN

    def _operate(self, part: Var, raw: Value | list[str]) -> str | list[str]:
        op, word = part.op, part.word
        if op == "":
            return "" if raw is None else raw
        if op == "#len":
            if isinstance(raw, list):
                return str(len(raw)) if SPLIT not in raw else UNKNOWN
            return UNKNOWN if raw is not None and marks.marked(raw) else str(len(raw or ""))
        colon = op.lstrip(":")
        if colon in ("-", "=", "?", "+") and word is not None:
            return self._default(part, raw, op, colon, word)
        if isinstance(raw, list):
            if op == ":":
                return self._slice_list(part, raw, self.text(word))
            argument = self.pattern(word) if word is not None else ""
            return [self._edit(one, op, argument) for one in raw]
        if op == ":":
            return self._substring(raw or "", self.text(word))
        return self._edit(raw or "", op, self.pattern(word) if word is not None else "")

    def _default(self, part: Var, raw: Value | list[str], op: str, kind: str, word: Word) -> str | list[str]:
        empty = raw is None or raw == [] or (raw == "" and op.startswith(":"))
        unset = not self.known(part.name)
        if kind == "+":
            if empty and not unset:
                return ""
            return self._inner(word, part)
        if kind == "?":
            if word.simple is None:
                self.text(word)
            return "" if raw is None else raw
        if not empty and not unset:
            return "" if raw is None else raw
        value = self._inner(word, part)
        if kind == "=" and re.fullmatch(r"[A-Za-z_]\w*", part.name):
            self._given(part.name, value if isinstance(value, str) else " ".join(value))
        if unset and isinstance(raw, str) and marks.KEY in raw:
            return (value if isinstance(value, str) else " ".join(value)) + marks.KEY
        return value

    def _inner(self, word: Word, part: Var) -> str | list[str]:
        if part.quoted:
            return self.text(word)
        found = self.word(word) if word.parts else [word.simple or ""]
        return found[0] if len(found) == 1 else found

    def _slice_list(self, part: Var, raw: list[str], text: str) -> list[str]:
        self.check_arithmetic(text)
        numbers = [self._number(one) for one in text.split(":")]
        if not all(re.fullmatch(r"-?\d+", one) for one in numbers):
            return [SPLIT]
        if len(raw) == 1 and marks.unknown(raw[0]):
            return [SPLIT]  # an array of which nothing is known
        start = int(numbers[0])
        if part.index is None and start >= 0:
            # Of the parameters the first is the name of the script.
            start, raw = start, [(self.state.parameters or ("bash",))[0], *raw]
        elif "[" + part.name in self.state.variables:
            return [SPLIT]  # it has gaps
        if start < 0:
            start = len(raw) + start
            if start < 0:
                return []
        stop = start + int(numbers[1]) if len(numbers) > 1 else len(raw)
        if any(SPLIT in one for one in raw[:stop]):
            return [SPLIT, *(one for one in raw[:stop] if SPLIT not in one)]
        return raw[start:stop]

    def _number(self, text: str) -> str:
        """Return the number of an offset, which may be the name of a variable."""
        text = text.strip() or "0"
        held = self.state.variables.get(text) if text.isidentifier() else None
        return held if isinstance(held, str) and held.isdigit() else text

    def _substring(self, raw: str, text: str) -> str:
        self.check_arithmetic(text)
        numbers = [self._number(one) for one in text.split(":")]
        if not all(re.fullmatch(r"-?\d+", one) for one in numbers):
            return marks.kinds(raw)
        first = next((index for index, sign in enumerate(raw) if marks.marked(sign)), None)
        start = int(numbers[0])
        length = int(numbers[1]) if len(numbers) > 1 else None
        if length == 0:
            return ""
        if first is not None:
            if start >= 0 and length is not None and length > 0 and start + length <= first:
                return raw[start : start + length]
            return marks.kinds(raw)
        if start < 0:
            start = max(0, len(raw) + start)
        if length is None:
            return raw[start:]
        return raw[start:length] if length < 0 else raw[start : start + length]

    def _edit(self, raw: str, op: str, argument: str) -> str:
        """Apply an operator that edits a text."""
        if op[0] == "@":
            if op == "@U":
                return raw.upper()
            if op == "@L":
                return raw.lower()
            if op in ("@Q", "@A", "@K", "@k", "@a", "@u"):
                return (
                    marks.kinds(raw)
                    if op != "@Q" or marks.marked(raw)
                    else "'" + raw.replace("'", "'\\''") + "'"
                )
            if op == "@P" and ("$(" in raw or "`" in raw or marks.unknown(raw)):
                self._note("prompt-code", "an expansion that runs what is in a text")
            return marks.kinds(raw)
        if raw == "":
            return ""
        if op in ("##", "#", "%", "%%") and marks.unknown(raw):
            return self._trim_unknown(raw, op, argument)
        if marks.unknown(raw) or marks.unknown(argument):
            return marks.kinds(raw, argument)
        if op[0] in "^,~":
            if argument:
                return UNKNOWN
            change = str.upper if op[0] == "^" else str.lower if op[0] == "," else str.swapcase
            return change(raw) if len(op) == 2 else change(raw[0]) + raw[1:]
        if len(raw) > 200 or len(argument) > MAX_PATTERN or argument.count(marks.STAR) > 2:
            return UNKNOWN
        if op[0] in "#%":
            return _trim(raw, op, argument)
        pattern, replacement = _halves(argument)
        try:
            compiled = re.compile(_translate(pattern), re.DOTALL)
        except re.error:
            return UNKNOWN
        if op == "/#":
            match = compiled.match(raw)
            return replacement + raw[match.end() :] if match else raw
        if op == "/%":
            anchored = re.compile(f"(?:{_translate(pattern)})\\Z", re.DOTALL).search(raw)
            return raw[: anchored.start()] + replacement if anchored else raw
        if pattern == "":
            return raw
        count = 0 if op == "//" else 1
        return marks.cut(compiled.sub(lambda _: marks.plain(replacement), raw, count=count), MAX_TEXT)

    def _trim_unknown(self, raw: str, op: str, argument: str) -> str:
        # `${f%.txt}` of a name that is known up to the pattern keeps what is known.
        if not marks.marked(argument):
            if op[0] == "%" and raw.endswith(argument):
                return raw[: len(raw) - len(argument)] or UNKNOWN
            if op[0] == "#" and raw.startswith(argument):
                return raw[len(argument) :] or UNKNOWN
        return marks.kinds(raw)


def part_quoted(part: Part) -> bool:
    """Say whether what a part becomes is not split."""
    return isinstance(part, Proc) or part.quoted


def _star(index: Word | None) -> bool:
    return (
        index is not None
        and len(index.parts) == 1
        and isinstance(index.parts[0], Lit)
        and index.parts[0].text == "*"
    )


def _translate(pattern: str) -> str:
    """Return the regular expression of a glob whose active characters are marks."""
    out = ""
    index = 0
    while index < len(pattern):
        sign = pattern[index]
        index += 1
        if sign == marks.STAR:
            out += ".*"
        elif sign == marks.QUESTION:
            out += "."
        elif sign == marks.BRACKET:
            stop = pattern.find("]", index + 1)
            if stop < 0:
                out += r"\["
                continue
            inside = pattern[index:stop].replace("\\", r"\\")
            index = stop + 1
            out += "[" + ("^" + inside[1:] if inside[:1] in ("!", "^") else inside) + "]"
        else:
            out += re.escape(sign)
    return out


def _trim(raw: str, op: str, pattern: str) -> str:
    try:
        compiled = re.compile(_translate(pattern), re.DOTALL)
    except re.error:
        return UNKNOWN
    cuts = range(len(raw) + 1) if op in ("#", "%%") else range(len(raw), -1, -1)
    for cut in cuts:
        if op[0] == "#" and compiled.fullmatch(raw, 0, cut):
            return raw[cut:]
        if op[0] == "%" and compiled.fullmatch(raw, cut):
            return raw[:cut]
    return raw


def _halves(argument: str) -> tuple[str, str]:
    pattern, _, replacement = argument.partition("/")
    return pattern, replacement


# Braces


def _braces_of(parts: Sequence[Part]) -> list[list[Part]]:
    """Return the words that brace expansion makes of one. What is not plain text stands in it as one
    character.
    """
    holes: list[Part] = []
    text = ""
    for part in parts:
        if isinstance(part, Lit) and not part.quoted:
            text += part.text
        else:
            if len(holes) > 200:
                raise Unparsable("a word with braces has too many parts")
            text += chr(_HOLE + len(holes))
            holes.append(part)
    out: list[list[Part]] = []
    for one in braces(text):
        built: list[Part] = []
        for piece in re.split("([\U0010fe00-\U0010fed0])", one):
            if piece and _HOLE <= ord(piece[0]) < _HOLE + len(holes):
                built.append(holes[ord(piece[0]) - _HOLE])
            elif piece:
                built.append(Lit(piece, False))
        out.append(built)
    return out


def braces(text: str, depth: int = 0) -> list[str]:
    """Return what brace expansion makes of a text, which has no quotes in it."""
    if depth > 8 or text.count("{") > 60:
        raise Unparsable("there are too many braces")
    start = text.find("{")
    while start >= 0:
        stop, commas = _closing(text, start)
        if stop >= 0:
            inside = text[start + 1 : stop]
            options: list[str] | None = None
            if commas:
                options = []
                for piece in _pieces(inside, commas, start + 1):
                    options += braces(piece, depth + 1)
            elif match := _RANGE.fullmatch(inside):
                options = _range(*match.groups())
            if options is not None:
                tails = braces(text[stop + 1 :], depth)
                if len(options) * len(tails) > MAX_FIELDS:
                    raise Unparsable("braces expand to too many words")
                return [text[:start] + option + tail for option in options for tail in tails]
        start = text.find("{", start + 1)
    return [text]


def _closing(text: str, start: int) -> tuple[int, list[int]]:
    level = 0
    commas: list[int] = []
    for index in range(start, min(len(text), start + MAX_BRACES)):
        sign = text[index]
        if sign == "{":
            level += 1
        elif sign == "}":
            level -= 1
            if level == 0:
                return index, commas
        elif sign == "," and level == 1:
            commas.append(index)
    if len(text) > start + MAX_BRACES:
        raise Unparsable("there is too much between braces")
    return -1, commas


def _pieces(inside: str, commas: list[int], offset: int) -> list[str]:
    edges = [-1, *(comma - offset for comma in commas), len(inside)]
    return [inside[left + 1 : right] for left, right in itertools.pairwise(edges)]


def _range(first: str, last: str, step: str | None) -> list[str] | None:
    stride = abs(int(step)) if step else 1
    stride = stride or 1
    if first.lstrip("-").isdigit() and last.lstrip("-").isdigit():
        low, high = int(first), int(last)
        width = max(len(first), len(last)) if first.startswith("0") or last.startswith("0") else 0
    elif len(first) == len(last) == 1 and first.isalpha() and last.isalpha():
        low, high = ord(first), ord(last)
        width = -1
    else:
        return None
    if abs(high - low) // stride > 100_000:
        return [SPLIT]
    numbers = range(low, high + 1, stride) if low <= high else range(low, high - 1, -stride)
    if len(numbers) > 1000:
        return [SPLIT]
    return [chr(number) if width < 0 else str(number).zfill(width) for number in numbers]


def matches(value: str, pattern: str) -> bool | None:
    """Say whether a text matches a pattern of ``case``; None where that is not known."""
    if marks.unknown(value) or marks.unknown(pattern):
        return None
    if len(value) > 200 or len(pattern) > MAX_PATTERN or pattern.count(marks.STAR) > 2:
        return None
    try:
        return re.fullmatch(_translate(pattern), value, re.DOTALL) is not None
    except re.error:
        return None
