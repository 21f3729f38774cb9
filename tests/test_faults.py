"""What goes wrong below a session: killed guests and shells, full disks, jumping clocks, floods of output."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes import Sandbox
from hermes.approval import Mode
from hermes.config import Config, Lifetime, Local, Output
from hermes.errors import BackendError, ConfigError, HermesError, SandboxGone, Unreachable
from hermes.state import Store
from hermes.testing.tools import eventually, fails, gone, out, pids, stopwatch, tag

MB = 1 << 20


def local(**options: object) -> Sandbox:
    return Sandbox("local", approval="off", **{"workspace": "private", **options})  # type: ignore[arg-type]


def guest_pid(box: Sandbox) -> int:
    return int(box._channel.guest["pid"])


async def test_guest_killed_in_mid_command() -> None:
    """One clear error; all that ran is gone; other sandboxes do not notice."""
    mark, other_mark = tag(), tag()
    async with local() as other, local() as box:
        await other.run(f"x=1; sleep {other_mark} &")
        await box.run(f"(setsid sleep {mark} &)")
        await box.start(f"trap '' TERM HUP; sleep {mark}; sleep {mark}")
        run = asyncio.create_task(box.run(f"env -i setsid sleep {mark} & echo begun; sleep {mark}"))

        async def all_up() -> bool:
            return len(await pids(other, mark)) >= 4

        await eventually(all_up)
        os.kill(guest_pid(box), signal.SIGKILL)
        with pytest.raises(SandboxGone) as caught, stopwatch(5):
            await run
        assert "gone" in str(caught.value)
        assert caught.value.reason
        assert "not run again" in str(caught.value)
        await gone(other, mark, within=3)
        with pytest.raises(SandboxGone), stopwatch(2):
            await box.run("echo never")
        assert await out(other, "echo $x") == "1"
        assert len(await pids(other, other_mark)) == 1


async def test_guest_killed_at_rest() -> None:
    async with local() as box:
        await box.run("true")
        os.kill(guest_pid(box), signal.SIGKILL)
        with pytest.raises(SandboxGone), stopwatch(5):
            await box.run("echo never")


async def test_guest_that_was_killed_leaves_nothing(hermes_home: Path) -> None:
    """A sandbox whose guest was killed is cleared away as usual."""
    async with local() as box:
        await box.run("head -c 5000000 /dev/zero", max_output=10)
        run_dir = Path(box._channel.guest["run_dir"])
        os.kill(guest_pid(box), signal.SIGKILL)
        await asyncio.sleep(0.1)
    assert not await asyncio.to_thread(run_dir.exists)
    assert await asyncio.to_thread(lambda: list(hermes_home.glob("sandboxes/*"))) == []


async def test_named_sandbox_after_its_guest_was_killed() -> None:
    """Under its name a new one is made, which has nothing of the old one's state."""
    box = await local(name="phoenix").open()
    await box.run("x=1")
    guest = box._channel.guest["guest"]
    os.kill(guest_pid(box), signal.SIGKILL)
    await box.close()
    await asyncio.sleep(0.1)
    again = await local(name="phoenix").open()
    try:
        assert again._channel.guest["guest"] != guest
        assert await out(again, "echo [$x]") == "[]"
    finally:
        await again.destroy()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a client find out soon that its guest does not answer."""
    for name, seconds in {"PING_EVERY": 0.1, "LATE": 0.5, "LATE_SILENCE": 0.4, "HELLO_TIMEOUT": 0.3}.items():
        monkeypatch.setattr(f"hermes.channel.channel.{name}", seconds)


@pytest.mark.usefixtures("impatient")
async def test_a_time_limit_bounds_the_wait_for_a_guest_that_stopped() -> None:
    """Only what is late is given up; the rest waits for the guest, which goes on as if nothing had been."""
    async with local(reconnect_for=60.0) as box:
        await box.run("x=kept")
        patient = asyncio.create_task(box.run("echo $((n += 1))", session="other", timeout=50))
        assert (await patient).text == "1\n"
        os.kill(guest_pid(box), signal.SIGSTOP)
        try:
            patient = asyncio.create_task(box.run("echo $((n += 1))", session="other", timeout=50))
            with fails("unreachable") as caught, stopwatch(8):
                await box.run("echo ran >>ran; sleep 60", timeout=0.5)
            assert "time limit has passed" in str(caught.error)
            assert "SIGCONT" not in str(caught.error)
            with fails("unreachable"), stopwatch(8):
                await box.run("echo again >>ran", timeout=0.5)
            assert not patient.done()
        finally:
            os.kill(guest_pid(box), signal.SIGCONT)
        assert (await patient).text == "2\n"
        with stopwatch(5):
            assert await out(box, "echo $x") == "kept"
        assert (await box.run("cat ran")).stdout.count(b"ran") <= 1


@pytest.mark.usefixtures("impatient")
async def test_a_command_that_takes_long_after_its_time_is_no_stopped_guest() -> None:
    """A session's queue may be long: the limit counts from when a command begins."""
    async with local(reconnect_for=60.0) as box:
        first = asyncio.create_task(box.run("sleep 3; echo first"))
        await asyncio.sleep(0.1)
        assert (await box.run("echo second", timeout=0.2)).text == "second\n"
        assert (await first).text == "first\n"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("ends", [False, True], ids=["goes-on", "is-killed"])
async def test_a_sandbox_that_was_unreachable_is_used_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends: bool
) -> None:
    monkeypatch.setattr("hermes.channel.channel.SILENCE", 0.5)
    async with local(reconnect_for=0.5) as box:
        await box.run("x=kept; cd /")
        job = await box.start("echo begun; sleep 60")
        pid = guest_pid(box)
        os.kill(pid, signal.SIGSTOP)
        for command in ("true", f"touch {tmp_path}/never"):  # the second was never sent
            with fails("unreachable"), stopwatch(8):
                await box.run(command)
        if ends:
            os.kill(pid, signal.SIGKILL)
            await eventually(lambda: asyncio.to_thread(lambda: not os.path.exists(f"/proc/{pid}")))
            for _ in range(2):
                with fails("gone") as caught, stopwatch(5):
                    await box.run("echo never")
                assert not isinstance(caught.error, Unreachable)
            return
        os.kill(pid, signal.SIGCONT)
        with stopwatch(5):
            both = await asyncio.gather(box.run("echo $x; pwd"), box.run("echo side", session="side"))
        assert [one.text for one in both] == ["kept\n/\n", "side\n"]
        assert guest_pid(box) == pid
        assert "begun" in (await job.output()).decode()
        assert not await asyncio.to_thread((tmp_path / "never").exists)


async def test_guest_that_stopped_answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen guest is found out, with a bound, and is not said to be gone: it may come back."""
    monkeypatch.setattr("hermes.channel.channel.PING_EVERY", 0.1)
    monkeypatch.setattr("hermes.channel.channel.SILENCE", 0.5)
    monkeypatch.setattr("hermes.channel.channel.HELLO_TIMEOUT", 0.3)
    async with local(reconnect_for=1.0) as box:
        await box.run("true")
        pid = guest_pid(box)
        os.kill(pid, signal.SIGSTOP)
        try:
            with fails("unreachable") as caught, stopwatch(8):
                await box.run("true")
            assert getattr(caught.error, "retryable", None) is True
        finally:
            os.kill(pid, signal.SIGCONT)


async def test_guest_that_pauses() -> None:
    """A guest that stands still for a while goes on where it was."""
    async with local() as box:
        run = asyncio.create_task(box.run("for i in 1 2 3 4 5; do echo $i; sleep 0.1; done"))
        await asyncio.sleep(0.2)
        os.kill(guest_pid(box), signal.SIGSTOP)
        await asyncio.sleep(0.5)
        os.kill(guest_pid(box), signal.SIGCONT)
        assert (await run).stdout == b"1\n2\n3\n4\n5\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
async def test_shell_killed_from_outside(number: signal.Signals) -> None:
    """The command has the exit code of the signal, and the session goes on from its last state."""
    async with local() as box:
        await box.run("x=1; cd /")
        shell = int(await out(box, "echo $$"))
        run = asyncio.create_task(box.run("echo begun; x=2; while :; do sleep 0.05; done"))
        await asyncio.sleep(0.2)
        os.kill(shell, number)
        with stopwatch(3):
            result = await run
        assert (result.status, result.exit_code, result.stdout) == ("ok", 128 + number, b"begun\n")
        # Of all signals only KILL leaves a shell no time to say what it knew.
        known = ("1\n/",) if number == signal.SIGKILL else ("1\n/", "2\n/")
        assert await out(box, "echo $x; pwd") in known


async def test_shell_killed_at_rest() -> None:
    async with local() as box:
        await box.run("x=1")
        os.kill(int(await out(box, "echo $$")), signal.SIGKILL)
        await asyncio.sleep(0.1)
        assert await out(box, "echo $x") == "1"


async def test_nanny_killed() -> None:
    """Whoever watches over a shell may be killed too: a result, not a hang."""
    async with local() as box:
        await box.run("x=1")
        nanny = int(await out(box, "echo $PPID"))
        run = asyncio.create_task(box.run("sleep 3600"))
        await asyncio.sleep(0.2)
        os.kill(nanny, signal.SIGKILL)
        with stopwatch(5):
            assert (await run).exit_code == 137
            assert await out(box, "echo $x") == "1"


@pytest.fixture
def small_disk(hermes_home: Path) -> Iterator[Path]:
    """A file system of 2 MiB where local sandboxes keep their spill files."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system")
    hermes_home.mkdir(0o700)
    path = hermes_home / "sandboxes"
    path.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", path], check=False).returncode:
        pytest.skip("this machine does not let us mount a tmpfs")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


async def test_full_disk_in_the_spill_directory(small_disk: Path, tmp_path: Path) -> None:
    """The command goes on, head and tail are exact, and the result says what was not kept and why."""
    data = random.Random(11).randbytes(20 * MB)
    await asyncio.to_thread((tmp_path / "data").write_bytes, data)
    async with local(workspace=str(tmp_path)) as box:
        result = await box.run("cat data; echo ended >mark", max_output=10_000)
        assert result.exit_code == 0
        assert await out(box, "cat mark") == "ended"
        assert result.stdout.startswith(data[:5000])
        assert result.stdout.endswith(data[-5000:])
        spill = result.spill
        assert spill is not None
        assert spill.bytes == len(data)
        assert spill.complete is False
        assert spill.note is not None
        assert "No space left" in spill.note
        assert await spill.read(0, 5000) == data[:5000]
        small = await box.run("echo small")
        assert (small.stdout, small.truncated) == (b"small\n", False)


async def test_full_disk_under_a_live_reader(small_disk: Path, tmp_path: Path) -> None:
    """Whoever reads along gets everything, whatever the disk holds."""
    async with local(workspace=str(tmp_path)) as box:
        size = 0

        def take(data: bytes) -> None:
            nonlocal size
            size += len(data)

        result = await box.run("head -c 20000000 /dev/zero", on_output=take, max_output=100)
        assert result.exit_code == 0
        assert size == 20_000_000


async def test_full_disk_from_the_start(small_disk: Path, tmp_path: Path) -> None:
    """With no byte free, commands still run."""
    async with local(workspace=str(tmp_path)) as box:
        await box.run(f"cat /dev/zero >{small_disk}/filler 2>/dev/null")
        assert await out(box, "x=1; echo runs") == "runs"
        result = await box.run("head -c 3000000 /dev/zero", max_output=10_000)
        assert (result.exit_code, result.truncated) == (0, True)
        assert result.spill is not None
        assert result.spill.complete is False
        with stopwatch(10):
            found: object
            try:
                found = (await box.run("true " + "x" * 500_000)).exit_code
            except HermesError as error:
                found = error
        assert found == 0 or isinstance(found, HermesError)
        assert await out(box, "echo $x") == "1"


async def test_quota_of_the_spill_file() -> None:
    """Past the quota the middle is dropped, and said so; head and tail are exact."""
    config = Config(output=Output(spill_quota=4 * MB))
    async with local(config=config) as box:
        command = "for i in {1..600000}; do echo line $i; done"
        result = await box.run(command, max_output=2000)
        assert result.stdout.startswith(b"line 1\nline 2\n")
        assert result.stdout.endswith(b"line 599999\nline 600000\n")
        spill = result.spill
        assert spill is not None
        assert spill.complete is False
        assert spill.note is not None
        assert "quota" in spill.note
        assert spill.bytes > 4 * MB
        used = await out(box, f"stat -c %s {spill.path}")
        assert int(used) < 4.5 * MB  # with the line that says what is missing, and one read more at most


@pytest.mark.slow
async def test_a_gigabyte_of_output() -> None:
    """It is complete in the spill file, and neither side holds it in memory."""
    size = 1_000_000_000
    async with local() as box:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        guest = Path(f"/proc/{guest_pid(box)}/status")
        result = await box.run(f"head -c {size} /dev/zero", timeout=50)
        assert (result.exit_code, result.timed_out) == (0, False)
        assert result.spill is not None
        assert (result.spill.bytes, result.spill.complete) == (size, True)
        assert len(result.stdout) < 1_100_000
        assert await result.spill.read(size - 5, 100) == bytes(5)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024
        status = await asyncio.to_thread(guest.read_text)
        (peak,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
        assert peak < 200 * 1024


WRAPPER = """#!{python}
import sys, time
real, calls = time.time, [0]
def jumping():
    calls[0] += 1
    return real() + (0, 3e8, -3e8)[calls[0] % 3]
time.time = jumping
exec(compile(sys.argv[-1], "guest", "exec"))
"""


async def drive_with_time(box: Sandbox) -> None:
    """Everything that waits or measures."""
    with stopwatch(3):
        result = await box.run("echo begun; sleep 3600", timeout=0.5)
    assert (result.timed_out, result.stdout) == (True, b"begun\n")
    assert 0.4 < result.duration < 2
    result = await box.run("sleep 0.2; echo done", timeout=100)
    assert (result.status, result.stdout) == ("ok", b"done\n")
    assert 0.15 < result.duration < 2
    job = await box.start("sleep 0.3; echo done", timeout=100)
    assert (await job.wait(10)).stdout == b"done\n"
    await box.start("sleep 0.1")
    await box.run("(sleep 0.2; true) & wait")
    await asyncio.sleep(0.5)
    assert await out(box, "echo still here") == "still here"
    assert {info.state for info in await box.jobs()} <= {"exited", "running"}


async def test_clock_that_jumps_in_the_sandbox(tmp_path: Path) -> None:
    """The guest lives through a wall clock that leaps by years between any two looks at it."""

    def make() -> Path:
        path = tmp_path / "python"
        path.write_text(WRAPPER.format(python=sys.executable))
        path.chmod(0o755)
        return path

    python = await asyncio.to_thread(make)
    config = Config(local=Local(python=str(python)), lifetime=Lifetime(idle_guest=30, detached=30))
    async with local(config=config) as box:
        await drive_with_time(box)


async def test_clock_that_jumps_here(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = time.time, 0

    def jumping() -> float:
        nonlocal calls
        calls += 1
        return real() + (0, 3e8, -3e8)[calls % 3]

    monkeypatch.setattr(time, "time", jumping)
    monkeypatch.setattr("hermes.channel.channel.PING_EVERY", 0.1)
    async with local() as box:
        await drive_with_time(box)


async def test_no_shell_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendError, match="neither bash nor sh"):
        await local().open()


async def test_unknown_backend() -> None:
    with pytest.raises(ConfigError) as caught:
        await Sandbox("local2").open()
    assert caught.value.code == "backend_unknown"
    assert "local" in str(caught.value)


async def test_unusable_workspace(hermes_home: Path) -> None:
    with pytest.raises(BackendError, match="not a directory"):
        await local(workspace="/no/such/place").open()
    assert await asyncio.to_thread(lambda: Store().all()) == []


async def test_interpreter_that_does_not_work(tmp_path: Path) -> None:
    """One that is missing, or says nonsense, is an error that says so; no record of a sandbox stays."""

    def make() -> Path:
        path = tmp_path / "python"
        path.write_text("#!/bin/sh\necho this is no guest; exit 3\n")
        path.chmod(0o755)
        return path

    nonsense = await asyncio.to_thread(make)
    for python, said in ((str(nonsense), "this is no guest"), ("/no/such/python", "/no/such/python")):
        with pytest.raises(BackendError, match=said), stopwatch(5):
            await local(config=Config(local=Local(python=python))).open()


async def test_hostile_run_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A directory for sockets that others can write to is refused, not used."""

    def make() -> Path:
        path = tmp_path / "run"
        (path / f"hermes-{os.geteuid()}").mkdir(parents=True)
        (path / f"hermes-{os.geteuid()}").chmod(0o777)
        return path

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(await asyncio.to_thread(make)))
    with pytest.raises(HermesError, match=r"ours alone|trusted"), stopwatch(5):
        await local().open()


async def test_nothing_is_left_open() -> None:
    """Thousands of commands leave no descriptor and no process, here or in the guest."""
    async with local() as box:
        await box.run("true")

        def open_here() -> tuple[int, int]:
            return len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{guest_pid(box)}/fd"))

        before = await asyncio.to_thread(open_here)
        for number in range(400):
            await box.run(f"echo {number}; /bin/true", stdin=b"x")
        for _ in range(20):
            await box.exec("true")
            await (await box.start("true")).wait(5)
            await box.run("sleep 100", timeout=0.01)
            await (await box.shell("brief")).close()
        await asyncio.sleep(0.3)
        after = await asyncio.to_thread(open_here)
        assert after[0] <= before[0] + 2
        assert after[1] <= before[1] + 2
        assert [job for job in await box.jobs() if job.state == "running"] == []


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_command_that_is_stopped_as_it_ends_costs_the_session_nothing() -> None:
    """Neither the dump of what it defined, nor its shell, nor the next command."""
    async with Sandbox("local", workspace="private") as box:
        shell = (await box.run("echo $$")).text
        for number in range(60):
            await box.run(f"v={number}; sleep {0.096 + number % 20 * 0.0004:.4f}; echo done", timeout=0.1)
            async with asyncio.timeout(2):
                assert (await box.run("echo $v")).text == f"{number}\n"
            assert (await box.run("sleep 5; echo on", timeout=0)).text == ""
        after = await box.run("echo $$; shopt extdebug; trap -p DEBUG")
        assert after.text == f"{shell}extdebug       \toff\n"


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_command_that_is_stopped_as_it_starts_another_keeps_its_shell() -> None:
    """What the shell forks while the rest is killed is found too."""

    def refuse(data: bytes) -> None:
        raise ZeroDivisionError

    async with Sandbox("local", workspace="private") as box:
        shell = (await box.run("echo $$")).text
        for _ in range(150):
            with pytest.raises(ZeroDivisionError):
                await box.run("echo go; sleep 3600", on_output=refuse)
            assert (await box.run("echo $$")).text == shell


@pytest.mark.parametrize(
    ("approval", "code"),
    [
        ("ask", "__h_dump() { :; }"),
        ("ask", "__h_dump() { echo begun; }"),
        ("off", "__h_dump() { :; }"),
        ("off", "enable -n declare"),
    ],
)
async def test_a_session_that_tells_nothing_of_itself_goes_on(approval: Mode, code: str) -> None:
    """A command may be in the way of the code that tells us what the session has; that costs little."""
    async with Sandbox("local", workspace="private", approval=approval) as box:
        await box.run("kept=1")
        await box.run(code)
        async with asyncio.timeout(8):
            for number in range(3):
                assert (await box.run(f"echo {number} $kept")).text == f"{number} 1\n"
