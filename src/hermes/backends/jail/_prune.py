"""Removing what outlived its sandbox."""

from __future__ import annotations

import json
from pathlib import Path

from hermes.config import home
from hermes.state import SandboxRecord, Store

from .._leftovers import read_known, surplus
from ._files import MARK, PREFIX, Files

__all__ = ["prune"]


def prune(store: Store) -> list[str]:
    """Remove the directories, and end the processes, of jails that no sandbox has any more; say what went.

    Blocks.

    :raises HermesError: code ``state_unreadable``; it cannot be told which sandboxes there are
    """
    folders = sorted((home() / "sandboxes").glob(f"{PREFIX}*"))
    # Read last: what has no record then, had none when it was listed, and is not just being made.
    records = read_known(store)
    gone = []
    for folder in folders:
        ident = folder.name.removeprefix(PREFIX)
        record = records.get(ident)
        why = _surplus(folder, record)
        if why is None:
            continue
        run = record.locator.get("host_run") if record is not None else None
        files = Files(ident, run if isinstance(run, str) else None)
        if not files.end() and not files.remove():
            gone.append(f"jail {folder.name} removed ({why})")
    return gone


def _surplus(folder: Path, record: SandboxRecord | None) -> str | None:
    if record is not None:
        return surplus(record)
    try:
        keep = json.loads((folder / MARK).read_text("utf-8")).get("keep")
    except (OSError, ValueError):
        keep = False
    return surplus(None, keep=bool(keep))
