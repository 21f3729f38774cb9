"""A process in a sandbox of Vercel's: its stdin by requests, its stdout by its log."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import ClassVar

import anyio
import httpx2
from vercel.errors import VercelError
from vercel.sandbox import Process, SandboxClient, SandboxRuntimeSession

from hermes.errors import BackendError, HermesError, Unreachable

from .._cloud._channel import CloudChannel
from ..base import Encoding
from ._client import code_of, translated, within

__all__ = ["VercelChannel"]

ROTATE = 16 << 20
"""So many characters of a log are enough: after a cut the whole of it is sent again, before what is new."""

END = 2.0  # seconds that a process may take to end when its stdin is closed

FAILURES = (VercelError, httpx2.HTTPError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError)


class VercelChannel(CloudChannel):
    """One process. The time limit of its session is extended while the channel is open.

    :param attach: gives a client of the SDK, which the channel closes, and the session
    :param on_limit: called when the limit was extended, or with None when it cannot be any more
    """

    encoding: Encoding = "text"
    piece: ClassVar[int] = 448 * 1024  # the most for one request are 512 KiB

    def __init__(
        self,
        argv: Sequence[str],
        attach: Callable[[], Awaitable[tuple[SandboxClient, SandboxRuntimeSession]]],
        *,
        deadline: float,
        lifetime: float,
        on_limit: Callable[[float | None], Awaitable[None]],
    ) -> None:
        super().__init__()
        self._argv = list(argv)
        self._attach = attach
        self._deadline = deadline
        self._lifetime = lifetime
        self._on_limit = on_limit
        self._client: SandboxClient | None = None
        self._session: SandboxRuntimeSession | None = None
        self._process: Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._seen = 0

    async def _connect(self) -> None:
        self._client, session = await self._attach()
        self._session = session
        try:
            self._process = await within(
                self._deadline,
                "start a process",
                lambda: session.create_process(
                    self._argv[0], self._argv[1:], cwd="/", stdin=subprocess.PIPE, stderr=subprocess.PIPE
                ),
            )
        except BaseException as error:
            await self._client.aclose()
            if isinstance(error, Unreachable) and isinstance(error.__cause__, httpx2.TransportError):
                error.code = "link_broke"  # whether one started is not known; nothing was said to it
            raise
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def _pieces(self) -> AsyncIterator[bytes]:
        assert self._process is not None and self._process.stdout is not None
        assert self._process.stdin is not None
        while True:
            try:
                text = await self._process.stdout.receive()
            except anyio.EndOfStream:
                break
            except FAILURES as error:
                raise translated(error, "go on with a log") from error
            yield text.encode("ascii", "replace")
            before, self._seen = self._seen, self._seen + len(text)
            if before <= ROTATE < self._seen:  # it ends then, and another process goes on
                with contextlib.suppress(*FAILURES):
                    await self._process.stdin.aclose()
        assert self._process.stderr is not None
        with contextlib.suppress(*FAILURES):
            if last := (await self._process.stderr.read())[-500:].strip():
                raise BackendError(f"the process ended, and said: {last}")

    async def _send(self, data: bytes) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            async with asyncio.timeout(self._deadline):
                await self._process.stdin.send(data)
        except (*FAILURES, TimeoutError) as error:
            raise Unreachable("the process takes no input", reason=str(error) or "no answer") from error

    async def _keep(self) -> None:
        """Extend the session's limit each time that half of the lifetime is left."""
        session = self._session
        assert session is not None
        started, limit = session.started_at, session.execution_time_limit
        left = self._lifetime
        if started is not None and limit is not None:
            # The clocks may differ: a limit that comes too early by them is met all the same.
            left = min(started / 1000 + limit.total_seconds() - time.time(), limit.total_seconds())
        half = max(self._lifetime / 2, 1.0)
        while True:
            await asyncio.sleep(max(left - half, 0.0))
            more = max(self._lifetime - max(min(left, half), 0.0), 1.0)
            try:
                await within(
                    self._deadline,
                    "extend the time limit",
                    lambda more=more: session.extend_execution_time_limit(more),  # type: ignore[misc]
                )
            except Unreachable:
                left = half + min(half / 4, 30.0)  # another attempt before it is too late
                continue
            except HermesError as error:
                if code_of(error)[0] == 400:
                    await self._on_limit(None)
                return
            left = self._lifetime
            await self._on_limit(left)

    async def _close(self) -> None:
        # The SDK does not close all of a stream that is left in its middle, so it is let come to its end.
        process, reading = self._process, self._tasks[:1]
        if process is not None and process.stdin is not None and reading:
            with contextlib.suppress(TimeoutError, *FAILURES):
                async with asyncio.timeout(END):
                    await process.stdin.aclose()
                    await asyncio.wait(reading)
        await super()._close()

    async def _release(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        process, client = self._process, self._client
        try:
            if process is not None and process.stdin is not None:
                with contextlib.suppress(*FAILURES):
                    await process.stdin.aclose()
        finally:
            if client is not None:
                await client.aclose()
