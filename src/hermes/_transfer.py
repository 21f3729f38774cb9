"""Copies between this machine's disk and a sandbox: a thread at the disk, a task at the channel.

What passes between the two is bounded, so that gigabytes go through in flat memory. A tree comes as
a stream that :mod:`hermes.guest.archive` checks entry by entry: the sandbox is not trusted.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import hashlib
import os
import queue
import stat
import threading
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from .errors import FileError, HermesError, ProtocolError
from .guest import archive
from .guest.archive import Stats, TreeError

if TYPE_CHECKING:
    from .channel.channel import Channel, Stream

DEPTH = 8  # chunks between the thread and the task
REPORT_EVERY = 0.1  # seconds

OnProgress = Callable[[int, int | None, str], None]


class Aborted(Exception):
    """The other half of a copy has ended; this half has to as well."""


class Inbox:
    """Chunks from the event loop to one thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(DEPTH)
        self._deaf = False

    async def put(self, data: bytes) -> bool:
        """Hand over a chunk; False when the thread has ended and takes no more."""
        await self._room.acquire()
        if not self._deaf:
            self._items.put(data)
        return not self._deaf

    def end(self, *, abort: bool = False) -> None:
        self._items.put(None if abort else b"")

    def deafen(self) -> None:
        self._deaf = True
        self._room.release()

    def get(self) -> bytes:
        """Take the next chunk, in the thread; nothing at the end.

        :raises Aborted: the rest will not come
        """
        data = self._items.get()
        if data is None:
            raise Aborted
        self._loop.call_soon_threadsafe(self._room.release)
        return data


class Outbox:
    """Chunks from one thread to the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(DEPTH)
        self._aborted = False

    def put(self, data: bytes) -> None:
        """Hand over a chunk, in the thread.

        :raises Aborted: nobody wants it any more
        """
        self._room.acquire()
        if self._aborted:
            raise Aborted
        self._loop.call_soon_threadsafe(self._items.put_nowait, data)

    def end(self) -> None:
        self._items.put_nowait(b"")

    def abort(self) -> None:
        self._aborted = True
        self._room.release()

    async def get(self) -> bytes:
        """Take the next chunk, which makes room for another; nothing at the end."""
        data = await self._items.get()
        self._room.release()
        return data


def in_thread(work: Callable[[], None], done: Callable[[], None]) -> asyncio.Future[None]:
    """Run *work* in a thread of its own, so that slow copies do not use up the shared ones."""
    executor = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="hermes-copy")
    future = asyncio.get_running_loop().run_in_executor(executor, work)
    executor.shutdown(wait=False)
    future.add_done_callback(lambda _: done())
    return future


async def settled(worker: asyncio.Future[None]) -> None:
    """Wait until a thread has ended, whatever came of it."""
    await asyncio.wait([worker])
    if not worker.cancelled():
        worker.exception()


async def outcome(worker: asyncio.Future[None], local: str, operation: str, stats: Stats) -> None:
    """Wait for a thread.

    :raises FileError: it could not go on
    """
    try:
        await asyncio.shield(worker)
    except (OSError, TreeError, ValueError, OverflowError) as error:
        raise local_error(error, local, operation, stats) from error


class Progress:
    """Tells a caller how far a copy is, not too often."""

    def __init__(self, callback: OnProgress | None, stats: Stats, total: int | None = None) -> None:
        self._callback = callback
        self.stats = stats
        self._total = total
        self._last = time.monotonic()

    def report(self, *, final: bool = False) -> None:
        now = time.monotonic()
        if self._callback is not None and (final or now - self._last >= REPORT_EVERY):
            self._last = now
            path = self.stats.path.decode("utf-8", "surrogateescape")
            self._callback(self.stats.bytes, self._total, path)


def wire_text(path: str) -> str:
    """Return a local path's text as the guest means it."""
    return os.fsencode(path).decode("utf-8", "surrogateescape")


def local_error(error: BaseException, path: str, operation: str, stats: Stats | None = None) -> HermesError:
    """Return what stopped a copy on this machine as an error of ours."""
    code, text = archive.explain(error, stats)
    context = stats.counts() if stats is not None else {}
    return FileError(f"{path}: {text}", path=path, code=code, operation=operation, context=context)


async def receive(
    channel: Channel,
    operation: str,
    args: dict[str, Any],
    work: Callable[[Callable[[], bytes]], None],
    local: str,
    stats: Stats,
    progress: Progress,
) -> dict[str, Any]:
    """Make a call and let *work*, in a thread, take what it streams; return the answer.

    :raises FileError: either side could not go on
    """
    inbox = Inbox()
    stream = channel.open(operation, args)
    worker = in_thread(lambda: work(inbox.get), inbox.deafen)
    try:
        async for _, data in stream:
            if not await inbox.put(data):
                await outcome(worker, local, "files.get", stats)
                raise ProtocolError("the guest went on after the end of a copy", operation=operation)
            progress.report()
        reply = await stream.reply()
        if reply.raw:
            await inbox.put(reply.raw)
        inbox.end()
        await outcome(worker, local, "files.get", stats)
        progress.report(final=True)
        return reply.body
    finally:
        stream.cancel()
        inbox.end(abort=True)
        await settled(worker)


async def send(
    stream: Stream,
    work: Callable[[Callable[[bytes], None]], None],
    local: str,
    stats: Stats,
    progress: Progress,
) -> dict[str, Any]:
    """Stream what *work* produces in a thread; return the answer to the call.

    :raises FileError: either side could not go on
    """
    outbox = Outbox()
    worker = in_thread(lambda: work(outbox.put), outbox.end)

    async def pump() -> None:
        while data := await outbox.get():
            await stream.send(data)
            progress.report()
        await outcome(worker, local, "files.put", stats)
        stream.send_eof()

    try:
        body = await feed(stream, pump())
        progress.report(final=True)
        return body
    finally:
        outbox.abort()
        await settled(worker)


async def feed(stream: Stream, pump: Coroutine[Any, Any, None]) -> dict[str, Any]:
    """Run *pump*, which sends, until the call is answered; return the answer.

    A call that could not be fed to its end is cancelled.
    """
    pumping = asyncio.ensure_future(pump)
    answer = asyncio.ensure_future(stream.reply())
    try:
        await asyncio.wait([pumping, answer], return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            await pumping
        return (await answer).body
    finally:
        for task in (pumping, answer):
            task.cancel()
        await asyncio.gather(pumping, answer, return_exceptions=True)
        stream.cancel()


def save(get: Callable[[], bytes], path: str, info: dict[str, int], limit: int, stats: Stats) -> None:
    """Write what *get* returns as the file *path*, which appears when it is complete."""
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    if os.path.isdir(path):
        raise IsADirectoryError(21, os.strerror(21), path)
    temp = os.path.join(os.fsencode(folder), archive.temporary())
    fd = os.open(temp, archive.CREATE, 0o600)
    try:
        try:
            fill(get, fd, limit, stats)
            os.fchmod(fd, info["mode"] & 0o777)
            os.utime(fd, ns=(info["mtime_ns"], info["mtime_ns"]))
        finally:
            os.close(fd)
        os.replace(temp, path)
    except BaseException:
        os.unlink(temp)
        raise
    stats.files = 1


def fill(
    get: Callable[[], bytes], fd: int, limit: int, stats: Stats, seen: hashlib._Hash | None = None
) -> None:
    """Write what *get* returns, and give it to a hash too.

    :raises TreeError: it is more than was announced
    """
    while data := get():
        if stats.bytes + len(data) > limit:
            raise TreeError("io", f"the sandbox sends more than the {limit} bytes it announced")
        archive.write_all(fd, data)
        if seen is not None:
            seen.update(data)
        stats.bytes += len(data)


def load(put: Callable[[bytes], None], path: str, stats: Stats, seen: hashlib._Hash | None = None) -> None:
    """Give the bytes of a regular file to *put*, from ``stats.bytes`` on, and to a hash too."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.lseek(fd, stats.bytes, os.SEEK_SET)
        while data := os.read(fd, archive.CHUNK):
            put(data)
            if seen is not None:
                seen.update(data)
            stats.bytes += len(data)
    finally:
        os.close(fd)
    stats.files = 1


def tree_size(top: str) -> int:
    """Return the bytes of the regular files below a directory, as far as they can be seen."""
    total = 0
    for folder, _, names in os.walk(top):
        for name in names:
            try:
                info = os.lstat(os.path.join(folder, name))
            except OSError:
                continue
            total += info.st_size if stat.S_ISREG(info.st_mode) else 0
    return total


def whole(body: dict[str, Any], key: str) -> int:
    """Return a number that the guest sent.

    :raises ProtocolError: it is none
    """
    value = body.get(key)
    if type(value) is not int or abs(value) >> 63:
        raise ProtocolError(f"the guest sent {value!r:.50} as {key}")
    return value
