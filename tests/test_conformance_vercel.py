"""The conformance suite on the emulated Vercel."""

from _emulators import cloud_of_module, cloud_settings  # noqa: F401
from hermes.testing.conformance import *  # noqa: F403

hermes_backends = ("vercel",)
CLOUD = ("vercel",)
