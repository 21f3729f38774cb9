"""The protocol on two pipes: a message on each line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.shared.message import SessionMessage

from hermes.errors import HermesError

__all__ = ["serve_stdio"]

LONGEST = 64 << 20  # bytes of one message


async def serve_stdio(
    protocol: Server[None], incoming: AsyncIterator[bytes], send: Callable[[bytes], Awaitable[None]]
) -> None:
    """Serve one client until it ends its side.

    :param incoming: what it sends, in any pieces
    :param send: takes what it is sent; raises when nobody reads that any more
    """
    to_server, received = anyio.create_memory_object_stream[SessionMessage | Exception]()
    to_client, sent = anyio.create_memory_object_stream[SessionMessage]()

    async def read() -> None:
        async with to_server:
            async for line in _lines(incoming):
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError as error:
                    await to_server.send(error)
                else:
                    await to_server.send(SessionMessage(message))

    async def write() -> None:
        async with sent:
            async for message in sent:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await send(text.encode() + b"\n")

    async with asyncio.TaskGroup() as group:
        reading, writing = group.create_task(read()), group.create_task(write())
        await protocol.run(received, to_client, protocol.create_initialization_options())
        reading.cancel()
        await to_client.aclose()
        await writing


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = bytearray()
    async for piece in pieces:
        seen = len(rest)
        rest += piece
        if b"\n" not in piece:
            if len(rest) > LONGEST:
                raise HermesError(
                    f"the client sent a message of more than {LONGEST >> 20} MiB; it is not served any more"
                )
            continue
        *whole, left = bytes(rest).split(b"\n")
        rest = bytearray(left)
        del seen
        for line in whole:
            if line.strip():
                yield line
