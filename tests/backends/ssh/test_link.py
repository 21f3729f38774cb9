"""A bad link: slow, lossy, cut for a while, ended from the other side; and a client that sleeps meanwhile.

Output is neither lost nor doubled, exit codes are right, and nothing is run twice.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import hermes
from _ssh import Client, Machine, until
from hermes.testing.tools import stopwatch, unique

from .conftest import Open

pytestmark = [pytest.mark.root_only, pytest.mark.timeout(180)]

SECONDS = 6
STEPS = SECONDS * 20
# Says in a file that it ran, counts for some seconds, and ends with a code of its own.
COUNT = f"echo ran >>ran; for i in {{1..{STEPS}}}; do echo line $i; sleep 0.05; done; exit 6"
COUNTED = b"".join(b"line %d\n" % i for i in range(1, STEPS + 1))
LINK: dict[str, Any] = {"keepalive": 1, "connect_timeout": 3}


async def counted(box: hermes.Sandbox, run: asyncio.Task[hermes.Result], seen: bytearray) -> None:
    """The one run of COUNT came through whole, and the sandbox goes on."""
    result = await run
    assert bytes(seen) == COUNTED
    assert (result.status, result.exit_code, result.stdout) == ("ok", 6, COUNTED)
    assert (await box.run("cat ran; rm ran")).text == "ran\n"


async def test_five_of_a_hundred_packets_are_lost(own: Machine, open_on: Open) -> None:
    box = await open_on(own.host)
    own.link.set(loss=0.05)
    for number in range(12):
        text = b"".join(b"%d %d\n" % (number, line) for line in range(3000))
        result = await box.run(f"cat; exit {number}", stdin=text)
        assert result.exit_code == number
        assert result.stdout == text
    await box.files.write("file", text * 10)
    assert await box.files.read("file") == text * 10
    assert (await box.run("echo $((x += 1))")).text == "1\n"
    again = await open_on(own.host)
    assert (await again.run("echo new")).text == "new\n"


async def test_jitter_and_a_narrow_line(own: Machine, open_on: Open) -> None:
    box = await open_on(own.host, **LINK)
    own.link.set(jitter=20, rate=2000)
    flood = asyncio.create_task(box.run("for i in {1..40000}; do echo line $i; done", session="flood"))
    for number in range(10):
        assert (await box.run(f"echo {number}")).text == f"{number}\n"
    result = await flood
    assert result.exit_code == 0
    assert result.stdout == b"".join(b"line %d\n" % i for i in range(1, 40001))


@pytest.mark.slow
@pytest.mark.parametrize("ends", [False, True], ids=["waits", "ssh-gives-up"])
async def test_a_cut_of_three_seconds(own: Machine, open_on: Open, ends: bool) -> None:
    """Long enough for ssh's keepalive to give up, or not; either way nothing of it is seen."""
    box = await open_on(own.host, **({**LINK, "keepalive": 0.3} if ends else {}))
    seen = bytearray()
    run = asyncio.create_task(box.run(COUNT, on_output=seen.extend))
    await asyncio.sleep(1)
    own.link.set(cut=True)
    await asyncio.sleep(4 if ends else 3)
    own.link.set(cut=False)
    await counted(box, run, seen)


@pytest.mark.slow
async def test_a_cut_of_a_minute(own: Machine, open_on: Open) -> None:
    """The command ends meanwhile, which is found out afterwards."""
    box = await open_on(own.host, reconnect_for=150, **LINK)
    seen = bytearray()
    run = asyncio.create_task(box.run(COUNT, on_output=seen.extend))
    await asyncio.sleep(1)
    own.link.set(cut=True)
    await asyncio.sleep(60)
    assert not run.done()
    own.link.set(cut=False)
    with stopwatch(20):
        await counted(box, run, seen)
    # Sessions of the connection that was lost do not pile up.
    await until(lambda: len(own.sessions()) <= 4, 90)


@pytest.mark.slow
async def test_a_link_that_stays_cut_is_an_error_and_the_command_goes_on(own: Machine, open_on: Open) -> None:
    name = unique("cut")
    box = await open_on(own.host, name=name, reconnect_for=5, **LINK)
    run = asyncio.create_task(box.run(COUNT))
    await asyncio.sleep(0.5)
    own.link.set(cut=True)
    with stopwatch(25), pytest.raises(hermes.Unreachable):
        await run
    with stopwatch(25), pytest.raises(hermes.Unreachable):
        await box.run("true")
    await box.close()
    with stopwatch(25), pytest.raises(hermes.Unreachable):
        await own.host.sandbox(name=name, **LINK).open()
    own.link.set(cut=False)
    again = await open_on(own.host, name=name, **LINK)
    assert again.id == box.id
    (found,) = [job for job in await again.jobs() if job.kind == "run" and "ran" in job.command]
    result = await (await again.job(found.id)).wait(20)
    assert (result.exit_code, result.stdout) == (6, COUNTED)
    assert (await again.run("cat ran")).text == "ran\n"


@pytest.mark.slow
async def test_an_unreachable_sandbox_is_used_again_when_its_host_answers(
    own: Machine, open_on: Open
) -> None:
    """The same object, with its sessions; what failed meanwhile is not run after all."""
    box = await open_on(own.host, reconnect_for=3, **LINK)
    await box.run("x=kept; cd /")
    own.link.set(cut=True)
    for command in ("true", "touch ~/never"):  # the second was never sent
        with stopwatch(25), pytest.raises(hermes.Unreachable):
            await box.run(command)
    own.link.set(cut=False)
    with stopwatch(20):
        assert (await box.run("echo $x; pwd")).text == "kept\n/\n"
    await asyncio.sleep(1)
    assert (await box.run("test -e ~/never")).exit_code == 1
    own.link.set(cut=True)
    with stopwatch(25), pytest.raises(hermes.Unreachable):
        await box.run("true")
    await asyncio.to_thread(own.stop)
    await asyncio.to_thread(own.start)
    own.link.reset(Machine.DELAY)
    for _ in range(2):
        with stopwatch(20), pytest.raises(hermes.SandboxGone) as caught:
            await box.run("true")
        assert not isinstance(caught.value, hermes.Unreachable)


@pytest.mark.slow
async def test_a_frozen_guest_is_found_out_by_the_time_limit(own: Machine, open_on: Open) -> None:
    """Long before the link would be given up, and not while only the link is cut."""
    box = await open_on(own.host, reconnect_for=300, **LINK)
    await box.run("x=kept")
    (guest,) = {int(pid) for pid, line in own.strangers().items() if _is_guest(pid, box)}
    own.link.set(cut=True)
    run = asyncio.create_task(box.run("echo $x", timeout=1))
    await asyncio.sleep(40)
    assert not run.done()
    own.link.set(cut=False)
    assert (await run).text == "kept\n"
    os.kill(guest, signal.SIGSTOP)
    try:
        with stopwatch(75), pytest.raises(hermes.Unreachable, match="time limit has passed"):
            await box.run("sleep 60", timeout=1)
    finally:
        os.kill(guest, signal.SIGCONT)
    with stopwatch(20):
        assert (await box.run("echo $x")).text == "kept\n"


def _is_guest(pid: int, box: hermes.Sandbox) -> bool:
    """Whether this process, as it is seen from here, is the guest, which knows itself by another number."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines()
    numbers = next(line.split()[1:] for line in lines if line.startswith("NSpid:"))
    return numbers[-1] == str(box._channel.guest["pid"])


async def test_a_command_does_not_pass_the_relay(own: Machine, open_on: Open) -> None:
    """The guest has its stdin and stdout, and it is there for their end: killed, another takes its place."""
    box = await open_on(own.host)
    await box.run("x=kept")
    strangers = own.strangers()
    first = {pid for pid, line in strangers.items() if "python" in line and _parent(pid) not in strangers}
    (relay,) = {pid for pid in first if not _is_guest(pid, box)}
    os.kill(relay, signal.SIGSTOP)
    try:
        text = b"".join(b"%d\n" % line for line in range(50_000))
        with stopwatch(20):
            assert (
                await box.run("cat; echo $x", stdin=text, max_output=len(text) + 10)
            ).stdout == text + b"kept\n"
        run = asyncio.create_task(box.run(COUNT))
        await asyncio.sleep(1)
    finally:
        os.kill(relay, signal.SIGKILL)
    await counted(box, run, bytearray(COUNTED))


def _parent(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("PPid:"))


async def test_sshd_is_killed_in_mid_command(own: Machine, open_on: Open) -> None:
    """Its processes for the connection, not the one that listens; again and again."""
    box = await open_on(own.host)
    seen = bytearray()
    run = asyncio.create_task(box.run(COUNT, on_output=seen.extend))
    for _ in range(3):
        await asyncio.sleep(1)
        assert own.sessions()
        own.hang_up()
    await counted(box, run, seen)


async def test_connections_are_reset_again_and_again(own: Machine, open_on: Open) -> None:
    """Each of many commands runs once, whenever the link goes."""
    box = await open_on(own.host)
    for number in range(10):
        run = asyncio.create_task(box.run(f"echo {number} >>log; sleep 0.1; echo {number}"))
        await asyncio.sleep(0.03 * (number % 5))
        own.hang_up()
        assert (await run).text == f"{number}\n"
    assert (await box.run("cat log")).text == "".join(f"{number}\n" for number in range(10))


async def test_the_link_goes_while_much_is_sent(own: Machine, open_on: Open) -> None:
    box = await open_on(own.host)
    data = os.urandom(3_000_000)
    for part in range(3):
        write = asyncio.create_task(box.files.write(f"file{part}", data))
        await asyncio.sleep(0.05 + 0.1 * part)
        own.hang_up()
        try:
            await write
        except hermes.HermesError as error:
            assert isinstance(error, hermes.FileError | hermes.SandboxGone), error
            continue
        assert await box.files.read(f"file{part}") == data
    run = asyncio.create_task(box.run("cat", stdin=data, max_output=len(data)))
    await asyncio.sleep(0.2)
    own.hang_up()
    assert (await run).stdout == data


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [5, 30])
async def test_a_client_that_sleeps(own: Machine, seconds: int) -> None:
    """Such as a laptop whose lid is closed: ssh is stopped too, and the server may give up on it."""
    name = unique("asleep")
    with Client(own.host, COUNT, name=name, **LINK) as client:
        while "data" not in await asyncio.to_thread(client.said):
            pass
        stopped = client.family()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        for pid in reversed(stopped):
            os.kill(pid, signal.SIGCONT)
        rest = await asyncio.to_thread(client.rest)
        assert rest[-1]["exit_code"] == 6
        assert rest[-1]["text"].encode() == COUNTED
        assert await asyncio.to_thread(client.process.wait, 20) == 0
    box = await own.host.sandbox(name=name).open(create=False)
    assert (await box.run("cat ran")).text == "ran\n"
    await box.destroy()
    assert own.left() == {}


@pytest.mark.parametrize("seconds", [0, 4], ids=["at-once", "after-a-while"])
async def test_a_machine_that_is_restarted(own: Machine, open_on: Open, seconds: int) -> None:
    """What ran there is gone, which is not the same as out of reach; it is not run again, and files stay."""
    box = await open_on(own.host, name="restarted", **LINK)
    seen = bytearray()
    run = asyncio.create_task(box.run(COUNT, on_output=seen.extend))
    await asyncio.sleep(1)
    await asyncio.to_thread(own.stop)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(own.start)
    with stopwatch(25), pytest.raises(hermes.SandboxGone) as caught:
        await run
    assert not isinstance(caught.value, hermes.Unreachable)
    assert "restarted" in f"{caught.value} {caught.value.context} {caught.value.hint}"
    assert seen
    assert COUNTED.startswith(bytes(seen))
    await box.close()
    again = await open_on(own.host, name="restarted", **LINK)
    assert (await again.run("cat ran")).text == "ran\n"
    await again.destroy()
    assert own.left() == {}


@pytest.mark.parametrize("command", ["sleep {}", "trap '' TERM; (setsid sleep {} &); sleep {} | sleep {}"])
async def test_a_timeout_ends_all_within_a_second(own: Machine, open_on: Open, command: str) -> None:
    box = await open_on(own.host)
    mark = f"1000.{time.time_ns() % 10**9}"
    run = asyncio.create_task(box.run(command.replace("{}", mark), timeout=1.0))
    start = time.monotonic()
    await until(lambda: any(mark in line for line in own.strangers().values()))
    result = await run
    took = time.monotonic() - start
    left = [line for line in own.strangers().values() if mark in line]
    assert (result.timed_out, result.exit_code) == (True, 124)
    assert took < 2.0
    assert left == []
    assert (await box.run("echo on")).text == "on\n"


async def test_a_cancelled_command_ends_there_too(own: Machine, open_on: Open) -> None:
    box = await open_on(own.host)
    mark = f"1000.{time.time_ns() % 10**9}"
    run = asyncio.create_task(box.run(f"sleep {mark}"))
    await until(lambda: any(mark in line for line in own.strangers().values()))
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await until(lambda: not any(mark in line for line in own.strangers().values()), 1.0)


async def test_output_that_nobody_wants_stays_there(own: Machine, open_on: Open) -> None:
    """A hundred megabytes of it cost two on the wire at the most."""
    box = await open_on(own.host)
    before = own.link.bytes()
    result = await box.run("head -c 100000000 /dev/zero | tr '\\0' a; exit 3")
    sent, received = (now - then for now, then in zip(own.link.bytes(), before, strict=True))
    assert result.exit_code == 3
    assert result.truncated
    assert received + sent <= 2_000_000
    # The rest is to be had from there.
    assert result.spill is not None
    assert result.spill.bytes == 100_000_000
    assert await result.spill.read(50_000_000, 1000) == b"a" * 1000


async def test_what_waiting_costs(own: Machine, open_on: Open) -> None:
    """A command that says nothing and a sandbox at rest send next to nothing."""
    box = await open_on(own.host, **LINK)
    before = own.link.bytes()
    await box.run("sleep 4")
    sent, received = (now - then for now, then in zip(own.link.bytes(), before, strict=True))
    assert sent < 6_000
    assert received < 6_000


async def test_a_command_is_one_round_trip(own: Machine, open_on: Open) -> None:
    own.link.set(delay=100)
    box = await open_on(own.host)
    await box.run("true")
    times = []
    for _ in range(5):
        start = time.perf_counter()
        await box.run("true")
        times.append(time.perf_counter() - start)
    assert 0.2 <= min(times) < 0.3


def test_the_log_tells_of_refused_logins(own: Machine, tmp_path: Path) -> None:
    """What the other tests are looked into by."""
    with pytest.raises(AssertionError, match="Permission denied"):
        own.host.as_user("nobody-of-this-name").run("true")
    assert "nobody-of-this-name" in own.log()
