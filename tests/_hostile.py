"""A guest that does whatever a test wants it to, and a sandbox that is connected to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes import AllowAll, Sandbox
from hermes.backends.base import ByteChannel, GuestDirs, PlaceState
from hermes.backends.channels import SocketChannel
from hermes.backends.local import LocalBackend
from hermes.guest.frames import CALL, HELLO, PROTOCOL, REPLY, Binary, Frame, pack, unpack

SOCKET = "guest.sock"


class Peer:
    """The hostile end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.seq = 0
        self._reader = reader
        self._codec = Binary()
        self._frames: list[Frame] = []

    async def frame(self, kind: int | None = None) -> Frame:
        """Return the next frame that the client sends, of that kind."""
        while True:
            while self._frames:
                frame = self._frames.pop(0)
                if kind is None or frame[0] == kind:
                    return frame
            data = await self._reader.read(65536)
            if not data:
                raise ConnectionError("the client has gone")
            self._frames += self._codec.feed(data)

    async def greet(self, **changes: Any) -> None:
        """Answer the client's greeting like an honest guest, but for some changes."""
        await self.frame(HELLO)
        facts = {
            "protocol": PROTOCOL,
            "known": True,
            "seen": 0,
            "guest": "g",
            "pid": 1,
            "python": "3.6",
            "cwd": "/",
        }
        self.raw(Binary.encode(HELLO, 0, 0, 0, 0, pack({**facts, **changes})))

    async def call(self) -> int:
        """Wait for a call and return its stream's number."""
        return (await self.frame(CALL))[2]

    async def asked(self) -> dict[str, Any]:
        """Wait for a call and return what it says."""
        frame = await self.frame(CALL)
        return {**unpack(frame[5])[0], "stream": frame[2]}

    def send(self, kind: int, stream: int, body: bytes = b"", *, chan: int = 0, ack: int = 1) -> None:
        self.seq += 1
        self.raw(Binary.encode(kind, chan, stream, self.seq, ack, body))

    def reply(self, stream: int, obj: Mapping[str, Any], raw: bytes = b"", *, chan: int = 0) -> None:
        self.send(REPLY, stream, pack(dict(obj), raw), chan=chan)

    def raw(self, data: bytes) -> None:
        self.writer.write(data)


Script = Callable[[Peer], Awaitable[None]]


class HostileBackend(LocalBackend):
    """Local, but for the guest: that is the test's."""

    name = "hostile"
    directory: Path

    async def create(self) -> dict[str, Any]:
        return {"run_dir": str(self.directory)}

    async def find(self, locator: Mapping[str, Any]) -> PlaceState:
        return "running"

    def guest_dirs(self) -> GuestDirs:
        return GuestDirs(str(self.directory), str(self.directory / "state"))

    async def direct_channel(self, run_dir: str) -> ByteChannel | None:
        return SocketChannel(str(self.directory), SOCKET, uid=os.geteuid())

    async def diagnose(self, reason: str) -> str:
        return ""

    async def destroy(self, *, keep_files: bool = False) -> None:
        pass


@asynccontextmanager
async def hostile(
    directory: Path, patch: pytest.MonkeyPatch, script: Script, *, reconnect_for: float = 1.0
) -> AsyncIterator[Sandbox]:
    """Serve *script* to each connection; yields a sandbox that is not open yet."""
    connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections[task] = writer
        try:
            await script(Peer(reader, writer))
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()
            del connections[task]

    directory.chmod(0o700)
    patch.setattr(HostileBackend, "directory", directory, raising=False)
    patch.setattr("hermes.backends.load", lambda name: HostileBackend)
    server = await asyncio.start_unix_server(serve, directory / SOCKET)
    box = Sandbox("hostile", approval="off", judge=AllowAll(), reconnect_for=reconnect_for)
    try:
        yield box
    finally:
        await box.close()
        server.close()
        for writer in connections.values():
            writer.transport.abort()
        await asyncio.gather(*connections, return_exceptions=True)


async def rest(peer: Peer) -> None:
    """Stay silent until the client goes."""
    while True:
        await peer.frame()
