"""What the loop of `hermes` adds to a command. Measures and reports; nothing fails on a timing."""

from __future__ import annotations

import asyncio
import statistics
import time
from itertools import pairwise
from pathlib import Path

import pytest

import hermes
from bench._report import goal, report
from chat._loop import turn
from chat._server import Say, Script, Server, call

pytestmark = pytest.mark.bench

STEPS = 40


async def test_what_a_tool_call_costs(hermes_home: Path, tmp_path: Path) -> None:
    """Each answer has one call, so that each costs a request too, to a server in a thread beside us."""
    marks: list[float] = []
    with Server().running() as server:
        async with hermes.Sandbox("local", workspace=str(tmp_path), approval="ask") as box:

            def script() -> Script:
                for _ in range(STEPS):
                    marks.append(time.perf_counter())
                    yield call("terminal", command="true")
                marks.append(time.perf_counter())
                yield Say("done")

            def at_once() -> Script:
                yield Say("", [("terminal", {"command": "true"})] * STEPS)
                yield Say("done")

            plain = []
            for _ in range(STEPS):
                begun = time.perf_counter()
                await box.run("true", merge_stderr=True, max_output=30_000)
                plain.append(time.perf_counter() - begun)
            server.play(at_once)
            await turn(box, server, max_steps=STEPS + 2)  # warm, and measured below
            server.play(script)
            await turn(box, server, max_steps=STEPS + 2)
            server.play(at_once)
            view = await turn(box, server, max_steps=STEPS + 2)
            assert len(view.outcomes) == STEPS
            inside = view.times
    steps = [after - before for before, after in pairwise(marks)]
    assert len(steps) == STEPS
    base = statistics.median(plain)
    calls = [after - before for before, after in pairwise(inside)]
    added_call = (statistics.median(calls) - base) * 1000
    added_step = (statistics.median(steps) - base) * 1000
    await asyncio.to_thread(
        report,
        "chat",
        [],
        box_run_ms=round(base * 1000, 2),
        the_loop_adds_to_a_call_ms=round(added_call, 2),
        with_a_request_of_its_own_ms=round(added_step, 2),
        goal=goal(added_call <= 15, "15 ms at the most, beside what the provider's library takes"),
    )
