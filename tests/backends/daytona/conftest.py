"""An emulated Daytona that hermes uses, empty before each test."""

from __future__ import annotations

import contextlib
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from _emulators import Emulated, emulated

pytest.importorskip("daytona")


@pytest.fixture(scope="session")
def emulator() -> Iterator[Emulated]:
    with emulated("daytona") as there:
        yield there


@pytest.fixture
def there(emulator: Emulated, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulated]:
    """The emulator, with nothing switched on; the settings of the environment are its own."""
    emulator.use(monkeypatch)
    yield emulator
    emulator.ask("/faults", method="DELETE")
    emulator.line(delay=0, cut=0)
    for one in emulator.sandboxes():  # what a test that failed left would disturb the next
        request = urllib.request.Request(
            f"{emulator.settings['DAYTONA_API_URL']}/sandbox/{one['id']}",
            method="DELETE",
            headers={"Authorization": f"Bearer {emulator.settings['DAYTONA_API_KEY']}"},
        )
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request, timeout=10):
            pass
