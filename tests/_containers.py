"""Sandboxes in docker and podman for tests of them, and what their engines say of them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hermes

IMAGES = {"docker": "hermes-test:bookworm", "podman": "localhost/hermes-test:bookworm"}


def _ours(socket: str = "/var/run/docker.sock") -> bool:
    return not os.path.exists(socket) or os.access(socket, os.W_OK)


# The engine of docker is root's alone; podman is everybody's.
PLACES = ("docker", "podman") if _ours() else ("podman",)
ROOT = os.geteuid() == 0
# For what no engine has a part in.
ONE_ENGINE = pytest.mark.parametrize("place", PLACES[:1])


def sandbox(place: str, **options: Any) -> hermes.Sandbox:
    """Return a sandbox that is not open yet, with a directory of its own as its workspace."""
    given = {"image": IMAGES[place], "workspace": "private", "approval": "off", **options}
    for key in ("dockerfile", "devcontainer"):
        if key in given:
            del given["image"]
    return hermes.Sandbox(place, **given)


def asked(place: str, *args: str, check: bool = True) -> str:
    """Run the engine's client and return what it printed. Blocks."""
    done = subprocess.run(
        [place, *args], capture_output=True, text=True, timeout=50, stdin=subprocess.DEVNULL, check=False
    )
    assert done.returncode == 0 or not check, (args, done.stderr)
    return done.stdout.strip()


async def engine(place: str, *args: str, check: bool = True) -> str:
    """Run the engine's client and return what it printed."""
    return await asyncio.to_thread(asked, place, *args, check=check)


async def inspect(box: hermes.Sandbox) -> dict[str, Any]:
    """Return what the engine knows of a sandbox's container."""
    found = json.loads(await engine(box.backend, "inspect", "--type", "container", container(box)))
    return dict(found[0])


def container(box: hermes.Sandbox) -> str:
    """Return the id of a sandbox's container."""
    assert box._record is not None
    return str(box._record.locator["container"])


async def containers(place: str, ident: str) -> list[str]:
    """Return the containers that carry a sandbox's id, running or not."""
    mark = f"label=hermes.id={ident}"
    return (await engine(place, "ps", "--all", "--quiet", "--no-trunc", "--filter", mark)).split()


async def text(box: hermes.Sandbox, command: str, **options: Any) -> str:
    """Run a command that has to succeed in a shell of its own, and return what it printed."""
    result = await box.exec(command, merge_stderr=True, **options)
    assert result.exit_code == 0, (command, result.exit_code, result.text)
    return result.text.strip()


async def python(box: hermes.Sandbox, code: str, **options: Any) -> str:
    """Run Python inside that has to succeed, and return what it printed."""
    return await text(box, "python3 -", stdin=code.encode(), **options)


async def until(true: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Wait, at most so long, until something holds; say whether it does."""
    for _ in range(int(seconds / 0.05)):
        if await asyncio.to_thread(true):
            return True
        await asyncio.sleep(0.05)
    return False


def tree(path: Path) -> dict[str, str]:
    """Return every file below a directory with what it holds. Blocks."""
    return {str(one.relative_to(path)): one.read_text() for one in path.rglob("*") if one.is_file()}
