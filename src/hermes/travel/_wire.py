"""What was brought into a sandbox's home: noted beside it, so that it is true of a home that was put back."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hermes.config import home
from hermes.errors import FileError
from hermes.files import Files
from hermes.guest.archive import BLOCK, header
from hermes.workspace._facts import Entry, Facts

from ._here import Mine

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


def mark() -> str:
    """Return what tells the notes of this hermes home from those of others in the same sandbox. Blocks."""
    text = f"{platform.node()}\0{os.path.realpath(home())}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def note_path(mark: str) -> str:
    return f".hermes/.sent-{mark}.json"


async def noted(channel: Channel, inside: str, mark: str) -> Sent:
    """Return what was brought into a home; nothing when that is not known. The sandbox may have changed it:
    it decides only what of the user's own is sent again, and what is shown as changed.
    """
    try:
        data = await Files(channel).read(f"{inside}/{note_path(mark)}", n=MAX_NOTES)
        return msgspec.convert(json.loads(data), Sent)
    except (FileError, ValueError, RecursionError):
        return {}


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
    for folder in folders:
        put(header(_bytes(folder), b"5", 0o700 if folder == ".hermes" else 0o755, 0, now))
    notes = dict(sent)
    for parcel in parcels:
        try:
            with open(parcel.mine.real, "rb") as file:
                data = file.read()
        except OSError:
            continue  # it went meanwhile, which the next look finds
        facts = parcel.mine.facts
        put(header(_bytes(parcel.target), b"0", facts.mode | 0o600, len(data), facts.times[0]))
        put(data + bytes(-len(data) % BLOCK))
        notes[parcel.key] = (hashlib.sha256(data).hexdigest(), bool(facts.mode & 0o100))
    text = json.dumps(notes).encode("ascii")
    put(header(_bytes(note_path(mark)), b"0", 0o600, len(text), now))
    put(text + bytes(-len(text) % BLOCK + 2 * BLOCK))


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
