"""Taking a credential back out of a sandbox: only by hand, and after a look at what changed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hermes.errors import FileError

__all__ = ["differences", "keep"]


def differences(old: bytes, new: bytes) -> list[str]:
    """Return what changed, one line each, and no value."""
    before, after = _fields(old), _fields(new)
    if before is None or after is None:
        count = len(set(new.splitlines()) - set(old.splitlines()))
        return [
            f"{len(old)} bytes before, {len(new)} now; {count} of {len(new.splitlines())} lines are others"
        ]
    found = []
    for key in sorted({*before, *after}):
        if key not in after:
            found.append(f"- {key}: {_kind(before[key])}")
        elif key not in before:
            found.append(f"+ {key}: {_kind(after[key])}")
        elif before[key] != after[key]:
            found.append(f"~ {key}: {_kind(before[key])}, now another: {_kind(after[key])}")
    return found or ["the same fields, written otherwise"]


def _fields(data: bytes) -> dict[str, Any] | None:
    """Return the values of a JSON object by their paths, None for anything else."""
    try:
        loaded = json.loads(data)
    except ValueError:
        return None
    if not isinstance(loaded, dict):
        return None
    found: dict[str, Any] = {}

    def walk(value: Any, at: str) -> None:
        if isinstance(value, dict) and value and at.count(".") < 20:
            for key, inner in value.items():
                walk(inner, f"{at}.{key[:60]}" if at else key[:60])
        else:
            found[at] = value

    walk(loaded, "")
    return found


def _kind(value: Any) -> str:
    return f"text of {len(value)} characters" if isinstance(value, str) else f"a {type(value).__name__}"


def keep(path: str, data: bytes) -> None:
    """Put content in place of a file, whole, for this user alone. Blocks.

    :raises FileError: it cannot be written
    """
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with open(
            draft, "xb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600)
        ) as file:
            file.write(data)
        os.replace(draft, target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise FileError(
            f"{path} could not be written: {error.strerror or error}; it is as it was", path=path
        ) from error
