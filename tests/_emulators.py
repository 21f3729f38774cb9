"""The emulated clouds of the tests, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest


class Emulated:
    """A running emulator. ``settings``: the environment variables with which it is used."""

    def __init__(self, control: str, settings: dict[str, str]) -> None:
        self._control = control
        self.settings = settings

    def ask(self, path: str, body: object = None, method: str | None = None) -> Any:
        """Send a request to its control port and return the answer. Blocks."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._control + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def calls(self) -> list[str]:
        """Return the names of all calls so far."""
        return [call["name"] for call in self.ask("/calls")]

    def sandboxes(self) -> list[dict[str, Any]]:
        """Return what exists there."""
        return list(self.ask("/sandboxes"))

    def fault(self, name: str, **more: Any) -> None:
        """Let a fault happen at its next occasion (``times``, ``after``)."""
        self.ask("/faults", {"name": name, **more})

    def advance(self, seconds: float) -> None:
        """Let so much time pass there."""
        self.ask("/clock", {"advance": seconds})

    def use(self, patch: pytest.MonkeyPatch) -> None:
        """Have hermes and the SDKs in this process use it."""
        for name, value in self.settings.items():
            patch.setenv(name, value)

    def line(self, **wish: Any) -> None:
        """Delay (``delay``, seconds one way) or cut (``cut``, every so many seconds; ``now``) connections."""
        self.ask("/line", wish)


@contextlib.contextmanager
def emulated(name: str, *more: str) -> Iterator[Emulated]:
    """Run an emulator. A call that it does not know fails the test at the end."""
    with subprocess.Popen(
        [sys.executable, "-m", "hermes.emulators", name, *more],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline() or "{}")
            assert ready, f"the emulator of {name} did not start"
            emulator = Emulated(ready["control"], ready["settings"])
            yield emulator
            unknown = emulator.ask("/unimplemented")
            assert not unknown, f"the emulator does not know: {sorted(set(unknown))}"
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="module", autouse=True)
def cloud_of_module(request: pytest.FixtureRequest) -> Iterator[Emulated]:
    """The emulator that the module's ``CLOUD`` names, with its options; hermes reaches nothing else."""
    with emulated(*request.module.CLOUD) as running, pytest.MonkeyPatch.context() as patch:
        running.use(patch)
        yield running


@pytest.fixture(autouse=True)
def cloud_settings(cloud_of_module: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environment say where it is: each test begins without settings of hermes."""
    cloud_of_module.use(monkeypatch)
