"""What crashed clients left at Vercel."""

from __future__ import annotations

import asyncio
import time

from vercel.sandbox import Sandbox, SandboxClient, SandboxQueryByCreatedAt, TagFilter

from hermes.config import Config, Vercel
from hermes.state import SandboxRecord, Store

from .._leftovers import known, surplus
from ..base import Stray
from ..ssh import owner
from ._account import KEEP, OWNER, PREFIX
from ._client import connected, within

__all__ = ["end", "prune", "strays"]

LIST_SECONDS = 12.0
GRACE = 60.0  # seconds in which a sandbox may be there before its record is seen here


async def prune(config: Config, store: Store) -> list[str]:
    """Remove the sandboxes of this hermes home that no record has, or whose owner is dead; say which.

    :raises HermesError: code ``state_unreadable``; it cannot be told which sandboxes there are
    """
    settings = config.vercel
    gone: list[str] = []
    async with connected(settings) as client:
        found = await _listed(client, settings)
        # Read last: what has no record then, had none when it was listed, and is not just being made.
        records = await known(store)
        for box in found:
            record = records.get(box.name.removeprefix(PREFIX))
            if (why := await asyncio.to_thread(_surplus, box, record)) is not None:
                await end(client, box, settings.deadline)
                gone.append(f"sandbox {box.name} removed ({why})")
    return gone


async def strays(config: Config, store: Store) -> list[Stray]:
    """Return what runs without a record."""
    async with connected(config.vercel) as client:
        found = await _listed(client, config.vercel)
    records = await known(store)
    return [
        Stray(box.name, box.name.removeprefix(PREFIX), (box.created_at or 0) / 1000)
        for box in found
        if box.status in ("running", "pending") and box.name.removeprefix(PREFIX) not in records
    ]


async def _listed(client: SandboxClient, settings: Vercel) -> list[Sandbox]:
    ours = await asyncio.to_thread(owner)

    async def listed() -> list[Sandbox]:
        query = SandboxQueryByCreatedAt(tag=TagFilter(key=OWNER, value=ours))
        return [one async for one in client.query_sandboxes(query=query, page_size=50)]

    seconds = min(settings.deadline, LIST_SECONDS)
    return await within(seconds, "list its sandboxes", listed, repeats=True)


def _surplus(box: Sandbox, record: SandboxRecord | None) -> str | None:
    if not box.name.startswith(PREFIX):
        return None
    fresh = (box.created_at or 0) / 1000 > time.time() - GRACE
    return surplus(record, keep=bool((box.tags or {}).get(KEEP)) or fresh)


async def end(client: SandboxClient, box: Sandbox, deadline: float) -> None:
    """Destroy a sandbox, with the snapshots that nobody asked for."""
    from ._snapshots import kept

    if box.persistent or box.current_snapshot_id:
        stay = await asyncio.to_thread(kept)

        async def snapshots() -> None:
            async for one in client.query_snapshots(name=box.name, page_size=50):
                if one.id not in stay:
                    await one.delete()

        await within(deadline, "remove snapshots", snapshots, repeats=True)
    await within(deadline, "destroy a sandbox", box.destroy, repeats=True)
