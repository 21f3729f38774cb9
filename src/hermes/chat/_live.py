"""A command's output as it comes, for a screen: harmless, and not more of it than somebody reads."""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Callable

from hermes.cli._report import clean

__all__ = ["Live"]

FIRST = 60  # lines that are shown as they come
LAST = 8  # of the rest, shown at the end
LONGEST = 500  # characters of a line
INDENT = "  | "

_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_=>]|[()][0-9A-B])")


class Live:
    """Writes the lines of one command."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._count = 0
        self._tail: deque[str] = deque(maxlen=LAST)

    def take(self, data: bytes) -> None:
        """Take what has come."""
        *lines, self._rest = (self._rest + self._decoder.decode(data)).split("\n")
        self._rest = self._rest[-4 * LONGEST :]
        for line in lines:
            self._put(line)

    def end(self) -> None:
        """Show what is left."""
        if self._rest:
            self._put(self._rest)
            self._rest = ""
        hidden = self._count - FIRST - len(self._tail)
        if hidden > 0:
            self._write(f"{INDENT}[... {hidden} lines are not shown here ...]\n")
        for line in self._tail:
            self._write(line)
        self._tail.clear()

    def _put(self, line: str) -> None:
        # What was written over is gone, as on any terminal.
        line = _CODES.sub("", line).rstrip("\r").rpartition("\r")[2]
        line = clean(line.expandtabs(8))
        line = f"{INDENT}{line if len(line) <= LONGEST else line[:LONGEST] + '...'}\n"
        self._count += 1
        if self._count <= FIRST:
            self._write(line)
        else:
            self._tail.append(line)
