"""The files of a workspace inside a sandbox, as the guest tells them: hostile input, checked here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.errors import ProtocolError

from ._facts import MOST_FILE, MOST_READ, Entry, Facts

if TYPE_CHECKING:
    from hermes.channel.channel import Channel

MAX_BYTES = 1 << 28  # of a list
MAX_FILES = 1_000_000
MAX_NAME = 255
MAX_PATH = 4000
BATCH = 1 << 18  # bytes of names in one call
HEX = frozenset("0123456789abcdef")


@dataclass
class There:
    """What there is: files, links and whatever else by path, and directories; none may look into ``shut``."""

    files: dict[str, Facts] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    shut: set[str] = field(default_factory=set)


async def scan(
    channel: Channel, root: str, known: Mapping[str, Entry], names: list[str] | None = None
) -> There:
    """Return what is below a directory inside; a file's content is known when its dates are.

    :param names: look for these in it, and not below them
    :raises FileError: there is no such directory
    :raises ProtocolError: what came makes no sense
    """
    raw = await _lines(channel, "tree.scan", {"path": root, **({} if names is None else {"names": names})})
    return await asyncio.to_thread(_parse, raw, known)


async def digest(
    channel: Channel, root: str, there: There, names: list[str], *, most: int | None = None
) -> None:
    """Fill in the content of files, one that cannot be read being nothing that can be fetched.

    :param most: bytes of a file that are read; a larger one cannot be
    """
    limit = {"most": MOST_FILE if most is None else most}
    left, kept = MOST_READ, []
    for name in names:
        facts = there.files[name]
        if facts.size > limit["most"] or facts.size > left:
            there.files[name] = Facts("other", 0, facts.mode, facts.times)
        else:
            left -= facts.size
            kept.append(name)
    for some in _batches(kept):
        raw = await _lines(channel, "tree.digest", {"path": root, "names": some, **limit})
        for name, found in zip(some, _digests(raw, len(some)), strict=True):
            facts = there.files[name]
            there.files[name] = (
                facts.with_content(found) if found else Facts("other", 0, facts.mode, facts.times)
            )


def _batches(names: list[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for name in names:
        batch.append(name)
        size += len(name) + 4
        if size > BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


async def _lines(channel: Channel, operation: str, args: dict[str, Any]) -> bytes:
    stream = channel.open(operation, args)
    parts: list[bytes] = []
    size = 0
    try:
        async for _, data in stream:
            parts.append(data)
            size += len(data)
            if size > MAX_BYTES:
                raise ProtocolError(f"the guest sent more than {MAX_BYTES} bytes", operation=operation)
        parts.append((await stream.reply()).raw)
        return b"".join(parts)
    finally:
        stream.cancel()


def _parse(raw: bytes, known: Mapping[str, Entry]) -> There:
    found = There()
    for line in raw.splitlines():
        try:
            name, kind, size, mode, (mtime, ctime), target = json.loads(line)
        except (ValueError, TypeError, RecursionError) as error:
            raise ProtocolError(f"the guest sent what is no list of files: {error}") from error
        _check(name, kind, (size, mode, mtime, ctime), target)
        if kind == "shut":
            found.shut.add(name)
            continue
        if name in found.files or name in found.folders or len(found.files) >= MAX_FILES:
            raise ProtocolError("the guest sent a file twice, or too many")
        if kind == "dir":
            found.folders.add(name)
            continue
        facts = Facts(kind, size if kind == "file" else 0, mode & 0o7777, (mtime, ctime))
        entry = known.get(name)
        if kind == "link":
            facts = facts.with_content(target)
        elif entry is not None and facts.untouched(entry.there):
            facts = facts.with_content(entry.there.content)
        found.files[name] = facts
    return found


def _check(name: Any, kind: Any, numbers: tuple[Any, ...], target: Any) -> None:
    good = isinstance(name, str) and len(name) <= MAX_PATH and "\0" not in name
    good = good and all(part not in ("", ".", "..") and len(part) <= MAX_NAME for part in name.split("/"))
    good = good and kind in ("file", "link", "dir", "other", "shut")
    good = good and all(type(number) is int and not abs(number) >> 63 for number in numbers)
    good = good and numbers[0] >= 0
    if kind == "link":
        good = good and isinstance(target, str) and 0 < len(target) <= MAX_PATH and "\0" not in target
    if good:
        try:
            for text in (name, target or ""):
                text.encode("utf-8", "surrogateescape")
        except (UnicodeError, AttributeError):
            good = False
    if not good:
        raise ProtocolError("the guest sent a file that cannot be")


def _digests(raw: bytes, count: int) -> list[str | None]:
    try:
        found = [json.loads(line) for line in raw.splitlines()]
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the guest sent what are no hashes: {error}") from error
    good = len(found) == count and all(
        one is None or (isinstance(one, str) and len(one) == 64 and HEX.issuperset(one)) for one in found
    )
    if not good:
        raise ProtocolError("the guest sent what are no hashes")
    return found
