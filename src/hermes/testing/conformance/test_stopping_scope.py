"""What a stop does not touch: other commands, sessions, jobs, and what earlier commands left running."""

from __future__ import annotations

import asyncio

from hermes import Sandbox

from .._harness import case
from ..tools import eventually, gone, out, pids, stopwatch, tag, up


@case
async def test_earlier_background_process_survives_a_stop(box: Sandbox) -> None:
    early, late = tag(), tag()
    await box.run(f"sleep {early} & disown")
    await box.run(f"(setsid sleep {early} >/dev/null 2>&1 &)")
    await up(box, early, 2)
    await box.run(f"sleep {late} & sleep {late}", timeout=0.3)
    await gone(box, late)
    assert len(await pids(box, early)) == 2


@case
async def test_daemon_without_environment_survives_a_later_stop(box: Sandbox) -> None:
    """What an earlier command started is told from what this one did, though it carries no mark."""
    early, late = tag(), tag()
    await box.run(f"env -i setsid sleep {early} >/dev/null 2>&1 &")
    await eventually(lambda: pids(box, early))
    await asyncio.sleep(0.1)
    await box.run(f"env -i setsid sleep {late} & sleep {late}", timeout=0.3)
    await gone(box, late)
    assert len(await pids(box, early)) == 1


@case
async def test_earlier_shell_job_survives_a_stop(box: Sandbox) -> None:
    await box.run("(sleep 1; echo finished >mark) & job=$!")
    await box.run("sleep 3600", timeout=0.3)
    assert await out(box, "wait $job; cat mark") == "finished"


@case
async def test_other_sessions_survive_a_stop(box: Sandbox) -> None:
    mark = tag()
    other = await box.shell("other")
    running = asyncio.create_task(other.run(f"x=5; sleep 1.{mark[5:]}; echo whole"))
    await eventually(lambda: pids(box, mark[5:]))
    await box.run("sleep 3600", timeout=0.2)
    result = await running
    assert (result.exit_code, result.stdout) == (0, b"whole\n")
    assert await out(other, "echo $x") == "5"


@case
async def test_jobs_survive_a_stop(box: Sandbox) -> None:
    job = await box.start("sleep 1; echo finished")
    await box.run("sleep 3600 | sleep 3600", timeout=0.2)
    assert (await job.wait(10)).stdout == b"finished\n"


@case
async def test_exec_survives_a_stop(box: Sandbox) -> None:
    running = asyncio.create_task(box.exec("sleep 0.8; echo whole"))
    await asyncio.sleep(0.1)
    await box.run("sleep 3600", timeout=0.2)
    assert (await running).stdout == b"whole\n"


@case
async def test_queued_commands_survive_a_stop(box: Sandbox) -> None:
    """A timeout ends one command. Its time begins when it begins."""
    first = asyncio.create_task(box.run("sleep 3600", timeout=0.5))
    await asyncio.sleep(0.05)
    others = [asyncio.create_task(box.run(f"sleep 0.2; echo {n}", timeout=0.6)) for n in range(3)]
    assert (await first).timed_out
    assert [(await other).stdout for other in others] == [b"0\n", b"1\n", b"2\n"]


@case
async def test_cancelling_a_queued_command(box: Sandbox) -> None:
    """It never runs, and those before and after it do."""
    first = asyncio.create_task(box.run("sleep 0.5; echo first"))
    await asyncio.sleep(0.05)
    second = asyncio.create_task(box.run("touch ran-anyway"))
    third = asyncio.create_task(box.run("echo third; ls ran-anyway"))
    await asyncio.sleep(0.05)
    second.cancel()
    assert (await first).stdout == b"first\n"
    result = await third
    assert (result.stdout, result.exit_code) == (b"third\n", 2)


@case
async def test_interrupt_is_for_one_session(box: Sandbox) -> None:
    one, two = await box.shell("one"), await box.shell("two")
    mark = tag()
    runs = [asyncio.create_task(shell.run(f"sleep {mark}")) for shell in (one, two)]

    async def both() -> bool:
        return len(await pids(box, mark)) == 2

    await eventually(both)
    await one.interrupt()
    assert (await runs[0]).exit_code == 130
    assert not runs[1].done()
    assert len(await pids(box, mark)) == 1
    await two.interrupt()
    assert (await runs[1]).exit_code == 130


@case
async def test_a_stop_does_not_end_the_sandbox(box: Sandbox) -> None:
    """A timeout ends one command, not the place it ran in."""
    before = box.describe()
    for _ in range(3):
        await box.run("kill -STOP $$", timeout=0.1)
    with stopwatch(3):
        assert await out(box, "echo there") == "there"
    assert box.describe() == before


@case
async def test_twenty_stops_side_by_side(box: Sandbox) -> None:
    mark = tag()
    shells = [await box.shell(f"s{n}") for n in range(20)]
    with stopwatch(6):
        results = await asyncio.gather(*(shell.run(f"sleep {mark}", timeout=1) for shell in shells))
    assert all(result.timed_out for result in results)
    await gone(box, mark, within=2)


@case
async def test_process_of_an_exec_that_ended(box: Sandbox) -> None:
    """What a one-off command left in the background is listed, and can be ended."""
    mark = tag()
    result = await box.exec(f"setsid sleep {mark} >/dev/null 2>&1 & echo left")
    assert result.stdout == b"left\n"
    await up(box, mark, 1)
    left = [job for job in await box.jobs() if job.kind == "stray" and mark in job.command]
    assert len(left) == 1
    await box.kill(left[0].id)
    await gone(box, mark, within=1)
