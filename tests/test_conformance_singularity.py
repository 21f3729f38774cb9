"""The conformance suite on singularity: over the guest's own socket, over a relay process, under SLURM."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from _transports import known
from hermes.testing.conformance import *  # noqa: F403

hermes_backends = ("singularity", "singularity-relay", "singularity-slurm")
hermes_slice = os.getuid() != 0


@pytest.fixture(scope="module", autouse=True)
def transports() -> Iterator[None]:
    """Make the other ways known as backends."""
    with known():
        yield


@pytest.fixture(scope="module")
def sandbox_options(hermes_backend: str) -> dict[str, Any]:
    """Options of every sandbox."""
    image = os.environ.get("PARTS_ROOTFS") or os.environ.get("PARTS_SIF")
    if not image:
        pytest.skip("no image: scripts/parts start rootfs")
    options: dict[str, Any] = {"workspace": "private", "image": image}
    if hermes_backend == "singularity-slurm":
        if not os.environ.get("SLURM_CONF"):
            pytest.skip("no SLURM: scripts/parts start slurm")
        options["slurm"] = {"time": "30"}
    return options
