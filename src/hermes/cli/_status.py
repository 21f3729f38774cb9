"""One line on stderr that says what takes so long."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator

from . import _report
from ._report import clean, say

EVERY = 5.0  # seconds between lines where nobody can watch one change


_held = 0


def is_screen() -> bool:
    """Return whether stderr is a terminal where what was written can be written over."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Clear the line and show none, while something else is shown in its place."""
    global _held
    if is_screen():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
        _report.changing = False
    _held += 1
    try:
        yield
    finally:
        _held -= 1


@contextlib.contextmanager
def working(line: str) -> Iterator[None]:
    """Say at once what may take long, to whoever looks on."""
    with status_line(quiet=not sys.stderr.isatty()) as show:
        show(line)
        yield


@contextlib.contextmanager
def status_line(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield what takes lines of progress. On a terminal the last one stays in sight until the end."""
    if not quiet and is_screen():
        import shutil

        def change(line: str) -> None:
            if _held:
                return
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r\x1b[K" + f"hermes: {clean(line)}"[:width])
            sys.stderr.flush()
            _report.changing = True

        try:
            yield change
        finally:
            if _report.changing:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
                _report.changing = False
        return
    last = 0.0

    def now_and_then(line: str) -> None:
        nonlocal last
        if not quiet and line.strip() and time.monotonic() - last > EVERY:
            last = time.monotonic()
            say(line)

    yield now_and_then
