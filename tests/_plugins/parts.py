"""Find the real parts, report the missing ones, and let nothing be left out where everything is required.

What `scripts/parts env` prints becomes the environment of the run, before any test looks for a program. With
HERMES_REQUIRE=all a skipped test fails with the reason it gave, and a missing part fails the run.
"""

import os
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "parts"
_missing = pytest.StashKey[list[str]]()


def everything_required() -> bool:
    return os.environ.get("HERMES_REQUIRE") == "all"


def report() -> list[tuple[str, str, str]]:
    """Name, "ok" | "missing" | "optional", and what is there or why not, of each part."""
    lines = subprocess.run([SCRIPT, "check"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [(name, state, why) for name, state, why in (line.split("\t", 2) for line in lines)]


def environment() -> dict[str, str]:
    """What finds the parts that are here; PATH is this process's, with what some parts put in front."""
    lines = subprocess.run([SCRIPT, "env"], capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # The workers of a parallel run inherit it.
    if not hasattr(config, "workerinput"):
        os.environ.update(environment())


def _reason(longrepr: Any) -> str:
    """The reason of a skip, from the forms in which pytest keeps it."""
    text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return str(text).removeprefix("Skipped: ")


def _fail_skipped(outcome: pytest.TestReport | pytest.CollectReport) -> None:
    # An expected failure is reported as skipped too: that one is no gap.
    if everything_required() and outcome.outcome == "skipped" and not hasattr(outcome, "wasxfail"):
        outcome.outcome = "failed"
        outcome.longrepr = f"skipped although HERMES_REQUIRE=all: {_reason(outcome.longrepr)}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    outcome = yield
    _fail_skipped(outcome)
    return outcome


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    outcome = yield
    _fail_skipped(outcome)
    return outcome


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput") or session.config.option.collectonly:
        return
    missing = [f"{name}: {state}: {why}" for name, state, why in report() if state != "ok"]
    session.config.stash[_missing] = missing
    required = any(": missing: " in line for line in missing)
    if required and everything_required() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if missing := config.stash.get(_missing, []):
        terminalreporter.section("parts that are not here")
        for line in missing:
            terminalreporter.line(line)
        if everything_required() and any(": missing: " in line for line in missing):
            terminalreporter.line("the run fails: HERMES_REQUIRE=all", red=True)
