"""Places that are away: suspended, given up as unreachable, or stopped by a snapshot; and their return."""

from __future__ import annotations

import asyncio
import contextlib
import time
import warnings
from typing import TYPE_CHECKING

from .errors import HermesError, SandboxGone, Unreachable

if TYPE_CHECKING:
    from .channel.channel import Channel
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


async def come_back(box: Sandbox) -> None:
    """Wake a sandbox that was suspended; attach again to one that was unreachable."""
    async with box._sleeping:
        lost = box._open_channel
        if box._asleep:
            began = time.monotonic()
            await box.resume()
            took = time.monotonic() - began
        elif lost is not None and lost.unreachable:
            await _attach_again(box, lost)
            return
        else:
            return  # somebody else was here first
    if box._slept is not None and box._channel.guest.get("guest") != box._slept:
        warnings.warn(
            f"'{box.name}' was suspended while nobody used it, and woken in {took:.1f} s: its sessions "
            "begin anew",
            stacklevel=4,
        )


async def _attach_again(box: Sandbox, lost: Channel) -> None:
    """Attach to the guest that was known, over a new channel.

    The one that was given up may still have commands on it whose callers were told that they failed.

    :raises Unreachable: it does not answer yet; the next use tries again
    :raises SandboxGone: another guest is there, or none
    """
    await box._let_go(lost)
    try:
        await box._attach(start=False, lost=lost)
    except Unreachable:
        raise
    except SandboxGone as error:
        lost.give_up(error.reason or str(error))
        raise


async def snapshot(box: Sandbox) -> str:
    """Do as :meth:`Sandbox.snapshot`; where that ends what runs, attach anew."""
    place = box._the_place()
    async with box._supply.withdrawn() if box._supply is not None else contextlib.nullcontext():
        if not place.snapshot_ends:
            return await place.snapshot()
        await box._let_go(None)
        ident = await place.snapshot()
    await box._attach(start=True)
    return ident
