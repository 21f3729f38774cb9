"""The conformance suite on an emulated Modal, over Modal's own SDK."""

import pytest

from _emulators import cloud_of_module, cloud_settings  # noqa: F401
from hermes.testing.conformance import *  # noqa: F403

pytest.importorskip("modal")

hermes_backends = ("modal",)
CLOUD = ("modal",)
