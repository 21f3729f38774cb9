"""How long it takes until hermes does something, and that it loads nothing that this does not need."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench._report import goal, report
from hermes import Sandbox
from hermes.bench import Row
from hermes.config._load import ENVIRONMENT
from hermes.state import Store

pytestmark = [pytest.mark.bench, pytest.mark.timeout(120)]

# Each costs milliseconds, or drags in much that does.
NOT_FOR_EXEC = frozenset({
    "anyio", "click", "email", "hermes.bench", "hermes.files", "hermes.forward", "hermes.job",
    "hermes.pty", "hermes.sync", "hermes.testing", "http", "importlib.metadata", "markdown_it",
    "multiprocessing", "prompt_toolkit", "pydantic", "pygments", "pytest", "rich", "ruamel", "typer",
    "unittest", "xml", "yaml", "zipfile",
})  # fmt: skip


def imported(argv: list[str], cwd: Path) -> dict[str, int]:
    """Run python with the arguments; return every module that it imported, with its cumulative µs."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *argv], cwd=cwd, capture_output=True, text=True, check=True
    )
    lines = re.findall(r"^import time:\s+\d+ \|\s+(\d+) \|\s+(\S+)$", done.stderr, re.M)
    return {name: int(took) for took, name in lines}


def test_import(tmp_path: Path) -> None:
    code = "from time import perf_counter as now; t = now(); import hermes; print(now() - t)"
    took, bare, cumulative = [], [], []
    for _ in range(15):
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True)
        took.append(float(done.stdout))
        empty = code.replace("import hermes", "import json")
        bare.append(
            float(subprocess.run([sys.executable, "-c", empty], capture_output=True, check=True).stdout)
        )
        cumulative.append(imported(["-c", "import hermes"], tmp_path)["hermes"] / 1e6)
    rows = [
        Row.of("import", "import hermes, plain json", took, bare),
        Row.of("importtime", "the same by -X importtime", cumulative),
    ]
    report("import", rows, time=goal(min(took) <= 0.1, "import hermes in at most 100 ms, best of 15"))


@pytest.fixture
async def workplace(tmp_path: Path) -> AsyncIterator[Path]:
    """A directory whose sandbox of `hermes exec` is gone afterwards."""
    yield tmp_path
    for record in await asyncio.to_thread(Store().all):
        box = Sandbox(record.backend, name=record.name)
        await box.open(create=False)
        await box.destroy()


QUICK = (
    (["--version"], 0.09, 40),
    (["--help"], 0.15, 40),
    (["config", "get", "sandbox"], 0.15, 40),
    (["doctor"], 1.5, 7),
)


def test_commands_that_only_say_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    hermes = str(Path(sys.executable).with_name("hermes"))
    for args, most, runs in QUICK:
        took: list[float] = []
        bare: list[float] = []
        for _ in range(runs):
            for argv, times in (([hermes, *args], took), ([sys.executable, "-c", "pass"], bare)):
                start = time.perf_counter()
                subprocess.run(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, check=True)
                times.append(time.perf_counter() - start)
        label = f"hermes {' '.join(args)}"
        row = Row.of("quick", f"{label}; python -c pass", took, bare)
        met = goal(row.hermes.median <= most, f"{label} in at most {most * 1000:g} ms, median of {runs}")
        report(f"quick-{'-'.join(args).strip('-').replace(' ', '-')}", [row], time=met)


EXEC = ["exec", "--sandbox", "local", "true"]


async def test_exec_end_to_end(workplace: Path) -> None:
    hermes = [str(Path(sys.executable).with_name("hermes")), *EXEC]
    python = [sys.executable, "-c", "pass"]

    def once(argv: list[str]) -> float:
        start = time.perf_counter()
        done = subprocess.run(argv, cwd=workplace, capture_output=True)
        took = time.perf_counter() - start
        assert done.returncode == 0, done.stderr
        return took

    def all_of_them() -> tuple[float, list[float], list[float], list[float]]:
        first = once(hermes)
        warm, bare, plain = [], [], []
        for _ in range(20):
            warm.append(once(hermes))
            bare.append(once(python))
            plain.append(once(["bash", "-c", "true"]))
        return first, warm, bare, plain

    first, warm, bare, plain = await asyncio.to_thread(all_of_them)
    rows = [
        Row.of("exec", "hermes exec true, warm", warm, plain),
        Row.of("exec_against_python", "the same, plain python", warm, bare),
        Row.of("exec_cold", "hermes exec true, first", [first]),
    ]
    report("exec", rows, time=goal(rows[0].hermes.median <= 0.25, "median at most 250 ms"))


async def test_exec_loads_nothing_heavy(workplace: Path) -> None:
    await asyncio.to_thread(imported, ["-m", "hermes", *EXEC], workplace)  # the first run makes the sandbox
    modules = await asyncio.to_thread(imported, ["-m", "hermes", *EXEC], workplace)
    slowest = sorted(modules.items(), key=lambda item: -item[1])[:12]
    report(
        "exec_imports",
        [],
        modules=len(modules),
        slowest=", ".join(f"{name} {took / 1000:.1f} ms" for name, took in slowest),
    )
    found = {name for name in modules if name in NOT_FOR_EXEC or name.split(".")[0] in NOT_FOR_EXEC}
    assert not found
