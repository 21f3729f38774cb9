"""The conformance suite on the backends of our own, over every way to a guest.

--hermes-backend chooses others.
"""

from collections.abc import Iterator

import pytest

from _transports import RelayBackend, TerminalBackend
from hermes import backends
from hermes.testing.conformance import *  # noqa: F403

hermes_backends = ("local", "local-relay", "local-text")


@pytest.fixture(scope="module", autouse=True)
def transports() -> Iterator[None]:
    """Make local's other ways to its guest known as backends."""
    known, load = {kind.name: kind for kind in (RelayBackend, TerminalBackend)}, backends.load
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends, "load", lambda name: known[name] if name in known else load(name))
        yield
