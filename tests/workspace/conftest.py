"""A project here, and sandboxes that get a copy of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from _transports import known
from hermes import Sandbox

Open = Callable[..., Awaitable[Sandbox]]


@pytest.fixture(autouse=True)
def kinds() -> Iterator[None]:
    with known():
        yield


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    make(
        root,
        {
            "README.md": "hello\n",
            "src/main.py": "print(1)\nprint(2)\nprint(3)\n",
            "src/deep/er/x.bin": b"\0\1\2" * 1000,
            "run.sh": "#!/bin/sh\n",
            "build/out.o": "ignored",
            ".env": "SECRET=1\n",
            ".gitignore": "build/\n.env\n",
        },
    )
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("src/main.py")
    (root / "empty").mkdir()
    return root


@pytest.fixture
async def box(project: Path, request: pytest.FixtureRequest) -> Any:
    kind = getattr(request, "param", "local-copy")
    async with Sandbox(kind, workspace=str(project), approval="off") as box:
        yield box


def make(root: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


def git(root: Path, *args: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    name = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *name, *args], cwd=root, env=env, capture_output=True, text=True, check=True
    )
    return done.stdout
