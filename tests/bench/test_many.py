"""Many commands: side by side, and one after the other for long."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import time

import pytest

from bench._proc import descriptors, family, memory
from bench._report import goal, report
from hermes import Sandbox
from hermes.bench import Row

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

MB = 1 << 20


def plain_sleep(count: int) -> float:
    start = time.perf_counter()
    running = [subprocess.Popen(["bash", "-c", "sleep 1"]) for _ in range(count)]
    assert not any([process.wait() for process in running])
    return time.perf_counter() - start


async def test_twenty_sleeping_commands_in_twenty_sessions() -> None:
    ours, theirs = [], []
    async with Sandbox("local") as box:
        for turn in range(3):
            start = time.perf_counter()
            results = await asyncio.gather(
                *(box.run("sleep 1", session=f"s{turn}-{number}") for number in range(20))
            )
            ours.append(time.perf_counter() - start)
            assert [result.exit_code for result in results] == [0] * 20
            theirs.append(await asyncio.to_thread(plain_sleep, 20))
            for number in range(20):
                await (await box.shell(f"s{turn}-{number}")).close()
    rows = [Row.of("sleeping", "20 times sleep 1", ours, theirs)]
    report("sleeping", rows, time=goal(rows[0].hermes.median <= 1.3, "all within 1.3 s"))


async def test_ten_thousand_commands_leave_nothing() -> None:
    count = 10_000
    # Each kind leaves something else behind when it is not cleaned up.
    commands = ["true", "/bin/true", "echo out; echo err >&2", "seq 200 | tail -n 1"]
    async with Sandbox("local") as box:
        host, guest = os.getpid(), int(box._channel.guest["pid"])
        for number in range(1000):
            await box.run(commands[number % 4])
        gc.collect()
        before = {"host": memory(host), "guest": memory(guest)}
        fds = {"host": descriptors(host), "guest": descriptors(guest)}
        processes = len(family(guest))
        start = time.perf_counter()
        for number in range(count):
            result = await box.run(commands[number % 4])
            assert result.exit_code == 0
            assert result.stdout == (b"", b"", b"out\n", b"200\n")[number % 4]
        took = time.perf_counter() - start
        gc.collect()
        await asyncio.sleep(0.2)
        after = {"host": memory(host), "guest": memory(guest)}
        facts = {
            f"{who}_{kind}": f"{before[who][at] / MB:.1f} MB before, {after[who][at] / MB:.1f} MB after"
            for who in ("host", "guest")
            for at, kind in enumerate(("RSS", "PSS"))
        }
        left = {"host": len(descriptors(host)), "guest": len(descriptors(guest))}
        still = len(family(guest))
        facts["descriptors"] = (
            f"host {len(fds['host'])} before, {left['host']} after;"
            f" guest {len(fds['guest'])} before, {left['guest']} after"
        )
        facts["processes"] = f"{processes} before, {still} after"
        report("ten_thousand", [Row.of("each", "one of 10,000 mixed", [took / count])], **facts)
        assert after["guest"][0] - before["guest"][0] < 4 * MB
        assert after["host"][0] - before["host"][0] < 16 * MB
        assert left == {who: len(open_files) for who, open_files in fds.items()}
        assert still == processes
