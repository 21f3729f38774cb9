"""The conformance suite on jails, of whoever runs it: root, or an ordinary user without root's rights."""

from collections.abc import Iterator
from typing import Any

import pytest

from _transports import known
from hermes.testing.conformance import *  # noqa: F403

hermes_backends = ("jail", "jail-landlock")


@pytest.fixture(scope="module", autouse=True)
def transports() -> Iterator[None]:
    """Make the other ways known as backends."""
    with known():
        yield


@pytest.fixture(scope="module")
def sandbox_options(hermes_backend: str) -> dict[str, Any]:
    """Options of every sandbox."""
    options: dict[str, Any] = {"workspace": "private"}
    if hermes_backend == "jail-landlock":
        options |= {"program": "landlock", "network": "host"}
    return options
