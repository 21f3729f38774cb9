"""Output: exact bytes, two streams, live, bounded for the caller and complete inside."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time

import pytest

from hermes import Sandbox

from .._harness import case
from ..tools import eventually, out, stopwatch

MB = 1 << 20


@case
async def test_streams_apart(box: Sandbox) -> None:
    result = await box.run("echo out; echo err >&2; echo out2")
    assert (result.stdout, result.stderr) == (b"out\nout2\n", b"err\n")


@case
async def test_merged_in_true_order(box: Sandbox) -> None:
    result = await box.run("for i in {1..300}; do echo o$i; echo e$i >&2; done", merge_stderr=True)
    assert result.stdout == b"".join(b"o%d\ne%d\n" % (i, i) for i in range(1, 301))
    assert result.stderr == b""


@case
async def test_merge_is_for_one_command(box: Sandbox) -> None:
    await box.run("echo x >&2", merge_stderr=True)
    assert (await box.run("echo y >&2")).stderr == b"y\n"


@case
async def test_every_byte(box: Sandbox) -> None:
    """NUL, invalid UTF-8, escape sequences, carriage returns: nothing is touched."""
    data = bytes(range(256)) * 3 + random.Random(1).randbytes(10000)
    result = await box.run("tee /dev/stderr", stdin=data)
    assert result.stdout == data
    assert result.stderr == data


@case
async def test_text_is_a_view(box: Sandbox) -> None:
    result = await box.run(r"printf 'gr\xc3\xbc\xff\x00.'")
    assert result.stdout == b"gr\xc3\xbc\xff\x00."
    assert result.text == "grü\ufffd\x00."


@pytest.mark.parametrize("data", [b"", b"x", b"\n", b"\n\n", b"no newline", b" lead and trail \n "])
@case
async def test_ends_as_written(box: Sandbox, data: bytes) -> None:
    assert (await box.run("cat", stdin=data)).stdout == data


@case
async def test_last_words(box: Sandbox) -> None:
    """What a process writes just before it ends is there, every time."""
    for number in range(50):
        result = await box.run(f"bash -c 'echo {number}; echo e{number} >&2; kill -9 $$'")
        assert result.stdout == b"%d\n" % number
        assert result.stderr.startswith(b"e%d\n" % number)  # then the shell says that it was killed


@case
async def test_long_line(box: Sandbox) -> None:
    result = await box.run("printf '%01000000d' 5", max_output=2 * MB)
    assert len(result.stdout) == 1000000
    assert result.stdout[-2:] == b"05"


@case
async def test_closed_streams(box: Sandbox) -> None:
    assert (await box.run("exec >&- 2>&-; echo x")).exit_code in (0, 1)
    assert (await box.run("echo x | true; true")).exit_code == 0


@case
async def test_whole_output_when_it_fits(box: Sandbox) -> None:
    result = await box.run("head -c 1000 /dev/zero", max_output=1000)
    assert (result.truncated, result.spill, len(result.stdout)) == (False, None, 1000)


@case
async def test_truncated_to_head_and_tail(box: Sandbox) -> None:
    result = await box.run("for i in {1..50000}; do echo line $i; done", max_output=1000)
    head, note, tail = (result.stdout[:500], result.stdout[500:-500], result.stdout[-500:])
    whole = b"".join(b"line %d\n" % i for i in range(1, 50001))
    assert result.truncated
    assert result.exit_code == 0
    assert head == whole[:500]
    assert tail == whole[-500:]
    assert result.spill is not None
    said = (
        f"\n[... {len(whole) - 1000} bytes omitted of {len(whole)}; whole output: {result.spill.path} ...]\n"
    )
    assert note == said.encode()
    assert result.spill.bytes == len(whole)
    assert result.spill.complete
    assert await result.spill.read(0, len(whole) + 99) == whole


@case
async def test_output_limit_of_nothing(box: Sandbox) -> None:
    result = await box.run("echo something; exit 3", max_output=0)
    assert (result.exit_code, result.truncated) == (3, True)
    assert b"omitted of 10" in result.stdout
    assert result.spill is not None
    assert await result.spill.read() == b"something\n"


@case
async def test_default_limit(box: Sandbox) -> None:
    """Without a limit of its own a result holds one MiB of each stream."""
    result = await box.run("head -c 3000000 /dev/zero; head -c 10 /dev/zero >&2")
    assert result.truncated
    assert MB <= len(result.stdout) < MB + 500
    assert result.stderr == b"\0" * 10


@case
async def test_each_stream_has_its_own_limit_and_spill(box: Sandbox) -> None:
    result = await box.run("printf '%05000d' 1; printf '%07000d' 2 >&2", max_output=100)
    assert result.spill is not None
    assert result.spill.stderr is not None
    assert (result.spill.bytes, result.spill.stderr.bytes) == (5000, 7000)
    assert await result.spill.read(4990, 100) == b"0000000001"
    assert await result.spill.stderr.read(6990, 100) == b"0000000002"
    assert result.spill.stderr.path.encode() in result.stderr


@case
async def test_spill_in_pages(box: Sandbox) -> None:
    data = random.Random(2).randbytes(3_000_000)
    result = await box.run("cat", stdin=data, max_output=1000)
    assert result.spill is not None
    pages, offset = [], 0
    while page := await result.spill.read(offset, 700_001):
        pages.append(page)
        offset += len(page)
    assert b"".join(pages) == data
    assert await result.spill.read(len(data), 10) == b""
    assert await result.spill.read(123_456, 7) == data[123_456:123_463]


@case
async def test_spill_can_be_read_by_later_commands(box: Sandbox) -> None:
    """The rest of a long output is a file inside, for `grep` and the like."""
    result = await box.run("for i in {1..30000}; do echo line $i; done", max_output=100)
    assert result.spill is not None
    found = await box.run(["grep", "-c", "^line 2", result.spill.path])
    assert found.stdout.strip() == b"11111"


@pytest.mark.slow
@case
async def test_hundred_megabytes(box: Sandbox) -> None:
    """100 MB arrive complete in the spill file, and quickly."""
    size = 100_000_000
    line = "0123456789" * 9 + "abcdefghi\n"
    with stopwatch(40):
        result = await box.run(f"yes '{line.strip()}' | head -c {size}")
    assert (result.exit_code, result.truncated) == (0, True)
    assert result.spill is not None
    assert (result.spill.bytes, result.spill.complete) == (size, True)
    expected = hashlib.sha256((line * (size // 100)).encode()).hexdigest()
    assert (await box.run(["sha256sum", result.spill.path])).text.split()[0] == expected


@case
async def test_live_callback(box: Sandbox) -> None:
    """Output reaches the callback while the command runs, and all of it."""
    seen: list[tuple[float, bytes]] = []
    began = time.monotonic()
    command = "echo first; sleep 0.7; echo second"
    result = await box.run(command, on_output=lambda data: seen.append((time.monotonic() - began, data)))
    assert b"".join(data for _, data in seen) == result.stdout == b"first\nsecond\n"
    assert seen[0][0] < 0.6
    assert seen[0][1] == b"first\n"


@case
async def test_async_callback(box: Sandbox) -> None:
    seen = []

    async def keep(data: bytes) -> None:
        await asyncio.sleep(0.001)
        seen.append(data)

    result = await box.run("seq 1 20000; echo end >&2", on_output=keep)
    assert result.stdout == b"".join(b"%d\n" % i for i in range(1, 20001))
    assert len(b"".join(seen)) == len(result.stdout) + 4


@case
async def test_callbacks_for_each_stream(box: Sandbox) -> None:
    one, two = bytearray(), bytearray()
    await box.run("echo a; echo b >&2; echo c; echo d >&2", on_output=one.extend, on_stderr=two.extend)
    assert (bytes(one), bytes(two)) == (b"a\nc\n", b"b\nd\n")


@case
async def test_callback_gets_what_the_result_leaves_out(box: Sandbox) -> None:
    digest, size = hashlib.sha256(), 0

    def take(data: bytes) -> None:
        nonlocal size
        digest.update(data)
        size += len(data)

    result = await box.run("head -c 20000000 /dev/zero", on_output=take, max_output=1000)
    assert size == 20_000_000
    assert digest.digest() == hashlib.sha256(bytes(20_000_000)).digest()
    assert result.truncated
    assert len(result.stdout) < 1500


@case
async def test_callback_that_raises(box: Sandbox) -> None:
    """The error comes out, the command is ended, the session goes on."""

    def refuse(data: bytes) -> None:
        raise ZeroDivisionError("a fault of the caller's")

    await box.run("x=1")
    with pytest.raises(ZeroDivisionError), stopwatch(5):
        await box.run("echo go; sleep 3600", on_output=refuse)
    assert await out(box, "echo $x", timeout=5) == "1"


@case
async def test_slow_reader_stops_the_command(box: Sandbox, folder: str) -> None:
    """A callback that does not return holds up the command, not the memory of anybody."""
    go = asyncio.Event()

    async def wait(data: bytes) -> None:
        await go.wait()

    async def written() -> int:
        return len((await box.exec(["cat", f"{folder}/log"])).stdout)

    command = f"for i in {{1..60}}; do head -c {MB} /dev/zero; echo >>{folder}/log; done"
    run = asyncio.create_task(box.run(command, on_output=wait, max_output=1000))
    await eventually(written)
    await asyncio.sleep(0.5)
    halted = await written()
    assert halted < 20, "60 MB were taken from a command whose reader had taken nothing"
    await asyncio.sleep(0.2)
    assert await written() <= halted + 1
    go.set()
    assert (await run).spill is not None
    assert await written() == 60


@case
async def test_duration(box: Sandbox) -> None:
    result = await box.run("sleep 0.3")
    assert 0.3 <= result.duration < 1.5
    assert result.timed_out is False
    assert result.cwd == box.cwd


@case
async def test_result_says_where_the_session_is(box: Sandbox) -> None:
    assert (await box.run("cd /etc; false")).cwd == "/etc"
    assert (await box.run("true")).cwd == "/etc"
