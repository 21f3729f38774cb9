"""The conformance suite on the emulated Daytona."""

from collections.abc import Iterator

import pytest

from _emulators import Emulated, emulated
from hermes.testing.conformance import *  # noqa: F403

hermes_backends = ("daytona",)


@pytest.fixture(scope="module", autouse=True)
def there() -> Iterator[Emulated]:
    """Run the emulator, and let hermes use it."""
    with emulated("daytona") as emulator, pytest.MonkeyPatch.context() as patch:
        for name, value in emulator.settings.items():
            patch.setenv(name, value)
        yield emulator
