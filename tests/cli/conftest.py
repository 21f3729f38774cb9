"""The fixture of every test of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli._tool import Cli


@pytest.fixture
def cli(hermes_home: Path) -> Iterator[Cli]:
    tool = Cli(hermes_home)
    yield tool
    tool.close()
