"""Old recordings are removed: by age, and the oldest where there are too many bytes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import hermes
from cli._tool import Cli
from hermes.config import Log
from hermes.log._prune import prune, prune_if_due
from log._recorded import folder

DAY = 86400.0


@pytest.fixture
def log(hermes_home: Path) -> Path:
    """A log with five sessions of 1000 bytes, 0 to 4 days old; the oldest has a terminal too."""
    hermes_home.mkdir(mode=0o700)
    where = folder(hermes_home)
    where.mkdir(mode=0o700)
    for days in range(5):
        made(where / f"2026010{5 - days}-120000-0000000{days}.jsonl", days, 1000)
    made(where / "20260101-120000-00000004.3.cast", 4, 500)
    (where / "notes.txt").write_text("mine")
    return where


def made(path: Path, days: float, size: int) -> None:
    path.write_bytes(b"x" * size)
    when = time.time() - days * DAY - 60
    os.utime(path, (when, when))


def left(log: Path) -> list[str]:
    return sorted(path.name[16:] for path in log.iterdir() if path.suffix in (".jsonl", ".cast"))


def test_by_age_with_all_files_of_a_session(log: Path) -> None:
    found = prune(log, Log(keep=2.5 * DAY, max_size=0))
    assert [one[-1] for one in found.ids] == ["4", "3"] and found.bytes == 2500
    assert left(log) == ["00000000.jsonl", "00000001.jsonl", "00000002.jsonl"]
    assert (log / "notes.txt").exists()


def test_by_size_the_oldest_first(log: Path) -> None:
    prune(log, Log(keep=0, max_size=2500))
    assert left(log) == ["00000000.jsonl", "00000001.jsonl"]


def test_one_that_is_written_to_is_not_removed_for_its_size(log: Path) -> None:
    prune(log, Log(keep=0, max_size=1))
    assert left(log) == ["00000000.jsonl"]  # a minute old


def test_no_limit(log: Path) -> None:
    assert prune(log, Log(keep=0, max_size=0)).ids == []


def test_once_in_a_while_by_itself(log: Path) -> None:
    settings = Log(keep=2.5 * DAY, max_size=0)
    prune_if_due(log, settings)
    assert len(left(log)) == 3
    made(log / "20250101-120000-0000000f.jsonl", 9, 10)
    prune_if_due(log, settings)
    assert len(left(log)) == 4  # that was a moment ago
    os.utime(log / ".pruned", (0, 0))
    prune_if_due(log, settings)
    assert len(left(log)) == 3


async def test_with_a_command(log: Path, tmp_path: Path) -> None:
    made(log / "20200101-120000-0000000f.jsonl", 40, 10)
    async with hermes.Sandbox("local", workspace=str(tmp_path)) as box:
        await box.run("true")
    assert "0000000f.jsonl" not in left(log) and len(left(log)) == 7


def test_by_hand(cli: Cli, log: Path) -> None:
    assert cli.out("log", "prune", "--keep", "60h", "--dry-run") == "2 sessions would be removed, 2.4 KiB.\n"
    assert len(left(log)) == 6
    assert cli.json("log", "prune", "--keep", "3d", "--json") == {
        "sessions": ["20260102-120000-00000003", "20260101-120000-00000004"][::-1],
        "bytes": 2500,
        "removed": True,
    }
    assert cli.out("log", "prune") == "0 sessions removed, 0 B.\n"
    assert cli.out("log", "prune", "--all") == "3 sessions removed, 2.9 KiB.\n"
    assert left(log) == []
    assert cli("log", "prune", "--all", "--keep", "1d").returncode == 125
