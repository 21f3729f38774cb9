"""The conformance suite on an emulated Modal, over Modal's own SDK."""

import os
from collections.abc import Iterator
from unittest import mock

import pytest

from _emulators import emulated
from hermes.testing.conformance import *  # noqa: F403

pytest.importorskip("modal")

hermes_backends = ("modal",)


@pytest.fixture(scope="module", autouse=True)
def emulator() -> Iterator[None]:
    """Let the backend reach nothing but an emulator."""
    with emulated("modal") as running, mock.patch.dict(os.environ, running.settings):
        yield
