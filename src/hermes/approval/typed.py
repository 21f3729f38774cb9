"""Input for a running program, in whatever pieces it comes: what has to pass before it may be written."""

from __future__ import annotations

import re
from typing import Any

from . import INTERPRETER, SHELLS, Decision, Request
from ._line import Line
from ._parser import Parser
from ._syntax import Unparsable
from .gate import MAX_STDIN, Gate

__all__ = ["Typed"]


class Typed:
    """What goes to the standard input of one program. A line is judged as a whole, in however many pieces.

    At a terminal the shell acts on a line when Enter is pressed. What was typed before is kept, and judged
    with what follows; Ctrl-C throws it away, here as there.
    """

    def __init__(self, gate: Gate, reader: str, *, tty: bool, cwd: str | None = None) -> None:
        """Nothing was typed yet.

        :param cwd: where the program began, None when that is not known
        """
        self._cwd = cwd
        self._gate = gate
        self._reader = reader
        self._tty = tty
        self._pending = b""
        self._state: Any = None
        self._line = Line()
        self._unfinished: tuple[str, ...] = ()

    async def approve(self, data: bytes) -> None:
        """Return when it may be written.

        :raises Refused: it may not; nothing of it may be written
        """
        whole = self._pending + data
        if self._tty:
            whole = whole.rpartition(b"\x03")[2]
        text = whole.decode("utf-8", "replace").replace("\r", "\n")
        if not _SILENT.fullmatch(text):
            request = self._request(text)
            decision = await self._gate.decide(request, self._state)
            if decision.action == "allow" and self._tty and self._is_shell() and _recalls(text):
                decision = Decision(action="ask", reason=RECALLS, rule="unknown-code", after=decision.after)
            decision = await self._gate.check(request, self._state, decision)
            if _ENTER.search(text):
                self._state = decision.after
        self._pending = _open_line(whole)[-MAX_STDIN:]

    def _is_shell(self) -> bool:
        words = self._reader.split(maxsplit=1)
        return not words or words[0].rpartition("/")[2].lstrip("-") in SHELLS

    def _request(self, text: str) -> Request:
        cwd = self._cwd if self._state is None else self._gate.plain(getattr(self._state, "cwd", None))
        return self._gate.request("input", text, reader=self._reader, cwd=cwd)

    async def forbid(self, data: bytes) -> None:
        """Refuse what is blocked in what a person types, key by key; nothing else is asked about.

        Whoever types is who would be asked.

        :raises Refused: what Enter would send is blocked; the line is forgotten, nothing may be written
        """
        before = self._unfinished, self._state
        for code in data:
            if code == 3:
                self._line.forget()
                self._unfinished = ()
                continue
            known = self._line.known
            text = self._line.key(code)
            if text is None:
                continue
            try:
                await self._forbid_line(text, known=known)
            except BaseException:
                self._unfinished, self._state = before
                self._line.forget()
                raise

    async def _forbid_line(self, line: str, *, known: bool) -> None:
        """Judge a line, by itself and together with those before that the shell waits to see the end of."""
        if not known and not self._unfinished:  # taken from the history, or completed
            return
        texts = [f"{text}\n{line}" for text in self._unfinished] + [line] * known
        left: list[str] = []
        after: Any = None
        for text in texts:
            if not text.strip():
                continue
            request = self._request(text + "\n")
            decision = await self._gate.decide(request, self._state)
            if decision.action == "block":
                await self._gate.check(request, decision=decision)
            if not self._complete(text):
                left.append(text)
                continue
            after = after or decision.after
            if text is texts[0]:
                break  # the shell acts on all of it
        self._state = after or self._state
        self._unfinished = tuple(left[:1] + left[1:][-OPEN:]) if sum(map(len, left)) < MAX_STDIN else ()

    def _complete(self, text: str) -> bool:
        """Say whether the shell acts on a text, or could not read it whatever comes."""
        if self._reader and INTERPRETER.fullmatch(self._reader.split(maxsplit=1)[0].rpartition("/")[2]):
            return True
        if (len(text) - len(text.rstrip("\\"))) % 2:
            return False
        try:
            Parser(text).script()
        except (Unparsable, RecursionError):
            return False
        return True


RECALLS = "the shell puts text of its history here, which is not known"
# Beginnings of a command of several lines that are kept: one that cannot be read at all must not hide
# those which follow it.
OPEN = 8
_ENTER = re.compile(r"[\n\x0f]")
# Keys that do nothing by themselves: white space, control characters, cursor keys.
_SILENT = re.compile(r"(?:\x1b[\[O][0-9;]*[A-Za-z~]|[\x00-\x09\x0b-\x20\x7f])*|\s*")


def _recalls(text: str) -> bool:
    """Say whether a shell at a terminal would put text of its history in a line: ``!x``, ``^a^b``."""
    quote = ""
    escaped = False
    for index, sign in enumerate(text):
        if escaped or (sign == "\\" and quote != "'"):
            escaped = not escaped
        elif sign in "'\"" and quote in ("", sign):
            quote = "" if quote else sign
        elif sign == "^" and (index == 0 or text[index - 1] == "\n"):
            return True
        elif sign == "!" and quote != "'":
            before, after = text[max(0, index - 1) : index], text[index + 1 : index + 2]
            if after.strip() and after not in ("=", "(", quote) and before not in ("$", "[", "{", "#"):
                return True
    return False


def _open_line(whole: bytes) -> bytes:
    """Return what the program has not acted on yet: the last line, and those before that go on in it."""
    lines = whole.replace(b"\r", b"\n").split(b"\n")
    start = len(lines) - 1
    while start and (len(lines[start - 1]) - len(lines[start - 1].rstrip(b"\\"))) % 2:
        start -= 1
    return b"\n".join(lines[start:])
