"""How long a decision takes. Measures and reports; nothing fails on a timing."""

from __future__ import annotations

import gc
import statistics
import time

import pytest

from approval._engine import ENGINE, judge, lines
from approval.test_bounds import LONG
from hermes.approval.engine import Engine

pytestmark = pytest.mark.bench


def measured(text: str, *, fresh: bool = False) -> float:
    """Return the milliseconds of processor time that one decision takes, the best of three.

    :param fresh: with an engine that remembers no paths, as for a line that was never seen
    """
    times = []
    gc.freeze()  # what pytest holds, which a collection would go through
    for number in range(3):
        engine = Engine() if fresh else ENGINE
        if fresh:
            judge("cat x/*", engine=engine)
        begun = time.thread_time()
        judge(text, engine=engine, host=str(number))  # so that it is not remembered
        times.append(time.thread_time() - begun)
    gc.unfreeze()
    return min(times) * 1000


def test_the_corpus(capsys: pytest.CaptureFixture[str]) -> None:
    times = sorted(measured(row["command"]) for row in lines("corpus.jsonl"))
    with capsys.disabled():
        print(
            f"\napproval, {len(times)} commands: median {statistics.median(times):.3f} ms, "
            f"p99 {times[len(times) * 99 // 100]:.3f} ms, most {times[-1]:.2f} ms"
        )


def test_long_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        for name, text in LONG.items():
            print(f"\napproval, {name}, {len(text)} characters: {measured(text, fresh=True):.1f} ms", end="")
        print()
