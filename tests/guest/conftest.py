"""A guest to drive, on the oldest and on the newest Python that is here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from _plugins.pythons import pythons
from guest._driver import Driver

ENDS = dict.fromkeys([*list(pythons())[:1], *list(pythons())[-1:]])


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "cwd"
    folder.mkdir()
    return folder


@pytest.fixture(params=ENDS, ids=[f"py{version}" for version in ENDS])
def driver(request: pytest.FixtureRequest, cwd: Path) -> Iterator[Driver]:
    with Driver(cwd, python=pythons()[request.param]) as driver:
        yield driver


@pytest.fixture
def make_driver(cwd: Path) -> Iterator[Callable[..., Driver]]:
    """Make drivers with other settings; they are closed at the end."""
    made: list[Driver] = []

    def make(**settings: object) -> Driver:
        made.append(Driver(cwd, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for driver in made:
        driver.close()
