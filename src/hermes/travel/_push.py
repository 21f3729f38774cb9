"""Bringing into a sandbox what changed here, in one transfer."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hermes import _transfer as transfer
from hermes._transfer import Progress
from hermes.errors import FileError
from hermes.files import Files
from hermes.guest.archive import Stats
from hermes.workspace._facts import Facts
from hermes.workspace._there import There, digest, scan

from ._here import SKILLS, Here
from ._wire import Parcel, Sent, folders, hashed, note_path, noted, pack

if TYPE_CHECKING:
    from . import Travel

IN_THE_WAY = "something else of that name is there"


async def push(travel: Travel, here: Here) -> None:
    """Bring there what changed here.

    :raises FileError: something could not be written there
    """
    mine = await asyncio.to_thread(hashed, here)
    most = travel.trees[0].limits.file
    targets = {tree.target(path): (tree, path) for tree, files in mine.items() for path in files}
    sent, (there, known) = await asyncio.gather(
        noted(travel.channel, travel.home, travel.mark), _looked(travel, list(targets), most)
    )
    gone = {}
    for tree in travel.trees:
        for key in sent:
            name, _, path = key.partition("/")
            if name == tree.name and path not in here.files[tree]:
                gone[tree.target(path)] = key
    gone = {target: key for target, key in gone.items() if target not in targets}
    if gone:
        _, lost = await _looked(travel, list(gone), most)
        await _remove(travel, [t for t, key in gone.items() if lost.get(t) == sent[key][0]])
    notes: Sent = {}
    parcels, kept = [], []
    for target, (tree, path) in targets.items():
        key, facts, found = f"{tree.name}/{path}", mine[tree][path], there.files.get(target)
        wish, was = (facts.content, bool(facts.mode & 0o100)), sent.get(key)
        if any(folder in there.files for folder in folders([target])):
            kept.append((target, "a link or a file is in the way"))
        elif target in there.folders or (found is not None and found.kind != "file"):
            kept.append((target, IN_THE_WAY))
        elif found is None and was is not None and was == wish:
            notes[key] = was  # it was removed inside
        elif found is not None and known.get(target) == wish[0]:
            notes[key] = wish
            if was is not None and was[1] != wish[1]:
                parcels.append(Parcel(target, key, here.files[tree][path]))
        elif found is None or (was is not None and known.get(target) == was[0]):
            parcels.append(Parcel(target, key, here.files[tree][path]))
        else:
            if was is not None:
                notes[key] = was
            if was != wish:
                kept.append((target, "it changed there too" if was else "another one is there"))
    if parcels or notes != sent:
        await _send(travel, parcels, notes, there)
    await travel.channel.call("note", {"key": travel.mark, "text": here.stamp})
    travel.stamp = here.stamp
    _tell(kept, "was not brought inside, where it is as it was")
    _tell(list(here.left.items()), "stays here")


async def _looked(travel: Travel, targets: list[str], most: int) -> tuple[There, Mapping[str, str]]:
    """Return what is at some places in the home, and the hashes of those that are files of that size."""
    there = There(files=dict.fromkeys(targets, Facts("file", 0, 0, (0, 0))))
    found, _ = await asyncio.gather(
        scan(travel.channel, travel.home, {}, [*targets, *folders(targets)]),
        digest(travel.channel, travel.home, there, targets, most=most),
    )
    return found, {path: facts.content for path, facts in there.files.items() if facts.content}


async def _send(travel: Travel, parcels: list[Parcel], notes: Sent, there: There) -> None:
    stats = Stats()
    above = folders([*(one.target for one in parcels), note_path(travel.mark)])
    made = [one for one in above if one not in there.folders]
    await transfer.send(
        travel.channel.open("tree.put", {"path": travel.home}),
        lambda put: pack(put, made, parcels, notes, travel.mark),
        travel.trees[0].root,
        stats,
        Progress(None, stats),
    )


async def _remove(travel: Travel, targets: list[str]) -> None:
    own = f".hermes/{SKILLS}/"
    files = Files(travel.channel)
    above = [one for one in folders(targets) if one.startswith(own)]
    for path in (*targets, *reversed(above)):
        # It may be gone already, or a directory that has something else in it.
        with contextlib.suppress(FileError):
            await files.remove(f"{travel.home}/{path}")


def _tell(some: list[tuple[str, str]], what: str) -> None:
    if some:
        (path, why), more = some[0], len(some) - 1
        warnings.warn(
            f"{path} {what}: {why}" + (f"; so it is with {more} more" if more else ""), stacklevel=5
        )
