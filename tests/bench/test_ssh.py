"""What commands on another machine cost, against the system's own ssh, in one run.

Over loopback in milliseconds; 50 ms away in round trips, of which a TCP connection takes one.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from _ssh import Host, far, near
from bench._report import goal, report
from hermes import Sandbox
from hermes.bench import Row, time_turns

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

TEXT = b"".join(b"line %d of a source file that somebody edits\n" % i for i in range(200))
FRESH_AGAIN = 15


@contextlib.contextmanager
def shared(host: Host) -> Iterator[Callable[[str], list[str]]]:
    """A connection that sessions of the system's ssh share; yields what makes the argv of one of them."""
    with tempfile.TemporaryDirectory(prefix="h-") as folder:
        path = Path(folder, "s")
        master = [*host.argv("")[:-1], "-M", "-S", str(path), "-N"]
        with subprocess.Popen(master, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                deadline = time.monotonic() + 20
                while not path.exists():
                    assert process.poll() is None and time.monotonic() < deadline, "no connection to share"
                    time.sleep(0.01)
                yield lambda command: host.argv(command, "-S", str(path))
            finally:
                process.kill()


def round_trip(host: Host) -> float:
    """Return the seconds of a round trip: what a TCP connection takes."""
    times = []
    for _ in range(15):
        start = time.perf_counter()
        with socket.create_connection((host.address, host.port), timeout=10):
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def relayed(host: Host, runs: int) -> list[float]:
    """Return the seconds that a byte takes to ``cat`` on the host and back: what no guest can be below."""
    times = []
    with subprocess.Popen(
        host.argv("exec cat"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for _ in range(runs + 20):  # the first ones include the connection
            start = time.perf_counter()
            process.stdin.write(b"x")
            assert process.stdout.read(1) == b"x"
            times.append(time.perf_counter() - start)
        process.stdin.close()
    return times[20:]


def trips(row: Row, rtt: float) -> str:
    """Say what a row comes to in round trips."""
    ours = f"{row.hermes.median / rtt:.2f} round trips of {rtt * 1000:.1f} ms"
    return ours if row.plain is None else f"{ours}, plain {row.plain.median / rtt:.2f}"


async def test_true_over_loopback() -> None:
    host = near()
    async with host.sandbox() as box:
        with shared(host) as plain:
            mux = Row.of(
                "mux", "true, against a shared ssh", *await time_turns(box, "true", plain, 200, block=25)
            )
        fresh = Row.of(
            "fresh", "true, against a fresh ssh", *await time_turns(box, "true", host.argv, 40, block=5)
        )
        relay = Row.of("relay", "relay alone: a byte to cat", await asyncio.to_thread(relayed, host, 500))
    assert mux.ratio is not None and fresh.ratio is not None
    report(
        "ssh_true",
        [mux, fresh, relay],
        time=goal(mux.hermes.median <= 0.0008, "median at most 0.8 ms"),
        against_shared=goal(mux.ratio <= 0.1, "at most a tenth of a shared ssh"),
        against_fresh=goal(fresh.ratio <= 0.01, "at most a hundredth of a fresh ssh"),
    )


async def test_true_far_away() -> None:
    host = far()
    rtt = await asyncio.to_thread(round_trip, host)
    async with host.sandbox() as box:
        with shared(host) as plain:
            mux = Row.of(
                "mux", "true, against a shared ssh", *await time_turns(box, "true", plain, 40, block=5)
            )
        fresh = Row.of(
            "fresh", "true, against a fresh ssh", *await time_turns(box, "true", host.argv, 10, block=2)
        )
    report(
        "ssh_far_true",
        [mux, fresh],
        shared=trips(mux, rtt),
        fresh=trips(fresh, rtt),
        time=goal(mux.hermes.median <= 1.1 * rtt, "median at most 1.1 round trips"),
    )


async def test_an_edit_far_away() -> None:
    """Read a file, patch it here, write it: the second call needs the answer to the first."""
    host = far()
    rtt = await asyncio.to_thread(round_trip, host)
    async with host.sandbox() as box:
        with shared(host) as plain:
            await box.files.write("file", TEXT)
            where = (await box.run("realpath file")).text.strip()
            ours, theirs = [], []
            for number in range(15):
                ours.append(await _edit(box, number))
                theirs.append(await asyncio.to_thread(_edit_by_hand, plain, where, number))
    row = Row.of("edit", "read, patch and write 9 KB", ours, theirs)
    report(
        "ssh_far_edit",
        [row],
        trips=trips(row, rtt),
        time=goal(row.hermes.median <= 2.2 * rtt, "median at most 1.1 round trips each for read and write"),
    )


def _patched(text: bytes, number: int) -> bytes:
    lines = text.split(b"\n")
    lines[number] = b"changed %d" % number
    return b"\n".join(lines)


async def _edit(box: Sandbox, number: int) -> float:
    start = time.perf_counter()
    text = await box.files.read("file")
    await box.files.write("file", _patched(text, number))
    return time.perf_counter() - start


def _edit_by_hand(plain: Callable[[str], list[str]], where: str, number: int) -> float:
    start = time.perf_counter()
    read = subprocess.run(plain(f"cat {where}"), stdout=subprocess.PIPE, check=True)
    subprocess.run(plain(f"cat >{where}"), input=_patched(read.stdout, number), check=True)
    return time.perf_counter() - start


class SetUp(NamedTuple):
    """Seconds of each start, attaching, end, and bare ``ssh host true``, in turns."""

    cold: list[float]
    attach: list[float]
    destroy: list[float]
    bare: list[float]

    def more(self, which: str) -> float:
        """How much longer than a bare ssh something takes."""
        return float(statistics.median(getattr(self, which)) - statistics.median(self.bare))


async def _set_up(*hosts: Host) -> list[SetUp]:
    """Measure hosts in turns, so that what else the machine does counts for all of them."""
    taken = [SetUp([], [], [], []) for _ in hosts]
    async with contextlib.AsyncExitStack() as stack:
        for host in hosts:
            lasting = await host.sandbox(name=f"bench-{host.alias}").open()
            stack.push_async_callback(lasting.destroy)
        for _ in range(FRESH_AGAIN):
            for host, one in zip(hosts, taken, strict=True):
                await _one_round(host, one)
    return taken


async def _one_round(host: Host, taken: SetUp) -> None:
    start = time.perf_counter()
    box = await host.sandbox().open()
    await box.run("true")
    taken.cold.append(time.perf_counter() - start)
    start = time.perf_counter()
    await box.destroy()
    taken.destroy.append(time.perf_counter() - start)
    start = time.perf_counter()
    async with host.sandbox(name=f"bench-{host.alias}") as again:
        await again.run("true")
        taken.attach.append(time.perf_counter() - start)
    taken.bare.append(await asyncio.to_thread(_bare, host))


async def test_set_up_far_away() -> None:
    """From nothing to the first result, and attaching to what runs, in turns with `ssh host true`.

    What it takes without the way is measured over loopback; the rest is round trips.
    """
    host = far()
    rtt = await asyncio.to_thread(round_trip, host)
    here, there = await _set_up(near(), host)
    rows = []
    for where, taken in (("near", here), ("far", there)):
        rows += [
            Row.of(f"{where}_cold", f"{where}: start", taken.cold, taken.bare),
            Row.of(f"{where}_attach", f"{where}: attach", taken.attach, taken.bare),
            Row.of(f"{where}_destroy", f"{where}: destroy", taken.destroy),
        ]
    cold, attach = ((there.more(which) - here.more(which)) / rtt for which in ("cold", "attach"))
    report(
        "ssh_far_start",
        rows,
        round_trip=f"{rtt * 1000:.1f} ms",
        more_than_ssh=f"cold {cold:+.1f} round trips, attach {attach:+.1f}",
        whole=f"cold {trips(rows[3], rtt)}; attach {trips(rows[4], rtt)}",
        cold_goal=goal(cold <= 2, "cold at most 2 round trips more than ssh host true"),
        attach_goal=goal(attach <= 2, "attach at most 2 round trips more than ssh host true"),
    )


def _bare(host: Host) -> float:
    start = time.perf_counter()
    subprocess.run(host.argv("true"), stdin=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start
