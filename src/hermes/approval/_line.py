"""The line that somebody types at a shell, as far as the keys that edit it can be followed: as in bash."""

from __future__ import annotations

import codecs
import re

__all__ = ["Line"]

_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|[^\[O])", re.DOTALL)
_MOVES = {
    "\x01": "home",
    "\x05": "end",
    "\x02": "left",
    "\x06": "right",
    "\x04": "delete",
    "\x08": "back",
    "\x7f": "back",
    "\x0b": "kill",
    "\x15": "clear",
    "\x17": "word",
    "\x0c": "",  # draws the screen anew
    "\x00": "",  # sets a mark
    **dict.fromkeys(("\x1b[D", "\x1bOD"), "left"),
    **dict.fromkeys(("\x1b[C", "\x1bOC"), "right"),
    **dict.fromkeys(("\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~"), "home"),
    **dict.fromkeys(("\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~"), "end"),
    "\x1b[3~": "delete",
}


class Line:
    """What would be sent by Enter. ``known`` says whether each key so far was one that is followed here."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._clear()
        self._sequence = ""
        self._pasting = False

    def _clear(self) -> None:
        self._before: list[str] = []  # the cursor stands between the two
        self._after: list[str] = []
        self.known = True

    @property
    def text(self) -> str:
        return "".join(self._before) + "".join(reversed(self._after))

    def key(self, code: int) -> str | None:
        """Take one byte. Return the line when it is ended by it, None else."""
        for sign in self._decoder.decode(bytes((code,))):
            if self._sequence or sign == "\x1b":
                self._escape(sign)
            elif self._pasting:
                self._before.append("\n" if sign == "\r" else sign)
            elif sign in "\r\n\x0f":
                return self._ended(fetches=sign == "\x0f")
            elif sign in _MOVES:
                self._move(_MOVES[sign])
            elif sign < " ":
                self.known = False
            else:
                self._before.append(sign)
        return None

    def forget(self) -> None:
        """Throw away what was typed, as Ctrl-C does."""
        self._clear()
        self._sequence = ""
        self._pasting = False

    def _ended(self, *, fetches: bool) -> str:
        text = self.text
        self._clear()
        self.known = not fetches  # Ctrl-O gets the next line from the history
        return text

    def _escape(self, sign: str) -> None:
        self._sequence += sign
        if len(self._sequence) == 1:
            return
        if self._sequence in ("\x1b[200~", "\x1b[201~"):
            self._pasting = self._sequence == "\x1b[200~"
        elif not _SEQUENCE.fullmatch(self._sequence):
            if len(self._sequence) < 32:
                return
            self.known = False
        elif self._pasting:
            self._before += self._sequence
        elif self._sequence in _MOVES:
            self._move(_MOVES[self._sequence])
        else:
            self.known = False
        self._sequence = ""

    def _move(self, what: str) -> None:
        before, after = self._before, self._after
        if what == "left" and before:
            after.append(before.pop())
        elif what == "right" and after:
            before.append(after.pop())
        elif what == "home":
            after += reversed(before)
            before.clear()
        elif what == "end":
            before += reversed(after)
            after.clear()
        elif what == "back" and before:
            before.pop()
        elif what == "delete" and after:
            after.pop()
        elif what == "kill":
            after.clear()
        elif what == "clear":
            before.clear()
        elif what == "word":
            while before and before[-1] in " \t":
                before.pop()
            while before and before[-1] not in " \t":
                before.pop()
