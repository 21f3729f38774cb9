"""A host that is killed: what ran goes on and is found again, or it ends by itself."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bench._proc import alive, family
from bench._report import report
from hermes import Sandbox
from hermes.bench import Row

pytestmark = [pytest.mark.bench, pytest.mark.timeout(120)]

LOOP = "for i in $(seq 20); do echo $i; sleep 0.2; done"

# Says where the guest is as soon as the first line has come, then waits for the rest.
HOST = """
import asyncio, json, sys
from hermes import Sandbox
from hermes.config import Lifetime

async def main(name, idle, command):
    box = await Sandbox("local", name=name, lifetime=Lifetime(idle_guest=idle)).open()
    def first(data):
        guest = box._channel.guest
        print(json.dumps([guest["pid"], guest["run_dir"], data.decode()]), flush=True)
    await box.run(command, session="mine", on_output=first)

asyncio.run(main(sys.argv[1], float(sys.argv[2]), sys.argv[3]))
"""


class Killed:
    """A host process that was killed with SIGKILL while its command ran."""

    def __init__(self, name: str, idle: float, command: str, after: float) -> None:
        argv = [sys.executable, "-c", HOST, name, str(idle), command]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            line: list[Any] = json.loads(process.stdout.readline())
            self.guest, self.run_dir, self.first = int(line[0]), Path(line[1]), line[2]
            time.sleep(after)
            process.send_signal(signal.SIGKILL)
        self.when = time.monotonic()
        assert process.returncode == -signal.SIGKILL


async def test_another_process_gets_the_whole_output() -> None:
    killed = await asyncio.to_thread(Killed, "lost", 600.0, LOOP, 1.5)
    assert alive(killed.guest)
    start = time.perf_counter()
    box = await Sandbox("local", name="lost").open(create=False)
    try:
        attached = time.perf_counter() - start
        (found,) = [info for info in await box.jobs() if info.kind == "run"]
        assert (found.state, found.command, found.session) == ("running", LOOP, "mine")
        job = await box.job(found.id)
        lines = b"".join([data async for data in job.follow()])
        result = await job.wait()
        report("lost_host", [Row.of("attach", "attach after SIGKILL", [attached])], lines=lines.count(b"\n"))
        assert lines == b"".join(b"%d\n" % number for number in range(1, 21))
        assert (result.status, result.exit_code) == ("ok", 0)
        assert (await box.run("echo again", session="mine")).stdout == b"again\n"
    finally:
        await box.destroy()
    assert not family(killed.guest)


async def test_nothing_is_left_after_the_idle_time() -> None:
    idle = 2.0
    killed = await asyncio.to_thread(Killed, "idle", idle, "echo begun; sleep 3; echo done", 0.3)
    tree = family(killed.guest)
    assert len(tree) >= 4  # guest, nanny, shell, sleep
    ran = False
    ended = None
    while ended is None and time.monotonic() < killed.when + 30:
        await asyncio.sleep(0.05)
        ran = ran or (time.monotonic() > killed.when + 2 and any(alive(pid) for pid in tree))
        if not any(alive(pid) for pid in tree):
            ended = time.monotonic() - killed.when
    report(
        "idle_exit",
        [Row.of("idle", "SIGKILL to nothing left", [ended or 0.0])],
        expected=f"about 2.7 s of sleep and {idle:g} s of idle time",
    )
    assert ran, "the command was not left to end by itself"
    assert ended is not None
    assert not killed.run_dir.exists()
    assert not re.findall(re.escape(killed.run_dir.name), "\n".join(os.listdir(killed.run_dir.parent)))
    # The name is free again: what is found dead is cleared away.
    async with Sandbox("local", name="idle") as box:
        assert (await box.run("echo new")).stdout == b"new\n"
        await box.destroy()
