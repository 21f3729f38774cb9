"""The conformance suite on a docker engine whose users are others outside.

On gVisor by hand, with `--hermes-backend docker-runsc`: docs/docker.md says which cases fail there.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from _transports import known
from hermes.testing.conformance import *  # noqa: F403

hermes_backends = ("docker-remap",)


@pytest.fixture(scope="module", autouse=True)
def transports() -> Iterator[None]:
    """Make the engines known as backends."""
    with known():
        yield


@pytest.fixture(scope="module")
def sandbox_options(hermes_backend: str) -> Iterator[dict[str, Any]]:
    """Options of every sandbox. The engine is chosen as anybody would."""
    host = os.environ.get(f"PARTS_DOCKER_{hermes_backend.removeprefix('docker-').upper()}")
    if host is None:
        pytest.skip("the part 'engines' is not here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", host)
        yield {"workspace": "private", "image": "hermes-test:bookworm"}
