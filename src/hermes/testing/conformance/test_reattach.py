"""Lost clients and lost links: what ran goes on, and whoever attaches gets everything once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys

import pytest

from hermes import Sandbox
from hermes.config import Lifetime
from hermes.errors import SandboxGone

from .._harness import case
from ..plugin import OpenBox
from ..tools import cut, desert, eventually, gone, out, pids, stopwatch, tag, unique

CLIENT = """
import asyncio, json, sys, hermes
async def main():
    try:
        box = hermes.Sandbox(sys.argv[1], name=sys.argv[2], approval="off", **json.loads(sys.argv[3]))
        await box.open()
    except hermes.ConfigError as error:
        print("unknown" if error.code == "backend_unknown" else error, flush=True)
        return
    await box.run(sys.argv[4], on_output=lambda data: print("up", flush=True))
asyncio.run(main())
"""

COUNT = "for i in {1..20}; do echo line $i; sleep 0.05; done; exit 6"
COUNTED = b"".join(b"line %d\n" % i for i in range(1, 21))


async def find_run(box: Sandbox, text: str) -> str:
    """Return the id of the run whose command holds *text*."""
    (found,) = [job.id for job in await box.jobs() if job.kind == "run" and text in job.command]
    return found


@case
async def test_named_sandbox_is_found_again(open_box: OpenBox) -> None:
    name = unique("named")
    box = await open_box(name=name)
    await box.run("x=kept; cd /")
    await box.files.write("note", b"here")
    await box.close()
    again = await open_box(name=name)
    assert again.id == box.id
    assert await again.files.read("note") == b"here"
    assert await out(again, "echo $x; pwd") == "kept\n/"


@case
async def test_unnamed_sandbox_ends_with_its_context(open_box: OpenBox) -> None:
    box = await open_box()
    await box.destroy()
    with pytest.raises(SandboxGone):
        await box.run("true")
    await box.destroy()


@case
async def test_client_lost_in_mid_command(open_box: OpenBox) -> None:
    """A new client finds the command, gets every line exactly once, and the exit code."""
    name = unique("lost")
    box = await open_box(name=name)
    run = asyncio.create_task(box.run(COUNT))
    await asyncio.sleep(0.3)
    await desert(box)
    with pytest.raises(SandboxGone):
        await run
    again = await open_box(name=name)
    job = await again.job(await find_run(again, "line"))
    assert b"".join([data async for data in job.follow()]) == COUNTED
    result = await job.wait(10)
    assert (result.exit_code, result.stdout) == (6, COUNTED)


@case
async def test_client_lost_while_its_command_ends(open_box: OpenBox) -> None:
    """The result waits for whoever asks, though the command ended with nobody there."""
    name = unique("lost")
    box = await open_box(name=name)
    run = asyncio.create_task(box.run("sleep 0.3; echo finished; exit 4"))
    await asyncio.sleep(0.1)
    await desert(box)
    with pytest.raises(SandboxGone):
        await run
    await asyncio.sleep(0.5)
    again = await open_box(name=name)
    job = await again.job(await find_run(again, "finished"))
    result = await job.wait(10)
    assert (result.exit_code, result.stdout) == (4, b"finished\n")


@pytest.mark.slow
@case
async def test_client_killed_in_mid_command(
    open_box: OpenBox, hermes_backend: str, sandbox_options: dict[str, object]
) -> None:
    """A client process that dies by SIGKILL leaves its command running."""
    name = unique("killed")
    argv = [sys.executable, "-c", CLIENT, hermes_backend, name, json.dumps(sandbox_options), COUNT]
    client = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE, env=dict(os.environ))
    try:
        assert client.stdout is not None
        said = await asyncio.wait_for(client.stdout.readline(), 30)
    finally:
        with contextlib.suppress(ProcessLookupError):
            client.send_signal(signal.SIGKILL)
        await client.communicate()
    if said == b"unknown\n":
        pytest.skip("this backend exists in the test's own process only, and the case needs another one")
    assert said == b"up\n"
    box = await open_box(name=name)
    job = await box.job(await find_run(box, "line"))
    assert b"".join([data async for data in job.follow()]) == COUNTED
    assert (await job.wait(10)).exit_code == 6


@case
async def test_no_output_is_lost_without_a_client(open_box: OpenBox) -> None:
    """A deserted command neither stalls nor loses output, however much it writes."""
    name = unique("deserted")
    box = await open_box(name=name)
    command = "sleep 0.2; head -c 20000000 /dev/zero; echo end"
    run = asyncio.create_task(box.run(command, on_output=lambda data: None))
    await asyncio.sleep(0.1)
    await desert(box)
    with pytest.raises(SandboxGone):
        await run
    again = await open_box(name=name)
    job = await again.job(await find_run(again, "20000000"))
    result = await job.wait(20)
    assert result.exit_code == 0
    assert len(await job.output()) == 20_000_004


@case
async def test_link_lost_under_a_running_command(fresh_box: Sandbox) -> None:
    """The client lives and gets on with it: no line is lost, none comes twice."""
    seen = bytearray()
    run = asyncio.create_task(fresh_box.run(COUNT, on_output=seen.extend))
    for _ in range(3):
        await asyncio.sleep(0.2)
        cut(fresh_box)
    result = await asyncio.wait_for(run, 15)
    assert bytes(seen) == result.stdout == COUNTED
    assert result.exit_code == 6
    assert await out(fresh_box, "echo on") == "on"


@case
async def test_link_lost_in_a_flood(fresh_box: Sandbox) -> None:
    """Cut again and again in the middle of much output: the bytes are exact."""
    seen = bytearray()
    run = asyncio.create_task(
        fresh_box.run("for i in {1..200000}; do echo line $i; done", on_output=seen.extend)
    )
    for _ in range(8):
        await asyncio.sleep(0.06)
        if not run.done():
            await eventually(lambda: run.done() or fresh_box._channel._wire is not None)
            if not run.done():
                cut(fresh_box)
    result = await asyncio.wait_for(run, 30)
    assert result.exit_code == 0
    assert bytes(seen) == b"".join(b"line %d\n" % i for i in range(1, 200001))


@case
async def test_link_lost_while_input_is_sent(fresh_box: Sandbox) -> None:
    run = asyncio.create_task(fresh_box.run("sleep 0.3; sha256sum", stdin=b"0123456789abcdef" * 500_000))
    for _ in range(4):
        await asyncio.sleep(0.1)
        await eventually(lambda: run.done() or fresh_box._channel._wire is not None)
        if not run.done():
            cut(fresh_box)
    result = await asyncio.wait_for(run, 20)
    expected = await fresh_box.run("for i in {1..500000}; do printf 0123456789abcdef; done | sha256sum")
    assert result.stdout == expected.stdout


@case
async def test_no_command_is_run_twice(fresh_box: Sandbox) -> None:
    """Whatever happens to the link, each command is run exactly once."""
    for n in range(15):
        run = asyncio.create_task(fresh_box.run(f"echo {n} >>log; sleep 0.02; echo {n}"))
        await asyncio.sleep(0.005 * (n % 4))
        await eventually(lambda: fresh_box._channel._wire is not None)
        cut(fresh_box)
        assert (await asyncio.wait_for(run, 10)).stdout == b"%d\n" % n
    assert (await fresh_box.run("cat log")).stdout == b"".join(b"%d\n" % n for n in range(15))


@case
async def test_link_lost_at_rest(fresh_box: Sandbox) -> None:
    await fresh_box.run("x=1")
    cut(fresh_box)
    with stopwatch(3):
        assert await out(fresh_box, "echo $x") == "1"


@case
async def test_link_lost_under_jobs_and_terminals(fresh_box: Sandbox) -> None:
    job = await fresh_box.start("for i in 1 2 3 4 5 6; do echo $i; sleep 0.1; done")
    pty = await fresh_box.pty("read x; echo got $x")

    async def follow() -> bytes:
        return b"".join([data async for data in job.follow()])

    following = asyncio.create_task(follow())
    await asyncio.sleep(0.2)
    cut(fresh_box)
    await pty.write("it\n")
    assert await asyncio.wait_for(following, 10) == b"1\n2\n3\n4\n5\n6\n"
    assert b"got it" in b"".join([data async for data in pty])


@case
async def test_two_clients_at_once(open_box: OpenBox) -> None:
    """They share sessions and jobs, and each gets its own answers."""
    name = unique("shared")
    one = await open_box(name=name)
    two = await open_box(name=name)
    await one.run("x=from-one")
    assert await out(two, "echo $x") == "from-one"
    runs = [box.run(f"echo {n}", session=f"s{n % 3}") for n in range(20) for box in (one, two)]
    assert [result.stdout for result in await asyncio.gather(*runs)] == [
        b"%d\n" % (n // 2) for n in range(40)
    ]
    job = await one.start("sleep 0.3; echo finished")
    assert (await (await two.job(job.id)).wait(10)).stdout == b"finished\n"


@case
async def test_one_client_leaves_the_other(open_box: OpenBox) -> None:
    name = unique("shared")
    one = await open_box(name=name)
    two = await open_box(name=name)
    run = asyncio.create_task(two.run("sleep 0.5; echo whole"))
    await asyncio.sleep(0.1)
    await one.close()
    assert (await run).stdout == b"whole\n"
    assert await out(two, "echo on") == "on"


@case
async def test_sandboxes_do_not_share_anything(open_box: OpenBox) -> None:
    one, two = await open_box(), await open_box()
    await one.run("x=1; echo one >here")
    assert await out(two, "echo [$x]; ls") == "[]"
    assert one.id != two.id
    await one.destroy()
    assert await out(two, "echo on") == "on"


@case
async def test_destroying_ends_everything(open_box: OpenBox, box: Sandbox) -> None:
    """Jobs, terminals, sessions, strays: nothing of them is left."""
    mark = tag()
    doomed = await open_box()
    await doomed.start(f"trap '' TERM; sleep {mark}; sleep {mark}")
    await doomed.pty(f"sleep {mark}")
    await doomed.run(f"env -i setsid sleep {mark} >/dev/null 2>&1 & sleep {mark} &")
    running = asyncio.create_task(doomed.run(f"setsid sleep {mark} & sleep {mark}", session="busy"))

    async def all_up() -> bool:
        return len(await pids(doomed, mark)) >= 6

    await eventually(all_up)
    with stopwatch(5):
        await doomed.destroy()
    with pytest.raises(SandboxGone):
        await running
    if box.describe()["isolation"] == "none":  # elsewhere nobody can look into what is gone
        await gone(box, mark)


@case
async def test_attach_only(open_box: OpenBox) -> None:
    """`open(create=False)` attaches or says that there is none; it makes nothing."""
    name = unique("absent")
    box = await open_box(name=name)
    backend = box.backend
    await box.destroy()
    with pytest.raises(SandboxGone):
        await Sandbox(backend, name=name, approval="off").open(create=False)


@pytest.mark.slow
@case
async def test_idle_guest_ends(open_box: OpenBox) -> None:
    """With nobody attached and nothing running the guest ends by itself."""
    name = unique("idle")
    box = await open_box(name=name, lifetime=Lifetime(idle_guest=0.5))
    guest = box._channel.guest["guest"]
    await box.run("x=1")
    await box.close()
    await asyncio.sleep(2)
    again = await open_box(name=name)
    assert again._channel.guest["guest"] != guest


@pytest.mark.slow
@case
async def test_busy_guest_does_not_end(open_box: OpenBox) -> None:
    """A job, and a process left in the background, keep the guest alive past its idle time."""
    name = unique("busy")
    box = await open_box(name=name, lifetime=Lifetime(idle_guest=0.4))
    guest = box._channel.guest["guest"]
    job = await box.start("sleep 4; echo finished")
    await desert(box)
    await asyncio.sleep(1.5)
    again = await open_box(name=name, lifetime=Lifetime(idle_guest=0.4))
    assert again._channel.guest["guest"] == guest
    assert (await (await again.job(job.id)).wait(10)).stdout == b"finished\n"


@pytest.mark.slow
@case
async def test_deserted_command_ends_after_its_time(open_box: OpenBox, box: Sandbox) -> None:
    """What nobody came back for is ended after `lifetime.detached`, and says so."""
    mark = tag()
    name = unique("detached")
    lifetime = Lifetime(detached=0.6, idle_guest=60)
    doomed = await open_box(name=name, lifetime=lifetime)
    job = await doomed.start(f"echo begun; sleep {mark}")
    await eventually(job.output)
    await desert(doomed)
    await asyncio.sleep(2)
    again = await open_box(name=name, lifetime=lifetime)
    info = await (await again.job(job.id)).info()
    assert info.state == "expired"
    assert await pids(again, mark) == []
    result = await (await again.job(job.id)).wait(5)
    assert (result.status, result.stdout) == ("timed_out", b"begun\n")
