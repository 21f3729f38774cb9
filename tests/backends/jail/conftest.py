"""Fixtures of the tests of jails: a real bubblewrap, and sandboxes that are destroyed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import hermes
from hermes.testing._harness import hermes_home as in_home

ROOT = os.geteuid() == 0
Open = Callable[..., Awaitable[hermes.Sandbox]]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this user has no part in."""
    here, mark = Path(__file__).parent, "user_only" if ROOT else "root_only"
    out = [item for item in items if here in item.path.parents and item.get_closest_marker(mark)]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


@pytest.fixture(autouse=True)
def bwrap() -> None:
    """Skip where there is none."""
    if shutil.which("bwrap") is None:
        pytest.skip("no bwrap: scripts/parts start bwrap")


@pytest.fixture(scope="module")
def shared_home() -> Iterator[Path]:
    """A home of hermes for the sandboxes that the tests of a module share; in force during their set-up."""
    path = Path(tempfile.mkdtemp(prefix="hermes-"))
    with in_home(path):
        yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest_asyncio.fixture
async def open_box() -> AsyncIterator[Open]:
    """Opens sandboxes, all of which are destroyed."""
    opened: list[hermes.Sandbox] = []

    async def open_one(**options: Any) -> hermes.Sandbox:
        box = hermes.Sandbox("jail", **{"approval": "off", **options})
        opened.append(box)
        return await box.open()

    yield open_one
    for box in opened:
        await box.destroy()
