"""Input for a running program, in whatever pieces it comes: what has to pass before it may be written."""

from __future__ import annotations

import re
from typing import Any

from . import Request
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
            decision = await self._gate.check(request, self._state)
            if _ENTER.search(text):
                self._state = decision.after
        self._pending = _open_line(whole)[-MAX_STDIN:]

    def _request(self, text: str) -> Request:
        cwd = self._cwd if self._state is None else self._gate.plain(getattr(self._state, "cwd", None))
        return self._gate.request("input", text, reader=self._reader, cwd=cwd)

    async def forbid(self, data: bytes) -> None:
        """Refuse what is blocked in what a person types, key by key; nothing else is asked about.

        Whoever types is who would be asked.

        :raises Refused: what Enter would send is blocked; the line is forgotten
        """
        line = self._pending
        for code in data:
            key = bytes((code,))
            if key in b"\r\n":
                self._pending = line
                await self._forbid_line()
                line = b""
            elif key in b"\x7f\x08":
                line = line.decode("utf-8", "ignore")[:-1].encode()
            elif key in b"\x03\x15":
                line = b""
            else:
                line += key
        self._pending = line

    async def _forbid_line(self) -> None:
        text, self._pending = _PASTE.sub(b"", self._pending).decode("utf-8", "replace"), b""
        if not text.isprintable() or not text.strip():  # moved about in, or taken from the history
            return
        request = self._request(text + "\n")
        decision = await self._gate.decide(request, self._state)
        if decision.action == "block":
            await self._gate.check(request, decision=decision)
        self._state = decision.after


_PASTE = re.compile(rb"\x1b\[20[01]~")  # what terminals put around pasted text
_ENTER = re.compile(r"[\n\x0f]")
# Keys that do nothing by themselves: white space, control characters, cursor keys.
_SILENT = re.compile(r"(?:\x1b[\[O][0-9;]*[A-Za-z~]|[\x00-\x09\x0b-\x20\x7f])*|\s*")


def _open_line(whole: bytes) -> bytes:
    """Return what the program has not acted on yet: the last line, and those before that go on in it."""
    lines = whole.replace(b"\r", b"\n").split(b"\n")
    start = len(lines) - 1
    while start and (len(lines[start - 1]) - len(lines[start - 1].rstrip(b"\\"))) % 2:
        start -= 1
    return b"\n".join(lines[start:])
