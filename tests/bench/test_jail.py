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

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

RUNS = 20
COMMANDS = 1000
ROOT = os.geteuid() == 0
CHECKOUT = Path(__file__).resolve().parents[2]
PLACES: dict[str, dict[str, Any]] = {"local": {}, "jail": {"network": "off"}, "jail_on": {}}


def place(label: str) -> Sandbox:
    return Sandbox(label.partition("_")[0], approval="off", **PLACES[label])


def named(name: str) -> str:
    """Tell what was measured as root, who has more to hide, from what an ordinary user has."""
    return f"{name}_root" if ROOT else f"{name}_user"


async def started(label: str) -> tuple[float, float]:
    """Return what opening took, and the first command after it."""
    begun = time.perf_counter()
    async with place(label) as box:
        opened = time.perf_counter()
        await box.run("true")
        return opened - begun, time.perf_counter() - opened


async def test_its_start() -> None:
    """In turns, so that all of them meet the same machine."""
    opening: dict[str, list[float]] = {label: [] for label in PLACES}
    first: dict[str, list[float]] = {label: [] for label in PLACES}
    for label in PLACES:
        await started(label)  # what is loaded once
    for _ in range(RUNS):
        for label in PLACES:
            one, two = await started(label)
            opening[label].append(one)
            first[label].append(one + two)
    rows = [
        Row.of("jail_open", "open, no network; local", opening["jail"], opening["local"]),
        Row.of("jail_first", "first command; local", first["jail"], first["local"]),
        Row.of("jail_first_network", "first, with network; local", first["jail_on"], first["local"]),
    ]
    off, on = ((row.hermes.median - row.plain.median) * 1000 for row in rows[1:] if row.plain is not None)
    report(
        named("jail_start"),
        rows,
        start=goal(off <= 30, f"{off:.0f} ms over local, medians of {RUNS}, at most 30"),
        with_network=goal(on <= 30, f"{on:.0f} ms over local, at most 30"),
        least=f"{(min(first['jail']) - min(first['local'])) * 1000:.0f} ms over local at the least of each, "
        f"with network {(min(first['jail_on']) - min(first['local'])) * 1000:.0f} ms",
    )


async def test_a_sessions_command() -> None:
    """One here, one there."""
    took: dict[str, list[float]] = {"local": [], "jail": []}
    async with place("local") as local, place("jail") as jail:
        boxes = {"local": local, "jail": jail}
        for box in boxes.values():
            await box.run("true")
        for n in range(COMMANDS):
            for label in sorted(boxes, reverse=bool(n % 2)):
                begun = time.perf_counter()
                await boxes[label].run("true")
                took[label].append(time.perf_counter() - begun)
    row = Row.of("jail_command", "a session's command; local", took["jail"], took["local"])
    assert row.ratio is not None and row.plain is not None
    more = (row.hermes.median - row.plain.median) * 1e6
    report(
        named("jail_command"),
        [row],
        command=goal(
            row.ratio <= 1.2, f"{row.ratio:.2f} times that on local, {more:+.0f} us, medians; at most 1.2"
        ),
    )


@pytest.mark.skipif(not ROOT, reason="is that already")
async def test_as_an_ordinary_user() -> None:
    """The same of the account of the tests, whose jails are made with fewer rights and have less to hide."""
    words = [".venv/bin/python", "-m", "pytest", "-m", "bench", "-p", "no:xdist", "-s", "-q"]
    done = await asyncio.to_thread(
        subprocess.run,
        ["scripts/as-user", *words, "-k", "its_start or sessions_command", "tests/bench/test_jail.py"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout.partition("\njail start")
    print("".join(shown[1:]).partition("\n====")[0])


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
    report(named("jail_exec"), rows)
