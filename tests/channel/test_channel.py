"""The channel over every way to a guest, with connections that break at bad moments."""

from __future__ import annotations

import array
import asyncio
import contextlib
import hashlib
import os
import random
import signal
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import hermes
from _transports import RelayBackend, TerminalBackend
from hermes import backends
from hermes.backends.local import LocalBackend
from hermes.guest.dirs import SOCKET
from hermes.testing.tools import eventually

KINDS = {kind.name: kind for kind in (LocalBackend, RelayBackend, TerminalBackend)}


@pytest.fixture(params=list(KINDS))
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(backends, "load", KINDS.__getitem__)
    return str(request.param)


@pytest.fixture
async def box(backend: str, tmp_path: Path) -> AsyncIterator[hermes.Sandbox]:
    async with hermes.Sandbox(backend, cwd=str(tmp_path)) as box:
        yield box


def cut(box: hermes.Sandbox) -> None:
    """Break the connection as a lost link does."""
    wire = box._channel._wire
    if wire is not None:
        wire.fail("cut by the test")


async def cut_often(box: hermes.Sandbox, seed: int) -> None:
    """Not for ever: a machine too busy to move a byte between two cuts comes to the end too."""
    chance = random.Random(seed)
    for _ in range(200):
        await asyncio.sleep(chance.uniform(0.005, 0.08))
        cut(box)


@contextlib.asynccontextmanager
async def cutting(box: hermes.Sandbox, seed: int) -> AsyncIterator[None]:
    task = asyncio.create_task(cut_often(box, seed))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_bytes_both_ways(box: hermes.Sandbox) -> None:
    data = os.urandom(3_000_000)
    result = await box.run("sha256sum", stdin=data)
    assert result.text.split()[0] == hashlib.sha256(data).hexdigest()
    every = bytes(range(256)) * 100
    assert (await box.run("cat", stdin=every)).stdout == every
    await box.files.write("blob", data)
    assert await box.files.read("blob") == data
    assert (await box.run("cat blob", max_output=len(data))).stdout == data


async def test_a_long_command_and_a_long_result(box: hermes.Sandbox) -> None:
    text = "x" * 150_000
    assert (await box.run(f"echo {text} | wc -c")).text == "150001\n"
    await box.run("mkdir many; cd many; touch $(seq -f 'a-file-with-a-rather-long-name-%g' 3000)")
    assert len(await box.files.list("many")) == 3000


async def test_cuts_lose_and_repeat_nothing(box: hermes.Sandbox) -> None:
    got = bytearray()
    async with cutting(box, 1):
        result = await box.run(
            "for i in $(seq 200); do echo line $i; sleep 0.01; done; exit 7", on_output=got.extend
        )
    assert got.decode() == "".join(f"line {i}\n" for i in range(1, 201))
    assert result.exit_code == 7
    assert result.stdout == bytes(got)


async def test_cuts_in_a_big_output(box: hermes.Sandbox) -> None:
    digest, size = hashlib.sha256(), 0

    def take(data: bytes) -> None:
        nonlocal size
        digest.update(data)
        size += len(data)

    async with cutting(box, 2):
        await box.run("seq 2000000", on_output=take)
    whole = "".join(f"{i}\n" for i in range(1, 2_000_001)).encode()
    assert (size, digest.hexdigest()) == (len(whole), hashlib.sha256(whole).hexdigest())


async def test_cuts_in_streamed_input_and_files(box: hermes.Sandbox) -> None:
    data = os.urandom(8_000_000)
    async with cutting(box, 3):
        result = await box.run("sha256sum; sleep 0.2", stdin=data)
        await box.files.write("blob", data)
        back = await box.files.read("blob")
    assert result.text.split()[0] == hashlib.sha256(data).hexdigest()
    assert back == data


async def test_cuts_run_no_command_twice(box: hermes.Sandbox) -> None:
    async with cutting(box, 4):
        for number in range(60):
            assert (await box.run(f"echo {number} >>log; echo {number}")).text == f"{number}\n"
    assert (await box.run("cat log")).text == "".join(f"{n}\n" for n in range(60))


async def test_two_clients_of_one_sandbox(backend: str, tmp_path: Path) -> None:
    async with hermes.Sandbox(backend, name="two", cwd=str(tmp_path)) as one:
        async with hermes.Sandbox(backend, name="two") as two:
            assert one.id == two.id
            await one.run("x=here")
            assert (await two.run("echo $x")).text == "here\n"
            assert (await asyncio.gather(one.exec("echo 1"), two.exec("echo 2")))[1].text == "2\n"
        assert (await one.run("echo $x")).text == "here\n"
        await one.destroy()


async def test_a_killed_guest_is_gone_and_leaves_nothing(box: hermes.Sandbox) -> None:
    running = asyncio.create_task(box.run("setsid sleep 300 & sleep 300"))
    await asyncio.sleep(0.3)
    pid = int(box._channel.guest["pid"])
    marks = [path for path in Path("/proc").glob("[0-9]*/environ") if marked(path, box)]
    assert len(marks) >= 2
    began = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(hermes.SandboxGone) as raised:
        await running
    assert not isinstance(raised.value, hermes.Unreachable)
    assert time.monotonic() - began < 10
    assert "not run again" in str(raised.value)
    with pytest.raises(hermes.SandboxGone):
        await box.run("true")
    for _ in range(100):
        left = [path for path in marks if path.exists()]
        if not left:
            break
        await asyncio.sleep(0.05)
    assert not left


def marked(path: Path, box: hermes.Sandbox) -> bool:
    try:
        return f"HERMES_TASK={box._channel.guest['guest']}." in path.read_text("utf-8", "replace")
    except OSError:
        return False


async def test_a_stopped_guest_is_unreachable_not_gone(
    box: hermes.Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hermes.channel import channel as module

    monkeypatch.setattr(module, "HELLO_TIMEOUT", 0.3)
    monkeypatch.setattr(module, "BOOT_TIMEOUT", 0.5)
    box._channel._reconnect_for = 0.5
    pid = int(box._channel.guest["pid"])
    os.kill(pid, signal.SIGSTOP)
    try:
        cut(box)
        with pytest.raises(hermes.Unreachable, match="unreachable since") as raised:
            await box.run("true")
        assert raised.value.retryable
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_a_fault_of_our_own_ends_the_calls(
    box: hermes.Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong while a link is made again, nobody waits for it for ever."""

    async def broken(**options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(box._channel, "_connect", broken)
    box._channel._loop.set_exception_handler(lambda loop, context: None)
    cut(box)
    with pytest.raises(hermes.Unreachable, match="ZeroDivisionError"):
        await box.run("true")


async def test_silence_is_noticed(box: hermes.Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that is up but carries nothing is given up and made again."""
    wire = box._channel._wire
    assert wire is not None
    wire.heard -= 1000
    from hermes.channel import channel as module

    monkeypatch.setattr(module, "PING_EVERY", 0.05)
    task = asyncio.create_task(box._channel._keep_alive())
    try:
        async with asyncio.timeout(10):
            while box._channel._wire is wire:
                await asyncio.sleep(0.05)
        assert (await box.run("echo back")).text == "back\n"
    finally:
        task.cancel()


@pytest.mark.parametrize(
    ("said", "times"), [(b"x", 1), (b"1", 2), (b"0", 2), (b"10", 1), (b"GET / HTTP/1.1\r\n\r\n1", 1)]
)
async def test_descriptors_that_nobody_asked_for(box: hermes.Sandbox, said: bytes, times: int) -> None:
    """Whatever else is sent along to the guest is closed, and it serves others."""
    guest = box._channel.guest["pid"]

    def descriptors() -> int:
        return len(os.listdir(f"/proc/{guest}/fd"))

    def send() -> None:
        with socket.socket(socket.AF_UNIX) as sock, open(os.devnull) as null:
            sock.connect(f"{box._channel.guest['run_dir']}/{SOCKET}")
            rights = array.array("i", [null.fileno()] * 3)
            for _ in range(times):
                with contextlib.suppress(BrokenPipeError):  # it has hung up
                    sock.sendmsg([said], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            time.sleep(0.1)

    await box.run("true")
    before = await asyncio.to_thread(descriptors)
    for _ in range(3):
        await asyncio.to_thread(send)
        assert (await box.run("echo served")).text == "served\n"
    await eventually(lambda: asyncio.to_thread(lambda: descriptors() <= before))
