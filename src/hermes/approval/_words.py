"""Reads the words of bash: quotes, escapes, parameters, substitutions, arithmetic."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes._lazy import Lazy

from ._syntax import Arith, Lit, Part, Proc, Redirect, Seq, Span, Sub, Unparsable, Var, Word

if TYPE_CHECKING:
    from ._parser import Parser

MAX_DEPTH = 30
MAX_PARTS = 9_000

_PLAIN = Lazy(r"[A-Za-z0-9_./:@%+,=^-]+(?=[ \t\n;&|<>)]|\Z)")
_BARE = Lazy(r"[^ \t\n\\'\"`$|&;()<>]+")
_QUOTED = Lazy(r"[^\"\\$`]+")
_BRACED = Lazy(r"[^}\\'\"`$<>]+")
_BRACED_QUOTED = Lazy(r"[^}\\\"`$]+")
_SUBSCRIPT = Lazy(r"[^\]\[\\'\"`$]+")
_DOCUMENT = Lazy(r"[^\\$`]+")
_ARITH = Lazy(r"[^()\\'\"`$]+")
_PATTERN = Lazy(r"[^ \t\n\\'\"`$<>&;|()]+")
_NAME = Lazy(r"[A-Za-z_]\w*|\d|[@*#?$!-]")
_BRACE_NAME = Lazy(r"[A-Za-z_]\w*|\d+|[@*#?$!-]")
_OP = Lazy(r":[-=+?]|[-=+?]|##?|%%?|//|/#|/%|/|\^\^?|,,?|~~?|@[A-Za-z]|:")
_PATTERN_OPS = frozenset("#%/^,~")
_ANSI = Lazy(
    r"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.)|(.))|([^\\]+)|(\\)",
    re.DOTALL,
)
_ANSI_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
# Where an escaped character may stand in a text between quotes.
_ESCAPED = frozenset('$`"\\')

Slot = tuple[list[Redirect], int, str]


class WordReader:
    """The part of the parser that reads words. ``budget`` is shared by all parsers of one request."""

    def __init__(
        self, text: str, *, depth: int = 0, fixed: Span | None = None, budget: list[int] | None = None
    ) -> None:
        self.text = text
        self.pos = 0
        self.end = len(text)
        self.depth = depth
        self.fixed = fixed
        self.budget = [MAX_PARTS] if budget is None else budget
        self.fold = "\\\n" in text
        self.pending: list[tuple[Slot, str, bool, bool]] = []
        self.no_arithmetic: set[int] = set()

    def sequence(self) -> Seq:
        raise NotImplementedError

    def inside(self, text: str, span: Span) -> Parser:
        raise NotImplementedError

    def span(self, start: int) -> Span:
        return (start, self.pos) if self.fixed is None else self.fixed

    def spend(self, number: int = 1) -> None:
        self.budget[0] -= number
        if self.budget[0] < 0:
            raise Unparsable("the line has too many parts", self.pos)

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unparsable("the line is nested too deeply", self.pos)

    # Words

    def word(self) -> Word | None:
        """Read a word, or return None where there is none."""
        self.spend()
        match = _PLAIN.match(self.text, self.pos)
        if match:
            start = self.pos
            self.pos = match.end()
            return Word((), self.span(start), match.group())
        return self.compose(_BARE, "")

    def pattern_word(self) -> Word:
        """Read a word of ``[[ ]]``, where parentheses and the like are no operators of the shell."""
        word = self.compose(_PATTERN, "")
        if word is None:
            raise Unparsable(f"unexpected {self.text[self.pos]!r}", self.pos)
        return word

    def compose(self, chunk: Lazy[str], closer: str) -> Word | None:
        """Read parts outside double quotes, up to ``closer`` or what ends a word."""
        text, start = self.text, self.pos
        parts: list[Part] = []
        seen = False
        while self.pos < self.end:
            match = chunk.match(text, self.pos)
            if match:
                self.pos = match.end()
                parts.append(Lit(match.group(), False))
                continue
            sign = text[self.pos]
            if sign == closer:
                break
            self.spend()
            if sign == "\\":
                if text.startswith("\\\n", self.pos):
                    self.pos += 2
                    continue
                if self.pos + 1 >= self.end:
                    parts.append(Lit("\\", True))
                    self.pos += 1
                    continue
                parts.append(Lit(text[self.pos + 1], True))
                self.pos += 2
            elif sign == "'":
                stop = text.find("'", self.pos + 1)
                if stop < 0:
                    raise Unparsable("a quote is not closed", self.pos)
                parts.append(Lit(text[self.pos + 1 : stop], True))
                self.pos = stop + 1
            elif sign == '"':
                self.double(parts)
            elif sign == "`":
                self.backticks(parts, False)
            elif sign == "$":
                self.dollar(parts, False)
            elif sign in "<>" and text.startswith("(", self.pos + 1):
                direction = sign
                self.pos += 2
                parts.append(Proc(self.substituted(), direction))
            elif sign == "(" and parts and _extglob(parts[-1]):
                last = parts.pop()
                assert isinstance(last, Lit)
                if last.text[:-1]:
                    parts.append(Lit(last.text[:-1], False))
                parts.append(Lit(last.text[-1] + self.balanced(), False))
            elif closer and sign in "<>":
                parts.append(Lit(sign, False))
                self.pos += 1
            elif closer == "]" and sign == "[":
                self.pos += 1
                inner = self.subscript()
                parts += [Lit("[", False), *inner.parts, Lit("]", False)]
            else:
                break
            seen = True
        if not parts and not seen:
            return None
        if len(parts) == 1 and not seen and closer == "":
            lone = parts[0]
            assert isinstance(lone, Lit)
            if not any(sign in lone.text for sign in "*?[{~"):
                return Word((), self.span(start), lone.text)
        if self.fold and "\\\n" in text[start : self.pos] and closer == "":
            joined = "".join(part.text for part in parts if isinstance(part, Lit) and not part.quoted)
            if re.match(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=", joined):
                raise Unparsable("an assignment is split over two lines", start)
        return Word(tuple(parts), self.span(start))

    def balanced(self) -> str:
        """Read the parentheses of an extended pattern as text."""
        start, level = self.pos, 0
        while self.pos < self.end:
            sign = self.text[self.pos]
            if sign in "$`<>'\"\\\n":
                raise Unparsable("a pattern in parentheses is not plain", self.pos)
            self.pos += 1
            level += (sign == "(") - (sign == ")")
            if level == 0:
                return self.text[start : self.pos]
        raise Unparsable("a pattern in parentheses is not closed", start)

    def double(self, parts: list[Part]) -> None:
        """Read text between double quotes."""
        start = self.pos
        self.pos += 1
        text = self.text
        empty = True
        while True:
            match = _QUOTED.match(text, self.pos)
            if match:
                self.pos = match.end()
                parts.append(Lit(match.group(), True))
                empty = False
                continue
            if self.pos >= self.end:
                raise Unparsable("a quote is not closed", start)
            sign = text[self.pos]
            if sign == '"':
                self.pos += 1
                break
            empty = False
            self.special(parts, sign)
        if empty:
            parts.append(Lit("", True))

    def special(self, parts: list[Part], sign: str) -> None:
        """Read a backslash, a dollar or a backtick between quotes."""
        self.spend()
        if sign == "\\":
            following = self.text[self.pos + 1 : self.pos + 2]
            if following == "\n":
                self.pos += 2
            elif following in _ESCAPED and following:
                parts.append(Lit(following, True))
                self.pos += 2
            else:
                parts.append(Lit("\\", True))
                self.pos += 1
        elif sign == "$":
            self.dollar(parts, True)
        else:
            self.backticks(parts, True)

    def document(self) -> Word:
        """Read the whole text as the body of a here-document."""
        parts: list[Part] = []
        while self.pos < self.end:
            match = _DOCUMENT.match(self.text, self.pos)
            if match:
                self.pos = match.end()
                parts.append(Lit(match.group(), True))
            else:
                self.special(parts, self.text[self.pos])
        return Word(tuple(parts), self.span(0))

    # What begins with a dollar

    def dollar(self, parts: list[Part], quoted: bool) -> None:
        text = self.text
        following = text[self.pos + 1 : self.pos + 2]
        if following == "(":
            if text.startswith("((", self.pos + 1):
                saved = self.pos
                expression = self.arithmetic(self.pos + 3, quoted)
                if expression is not None:
                    parts.append(expression)
                    return
                self.pos = saved
            self.pos += 2
            parts.append(Sub(self.substituted(), quoted))
        elif following == "{":
            self.brace(parts, quoted)
        elif following == "[":
            self.pos += 2
            start = self.pos
            inner = self.subscript()
            parts.append(Arith(text[start : self.pos - 1], inner, quoted))
        elif following == "'" and not quoted:
            parts.append(Lit(self.ansi(), True))
        elif following == '"' and not quoted:
            self.pos += 1
            self.double(parts)
        elif following == "\\" and text.startswith("\\\n", self.pos + 1):
            raise Unparsable("an expansion is split over two lines", self.pos)
        else:
            match = _NAME.match(text, self.pos + 1)
            if not match:
                parts.append(Lit("$", True))
                self.pos += 1
                return
            self.pos = match.end()
            if self.fold and text.startswith("\\\n", self.pos):
                raise Unparsable("an expansion is split over two lines", self.pos)
            parts.append(Var(match.group(), quoted))

    def substituted(self) -> Seq:
        """Read the script of a substitution and its closing parenthesis."""
        pending, self.pending = self.pending, []
        self.deeper()
        body = self.sequence()
        self.depth -= 1
        if self.pending:
            raise Unparsable("a here-document does not end inside its substitution", self.pos)
        self.pending = pending
        if not self.text.startswith(")", self.pos):
            raise Unparsable("')' is missing", self.pos)
        self.pos += 1
        return body

    def brace(self, parts: list[Part], quoted: bool) -> None:
        start = self.pos
        text = self.text
        self.pos += 2
        self.deeper()
        if text[self.pos : self.pos + 1] in (" ", "\t", "\n", "|") and self.pos < self.end:
            self.pos += text[self.pos] == "|"
            body = self.sequence()
            if not text.startswith("}", self.pos):
                raise Unparsable("'}' is missing", self.pos)
            self.pos += 1
            self.depth -= 1
            parts.append(Sub(body, quoted))
            return
        indirect = length = False
        if re.compile(r"![A-Za-z_0-9@*#?$!-]").match(text, self.pos):
            indirect = True
            self.pos += 1
        elif re.compile(r"#(?:[A-Za-z_0-9@*?$!]|-\}|#\})").match(text, self.pos):
            length = True
            self.pos += 1
        match = _BRACE_NAME.match(text, self.pos)
        if not match:
            raise Unparsable("an expansion has no name", start)
        name = match.group()
        self.pos = match.end()
        index = None
        if text.startswith("[", self.pos):
            self.pos += 1
            index = self.subscript()
        op, word = "", None
        if not text.startswith("}", self.pos):
            if indirect and re.compile(r"[*@]\}").match(text, self.pos):
                op = "names"
                self.pos += 1
            else:
                found = _OP.match(text, self.pos)
                if not found:
                    raise Unparsable("an expansion cannot be read", start)
                op = found.group()
                self.pos = found.end()
                word = self.operand(quoted and op[0] not in _PATTERN_OPS)
        if not text.startswith("}", self.pos):
            raise Unparsable("'}' is missing", start)
        self.pos += 1
        self.depth -= 1
        parts.append(Var(name, quoted, index, "#len" if length else op, word, indirect))

    def operand(self, quoted: bool) -> Word:
        """Read the word after an operator of ``${}``, up to the brace."""
        start = self.pos
        if not quoted:
            return self.compose(_BRACED, "}") or Word((), self.span(start), "")
        parts: list[Part] = []
        while self.pos < self.end:
            match = _BRACED_QUOTED.match(self.text, self.pos)
            if match:
                self.pos = match.end()
                parts.append(Lit(match.group(), True))
                continue
            sign = self.text[self.pos]
            if sign == "}":
                break
            if sign == '"':
                self.double(parts)
            elif sign == "\\" and self.text.startswith("\\}", self.pos):
                self.pos += 2
                parts.append(Lit("}", True))
            else:
                self.special(parts, sign)
        return Word(tuple(parts), self.span(start))

    def subscript(self) -> Word:
        """Read up to the bracket that closes, and take it."""
        start = self.pos
        self.deeper()
        word = self.compose(_SUBSCRIPT, "]")
        self.depth -= 1
        if not self.text.startswith("]", self.pos):
            raise Unparsable("']' is missing", start)
        self.pos += 1
        return word or Word((), self.span(start), "")

    def arithmetic(self, start: int, quoted: bool) -> Arith | None:
        """Read an expression up to ``))``; None where the parentheses turn out to be something else."""
        if start in self.no_arithmetic:
            return None
        text, saved = self.text, self.depth
        self.pos = start
        parts: list[Part] = []
        level = 0
        try:
            self.deeper()
            while self.pos < self.end:
                match = _ARITH.match(text, self.pos)
                if match:
                    self.pos = match.end()
                    parts.append(Lit(match.group(), True))
                    continue
                sign = text[self.pos]
                self.spend()
                if sign == "(":
                    level += 1
                    self.pos += 1
                elif sign == ")":
                    if level == 0:
                        break
                    level -= 1
                    self.pos += 1
                elif sign == '"':
                    self.double(parts)
                elif sign == "'":
                    stop = text.find("'", self.pos + 1)
                    if stop < 0:
                        break
                    self.pos = stop + 1
                else:
                    self.special(parts, sign)
        except Unparsable:
            self.no_arithmetic.add(start)
            self.depth = saved
            if self.budget[0] < 0 or saved >= MAX_DEPTH - 1:
                raise
            return None
        self.depth = saved
        if level == 0 and text.startswith("))", self.pos):
            stop = self.pos
            self.pos += 2
            return Arith(text[start:stop], Word(tuple(parts), self.span(start)), quoted)
        self.no_arithmetic.add(start)
        return None

    # Backticks and $'..'

    def backticks(self, parts: list[Part], quoted: bool) -> None:
        start = self.pos
        text = self.text
        pieces: list[str] = []
        self.pos += 1
        while True:
            if self.pos >= self.end:
                raise Unparsable("a backtick is not closed", start)
            sign = text[self.pos]
            if sign == "`":
                self.pos += 1
                break
            following = text[self.pos + 1 : self.pos + 2]
            if sign == "\\" and following and following in ('$`\\"' if quoted else "$`\\"):
                pieces.append(following)
                self.pos += 2
            else:
                pieces.append(sign)
                self.pos += 1
        self.deeper()
        body = self.inside("".join(pieces), self.span(start)).script()
        self.depth -= 1
        parts.append(Sub(body, quoted))

    def ansi(self) -> str:
        """Read ``$'..'``."""
        start = self.pos
        self.pos += 2
        while True:
            match = re.compile(r"[^'\\]*").match(self.text, self.pos)
            assert match is not None
            self.pos = match.end()
            if self.pos >= self.end:
                raise Unparsable("a quote is not closed", start)
            if self.text[self.pos] == "'":
                break
            self.pos += 2
        raw = self.text[start + 2 : self.pos]
        self.pos += 1
        return ansi_unescape(raw)


def ansi_unescape(raw: str) -> str:
    """Return what ``$'raw'`` stands for. Bytes above 127 that are no text become U+FFFD."""
    out: list[str] = []
    high = bytearray()

    def flush() -> None:
        if high:
            out.append(high.decode("utf-8", "replace"))
            high.clear()

    for match in _ANSI.finditer(raw):
        hexa, octal, short, long, control, single, text, stray = match.groups()
        code = int(hexa, 16) if hexa else int(octal, 8) & 0xFF if octal else None
        if code is not None:
            if code == 0:
                break  # bash ends the text here
            if code > 127:
                high.append(code)
                continue
            flush()
            out.append(chr(code))
            continue
        flush()
        if short or long:
            point = int(short or long, 16)
            if point == 0:
                break
            out.append(chr(point) if point < 0x110000 and not 0xD800 <= point < 0xE000 else "\ufffd")
        elif control:
            out.append(chr(ord(control) & 0x1F))
        elif single:
            out.append(_ANSI_SIMPLE.get(single, single if single in "\\'\"?" else "\\" + single))
        else:
            out.append(text or stray)
    flush()
    return "".join(out)


def _extglob(part: Part) -> bool:
    return isinstance(part, Lit) and not part.quoted and part.text[-1:] in ("?", "*", "+", "@", "!")
