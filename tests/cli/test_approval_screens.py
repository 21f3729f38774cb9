"""What a person is shown of a command: all that is said of it, and what it would run, at 80 columns."""

from __future__ import annotations

import io
import os
import pty
import sys

import pytest

from approval._engine import ENGINE, request
from hermes.approval import Decision, Request
from hermes.approval.grants import proposed
from hermes.cli import _prompt, _report, approvals

pytestmark = pytest.mark.blocking_ok

MANY = "".join(f"echo a{number}; " for number in range(300)) + "rm -rf build; git push --force; sudo ls"


def asked(text: str, **more: object) -> tuple[Request, Decision]:
    given = request(text, **more)
    return given, ENGINE.judge(given)


def question(text: str, **more: object) -> str:
    return "\n".join(_prompt.question(*asked(text, **more), 80))


def granted(text: str, **more: object) -> str:
    given, decision = asked(text, **more)
    return "\n".join(_prompt.described(proposed(given, decision), given, decision, 80))


def test_what_is_granted_is_shown_with_its_text_and_where_it_writes() -> None:
    seen = granted("cat > .git/hooks/pre-commit <<E\necho one\nE\n")
    assert "Allow:     cat > .git/hooks/pre-commit <<E" in seen
    assert "           echo one" in seen
    assert "MODE=1 rm -rf x" in granted("rm -rf x", env=(("MODE", "1"),))
    assert "With:      MODE=1" in question("rm -rf x", env=(("MODE", "1"),))


def test_the_part_that_is_asked_about_is_not_left_out() -> None:
    seen = question(MANY + "; echo end" * 300)
    runs = seen.partition("Runs:")[2].partition("Where:")[0]
    assert "rm -rf build" in runs and "git push --force" in runs and "sudo ls" in runs
    assert "and 598 more; explain lists them" in runs
    given, decision = asked(MANY)
    assert len(decision.programs) == 304
    whole = "\n".join(_prompt.explanation(given, decision, 80, lasting=False))
    assert all(f"echo a{number}\n" in whole for number in range(300))
    assert "   rm -rf build" in whole
    assert "^^^^" in granted(MANY + "; echo end" * 300)
    assert "echo a   (300 times)\n           rm -rf build\n" in question("echo a; " * 300 + "rm -rf build")


def test_each_reason_is_given_and_underlined() -> None:
    text = "rm -rf build; git push --force; sudo ls"
    seen = question(text)
    assert f"  {text}\n  ^^^^^^^^^^^^  ^^^^^^^^^^^^^^^^  ^^^^^^^\n" in seen
    for rule in ("recursive-delete", "git-rewrite", "root"):
        assert f"(rule {rule})" in " ".join(seen.split())
    assert "(rule deceptive-text)" in question("rm -rf 'a\u202eb'")
    many = "; ".join(f"rm -rf d{number}" for number in range(12))
    assert "and 5 more; explain lists them" in question(many).partition("Why:")[2]
    whole = "\n".join(_prompt.explanation(*asked(many), 80, lasting=False))
    assert whole.count("(rule recursive-delete)") == 12


def test_patterns_are_shown_as_they_are_run() -> None:
    seen = question("x=1; rm -rf */* 'a*b' 'c d'?; echo '*'")
    assert "rm -rf */* 'a*b' c\\ d?\n" in seen
    assert "echo '*'\n" in seen


def test_what_a_line_looks_like_is_told_from_what_it_is() -> None:
    seen = question("rm -rf 'a\x1b[2Jb'; ls")
    assert "rm -rf 'a\\x1b[2Jb'\n" in seen
    assert "rm -rf ab   (if the line were as it looks)\n" in seen
    assert "as it looks" not in question("rm -rf x; echo '\u00e9'")


def test_check_and_log_shorten_and_wrap_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given, decision = asked(MANY + "; echo end" * 300)
    assert len(approvals._said(given, decision)) > 300  # elsewhere nothing is left out
    monkeypatch.setattr(approvals, "_width", lambda: 80)
    lines = "\n".join(approvals._said(given, decision)).splitlines()
    assert len(lines) < 50 and max(map(len, lines)) <= 80
    assert "runs: rm -rf build" in lines
    assert "also: acts as another user (rule root)" in lines
    entry = {name: "" for name in ("backend", "host", "rule", "cwd", "kind", "user", "answer", "how")}
    approvals._show({**entry, "time": 0, "pid": 1, "reason": "x", "text": MANY}, as_json=False)
    assert len(capsys.readouterr().out.splitlines()) < 18


def test_notices_break_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal; elsewhere a line stays one."""
    text = "refused, and nothing was run: " + "a reason of many words " * 6 + "(rule recursive-delete)"
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stderr", plain)
    _report.say(text)
    assert plain.getvalue() == f"hermes: {text}\n"
    ours, theirs = pty.openpty()
    import termios

    termios.tcsetwinsize(theirs, (24, 80))
    with open(theirs, "w") as screen:
        monkeypatch.setattr(sys, "stderr", screen)
        _report.say(text)
        seen = os.read(ours, 4096).decode().replace("\r\n", "\n")
    os.close(ours)
    assert max(map(len, seen.splitlines())) < 80
    assert seen.split() == f"hermes: {text}".split()
