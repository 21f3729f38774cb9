"""A part of the conformance suite on the emulated Vercel, with every connection reset each 2.5 s."""

from collections.abc import Iterator

import pytest

from _emulators import Emulated, emulated
from hermes.testing.conformance.test_sessions import *  # noqa: F403
from hermes.testing.conformance.test_stdin import *  # noqa: F403

hermes_backends = ("vercel",)


@pytest.fixture(scope="module")
def cloud() -> Iterator[Emulated]:
    """An emulator for all cases, behind a line that is cut again and again."""
    with emulated("vercel", "--cut", "2.5") as emulator, pytest.MonkeyPatch.context() as patch:
        patch.setenv("VERCEL_TOKEN", emulator.settings["VERCEL_TOKEN"])  # for what comes after the last one
        yield emulator


@pytest.fixture(autouse=True)
def settings(cloud: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environment say where the emulator is: each test begins with a clean one."""
    for name, value in cloud.settings.items():
        monkeypatch.setenv(name, value)
