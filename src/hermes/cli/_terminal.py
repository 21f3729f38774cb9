"""The user's terminal while a program in the sandbox has it: raw mode, size, and the way back.

Whatever happens, the terminal is put back as it was: at the end, on errors, on signals that end or stop us.
"""

from __future__ import annotations

import os
import signal
import termios
import tty
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

IN, OUT = 0, 1
# Leave the alternate screen; show the cursor; no mouse reports, no bracketed paste, no colour.
CALM = b"\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[0m"


class RawTerminal:
    """Raw mode for as long as the context lasts, with pauses while we are stopped."""

    def __init__(self) -> None:
        self._saved: list[Any] | None = None

    def __enter__(self) -> RawTerminal:
        self.enter()
        return self

    def __exit__(self, *exc: object) -> None:
        self.restore()

    def enter(self) -> None:
        """Take the terminal, unless another process group has it now."""
        if os.tcgetpgrp(IN) != os.getpgrp():
            return
        if self._saved is None:
            self._saved = termios.tcgetattr(IN)
        tty.setraw(IN, termios.TCSADRAIN)  # what was typed meanwhile is kept

    def restore(self) -> None:
        """Put the terminal back as it was."""
        if self._saved is None:
            return
        # From the background this would stop us, and leave it raw.
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            termios.tcsetattr(IN, termios.TCSADRAIN, self._saved)
        except termios.error:  # the terminal is gone
            pass
        finally:
            signal.signal(signal.SIGTTOU, before)

    def suspend(self) -> None:
        """Stop this process, as Ctrl-Z does. What it must do when it goes on is done on SIGCONT."""
        self.restore()
        os.kill(os.getpid(), signal.SIGSTOP)


def terminal_size() -> tuple[int, int]:
    """Return rows and columns, 24 and 80 when the terminal does not know."""
    try:
        cols, rows = os.get_terminal_size(OUT)
    except OSError:
        cols = rows = 0
    return rows or 24, cols or 80


class Typed(NamedTuple):
    """What the keys mean: bytes for the program, or something for us."""

    what: Literal["data", "detach", "suspend", "help"]
    data: bytes = b""


class Escapes:
    """Finds ``~.`` and its like among the keys: at the beginning of a line only, as in ssh."""

    def __init__(self, char: bytes = b"~") -> None:
        self._char = char
        self._fresh = True
        self._held = False

    def feed(self, keys: bytes) -> Iterator[Typed]:
        """Yield what the keys mean; an escape character is held back until the next key."""
        if not self._char:
            yield Typed("data", keys)
            return
        plain = bytearray()
        for code in keys:
            key = bytes((code,))
            if self._held:
                self._held = False
                meaning = {b".": "detach", b"\x1a": "suspend", b"?": "help"}.get(key)
                if meaning is not None:
                    if plain:
                        yield Typed("data", bytes(plain))
                        plain.clear()
                    yield Typed(meaning)  # type: ignore[arg-type]
                    self._fresh = True
                    continue
                plain += self._char if key == self._char else self._char + key
                self._fresh = key in b"\r\n"
            elif self._fresh and key == self._char:
                self._held = True
            else:
                plain += key
                self._fresh = key in b"\r\n"
        if plain:
            yield Typed("data", bytes(plain))
