"""What a jail costs over plain local: its start, a command of its session, and a whole ``hermes exec``."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bench._report import goal, report
from hermes import Sandbox
from hermes.bench import Row
from hermes.state import Store

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

RUNS = 20
PLACES: dict[str, dict[str, Any]] = {"local": {}, "jail": {"network": "off"}, "jail_on": {}}


async def started(label: str) -> tuple[float, float, list[float]]:
    """Return what opening took, the first command after it, and each of some more."""
    begun = time.perf_counter()
    async with Sandbox(label.partition("_")[0], approval="off", **PLACES[label]) as box:
        opened = time.perf_counter()
        await box.run("true")
        ran = time.perf_counter()
        more = []
        for _ in range(50):
            before = time.perf_counter()
            await box.run("true")
            more.append(time.perf_counter() - before)
        return opened - begun, ran - opened, more


async def test_its_start_and_its_commands() -> None:
    """In turns, so that all of them meet the same machine."""
    opening: dict[str, list[float]] = {label: [] for label in PLACES}
    first: dict[str, list[float]] = {label: [] for label in PLACES}
    more: dict[str, list[float]] = {label: [] for label in PLACES}
    for label in PLACES:
        await started(label)  # what is loaded once
    for _ in range(RUNS):
        for label in PLACES:
            one, two, rest = await started(label)
            opening[label].append(one)
            first[label].append(one + two)
            more[label] += rest
    rows = [
        Row.of("jail_open", "open, no network; local", opening["jail"], opening["local"]),
        Row.of("jail_first", "the same and one command", first["jail"], first["local"]),
        Row.of("jail_open_network", "open, with network; local", opening["jail_on"], opening["local"]),
        Row.of("jail_command", "a session's command; local", more["jail"], more["local"]),
    ]
    over = {row.key: row.hermes.median - row.plain.median for row in rows if row.plain is not None}
    ratio = rows[3].ratio
    assert ratio is not None
    report(
        "jail",
        rows,
        start=goal(over["jail_first"] <= 0.03, "start at most 30 ms over local, medians of 20"),
        least=f"{(min(first['jail']) - min(first['local'])) * 1000:.0f} ms over local at the least of each",
        command=goal(ratio <= 1.2, "a session's command at most 1.2 times that on local"),
    )


async def test_exec(tmp_path: Path) -> None:
    """A process each, in a jail that is there; and one that has to be made."""
    hermes = str(Path(sys.executable).with_name("hermes"))

    def once(*words: str) -> float:
        begun = time.perf_counter()
        done = subprocess.run(
            [hermes, "exec", "-q", *words, "true"], cwd=tmp_path, capture_output=True, env=os.environ
        )
        assert done.returncode == 0, done.stderr
        return time.perf_counter() - begun

    def all_of_them() -> tuple[dict[str, list[float]], dict[str, list[float]]]:
        warm: dict[str, list[float]] = {"local": [], "jail": []}
        fresh: dict[str, list[float]] = {"local": [], "jail": []}
        for place in warm:
            once("--sandbox", place)
        for _ in range(RUNS):
            for place in warm:
                warm[place].append(once("--sandbox", place))
                fresh[place].append(once("--sandbox", place, "--rm"))
        return warm, fresh

    warm, fresh = await asyncio.to_thread(all_of_them)
    for record in await asyncio.to_thread(Store().all):
        box = await Sandbox(record.backend, name=record.name).open(create=False)
        await box.destroy()
    rows = [
        Row.of("jail_exec", "hermes exec true; local", warm["jail"], warm["local"]),
        Row.of("jail_exec_rm", "the same with --rm; local", fresh["jail"], fresh["local"]),
    ]
    report("jail_exec", rows)
