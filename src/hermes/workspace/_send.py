"""Files of a workspace on their way into the sandbox: in batches, so that what has arrived stays."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from hermes import _resume
from hermes import _transfer as transfer
from hermes._resume import RESUME_FROM
from hermes._transfer import Progress
from hermes.errors import FileError
from hermes.guest import archive
from hermes.guest.archive import BLOCK, Stats

from ._facts import Entry, Facts, Manifest, same
from ._here import Here, look
from ._ignore import Rules
from ._there import digest, scan

if TYPE_CHECKING:
    from hermes.channel.channel import Channel

BATCH_FILES = 1000
BATCH_BYTES = 32 << 20
ROUNDS = 4
SAY_EVERY = 1.0  # seconds


class Meter:
    """Says now and then how much of a copy is done."""

    def __init__(self, say: Callable[[str], None] | None, what: str, files: int, total: int) -> None:
        self._say = say
        self._what = what
        self._files = files
        self._total = total
        self._last = 0.0
        self.done = 0

    def show(self, more: int = 0, *, final: bool = False) -> None:
        now = time.monotonic()
        if self._say is not None and (final or now - self._last > SAY_EVERY):
            self._last = now
            done, total = (f"{count / (1 << 20):.1f}" for count in (self.done + more, self._total))
            self._say(f"{self._what}: {done} of {total} MiB, {self._files} files")


async def walked(root: str, rules: Rules, known: Mapping[str, Facts]) -> Here:
    """Return what is here, looked at in a thread, which ends when the caller is cancelled."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(look, root, rules, known, stop=stop)
    except OSError as error:
        raise transfer.local_error(error, root, "workspace") from error
    finally:
        stop.set()


async def copy_in(
    channel: Channel, root: str, inside: str, say: Callable[[str], None] | None
) -> tuple[Manifest, dict[str, str]]:
    """Make the directory *inside* hold what *root* does; return what is the same now, and what was left out.

    What is there already is compared by its hash, so that a copy that was cut goes on. What is there and not
    here stays.

    :raises FileError: either side could not go on, or the files here never stay the same
    """
    if say is not None:
        say(f"looking at the files of {root}")
    rules = await asyncio.to_thread(Rules, root)
    here = Here()
    for turn in range(ROUNDS):
        here = await walked(root, rules, here.files)
        there = await scan(channel, inside, {})
        both = [path for path in here.files if _alike(here.files[path], there.files.get(path))]
        await digest(channel, inside, there, both)
        missing = [path for path, facts in here.files.items() if not same(facts, there.files.get(path))]
        folders = [path for path in here.folders if path not in there.folders]
        if not missing and not folders:
            break
        if turn == ROUNDS - 1:
            raise FileError(
                f"{missing[0] if missing else folders[0]} never stays the same, so that it cannot be copied",
                path=root,
                code="io",
                operation="workspace",
                hint="Stop what writes to it, or name it in .hermesignore.",
            )
        await send(channel, root, inside, here, missing, folders, say)
    entries = {path: Entry(facts, there.files[path]) for path, facts in here.files.items()}
    return Manifest(root=root, entries=entries), here.skipped


def _alike(here: Facts, there: Facts | None) -> bool:
    return there is not None and here.kind == there.kind == "file" and here.size == there.size


async def send(
    channel: Channel,
    root: str,
    inside: str,
    here: Here,
    paths: list[str],
    folders: list[str],
    say: Callable[[str], None] | None,
) -> None:
    """Send files and links, and directories first.

    :raises FileError: either side could not go on; what has arrived stays
    """
    total = sum(here.files[path].size for path in paths)
    meter = Meter(say, f"copying {root}", len(paths), total)
    meter.show()
    if folders:
        await _tree(channel, root, inside, lambda put, _: put(_folders(here, folders)), Stats(), meter)
    for batch in _batches(paths, here.files):
        stats = Stats()
        if here.files[batch[0]].size >= RESUME_FROM:
            await _big(channel, root, inside, batch[0], stats, meter)
        else:
            names = [_bytes(path) for path in batch]
            await _tree(
                channel,
                root,
                inside,
                lambda put, counted, names=names: archive.pack(os.fsencode(root), put, counted, names),  # type: ignore[misc]
                stats,
                meter,
            )
        meter.done += stats.bytes
    meter.show(final=True)


async def _tree(
    channel: Channel,
    root: str,
    inside: str,
    pack: Callable[[Callable[[bytes], None], Stats], None],
    stats: Stats,
    meter: Meter,
) -> None:
    progress = Progress(lambda done, *_: meter.show(done), stats)
    stream = channel.open("tree.put", {"path": inside})
    await transfer.send(stream, lambda put: pack(put, stats), root, stats, progress)


async def _big(channel: Channel, root: str, inside: str, path: str, stats: Stats, meter: Meter) -> None:
    source = os.path.join(root, os.fsdecode(_bytes(path)))
    try:
        info = await asyncio.to_thread(os.lstat, source)
    except FileNotFoundError:
        return  # the next look finds it gone
    args = {"path": f"{inside}/{path}"}
    await _resume.put(channel, source, info, args, stats, lambda done, *_: meter.show(done))


def _folders(here: Here, folders: Iterable[str]) -> bytes:
    """Return directories as a stream; all can be written to, or else nothing could be put into them."""
    now = time.time_ns()
    heads = [
        archive.header(_bytes(path), b"5", here.folders[path] | 0o700, 0, now) for path in sorted(folders)
    ]
    return b"".join(heads) + bytes(2 * BLOCK)


def _batches(paths: list[str], files: Mapping[str, Facts]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for path in paths:
        own = files[path].size
        if own >= RESUME_FROM:
            yield [path]
            continue
        batch.append(path)
        size += own
        if len(batch) >= BATCH_FILES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
