"""Removing old recordings: by age, and the oldest where all of them are too large."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path

import msgspec

from hermes.config import Log

from . import CAST, LINES

__all__ = ["Pruned", "prune", "prune_if_due"]

DUE = 3600.0  # seconds after which a client looks again
FRESH = 600.0  # seconds for which one that was written to is not removed for its size
STAMP = ".pruned"


class Pruned(msgspec.Struct):
    """What was removed, or would be: ids, the oldest first, and bytes of all their files."""

    ids: list[str]
    bytes: int


def prune_if_due(folder: Path, settings: Log) -> None:
    """Remove what is old, unless somebody did so a short time ago. What cannot be removed stays."""
    stamp = folder / STAMP
    with contextlib.suppress(OSError):
        try:
            if time.time() - stamp.stat().st_mtime < DUE:
                return
        except FileNotFoundError:
            pass
        os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        os.utime(stamp)
        prune(folder, settings)


def prune(folder: Path, settings: Log, *, keep: float | None = None, dry_run: bool = False) -> Pruned:
    """Remove recordings that are too old, and the oldest as long as there are too many bytes.

    :param keep: seconds instead of those of the settings
    """
    found: dict[str, list[tuple[Path, int, float]]] = {}
    for path in _files(folder):
        try:
            facts = path.lstat()
        except FileNotFoundError:
            continue
        if stat.S_ISREG(facts.st_mode):
            ident = path.name.partition(".")[0]
            found.setdefault(ident, []).append((path, facts.st_size, facts.st_mtime))
    keep, now = settings.keep if keep is None else keep, time.time()
    total = sum(size for files in found.values() for _, size, _ in files)
    pruned = Pruned([], 0)
    for ident, files in sorted(found.items(), key=lambda one: max(when for _, _, when in one[1])):
        age = now - max(when for _, _, when in files)
        size = sum(size for _, size, _ in files)
        large = bool(settings.max_size) and total > settings.max_size and age > FRESH
        if not (large or (keep and age > keep)):
            continue
        if not dry_run:
            for path, _, _ in files:
                path.unlink(missing_ok=True)
        total -= size
        pruned.ids.append(ident)
        pruned.bytes += size
    return pruned


def _files(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.name.endswith((LINES, CAST))]
    except FileNotFoundError:
        return []
