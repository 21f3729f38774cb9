"""Fail a run that leaves processes behind.

Whatever a test starts carries HERMES_TEST_RUN in its environment, also when it was reparented or left its
session. At the end of the whole run such processes and all descendants of this one must be gone; they get a
few seconds for that.
"""

import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

MARK = "HERMES_TEST_RUN"
GRACE = 5.0


@dataclass(frozen=True)
class Leak:
    """A process that outlived the run, and the test that started it as far as its environment tells."""

    pid: int
    command: str
    test: str

    def __str__(self) -> str:
        return f"pid {self.pid}: {self.command}" + (f"   (started by {self.test})" if self.test else "")


def _stat(pid: int) -> tuple[int, str] | None:
    """Parent and state of a process; None when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]), fields[0]


def _read(pid: int, name: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []  # gone meanwhile, or not ours to look at


def leaked(run: str, *, root: int | None = None) -> list[Leak]:
    """All that carry the mark of `run` or descend from `root` (default: this process), but not that one."""
    root = root or os.getpid()
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (stat := _stat(int(entry))) and stat[1] not in "ZX":
            parents[int(entry)] = stat[0]
    found = []
    for pid in sorted(parents):
        above, seen = parents[pid], set()
        while above in parents and above != root and above not in seen:
            seen.add(above)
            above = parents[above]
        environment = dict(item.partition("=")[::2] for item in _read(pid, "environ"))
        if pid != root and (above == root or environment.get(MARK) == run):
            command = " ".join(_read(pid, "cmdline")).strip()
            found.append(Leak(pid, command[:200], environment.get("PYTEST_CURRENT_TEST", "")))
    return found


def wait_gone(run: str, *, root: int | None = None, grace: float | None = None) -> list[Leak]:
    """What is still there after at most `grace` seconds (default: GRACE)."""
    end = time.monotonic() + (GRACE if grace is None else grace)
    while (found := leaked(run, root=root)) and time.monotonic() < end:
        time.sleep(0.05)
    return found


_leaks = pytest.StashKey[list[Leak]]()


def pytest_configure(config: pytest.Config) -> None:
    # Workers of a parallel run inherit the mark; a run inside a test has its own.
    if not hasattr(config, "workerinput"):
        os.environ[MARK] = uuid.uuid4().hex


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    # The one process that started the run looks, when its workers are done.
    if hasattr(session.config, "workerinput") or not os.path.isdir("/proc/self"):
        return
    leaks = wait_gone(os.environ[MARK])
    session.config.stash[_leaks] = leaks
    if leaks and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    leaks = config.stash.get(_leaks, [])
    if leaks:
        terminalreporter.section("processes left behind", red=True)
        for leak in leaks:
            terminalreporter.line(str(leak))
        terminalreporter.line("the run fails: every test must end what it started", red=True)
