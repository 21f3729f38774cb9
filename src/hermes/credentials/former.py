"""What declared values were before they were renewed, which output may hold that was written with them.

A client that begins after the renewal has never seen them. So each leaves a trace in hermes's home: its first
two bytes, its length, and sixteen bits of a keyed hash. That tells it in a text, now and then something else
too, and is far too little to make it again or to try guesses on.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from hermes.config import keep

__all__ = ["FILE", "KEPT", "Former", "learn"]

FILE = "renewed.json"
KEPT = 4  # of a name, with what it is now
MOST = 100  # of a file
HEAD = 2

_NOT_OVER = re.compile(rb"\S*\Z")


class _Trace(msgspec.Struct, frozen=True, array_like=True):
    head: str
    size: int
    mark: str


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    names: dict[str, list[list[_Trace]]]


class Former:
    """What finds the values that there were before in a text."""

    def __init__(self, key: bytes, traces: Iterable[_Trace]) -> None:
        self._key = key
        self._marks: dict[bytes, dict[int, set[str]]] = {}
        for one in traces:
            sizes = self._marks.setdefault(bytes.fromhex(one.head), {})
            sizes.setdefault(one.size, set()).add(one.mark)
        heads = b"|".join(map(re.escape, self._marks))
        self._heads = re.compile(rb"(?<![A-Za-z0-9])(?:%s)" % heads) if heads else None

    def __bool__(self) -> bool:
        return self._heads is not None

    def find(self, text: bytes) -> tuple[list[tuple[int, int]], int]:
        """Return where they are, and where one may begin that goes on after the end, with its word."""
        found, hold, done = [], len(text), 0
        for head in self._heads.finditer(text) if self._heads is not None else ():
            start = head.start()
            for size, marks in sorted(self._marks[head[0]].items(), reverse=True):
                if len(text) - start < size:
                    hold = min(hold, start) if _NOT_OVER.match(text, start) else hold
                elif start >= done and _mark(self._key, text[start : start + size]) in marks:
                    done = start + size
                    found.append((start, done))
                    break
        return found, hold


def learn(home: Path, values: Mapping[str, set[bytes]]) -> Former:
    """Note what declared values are now, by name, and return what finds those of before. Blocks.

    Where that cannot be noted, output is searched for what is known.
    """
    path = home / "state" / FILE
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
        key = bytes.fromhex(kept.key)
    except (OSError, ValueError):
        kept, key = _Kept("", {}), secrets.token_bytes(16)
        kept.key = key.hex()
    changed = False
    for name, some in values.items():
        now = sorted((_trace(key, one) for one in sorted(some)[:MOST]), key=lambda one: one.mark)
        before = kept.names.setdefault(name, [])
        if now and (not before or before[-1] != now):
            before[:] = [*(one for one in before if one != now), now][-KEPT:]
            changed = True
    if changed:
        with contextlib.suppress(OSError):
            keep(path, msgspec.json.encode(kept))
    past = {one for sets in kept.names.values() for some in sets[:-1] for one in some}
    return Former(key, past.difference(*(sets[-1] for sets in kept.names.values() if sets)))


def _trace(key: bytes, value: bytes) -> _Trace:
    return _Trace(value[:HEAD].hex(), len(value), _mark(key, value))


def _mark(key: bytes, value: bytes) -> str:
    return hashlib.blake2b(value, key=key, digest_size=2).hexdigest()
