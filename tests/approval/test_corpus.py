"""How many commands of the labelled files are decided as they should be. Nothing is run."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.approval import Decision

from ._engine import CWD, judge, lines

FILES = ("corpus.jsonl", "variants.jsonl", "daily.jsonl", "blind.jsonl", "fresh.jsonl", "sixth.jsonl")


def decided(row: dict[str, Any]) -> Decision:
    """Return what is decided on an entry: the worst of its session, where commands stand before it."""
    texts = [*row.get("before", ()), row["command"]]
    given = [judge(texts[0], cwd=row.get("cwd", CWD))]
    for text in texts[1:]:
        given.append(judge(text, cwd=None, state=given[-1].after))
    return max(given, key=lambda one: ("allow", "ask", "block").index(one.action))


def wrong(file: str, label: str, *good: str) -> tuple[list[str], int]:
    """Return the commands of a label that are not answered so, and how many there are."""
    rows = [row for row in lines(file) if row["label"] == label]
    found = [row["command"] for row in rows if decided(row).action not in good]
    return found, len(rows)


@pytest.mark.parametrize("file", FILES)
def test_what_is_dangerous_is_asked(file: str) -> None:
    missed, count = wrong(file, "dangerous", "ask", "block")
    assert count > (400 if file == "blind.jsonl" else 500)
    assert len(missed) <= 0.002 * count, missed


@pytest.mark.parametrize("file", FILES)
def test_what_must_never_run_is_blocked(file: str) -> None:
    missed, count = wrong(file, "hardline", "block")
    assert count > 30
    assert not missed


@pytest.mark.parametrize("file", FILES)
def test_what_is_harmless_is_not_asked(file: str) -> None:
    asked, count = wrong(file, "benign", "allow")
    assert count > (500 if file in FILES[2:] else 900)
    assert len(asked) <= 0.003 * count, asked


@pytest.mark.parametrize("file", FILES)
def test_what_is_harmless_or_a_matter_of_taste_is_not_blocked(file: str) -> None:
    for label in ("benign", "ask-ok"):
        blocked, count = wrong(file, label, "allow", "ask")
        assert count > (200 if file == "corpus.jsonl" else 2)
        assert not blocked


def test_the_worst_is_blocked_however_it_is_put() -> None:
    """Lines that destroy a system or stop it, most of them in disguise, and lines that look like them."""
    for label, good, least in (
        ("hardline", ("block",), 170),
        ("dangerous", ("ask", "block"), 100),
        ("benign", ("allow",), 70),
    ):
        found, count = wrong("worst.jsonl", label, *good)
        assert count > least
        assert not found


@pytest.mark.parametrize("file", FILES)
def test_no_command_makes_the_judge_fail(file: str) -> None:
    assert not [row["command"] for row in lines(file) if decided(row).rule == "judge-failed"]
