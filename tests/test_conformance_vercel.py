"""The conformance suite on the emulated Vercel."""

from collections.abc import Iterator

import pytest

from _emulators import Emulated, emulated
from hermes.testing.conformance import *  # noqa: F403

hermes_backends = ("vercel",)


@pytest.fixture(scope="module")
def cloud() -> Iterator[Emulated]:
    """An emulator for all cases."""
    with emulated("vercel") as emulator, pytest.MonkeyPatch.context() as patch:
        patch.setenv("VERCEL_TOKEN", emulator.settings["VERCEL_TOKEN"])  # for what comes after the last one
        yield emulator


@pytest.fixture(autouse=True)
def settings(cloud: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environment say where the emulator is: each test begins with a clean one."""
    for name, value in cloud.settings.items():
        monkeypatch.setenv(name, value)
