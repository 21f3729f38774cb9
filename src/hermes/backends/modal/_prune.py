"""Sandboxes and snapshots of Modal that outlived their record here."""

from __future__ import annotations

import asyncio
import time
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hermes.config import Config
from hermes.state import Store

from .._leftovers import home_mark, known, surplus
from ..base import Stray
from . import _snapshots as snapshots

if TYPE_CHECKING:
    from ..base import Spec

__all__ = ["BORN", "prune", "strays", "tags"]

LIST_SECONDS = 12.0
BORN = "hermes-born"


def tags(spec: Spec) -> dict[str, str]:
    """Return the tags of a sandbox. Blocks, for a moment."""
    return {
        "hermes-id": spec.id,
        "hermes-home": _home_mark(),
        "hermes-keep": "yes" if spec.keep else "no",
        "hermes-named": "yes" if spec.named else "no",
        BORN: str(int(time.time())),
    }


async def prune(modal: ModuleType, config: Config, store: Store) -> list[str]:
    """End sandboxes without a record or an owner, delete snapshots that nobody needs; say what went."""
    connection = await asyncio.to_thread(modal.connection, config.modal)
    listed = await modal.call(_listed(modal, connection, config), "list the sandboxes", LIST_SECONDS)
    gone: list[str] = []
    # Read last: what has no record then had none when it was listed, and is not just being made.
    records = await known(store)
    for box, marks in listed:
        record, keep = records.get(marks.get("hermes-id", "")), marks.get("hermes-keep") == "yes"
        why = await asyncio.to_thread(surplus, record, keep=keep)
        if why is not None:
            await modal.gone_is_fine(box.terminate.aio(), "end a sandbox")
            gone.append(f"sandbox {box.object_id} ended ({why})")
    for ident, entry in (await asyncio.to_thread(snapshots.known)).items():
        record = records.get(ident)
        stale = config.lifetime.ttl and time.time() - entry.taken > config.lifetime.ttl
        if record is not None and not (stale and not record.options.get("keep")):
            continue
        delete = modal.image_delete.aio(entry.snapshot, client=connection.client)
        await modal.gone_is_fine(delete, f"delete the snapshot {entry.snapshot}")
        await asyncio.to_thread(snapshots.forget, ident)
        gone.append(f"snapshot {entry.snapshot} deleted ({'too old' if record else 'no sandbox has it'})")
    return gone


async def strays(modal: ModuleType, config: Config, store: Store) -> list[Stray]:
    """Return what runs without a record."""
    connection = await asyncio.to_thread(modal.connection, config.modal)
    listed = await modal.call(_listed(modal, connection, config), "list the sandboxes", LIST_SECONDS)
    records = await known(store)
    return [
        Stray(box.object_id, marks.get("hermes-id", ""), float(marks.get(BORN) or 0))
        for box, marks in listed
        if marks.get("hermes-id") not in records
    ]


async def _listed(modal: ModuleType, connection: Any, config: Config) -> list[tuple[Any, dict[str, str]]]:
    await connection.open()
    app = await connection.app(config.modal, make=False)
    if app is None:
        return []
    mark = await asyncio.to_thread(_home_mark)
    found = modal.modal.Sandbox.list.aio(
        app_id=app.app_id, tags={"hermes-home": mark}, client=connection.client
    )
    return [(box, await box.get_tags.aio()) async for box in found]


def _home_mark() -> str:
    from ..ssh import owner

    return home_mark(owner())
