"""A sandbox of another account or app than the configured one is never taken for gone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from _emulators import Emulated, emulated

OTHERS = {
    "modal": {"MODAL_TOKEN_ID": "ak-another"},
    "daytona": {"DAYTONA_API_KEY": "dtn_another"},
    "vercel": {"VERCEL_PROJECT_ID": "prj_another"},
}


@pytest.fixture(params=OTHERS)
def cloud(request: pytest.FixtureRequest) -> Iterator[tuple[str, Emulated]]:
    """One of the clouds, as its name and its emulator."""
    with emulated(request.param) as running:
        yield request.param, running


def hermes(emulator: Emulated, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hermes", *args],
        env={**os.environ, **emulator.settings, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def alive(emulator: Emulated) -> int:
    states = [one.get("state") or one["status"] for one in emulator.sandboxes()]
    return sum(state in ("running", "started") for state in states)


def test_one_of_another_account_is_not_said_to_be_gone(cloud: tuple[str, Emulated]) -> None:
    name, emulator = cloud
    assert hermes(emulator, "--sandbox", name, "exec", "--name", "mine", "true").returncode == 0
    listed = hermes(emulator, "sandbox", "ls", **OTHERS[name])
    assert " gone " not in listed.stdout, listed
    done = hermes(emulator, "sandbox", "rm", "mine", "--yes", **OTHERS[name])
    assert done.returncode != 0, done
    assert "removed" not in done.stdout
    assert alive(emulator) == 1
    # No second one under its name either.
    assert (
        hermes(emulator, "--sandbox", name, "exec", "--name", "mine", "true", **OTHERS[name]).returncode != 0
    )
    assert alive(emulator) == 1
    done = hermes(emulator, "sandbox", "rm", "mine", "--yes")
    assert done.returncode == 0, done
    assert alive(emulator) == 0


def test_one_of_another_app_is_found_where_it_is() -> None:
    with emulated("modal") as emulator:
        there = ["--set", "modal.app=other"]
        assert hermes(emulator, "--sandbox", "modal", "exec", "--name", "q", *there, "true").returncode == 0
        assert " running " in hermes(emulator, "sandbox", "ls").stdout
        done = hermes(emulator, "--sandbox", "modal", "exec", "--name", "q", "true")
        assert done.returncode == 125, done
        assert "modal.app: other, now hermes" in done.stderr
        assert alive(emulator) == 1
        assert hermes(emulator, "sandbox", "rm", "q", "--yes").returncode == 0
        assert alive(emulator) == 0
