"""Passwords for sudo, as far as they need no sudo; `tests/backends/ssh/test_sudo.py` has the real one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hermes
from hermes.guest import sudo
from hermes.guest.loop import Loop
from hermes.guest.server import OpError

Make = Callable[[], sudo.Sudo]


class Guest:
    """What the passwords need of a guest."""

    def __init__(self, folder: Path) -> None:
        self.run_dir, self.state_dir = str(folder / "run dir"), str(folder / "state")
        for path in (self.run_dir, self.state_dir):
            os.mkdir(path, 0o700)
        self.loop = Loop()
        self.sessions: dict[str, Any] = {}
        self.closed_shells: set[Any] = set()
        self.tasks: dict[int, Any] = {}


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    return Guest(tmp_path)


@pytest.fixture
def make(guest: Guest) -> Iterator[Make]:
    made: list[sudo.Sudo] = []

    def one() -> sudo.Sudo:
        made.append(sudo.Sudo(guest))  # type: ignore[arg-type]
        return made[-1]

    yield one
    for each in made:
        each._listener.close()


def test_the_program_is_where_programs_may_run(
    guest: Guest, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is often mounted so that none may."""
    assert make().program == f"{guest.run_dir}/askpass"
    os.unlink(f"{guest.run_dir}/{sudo.SOCKET}")
    monkeypatch.setattr(os, "access", lambda path, _mode: not path.startswith(guest.run_dir))
    assert make().program == f"{guest.state_dir}/askpass"
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    with pytest.raises(OpError, match="none of the guest's directories"):
        make()


def test_who_is_not_sudo_is_told_so(guest: Guest, make: Make) -> None:
    asked = make()
    assert Path(asked.program).stat().st_mode & 0o777 == 0o700
    assert Path(guest.run_dir, sudo.SOCKET).stat().st_mode & 0o777 == 0o600
    with subprocess.Popen([asked.program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as helper:
        guest.loop.call_later(20.0, guest.loop.stop)
        watch = os.pidfd_open(helper.pid)
        guest.loop.add_reader(watch, guest.loop.stop)
        guest.loop.run()
        os.close(watch)
        out, err = helper.communicate(timeout=10)
    assert (helper.returncode, out) == (1, b"")
    assert err == b"hermes: no password for sudo: it was not sudo that asked\n"
    assert not asked.questions


def test_the_program_says_when_nobody_is_there(guest: Guest, make: Make) -> None:
    program = make().program
    os.unlink(f"{guest.run_dir}/{sudo.SOCKET}")
    done = subprocess.run([program], capture_output=True, check=False, timeout=20)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"hermes: no password for sudo: the sandbox does not answer: ")


def test_nothing_is_set_while_nobody_can_answer(guest: Guest, make: Make) -> None:
    asked = make()
    assert asked.env({}) == {}
    asked.givers.append(object())  # type: ignore[arg-type]
    assert asked.env({"DISPLAY": ":1"}) == {"SUDO_ASKPASS": asked.program, "DISPLAY": ":1"}
    assert asked.env({}) == {"SUDO_ASKPASS": asked.program, "DISPLAY": ""}


async def test_root_needs_none(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root nothing is set and nothing is said; for others it is what sessions and jobs begin with."""
    monkeypatch.setenv("HERMES_SUDO_PASSWORD", "s3cret-word")
    monkeypatch.setenv("SUDO_ASKPASS", "/mine")
    async with hermes.Sandbox("local", workspace="private", approval="off") as box:
        found = [(await box.run("env")).text, (await box.exec("env")).text]
        found.append((await (await box.start("env")).wait()).text)
        assert not any("s3cret-word" in text for text in found)
        if os.geteuid() == 0:
            assert not any("SUDO_ASKPASS" in text for text in found)
        else:
            assert all("/askpass\n" in text for text in found)
