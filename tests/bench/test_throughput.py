"""100 MB of output: how fast, how complete, in how much memory."""

from __future__ import annotations

import pytest

from bench._report import goal, report
from hermes.bench._run import OUTPUT, _long_output, plain_way
from hermes.sandbox import Sandbox

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


async def test_a_long_output() -> None:
    async with Sandbox("local") as box:
        plain = plain_way(box._place)
    rows = {row.key: row for row in _long_output("local", {}, plain, runs=5)}
    output, memory = rows["output"], rows["host_memory"]
    report(
        "throughput",
        list(rows.values()),
        rate=goal(rows["rate"].hermes.median >= 300e6, "at least 300 MB/s"),
        memory=goal(memory.hermes.max <= 64e6, "at most 64 MB extra in the host process"),
    )
    assert output.facts["complete"]
    assert output.facts["bytes_kept"] == OUTPUT
    assert memory.hermes.max <= 64e6
