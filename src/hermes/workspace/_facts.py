"""What is known of the files of a copied workspace: here, inside, and when both were last the same."""

from __future__ import annotations

import functools
import json
import unicodedata
from collections.abc import Iterable
from typing import Literal

import msgspec

MOST_FILE = 16 << 30
MOST_READ = 64 << 30
"""Bytes of a file, and of all in one look, that are read to be compared: one with holes may have any size."""
TOO_LARGE = f"it has more than {MOST_FILE >> 30} GiB, which is not compared"

Kind = Literal["file", "link", "dir", "other"]

OURS = ".hermes-"  # what a copy that is under way is called


class Facts(msgspec.Struct, frozen=True, array_like=True):
    """A file or a link: ``times`` are mtime and ctime, ``content`` a file's hash or a link's target."""

    kind: Kind
    size: int
    mode: int
    times: tuple[int, int]
    content: str = ""

    def untouched(self, then: Facts) -> bool:
        """Return whether nobody has written to it since, as far as its dates say."""
        return (self.kind, self.size, self.times) == (then.kind, then.size, then.times)

    def with_content(self, content: str) -> Facts:
        return msgspec.structs.replace(self, content=content)


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A file that was the same on both sides."""

    here: Facts
    there: Facts


class Manifest(msgspec.Struct, kw_only=True):
    """What was the same on both sides, by path. ``root`` is the directory here."""

    root: str
    version: int = 1
    entries: dict[str, Entry] = msgspec.field(default_factory=dict)

    def encode(self) -> bytes:
        # Names that are no UTF-8 hold surrogates, which only this encoder takes.
        return json.dumps(msgspec.to_builtins(self)).encode("ascii")

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Return what was encoded.

        :raises ValueError: it is something else
        """
        return msgspec.convert(json.loads(data), cls)


def same(one: Facts | None, other: Facts | None) -> bool:
    """Return whether both are the same for a user: content, target, and whether it can be executed.

    Other bits of the mode depend on the umask and the file system.
    """
    if one is None or other is None:
        return one is other
    if (one.kind, one.content) != (other.kind, other.content) or one.kind == "other":
        return False
    return one.kind != "file" or bool(one.mode & 0o100) == bool(other.mode & 0o100)


def parents(path: str) -> Iterable[str]:
    """Yield the directories that a path lies in, the outermost first."""
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


@functools.lru_cache(maxsize=1 << 16)
def fold(name: str) -> str:
    """Return what a file system that does not tell case, or forms of a letter, takes a name for."""
    if name.isascii():
        return name.lower().rstrip(". ")
    plain = "".join(c for c in unicodedata.normalize("NFC", name) if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFC", plain.casefold()).rstrip(". ")
