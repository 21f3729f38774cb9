"""Reads bash: lists, pipelines, commands, redirections. Words are read in `_words`.

Everything is read once from left to right, so the time is linear; depth and the number of parts are bounded,
and what
goes past a bound is unparsable, which is asked about.
"""

from __future__ import annotations

import re
from typing import Literal

from hermes._lazy import Lazy

from ._syntax import (
    Assign,
    Case,
    CFor,
    Coproc,
    For,
    Function,
    Group,
    If,
    Item,
    Lit,
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
    Word,
)
from ._words import WordReader

_BLANK = Lazy(r"(?:[ \t]|\\\n)+")
_OPERATOR_SIGNS = frozenset(";&|\n()")
_REDIRECT_SIGNS = frozenset("<>&{0123456789")
_OPERATOR = Lazy(r"&&|\|\||;;&|;;|;&|\|&|[;&|\n()]")
_REDIRECT = Lazy(r"(\d+|\{[A-Za-z_]\w*\})?(&>>|&>|<<<|<<-|<<|<>|<&|>>|>&|>\||<(?!\()|>(?!\())")
_ASSIGN = Lazy(r"([A-Za-z_]\w*)(\+?=|\[)")
_NAME = Lazy(r"[A-Za-z_]\w*")
_RESERVED = Lazy(
    r"(?:if|then|elif|else|fi|while|until|done|do|for|select|case|esac|function|time|coproc|\[\[|[{}!])"
)
_NEXT = Lazy(r"[ \t]+([A-Za-z0-9_./:@%+,=^-]+)(?=[ \t\n;|]|\Z)")
# A command of plain words alone, up to what ends it; none of them is an assignment in front of it.
_COMMAND = Lazy(r"([A-Za-z0-9_./:@%+,^-]++)(?:[ \t]++[A-Za-z0-9_./:@%+,=^-]++)*+[ \t]*+(?=[;\n|)]|&(?!>)|\Z)")
_WORDS = Lazy(r"[^ \t]+")
_AFTER = Lazy(r"(?=[ \t\n;|&()<>]|\\\n|$)")
_FUNCTION = Lazy(r"([^\s\\'\"`$|&;()<>{}=!#][^\s\\'\"`$|&;()<>=]*)(?:[ \t]|\\\n)*\((?:[ \t]|\\\n)*\)")
_DECLARES = frozenset(("declare", "typeset", "local", "export", "readonly"))
_CLOSERS = frozenset(("then", "elif", "else", "fi", "do", "done", "esac", "}"))


class Parser(WordReader):
    """Reads one script."""

    def script(self) -> Seq:
        """Read the whole text."""
        body = self.sequence()
        if self.pos < self.end:
            raise Unparsable(f"unexpected {self.text[self.pos : self.pos + 10]!r}", self.pos)
        self.bodies()
        return body

    # Blanks, operators, here-documents

    def blanks(self) -> None:
        text = self.text
        while self.pos < self.end:
            sign = text[self.pos]
            if sign == "#":
                # Only called between words, so this begins one.
                stop = text.find("\n", self.pos)
                self.pos = self.end if stop < 0 else stop
                return
            if sign not in " \t\\":
                return
            match = _BLANK.match(text, self.pos)
            if not match:
                return
            self.pos = match.end()

    def newlines(self) -> None:
        """Skip blanks, comments and ends of lines."""
        while True:
            self.blanks()
            if self.pos < self.end and self.text[self.pos] == "\n":
                self.pos += 1
                self.bodies()
            else:
                return

    def operator(self) -> str:
        """Return the operator that comes next, without taking it; empty for a word or the end."""
        self.blanks()
        if self.pos >= self.end or self.text[self.pos] not in _OPERATOR_SIGNS:
            return ""
        match = _OPERATOR.match(self.text, self.pos)
        assert match is not None
        found = match.group()
        if found == "&" and self.text.startswith("&>", self.pos):
            return ""
        return found

    def bodies(self) -> None:
        """Read the bodies of the here-documents that were announced on the line that has just ended."""
        if not self.pending:
            return
        pending, self.pending = self.pending, []
        for slot, delimiter, quoted, tabs in pending:
            lines: list[str] = []
            start = self.pos
            while self.pos < self.end:
                stop = self.text.find("\n", self.pos, self.end)
                stop = self.end if stop < 0 else stop
                line = self.text[self.pos : stop]
                self.pos = min(stop + 1, self.end)
                line = line.lstrip("\t") if tabs else line
                # In a body that is expanded, a line that ends in a backslash goes on.
                while not quoted and _odd_backslashes(line) and self.pos < self.end:
                    stop = self.text.find("\n", self.pos, self.end)
                    stop = self.end if stop < 0 else stop
                    line = line[:-1] + self.text[self.pos : stop]
                    self.pos = min(stop + 1, self.end)
                if line == delimiter:
                    break
                lines.append(line)
            body = "".join(line + "\n" for line in lines)
            span = (start, self.pos) if self.fixed is None else self.fixed
            word = Word((Lit(body, True),), span) if quoted else self.inside(body, span).document()
            redirects, index, fd = slot
            redirects[index] = Redirect(fd, "<<", word, span)

    def inside(self, text: str, span: Span) -> Parser:
        """Return a parser for a text that is written inside this one, whose places are all the same span."""
        return Parser(text, depth=self.depth + 1, fixed=span, budget=self.budget)

    # Lists

    def sequence(self) -> Seq:
        """Read commands until something that closes a list."""
        self.deeper()
        items: list[Item] = []
        before: Literal[";", "&&", "||"] = ";"
        while True:
            self.newlines()
            operator = self.operator()
            if self.pos >= self.end or operator in (")", ";;", ";&", ";;&"):
                break
            if not operator and self.reserved() in _CLOSERS:
                break
            self.spend()
            node = self.pipeline()
            operator = self.operator()
            items.append(Item(node, before, operator == "&"))
            before = ";"
            if operator in ("&&", "||"):
                before = "&&" if operator == "&&" else "||"
                self.pos += 2
                self.newlines()
                if self.pos >= self.end:
                    raise Unparsable("the line ends after an operator", self.pos)
            elif operator in (";", "&"):
                self.pos += 1
            elif operator == "\n":
                continue
            else:
                break
        self.depth -= 1
        return Seq(tuple(items))

    def plain(self) -> Node | None:
        """Read a command of plain words, as most are; None for any other."""
        match = _COMMAND.match(self.text, self.pos, self.end)
        if match is None:
            return None
        first = match.group(1)
        if first in _DECLARES or _RESERVED.fullmatch(first) is not None:
            return None
        start, stop = match.span()
        fixed = self.fixed
        words = tuple(
            [Word((), fixed or one.span(), one.group()) for one in _WORDS.finditer(self.text, start, stop)]
        )
        self.pos = stop
        self.spend(len(words))
        return Simple((), words, [], fixed or (start, stop), ())

    def pipeline(self) -> Node:
        commands: list[Node] = []
        both: list[bool] = []
        while True:
            commands.append(self.plain() or self.command())
            operator = self.operator()
            if operator not in ("|", "|&"):
                break
            both.append(operator == "|&")
            self.pos += len(operator)
            self.spend()
            self.newlines()
        if len(commands) == 1:
            return commands[0]
        return Pipeline(tuple(commands), tuple(both))

    # Commands

    def reserved(self) -> str:
        """Return the reserved word that comes next, without taking it; empty for anything else."""
        match = _RESERVED.match(self.text, self.pos, self.end)
        if match and _AFTER.match(self.text, match.end(), self.end):
            return match.group()
        if self.fold:
            return self.folded_reserved()
        return ""

    def folded_reserved(self) -> str:
        # A reserved word that a continuation splits is still one: read it without.
        rest = self.text[self.pos : self.pos + 40].replace("\\\n", "")
        match = _RESERVED.match(rest)
        if match and _AFTER.match(rest, match.end()) and "\\\n" in self.text[self.pos : self.pos + 40]:
            raise Unparsable("a word of the shell is split over two lines", self.pos)
        return ""

    def take(self, word: str) -> None:
        """Take a reserved word that has to be here."""
        self.newlines()
        if self.reserved() != word:
            raise Unparsable(f"{word!r} is missing", self.pos)
        self.pos += len(word)

    def command(self) -> Node:
        self.blanks()
        while True:
            word = self.reserved()
            if word == "!" or (self.text.startswith("!(", self.pos) and self.pos < self.end):
                self.pos += 1
            elif word == "time":
                self.pos += 4
                self.blanks()
                while (match := re.compile(r"-p|--").match(self.text, self.pos, self.end)) and _AFTER.match(
                    self.text, match.end(), self.end
                ):
                    self.pos = match.end()
                    self.blanks()
                if self.operator() in (";", "\n", "&", "|", "||", "&&") or self.pos >= self.end:
                    return Seq(())
            else:
                break
            self.spend()
            self.blanks()
        node: Node
        if not word and self.pos < self.end and self.text[self.pos] == "(":
            node = self.parenthesis()
        elif not word:
            match = _FUNCTION.match(self.text, self.pos, self.end)
            if match and not self.text.startswith("=", match.start(1) + len(match.group(1)) - 1):
                return self.function(match.group(1), match.end())
            return self.simple()
        elif word in _CLOSERS:
            raise Unparsable(f"unexpected {word!r}", self.pos)
        else:
            start = self.pos
            self.pos += len(word)
            node = self.compound(word, start)
        return self.redirected(node)

    def redirected(self, node: Node) -> Node:
        redirects: list[Redirect] = []
        while True:
            self.blanks()
            if not self.redirect(redirects):
                break
        if not redirects:
            return node
        return Redirected(node, redirects)

    def parenthesis(self) -> Node:
        if self.text.startswith("((", self.pos):
            saved = self.pos
            expression = self.arithmetic(self.pos + 2, quoted=False)
            if expression is not None:
                return Test((Word((expression,), self.span(saved)),))
            self.pos = saved
        self.pos += 1
        body = self.sequence()
        self.close(")")
        return Group(body, True)

    def close(self, closer: str) -> None:
        self.newlines()
        if self.pos >= self.end or self.text[self.pos] != closer:
            raise Unparsable(f"{closer!r} is missing", self.pos)
        self.pos += 1

    def compound(self, word: str, start: int) -> Node:
        self.deeper()
        node = self._compound(word, start)
        self.depth -= 1
        return node

    def _compound(self, word: str, start: int) -> Node:
        if word == "{":
            body = self.sequence()
            self.take("}")
            return Group(body, False)
        if word == "if":
            return self.conditional()
        if word in ("while", "until"):
            condition = self.sequence()
            return Loop(condition, self.block())
        if word in ("for", "select"):
            return self.loop()
        if word == "case":
            return self.case()
        if word == "[[":
            return self.test(start)
        if word == "function":
            self.blanks()
            match = re.compile(r"[^\s\\'\"`$|&;()<>]+").match(self.text, self.pos, self.end)
            if not match:
                raise Unparsable("the function has no name", self.pos)
            after = re.compile(r"[ \t]*\([ \t]*\)").match(self.text, match.end(), self.end)
            return self.function(match.group(), after.end() if after else match.end())
        assert word == "coproc"
        self.blanks()
        match = re.compile(r"[A-Za-z_]\w*(?=(?:[ \t])+[{(])").match(self.text, self.pos, self.end)
        if match:
            self.pos = match.end()
        return Coproc(self.command())

    def conditional(self) -> Node:
        branches: list[tuple[Seq | None, Seq]] = []
        while True:
            condition = self.sequence()
            self.take("then")
            branches.append((condition, self.sequence()))
            self.newlines()
            word = self.reserved()
            self.pos += len(word)
            if word == "elif":
                continue
            if word == "else":
                branches.append((None, self.sequence()))
                self.take("fi")
            elif word != "fi":
                raise Unparsable("'fi' is missing", self.pos)
            return If(tuple(branches))

    def block(self) -> Seq:
        """Read ``do list; done``, or the braces that bash takes for it."""
        self.newlines()
        if self.operator() == ";":
            self.pos += 1
            self.newlines()
        if self.reserved() == "{":
            self.pos += 1
            body = self.sequence()
            self.take("}")
            return body
        self.take("do")
        body = self.sequence()
        self.take("done")
        return body

    def loop(self) -> Node:
        self.blanks()
        if self.text.startswith("((", self.pos):
            head = self.arithmetic(self.pos + 2, quoted=False)
            if head is None:
                raise Unparsable("the head of the loop is not closed", self.pos)
            return CFor(head, self.block())
        match = _NAME.match(self.text, self.pos, self.end)
        if not match or not _AFTER.match(self.text, match.end(), self.end):
            raise Unparsable("the loop has no variable", self.pos)
        self.pos = match.end()
        self.newlines()
        words: list[Word] | None = None
        if re.compile(r"in(?=[ \t\n;])").match(self.text, self.pos, self.end):
            self.pos += 2
            words = []
            while not self.operator() and self.pos < self.end:
                words.append(self.need_word())
            if self.operator() not in (";", "\n"):
                raise Unparsable("the list of the loop does not end", self.pos)
        return For(match.group(), None if words is None else tuple(words), self.block())

    def case(self) -> Node:
        self.blanks()
        word = self.need_word()
        self.newlines()
        if not re.compile(r"in(?=[ \t\n])").match(self.text, self.pos, self.end):
            raise Unparsable("'in' is missing", self.pos)
        self.pos += 2
        arms: list[tuple[tuple[Word, ...], Seq]] = []
        while True:
            self.newlines()
            if self.reserved() == "esac":
                self.pos += 4
                return Case(word, tuple(arms))
            if self.operator() == "(":
                self.pos += 1
                self.blanks()
            patterns = [self.need_word()]
            while self.operator() == "|":
                self.pos += 1
                self.blanks()
                patterns.append(self.need_word())
            self.close(")")
            body = self.sequence()
            arms.append((tuple(patterns), body))
            operator = self.operator()
            if operator in (";;", ";&", ";;&"):
                self.pos += len(operator)

    def test(self, start: int) -> Node:
        """Read up to ``]]``. What operators mean here does not matter: only what is expanded does."""
        words: list[Word] = []
        while True:
            self.newlines()
            if self.pos >= self.end:
                raise Unparsable("']]' is missing", start)
            if self.text.startswith("]]", self.pos) and _AFTER.match(self.text, self.pos + 2, self.end):
                self.pos += 2
                return Test(tuple(words))
            self.spend()
            if self.text[self.pos] in "()<>|&!;" and not self.text.startswith(("<(", ">("), self.pos):
                self.pos += 1
                continue
            words.append(self.pattern_word())

    def function(self, name: str, after: int) -> Node:
        start = self.pos
        self.pos = after
        self.newlines()
        self.deeper()
        body = self.command()
        self.depth -= 1
        return Function(name, body, self.span(start))

    def need_word(self) -> Word:
        self.blanks()
        word = self.word()
        if word is None:
            raise Unparsable("a word is missing", self.pos)
        return word

    # Simple commands

    def simple(self) -> Node:
        start = self.pos
        assigns: list[Assign] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        arrays: list[Assign] = []
        while True:
            self.blanks()
            if self.pos >= self.end:
                break
            if self.redirect(redirects):
                continue
            operator = self.operator()
            if operator:
                if operator == "(":
                    raise Unparsable("unexpected '('", self.pos)
                break
            if not words or (words[0].simple in _DECLARES):
                assign = self.assignment(bool(words))
                if assign is not None:
                    (arrays if words else assigns).append(assign)
                    continue
            word = self.word()
            if word is None:
                raise Unparsable(f"unexpected {self.text[self.pos]!r}", self.pos)
            words.append(word)
            if words[0].simple not in _DECLARES:
                self.more(words)
        if not assigns and not words and not redirects:
            raise Unparsable("a command is missing", self.pos)
        return Simple(tuple(assigns), tuple(words), redirects, self.span(start), tuple(arrays))

    def more(self, words: list[Word]) -> None:
        """Read the plain words that follow, which most are."""
        while match := _NEXT.match(self.text, self.pos, self.end):
            self.spend()
            self.pos = match.end()
            words.append(Word((), self.span(match.start(1)), match.group(1)))

    def redirect(self, redirects: list[Redirect]) -> bool:
        if self.pos >= self.end or self.text[self.pos] not in _REDIRECT_SIGNS:
            return False
        match = _REDIRECT.match(self.text, self.pos)
        if not match:
            return False
        self.spend()
        start = self.pos
        fd, op = match.group(1) or "", match.group(2)
        self.pos = match.end()
        self.blanks()
        if op in ("<<", "<<-"):
            raw = self.pos
            word = self.need_word()
            source = self.text[raw : self.pos].replace("\\\n", "")
            quoted = any(sign in source for sign in "'\"\\")
            delimiter = self.delimiter(word)
            redirects.append(Redirect(fd, "<<", word, self.span(start)))
            self.pending.append(((redirects, len(redirects) - 1, fd), delimiter, quoted, op == "<<-"))
            return True
        redirects.append(Redirect(fd, op, self.need_word(), self.span(start)))
        return True

    def delimiter(self, word: Word) -> str:
        text = ""
        for part in word.parts:
            if not isinstance(part, Lit):
                raise Unparsable("the end of a here-document is not a plain word", word.span[0])
            text += part.text
        return text if word.simple is None else word.simple

    def assignment(self, argument: bool) -> Assign | None:
        match = _ASSIGN.match(self.text, self.pos, self.end)
        if not match:
            return None
        saved = self.pos
        name, sign = match.groups()
        index = None
        if sign == "[":
            self.pos = match.end()
            index = self.subscript()
            after = re.compile(r"\+?=").match(self.text, self.pos, self.end)
            if not after:
                self.pos = saved
                return None
            sign = after.group()
            self.pos = after.end()
        else:
            self.pos = match.end()
        append = sign == "+="
        if self.text.startswith("(", self.pos) and self.pos < self.end:
            self.pos += 1
            values: list[Word] = []
            while True:
                self.newlines()
                if self.operator() == ")":
                    self.pos += 1
                    return Assign(name, None, tuple(values), index, append)
                values.append(self.need_word())
        if argument:
            self.pos = saved
            return None
        value = self.word()
        return Assign(name, value, None, index, append)


def _odd_backslashes(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1
