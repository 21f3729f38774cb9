"""Ports of a real sandbox on this machine."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from hermes import Sandbox
from hermes.errors import HermesError, PortError, SandboxGone
from hermes.forward import forward

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Sandbox]:
    async with Sandbox("local", cwd=str(tmp_path)) as box:
        yield box


@asynccontextmanager
async def serve(handle: Handler, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """A server where the sandbox is, which for the local one is here."""
    tasks: set[asyncio.Task[None]] = set()

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                await handle(reader, writer)
                writer.close()
                await writer.wait_closed()
        finally:
            writer.transport.abort()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(run(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accepted, host, 0, backlog=512)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def after_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write((await reader.read())[::-1])


async def ask(port: int, data: bytes) -> bytes:
    """Send, end our half, and return all that comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return answer


async def test_each_half_of_a_connection_ends_by_itself(box: Sandbox) -> None:
    async with serve(after_the_end) as port, box.forward(port) as local:
        assert local != port
        assert await ask(local, b"abc" * 50_000) == b"cba" * 50_000


async def test_a_server_in_the_sandbox(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "page").write_text("hello")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    job = await box.start(f"exec python3 -m http.server {port} --bind 127.0.0.1")
    async with box.forward(port) as local:
        for _ in range(100):
            with suppress(OSError):
                answer = await ask(local, b"GET /page HTTP/1.0\r\n\r\n")
                if answer:
                    break
            await asyncio.sleep(0.1)
        assert answer.endswith(b"hello")
    await job.kill()


async def test_many_connections_at_once(box: Sandbox) -> None:
    async with serve(echo) as port, box.forward(port) as local:
        content = [os.urandom(20_000) for _ in range(200)]
        assert await asyncio.gather(*(ask(local, one) for one in content)) == content


async def test_many_bytes_both_ways(box: Sandbox) -> None:
    content = os.urandom(20 << 20)
    async with serve(echo) as port, box.forward(port) as local:
        assert await ask(local, content) == content


async def test_a_slow_client_stops_the_server(box: Sandbox) -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while True:
            writer.write(bytes(65536))
            await writer.drain()
            sent += 65536

    async with serve(flood) as port, box.forward(port) as local:
        reader, writer = await asyncio.open_connection("127.0.0.1", local, limit=65536)
        await reader.read(1)
        await asyncio.sleep(0.5)
        stopped = sent
        await asyncio.sleep(0.3)
        assert sent == stopped < 64 << 20
        await reader.readexactly(stopped)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def test_a_port_where_nothing_listens(box: Sandbox) -> None:
    errors: list[HermesError] = []
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        async with forward(box._channel, port, on_error=errors.append) as local:
            for _ in range(3):
                with pytest.raises(ConnectionResetError):
                    await ask(local, b"x")
    assert [type(error) for error in errors] == [PortError] * 3
    assert errors[0].code == "port_refused"
    assert "Connection refused" in str(errors[0])
    assert "Nothing listens" in str(errors[0])


async def test_ipv6_inside_is_found(box: Sandbox) -> None:
    try:
        async with serve(echo, "::1") as port, box.forward(port) as local:
            assert await ask(local, b"x") == b"x"
    except OSError:
        pytest.skip("there is no IPv6 here")


async def test_a_chosen_local_port_and_one_that_is_taken(box: Sandbox) -> None:
    async with serve(echo) as port:
        async with box.forward(port) as local, box.forward(port, local_port=0) as other:
            assert local != other
            with pytest.raises(PortError) as caught:
                async with box.forward(port, local_port=local):
                    pass
            assert caught.value.code == "port_in_use"
            assert str(local) in str(caught.value)
        async with box.forward(port, local_port=local) as again:
            assert again == local
    for wrong in (0, 70_000, -1):
        with pytest.raises(PortError):
            async with box.forward(wrong):
                pass


async def test_only_this_machine_is_served(box: Sandbox) -> None:
    async with serve(echo) as port, box.forward(port) as local:
        with socket.socket() as outside, suppress(OSError):
            outside.bind(("127.0.0.2", local))  # free: only 127.0.0.1 is bound
            return
    pytest.fail("more than 127.0.0.1 is bound")


async def test_leaving_the_context_closes_connections(box: Sandbox) -> None:
    async with serve(echo) as port:
        async with box.forward(port) as local:
            reader, writer = await asyncio.open_connection("127.0.0.1", local)
            writer.write(b"x")
            assert await reader.read(1) == b"x"
        assert await reader.read() == b""
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", local)
        assert box._channel._streams == {}


async def test_a_client_that_vanishes_frees_the_connection_inside(box: Sandbox) -> None:
    closed = asyncio.Event()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(bytes(65536))
                await writer.drain()
        finally:
            closed.set()

    async with serve(flood) as port, box.forward(port) as local:
        reader, writer = await asyncio.open_connection("127.0.0.1", local)
        await reader.read(1)
        writer.transport.abort()
        async with asyncio.timeout(5):
            await closed.wait()
        for _ in range(500):
            if not box._channel._streams:
                break
            await asyncio.sleep(0.01)
        assert not box._channel._streams


async def test_a_sandbox_that_ends_resets_its_connections(tmp_path: Path) -> None:
    async with serve(echo) as port:
        box = await Sandbox("local", cwd=str(tmp_path)).open()
        async with box.forward(port) as local:
            reader, writer = await asyncio.open_connection("127.0.0.1", local)
            writer.write(b"x")
            assert await reader.read(1) == b"x"
            await box.destroy()
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        with pytest.raises(SandboxGone):
            box.forward(port)
