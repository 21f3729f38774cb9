"""Real places, each with what is declared for it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

import hermes
from _containers import IMAGES, PLACES
from _ssh import near
from hermes.config import Config

Open = Callable[..., Coroutine[Any, Any, hermes.Sandbox]]

BACKENDS = ("local", *PLACES, "singularity", "ssh")


def options(place: str) -> dict[str, Any]:
    """Return what a sandbox of a kind is made with, or skip the test where that kind is not there."""
    if place == "ssh":
        return near().options()
    if place == "singularity":
        image = os.environ.get("PARTS_ROOTFS")
        if not image or shutil.which("apptainer") is None:
            pytest.skip("no apptainer with an image: scripts/parts start apptainer")
        return {"image": image, "workspace": "private"}
    return {"image": IMAGES[place], "workspace": "private"} if place in IMAGES else {"workspace": "private"}


def declared(**settings: Any) -> Config:
    """Return a configuration that declares something, and asks nobody."""
    return msgspec.convert({"approvals": {"mode": "off"}, "credentials": settings}, Config)


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest) -> str:
    """The name of a backend that works here."""
    return str(request.param)


@pytest.fixture
def own(hermes_home: Path) -> Path:
    """Hermes's home, with the folder whose files are declared by lying there."""
    (hermes_home / "credentials").mkdir(0o700, parents=True)
    hermes_home.chmod(0o700)
    return hermes_home


@pytest_asyncio.fixture
async def open_in() -> AsyncIterator[Open]:
    """Opens sandboxes, all of which are destroyed."""
    opened: list[hermes.Sandbox] = []

    async def open_one(place: str, **more: Any) -> hermes.Sandbox:
        config = more.pop("config", None) or declared()
        box = hermes.Sandbox(place, config=config, **{**options(place), **more})
        opened.append(box)
        return await box.open()

    yield open_one
    for box in opened:
        with contextlib.suppress(hermes.HermesError):
            await box.destroy()


def keep(path: Path, text: str | bytes, mode: int = 0o600) -> Path:
    """Put a file in place of one that may be there, as programs renew their tokens."""
    draft = path.with_name(f".{path.name}.new")
    draft.write_bytes(text if isinstance(text, bytes) else text.encode())
    draft.chmod(mode)
    draft.replace(path)
    return path
