"""A part of the conformance suite on an emulated Modal whose every connection is cut each 2.5 seconds."""

import os
from collections.abc import Iterator
from unittest import mock

import pytest

from _emulators import emulated
from hermes.testing.conformance.test_output import *  # noqa: F403
from hermes.testing.conformance.test_stdin import *  # noqa: F403
from hermes.testing.conformance.test_stopping import *  # noqa: F403

pytest.importorskip("modal")

hermes_backends = ("modal",)


@pytest.fixture(scope="module", autouse=True)
def emulator() -> Iterator[None]:
    """Let the backend reach nothing but an emulator, over a line that breaks again and again."""
    with emulated("modal", "--cut", "2.5") as running, mock.patch.dict(os.environ, running.settings):
        yield
