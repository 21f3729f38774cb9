"""Feeds invented text to the judge, with atheris, which is no requirement of this project:

    python -m pip install atheris msgspec
    PYTHONPATH=src:tests python tests/approval/fuzz.py [-max_total_time=300] [folder of inputs]

The labelled commands are what it begins with. Each text has to be answered: with one of the three decisions,
never because the judge failed, within 100 ms of processor time however long it is up to 100 KB.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import atheris  # type: ignore[import-untyped]

with atheris.instrument_imports(include=["hermes.approval"]):
    from hermes.approval import Request
    from hermes.approval.engine import Engine, SessionState

HERE = Path(__file__).parent
CWD = "/home/dev/project"
LIMIT = 0.1
# Looking at which branches are taken makes the judge slower by this much, about.
SLOWER = 4
# Separates the commands of one session.
NEXT = "\n#next\n"
ENGINE = Engine()


def seconds(text: str, state: SessionState | None) -> tuple[float, SessionState | None]:
    request = Request(kind="run", text=text, cwd=CWD, home="/home/dev", workspace=CWD, backend="ssh")
    begun = time.thread_time()
    decision = ENGINE.judge(request, state)
    spent = time.thread_time() - begun
    if decision.action not in ("allow", "ask", "block"):
        raise AssertionError(f"no decision: {decision}")
    if decision.rule == "judge-failed":
        raise AssertionError(f"the judge failed: {decision.reason}")
    return spent, decision.after


def one(data: bytes) -> None:
    state: SessionState | None = None
    for text in data.decode("utf-8", "replace").split(NEXT)[:3]:
        spent, after = seconds(text, state)
        for _ in range(
            3
        ):  # what was collected meanwhile, and what is read for the first time, is no fault of the text
            if spent > LIMIT * SLOWER:
                ENGINE._lately.clear()
                spent = min(spent, seconds(text, state)[0])
        if spent > LIMIT * SLOWER:
            raise AssertionError(f"{spent:.2f} s for {len(text)} characters")
        state = after


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("corpus.jsonl", "variants.jsonl", "daily.jsonl"):
            for number, line in enumerate((HERE / name).read_text("utf-8").splitlines()):
                text = json.loads(line)["command"]
                Path(folder, f"{name}-{number}").write_bytes(text.encode("utf-8", "replace"))
        atheris.Setup([*sys.argv, folder], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
