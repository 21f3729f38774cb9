"""How many commands of the labelled files are decided as they should be. Nothing is run."""

from __future__ import annotations

import pytest

from ._engine import CWD, judge, lines

FILES = ("corpus.jsonl", "variants.jsonl")


def wrong(file: str, label: str, *good: str) -> tuple[list[str], int]:
    """Return the commands of a label that are not answered so, and how many there are."""
    rows = [row for row in lines(file) if row["label"] == label]
    return [
        row["command"] for row in rows if judge(row["command"], cwd=row.get("cwd", CWD)).action not in good
    ], len(rows)


@pytest.mark.parametrize("file", FILES)
def test_what_is_dangerous_is_asked(file: str) -> None:
    missed, count = wrong(file, "dangerous", "ask", "block")
    assert count > 500
    assert len(missed) <= 0.002 * count, missed


@pytest.mark.parametrize("file", FILES)
def test_what_must_never_run_is_blocked(file: str) -> None:
    missed, count = wrong(file, "hardline", "block")
    assert count > 30
    assert not missed


@pytest.mark.parametrize("file", FILES)
def test_what_is_harmless_is_not_asked(file: str) -> None:
    asked, count = wrong(file, "benign", "allow")
    assert count > 900
    assert len(asked) <= 0.003 * count, asked


def test_what_is_harmless_or_a_matter_of_taste_is_not_blocked() -> None:
    for label in ("benign", "ask-ok"):
        blocked, count = wrong("corpus.jsonl", label, "allow", "ask")
        assert count > 200
        assert not blocked


@pytest.mark.parametrize("file", FILES)
def test_no_command_makes_the_judge_fail(file: str) -> None:
    assert not [row["command"] for row in lines(file) if judge(row["command"]).rule == "judge-failed"]
