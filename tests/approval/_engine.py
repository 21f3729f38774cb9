"""An engine for a developer's machine, and short ways to ask it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hermes.approval import Decision, Request
from hermes.approval.engine import Engine, SessionState

HERE = Path(__file__).parent
HOME = "/home/dev"
CWD = "/home/dev/project"
ENGINE = Engine()


def request(text: str, **options: Any) -> Request:
    """Return a request to run a command in the project of a developer."""
    given = {"kind": "run", "cwd": CWD, "home": HOME, "workspace": CWD, "backend": "ssh", **options}
    return Request(text=text, **given)


def judge(
    text: str, *, engine: Engine = ENGINE, state: SessionState | None = None, **options: Any
) -> Decision:
    """Return the decision on a command."""
    return engine.judge(request(text, **options), state)


def rules(text: str, *, engine: Engine = ENGINE, **options: Any) -> set[str]:
    """Return the rules that a command meets."""
    return {finding.rule for finding in engine.explain(request(text, **options))}


def session(*texts: str, engine: Engine = ENGINE) -> Decision:
    """Judge commands of one session, one after the other; return the last decision."""
    state: SessionState | None = None
    decision = Decision(action="ask")
    for text in texts:
        given = request(text) if state is None else request(text, cwd=None)
        decision = engine.judge(given, state)
        state = decision.after
    return decision


def programs(text: str) -> list[tuple[str, ...]]:
    """Return what a command would run."""
    return [program.argv for program in judge(text).programs]


def lines(name: str) -> Iterator[dict[str, Any]]:
    """Return the entries of a file of labelled commands."""
    for line in (HERE / name).read_text("utf-8").splitlines():
        yield json.loads(line)
