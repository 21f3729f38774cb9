"""What the ready-made byte channels have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from hermes.errors import HermesError

HIGH_WATER = 512 * 1024
"""So many unsent bytes make ``drain`` wait."""

T = TypeVar("T")


async def in_thread(work: Callable[[], T], undo: Callable[[T], None]) -> T:
    """Run blocking work in a thread; when the wait for it is cancelled, undo what it still brings about."""
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:

        def late(done: asyncio.Future[T]) -> None:
            if not done.cancelled() and done.exception() is None:
                undo(done.result())

        future.add_done_callback(late)
        raise


class Channel:
    """What both channels share: delivery, the end told exactly once, and the state of the write buffer."""

    def __init__(self) -> None:
        self._on_data: Callable[[bytes], None] | None = None
        self._on_close: Callable[[str | None], None] | None = None
        self._started = False
        self._closed = False
        self._writer: asyncio.WriteTransport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._closing: asyncio.Task[None] | None = None

    async def start(self, on_data: Callable[[bytes], None], on_close: Callable[[str | None], None]) -> None:
        if self._started:
            raise RuntimeError("a channel is started once")
        self._started = True
        self._on_data, self._on_close = on_data, on_close
        try:
            await self._open()
        except BaseException:
            self._on_data = self._on_close = None
            self._closed = True
            raise

    async def _open(self) -> None:
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        if self._writer is not None and not self._closed and self._closing is None:
            self._writer.write(data)

    async def drain(self) -> None:
        await self._writable.wait()

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        # Whoever is cancelled while waiting does not stop the clean-up, which has its own bounds.
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        raise NotImplementedError

    def _abort(self, reason: str) -> None:
        """End the channel at once, because this end can no longer use it."""
        raise NotImplementedError

    def _deliver(self, data: bytes) -> None:
        if self._closed or self._closing is not None or self._on_data is None:
            return
        try:
            self._on_data(data)
        except Exception as error:
            if not isinstance(error, HermesError):
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "the receiver of a channel's data failed", "exception": error}
                )
            self._abort(str(error) or repr(error))

    def _ended(self, reason: str | None) -> None:
        if self._closed:
            return
        self._closed = True
        self._writable.set()
        on_close, self._on_data, self._on_close = self._on_close, None, None
        if on_close is not None:
            on_close(None if self._closing is not None else reason)
