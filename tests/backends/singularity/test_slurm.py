"""Sandboxes in jobs of a real SLURM."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import hermes
from hermes.backends._command import run_client
from hermes.backends.singularity import SingularityBackend, workdir
from hermes.backends.singularity._client import Client
from hermes.backends.singularity._slurm import SlurmJob, waiting_jobs
from hermes.config import Lifetime, load
from hermes.errors import BackendError, SandboxGone, UnsupportedError
from hermes.state import Store
from hermes.testing.tools import cut, eventually, out

from .conftest import Open


async def ask(*argv: str) -> str:
    done = await run_client(argv, timeout=30.0)
    assert done.code == 0, done.said
    return done.out.strip()


async def queue(name: str = "") -> list[str]:
    """The jobs of this user that hermes made, as ``id state name``; those of one name only if it is given."""
    lines = (await ask("squeue", "--me", "-h", "-o", "%i %T %j")).splitlines()
    return [line for line in lines if line.split()[2] == name]


def job_of(box: hermes.Sandbox) -> SlurmJob:
    place = box._the_place()
    assert isinstance(place, SingularityBackend)
    assert isinstance(place._runner, SlurmJob)
    return place._runner


@pytest_asyncio.fixture
async def in_job(open_box: Open) -> AsyncIterator[Open]:
    """Opens sandboxes in jobs, and sees to it that nothing of them is left in the queue."""
    if not os.environ.get("SLURM_CONF") or shutil.which("sbatch") is None:
        pytest.skip("no SLURM: scripts/parts start slurm")
    opened: list[hermes.Sandbox] = []

    async def open_one(**options: object) -> hermes.Sandbox:
        box = await open_box(**{"slurm": {"time": "10"}, **options})
        opened.append(box)
        return box

    yield open_one
    for box in opened:
        ident = box.id
        await box.destroy()
        assert await queue(f"hermes-{ident}") == []
    for name in await waiting_jobs(Client("apptainer")):  # of a test that failed
        await ask("scancel", "--me", f"--name={name}")


async def test_it_runs_in_a_job(in_job: Open) -> None:
    lines: list[str] = []
    box = await in_job(on_progress=lines.append)
    (job,) = await queue(f"hermes-{box.id}")
    assert job.split()[1] == "RUNNING"
    assert any("runs on" in line for line in lines)
    assert await out(box, "pwd; echo $HOME") == "/workspace\n/home/hermes"
    assert box.describe()["channel"] == "relay"
    assert await out(box, "env | grep -c SLURM; true") == "0"


async def test_limits_become_the_jobs(in_job: Open) -> None:
    box = await in_job(limits={"cpus": 1, "memory": 300 << 20})
    shown = await ask("scontrol", "show", "job", "-o", await job_of(box)._job())
    assert "NumCPUs=1 " in shown
    assert "MinMemoryNode=300M" in shown
    assert "TimeLimit=00:10:00" in shown
    with pytest.raises(UnsupportedError, match="the limit 'pids'"):
        await in_job(limits={"pids": 10})


async def test_a_lost_link_ends_nothing(in_job: Open) -> None:
    box = await in_job()
    run = asyncio.create_task(box.run("for i in 1 2 3 4 5; do echo $i; sleep 0.3; done"))
    await asyncio.sleep(0.5)
    cut(box)
    assert (await run).stdout == b"1\n2\n3\n4\n5\n"


async def test_the_guest_is_started_in_the_job_and_not_in_a_step(in_job: Open) -> None:
    """A step's end may end all that was started in it."""
    lifetime = Lifetime(idle_guest=0.5, idle_stop=120)
    box = await in_job(name="again", lifetime=lifetime)
    await box.run("echo kept >f")
    await box.close()
    await asyncio.sleep(3)
    again = await in_job(name="again", lifetime=Lifetime())
    assert await out(again, "cat f") == "kept"
    parents = await out(
        again,
        "p=$PPID; while [ $p -gt 1 ]; do p=$(awk '{print $4}' /proc/$p/stat); printf '%s ' $p; done; "
        "tr '\\0' ' ' </proc/$PPID/cmdline",
    )
    assert "boot.py" in parents


async def test_waiting_in_the_queue_is_told_and_can_be_given_up(in_job: Open, image: str) -> None:
    lines: list[str] = []
    waits = {"args": ["--begin=now+1hour"], "time": "10"}
    box = hermes.Sandbox("singularity", image=image, slurm=waits, on_progress=lines.append)
    opening = asyncio.create_task(box.open())
    await eventually(lambda: any("waiting in the queue of SLURM" in line for line in lines), 15)
    jobs = (await ask("squeue", "--me", "-h", "-o", "%i %T %j")).splitlines()
    (mine,) = [line.split() for line in jobs if line.split()[0] == lines[-1].split("job ")[1].split(",")[0]]
    assert mine[1] == "PENDING"
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert await queue(mine[2]) == []


async def hermes_says(*args: str) -> str:
    """What the command says: on its stdout, and on stderr where it is not JSON that is wanted."""
    done = await run_client(
        [sys.executable, "-m", "hermes", *args], timeout=60.0, env={**os.environ, "NO_COLOR": "1"}
    )
    assert done.code == 0, done.said
    return done.out.strip() if "--json" in args else done.out + done.err


async def killed_in_the_queue(image: str) -> str:
    """Kill a client whose job waits for its turn, and return the job's name."""
    waits = 'singularity.slurm.args=["--begin=now+1hour"]'
    argv = [sys.executable, "-m", "hermes", "exec", "--sandbox", "singularity", "--name", "q2"]
    argv += ["--set", waits, "true"]
    env = {**os.environ, "HERMES_SINGULARITY_IMAGE": image}
    client = await asyncio.to_thread(subprocess.Popen, argv, env=env, stderr=subprocess.DEVNULL)
    names: list[str] = []

    async def waiting() -> bool:
        records = await asyncio.to_thread(lambda: Store().all())
        names[:] = [f"hermes-{one.id}" for one in records]
        return bool(names) and [line.split()[1] for line in await queue(names[0])] == ["PENDING"]

    try:
        await eventually(waiting, 30)
        (one,) = json.loads(await hermes_says("sandbox", "ls", "--json"))
        assert one["state"] == "starting"
    finally:
        client.kill()
        await asyncio.to_thread(client.wait)
    assert await queue(names[0]) != []
    return names[0]


@pytest.mark.parametrize("command", [["rm", "q2"], ["prune", "--yes"], ["suspend", "q2"]])
async def test_a_job_whose_client_was_killed_is_taken_out_of_the_queue(
    in_job: Open, image: str, command: list[str]
) -> None:
    name = await killed_in_the_queue(image)
    (one,) = json.loads(await hermes_says("sandbox", "ls", "--json"))
    assert one["state"] == "starting"
    assert "q2: " in await hermes_says("sandbox", *command)
    assert await queue(name) == []
    if command[0] != "suspend":
        assert await asyncio.to_thread(lambda: Store().all()) == []


async def test_a_job_that_neither_a_record_nor_a_directory_has(
    in_job: Open, image: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = await killed_in_the_queue(image)
    (record,) = await asyncio.to_thread(lambda: Store().all())
    await asyncio.to_thread(lambda: Store().remove(record))
    work, _ = await asyncio.to_thread(workdir.choose)
    await asyncio.to_thread(shutil.rmtree, work / name)
    with monkeypatch.context() as patch:
        patch.setenv("HERMES_HOME", str(tmp_path))  # not ours there
        assert name not in await hermes_says("sandbox", "prune", "--sandbox", "singularity")
    assert await queue(name) != []
    said = await hermes_says("sandbox", "prune", "--sandbox", "singularity")
    assert f"job {name} cancelled (no sandbox has it)" in said
    assert await queue(name) == []


async def test_a_job_that_slurm_does_not_take(in_job: Open) -> None:
    with pytest.raises(BackendError, match="SLURM did not take the job"):
        await in_job(slurm={"partition": "no-such-partition"})


async def test_an_instance_that_does_not_start_in_its_job(in_job: Open, tmp_path: object) -> None:
    broken = f"{tmp_path}/broken.sif"
    await asyncio.to_thread(lambda: open(broken, "w").close())
    with pytest.raises(BackendError, match=r"job \d+ ended before the sandbox ran"):
        await in_job(image=broken)


async def test_cancelled_from_outside(in_job: Open) -> None:
    box = await in_job()
    run = asyncio.create_task(box.run("sleep 60"))
    await asyncio.sleep(0.3)
    await ask("scancel", await job_of(box)._job())
    with pytest.raises(SandboxGone) as caught:
        await run
    assert caught.value.reason == "its job was cancelled"


@pytest.mark.slow
@pytest.mark.timeout(200)
async def test_the_time_limit(in_job: Open) -> None:
    box = await in_job(slurm={"time": "1"})
    with pytest.raises(SandboxGone) as caught:
        await box.run("sleep 180")
    assert caught.value.reason == "its job reached the time limit"


@pytest.mark.slow
async def test_it_ends_by_itself_and_comes_back_in_another_job(in_job: Open) -> None:
    box = await in_job(name="idle", lifetime=Lifetime(idle_guest=0.5, idle_stop=2.5))
    await box.run("echo kept >f")
    first = await job_of(box)._job()
    await box.close()

    async def ended() -> bool:
        return await queue(f"hermes-{box.id}") == []

    await eventually(ended, 30)
    place = box._the_place()
    assert await place.find(dict(place._made)) == "stopped"  # type: ignore[attr-defined]
    assert "nothing ran in it" in await place.diagnose("x")
    again = await in_job(name="idle")
    assert await job_of(again)._job() != first
    assert await out(again, "cat f") == "kept"
    assert again.id == box.id


async def test_prune_cancels_a_job_that_no_record_has(in_job: Open) -> None:
    box = await in_job(name="lost")
    record = box._record
    assert record is not None
    await asyncio.to_thread(lambda: Store().remove(record))
    gone = await SingularityBackend.prune(await asyncio.to_thread(load), await asyncio.to_thread(Store))
    assert gone == [f"instance hermes-{box.id} removed (no sandbox has it)"]
    assert await queue(f"hermes-{box.id}") == []
