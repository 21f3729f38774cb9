"""Ports of a sandbox on this machine's loopback."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from .errors import HermesError, PortError

if TYPE_CHECKING:
    from .channel.channel import Channel, Stream

__all__ = ["forward"]

READ_SIZE = 1 << 16
BACKLOG = 256
RESET = struct.pack("ii", 1, 0)


OnError = Callable[[HermesError], None]


@contextlib.asynccontextmanager
async def forward(
    channel: Channel,
    port: int,
    *,
    host: str = "127.0.0.1",
    local_port: int = 0,
    on_error: OnError | None = None,
) -> AsyncIterator[int]:
    """Make a port that the sandbox reaches reachable on 127.0.0.1 of this machine; yields the local port.

    Each connection there becomes one from inside the sandbox; one that is refused there is reset here. For
    ``127.0.0.1`` the sandbox's ``::1`` is tried too. Leaving the context closes all connections.

    :param host: as the sandbox knows it
    :param local_port: 0 for any that is free
    :param on_error: gets the reason for which a connection was reset, such as ``port_refused``
    :raises PortError: ``port_in_use``, or the port cannot be bound or is none
    """
    for number in (port, local_port):
        if not 0 <= number < 65536 or not port:
            raise PortError(f"{number} is not a port", operation="forward")
    connections: set[asyncio.Task[None]] = set()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(
            _serve(channel.open, {"port": port, "host": host}, reader, writer, on_error)
        )
        connections.add(task)
        task.add_done_callback(connections.discard)

    try:
        server = await asyncio.start_server(
            accepted, "127.0.0.1", local_port, limit=READ_SIZE, backlog=BACKLOG
        )
    except OSError as error:
        number = error.errno or 0
        taken = number == errno.EADDRINUSE
        raise PortError(
            f"port {local_port} of this machine cannot be bound: {os.strerror(number)}",
            code="port_in_use" if taken else None,
            operation="forward",
            hint="Take another local port, or 0 for any that is free.",
            context={"port": local_port},
        ) from error
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await server.wait_closed()


async def _serve(
    connect: Callable[[str, dict[str, Any]], Stream],
    target: dict[str, Any],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    on_error: OnError | None,
) -> None:
    stream: Stream | None = None
    try:
        stream = connect("port.open", target)
        async with asyncio.TaskGroup() as group:
            up = group.create_task(_up(reader, stream))
            await _down(stream, writer)
            up.cancel()
        writer.close()
        await writer.wait_closed()
    except* HermesError as errors:
        error = errors.exceptions[0]
        if on_error is not None and isinstance(error, HermesError):
            on_error(error)
        with contextlib.suppress(OSError):
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    except* OSError:
        pass  # the client here has gone
    finally:
        if stream is not None:
            stream.cancel()
        writer.transport.abort()


async def _up(reader: asyncio.StreamReader, stream: Stream) -> None:
    while data := await reader.read(READ_SIZE):
        await stream.send(data)
    stream.send_eof()


async def _down(stream: Stream, writer: asyncio.StreamWriter) -> None:
    async for _, data in stream:
        writer.write(data)
        await writer.drain()
    if not stream.answered and writer.can_write_eof():
        writer.write_eof()
    await stream.reply()
