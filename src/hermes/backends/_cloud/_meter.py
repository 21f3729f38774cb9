"""Noting when a place that is billed runs, for ``hermes usage``."""

from __future__ import annotations

import asyncio
import time
import warnings
from typing import TYPE_CHECKING, Literal

from hermes.errors import HermesError

if TYPE_CHECKING:
    from hermes.usage import Size

    from ..base import Backend

__all__ = ["note"]


async def note(
    place: Backend,
    state: Literal["up", "down"],
    *,
    new: bool = False,
    until: float | None = None,
    size: Size | None = None,
) -> None:
    """Write down that a place runs from now on, or no more. That it could not be noted is only warned of.

    :param new: it was made, not woken
    :param until: when its provider ends it by itself, seconds since the epoch
    """
    from hermes.usage import Change, Size, write

    change = Change(
        at=time.time(),
        state=state,
        place=place.name,
        id=place.spec.id,
        name=place.spec.name,
        new=new,
        until=until,
        size=size or Size(),
    )
    try:
        await asyncio.to_thread(write, change)
    except HermesError as error:
        warnings.warn(str(error), stacklevel=2)
