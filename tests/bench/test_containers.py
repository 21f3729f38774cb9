"""What containers cost, against their own client programs, in one run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from _transports import known
from bench._report import goal, report
from hermes import Sandbox
from hermes.bench import Row, plain_way, time_turns
from hermes.bench._output import Request, command, measure

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

MB = 100_000_000


class Place(NamedTuple):
    """A container place and its goals: of `true` and of attaching by socket and by relay, in seconds."""

    backend: str
    options: dict[str, Any]
    plain_start: Callable[[], float]
    true_goal: float


def _docker_start() -> float:
    name = f"plain-{uuid.uuid4().hex[:8]}"
    start = time.perf_counter()
    subprocess.run(
        ["docker", "run", "-d", "--name", name, "hermes-test:bookworm", "sleep", "100"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(["docker", "exec", name, "true"], check=True)
    took = time.perf_counter() - start
    subprocess.run(["docker", "rm", "-f", name], check=True, stdout=subprocess.DEVNULL)
    return took


def _apptainer_start() -> float:
    name, image = f"plain-{uuid.uuid4().hex[:8]}", os.environ["PARTS_SIF"]
    start = time.perf_counter()
    begin = ["apptainer", "-s", "instance", "start", "--containall", "--no-home", "--writable-tmpfs"]
    subprocess.run([*begin, image, name], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["apptainer", "-s", "exec", "--pwd", "/", f"instance://{name}", "true"], check=True)
    took = time.perf_counter() - start
    subprocess.run(["apptainer", "-s", "instance", "stop", name], check=True, stdout=subprocess.DEVNULL)
    return took


@pytest.fixture(params=["docker", "singularity"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "docker":
        return Place("docker", {"image": "hermes-test:bookworm"}, _docker_start, 0.001)
    return Place("singularity", {"image": os.environ.get("PARTS_SIF", "")}, _apptainer_start, 0.0008)


async def test_true_in_a_session(place: Place) -> None:
    async with Sandbox(place.backend, approval="off", **place.options) as box:
        assert box.describe()["channel"] == "direct"
        plain = plain_way(box._place)
        assert plain is not None
        ours, theirs = await time_turns(box, "true", plain, 200, block=25)
    row = Row.of("true", "true", ours, theirs)
    text = f"median at most {place.true_goal * 1000:g} ms"
    report(f"{place.backend}_true", [row], time=goal(row.hermes.median <= place.true_goal, text))


async def test_cold_start(place: Place) -> None:
    """From nothing to the first result, in turns with the client program's own start and first command."""
    ours, theirs = [], []
    for _ in range(7):
        start = time.perf_counter()
        async with Sandbox(place.backend, approval="off", **place.options) as box:
            assert (await box.run("true")).exit_code == 0
            ours.append(time.perf_counter() - start)
        theirs.append(await asyncio.to_thread(place.plain_start))
    row = Row.of("cold", "cold start to first result", ours, theirs)
    assert row.ratio is not None
    report(
        f"{place.backend}_cold",
        [row],
        ratio=goal(row.ratio <= 1.25, "at most 1.25 of start and exec by hand"),
    )


@pytest.mark.parametrize("relay", [False, True], ids=["socket", "relay"])
async def test_attach(place: Place, relay: bool) -> None:
    """To a container that runs, with its first command, the client's imports done."""
    backend = f"{place.backend}-relay" if relay else place.backend
    name = f"bench-{uuid.uuid4().hex[:8]}"
    ours = []
    with known():
        first = await Sandbox(backend, name=name, approval="off", **place.options).open()
        try:
            await first.run("true")
            for _ in range(15):
                start = time.perf_counter()
                async with Sandbox(backend, name=name, approval="off", **place.options) as box:
                    await box.run("true")
                    ours.append(time.perf_counter() - start)
        finally:
            await first.destroy()
    row = Row.of("attach", f"attach by {'relay' if relay else 'socket'}", ours)
    limit = 0.25 if relay else 0.06
    time_goal = goal(row.hermes.median <= limit, f"median at most {limit * 1000:g} ms")
    report(f"{backend}_attach", [row], time=time_goal)


async def test_output(place: Place) -> None:
    rows = []
    request = Request(size=MB, backend=place.backend, options={"approval": "off", **place.options})
    outcomes = [await asyncio.to_thread(measure, request) for _ in range(3)]
    async with Sandbox(place.backend, approval="off", **place.options) as box:
        plain = plain_way(box._place)
        assert plain is not None
        argv = plain(command(MB))
        by_hand = [await asyncio.to_thread(measure, Request(size=MB, argv=argv)) for _ in range(3)]
    assert all(one.complete for one in outcomes)
    ours, theirs = [one.seconds for one in outcomes], [one.seconds for one in by_hand]
    rows.append(Row.of("output", "100 MB of output", ours, theirs))
    extra = [float(one.host_extra) for one in outcomes]
    rows.append(
        Row.of("memory", "extra memory, host", extra, [float(o.host_extra) for o in by_hand], unit="B")
    )
    report(f"{place.backend}_output", rows, time=goal(min(ours) <= 2.0, "in at most 2 s"))
