"""What tells a place of ours that nobody needs any more, whatever it runs on."""

from __future__ import annotations

import asyncio
import hashlib
import os

from hermes.config import home
from hermes.errors import HermesError
from hermes.state import SandboxRecord, Store, owner_state

__all__ = ["home_mark", "known", "read_known", "surplus"]


def home_mark(*more: str) -> str:
    """Return what tells the places of one hermes home from those of others. Blocks.

    :param more: what else tells them apart, where homes of several machines can be seen
    """
    mark = ":".join((*more, str(os.geteuid()), os.path.realpath(home())))
    return hashlib.sha256(mark.encode()).hexdigest()[:16]


def read_known(store: Store) -> dict[str, SandboxRecord]:
    """Return the sandboxes that this home knows, by id. Blocks. Read them after what is there was listed.

    :raises HermesError: code ``state_unreadable``; it cannot be told which sandboxes there are
    """
    problems: list[str] = []
    found = {one.id: one for one in store.all(problems)}
    if problems:
        raise HermesError(f"{problems[0]}; nothing was removed", code="state_unreadable")
    return found


async def known(store: Store) -> dict[str, SandboxRecord]:
    """Do as :func:`read_known`, without blocking."""
    return await asyncio.to_thread(read_known, store)


def surplus(record: SandboxRecord | None, *, keep: bool = False) -> str | None:
    """Return why a place is needed no more, None when it may be.

    :param record: of its sandbox, None where there is none
    :param keep: whether the place itself says that nobody but the user may remove it
    """
    if record is None:
        return None if keep else "no sandbox has it"
    if record.named and record.locator:
        return None
    if owner_state(record) != "dead":
        return None
    return "its hermes has ended" if record.locator else "its hermes ended while it was made"
