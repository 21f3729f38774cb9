"""`&` in a command: it returns at once, and what comes later lands nowhere else."""

from __future__ import annotations

import asyncio

from hermes import Sandbox

from .._harness import case
from ..tools import gone, out, pids, stopwatch, tag, up


@case
async def test_ampersand_returns_at_once(box: Sandbox) -> None:
    mark = tag()
    with stopwatch(1):
        result = await box.run(f"sleep {mark} & echo started")
    assert (result.exit_code, result.stdout) == (0, b"started\n")
    await up(box, mark, 1)


@case
async def test_every_way_to_the_background_returns_at_once(box: Sandbox) -> None:
    mark = tag()
    ways = [f"nohup sleep {mark} &", f"setsid sleep {mark} &", f"(sleep {mark} &)", f"sleep {mark} & disown"]
    ways += [f"sleep {mark} | cat &", f"(setsid bash -c 'sleep {mark}; echo x' &)", f"coproc sleep {mark}"]
    for way in ways:
        with stopwatch(1):
            result = await box.run(way)
        assert result.exit_code == 0, (way, result)
    await up(box, mark, len(ways) + 1)  # the shell in one of them has the number in its command too


@case
async def test_background_in_exec_returns_at_once(box: Sandbox) -> None:
    mark = tag()
    with stopwatch(1):
        result = await box.exec(f"sleep {mark} & setsid sleep {mark} & echo started")
    assert result.stdout == b"started\n"
    await up(box, mark, 2)


@case
async def test_later_output_lands_in_no_other_result(box: Sandbox) -> None:
    await box.run(
        "(sleep 0.2; echo LATE; echo LATE >&2) & (for i in {1..20}; do echo LATE; sleep 0.05; done) &"
    )
    seen = b""
    for number in range(10):
        result = await box.run(f"sleep 0.05; echo {number}; echo e{number} >&2")
        assert (result.stdout, result.stderr) == (b"%d\n" % number, b"e%d\n" % number)
        seen += result.stdout
    assert b"LATE" not in seen


@case
async def test_background_process_keeps_its_output(box: Sandbox) -> None:
    """It is neither killed by a closed pipe nor held up by one that nobody reads."""
    await box.run(
        "(for i in {1..30}; do echo $i; head -c 100000 /dev/zero; sleep 0.01; done; echo complete >mark) &"
    )
    with stopwatch(10):
        assert await out(box, "wait; cat mark; rm mark") == "complete"


@case
async def test_wait_for_background_jobs(box: Sandbox) -> None:
    await box.run("(sleep 0.3; exit 7) &")
    assert (await box.run("wait %1")).exit_code == 7
    await box.run("(sleep 0.1; exit 3) & pid=$!")
    assert (await box.run("wait $pid")).exit_code == 3


@case
async def test_jobs_and_kill_builtins(box: Sandbox) -> None:
    mark = tag()
    await box.run(f"sleep {mark} & sleep {mark} &")
    assert (await box.run("jobs")).stdout.count(mark.encode()) == 2
    await box.run("kill %1 %2; wait 2>/dev/null")
    await gone(box, mark)


@case
async def test_process_substitution_is_complete(box: Sandbox) -> None:
    """`> >(filter)`: the filter ends after its command, and its output belongs to the result."""
    for _ in range(20):
        result = await box.run("seq 1 300 > >(sed s/^/n/)")
        assert result.stdout == b"".join(b"n%d\n" % n for n in range(1, 301))


@case
async def test_process_substitution_that_stays(box: Sandbox) -> None:
    """A filter that never ends does not hold the command up for ever."""
    mark = tag()
    with stopwatch(3):
        result = await box.run(f"echo hi > >(cat; sleep {mark})")
    assert result.stdout == b"hi\n"
    assert await out(box, "echo next") == "next"


@case
async def test_tee_of_both_streams(box: Sandbox) -> None:
    command = (
        "{ echo o; echo e >&2; } > >(tee o.log) 2> >(tee e.log >&2); wait; cat o.log e.log; rm o.log e.log"
    )
    result = await box.run(command)
    assert sorted(result.stdout.split()) == [b"e", b"o", b"o"]
    assert result.stderr == b"e\n"


@case
async def test_background_then_exit(box: Sandbox) -> None:
    """A command that leaves something running and ends the shell returns at once all the same."""
    mark = tag()
    for end in ("exit 4", "exec true", "kill -9 $$"):
        with stopwatch(2):
            await box.run(f"sleep {mark} & {end}")
    await up(box, mark, 3)
    assert len([job for job in await box.jobs() if job.kind == "stray"]) == 3


@case
async def test_strays_are_listed_and_can_be_killed(box: Sandbox) -> None:
    mark = tag()
    await box.run(f"(setsid sleep {mark} >/dev/null 2>&1 &); sleep {mark} &")
    await up(box, mark, 2)
    strays = [job for job in await box.jobs() if job.kind == "stray"]
    assert sorted(job.pid for job in strays) == sorted(await pids(box, mark))
    assert all(job.state == "running" and mark in job.command for job in strays)
    for job in strays:
        await box.kill(job.id)
    await gone(box, mark, within=1)
    assert [job for job in await box.jobs() if job.kind == "stray"] == []


@case
async def test_stray_does_not_delay_others(box: Sandbox) -> None:
    """With processes left that hold its pipes open, a session is as quick as before."""
    mark = tag()
    await box.run(f"for i in 1 2 3; do sleep {mark} & done")
    with stopwatch(3):
        for _ in range(20):
            await box.run("true")


@case
async def test_background_with_live_output(box: Sandbox) -> None:
    """A callback does not make the call wait for what goes on in the background."""
    seen = bytearray()
    with stopwatch(1.5):
        await box.run("(sleep 3; echo late) & echo now", on_output=seen.extend)
    assert bytes(seen) == b"now\n"
    await asyncio.sleep(0)
