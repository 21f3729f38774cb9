"""Which snapshots are not to be removed with their sandbox: what was asked for, and files to come back to.

They are written down in hermes's home before they are needed, in a file that is replaced as a whole.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hermes._lock import Lock
from hermes.config import home, make_private

__all__ = ["forget", "kept", "left_by", "remember"]

FILE = "vercel-snapshots.json"
PATIENCE = 10.0


def kept() -> set[str]:
    """Return the snapshots that stay. Blocks."""
    return set(_read(_path()))


def left_by(ident: str) -> str | None:
    """Return the snapshot with the files that an earlier place of this sandbox left. Blocks."""
    return next((name for name, why in _read(_path()).items() if why == ident), None)


def remember(snapshot: str, ident: str = "") -> None:
    """Keep a snapshot: because it was asked for, or for the next place of the sandbox *ident*. Blocks."""
    _change(snapshot, ident)


def forget(snapshot: str) -> None:
    """Keep a snapshot no more. Blocks."""
    _change(snapshot, None)


def _path() -> Path:
    return home() / "state" / FILE


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    return found if isinstance(found, dict) else {}


def _change(snapshot: str, why: str | None) -> None:
    path = _path()
    make_private(path.parent)
    with Lock(path.with_suffix(".lock"), PATIENCE):
        found = _read(path)
        if why is None:
            found.pop(snapshot, None)
        else:
            found[snapshot] = why
        draft = path.with_suffix(f".{os.getpid()}")
        with open(draft, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(json.dumps(found, indent=1).encode())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
