"""Conversations, and the files that keep them: one each in ``chats`` in hermes's home, for its user alone.

A file is written as the conversation goes on, a line for each message, so that nothing is lost with the
process. What a model was told of the place is left out: it is told anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
)

from hermes.config import Log, home, make_private
from hermes.errors import HermesError
from hermes.log._prune import prune_if_due

__all__ = ["Conversation", "forget_old", "latest"]

VERSION = 1
KEPT = 4  # messages at the end whose results stay when a conversation has become too long
SHORT = 400  # characters of a result that are not worth leaving out
LEFT_OUT = "[left out, since the conversation became too long: do it again if it matters]"
UNKNOWN = "hermes ended before this was known: look whether it was done before you do it again."


@dataclass
class Conversation:
    """What was said, and where. ``place`` is what the file says of the sandbox that it last was in."""

    path: Path
    place: dict[str, Any]
    directory: str = ""
    started: float = 0.0
    messages: list[ModelMessage] = field(default_factory=list)
    _fd: int = -1

    @property
    def id(self) -> str:
        return self.path.stem

    @classmethod
    def begin(cls, place: dict[str, Any]) -> Conversation:
        """Return a new one. Its file is made with the first message. Blocks.

        :raises HermesError: code ``history_unwritable``
        """
        name = time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3)
        return cls(_folder() / f"{name}.jsonl", place, os.path.realpath(os.getcwd()), time.time())

    @classmethod
    def load(cls, path: Path) -> Conversation:
        """Return the one of a file, to be gone on with. A last line that is not whole is dropped. Blocks.

        :raises HermesError: code ``history_unreadable`` or ``history_busy``
        """
        try:
            fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise _unreadable(path, error.strerror or str(error)) from error
        talk = cls(path, {})
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise HermesError(
                    f"the conversation {talk.id} is going on in another hermes; nothing was started",
                    code="history_busy",
                    hint="Leave it there with /quit, or begin another one.",
                ) from None
            with open(os.dup(fd), "rb") as file:
                file.seek(0)
                lines = file.read().split(b"\n")
            if lines[-1]:
                os.ftruncate(fd, os.fstat(fd).st_size - len(lines[-1]))
            try:
                for line in lines[:-1]:
                    talk._take(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise _unreadable(path, f"it is no conversation of this hermes: {error}") from error
        except BaseException:
            os.close(fd)
            raise
        talk._fd = fd
        with contextlib.suppress(OSError):
            os.utime(fd)  # gone on with: it is not old any more
        talk._mend()
        return talk

    def _take(self, line: Any) -> None:
        if "version" in line:
            if line["version"] != VERSION:
                raise ValueError(f"version {line['version']}")
            self.directory, self.started = line["directory"], line["started"]
        if "place" in line:
            self.place = dict(line["place"])
        if "message" in line:
            self.messages += ModelMessagesTypeAdapter.validate_python([line["message"]])

    def _mend(self) -> None:
        """Answer the calls that the end of a process left open: they are not made again."""
        last = self.messages[-1] if self.messages else None
        if isinstance(last, ModelResponse):
            open_ = [part for part in last.parts if isinstance(part, ToolCallPart)]
            if open_:
                parts = [
                    ToolReturnPart(one.tool_name, UNKNOWN, one.tool_call_id, outcome="interrupted")
                    for one in open_
                ]
                self.messages.append(ModelRequest(parts))

    async def add(self, message: ModelMessage) -> None:
        """Take a message, and keep it."""
        self.messages.append(message)
        kept = replace(message, instructions=None) if isinstance(message, ModelRequest) else message
        data = json.dumps({"message": ModelMessagesTypeAdapter.dump_python([kept], mode="json")[0]})
        await asyncio.to_thread(self._write, data)

    async def moved(self, place: dict[str, Any]) -> None:
        """Note that it goes on in another place."""
        self.place = place
        if self._fd != -1:
            await asyncio.to_thread(self._write, json.dumps({"place": place}))

    def _write(self, line: str) -> None:
        try:
            if self._fd == -1:
                make_private(self.path.parent)
                self._fd = os.open(
                    self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600
                )
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                head = {"version": VERSION, "directory": self.directory, "started": self.started}
                line = json.dumps({**head, "place": self.place}) + "\n" + line
            data = (line + "\n").encode("utf-8", "surrogateescape")
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            raise HermesError(
                f"the conversation cannot be kept in {self.path}: {error.strerror or error}",
                code="history_unwritable",
            ) from error

    def shorten(self) -> bool:
        """Leave old results out of what the model gets from now on; False when there are none left.

        The file keeps them.
        """
        some = False
        for at, message in enumerate(self.messages[:-KEPT]):
            if not isinstance(message, ModelRequest):
                continue
            parts = [_shortened(part) for part in message.parts]
            if any(new is not old for new, old in zip(parts, message.parts, strict=True)):
                self.messages[at] = replace(message, parts=parts)
                some = True
        return some

    def close(self) -> None:
        if self._fd != -1:
            os.close(self._fd)
            self._fd = -1


def _shortened(part: Any) -> Any:
    if isinstance(part, ToolReturnPart) and isinstance(part.content, str) and len(part.content) > SHORT:
        return replace(part, content=LEFT_OUT)
    return part


def latest(directory: str | None = None) -> Path:
    """Return the file of the conversation that was used last, of those that began in a directory. Blocks.

    :raises HermesError: code ``history_none``
    """
    directory = os.path.realpath(directory or os.getcwd())
    found: list[tuple[float, Path]] = []
    with contextlib.suppress(OSError):
        for path in _folder().glob("*.jsonl"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError), open(path, "rb") as file:
                if json.loads(file.readline())["directory"] == directory:
                    found.append((path.stat().st_mtime, path))
    if not found:
        raise HermesError(
            "no conversation was begun in this directory; nothing was started",
            code="history_none",
            hint="Begin one: hermes",
        )
    return max(found)[1]


def forget_old(keep: float) -> None:
    """Remove conversations that nobody has gone on with for so many seconds; 0 keeps all. Blocks."""
    prune_if_due(_folder(), Log(keep=keep, max_size=0))


def _folder() -> Path:
    return home() / "chats"


def _unreadable(path: Path, why: str) -> HermesError:
    return HermesError(
        f"{path} cannot be used: {why}; nothing was started",
        code="history_unreadable",
        hint="Begin another one, without --continue.",
    )
