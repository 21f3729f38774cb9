"""What the clouds cost in round trips: emulated ones, behind a line of 100 ms there and back."""

from __future__ import annotations

import asyncio
import time

import pytest

from _emulators import emulated
from bench._report import goal, report
from hermes import Sandbox
from hermes.bench import Row, time_turns

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

ONE_WAY = 0.05
TRIP = 2 * ONE_WAY


@pytest.mark.parametrize("cloud", ["modal", "daytona", "vercel"])
async def test_from_far_away(cloud: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with emulated(cloud, "--delay", str(ONE_WAY)) as running:
        running.use(monkeypatch)
        began = time.perf_counter()
        async with Sandbox(cloud, name="far", persistent=True, approval="off", workspace="private") as box:
            cold = time.perf_counter() - began
            ours, theirs = await time_turns(box, "true", None, 30, block=30)
            began = time.perf_counter()
            await asyncio.gather(*(box.exec("sleep 0.2") for _ in range(20)))
            many = time.perf_counter() - began
            await box.close()
            began = time.perf_counter()
            await box.open()
            attach = time.perf_counter() - began
            await box.suspend()
            place = box._place
            assert place is not None
            began = time.perf_counter()
            await place.resume()
            wake = time.perf_counter() - began
            await box.resume()
            await box.destroy()
    row = Row.of(cloud, "true, from 100 ms away", ours, theirs)
    report(
        f"{cloud}_far",
        [row],
        command=f"{row.hermes.median / TRIP:.2f} round trips",
        many=f"20 commands of 0.2 s at once: {many:.2f} s",
        open=f"cold {cold / TRIP:.1f} round trips, attach {attach / TRIP:.1f}",
        wake=f"{wake / TRIP:.1f} round trips, with the connection",
        time=goal(row.hermes.median <= 1.15 * TRIP, "median at most 1.15 round trips"),
        at_once=goal(many <= 0.6, "20 at once in at most 0.6 s"),
    )
