"""The line between clients and an emulator: a forwarder that can delay what passes and cut connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

__all__ = ["Line"]


class Line:
    """Forwards connections from public ports to the emulator's own ones, all on 127.0.0.1.

    ``delay``: seconds that each byte takes, one way. ``cut``: seconds after which every connection that
    stands is reset, again and again; 0 for never.
    """

    def __init__(self, *, delay: float = 0.0, cut: float = 0.0) -> None:
        self.delay = delay
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.Transport] = set()
        self._cutter: asyncio.Task[None] | None = None
        self._cut = 0.0
        self.set_cut(cut)

    def set_cut(self, seconds: float) -> None:
        """Cut all connections every so many seconds from now on; 0 stops that."""
        self._cut = seconds
        if self._cutter is not None:
            self._cutter.cancel()
            self._cutter = None
        if seconds:
            self._cutter = asyncio.get_running_loop().create_task(self._cutting())

    async def expose(self, port: int) -> int:
        """Forward a public port to this one, and return the public one's number."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _End(self, port), "127.0.0.1", 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    def cut(self) -> int:
        """Reset every connection now, and return how many there were."""
        cut = list(self._open)
        for transport in cut:
            transport.abort()
        return len(cut)

    async def close(self) -> None:
        """Take no more connections, and reset those that stand."""
        self.set_cut(0)
        for server in self._servers:
            server.close()
        self.cut()

    async def _cutting(self) -> None:
        while True:
            await asyncio.sleep(self._cut)
            self.cut()


class _End(asyncio.Protocol):
    """One end of a forwarded connection. Given a port, it connects the other end to it."""

    def __init__(self, line: Line, port: int = 0, other: _End | None = None) -> None:
        self._line, self._port, self._other = line, port, other
        self._transport: asyncio.Transport | None = None
        self._queue: deque[tuple[float, bytes | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._ended = 0  # directions that are over
        self._made = 0.0  # when the client, which is told too early, would know of its connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._line._open.add(transport)
        if self._other is None:
            self._made = asyncio.get_running_loop().time() + self._line.delay * 2
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        assert self._transport is not None
        try:
            await asyncio.sleep(self._line.delay * 2)  # as long as a connection takes to be made
            _, self._other = await loop.create_connection(
                lambda: _End(self._line, other=self), "127.0.0.1", self._port
            )
        except OSError:
            self._transport.abort()
            return
        self._deliver()  # what came meanwhile

    def data_received(self, data: bytes) -> None:
        self._pass(data)

    def eof_received(self) -> bool:
        self._half_over()
        self._pass(None)
        return True

    def _half_over(self) -> None:
        self._ended += 1
        if self._ended == 2 and self._transport is not None:
            self._transport.close()

    def _pass(self, data: bytes | None) -> None:
        loop = asyncio.get_running_loop()
        self._queue.append((max(loop.time(), self._made) + self._line.delay, data))
        if self._timer is None:
            self._deliver()

    def _deliver(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        if self._other is None:
            return
        there = self._other._transport
        while self._queue and (self._queue[0][0] <= loop.time() + 0.0005):
            _, data = self._queue.popleft()
            if there is None or there.is_closing():
                continue
            if data is not None:
                there.write(data)
            else:
                with contextlib.suppress(OSError):  # it was reset just now
                    there.write_eof()
                self._other._half_over()
        if self._queue:
            self._timer = loop.call_at(self._queue[0][0], self._deliver)

    def pause_writing(self) -> None:
        # What comes in at the other end waits until this one has room.
        if self._other is not None and self._other._transport is not None:
            self._other._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._other is not None and self._other._transport is not None:
            with contextlib.suppress(RuntimeError):
                self._other._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is not None:
            self._line._open.discard(self._transport)
        other = self._other
        # Without an error both directions were over, and what is still on its way arrives.
        if error is not None and other is not None and other._transport is not None:
            other._transport.abort()
