"""Fixtures of the tests of singularity: a real client, a real image, and sandboxes that are destroyed."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import hermes

ROOT = os.geteuid() == 0
Open = Callable[..., Awaitable[hermes.Sandbox]]


@pytest.fixture
def image() -> str:
    """A directory that is an image."""
    if shutil.which("apptainer") is None and shutil.which("singularity") is None:
        pytest.skip("no apptainer: scripts/parts start apptainer")
    path = os.environ.get("PARTS_ROOTFS")
    if not path:
        pytest.skip("no image: scripts/parts start rootfs")
    return path


@pytest.fixture
def sif() -> str:
    """An image file."""
    path = os.environ.get("PARTS_SIF")
    if not path:
        pytest.skip("no image file: scripts/parts start apptainer")
    return path


@pytest_asyncio.fixture
async def open_box(image: str) -> AsyncIterator[Open]:
    """Opens sandboxes, all of which are destroyed."""
    opened: list[hermes.Sandbox] = []

    async def open_one(**options: Any) -> hermes.Sandbox:
        box = hermes.Sandbox("singularity", **{"image": image, "approval": "off", **options})
        opened.append(box)
        return await box.open()

    yield open_one
    for box in opened:
        await box.destroy()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this user has no part in."""
    here, mark = Path(__file__).parent, "user_only" if ROOT else "root_only"
    out = [item for item in items if here in item.path.parents and item.get_closest_marker(mark)]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]
