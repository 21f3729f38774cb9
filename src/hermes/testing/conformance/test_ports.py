"""Ports of the sandbox on 127.0.0.1 of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes import Sandbox

from .._harness import case
from ..tools import cut, fails, stopwatch

# A server for the inside: prints its port, then does with each connection what its argument says.
SERVER = r"""
import socket, sys, threading, time
what = sys.argv[1]
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(100)
print(s.getsockname()[1], flush=True)
def serve(c):
    if what == "echo":
        while True:
            d = c.recv(65536)
            if not d: break
            c.sendall(d)
    elif what == "count":
        n = 0
        while True:
            d = c.recv(65536)
            if not d: break
            n += len(d)
        c.sendall(b"%d" % n)
    elif what == "flood":
        block = bytes(range(256)) * 256
        for _ in range(int(sys.argv[2])): c.sendall(block)
    elif what == "slam":
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    c.close()
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"""


@asynccontextmanager
async def served(box: Sandbox, *what: str) -> AsyncIterator[int]:
    """Run the server inside; yields its port there."""
    job = await box.start(["python3", "-c", SERVER, *what])
    try:
        async for data in job.follow():
            yield int(data)
            break
    finally:
        await job.kill()


async def ask(port: int, data: bytes, *, eof: bool = True) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        if eof:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()


@case
async def test_forward(box: Sandbox) -> None:
    async with served(box, "echo") as inside, box.forward(inside) as port:
        assert await ask(port, b"hello\x00\xff") == b"hello\x00\xff"
        assert await ask(port, b"again") == b"again"


@case
async def test_many_connections(box: Sandbox) -> None:
    async with served(box, "echo") as inside, box.forward(inside) as port:
        answers = await asyncio.gather(*(ask(port, b"%d " % n * 1000) for n in range(60)))
        assert answers == [b"%d " % n * 1000 for n in range(60)]


@case
async def test_half_closed_connection(box: Sandbox) -> None:
    """The end of what we send is passed on, and the answer still comes back."""
    async with served(box, "count") as inside, box.forward(inside) as port:
        assert await ask(port, bytes(3_000_000)) == b"3000000"


@case
async def test_much_data_each_way(box: Sandbox) -> None:
    async with served(box, "flood", "400") as inside, box.forward(inside) as port:
        data = await ask(port, b"")
        assert len(data) == 400 * 65536
        assert hashlib.sha256(data).digest() == hashlib.sha256(bytes(range(256)) * 256 * 400).digest()


@case
async def test_slow_reader_of_a_port(box: Sandbox) -> None:
    """A connection that is not read holds up neither the others nor commands."""
    async with served(box, "flood", "2000") as inside, box.forward(inside) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(0.3)
        with stopwatch(3):
            assert (await box.run("echo quick")).stdout == b"quick\n"
        assert len(await reader.readexactly(1_000_000)) == 1_000_000
        writer.close()


@case
async def test_nobody_listens(box: Sandbox) -> None:
    """The connection is closed; nothing hangs."""
    async with served(box, "echo") as inside:
        pass
    async with box.forward(inside) as port:
        with stopwatch(5), contextlib.suppress(ConnectionError):
            assert await ask(port, b"x", eof=False) == b""


@case
async def test_server_that_hangs_up(box: Sandbox) -> None:
    async with served(box, "slam") as inside, box.forward(inside) as port:
        with stopwatch(5), contextlib.suppress(ConnectionError):
            assert await ask(port, b"", eof=False) == b""


@case
async def test_chosen_local_port(box: Sandbox) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        with fails("port_in_use"):
            async with box.forward(9, local_port=number):
                pass
    async with served(box, "echo") as inside, box.forward(inside, local_port=number) as port:
        assert port == number
        assert await ask(port, b"x") == b"x"


@case
async def test_forward_ends_with_its_context(box: Sandbox) -> None:
    async with served(box, "echo") as inside:
        async with box.forward(inside) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
        with stopwatch(5), contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        try:
            await asyncio.open_connection("127.0.0.1", port)
        except ConnectionError:
            return
        raise AssertionError("the local port is still open")


@case
async def test_forward_over_a_lost_link(fresh_box: Sandbox) -> None:
    async with served(fresh_box, "echo") as inside, fresh_box.forward(inside) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        cut(fresh_box)
        writer.write(b"two")
        assert await asyncio.wait_for(reader.readexactly(3), 10) == b"two"
        writer.close()
