"""Fixtures of the tests of docker and podman: real engines, and sandboxes that a module's tests share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from _containers import PLACES, ROOT, asked
from hermes.state import Store
from hermes.testing._harness import hermes_home as in_home


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what an ordinary user has no part in: docker's engine is root's, and so are some cases."""
    here = Path(__file__).parent
    out = [
        item
        for item in items
        if here in item.path.parents
        and (
            ("docker" not in PLACES and item.get_closest_marker("docker_engine"))
            or item.get_closest_marker("user_only" if ROOT else "root_only")
        )
    ]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


@pytest.fixture(scope="module", params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    """The name of a backend whose engine works for this user."""
    return str(request.param)


@pytest.fixture(scope="module")
def shared_home() -> Iterator[Path]:
    """A home of hermes for the sandboxes that the tests of a module share; in force during their set-up."""
    path = Path(tempfile.mkdtemp(prefix="hermes-"))
    with in_home(path):
        yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(autouse=True)
def swept(hermes_home: Path) -> Iterator[None]:
    """Remove the containers that a failed test left behind."""
    yield
    for record in Store().all():
        if record.backend in PLACES and record.locator:
            asked(record.backend, "rm", "--force", str(record.locator["container"]), check=False)
            if record.locator.get("network"):
                asked(record.backend, "network", "rm", str(record.locator["network"]), check=False)
