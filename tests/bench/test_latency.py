"""What one command costs in an open session."""

from __future__ import annotations

import pytest

from bench._report import goal, report
from hermes import Sandbox
from hermes.bench import Row, plain_way, time_turns

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("key", "command", "label", "block"),
    [
        ("true", "true", "true", 25),
        ("bin_true", "/bin/true", "/bin/true", 25),
        ("true_alone", "true", "true, one at a time", 1),
    ],
)
async def test_a_command_in_a_local_session(key: str, command: str, label: str, block: int) -> None:
    """In a row, as a busy agent runs them; and one at a time, each after another process, not warm."""
    async with Sandbox("local") as box:
        plain = plain_way(box._place)
        assert plain is not None
        ours, theirs = await time_turns(box, command, plain, 500, block=block)
    assert len(ours) == len(theirs) == 500
    row = Row.of(key, label, ours, theirs)
    facts = {}
    if key == "true":
        assert row.ratio is not None
        facts = {
            "time": goal(row.hermes.median <= 0.0005, "median at most 0.5 ms"),
            "against_plain": goal(row.ratio <= 0.5, "at most half of subprocess.run"),
        }
    report(f"latency_{key}", [row], **facts)
