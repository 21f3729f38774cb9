"""The conformance suite on podman, of whoever runs it: root, or an ordinary user without root's rights."""

import os
from typing import Any

import pytest

from hermes.testing.conformance import *  # noqa: F403

hermes_backends = ("podman",)
hermes_slice = os.getuid() == 0  # whole for the ordinary user, whose engine it is


@pytest.fixture(scope="module")
def sandbox_options() -> dict[str, Any]:
    """Options of every sandbox."""
    return {"workspace": "private", "image": "localhost/hermes-test:bookworm"}
