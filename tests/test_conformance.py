"""The conformance suite on the local backend, over every way to a guest.

--hermes-backend chooses others.
"""

from collections.abc import Iterator

import pytest

from _transports import known
from hermes.testing.conformance import *  # noqa: F403

hermes_backends = ("local", "local-relay", "local-text")


@pytest.fixture(scope="module", autouse=True)
def transports() -> Iterator[None]:
    """Make local's other ways to its guest known as backends."""
    with known():
        yield
