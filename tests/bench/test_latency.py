"""What one command costs in an open session."""

from __future__ import annotations

import pytest

from bench._report import goal, report
from hermes import Sandbox
from hermes.bench import Row, plain_way, time_pairs

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


@pytest.mark.parametrize("command", ["true", "/bin/true"])
async def test_a_command_in_a_local_session(command: str) -> None:
    async with Sandbox("local") as box:
        plain = plain_way(box._place)
        assert plain is not None
        ours, theirs = await time_pairs(box, command, plain, 500)
    assert len(ours) == len(theirs) == 500
    row = Row.of(command, command, ours, theirs)
    facts = {}
    if command == "true":
        assert row.ratio is not None
        facts = {
            "time": goal(row.hermes.median <= 0.0005, "median at most 0.5 ms"),
            "against_plain": goal(row.ratio <= 0.5, "at most half of subprocess.run"),
        }
    report(f"latency_{command.strip('/').replace('/', '_')}", [row], **facts)


async def test_true_in_a_row() -> None:
    """Without anything between the commands, the caches of hermes and of the shell stay warm."""
    ours: list[float] = []
    theirs: list[float] = []
    async with Sandbox("local") as box:
        plain = plain_way(box._place)
        assert plain is not None
        for _ in range(20):
            ours += (await time_pairs(box, "true", None, 25))[0]
            theirs += (await time_pairs(box, "true", plain, 25))[1]
    report("latency_in_a_row", [Row.of("true_in_a_row", "true, 25 in a row", ours, theirs)])
