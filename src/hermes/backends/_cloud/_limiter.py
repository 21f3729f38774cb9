"""Keeping to a provider's limit of creations, together with the other processes of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from pathlib import Path

import msgspec

from hermes._lock import Lock
from hermes.config import home, make_private

__all__ = ["turn"]

LOCK_SECONDS = 30.0


async def turn(account: str, limit: int, seconds: float = 1.0, weight: int = 1) -> None:
    """Wait until one more creation is within the account's limit, and count it.

    :param account: what the limit is of: the provider and whose account it is. Only its hash is kept
    :param limit: so many creations in so many seconds, by all processes of this home
    :param weight: as how many this one counts, where a limit is of something that creations have
    """
    wait = 1.0
    while wait > 0:
        wait = await asyncio.to_thread(_take, account, limit, seconds, min(weight, limit))
        await asyncio.sleep(max(wait, 0))


def _take(account: str, limit: int, seconds: float, weight: int) -> float:
    """Count a creation and return 0, or return how long to wait before asking again."""
    name = hashlib.sha256(account.encode()).hexdigest()[:16]
    path = home() / "state" / f"creations-{name}"
    make_private(path.parent)
    with Lock(Path(f"{path}.lock"), LOCK_SECONDS):
        now = time.time()
        times: list[float] = []
        with contextlib.suppress(OSError, msgspec.DecodeError):
            times = msgspec.json.decode(path.read_bytes(), type=list[float])
        times = [one for one in times if now - seconds < one <= now]
        if (over := len(times) + weight - limit) > 0:
            return times[over - 1] + seconds - now
        draft = path.with_suffix(".new")
        draft.write_bytes(msgspec.json.encode([*times, *[now] * weight]))
        draft.replace(path)
        return 0.0
