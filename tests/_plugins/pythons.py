"""Run a test of the guest on every Python that is here: one that takes `guest_python` runs once for each."""

import functools
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "pythons"


@functools.cache
def pythons() -> dict[str, str]:
    """Version ("3.6") to path, of every interpreter that the guest can run on; never empty."""
    lines = subprocess.run([SCRIPT], capture_output=True, text=True, check=False).stdout.splitlines()
    found = dict(line.split(" ", 1) for line in lines)
    found.setdefault(f"3.{sys.version_info.minor}", sys.executable)
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "guest_python" in metafunc.fixturenames:
        found = pythons()
        metafunc.parametrize("guest_python", found.values(), ids=[f"py{version}" for version in found])
