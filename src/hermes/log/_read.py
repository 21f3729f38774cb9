"""Reading recordings: of any age, and perhaps not to the end, since a client may be killed."""

from __future__ import annotations

import base64
import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from hermes.errors import HermesError

from . import CAST, LINES, directory

__all__ = ["Command", "Output", "Recording", "cast", "find", "read", "recordings"]

NEWEST = "last"
WRONG = (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError)


class Output(msgspec.Struct):
    """A piece of output; ``omitted`` bytes were left out after it."""

    time: float
    stream: str
    data: bytes = b""
    omitted: int = 0


class Command(msgspec.Struct, kw_only=True):
    """One command, job or terminal, or a file that was changed (kind ``change``, ``text`` is its path)."""

    number: int
    time: float
    kind: str
    text: str
    session: str | None = None
    cwd: str | None = None
    program: str | None = None
    decision: dict[str, Any] | None = None
    terminal: str | None = None
    job: str | None = None
    status: str | None = None
    exit_code: int | None = None
    duration: float | None = None
    end: float | None = None
    cwd_after: str | None = None
    error: dict[str, Any] | None = None
    outputs: list[Output] = msgspec.field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether it came to no good end; one of which no end is known did not."""
        return self.status not in (None, "ok") or bool(self.exit_code) or self.error is not None


class _End(msgspec.Struct):
    status: str
    exit_code: int | None = None
    duration: float | None = None
    cwd: str | None = None
    error: dict[str, Any] | None = None


class Recording(msgspec.Struct):
    """What one client did in one sandbox. ``facts`` say where, as the first line of the file has it."""

    path: Path
    facts: dict[str, Any]
    commands: list[Command]

    @property
    def id(self) -> str:
        return self.path.name.removesuffix(LINES)

    @property
    def short(self) -> str:
        """The end of the id, which tells it from others."""
        return self.id.rpartition("-")[2]

    @property
    def place(self) -> str:
        host = self.facts.get("host")
        return f"{self.facts.get('backend', '?')}:{host}" if host else str(self.facts.get("backend", "?"))

    @property
    def began(self) -> float:
        return self.commands[0].time if self.commands else 0.0

    @property
    def failed(self) -> int:
        """How many commands came to no good end."""
        return sum(one.failed for one in self.commands)


def recordings() -> Iterator[Path]:
    """Yield the files of all recordings, the newest first."""
    try:
        names = [name for name in os.listdir(directory()) if name.endswith(LINES)]
    except FileNotFoundError:
        return
    except OSError as error:
        raise unreadable(directory(), error) from error
    for name in sorted(names, reverse=True):
        yield directory() / name


def find(name: str) -> Path:
    """Return the file of the recording of that id, of an id that begins or ends so, or of the ``last`` one.

    :raises HermesError: code ``recording_unknown`` or ``ambiguous``
    """
    found = [
        path
        for path in recordings()
        if path.name.startswith(name) or path.name.removesuffix(LINES).rpartition("-")[2].startswith(name)
    ]
    if name == NEWEST:
        found = list(recordings())[:1]
    if not found:
        raise HermesError(
            f"there is no recording '{name}'",
            code="recording_unknown",
            hint="'hermes log' lists those that there are; the newest one is 'last'.",
        )
    if len(found) > 1:
        some = ", ".join(path.name.removesuffix(LINES) for path in found[:4])
        raise HermesError(
            f"'{name}' may be any of {len(found)} recordings: {some}{' ...' if len(found) > 4 else ''}",
            code="ambiguous",
            hint="Give more of the ID.",
        )
    return found[0]


def read(path: Path, *, outputs: bool = True) -> Recording:
    """Return a recording. Lines that are none, or of a kind that is not known here, are left out.

    :param outputs: False leaves those out as well
    :raises HermesError: code ``recording_unreadable``
    """
    recording = Recording(path, {}, [])
    by_number: dict[int, Command] = {}
    try:
        with opened(path) as file:
            for line in file:
                if not outputs and line.startswith(b'{"type":"output"'):
                    continue
                try:
                    event = json.loads(line)
                    if event["type"] == "session":
                        recording.facts = event
                    else:
                        _add(recording, by_number, event)
                except WRONG:
                    continue
    except OSError as error:
        raise unreadable(path, error) from error
    return recording


def _add(recording: Recording, by_number: dict[int, Command], event: dict[str, Any]) -> None:
    what, when = event["type"], float(event["time"])
    if what in ("command", "change"):
        known = ("session", "cwd", "program", "decision", "terminal", "error")
        said = {key: event[key] for key in known if event.get(key) is not None}
        said |= {"number": event.get("n", 0), "time": when, "kind": event.get("kind", what)}
        said["text"] = event["text"] if what == "command" else event["path"]
        command = msgspec.convert(said, Command)
        if what == "command":
            by_number[command.number] = command
        recording.commands.append(command)
        return
    command = by_number[event["n"]]
    if what == "started":
        command.job = str(event["job"])
    elif what == "output":
        data = event["data"].encode() if "data" in event else base64.b64decode(event["data_b64"])
        command.outputs.append(Output(when, str(event["stream"]), data))
    elif what == "omitted":
        command.outputs.append(Output(when, str(event["stream"]), omitted=int(event["bytes"])))
    elif what == "end":
        end = msgspec.convert(event, _End)
        command.end, command.status = when, end.status
        command.exit_code, command.duration = end.exit_code, end.duration
        command.cwd_after, command.error = end.cwd, end.error


Frame = tuple[float, Literal["o", "r", "m"], str]


def cast(recording: Recording, command: Command) -> tuple[dict[str, Any], list[Frame]]:
    """Return the head and the events of a terminal; none where its file is gone.

    :raises HermesError: code ``recording_unreadable``
    """
    path = recording.path.with_name(f"{recording.id}.{command.number}{CAST}")
    frames: list[Frame] = []
    head: dict[str, Any] = {}
    try:
        with opened(path) as file:
            for line in file:
                try:
                    event = json.loads(line)
                    if isinstance(event, dict):
                        head = event
                    elif event[1] in ("o", "r", "m"):
                        frames.append((float(event[0]), event[1], str(event[2])))
                except WRONG:
                    continue
    except FileNotFoundError:
        pass
    except OSError as error:
        raise unreadable(path, error) from error
    return head, frames


def opened(path: Path) -> BinaryIO:
    """Open a file of a recording. What is no file is not waited for, and no link is followed."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no file")
    return os.fdopen(fd, "rb")


def unreadable(path: Path, error: OSError) -> HermesError:
    """Return the error for what cannot be read."""
    return HermesError(f"{path} cannot be read: {error.strerror or error}", code="recording_unreadable")
