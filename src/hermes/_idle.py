"""Suspending a place that nobody uses, where nothing but a client does it; and what else ends all in it."""

from __future__ import annotations

import asyncio
import time
import warnings
from typing import TYPE_CHECKING

from .errors import HermesError

if TYPE_CHECKING:
    from .sandbox import Sandbox

CHECK_EVERY = 60.0  # seconds, while something runs


async def suspend_when_idle(box: Sandbox, after: float) -> None:
    """Suspend a sandbox when nothing was asked of it, and nothing ran in it, for so many seconds."""
    channel = box._channel
    while True:
        left = channel.used + after - time.monotonic()
        if left > 0 or box._asked or channel.waits:
            await asyncio.sleep(max(left, min(after, CHECK_EVERY)))
            continue
        used = channel.used
        try:
            busy = any(job.state == "running" for job in await box.jobs())
            channel.used = used  # to ask is no use
            if not (busy or box._asked or channel.waits):
                await fall_asleep(box)
                return
        except HermesError as error:
            warnings.warn(f"the idle sandbox '{box.name}' could not be suspended: {error}", stacklevel=1)
        await asyncio.sleep(min(after, CHECK_EVERY))


async def fall_asleep(box: Sandbox) -> None:
    """Suspend a sandbox until its next use, which waits meanwhile."""
    async with box._sleeping:
        box._asleep, box._slept = True, box._channel.guest.get("guest")
        try:
            await box.suspend()
        except BaseException:
            box._asleep = False
            raise


async def awake(box: Sandbox) -> None:
    """Wake a sandbox that was suspended for being idle."""
    async with box._sleeping:
        if not box._asleep:
            return
        await box.resume()
    if box._channel.guest.get("guest") != box._slept:
        warnings.warn(
            f"'{box.name}' was switched off while nobody used it: its sessions begin anew",
            stacklevel=4,
        )


async def snapshot(box: Sandbox) -> str:
    """Do as :meth:`Sandbox.snapshot`; where that ends what runs, attach anew."""
    place = box._the_place()
    if box._supply is not None:
        await box._supply.withdraw()  # the next command has it put back
    if not place.snapshot_ends:
        return await place.snapshot()
    await box.close()
    ident = await place.snapshot()
    await box._attach(start=True)
    return ident
