"""Carrying out what was planned: files from inside to here, and from here to inside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from hermes import _transfer as transfer
from hermes._transfer import OnProgress, Progress
from hermes.errors import FileError
from hermes.files import Files
from hermes.guest.archive import Stats

from ._facts import Entry, Facts, Manifest, parents
from ._here import Here
from ._plan import Change, Outcome, Sides, in_order
from ._send import send
from ._there import digest, scan
from ._write import Moved, Writer, said

if TYPE_CHECKING:
    from hermes.channel.channel import Channel

FETCH_FILES = 500
FETCH_BYTES = 64 << 20

Done = Callable[[str, Facts | None, str], None]


def note_same(manifest: Manifest, paths: Iterable[str], sides: Sides) -> None:
    """Note that both sides are the same now."""
    for path in paths:
        here, there = sides.here.get(path), sides.there.get(path)
        if here is None or there is None:
            manifest.entries.pop(path, None)
        else:
            manifest.entries[path] = Entry(here, there)


async def take(
    channel: Channel,
    inside: str,
    plan: Outcome,
    sides: Sides,
    manifest: Manifest,
    on_progress: OnProgress | None,
) -> None:
    """Bring here what ``plan.done`` names. What could not be written moves to ``plan.failed``."""
    changes = {one.path: one for one in plan.done}
    plan.done = []
    progress = Progress(on_progress, Stats(), sum(one.size for one in changes.values()))

    def done(path: str, now: Facts | None, why: str) -> None:
        one = changes.pop(path)
        if why:
            plan.failed.append(msgspec.structs.replace(one, note=why))
            return
        plan.done.append(one)
        if now is None:
            manifest.entries.pop(path, None)
        else:
            manifest.entries[path] = Entry(now, sides.there[path])

    gone = [path for path in sorted(changes, reverse=True) if path not in sides.there]
    coming = in_order([path for path in changes if path in sides.there], sides.there)
    links = [path for path in coming if sides.there[path].kind == "link"]
    writer = await asyncio.to_thread(Writer, manifest.root)
    try:
        await asyncio.to_thread(_remove_here, writer, gone, sides, done)
        for batch in _batches([path for path in coming if sides.there[path].kind == "file"], sides.there):
            try:
                await _fetch(channel, inside, writer, batch, sides, done, progress)
                why = "it is gone inside by now"
            except FileError as error:
                why = error.message
            for path in batch:
                if path in changes:
                    done(path, None, why)
        await asyncio.to_thread(_link_here, writer, links, sides, done)
    finally:
        await asyncio.shield(asyncio.to_thread(writer.close))


async def _fetch(
    channel: Channel,
    inside: str,
    writer: Writer,
    batch: list[str],
    sides: Sides,
    done: Done,
    progress: Progress,
) -> None:
    files = {path: sides.there[path] for path in batch}

    def each(path: str, now: Facts | None, why: str) -> None:
        progress.stats.bytes += files[path].size
        progress.stats.path = path.encode("utf-8", "surrogateescape")
        done(path, now, why)

    await transfer.receive(
        channel,
        "tree.get",
        {"path": inside, "names": batch},
        lambda get: writer.take(get, files, sides.here, each),
        inside,
        Stats(),
        progress,
    )


def _remove_here(writer: Writer, paths: list[str], sides: Sides, done: Done) -> None:
    for path in paths:
        try:
            writer.remove(path, sides.here.get(path), sides.folders.__contains__)
        except (OSError, Moved) as error:
            done(path, None, said(error))
        else:
            done(path, None, "")


def _link_here(writer: Writer, paths: list[str], sides: Sides, done: Done) -> None:
    for path in paths:
        try:
            now = writer.link(path, sides.there[path], sides.here.get(path))
        except (OSError, Moved) as error:
            done(path, None, said(error))
        else:
            done(path, now, "")


def _batches(paths: list[str], files: dict[str, Facts]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for path in paths:
        batch.append(path)
        size += files[path].size
        if len(batch) >= FETCH_FILES or size >= FETCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


async def give(
    channel: Channel,
    inside: str,
    plan: Outcome,
    sides: Sides,
    manifest: Manifest,
    say: Callable[[str], None] | None,
) -> None:
    """Bring inside what ``plan.done`` names. What did not arrive as it is here moves to ``plan.failed``."""
    changes, plan.done = plan.done, []
    paths = [one.path for one in changes if one.path in sides.here]
    files = Files(channel)
    try:
        for one in changes:
            if one.path not in sides.here:
                await _remove_inside(files, f"{inside}/{one.path}")
        here = Here(sides.here, dict.fromkeys((one for path in paths for one in parents(path)), 0o755))
        folders = [path for path in here.folders if path not in sides.folders]
        await send(channel, manifest.root, inside, here, paths, folders, say)
    finally:
        await asyncio.shield(_verify(channel, inside, plan, changes, sides, manifest))


async def _remove_inside(files: Files, path: str) -> None:
    try:
        await files.remove(path)
    except FileError as error:
        if error.code not in ("not_found", "not_a_directory", "exists"):
            raise


async def _verify(
    channel: Channel, inside: str, plan: Outcome, changes: list[Change], sides: Sides, manifest: Manifest
) -> None:
    """Look at what has arrived, and note it."""
    found = await scan(channel, inside, {})
    sent = [one.path for one in changes if one.path in found.files]
    await digest(channel, inside, found, [path for path in sent if found.files[path].kind == "file"])
    after = Sides(base={}, here=sides.here, there=found.files)
    for one in changes:
        if after.alike(one.path):
            plan.done.append(one)
            note_same(manifest, [one.path], after)
        else:
            plan.failed.append(msgspec.structs.replace(one, note="it is not inside as it is here"))
