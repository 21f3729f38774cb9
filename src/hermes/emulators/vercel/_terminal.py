"""A program on a terminal, over a WebSocket."""

from __future__ import annotations

import asyncio
import os
import select

from aiohttp import WSMsgType, web

from .._place import set_size
from ._model import WORK, Session

__all__ = ["serve_terminal"]


async def serve_terminal(request: web.Request, session: Session) -> web.StreamResponse:
    """Start what the first message says, and carry its terminal until either end is over."""
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    told = await socket.receive_json()
    outer, inner = session.place.terminal(int(told["rows"]), int(told["cols"]))
    try:
        try:
            process = await session.place.spawn(
                [told["command"], *told["args"]],
                cwd=told.get("cwd") or WORK,
                env=session.environment(dict(pair.split("=", 1) for pair in told["env"])),
                terminal=inner,
            )
        finally:
            os.close(inner)
        os.set_blocking(outer, False)
        output: asyncio.Queue[bytes] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def readable() -> None:
            try:
                data = os.read(outer, 1 << 16)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                loop.remove_reader(outer)
            output.put_nowait(data)

        async def send() -> None:
            while data := await output.get():
                await socket.send_bytes(data)
            code = await process.wait()
            await socket.send_json({"type": "exit", "code": code if code >= 0 else 128 - code})
            await socket.close()

        loop.add_reader(outer, readable)
        sending = loop.create_task(send())
        try:
            async for message in socket:
                if message.type is WSMsgType.BINARY:
                    await asyncio.to_thread(_write_all, outer, message.data)
                elif message.type is WSMsgType.TEXT and message.json().get("type") == "resize":
                    set_size(outer, int(message.json()["rows"]), int(message.json()["cols"]))
        finally:
            process.kill(1)  # as a terminal that is closed does
            loop.remove_reader(outer)
            sending.cancel()
    finally:
        os.close(outer)
    return socket


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            select.select([], [fd], [], 1)
        except OSError:
            return
