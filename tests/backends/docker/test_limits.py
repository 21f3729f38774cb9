"""Limits of a container: a runaway is held, and the sandbox answers afterwards."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import hermes
from _containers import ONE_ENGINE, inspect, python, sandbox, text

MIB = 1 << 20
V1 = Path("/sys/fs/cgroup/memory").is_dir()


def limit_file(v1: str, v2: str) -> str:
    return f"/sys/fs/cgroup/{v1 if V1 else v2}"


@pytest.mark.root_only
async def test_a_fork_bomb_is_held(place: str) -> None:
    async with sandbox(place, limits={"pids": 100}) as box:
        assert await text(box, f"cat {limit_file('pids/pids.max', 'pids.max')}") == "100"
        bomb = """
import os, time
made = failed = 0
for _ in range(2000):
    try:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        made += 1
    except OSError as error:
        failed += 1
print(made, failed)
"""
        result = await box.run("python3 -", stdin=bomb.encode(), timeout=15)
        made, failed = map(int, result.text.split())
        assert made < 100
        assert failed == 2000 - made
        # What it left behind fills the limit: the sandbox still answers, and its own means end it.
        assert (await box.run("echo back")).text == "back\n"
        for job in await box.jobs():
            await box.kill(job.id)
        # Sixty processes that were killed need a moment to be gone.
        assert await until_there_is_room(box, "true | true | echo back") == "back"


FILL = """
import os, time
free = int(os.environ["FREE"])
pids = []
while True:
    try:
        pids.append(os.fork())
    except OSError:
        break
    if not pids[-1]:
        time.sleep(600)
for pid in pids[:free]:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
open("/workspace/full", "w").close()
time.sleep(600)
"""


async def until_there_is_room(box: hermes.Sandbox, command: str) -> str:
    while True:
        try:
            return await text(box, command)
        except hermes.CommandError as error:
            assert error.code == "no_room"
        await asyncio.sleep(0.1)


@pytest.mark.root_only
@ONE_ENGINE
@pytest.mark.parametrize("free", [0, 1])
async def test_a_full_sandbox_says_so(place: str, free: int) -> None:
    """Also where there is room for what watches a command and not for the command."""
    async with sandbox(place, name="full", limits={"pids": 60}) as box:
        await text(box, "cat >fill.py", stdin=FILL.encode())
        await box.start(f"FREE={free} exec python3 fill.py")
        while not await box.files.exists("/workspace/full"):
            await asyncio.sleep(0.1)
        for run, stdin in ((box.exec, b""), (box.run, b""), (box.run, b"given"), (box.exec, b"given")):
            with pytest.raises(hermes.CommandError, match=r"no room .*: limits\.pids is 60;") as caught:
                await run("cat", stdin=stdin)
            assert caught.value.code == "no_room"
            assert "hermes sandbox suspend" in (caught.value.hint or "")
        assert len(await box.jobs()) == 1
        for job in await box.jobs():
            await box.kill(job.id)
        # Sixty processes that were killed need a moment to be gone.
        assert await until_there_is_room(box, "true | true | echo back") == "back"
        assert (await box.run("echo back")).text == "back\n"
        await box.destroy()


BUSY = """
import sys
import hermes
from hermes.__main__ import main

async def busy(self):
    raise hermes.Unreachable("its guest does not answer")

hermes.Sandbox.jobs = busy
sys.argv = ["hermes", "sandbox", "suspend", "busy", *sys.argv[1:]]
sys.exit(main())
"""


@ONE_ENGINE
async def test_a_sandbox_too_busy_to_answer_can_be_stopped(place: str) -> None:
    """It says no more what runs there, so ending that needs a yes."""
    async with sandbox(place, name="busy") as box:
        for words, code, runs in (((), 125, True), (("--yes",), 0, False)):
            argv = [sys.executable, "-c", BUSY, *words]
            done = await asyncio.to_thread(
                subprocess.run, argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
            assert done.returncode == code, done.stderr
            assert ("was not suspended" in done.stderr) is runs
            assert (await inspect(box))["State"]["Running"] is runs
        await box.destroy()


@pytest.mark.root_only
@ONE_ENGINE
async def test_a_shell_bomb_ends_with_its_timeout(place: str) -> None:
    async with sandbox(place, limits={"pids": 100}) as box:
        result = await box.run("bomb() { bomb | bomb & }; bomb; sleep 30", timeout=2)
        assert result.timed_out
        for _ in range(50):
            result = await box.run("cat /proc/[0-9]*/comm | wc -l")
            if result.exit_code == 0 and int(result.text) < 20:
                break
            await asyncio.sleep(0.1)
        assert int(result.text) < 20
        assert await text(box, "echo back") == "back"


@pytest.mark.root_only
async def test_a_memory_bomb_is_killed_and_the_sandbox_lives(place: str) -> None:
    async with sandbox(place, limits={"memory": 128 * MIB}) as box:
        assert await text(box, f"cat {limit_file('memory/memory.limit_in_bytes', 'memory.max')}") == str(
            128 * MIB
        )
        await box.run("x=kept")
        result = await box.run("python3 -c 'x = bytearray(400 << 20); print(len(x))'")
        assert result.exit_code == 137
        assert result.stdout == b""
        assert (await box.run("echo $x")).text == "kept\n"


@pytest.mark.root_only
@ONE_ENGINE
async def test_places_in_memory_leave_some_to_programs(place: str) -> None:
    """All of them full, a command still runs: otherwise nothing but the end of the sandbox would free it."""
    async with sandbox(place, limits={"memory": 128 * MIB}) as box:
        for point in ("/scratch", "/tmp", "/var/tmp", "/dev/shm"):
            result = await box.exec(f"head -c 400M /dev/zero >{point}/big")
            assert result.exit_code == 1, point
            assert b"No space left" in result.stderr
        assert await text(box, "python3 -c 'print(len(bytes(8 << 20)))'") == str(8 << 20)


@pytest.mark.root_only
async def test_cores_are_limited(place: str) -> None:
    async with sandbox(place, limits={"cpus": 0.5}) as box:
        found = await text(
            box,
            f"cat {limit_file('cpu/cpu.cfs_quota_us', 'cpu.max')}; "
            f"cat {limit_file('cpu/cpu.cfs_period_us', 'cpu.max')}",
        )
        quota, period = map(int, found.split()[:2])
        assert quota / period == 0.5
        spent = await python(
            box,
            "import os, time\n"
            "for _ in range(2):\n"
            "    if os.fork() == 0:\n"
            "        end = time.monotonic() + 2\n"
            "        while time.monotonic() < end: pass\n"
            "        os._exit(0)\n"
            "os.wait(); os.wait()\n"
            "t = os.times(); print(t.children_user + t.children_system)\n",
        )
        assert float(spent) < 2.0  # two of them took four without a limit


@pytest.mark.root_only
async def test_a_sandbox_that_asks_for_nothing_has_limits(place: str) -> None:
    async with sandbox(place) as box:
        limits = (await inspect(box))["HostConfig"]
        assert 0 < limits["PidsLimit"] <= 1024
        assert 0 < limits["Memory"] < 1 << 50
        assert limits["MemorySwap"] == limits["Memory"]


@pytest.mark.user_only  # root's engine enforces limits
async def test_limits_that_a_rootless_engine_cannot_enforce_are_refused() -> None:
    if not V1:
        return  # with cgroup v2 they may be enforced
    for limits in ({"memory": 128 * MIB}, {"cpus": 1}, {"pids": 100}):
        with pytest.raises(hermes.UnsupportedError, match="nothing was started"):
            await sandbox("podman", limits=limits).open()


@pytest.mark.docker_engine
async def test_more_cores_than_there_are_are_refused() -> None:
    with pytest.raises(hermes.UnsupportedError, match=r"limits\.cpus: 4000 .*nothing was started"):
        await sandbox("docker", limits={"cpus": 4000}).open()
