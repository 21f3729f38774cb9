"""The files of a sandbox: read, write, list, and copy to and from this machine."""

from __future__ import annotations

import asyncio
import builtins
import json
import os
import stat as stat_bits
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from . import _resume
from . import _transfer as transfer
from ._resume import RESUME_FROM
from ._transfer import OnProgress, Progress, whole
from .errors import FileError, ProtocolError
from .guest import archive
from .guest.archive import Stats
from .session import text_bytes

if TYPE_CHECKING:
    from .channel.channel import Channel

__all__ = ["FileStat", "Files", "TransferStats"]

SMALL = 1 << 17  # content of up to this many bytes goes with the call
READ_LIMIT = 1 << 28
GLOB_LIMIT = 100_000

StrPath = str | os.PathLike[str]
T = TypeVar("T")


class FileStat(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a path, its last symbolic link not followed.

    ``mode`` holds the permission bits, ``mtime`` seconds since the epoch; ``target`` is what a link says.
    """

    name: str
    type: Literal["file", "dir", "link", "other"]
    size: int
    mode: int
    mtime: float
    target: str | None = None


class TransferStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a copy did.

    ``skipped`` counts devices, FIFOs, sockets and what vanished meanwhile; ``changed`` files that became
    shorter while they were read; ``outside`` symbolic links, kept as they are, that lead out of the tree.
    """

    files: int
    bytes: int
    folders: int = 0
    links: int = 0
    skipped: int = 0
    changed: int = 0
    outside: int = 0


class Files:
    """The files of one sandbox. Relative paths begin at the sandbox's cwd.

    Text of a path that is no UTF-8 in the sandbox comes, and is given, with surrogate escapes.
    Every method raises :class:`FileError`, whose ``code`` says why, and :class:`SandboxGone`.
    """

    def __init__(
        self,
        channel: Channel,
        *,
        approve: Callable[[str], Awaitable[None]] | None = None,
        approve_removal: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """Make the files of a channel's sandbox.

        :param approve: awaited with the path before anything in the sandbox is changed; raises to refuse
        :param approve_removal: the same, before a path is removed with all that is in it
        """
        self._channel = channel
        self._approve = approve
        self._approve_removal = approve_removal

    async def read(self, path: StrPath, *, offset: int = 0, n: int | None = None) -> bytes:
        """Return the bytes of a file from *offset* on, *n* at most.

        :raises FileError: ``too_large`` for more than 256 MiB with no *n* given; use :meth:`get` for those
        """
        if offset < 0 or (n is not None and n < 0):
            raise ValueError("offset and n have to be 0 or more")
        limit = READ_LIMIT if n is None else n
        args = {"path": os.fspath(path), "offset": offset, "n": n, "limit": READ_LIMIT}
        try:
            return (await self._collect("file.read", args, limit))[1]
        except FileError as error:
            if error.code == "too_large":
                error.hint = "Copy it with get(), or read a part of it with n."
            raise

    async def read_text(self, path: StrPath) -> str:
        """Return a file's content as text; bytes that are no UTF-8 become U+FFFD."""
        return (await self.read(path)).decode("utf-8", "replace")

    async def write(
        self,
        path: StrPath,
        data: bytes | str | AsyncIterable[bytes],
        *,
        mode: int | None = None,
        parents: bool = True,
    ) -> None:
        """Replace a file's content as a whole; at each moment all of the old or all of the new is there.

        A symbolic link is written through. The permissions stay unless *mode* gives others.

        :param parents: make missing directories
        """
        await self._write("file.write", path, data, {"mode": mode, "parents": parents})

    async def append(
        self, path: StrPath, data: bytes | str | AsyncIterable[bytes], *, parents: bool = True
    ) -> None:
        """Add to the end of a file, which is made when missing."""
        await self._write("file.append", path, data, {"parents": parents})

    async def stat(self, path: StrPath, *, follow: bool = False) -> FileStat:
        """Return what is known about a path.

        :param follow: follow a symbolic link
        """
        return _stat(await self._call("file.stat", path, follow=follow))

    async def exists(self, path: StrPath) -> bool:
        """Return whether something is there; a link that leads nowhere counts as nothing."""
        try:
            await self._call("file.stat", path, follow=True)
        except FileError as error:
            if error.code in ("not_found", "not_a_directory"):
                return False
            raise
        return True

    async def list(self, path: StrPath = ".") -> builtins.list[FileStat]:
        """Return what is in a directory, sorted by name."""
        _, raw = await self._collect("file.list", {"path": os.fspath(path)}, READ_LIMIT)
        return await _parsed(raw, _stat)

    async def glob(self, pattern: str, *, root: StrPath = ".", limit: int = GLOB_LIMIT) -> builtins.list[str]:
        """Return the paths below *root* that match, sorted.

        ``*``, ``?`` and ``[...]`` match within a name and ``**`` any number of directories. Wildcards
        match no name that begins with a dot, unless the pattern does, and do not follow symbolic links to
        directories. A pattern that ends with a slash finds directories only.

        :raises FileError: ``too_large``; more than *limit* paths match
        """
        args: dict[str, Any] = {"path": os.fspath(root), "pattern": pattern, "limit": limit}
        body, raw = await self._collect("file.glob", args, READ_LIMIT)
        if body.get("truncated"):
            raise FileError(
                f"more than {limit} paths match {pattern}",
                path=args["path"],
                code="too_large",
                operation="file.glob",
                hint="Narrow the pattern, or raise the limit.",
            )
        return await _parsed(raw, _name)

    async def mkdir(self, path: StrPath, *, parents: bool = True) -> None:
        """Make a directory.

        :param parents: make missing ones above it too, and do not mind when it is there
        """
        await self._allow(path)
        await self._call("file.mkdir", path, parents=parents)

    async def remove(self, path: StrPath, *, recursive: bool = False) -> None:
        """Remove a file, an empty directory, or a symbolic link itself.

        :param recursive: remove a directory with all that is in it; links in it are not followed
        :raises FileError: ``unsafe_path`` for ``/``, the home directory, the cwd, and all above them
        """
        if recursive and self._approve_removal is not None:
            await self._approve_removal(os.fspath(path))
        await self._allow(path)
        await self._call("file.remove", path, recursive=recursive)

    async def move(self, src: StrPath, dst: StrPath) -> None:
        """Move like ``mv``: into *dst* when that is a directory, else to that name.

        A file that is there already is replaced.
        """
        await self._allow(src)
        await self._allow(dst)
        await self._call("file.move", src, to=os.fspath(dst))

    async def put(
        self,
        local: StrPath,
        remote: StrPath,
        *,
        on_progress: OnProgress | None = None,
        resume: bool = False,
    ) -> TransferStats:
        """Copy a file or a directory into the sandbox, missing directories above it being made.

        As with ``cp -r``, *remote* is where the copy goes when it is a directory or ends with a slash, and
        its name otherwise. A slash at the end of *local* means the content of that directory, which is
        merged into *remote*. Symbolic links in a tree stay links; modes and times are kept, owners and
        special bits not.

        :param on_progress: gets bytes done, bytes in all or None, and the path being copied
        :param resume: of a file of 4 MiB or more keep what has arrived when the copy is cut, and go on with
            what an earlier copy of the same file left; the whole is verified by its hash
        """
        source, target = os.fspath(local), os.fspath(remote)
        await self._allow(target)
        try:
            info = await asyncio.to_thread(os.stat, source)
        except (OSError, ValueError) as error:
            raise transfer.local_error(error, source, "files.put") from error
        args: dict[str, Any] = {"path": target, "parents": True}
        name = os.path.basename(source)
        if name not in ("", ".", ".."):
            args["into"] = transfer.wire_text(name)
        stats = Stats()
        if stat_bits.S_ISDIR(info.st_mode):
            total = None if on_progress is None else await asyncio.to_thread(transfer.tree_size, source)
            progress = Progress(on_progress, stats, total)
            body = await transfer.send(
                self._channel.open("tree.put", args),
                lambda put: archive.pack(os.fsencode(source), put, stats),
                source,
                stats,
                progress,
            )
            counts = {key: whole(body, key) for key in stats.counts()}
            return TransferStats(**{**counts, "skipped": stats.skipped, "changed": stats.changed})
        if not stat_bits.S_ISREG(info.st_mode):
            raise FileError(f"{source} is not a regular file", path=source, code="io", operation="files.put")
        stats.path = os.fsencode(name)
        if resume and info.st_size >= RESUME_FROM:
            await _resume.put(self._channel, source, info, args, stats, on_progress)
            return TransferStats(files=1, bytes=stats.bytes)
        args |= {"mode": info.st_mode & 0o777, "mtime_ns": info.st_mtime_ns, "stream": True}
        await transfer.send(
            self._channel.open("file.write", args),
            lambda put: transfer.load(put, source, stats),
            source,
            stats,
            Progress(on_progress, stats, info.st_size),
        )
        return TransferStats(files=1, bytes=stats.bytes)

    async def get(
        self,
        remote: StrPath,
        local: StrPath,
        *,
        on_progress: OnProgress | None = None,
        resume: bool = False,
    ) -> TransferStats:
        """Copy a file or a directory out of the sandbox; where it goes is as with :meth:`put`.

        A file appears at once when it is complete. Whatever the sandbox sends, nothing outside *local* is
        written: links in the tree stay links as they are, also those that lead elsewhere (``outside`` counts
        them), but nothing is written through a link, neither one that came nor one that was there before.

        :param on_progress: gets bytes done, bytes in all or None, and the path being copied
        :param resume: as with :meth:`put`
        """
        source, target = os.fspath(remote), os.fspath(local)
        found = await self._call("file.stat", source, follow=True)
        name = os.path.basename(source)
        if name not in ("", ".", "..") and (
            target.endswith("/") or await asyncio.to_thread(os.path.isdir, target)
        ):
            target = os.path.join(target, name)
        stats = Stats()
        if found.get("type") == "dir":
            progress = Progress(on_progress, stats)

            def unpack(get: Callable[[], bytes]) -> None:
                path = target.rstrip("/") or "/"
                os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
                archive.unpack(get, os.fsencode(path), stats)

            body = await transfer.receive(
                self._channel, "tree.get", {"path": source}, unpack, target, stats, progress
            )
            counts = stats.counts()
            return TransferStats(
                **{**counts, "skipped": whole(body, "skipped"), "changed": whole(body, "changed")}
            )
        size = whole(found, "size")
        facts = {"mode": whole(found, "mode"), "mtime_ns": whole(found, "mtime_ns")}
        stats.path = name.encode("utf-8", "surrogateescape")
        if resume and size >= RESUME_FROM:
            await _resume.get(self._channel, source, target, found, stats, on_progress)
            return TransferStats(files=1, bytes=stats.bytes)
        await transfer.receive(
            self._channel,
            "file.read",
            {"path": source, "n": size or None},
            lambda get: transfer.save(get, target, facts, size or READ_LIMIT, stats),
            target,
            stats,
            Progress(on_progress, stats, size or None),
        )
        return TransferStats(files=1, bytes=stats.bytes, changed=int(stats.bytes < size))

    async def _allow(self, path: StrPath) -> None:
        if self._approve is not None:
            await self._approve(os.fspath(path))

    async def _call(self, operation: str, path: StrPath, **args: Any) -> dict[str, Any]:
        return (await self._channel.call(operation, {"path": os.fspath(path), **args})).body

    async def _collect(
        self, operation: str, args: dict[str, Any], limit: int
    ) -> tuple[dict[str, Any], bytes]:
        """Make a call and return its answer's object and all bytes that came, *limit* at most."""
        stream = self._channel.open(operation, args)
        parts: builtins.list[bytes] = []
        size = 0
        try:
            async for _, data in stream:
                parts.append(data)
                size += len(data)
                if size > limit:
                    break
            else:
                body, raw = await stream.reply()
                parts.append(raw)
                size += len(raw)
            if size > limit:
                raise ProtocolError(f"the guest sent more than {limit} bytes", operation=operation)
            return body, b"".join(parts)
        finally:
            stream.cancel()

    async def _write(
        self, operation: str, path: StrPath, data: bytes | str | AsyncIterable[bytes], args: dict[str, Any]
    ) -> None:
        await self._allow(path)
        args["path"] = os.fspath(path)
        if isinstance(data, str):
            data = text_bytes(data, "the content")
        if isinstance(data, (bytes, bytearray, memoryview)):
            whole_data = bytes(data)
            if len(whole_data) <= SMALL:
                await self._channel.call(operation, args, whole_data)
                return
            data = _once(whole_data)
        stream = self._channel.open(operation, {**args, "stream": True})
        source = data

        async def pump() -> None:
            async for chunk in source:
                await stream.send(chunk)
            stream.send_eof()

        await transfer.feed(stream, pump())


async def _once(data: bytes) -> AsyncIterable[bytes]:
    yield data


def _stat(found: dict[str, Any]) -> FileStat:
    kind, target = found.get("type"), found.get("target")
    if kind not in ("file", "dir", "link", "other") or not isinstance(target, str | None):
        raise ProtocolError("the guest sent no facts about a file")
    return FileStat(
        name=_name(found.get("name")),
        type=kind,
        size=whole(found, "size"),
        mode=whole(found, "mode"),
        mtime=whole(found, "mtime_ns") / 1e9,
        target=target,
    )


def _name(found: Any) -> str:
    if not isinstance(found, str):
        raise ProtocolError("the guest sent no name")
    return found


async def _parsed(raw: bytes, make: Callable[[Any], T]) -> list[T]:
    def parse() -> list[T]:
        try:
            return [make(json.loads(line)) for line in raw.splitlines()]
        except (ValueError, RecursionError, AttributeError) as error:
            raise ProtocolError(f"the guest sent what is no list: {error}") from error

    return await asyncio.to_thread(parse) if len(raw) > SMALL else parse()
