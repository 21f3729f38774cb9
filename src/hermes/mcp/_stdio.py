"""The protocol on two pipes: a message on each line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.shared.message import SessionMessage

from hermes._json import whole_characters
from hermes.errors import HermesError

from ._server import LONGEST

__all__ = ["serve_stdio"]

LAST_WORDS = 2.0


async def serve_stdio(
    protocol: Server[Any], incoming: AsyncIterator[bytes], send: Callable[[bytes], Awaitable[None]]
) -> None:
    """Serve one client until it ends its side.

    :param incoming: what it sends, in any pieces
    :param send: takes what it is sent; raises when nobody reads that any more
    """
    to_server, received = anyio.create_memory_object_stream[SessionMessage | Exception]()
    to_client, sent = anyio.create_memory_object_stream[SessionMessage]()
    refusals = to_client.clone()

    async def read() -> None:
        async with to_server, refusals:
            async for line in _lines(incoming):
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    await refusals.send(SessionMessage(_refused(line)))
                else:
                    await to_server.send(SessionMessage(message))

    async def write() -> None:
        async with sent:
            async for message in sent:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await send(text.encode() + b"\n")

    serving = asyncio.create_task(protocol.run(received, to_client, protocol.create_initialization_options()))
    reading, writing = asyncio.create_task(read()), asyncio.create_task(write())
    tasks = (serving, reading, writing)
    try:
        await asyncio.wait({serving, writing}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():  # what it has said last is still to be sent
            await asyncio.wait({writing}, timeout=LAST_WORDS)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error


def _refused(line: bytes) -> types.JSONRPCError:
    """Return the answer to a message that is none, under its id where it has one: somebody waits for that."""
    ident, error = None, types.ErrorData(code=types.PARSE_ERROR, message="this is no JSON; nothing was done")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return types.JSONRPCError(jsonrpc="2.0", id=ident, error=error)
    said = "this is no message of JSON-RPC 2.0, or holds half of a character; nothing was done"
    error = types.ErrorData(code=types.INVALID_REQUEST, message=said)
    if isinstance(found, dict) and "method" in found and isinstance(found.get("id"), int | str):
        ident = found["id"] if isinstance(found["id"], int) else whole_characters(found["id"])
    return types.JSONRPCError(jsonrpc="2.0", id=ident, error=error)


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = bytearray()
    async for piece in pieces:
        rest += piece
        if b"\n" not in piece:
            if len(rest) > LONGEST:
                raise HermesError(
                    f"the client sent a message of more than {LONGEST >> 20} MiB; it is not served any more"
                )
            continue
        *whole, left = bytes(rest).split(b"\n")
        rest = bytearray(left)
        for line in whole:
            if line.strip():
                yield line
