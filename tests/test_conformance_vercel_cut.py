"""The conformance suite on the emulated Vercel, with every connection reset each 2.5 s."""

from _emulators import cloud_of_module, cloud_settings  # noqa: F401
from hermes.testing.conformance import *  # noqa: F403

hermes_backends = ("vercel",)
CLOUD = ("vercel", "--cut", "2.5")
hermes_slice = True
