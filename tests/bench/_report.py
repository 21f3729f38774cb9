"""What a measurement leaves: a table on the terminal (`pytest -m bench -s`) and JSON in .cache/bench."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hermes.bench import Row, machine, render_rows

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".cache" / "bench"


def report(name: str, rows: Sequence[Row], **facts: object) -> None:
    """Print the rows and facts, and keep them. Nothing here fails: a timing is reported, not judged."""
    where = machine()
    print(f"\n{name.replace('_', ' ')}  (load average {where.load[0]:.2f}, {where.cores} cores)")
    if rows:
        print(render_rows(rows))
    for key, value in facts.items():
        print(f"{key.replace('_', ' ')}: {value}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = {
        "taken": round(time.time(), 3),
        "machine": msgspec.to_builtins(where),
        "rows": msgspec.to_builtins(list(rows)),
        "facts": facts,
    }
    (FOLDER / f"{name}.json").write_text(json.dumps(kept, indent=1, default=str) + "\n", "utf-8")


def goal(held: bool, text: str) -> str:
    """Say whether a goal was met, as a fact of a report."""
    return f"{text}: {'met' if held else 'NOT met in this run'}"
