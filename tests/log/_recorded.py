"""What was recorded, as the tests look at it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from hermes.log._read import Recording, read, recordings


def folder(home: Path) -> Path:
    return home / "log"


def only() -> Recording:
    """The only recording that there is."""
    [path] = recordings()
    return read(path)


async def recorded() -> Recording:
    """The same, where an event loop runs."""
    return await asyncio.to_thread(only)


async def lines() -> list[dict[str, Any]]:
    """The lines of the only recording that there is."""
    path = (await recorded()).path
    return [json.loads(line) for line in path.read_bytes().splitlines()]


async def paths() -> list[Path]:
    """The files of all recordings."""
    return await asyncio.to_thread(lambda: list(recordings()))


def everything(home: Path) -> bytes:
    """All bytes of all files of the log."""
    return b"".join(path.read_bytes() for path in sorted(folder(home).iterdir()))


def cast_of(home: Path, number: int) -> tuple[dict[str, Any], str]:
    """The head of a terminal's file, and all that was shown there."""
    [path] = folder(home).glob(f"*.{number}.cast")
    head, *events = [json.loads(line) for line in path.read_bytes().splitlines()]
    return head, "".join(text for _, kind, text in events if kind == "o")
