"""Big files whose copy goes on where it was cut.

What has arrived lies beside its place as ``.hermes-….part``, under a name made from what is copied. The next
copy of the same compares its hash with that of as many bytes of the source and goes on after them. The file
gets its name when the hash of the whole is that of the source.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import stat
import threading
from typing import TYPE_CHECKING, Any

from . import _transfer as transfer
from ._transfer import OnProgress, Progress, whole
from .errors import FileError
from .guest import archive
from .guest.archive import Stats

if TYPE_CHECKING:
    from .channel.channel import Channel

RESUME_FROM = 4 << 20  # smaller ones are copied anew
PART = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _name(*facts: str | int) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]


async def put(
    channel: Channel,
    source: str,
    info: os.stat_result,
    args: dict[str, Any],
    stats: Stats,
    on_progress: OnProgress | None,
) -> None:
    """Copy a regular file in, going on with what an earlier copy of it left there.

    :param args: ``path``, ``parents`` and ``into``, as for ``file.write``
    :raises FileError: either side could not go on, or what arrived is not what was sent
    """
    part = _name(await asyncio.to_thread(os.path.realpath, source), info.st_size, info.st_mtime_ns)
    args = {**args, "part": part}
    there = (await channel.call("part.look", {**args, "size": info.st_size})).body
    held, seen = whole(there, "size"), hashlib.sha256()
    if not (0 < held <= info.st_size and await _hash(source, held, seen) == there.get("sha256")):
        held, seen = 0, hashlib.sha256()
    stats.bytes = held
    await transfer.send(
        channel.open("part.write", {**args, "offset": held}),
        lambda give: transfer.load(give, source, stats, seen),
        source,
        stats,
        Progress(on_progress, stats, info.st_size),
    )
    facts = {"mode": info.st_mode & 0o777, "mtime_ns": info.st_mtime_ns}
    await channel.call("part.commit", {**args, **facts, "size": stats.bytes, "sha256": seen.hexdigest()})


async def get(
    channel: Channel,
    source: str,
    target: str,
    found: dict[str, Any],
    stats: Stats,
    on_progress: OnProgress | None,
) -> None:
    """Copy a regular file out, going on with what an earlier copy of it left here.

    :param found: what ``file.stat`` said of it
    :raises FileError: either side could not go on, or the file changed meanwhile
    """
    size, mode, mtime = whole(found, "size"), whole(found, "mode") & 0o777, whole(found, "mtime_ns")
    try:
        part = await asyncio.to_thread(_Part, target, _name(source, os.path.basename(target), size, mtime))
    except (OSError, ValueError) as error:
        raise transfer.local_error(error, target, "files.get") from error
    try:
        seen = hashlib.sha256()
        held = part.size if part.size <= size else 0
        if held:
            there = (await channel.call("file.hash", {"path": source, "n": held})).body
            if there.get("size") != held or await _hash(part.path, held, seen) != there.get("sha256"):
                held, seen = 0, hashlib.sha256()
        await asyncio.to_thread(part.begin, held)
        stats.bytes = held
        await transfer.receive(
            channel,
            "file.read",
            {"path": source, "offset": held, "n": size - held},
            lambda take: transfer.fill(take, part.fd, size, stats, seen),
            target,
            stats,
            Progress(on_progress, stats, size),
        )
        there = (await channel.call("file.hash", {"path": source, "n": size})).body
        if stats.bytes != size or there.get("sha256") != seen.hexdigest():
            part.useless = True
            raise FileError(
                f"{source} changed while it was copied; nothing was written to {target}",
                path=target,
                code="io",
                operation="files.get",
                retryable=True,
            )
        try:
            await asyncio.to_thread(part.finish, mode, mtime)
        except OSError as error:
            raise transfer.local_error(error, target, "files.get") from error
    except FileError as error:
        part.useless = part.useless or error.code == "no_space"
        raise
    finally:
        await asyncio.shield(asyncio.to_thread(part.close))
    stats.files = 1


async def _hash(path: str, size: int, seen: hashlib._Hash) -> str | None:
    """Add the first bytes of a file to a hash and return that; None when there are fewer or none."""
    stop = threading.Event()

    def work() -> str | None:
        left = size
        with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
            while left and not stop.is_set() and (data := file.read(min(left, archive.CHUNK))):
                seen.update(data)
                left -= len(data)
        return None if left else seen.hexdigest()

    try:
        return await asyncio.to_thread(work)
    finally:
        stop.set()


class _Part:
    """A file on this machine of which a part has arrived; locked against others who would write to it."""

    def __init__(self, target: str, name: str) -> None:
        folder = os.path.dirname(target)
        if folder:
            os.makedirs(folder, exist_ok=True)
        if os.path.isdir(target):
            raise IsADirectoryError(21, os.strerror(21), target)
        self._target = target
        self.useless = False  # nobody can go on with it
        self.path = os.path.join(folder, f".hermes-{name}.part")
        self.fd = os.open(self.path, PART, 0o600)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            info = os.fstat(self.fd)
            if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1 or info.st_uid != os.geteuid():
                raise FileExistsError(17, os.strerror(17), self.path)
        except BlockingIOError:
            os.close(self.fd)
            raise FileExistsError(17, "another copy of it is under way", self.path) from None
        except BaseException:
            os.close(self.fd)
            raise
        self.size = info.st_size

    def begin(self, offset: int) -> None:
        """Keep that many bytes, and write after them."""
        os.ftruncate(self.fd, offset)
        os.lseek(self.fd, offset, os.SEEK_SET)

    def finish(self, mode: int, mtime: int) -> None:
        os.fchmod(self.fd, mode)
        os.utime(self.fd, ns=(mtime, mtime))
        os.replace(self.path, self._target)
        self.path = ""

    def close(self) -> None:
        """Leave what has arrived, unless there is no use for it."""
        if self.path and (self.useless or not os.fstat(self.fd).st_size):
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        os.close(self.fd)
