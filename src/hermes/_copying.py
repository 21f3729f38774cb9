"""The copy of a workspace that a new sandbox gets, where the place cannot show the directory itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .sandbox import Sandbox


async def copy_in(box: Sandbox) -> None:
    """Copy the workspace in where it is a copy that is not there yet, or not whole.

    One that was cut is gone on with when the sandbox is opened again.
    """
    record = box._record
    assert record is not None
    box._root = record.settings.get("workspace")
    if box._root in (None, "private"):
        box._root = None
        return
    try:
        workspace = box.workspace
        if record.copied and not (box._origin == "anew" and await workspace.is_empty()):
            return
        await workspace.copy_in(box._on_progress)
        record.copied = True
        await asyncio.to_thread(box._store.put, record)
    except BaseException:
        await asyncio.shield(box.close() if box.named else box.destroy())
        raise
