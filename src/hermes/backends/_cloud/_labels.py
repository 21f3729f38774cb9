"""What marks a place at a provider as hermes's, and which of them nobody needs any more."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hermes.config import home
from hermes.errors import HermesError
from hermes.state import SandboxRecord, Store, owner_state

if TYPE_CHECKING:
    from ..base import Spec

__all__ = ["home_mark", "labels", "records", "surplus"]


def home_mark() -> str:
    """Return what tells the places of one hermes home from those of another in the same account. Blocks."""
    mark = f"{socket.gethostname()}:{os.geteuid()}:{os.path.realpath(home())}"
    return hashlib.sha256(mark.encode()).hexdigest()[:16]


def labels(spec: Spec) -> dict[str, str]:
    """Return the labels of everything that is made for a sandbox. Blocks."""
    return {
        "hermes.id": spec.id,
        "hermes.name": spec.name,
        "hermes.named": "yes" if spec.named else "no",
        "hermes.keep": "yes" if spec.keep else "no",
        "hermes.home": home_mark(),
    }


async def records(store: Store) -> dict[str, SandboxRecord]:
    """Return the sandboxes that this home knows, by id. Read them after the provider's list.

    :raises HermesError: code ``state_unreadable``; it cannot be told which sandboxes there are
    """
    problems: list[str] = []
    found = {one.id: one for one in await asyncio.to_thread(store.all, problems)}
    if problems:
        raise HermesError(f"{problems[0]}; nothing was removed", code="state_unreadable")
    return found


def surplus(marks: Mapping[str, str], known: Mapping[str, SandboxRecord]) -> str | None:
    """Return why a place with these labels is needed no more, None when it may be."""
    record = known.get(marks.get("hermes.id", ""))
    if marks.get("hermes.keep") == "yes" and (record is None or record.named):
        return None
    if record is None:
        return "no sandbox has it"
    if not record.named and owner_state(record) == "dead":
        return "its hermes has ended"
    return None
