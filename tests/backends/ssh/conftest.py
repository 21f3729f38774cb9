"""Fixtures of the tests of ssh: machines, and sandboxes on them that are destroyed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import hermes
from _ssh import ROOT, Host, Machine, machine, near

Open = Callable[..., Coroutine[Any, Any, hermes.Sandbox]]


@pytest.fixture
def host() -> Host:
    """This machine, over loopback."""
    return near()


@pytest.fixture(scope="module")
def the_machine() -> Iterator[Machine]:
    """A machine that the tests of a module share."""
    with machine() as made:
        yield made


@pytest.fixture
def own(the_machine: Machine) -> Iterator[Machine]:
    """The module's machine, with a good link before and after, and nothing of hermes on it."""
    the_machine.link.reset(Machine.DELAY)
    yield the_machine
    the_machine.link.reset(Machine.DELAY)


@pytest_asyncio.fixture
async def open_on() -> AsyncIterator[Open]:
    """Opens sandboxes on a host, all of which are destroyed."""
    opened: list[hermes.Sandbox] = []

    async def open_one(host: Host, **options: Any) -> hermes.Sandbox:
        box = host.sandbox(**options)
        opened.append(box)
        return await box.open()

    yield open_one
    for box in opened:
        with contextlib.suppress(hermes.HermesError):
            await box.destroy()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this user has no part in."""
    here, mark = Path(__file__).parent, "user_only" if ROOT else "root_only"
    out = [item for item in items if here in item.path.parents and item.get_closest_marker(mark)]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]
