"""The conformance suite on an emulated Modal whose every connection is cut each 2.5 seconds."""

import pytest

from _emulators import cloud_of_module, cloud_settings  # noqa: F401
from hermes.testing.conformance import *  # noqa: F403

pytest.importorskip("modal")

hermes_backends = ("modal",)
CLOUD = ("modal", "--cut", "2.5")
hermes_slice = True
