"""The fixture of every test of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli._tool import Cli

# Their subject is what is chosen where nobody has chosen.
UNCHOSEN = (
    "test_auto",
    "test_backends",
    "test_config",
    "test_config_write",
    "test_doctor",
    "test_setup",
    "test_setup_images",
    "test_setup_clouds",
)


@pytest.fixture
def cli(hermes_home: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """hermes in a directory and a home of its own, on local where the test is not about another place."""
    if request.path.stem not in UNCHOSEN:
        monkeypatch.setenv("HERMES_SANDBOX", "local")
    tool = Cli(hermes_home)
    yield tool
    tool.close()
