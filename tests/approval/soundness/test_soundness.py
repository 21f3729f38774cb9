"""What really runs was foreseen: invented lines run in a container, with a marker for what is dangerous.

``HERMES_SOUNDNESS`` is how many lines; the whole measurement is 10,000.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from _containers import IMAGES

from .._engine import judge
from ._generate import MARKER, generate

COUNT = int(os.environ.get("HERMES_SOUNDNESS", "600"))
DRIVE = Path(__file__).with_name("_drive.py").read_text("utf-8")


def started(lines: list[str]) -> list[bool]:
    """Run lines in a container without a network; return for each whether the marker was started."""
    done = subprocess.run(
        [
            "docker",
            "run",
            "--rm",
            "--interactive",
            "--network",
            "none",
            IMAGES["docker"],
            "python3",
            "-c",
            DRIVE,
        ],
        input=json.dumps([MARKER, lines]),
        capture_output=True,
        text=True,
        check=True,
        timeout=50 + COUNT,
    )
    return [bool(one) for one in json.loads(done.stdout)]


def foreseen(line: str) -> bool:
    """Say whether the judge asks about a line, or knows that it runs the marker."""
    decision = judge(line)
    names = {program.argv[0].rpartition("/")[2] for program in decision.programs}
    return decision.action != "allow" or not names.isdisjoint((MARKER, "lnk", "cpy"))


@pytest.mark.slow
@pytest.mark.docker_engine
@pytest.mark.timeout(60 + COUNT)
def test_what_runs_was_foreseen() -> None:
    lines = [line for line, _ in generate(COUNT, seed=1)]
    ran = started(lines)
    assert sum(ran) > 0.9 * COUNT
    assert not [line for line, did in zip(lines, ran, strict=True) if did and not foreseen(line)]


def test_harmless_lines_of_the_same_shape_are_not_asked() -> None:
    asked = [twin for _, twin in generate(1000, seed=2) if judge(twin).action != "allow"]
    assert len(asked) <= 50, asked
