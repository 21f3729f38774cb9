"""The conformance suite over ssh: to this machine by loopback, and to one that is 50 ms away."""

from collections.abc import Iterator
from typing import Any

import pytest

from _ssh import far, near
from _transports import known
from hermes.testing.conformance import *  # noqa: F403

hermes_backends = ("ssh", "ssh-far")


@pytest.fixture(scope="module", autouse=True)
def transports() -> Iterator[None]:
    """Make the one with the long way known as a backend."""
    with known():
        yield


@pytest.fixture(scope="module")
def sandbox_options(hermes_backend: str) -> dict[str, Any]:
    """Options of every sandbox."""
    return (near() if hermes_backend == "ssh" else far()).options()
