"""Waiting for work that must not be left half done."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

SETTLE_SECONDS = 15.0
"""How long somebody who gave up still waits for what was begun."""

T = TypeVar("T")


async def settled(call: Coroutine[Any, Any, T]) -> T:
    """Wait for a call that makes something, to its end also when cancelled.

    A thread or an engine goes on although nobody waits: what it makes can only be removed once it is there.
    """
    making = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        await asyncio.wait([making], timeout=SETTLE_SECONDS)
        if not making.cancel() and not making.cancelled():
            making.exception()
        raise
