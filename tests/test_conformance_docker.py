"""The conformance suite on docker, over the guest's own socket and over a relay process."""

from collections.abc import Iterator
from typing import Any

import pytest

from _transports import known
from hermes.testing.conformance import *  # noqa: F403

hermes_backends = ("docker", "docker-relay")


@pytest.fixture(scope="module", autouse=True)
def transports() -> Iterator[None]:
    """Make the relay known as a backend."""
    with known():
        yield


@pytest.fixture(scope="module")
def sandbox_options() -> dict[str, Any]:
    """Options of every sandbox."""
    return {"workspace": "private", "image": "hermes-test:bookworm"}
