"""What declared values were before they were renewed, which output may hold that was written with them.

A client that begins after the renewal has never seen them. So each leaves a trace in hermes's home: its first
two bytes, its length, and sixteen bits of a keyed hash. That tells it in a text, now and then something else
too, and is far too little to make it again or to try guesses on. Encoded they are found by what their first
two bytes become; what follows is decoded then, so that nothing more need be kept.
"""

from __future__ import annotations

import binascii
import contextlib
import functools
import hashlib
import os
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hermes._lazy import Lazy
from hermes.config import keep

from ._views import Found, automaton

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick

__all__ = ["FILE", "KEPT", "Former", "learn"]

FILE = "renewed.json"
KEPT = 4  # of a name, with what it is now
MOST = 100  # of a file
HEAD = 2
FIRST = (0, 2, 3)  # of a group in base64, the first character that is the value's alone, by its shift

_WITHIN = Lazy(rb"(?!%[0-9A-Fa-f]{2}).{0,2}[A-Za-z0-9]\Z", re.S)  # a word, but for the sign for another
_NOT_OVER = Lazy(rb"\S*\Z")
_BASE64 = Lazy(rb"[A-Za-z0-9+/_-]*")
_USUAL = bytes.maketrans(b"-_", b"+/")
_READABLE = Lazy(rb"[ -~]*\Z")


class _Trace(msgspec.Struct, frozen=True, array_like=True):
    head: str
    size: int
    mark: str


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    names: dict[str, list[list[_Trace]]]


class _Head(NamedTuple):
    """How a value begins in an encoding. ``shift``: so many bytes of three are before it; None: percent."""

    value: bytes
    shift: int | None


class Former:
    """What finds the values that there were before in a text."""

    def __init__(self, key: bytes, traces: Iterable[_Trace]) -> None:
        self._key = key
        marks: dict[bytes, dict[int, set[str]]] = {}
        for one in traces:
            marks.setdefault(bytes.fromhex(one.head), {}).setdefault(one.size, set()).add(one.mark)
        self._marks = {head: sorted(sizes.items(), reverse=True) for head, sizes in marks.items()}

    def __bool__(self) -> bool:
        return bool(self._marks)

    def find(self, text: bytes) -> tuple[list[Found], int]:
        """Return where they are, and where one may begin that goes on after the end, with its word."""
        found: list[Found] = []
        hold, done = len(text), 0
        if not self._marks:
            return found, hold
        heads, matcher = self._plain
        for which, start, _ in matcher.find_matches_as_indexes(text, overlapping=True):
            if _WITHIN.match(text, max(0, start - 3), start):
                continue
            for size, marks in self._marks[heads[which]]:
                if len(text) - start < size:
                    hold = min(hold, start) if _NOT_OVER.match(text, start) else hold
                elif start >= done and _mark(self._key, text[start : start + size]) in marks:
                    done = start + size
                    found.append((start, done))
                    break
        return found, hold

    def find_encoded(self, text: bytes) -> tuple[list[Found], int]:
        """Return the same of values in base64, and of those with percent signs. It has no line breaks."""
        found: list[Found] = []
        hold, done = len(text), 0
        if not self._marks:
            return found, hold
        heads, matcher = self._encoded
        signs = b"%" in text
        for which, start, _ in matcher.find_matches_as_indexes(text, overlapping=True):
            for head in heads[which]:
                if head.shift is None and not signs:
                    continue
                for size, marks in self._marks[head.value]:
                    if head.shift is None:
                        value, end = _unquoted(text, start, size)
                    else:
                        value, end = _decoded(text, start, size, head.shift)
                    if not value or not _READABLE.match(value):
                        continue
                    if len(value) < size:
                        hold = min(hold, start) if end == len(text) else hold
                    elif start >= done and _mark(self._key, value) in marks:
                        done = end
                        found.append((start, done))
                        break
        return found, hold

    @functools.cached_property
    def _plain(self) -> tuple[list[bytes], BytesAhoCorasick]:
        return list(self._marks), automaton(list(self._marks))

    @functools.cached_property
    def _encoded(self) -> tuple[list[list[_Head]], BytesAhoCorasick]:
        heads: dict[bytes, list[_Head]] = {}
        for value in self._marks:
            for text, shift in _encodings(value):
                heads.setdefault(text, []).append(_Head(value, shift))
        return list(heads.values()), automaton(list(heads))


def _encodings(value: bytes) -> Iterator[tuple[bytes, int | None]]:
    """Yield what the first two bytes become, as far as it depends on nothing else."""
    for shift, first in enumerate(FIRST):
        for encoded in {
            text := binascii.b2a_base64(b"\0" * shift + value + b"\0\0")[first : first + 2],
            text.replace(b"+", b"-").replace(b"/", b"_"),
        }:
            yield encoded, shift
    forms = [{value[at : at + 1], b"%%%02X" % value[at], b"%%%02x" % value[at]} for at in range(HEAD)]
    for one in forms[0]:
        for two in forms[1] | ({b"+"} if value[1:] == b" " else set()):
            yield one + two, None


def _decoded(text: bytes, start: int, size: int, shift: int) -> tuple[bytes, int]:
    """Return what is encoded in base64 there, as much of it as there is, and where it ends.

    :param start: where the first character is that is the value's alone
    """
    first = FIRST[shift]
    most = -(-(shift + size) * 4 // 3) - first
    run = _BASE64.match(text, start, start + most)
    assert run is not None
    digits, end = run[0], run.end()
    if len(digits) < most and end < len(text):
        return b"", start
    if shift:  # the character before it has some bits of it
        if start == 0 or not _BASE64.fullmatch(text, start - 1, start):
            return b"", start
        digits = b"A" * (first - 1) + text[start - 1 : start] + digits
    data = binascii.a2b_base64(digits.translate(_USUAL) + b"A" * (-len(digits) % 4))
    value = data[shift : len(digits) * 3 // 4][:size]
    return value, end if len(value) < size else start + (shift + size) * 4 // 3 - first


def _unquoted(text: bytes, start: int, size: int) -> tuple[bytes, int]:
    """Return what is written with percent signs there, nothing where it has none."""
    run = _quoted(size).match(text, start)
    if run is None or b"%" not in run[0]:
        return b"", start
    value = urllib.parse.unquote_to_bytes(run[1])
    return value, run.end(1) if len(value) == size else run.end()


@functools.cache
def _quoted(size: int) -> re.Pattern[bytes]:
    return re.compile(rb"((?:%%[0-9A-Fa-f]{2}|[^%%\s]){2,%d})(?:%%[0-9A-Fa-f]?\Z)?" % size)


def learn(home: Path, values: Mapping[str, set[bytes]]) -> Former:
    """Note what declared values are now, by name, and return what finds those of before. Blocks.

    Where that cannot be noted, output is searched for what is known.
    """
    path = home / "state" / FILE
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
        key = bytes.fromhex(kept.key)
    except (OSError, ValueError):
        kept, key = _Kept("", {}), os.urandom(16)
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
