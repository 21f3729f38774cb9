"""A slice of the conformance suite on the emulated Daytona with every connection cut each 2.5 s."""

from _emulators import cloud_of_module, cloud_settings  # noqa: F401
from hermes.testing.conformance import *  # noqa: F403

hermes_backends = ("daytona",)
CLOUD = ("daytona", "--cut", "2.5")
hermes_slice = True
