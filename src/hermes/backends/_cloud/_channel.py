"""A byte channel over a stream that a provider's SDK reads and writes with calls."""

from __future__ import annotations

import asyncio
import contextlib
from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import ClassVar

from hermes.errors import HermesError, SandboxGone, Unreachable

from .._stream import HIGH_WATER, Channel
from ..base import Encoding

__all__ = ["CloudChannel"]


class CloudChannel(Channel):
    """A channel whose far end is read as an iterator and written with one call at a time.

    What is written while a call is under way goes out together in the next one, in pieces of up to
    ``piece`` bytes, since each such call is a round trip.
    """

    encoding: Encoding = "binary"
    piece: ClassVar[int] = 60_000
    grace: ClassVar[float] = 5.0
    """Seconds that closing may take."""

    def __init__(self) -> None:
        super().__init__()
        self._queue = bytearray()
        self._some = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.failure: SandboxGone | None = None
        """Set when the connection broke or the sandbox ended, and not the process."""

    @abstractmethod
    async def _connect(self) -> None:
        """Start the process at the far end, or raise what the contract of ``start`` names."""

    @abstractmethod
    def _pieces(self) -> AsyncIterator[bytes]:
        """Yield what the process prints on stdout. Returns, or raises a HermesError, when it is over."""

    @abstractmethod
    async def _send(self, data: bytes) -> None:
        """Write to the process's stdin, all of it, once."""

    @abstractmethod
    async def _release(self) -> None:
        """Let go of whatever the channel holds. The process sees the end of its stdin or a hang-up."""

    async def _open(self) -> None:
        await self._connect()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._reading()), loop.create_task(self._sending())]

    def write(self, data: bytes) -> None:
        if self._closed or self._closing is not None:
            return
        self._queue += data
        self._some.set()
        if len(self._queue) > HIGH_WATER:
            self._writable.clear()

    async def _reading(self) -> None:
        try:
            async for data in self._pieces():
                self._deliver(data)
        except HermesError as error:
            self._broke(error)
        else:
            self._abort("the process at the other end is over")

    async def _sending(self) -> None:
        try:
            while True:
                await self._some.wait()
                data = bytes(self._queue[: self.piece])
                del self._queue[: len(data)]
                if not self._queue:
                    self._some.clear()
                if len(self._queue) <= HIGH_WATER:
                    self._writable.set()
                await self._send(data)
        except HermesError as error:
            self._broke(error)

    def _broke(self, error: HermesError) -> None:
        if isinstance(error, SandboxGone) and self.failure is None:
            if isinstance(error, Unreachable):
                error.code = "link_broke"
            self.failure = error
        self._abort(error.message)

    def _abort(self, reason: str) -> None:
        if self._closed or self._closing is not None:
            return
        self._ended(reason)
        self._closing = asyncio.get_running_loop().create_task(self._close())

    async def _close(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self.grace)
        with contextlib.suppress(TimeoutError, HermesError):
            await asyncio.wait_for(self._release(), self.grace)
        self._ended(None)
