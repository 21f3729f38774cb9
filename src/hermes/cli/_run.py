"""Running one asynchronous command: an orderly end on signals, and the sandbox left as it should be."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from hermes.errors import HermesError

from ._place import Chosen, announce
from ._report import say
from ._status import status_line

if TYPE_CHECKING:
    from hermes.sandbox import Sandbox

T = TypeVar("T")

STOP_SECONDS = 10.0  # for the sandbox to confirm that the command was told to end
LAST_WORDS = 2.0  # for its last output to be taken


def shell_text(command: list[str]) -> str | list[str]:
    """Return COMMAND as the library takes it: text for the shell, or an argv that it quotes."""
    return command[0] if len(command) == 1 else command


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. Ctrl-C cancels it and comes out as ``KeyboardInterrupt``.

    SIGTERM cancels it too, so that what it made is taken down, and comes out as ``SystemExit``. A second one
    ends us at once.
    """
    ended = False

    async def watched() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def end() -> None:
            nonlocal ended
            ended = True
            loop.remove_signal_handler(signal.SIGTERM)
            task.cancel()

        loop.add_signal_handler(signal.SIGTERM, end)
        try:
            return await work
        finally:
            loop.remove_signal_handler(signal.SIGTERM)

    try:
        with asyncio.Runner() as runner:
            return runner.run(watched())
    except asyncio.CancelledError:
        if ended:
            raise SystemExit(128 + signal.SIGTERM) from None
        raise


@contextlib.asynccontextmanager
async def opened(
    chosen: Chosen,
    *,
    create: bool = True,
    quiet: bool = True,
    once: bool = False,
    **options: Any,
) -> AsyncIterator[Sandbox]:
    """Open the sandbox; afterwards leave it, or destroy it when it has no name.

    :param once: it is wanted for one command, so that a place that is paid for is not left behind
    """
    with status_line(quiet=quiet) as show:
        box = chosen.sandbox(on_progress=show, **options)
        await box.open(create=create)
    try:
        if create:
            announce(chosen, box, quiet=quiet)
        yield box
    finally:
        if once and chosen.default_name and box._place is not None and box._place.paid:
            await _done_with(box, quiet=quiet)
        elif box._origin == "new" and not quiet and (when := box._the_place().fleeting):
            say(f"'{box.name}' ends with its files {when}: persistent: true keeps them.")
        await box.__aexit__()


async def _done_with(box: Sandbox, *, quiet: bool) -> None:
    """End a sandbox that costs money while it is there, unless it is kept, or somebody else uses it."""
    spec = box._the_place().spec
    if spec.keep:
        return
    try:
        used = bool(await box.jobs() or await box.sessions())
    except HermesError:
        return  # it is gone, or cannot be asked; what must end it without a client does
    if used:
        say(f"'{box.name}' is in use, so it goes on and costs money: 'hermes sandbox rm' ends it.")
        return
    try:
        if spec.persistent:
            await box.suspend()
            return
        await box.destroy()
    except HermesError as error:
        say(f"warning: '{box.name}' could not be ended, and may still cost money: {error}.")
        return
    if not quiet:
        say(f"'{box.name}' was ended with its files: --set persistent=true keeps them, --name leaves it.")


class Signals:
    """SIGINT and SIGTERM while a command runs: the first one is noted, the second one ends us at once."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._arrived = asyncio.Event()

    def __enter__(self) -> Signals:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on, number)
        return self

    def __exit__(self, *exc: object) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    def _on(self, number: int) -> None:
        if self.number is not None:
            os._exit(128 + number)
        self.number = number
        self._arrived.set()

    async def supervise(
        self, work: Awaitable[T], stop: Callable[[], Awaitable[bool]], what: str = "the command"
    ) -> T | None:
        """Await *work*; when a signal comes, end it by *stop*, so that it returns what there is, or by force.

        Returns None when it had to be given up.

        :param stop: asks for the end; False when there is nothing yet that could be asked
        """
        task = asyncio.ensure_future(work)
        waiter = asyncio.ensure_future(self._arrived.wait())
        try:
            await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                try:
                    async with asyncio.timeout(STOP_SECONDS):
                        asked = await stop()
                except (HermesError, TimeoutError):
                    say(f"the sandbox does not answer; {what} may still run there.")
                    asked = False
                if asked:
                    await asyncio.wait({task}, timeout=LAST_WORDS)
            if task.done():
                return task.result()
            return None
        finally:
            waiter.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=LAST_WORDS)


@contextlib.asynccontextmanager
async def own_shell(box: Sandbox) -> AsyncIterator[str]:
    """Keep the default session for one model; where another one is at work in that already, it gets its own.

    So none waits for another's commands, or is moved by them. Yields the directory that the session is in.
    """
    from hermes.sandbox import DEFAULT_SESSION

    lock = box._store.lock(box.backend, box.name, timeout=0.0, part="shell")
    try:
        await asyncio.to_thread(lock.acquire)
    except HermesError as error:
        if error.code != "state_busy":
            raise
        box._session = f"model-{os.urandom(4).hex()}"
    try:
        yield next((one.cwd for one in await box.sessions() if one.name == box._session), box.cwd)
    finally:
        if box._session != DEFAULT_SESSION:
            await end_sessions(box, {box._session})
        lock.release()


async def end_sessions(box: Sandbox, names: set[str]) -> None:
    """End sessions that this client has used. One that cannot be ended stays."""
    with contextlib.suppress(HermesError):
        for name in names & box._sessions:
            await (await box.shell(name)).close()


async def stop_runs(box: Sandbox) -> bool:
    """Ask the guest to end the commands that this client runs; False when it runs none yet."""
    channel = box._open_channel
    if channel is None:
        return False
    running = [stream.id for stream in channel._streams.values() if stream.operation == "run"]
    for ident in running:
        await channel.call("stop", {"call": ident})
    return bool(running)
