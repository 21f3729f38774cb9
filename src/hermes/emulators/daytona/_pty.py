"""A terminal in a sandbox, and the sockets that show it.

As there: a message to it of more than 64 KiB closes the socket, what it prints goes to those who are
connected and to nobody later, and one who is too far behind is dropped. It lives on without any of them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from aiohttp import WSCloseCode, WSMsgType, web
from daytona_toolbox_api_client_async import PtySessionInfo

from .._place import Process, set_size

if TYPE_CHECKING:
    from ._box import Box

EXIT_CONTROL = "X-Daytona-Pty-Exit-Control"
ENVIRONMENT = "X-Daytona-Pty-Envs~"
LONGEST = 64 * 1024
BEHIND = 256
TOGETHER = 16  # pieces that go out in one message, where so many wait: it spares time and changes nothing
READ = 4096


class Viewer:
    """One socket on a terminal."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        self._socket, self._request = socket, request
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(BEHIND)
        self._exits = EXIT_CONTROL in request.headers.get("Sec-WebSocket-Protocol", "")
        self._over: tuple[int, bytes, str | None] | None = None

    def put(self, data: bytes) -> bool:
        """Hand over what was printed; False when it is too far behind."""
        try:
            self._queue.put_nowait(data)
        except asyncio.QueueFull:
            self.end(WSCloseCode.POLICY_VIOLATION, b"slow consumer")
            return False
        return True

    def end(self, code: int, reason: bytes, exited: str | None = None) -> None:
        """Close the socket, after what is left where there is room for it."""
        self._over = (code, reason, exited)
        with contextlib.suppress(asyncio.QueueFull):
            self._queue.put_nowait(None)

    def cut(self) -> None:
        """Break the connection."""
        if self._request.transport is not None:
            self._request.transport.abort()

    async def send(self) -> None:
        """Send what is printed until the end."""
        await self._socket.send_str(json.dumps({"type": "control", "status": "connected"}))
        data: bytes | None = b""
        while data is not None and not (self._over is not None and self._queue.full()):
            pieces = [await self._queue.get()]
            while pieces[-1] is not None and len(pieces) < TOGETHER and not self._queue.empty():
                pieces.append(self._queue.get_nowait())
            data = pieces[-1]
            if joined := b"".join(piece for piece in pieces if piece is not None):
                await self._socket.send_bytes(joined)
        assert self._over is not None
        code, reason, exited = self._over
        if exited is not None and self._exits:
            await self._socket.send_str(exited)
        await self._socket.close(code=code, message=reason)


class Terminal:
    """A terminal with a login shell on it."""

    def __init__(self, ident: str, box: Box, *, rows: int, cols: int, cwd: str, envs: dict[str, str]) -> None:
        self.id = ident
        self.box = box
        self.rows, self.cols, self.cwd, self.envs = rows, cols, cwd, envs
        self.created = ""
        self._viewers: set[Viewer] = set()
        self._input = bytearray()
        self._outer = -1
        self._process: Process | None = None
        self._ending: asyncio.Task[None] | None = None

    async def start(self, shell: str) -> None:
        """Start the shell."""
        outer, inner = self.box.place.terminal(self.rows, self.cols)
        os.set_blocking(outer, False)
        try:
            env = self.box.environment({"TERM": "xterm-256color", **self.envs})
            self._process = await self.box.place.spawn([shell, "-l"], cwd=self.cwd, env=env, terminal=inner)
        except BaseException:
            os.close(outer)
            raise
        finally:
            os.close(inner)
        self._outer = outer
        asyncio.get_running_loop().add_reader(outer, self._read)

    def info(self) -> dict[str, Any]:
        """Return what the API tells of it."""
        facts = {
            "id": self.id,
            "active": self._outer >= 0,
            "cols": self.cols,
            "rows": self.rows,
            "cwd": self.cwd,
            "envs": self.envs,
            "createdAt": self.created,
            "lazyStart": False,
        }
        assert PtySessionInfo.from_dict(facts) is not None
        return facts

    def resize(self, rows: int, cols: int) -> None:
        """Give it another size."""
        self.rows, self.cols = rows, cols
        set_size(self._outer, rows, cols)

    def kill(self) -> None:
        """End what runs on it."""
        if self._process is not None:
            self._process.kill()

    def cut(self) -> None:
        """Break the connections and forget the terminal, as when the sandbox is stopped."""
        for viewer in self._viewers:
            viewer.cut()
        self._close()

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Serve a socket until it or the terminal is closed."""
        socket = web.WebSocketResponse(protocols=(EXIT_CONTROL,), max_msg_size=LONGEST)
        await socket.prepare(request)
        viewer = Viewer(socket, request)
        self._viewers.add(viewer)
        sending = asyncio.get_running_loop().create_task(viewer.send())
        try:
            async for message in socket:
                if message.type in (WSMsgType.BINARY, WSMsgType.TEXT):
                    data = message.data if isinstance(message.data, bytes) else message.data.encode()
                    self._input += data
                    self._write()
        finally:
            self._viewers.discard(viewer)
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await sending
        return socket

    def _read(self) -> None:
        try:
            data = os.read(self._outer, READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close()
            self._ending = asyncio.get_running_loop().create_task(self._end())
            return
        for viewer in list(self._viewers):
            if not viewer.put(data):
                self._viewers.discard(viewer)

    def _write(self) -> None:
        if self._outer < 0:
            return
        loop = asyncio.get_running_loop()
        try:
            while self._input:
                del self._input[: os.write(self._outer, self._input[:READ])]
        except BlockingIOError:
            loop.add_writer(self._outer, self._write)
            return
        except OSError:
            self._input.clear()
        loop.remove_writer(self._outer)

    def _close(self) -> None:
        if self._outer >= 0:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._outer)
            loop.remove_writer(self._outer)
            os.close(self._outer)
            self._outer = -1
        self.box.terminals.pop(self.id, None)

    async def _end(self) -> None:
        assert self._process is not None
        code = await self._process.wait()
        code = 128 - code if code < 0 else code
        exited = json.dumps({"type": "control", "status": "exited", "exitCode": code})
        for viewer in self._viewers:
            viewer.end(WSCloseCode.OK, json.dumps({"exitCode": code}).encode(), exited)


def environment_of(request: web.Request) -> dict[str, str]:
    """Return the variables that a client gave with the names of the protocols that it speaks."""
    for token in request.headers.get("Sec-WebSocket-Protocol", "").split(","):
        if token.strip().startswith(ENVIRONMENT):
            encoded = token.strip().removeprefix(ENVIRONMENT)
            given = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
            return {str(key): str(value) for key, value in given.items()}
    return {}
