"""Background jobs: they outlive the client, and their output is there afterwards."""

from __future__ import annotations

import asyncio

import pytest

from hermes import Sandbox
from hermes.errors import JobError

from .._harness import case
from ..plugin import OpenBox
from ..tools import desert, eventually, fails, gone, out, pids, stopwatch, tag, unique, up


@case
async def test_start_returns_at_once(box: Sandbox) -> None:
    with stopwatch(1):
        job = await box.start("sleep 0.4; echo finished; exit 3")
    assert (await job.info()).state == "running"
    result = await job.wait(10)
    assert (result.status, result.exit_code, result.stdout) == ("ok", 3, b"finished\n")


@case
async def test_streams_of_a_job_are_one_output(box: Sandbox) -> None:
    job = await box.start("for i in {1..200}; do echo o$i; echo e$i >&2; done")
    await job.wait(10)
    assert await job.output() == b"".join(b"o%d\ne%d\n" % (i, i) for i in range(1, 201))


@case
async def test_output_while_it_runs(box: Sandbox) -> None:
    job = await box.start("echo one; read x; echo two $x; sleep 3600")
    await eventually(job.output)
    assert await job.output() == b"one\n"
    await job.write("more\n")

    async def second() -> bool:
        return b"two more\n" in await job.output()

    await eventually(second)
    await job.kill()


@case
async def test_output_in_pages(box: Sandbox) -> None:
    job = await box.start("for i in {1..100000}; do echo line $i; done")
    await job.wait(20)
    whole = b"".join(b"line %d\n" % i for i in range(1, 100001))
    assert await job.output() == whole
    assert await job.output(500_000, 1000) == whole[500_000:501_000]
    assert await job.output(len(whole)) == b""
    assert await job.output(0, 0) == b""


@case
async def test_follow(box: Sandbox) -> None:
    """Everything from the start, then what comes, until the end."""
    job = await box.start("for i in 1 2 3 4; do echo $i; sleep 0.1; done")
    await asyncio.sleep(0.15)
    assert b"".join([data async for data in job.follow()]) == b"1\n2\n3\n4\n"
    assert b"".join([data async for data in job.follow(4)]) == b"3\n4\n"


@case
async def test_leaving_follow_leaves_the_job(box: Sandbox) -> None:
    job = await box.start("echo a; sleep 0.5; echo b")
    async for data in job.follow():
        assert data == b"a\n"
        break
    assert (await job.wait(10)).stdout == b"a\nb\n"


@case
async def test_two_followers(box: Sandbox) -> None:
    job = await box.start("for i in {1..2000}; do echo line $i; done; sleep 0.3; echo end")

    async def read() -> bytes:
        return b"".join([data async for data in job.follow()])

    one, two = await asyncio.gather(read(), read())
    assert one == two
    assert one.endswith(b"line 2000\nend\n")


@case
async def test_input_of_a_job(box: Sandbox) -> None:
    job = await box.start("cat; echo end")
    await job.write("one\n")
    await job.write(b"two \xff\x00\n")
    await job.close_stdin()
    assert (await job.wait(10)).stdout == b"one\ntwo \xff\x00\nend\n"


@case
async def test_large_input_of_a_job(box: Sandbox) -> None:
    job = await box.start("wc -c")
    await job.write(bytes(3_000_000))
    await job.close_stdin()
    assert (await job.wait(20)).stdout.strip() == b"3000000"


@case
async def test_input_after_the_end(box: Sandbox) -> None:
    job = await box.start("true")
    await job.wait(10)
    with fails("job_finished"):
        await job.write("x")


@case
async def test_wait_that_is_not_long_enough(box: Sandbox) -> None:
    """The wait ends, the job does not."""
    job = await box.start("sleep 0.6; echo finished")
    with pytest.raises(TimeoutError), stopwatch(1):
        await job.wait(0.1)
    assert (await job.info()).state == "running"
    assert (await job.wait(10)).stdout == b"finished\n"
    assert (await job.wait(10)).stdout == b"finished\n"


@case
async def test_kill_ends_the_tree(box: Sandbox) -> None:
    mark = tag()
    job = await box.start(
        f"trap '' TERM; echo up; (setsid sleep {mark} &); env -i setsid sleep {mark} & sleep {mark} | cat"
    )

    async def all_up() -> bool:
        return len(await pids(box, mark)) >= 3

    await eventually(all_up)
    await job.kill()
    result = await asyncio.wait_for(job.wait(), 2)
    assert result.exit_code == 137
    assert (await job.info()).state == "killed"
    assert await job.output() == b"up\n"
    await gone(box, mark)
    await job.kill()


@case
async def test_signal_to_a_job(box: Sandbox) -> None:
    job = await box.start(
        "trap 'echo reload' HUP; trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.05; done"
    )
    await eventually(job.output)
    await job.kill("HUP")

    async def reloaded() -> bool:
        return b"reload" in await job.output()

    await eventually(reloaded)
    await job.kill("SIGTERM")
    result = await job.wait(10)
    assert (result.exit_code, result.stdout) == (5, b"up\nreload\nbye\n")


@case
async def test_time_limit_of_a_job(box: Sandbox) -> None:
    mark = tag()
    job = await box.start(f"echo up; setsid sleep {mark} & sleep {mark}", timeout=0.4)
    result = await asyncio.wait_for(job.wait(), 3)
    assert (result.status, result.exit_code, result.stdout) == ("timed_out", 124, b"up\n")
    assert (await job.info()).state == "timed_out"
    await gone(box, mark)


@case
async def test_a_job_begins_with_the_sessions_state(box: Sandbox) -> None:
    await box.run("x='a b'; export y=2; f() { echo f $1; }; cd /etc; alias hi='echo hello'")
    job = await box.start("echo $x $y; f z; pwd\nhi")
    assert (await job.wait(10)).stdout == b"a b 2\nf z\n/etc\nhello\n"


@case
async def test_a_job_changes_nothing_of_the_session(box: Sandbox) -> None:
    await box.run("x=1")
    await (await box.start("x=2; cd /; exit 3")).wait(10)
    assert await out(box, "echo $x; pwd") == f"1\n{box.cwd}"


@case
async def test_directory_and_environment_of_a_job(box: Sandbox) -> None:
    job = await box.start('pwd; echo "$EXTRA"', cwd="/etc", env={"EXTRA": "more\nlines"})
    assert (await job.wait(10)).stdout == b"/etc\nmore\nlines\n"


@case
async def test_argv_of_a_job(box: Sandbox) -> None:
    job = await box.start(["printf", "[%s]", "a b", "$x", "'"])
    assert (await job.wait(10)).stdout == b"[a b][$x][']"


@case
async def test_list_of_jobs(box: Sandbox) -> None:
    running = await box.start("echo abc; sleep 3600")
    ended = await box.start("exit 4")
    await ended.wait(10)
    await eventually(running.output)
    jobs = {job.id: job for job in await box.jobs()}
    one, two = jobs[running.id], jobs[ended.id]
    assert (one.kind, one.state, one.exit_code, one.command, one.bytes) == (
        "job",
        "running",
        None,
        "echo abc; sleep 3600",
        4,
    )
    assert (two.kind, two.state, two.exit_code) == ("job", "exited", 4)
    assert one.ended is None
    assert two.started is not None
    assert two.ended is not None
    assert two.started <= two.ended
    await running.kill()


@case
async def test_a_job_is_found_by_its_id(box: Sandbox) -> None:
    started = await box.start("read x; echo got $x")
    found = await box.job(started.id)
    assert found.command == "read x; echo got $x"
    await found.write("it\n")
    assert (await found.wait(10)).stdout == b"got it\n"


@case
async def test_unknown_job(box: Sandbox) -> None:
    with fails("job_unknown"):
        await box.job("99999999")
    with fails("job_unknown"):
        await box.kill("99999999")
    with fails("job_unknown"):
        await box.kill("p1")


@case
async def test_many_jobs(box: Sandbox) -> None:
    jobs = [await box.start(f"echo {n}; exit {n}") for n in range(30)]
    results = [await job.wait(20) for job in jobs]
    assert [(result.stdout, result.exit_code) for result in results] == [(b"%d\n" % n, n) for n in range(30)]
    assert len({job.id for job in jobs}) == 30


@case
async def test_output_of_ended_jobs_stays(box: Sandbox) -> None:
    first = await box.start("echo first")
    await first.wait(10)
    for n in range(40):
        await (await box.start(f"echo {n}")).wait(10)
    assert await first.output() == b"first\n"


@case
async def test_long_output_of_a_job(box: Sandbox) -> None:
    """The result is clipped as that of a run, the whole can be read."""
    job = await box.start("head -c 5000000 /dev/zero; echo end")
    result = await job.wait(20)
    assert result.truncated
    assert len(result.stdout) < 1_100_000
    assert result.stdout.endswith(b"\0end\n")
    assert len(await job.output()) == 5_000_004


@case
async def test_a_job_survives_its_client(open_box: OpenBox) -> None:
    name = unique("jobs")
    box = await open_box(name=name)
    job = await box.start("for i in 1 2 3 4 5 6; do echo $i; sleep 0.1; done; exit 9")
    await desert(box)
    again = await open_box(name=name)
    found = await again.job(job.id)
    result = await found.wait(10)
    assert (result.exit_code, result.stdout) == (9, b"1\n2\n3\n4\n5\n6\n")


@case
async def test_a_job_survives_a_client_that_leaves(open_box: OpenBox) -> None:
    name = unique("jobs")
    box = await open_box(name=name)
    job = await box.start("sleep 0.4; echo finished")
    await box.close()
    again = await open_box(name=name)
    assert b"".join([data async for data in (await again.job(job.id)).follow()]) == b"finished\n"


@case
async def test_strays_of_a_job(box: Sandbox) -> None:
    """What an ended job left running is listed, and killing the job ends it."""
    mark = tag()
    job = await box.start(f"setsid sleep {mark} >/dev/null 2>&1 & echo left")
    assert (await asyncio.wait_for(job.wait(), 3)).stdout == b"left\n"
    await up(box, mark, 1)
    assert [one.kind for one in await box.jobs() if mark in one.command and one.id != job.id] == ["stray"]
    await job.kill()
    await gone(box, mark, within=1)


@case
async def test_a_stray_is_no_job(box: Sandbox) -> None:
    mark = tag()
    await box.run(f"sleep {mark} &")
    await up(box, mark, 1)
    (stray,) = [one for one in await box.jobs() if one.kind == "stray"]
    with pytest.raises(JobError):
        await box.job(stray.id)
