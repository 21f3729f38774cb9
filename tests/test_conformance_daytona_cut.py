"""A slice of the conformance suite on the emulated Daytona with every connection cut each 2.5 s."""

from collections.abc import Iterator

import pytest

from _emulators import Emulated, emulated
from hermes.testing.conformance.test_jobs import *  # noqa: F403
from hermes.testing.conformance.test_output import *  # noqa: F403
from hermes.testing.conformance.test_stdin import *  # noqa: F403

hermes_backends = ("daytona",)


@pytest.fixture(scope="module", autouse=True)
def there() -> Iterator[Emulated]:
    """Run the emulator with cuts, and let hermes use it."""
    with emulated("daytona", "--cut", "2.5") as emulator, pytest.MonkeyPatch.context() as patch:
        for name, value in emulator.settings.items():
            patch.setenv(name, value)
        yield emulator
