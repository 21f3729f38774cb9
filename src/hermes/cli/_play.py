"""Playing recordings: as a timeline of texts, on a terminal, or written for asciinema."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from typing import IO, NamedTuple

from hermes.log._read import Command, Recording, cast
from hermes.log._screen import CALM, Screen

from ._report import clean

__all__ = ["Frame", "Player", "as_cast", "timeline"]

SLOWEST, FASTEST = 1 / 16, 64.0


class Frame(NamedTuple):
    """Text as a terminal gets it, and when, in seconds since the epoch; ``first`` of a command."""

    time: float
    text: str
    first: bool = False


def timeline(recording: Recording, number: int | None = None, *, raw: bool = False) -> list[Frame]:
    """Return what is shown, in the order of time.

    :param number: of the only command to show
    :param raw: let everything through that a terminal was sent
    """
    frames: list[Frame] = []
    for command in recording.commands:
        if number in (None, command.number) and command.kind != "change":
            frames += _shown(recording, command, raw=raw)
    return sorted(frames, key=lambda frame: frame.time)


def _shown(recording: Recording, command: Command, *, raw: bool) -> Iterator[Frame]:
    # As the commands stand there, in a session that is nobody's terminal.
    mark = "$" if command.kind in ("run", "exec") else f"({command.kind})"
    text = clean(command.text, keep="\n\t") or "an interactive shell"
    yield Frame(command.time, _lines(f"\x1b[1m{mark} {text}\x1b[0m\n"), first=True)
    if command.program:
        yield Frame(command.time, _lines(f"{clean(command.program, keep=chr(10) + chr(9))}\n"))
    end = command.end
    if command.terminal is not None:
        screen, last = Screen(), command.time
        for when, kind, piece in cast(recording, command)[1]:
            last = command.time + when
            if kind == "o":
                yield Frame(last, piece if raw else screen.feed(piece))
        yield Frame(max(last, end or last), f"{CALM}\r\n")
    else:
        yield from _outputs(command, raw=raw)
    if end is not None and (command.failed or command.status != "ok"):
        yield Frame(end, f"\x1b[2m[{clean(outcome(command))}]\x1b[0m\r\n")


def _outputs(command: Command, *, raw: bool) -> Iterator[Frame]:
    decoders = {}
    screens: dict[str, Screen] = {}
    last = "\n"
    when = command.time
    for output in command.outputs:
        name, when = output.stream, output.time
        if output.omitted:
            note = f"\n\x1b[2m[... {output.omitted} bytes were not recorded ...]\x1b[0m\n"
            yield Frame(when, _lines(note))
            continue
        if name not in decoders:
            decoders[name] = codecs.getincrementaldecoder("utf-8")("replace")
            screens[name] = Screen()
        text = decoders[name].decode(output.data)
        text = text if raw else screens[name].feed(text)
        if text:
            last = text[-1]
            yield Frame(when, _lines(text))
    if last != "\n":
        yield Frame(command.end or when, "\x1b[0m\r\n")


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def outcome(command: Command) -> str:
    """Return in words what became of a command."""
    if command.status is None:
        return "its end was not seen"
    if command.status == "ok":
        return f"exit code {command.exit_code}"
    return command.status.replace("_", " ")


def paced(frames: list[Frame], idle_limit: float | None) -> Iterator[tuple[float, Frame]]:
    """Yield each frame with the seconds that it comes after the one before, none more than the limit."""
    before = frames[0].time if frames else 0.0
    for frame in frames:
        gap = max(0.0, frame.time - before)
        before = max(before, frame.time)
        yield gap if idle_limit is None else min(gap, idle_limit), frame


def size(recording: Recording, number: int | None = None) -> tuple[int, int]:
    """Return the columns and rows that all terminals of a recording fit into."""
    columns, rows = 80, 24
    for command in recording.commands:
        if command.terminal is not None and number in (None, command.number):
            head = cast(recording, command)[0]
            columns, rows = max(columns, int(head.get("width", 0))), max(rows, int(head.get("height", 0)))
    return columns, rows


def as_cast(
    recording: Recording, frames: list[Frame], file: IO[str], *, idle_limit: float | None, number: int | None
) -> None:
    """Write frames in the format of asciinema (asciicast 2)."""
    columns, rows = size(recording, number)
    head = {
        "version": 2,
        "width": columns,
        "height": rows,
        "timestamp": int(recording.began),
        "title": f"{recording.place} {recording.facts.get('sandbox', '')}".strip(),
    }
    file.write(json.dumps(head) + "\n")
    at = 0.0
    for gap, frame in paced(frames, idle_limit):
        at += gap
        file.write(json.dumps([round(at, 6), "o", frame.text]) + "\n")


class Player:
    """Shows frames on our terminal. Keys: space pauses, n goes on to the next command, + and - change the
    speed, q ends it. Without a terminal there are neither keys nor pauses."""

    def __init__(self, speed: float, idle_limit: float | None) -> None:
        self.speed = speed
        self._idle_limit = idle_limit
        self._live = sys.stdout.isatty()
        self._keys = self._live and sys.stdin is not None and sys.stdin.isatty()
        self._skips = False

    def play(self, frames: list[Frame]) -> bool:
        """Show all; return False when the user had enough."""
        with self._listening():
            for gap, frame in paced(frames, self._idle_limit):
                if frame.first:
                    self._skips = False
                if self._live and not self._skips and not self._wait(gap):
                    return False
                text = frame.text if self._live else _plain(frame.text)
                sys.stdout.write(text)
                if self._live:
                    sys.stdout.flush()
        return True

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Have keys at once, and what is written as it is; put the terminal back as it was afterwards."""
        if not self._live:
            yield
            return
        fds = (0, 1) if self._keys else (1,)
        saved = [(fd, termios.tcgetattr(fd)) for fd in fds]
        try:
            if self._keys:
                tty.setcbreak(0)
            modes = termios.tcgetattr(1)
            modes[1] &= ~termios.OPOST
            termios.tcsetattr(1, termios.TCSADRAIN, modes)
            yield
        finally:
            sys.stdout.write(CALM)
            sys.stdout.flush()
            for fd, before in saved:
                termios.tcsetattr(fd, termios.TCSADRAIN, before)

    def _wait(self, gap: float) -> bool:
        """Wait until it is time, doing what is typed meanwhile; return False for an end."""
        left, paused = gap, False
        while paused or left > 0:
            began = time.monotonic()
            if not self._keys:
                time.sleep(left / self.speed)
                return True
            ready, _, _ = select.select((0,), (), (), None if paused else left / self.speed)
            if not paused:
                left -= (time.monotonic() - began) * self.speed
            if not ready:
                continue
            key = os.read(0, 16)
            if key in (b"q", b"Q", b"\x04", b""):
                return False
            if key == b" ":
                paused = not paused
            elif key in (b"n", b"\x1b[C", b"\r", b"\n"):
                self._skips = True
                return True
            elif key == b"+":
                self.speed = min(FASTEST, self.speed * 2)
            elif key == b"-":
                self.speed = max(SLOWEST, self.speed / 2)
        return True


def _plain(text: str) -> str:
    """Return a text for what is no terminal: without codes."""
    import re

    text = re.sub(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~])|\x0f", "", text)
    return clean(text.replace("\r\n", "\n"), keep="\n\t")
