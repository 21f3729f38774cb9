"""``hermes emulate``: what it says where it cannot begin. What it begins is tried in tests/emulators."""

from __future__ import annotations

import os

from cli._tool import Cli


def test_a_cloud_that_there_is_not(cli: Cli) -> None:
    done = cli("emulate", "aws")
    assert done.returncode == 125
    assert b"choose from: modal, daytona, vercel" in done.stderr


def test_a_package_that_is_not_installed(cli: Cli) -> None:
    (cli.cwd / "aiohttp.py").write_text("raise ImportError('no', name='aiohttp')")
    done = cli("emulate", "modal", env={**os.environ, "PYTHONPATH": str(cli.cwd)})
    assert done.returncode == 125
    assert b"pip install 'hermes-places[emulators,modal]'" in done.stderr
    assert b"nothing was started" in done.stderr
    assert b"Traceback" not in done.stderr
