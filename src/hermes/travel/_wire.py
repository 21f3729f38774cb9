"""What was brought into a sandbox's home: noted beside it, so that it is true of a home that was put back."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hermes.errors import FileError
from hermes.files import Files
from hermes.guest.archive import BLOCK, CHUNK, header, padded
from hermes.workspace._facts import Entry, Facts, parents

from ._here import Here, Mine, Tree

if TYPE_CHECKING:
    from hermes.channel.channel import Channel

MAX_NOTES = 16 << 20

Sent = dict[str, tuple[str, bool]]
"""By ``tree/path``: hash of the content, and whether it can be executed."""


class Parcel(NamedTuple):
    """One file on its way: where it goes, and what it is noted as."""

    target: str
    key: str
    mine: Mine


def hashed(here: Here) -> dict[Tree, dict[str, Facts]]:
    """Return what is here with the content's hash; what cannot be read is not there. Blocks."""
    return {
        tree: {
            path: Facts("file", one.size, one.mode, one.times, content)
            for path, one in files.items()
            if (content := _hash(one.real)) is not None
        }
        for tree, files in here.files.items()
    }


def _hash(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def folders(targets: list[str]) -> list[str]:
    """Return the directories that targets lie in, the outer ones first."""
    return sorted({folder for target in targets for folder in parents(target)})


def note_path(mark: str) -> str:
    return f".hermes/.sent-{mark}.json"


async def noted(channel: Channel, inside: str, mark: str) -> Sent:
    """Return what was brought into a home; nothing when that is not known. The sandbox may have changed it:
    it decides only what of the user's own is sent again, and what is shown as changed.
    """
    try:
        data = await Files(channel).read(f"{inside}/{note_path(mark)}", n=MAX_NOTES)
        found = msgspec.convert(json.loads(data), Sent)
    except (FileError, ValueError, RecursionError):
        return {}
    return {key: one for key, one in found.items() if not {"", ".", ".."}.intersection(key.split("/"))}


def entry(sent: tuple[str, bool]) -> Entry:
    facts = Facts("file", 0, 0o755 if sent[1] else 0o644, (0, 0), sent[0])
    return Entry(facts, facts)


def pack(
    put: Callable[[bytes], None],
    folders: list[str],
    parcels: list[Parcel],
    sent: Sent,
    mark: str,
) -> None:
    """Give a tree to *put*: directories, files, and last the note of what is there then. Blocks."""
    now = time.time_ns()
    held = bytearray()
    for folder in folders:
        held += header(_bytes(folder), b"5", 0o700 if folder == ".hermes" else 0o755, 0, now)
    notes = dict(sent)
    for parcel in parcels:
        try:
            with open(parcel.mine.real, "rb") as file:
                data = file.read()
        except OSError:
            continue  # it went meanwhile, which the next look finds
        mine = parcel.mine
        held += header(_bytes(parcel.target), b"0", mine.mode | 0o600, len(data), mine.times[0]) + padded(
            data
        )
        notes[parcel.key] = (hashlib.sha256(data).hexdigest(), bool(mine.mode & 0o100))
        if len(held) >= CHUNK:
            put(bytes(held))
            held.clear()
    text = json.dumps(notes).encode("ascii")
    held += header(_bytes(note_path(mark)), b"0", 0o600, len(text), now) + padded(text)
    put(bytes(held) + bytes(2 * BLOCK))


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
