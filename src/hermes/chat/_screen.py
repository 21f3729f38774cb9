"""The line at the bottom of the terminal that always says where commands run."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from types import FrameType

from hermes.cli._report import clean
from hermes.cli._text import cut

__all__ = ["Screen"]

LEAST_ROWS = 8


class Screen:
    """Keeps the last row for a line of ours: everything else scrolls above it.

    Where the terminal cannot do that, :meth:`show` prints the line when it has changed.
    """

    def __init__(self) -> None:
        self._line = ""
        self._printed = ""
        self._on = False
        self._able = sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "")
        self._lock = threading.RLock()
        self._before: object = None

    def __enter__(self) -> Screen:
        if self._able:
            self._before = signal.signal(signal.SIGWINCH, self._resized)
        return self

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            if self._able:
                signal.signal(signal.SIGWINCH, self._before)  # type: ignore[arg-type]
            if self._on:
                rows = self._size()[0]
                self._write(f"\x1b7\x1b[r\x1b[{rows};1H\x1b[2K\x1b8")
                self._on = False

    def show(self, line: str) -> None:
        """Show this line from now on."""
        with self._lock:
            self._line = clean(line)
            self._paint()

    def _resized(self, number: int, frame: FrameType | None) -> None:
        self._on = False
        self._paint()

    def _paint(self) -> None:
        rows, cols = self._size()
        if not self._able or rows < LEAST_ROWS:
            if self._on:
                self._write("\x1b7\x1b[r\x1b8")
                self._on = False
            if self._line != self._printed:
                self._printed = self._line
                self._write(f"[{self._line}]\n")
            return
        text = cut(self._line, cols - 1)
        # Down and up again first: on the last row the cursor has to make room. Its column stays.
        begin = "" if self._on else f"\x1bD\x1b[A\x1b7\x1b[1;{rows - 1}r\x1b8\x1b[J"
        self._on = True
        self._write(f"{begin}\x1b7\x1b[{rows};1H\x1b[7m{text}\x1b[K\x1b[m\x1b8")

    @staticmethod
    def _size() -> tuple[int, int]:
        try:
            size = os.get_terminal_size(1)
        except OSError:
            return 24, 80
        return size.lines or 24, size.columns or 80

    @staticmethod
    def _write(text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(text)
            sys.stdout.flush()
