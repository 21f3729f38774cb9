"""Our own stdin, stdout and stderr as seen from the event loop.

Each is served by a thread that dies with the process: a reader who pauses stops the command and not the
loop, and neither a full pipe nor a silent keyboard keeps us from leaving.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import queue
import select
import stat
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

from hermes.errors import CommandError, HermesError

READ_SIZE = 1 << 16


class OutputClosed(Exception):
    """Nobody reads our output any more."""


class _Worker:
    """One thread that makes blocking calls, one after the other."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]]] = queue.SimpleQueue()
        self._started = False

    async def call(self, function: Callable[[], Any]) -> Any:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        self._work.put((function, done))
        if not self._started:
            self._started = True
            threading.Thread(target=self._run, args=(loop,), daemon=True).start()
        return await done

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            function, done = self._work.get()
            try:
                result, error = function(), None
            except OSError as caught:
                result, error = None, caught
            try:
                loop.call_soon_threadsafe(_settle, done, result, error)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return


def _settle(done: asyncio.Future[Any], result: Any, error: OSError | None) -> None:
    if done.done():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)


class Output:
    """Writes a command's output to our descriptors, byte by byte as it was."""

    def __init__(self) -> None:
        self._worker = _Worker()

    async def write(self, fd: int, data: bytes) -> None:
        """Return when the reader of *fd* has taken everything.

        :raises OutputClosed: it went away
        :raises HermesError: code ``output_failed``; the system would not write it
        """
        try:
            await self._worker.call(lambda: _write(fd, data))
        except BrokenPipeError:
            raise OutputClosed from None
        except OSError as error:
            name = {1: "standard output", 2: "standard error"}.get(fd, f"descriptor {fd}")
            raise HermesError(
                f"{name} cannot be written: {error.strerror}; the command was ended", code="output_failed"
            ) from error


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:  # another program made the descriptor that we share with it non-blocking
            select.select((), (fd,), ())


def check_readable(fd: int, *, closed: bool) -> None:
    """See to it that input can be read, before anything is started.

    :raises CommandError: code ``stdin_failed``
    """
    why = ""
    if closed:
        why = "it is closed"
    elif fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
        why = "it is open for writing only"
    elif stat.S_ISDIR(os.fstat(fd).st_mode):
        why = "it is a directory"
    if why:
        raise CommandError(
            f"standard input cannot be read: {why}; nothing was run",
            code="stdin_failed",
            operation="run",
            hint="Give it something to read, or leave --stdin out: the command then gets no input.",
        )


async def chunks(fd: int) -> AsyncIterator[bytes]:
    """Yield what comes on *fd*, read piece by piece as it is asked for, until it ends."""
    worker = _Worker()
    while data := await worker.call(lambda: _read(fd)):
        yield data


def _read(fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, READ_SIZE)
        except BlockingIOError:
            select.select((fd,), (), ())
        except OSError as error:
            if error.errno == errno.EIO and os.isatty(fd):  # the terminal went away
                return b""
            raise
