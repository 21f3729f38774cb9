"""Background commands: they outlive the client, and their output can be read later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _watch
from .errors import ProtocolError
from .session import Result, collect, text_bytes

if TYPE_CHECKING:
    from .channel.channel import Stream
    from .credentials.scrub import Scrub
    from .sandbox import Sandbox

__all__ = ["Job", "JobInfo"]

PAGE = 1 << 18


@dataclass(frozen=True, slots=True)
class JobInfo:
    """What is known of a command; times in seconds since the epoch, ``bytes`` of output so far.

    ``kind`` is ``job``, ``pty``, ``run`` (a command somebody waits for, or whose client was lost) or
    ``stray`` (a process that a command left in the background). ``state`` is ``queued``, ``running``,
    ``exited``, ``killed``, ``timed_out``, ``interrupted``, ``expired`` or ``failed``. With
    ``tty`` it has a terminal.
    """

    id: str
    kind: str
    command: str
    pid: int
    state: str
    exit_code: int | None
    started: float | None
    ended: float | None
    bytes: int
    session: str | None
    tty: bool = False

    @classmethod
    def from_guest(cls, facts: dict[str, Any]) -> JobInfo:
        try:
            started = facts.get("started")
            running = facts["state"] in ("queued", "running")
            return cls(
                id=str(facts["id"]),
                kind=str(facts["kind"]),
                command=str(facts["command"]),
                pid=int(facts["pid"]),
                state=str(facts["state"]),
                exit_code=None if facts.get("exit_code") is None else int(facts["exit_code"]),
                started=None if started is None else float(started),
                ended=None if running or started is None else float(started) + float(facts["duration"]),
                bytes=sum(int(size) for size in facts.get("sizes", {}).values()),
                session=facts.get("session"),
                tty=facts.get("tty") is True,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolError(f"the guest described a job that makes no sense: {error!r}") from error


class Job:
    """One background command. Its stdout and stderr are one output, in true order."""

    def __init__(
        self, sandbox: Sandbox, ident: int, command: str, *, tty: bool = False, cwd: str | None = None
    ) -> None:
        self._sandbox = sandbox
        self._task = ident
        self.command = command
        self._tty = tty
        self._typed = sandbox._typed(command, tty=tty, cwd=cwd)

    def __repr__(self) -> str:
        return f"<Job {self.id}: {self.command!r}>"

    @property
    def id(self) -> str:
        return str(self._task)

    async def output(self, offset: int = 0, n: int | None = None) -> bytes:
        """Return the output so far from *offset*, at most *n* bytes of it.

        :raises JobError: the job is no longer known
        """
        from .channel.channel import checked

        parts: list[bytes] = []
        begun, ended = offset > 0, n is None
        while n is None or n > 0:
            args = {"task": self._task, "offset": offset, "size": PAGE if n is None else min(n, PAGE)}
            reply = await self._sandbox._channel.call("output", args)
            if not reply.raw:
                break
            parts.append(reply.raw)
            self._entry().at(1, offset, reply.raw)
            offset = checked(reply.body.get("next"), int)
            n = None if n is None else n - len(reply.raw)
        data, scrub = b"".join(parts), self._scrub()
        if scrub:
            data = scrub.whole(data, cut=not ended)[0]
            data = scrub.rest(data)[0] if begun else data
        return data

    async def follow(self, offset: int = 0) -> AsyncGenerator[bytes, None]:
        """Yield the output from *offset* as it comes, until the job has ended."""
        stream = self._attach(live=True, offset=offset)
        scrub = self._scrub()
        scrubbing = scrub.stream() if scrub else None
        entry = self._entry()
        try:
            async for _, data in stream:
                entry.at(1, offset, data)
                offset += len(data)
                if scrubbing and (scrub := self._scrub()):
                    scrubbing.renew(scrub)
                if passed := scrubbing.feed(data) if scrubbing else data:
                    yield passed
            await stream.reply()
            if scrubbing and (passed := scrubbing.end()):
                yield passed
        finally:
            stream.cancel()

    async def write(self, data: bytes | str) -> None:
        """Write to the job's standard input; returns when the job took it.

        :raises JobError: code ``job_finished``; it takes none any more
        """
        if isinstance(data, str):
            data = text_bytes(data, "the input")
        if self._typed is not None:
            await self._typed.approve(data)
        for start in range(0, len(data), PAGE) or (0,):
            await self._sandbox._channel.call("write", {"task": self._task}, data[start : start + PAGE])

    async def close_stdin(self) -> None:
        """Let the job see the end of its input."""
        await self._sandbox._channel.call("write", {"task": self._task, "eof": True})

    async def wait(self, timeout: float | None = None) -> Result:
        """Wait for the end and return the result; its output is clipped as that of a run is.

        :param timeout: seconds to wait; the job itself is not touched when they are over
        :raises TimeoutError: it still runs
        """
        stream = self._attach(live=False)
        try:
            async with asyncio.timeout(timeout):
                box, entry = self._sandbox, self._entry()
                result = await collect(box._channel, stream, box._config.output.limit, self._scrub(), entry)
                entry.ended(result)
                return result
        finally:
            stream.cancel()

    async def kill(self, signal: str | int | None = None) -> None:
        """End the job and everything it started, or send the given signal to its command."""
        await self._sandbox._channel.call("kill", {"task": self._task, "signal": signal})

    async def resize(self, rows: int, cols: int) -> None:
        """Set the size of the job's terminal.

        :raises HermesError: it has none
        """
        await self._sandbox._channel.call("resize", {"task": self._task, "size": [rows, cols]})
        self._entry().resized(rows, cols)

    async def info(self) -> JobInfo:
        """Return what is known of the job now.

        :raises JobError: it is no longer known
        """
        return await self._sandbox._job_info(self.id)

    def _attach(self, *, live: bool, offset: int = 0, input: bool = False) -> Stream:
        args = {"task": self._task, "live": live, "input": input, "offsets": {"1": offset}}
        return self._sandbox._channel.open("attach", args)

    def _entry(self) -> _watch.Entry:
        """Return what is told of what is seen of it."""
        return _watch.of_job(self._sandbox, self.id, self.command, tty=self._tty)

    def _scrub(self) -> Scrub | None:
        """Return what takes secrets out, None where nothing is taken out."""
        supply = self._sandbox._supply
        return None if supply is None else supply.scrub
