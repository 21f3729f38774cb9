"""Ready-made byte channels: over a process's stdin and stdout, and over a guest's unix socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

from ._connect import connect_guest
from ._process import ProcessChannel
from ._stream import HIGH_WATER, Channel, in_thread
from .base import Encoding

__all__ = ["ProcessChannel", "SocketChannel"]

_READ_SIZE = 256 * 1024


class SocketChannel(Channel):
    """A channel to the socket that a guest serves in a directory which this machine can see.

    :param run_dir: the directory, as a path on this machine; the hostile side may write into it
    :param name: the socket's name in it
    :param uid: the user, in this machine's numbering, who must own the directory, the socket and its server
    :param met: told the number of the process that serves it, in a thread
    """

    encoding: Encoding = "binary"

    def __init__(
        self,
        run_dir: str | Path,
        name: str = "guest.sock",
        *,
        uid: int,
        met: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__()
        self._where = (str(run_dir), name, uid, met)
        self._lost = asyncio.Event()

    async def _open(self) -> None:
        where = self._where
        sock = await in_thread(lambda: connect_guest(*where), socket.socket.close)
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: _SocketProtocol(self), sock=sock)
        except BaseException:
            sock.close()
            raise
        if self._closing is not None and self._writer is not None:
            self._writer.abort()

    async def _close(self) -> None:
        writer = self._writer
        if writer is not None and not self._closed:
            writer.close()
            # A peer that does not read keeps the buffer from emptying: it is given a moment, no more.
            try:
                async with asyncio.timeout(1.0):
                    await self._lost.wait()
            except TimeoutError:
                pass
            finally:
                writer.abort()
        self._ended(None)

    def _abort(self, reason: str) -> None:
        self._ended(reason)
        if self._writer is not None:
            self._writer.abort()


class _SocketProtocol(asyncio.BufferedProtocol):
    def __init__(self, channel: SocketChannel) -> None:
        self._channel = channel
        self._buffer = bytearray(_READ_SIZE)
        self._view = memoryview(self._buffer)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self._channel._writer = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        self._channel._deliver(bytes(self._view[:nbytes]))

    def pause_writing(self) -> None:
        self._channel._writable.clear()

    def resume_writing(self) -> None:
        self._channel._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._channel._lost.set()
        self._channel._ended(f"the connection broke: {exc}" if exc else "the guest closed the connection")
