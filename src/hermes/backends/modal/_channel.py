"""A process in a sandbox of Modal, over the SDK's exec."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar

from hermes.errors import BackendError

from .._cloud._channel import CloudChannel

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["ModalChannel"]

SEND_SECONDS = 120.0
TAIL = 2000


class ModalChannel(CloudChannel):
    """The SDK goes on by itself where a connection broke, in both directions; this adds no more than bounds.

    :param start: starts the process, and returns the SDK's object for it
    """

    piece: ClassVar[int] = 512 << 10

    def __init__(self, sdk: ModuleType, start: Callable[[], Awaitable[Any]]) -> None:
        super().__init__()
        self._sdk = sdk
        self._start = start
        self._process: Any = None
        self._over = False
        self._said = b""
        self._listening: asyncio.Task[None] | None = None

    async def _connect(self) -> None:
        self._process = await self._start()
        self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        # A process that fills its stderr waits until somebody reads it.
        with contextlib.suppress(self._sdk.Error, OSError, asyncio.CancelledError):
            async for data in self._process.stderr:
                self._said = (self._said + data)[-TAIL:]

    async def _pieces(self) -> AsyncIterator[bytes]:
        try:
            async for data in self._process.stdout:
                yield data
        except (self._sdk.Error, OSError) as error:
            raise self._sdk.translated(error, "read what the sandbox says") from error
        self._over = True
        if self._listening is not None:
            await asyncio.wait([self._listening], timeout=1.0)
        if said := self._said.decode("utf-8", "replace").strip():
            raise BackendError(f"the process in the sandbox is over: {said}")

    async def _send(self, data: bytes) -> None:
        self._process.stdin.write(data)
        await self._sdk.call(self._process.stdin.drain.aio(), "take what it is sent", SEND_SECONDS)

    async def _release(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
        if self._process is None or self._over:
            return
        # Modal ends no process because its client is gone: it has to see the end of its stdin.
        with contextlib.suppress(ValueError):
            self._process.stdin.write_eof()
            await self._sdk.call(self._process.stdin.drain.aio(), "close the stdin of a process")
