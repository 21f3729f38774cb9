"""Machines that sleep: woken when they are needed, released when nobody needs them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from hermes.errors import BackendError, Unreachable

from .._command import run_client
from ._bootstrap import line_for
from ._channel import SshChannel
from ._target import Target

__all__ = ["release", "wake"]

PROBE_SECONDS = 5.0
PAUSE = 2.0
COMMAND_SECONDS = 300.0


async def wake(target: Target, progress: Callable[[str], None]) -> None:
    """Return when the machine answers; it is woken when it does not.

    :raises Unreachable: it does not answer within ``ssh.wake_timeout``
    :raises BackendError: ``ssh.wake_command`` failed, or the machine answers and does not let us in
    """
    command = target.settings.wake_command
    if command is None or await _answers(target):
        return
    progress(f"waking {target}")
    await _run("ssh.wake_command", command)
    began, patience = time.monotonic(), target.settings.wake_timeout
    while not await _answers(target):
        if time.monotonic() - began > patience:
            raise Unreachable(
                f"{target} was woken, and does not answer after {patience:g} s; nothing was run",
                reason="it does not wake up",
                hint="Look at it by hand; a slow machine needs a larger ssh.wake_timeout.",
            )
        await asyncio.sleep(PAUSE)


async def release(target: Target) -> None:
    """Let the machine go.

    :raises BackendError: ``ssh.release_command`` failed
    """
    command = target.settings.release_command
    if command is not None:
        await _run("ssh.release_command", command)


async def _answers(target: Target) -> bool:
    patience = min(PROBE_SECONDS, target.settings.connect_timeout)
    channel = SshChannel(target, line_for(["/bin/sh", "-c", "exit 0"]), connect_timeout=patience)
    over = asyncio.Event()
    try:
        async with asyncio.timeout(patience + PROBE_SECONDS):
            await channel.start(lambda data: None, lambda reason: over.set())
            await over.wait()
    except TimeoutError:
        return False
    finally:
        await channel.close()
    failure = channel.failure
    if failure is None or isinstance(failure, Unreachable):
        return failure is None
    raise failure


async def _run(key: str, command: str) -> None:
    # Its words are the user's own, so a shell may have them.
    done = await run_client(["/bin/sh", "-c", command], timeout=COMMAND_SECONDS)
    if done.code != 0:
        raise BackendError(f"{key} ended with exit code {done.code}: {done.said}", operation="wake")
