"""Real places, each with what is declared for it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import pytest_asyncio

import hermes
from _containers import IMAGES, PLACES
from _emulators import Emulated, emulated
from _ssh import near
from hermes.config import Config

Open = Callable[..., Coroutine[Any, Any, hermes.Sandbox]]

CLOUDS = ("modal", "daytona", "vercel")
BACKENDS = ("local", *PLACES, "singularity", "ssh", "jail", *CLOUDS)


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
    return msgspec.convert(plain(settings), Config)


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same as what a file would say, with what the environment says of the clouds."""
    found: dict[str, Any] = {"approvals": {"mode": "off"}, "credentials": dict(settings)}
    for section, key, name in (
        ("vercel", "team", "VERCEL_TEAM_ID"),
        ("vercel", "project", "VERCEL_PROJECT_ID"),
        ("vercel", "api_url", "HERMES_VERCEL_API_URL"),
        ("daytona", "api_url", "DAYTONA_API_URL"),
    ):
        if name in os.environ:
            found.setdefault(section, {})[key] = os.environ[name]
    return found


class Cloud(NamedTuple):
    """An emulated cloud: ``record`` has all that calls said, ``folder`` has its files."""

    emulator: Emulated
    record: Path
    folder: Path


@pytest.fixture(scope="package")
def clouds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Cloud]]:
    """Returns the emulator of a cloud, which is started when it is first needed."""
    with contextlib.ExitStack() as stack:
        running: dict[str, Cloud] = {}

        def start(name: str) -> Cloud:
            if name not in running:
                record = tmp_path_factory.mktemp(name) / "record"
                one = stack.enter_context(emulated(name, "--record", str(record)))
                running[name] = Cloud(one, record, Path(one.ask("/")["folder"]))
            return running[name]

        yield start


@pytest.fixture(params=BACKENDS)
def place(
    request: pytest.FixtureRequest, clouds: Callable[[str], Cloud], monkeypatch: pytest.MonkeyPatch
) -> str:
    """The name of a backend that works here."""
    name = str(request.param)
    if name in CLOUDS:
        pytest.importorskip(name)
        for key, value in clouds(name).emulator.settings.items():
            monkeypatch.setenv(key, value)
    return name


@pytest.fixture
def cloud(place: str, clouds: Callable[[str], Cloud]) -> Cloud | None:
    """The emulator of the place, None where that is no cloud."""
    return clouds(place) if place in CLOUDS else None


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
    draft.touch(mode=0o600)  # hermes may look at it at any time
    draft.write_bytes(text if isinstance(text, bytes) else text.encode())
    draft.chmod(mode)
    draft.replace(path)
    return path
