"""Standard input: empty, given, or streamed; a session's own commands are never read as input."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator

import pytest

from hermes import Sandbox

from .._harness import case
from ..tools import fails, gone, out, stopwatch, tag

MB = 1 << 20


@pytest.mark.parametrize("reader", ["cat", "read line; echo $?", "bash", "wc -c", "cat -"])
@case
async def test_empty_by_default(box: Sandbox, reader: str) -> None:
    """Whoever reads gets the end at once: nothing hangs, nothing eats the next command."""
    with stopwatch(5):
        result = await box.run(reader)
    assert result.stdout.strip() in (b"", b"0", b"1")
    assert await out(box, "echo next") == "next"


@case
async def test_given_text(box: Sandbox) -> None:
    assert (await box.run("cat", stdin="grüße\n")).stdout == "grüße\n".encode()


@case
async def test_empty_given(box: Sandbox) -> None:
    assert (await box.run("cat; echo end", stdin=b"")).stdout == b"end\n"


@case
async def test_read_by_parts(box: Sandbox) -> None:
    """The parts of one command share its input."""
    result = await box.run("read a; read b; cat; echo $a-$b", stdin="1\n2\n3\n")
    assert result.stdout == b"3\n1-2\n"


@case
async def test_loop_over_input(box: Sandbox) -> None:
    result = await box.run('while read -r x; do echo "<$x>"; done', stdin="a\nb c\n\\d\n")
    assert result.stdout == b"<a>\n<b c>\n<\\d>\n"


@case
async def test_unread_input_is_dropped(box: Sandbox) -> None:
    """Input that nobody read does not end up in the next command."""
    for size in (10, 5 * MB):
        with stopwatch(10):
            result = await box.run("echo started", stdin=b"exit 99\n" * (size // 8))
        assert (result.exit_code, result.stdout) == (0, b"started\n")
        assert await out(box, "cat; echo next") == "next"


@case
async def test_partly_read(box: Sandbox) -> None:
    result = await box.run("head -c 5", stdin=b"0123456789" * MB)
    assert result.stdout == b"01234"


@pytest.mark.slow
@case
async def test_large_input(box: Sandbox) -> None:
    data = random.Random(3).randbytes(32 * MB)
    result = await box.run("sha256sum", stdin=data)
    assert result.text.split()[0] == hashlib.sha256(data).hexdigest()


@case
async def test_large_input_and_output_together(box: Sandbox) -> None:
    """Neither direction waits for the other to end."""
    data = random.Random(4).randbytes(4 * MB)
    seen = bytearray()
    await box.run("cat", stdin=data, on_output=seen.extend)
    assert bytes(seen) == data


@case
async def test_streamed(box: Sandbox) -> None:
    """Input is handed over as it comes, and the command answers to each piece before the next one."""
    answers: asyncio.Queue[bytes] = asyncio.Queue()
    got = []

    async def talk() -> AsyncIterator[bytes]:
        for number in range(5):
            yield b"%d\n" % number
            got.append(await asyncio.wait_for(answers.get(), 5))

    command = 'while read -r x; do echo "got $x"; done; echo end'
    result = await box.run(command, stdin=talk(), on_output=answers.put_nowait)
    assert got == [b"got %d\n" % number for number in range(5)]
    assert result.stdout.endswith(b"end\n")


@case
async def test_streamed_without_callback(box: Sandbox) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield b"x" * 100_000
            await asyncio.sleep(0)

    assert (await box.run("wc -c", stdin=pieces())).stdout.strip() == b"5000000"


@case
async def test_source_that_ends_late(box: Sandbox) -> None:
    """A command that reads no input does not wait for its source."""

    async def never() -> AsyncIterator[bytes]:
        yield b"a\n"
        await asyncio.sleep(3600)

    with stopwatch(5):
        result = await box.run("read x; echo $x", stdin=never())
    assert result.stdout == b"a\n"
    assert await out(box, "echo next") == "next"


@case
async def test_source_that_raises(box: Sandbox) -> None:
    """An input that cannot be read ends the command, with an error that says so."""
    mark = tag()

    async def broken() -> AsyncIterator[bytes]:
        yield b"some\n"
        raise OSError("the disk is on fire")

    await box.run("x=1")
    with fails("stdin_failed") as caught, stopwatch(5):
        await box.run(f"cat; sleep {mark}", stdin=broken())
    assert "the disk is on fire" in str(caught.error)
    await gone(box, mark, within=2)
    assert await out(box, "echo $x", timeout=5) == "1"


@case
async def test_source_that_raises_at_once(box: Sandbox) -> None:
    async def broken() -> AsyncIterator[bytes]:
        raise ValueError("nothing to read")
        yield b""

    with fails("stdin_failed"), stopwatch(5):
        await box.run("cat", stdin=broken())
    assert await out(box, "echo next", timeout=5) == "next"


@case
async def test_slow_consumer(box: Sandbox) -> None:
    """A command that takes its time stops the source, not memory."""
    sent = 0

    async def source() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(30):
            yield bytes(MB)
            sent += 1

    run = asyncio.create_task(box.run("sleep 0.8; wc -c", stdin=source()))
    await asyncio.sleep(0.5)
    assert sent < 10
    assert (await run).stdout.strip() == str(30 * MB).encode()


@case
async def test_background_process_does_not_share_input(box: Sandbox) -> None:
    """As in any shell, what runs in the background reads nothing of it."""
    result = await box.run("cat >got & wait; cat; wc -c <got", stdin="for the foreground\n")
    assert result.stdout.split() == b"for the foreground 0".split()
