"""A model that follows a script, hermes that talks to it, and the places to work in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chat._server import Server
from cli._tool import Cli
from credentials.conftest import clouds, open_in, place

__all__ = ["clouds", "open_in", "place"]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The scripted model, configured in the environment of what the test starts."""
    with Server().running() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def cli(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """hermes in a directory and a home of its own, on local, where what must be asked is asked."""
    monkeypatch.setenv("HERMES_SANDBOX", "local")
    monkeypatch.setenv("HERMES_APPROVALS", "ask")
    tool = Cli(hermes_home)
    yield tool
    tool.close()
