"""A text as it is looked at: without the codes for a terminal, without line breaks, and where the rest was.

All codes of a text are found in one pass: with many of them that is most of the time it takes.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick

__all__ = ["Bare", "Found", "View", "automaton", "begins", "codes", "opened"]

Found = tuple[int, int]  # where it begins and ends

BLOCK = 1 << 11
NEAR = 64
LONGEST = 5000  # of a code

CARRIED = 4096  # by a title or a link

# Such as reset, and what tput writes to end what is bold: another set of characters. Save and restore.
SHORT = rb"[ -/]{0,4}[:-Z\\^-~]|[()]0|[78]"

_CODE = rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,%d}(?:\x07|\x1b\\)|%s)" % (
    CARRIED,
    SHORT,
)


@functools.cache
def codes() -> re.Pattern[bytes]:
    """Return the expression for any code."""
    return re.compile(_CODE)


@functools.cache
def _parted() -> re.Pattern[bytes]:
    return re.compile(rb"(%s)" % _CODE)


@functools.cache
def _begun() -> re.Pattern[bytes]:
    return re.compile(rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|\][^\x07\x1b]{0,%d}\x1b?|[ -/]{1,4})?\Z" % CARRIED)


def opened(data: bytes) -> int:
    """Return where a code begins that is not whole yet, or where the text ends."""
    first = max(0, len(data) - LONGEST)
    at = data.rfind(b"\x1b", first)
    if at < 0:
        return len(data)
    if at == len(data) - 1:  # it may be half of another's end
        before = data.rfind(b"\x1b", first, at)
        if before >= 0 and _begun().match(data, before):
            return before
    return at if _begun().match(data, at) else len(data)


def begins(text: bytes, bare: int, raw: int) -> int | None:
    """Return where the end of a text begins that has so many characters without codes, and with them.

    Line breaks do not count. It begins in no code. None: near the end is what only begins like a code.
    """
    at = place = hold = len(text)
    while raw and hold:
        hold -= 1
        raw -= text[hold] not in b"\r\n"
    while bare or hold < at:
        start = text.rfind(b"\x1b", 0, at)
        code = codes().match(text, start) if start >= 0 else None
        if code is not None and code[0] == b"\x1b\\":  # it may be the end of a longer one
            before = text.rfind(b"\x1b", 0, start)
            longer = codes().match(text, before) if before >= 0 else None
            if longer is not None and longer.end() == code.end():
                start, code = before, longer
        if code is None:
            return None
        end = code.end()
        while bare and at > end:
            at -= 1
            bare -= text[at] not in b"\r\n"
            place = at
        if start < hold < end:
            hold = start
        at = start if bare or hold < end else hold
    return min(place, hold)


class Bare:
    """A text without its codes. ``codes``: whether there are any."""

    def __init__(self, data: bytes) -> None:
        self.codes = b"\x1b" in data
        self._data = data
        # Which codes there were is asked for seldom, and to keep them takes half as long again.
        pieces = codes().split(data) if self.codes else [data]
        self.text = b"".join(pieces) if self.codes else data
        self._last = len(pieces[-1])

    def origin(self, index: int) -> int:
        """Return where a character was."""
        left = len(self.text) - index
        if left <= self._last:
            return len(self._data) - left
        texts, parts = self._ends
        which = bisect_right(texts, index)
        return parts[2 * which] - texts[which] + index

    def undivided(self, place: int) -> int:
        """Return a place, or the beginning of the code that is cut in two there."""
        if place >= len(self._data) - self._last:
            return place
        parts = self._ends[1]
        which = bisect_right(parts, place)  # the part that goes on after it
        return parts[which - 1] if which % 2 else place

    @functools.cached_property
    def _ends(self) -> tuple[list[int], list[int]]:
        """Return where each piece that stays ends in the text, and each part in what the text was of."""
        parts = _parted().split(self._data)  # in turn: what stays, a code
        return list(accumulate(map(len, parts[::2]))), list(accumulate(map(len, parts)))


class View:
    """What is looked at in one pass. ``past``: so much of it was looked at and let through before."""

    def __init__(self, past: bytes, look: Bare | bytes, *, breaks: bool) -> None:
        """Look at what follows *past*: without codes, or as it is; without line breaks too, as it is said."""
        self.past = len(past)
        self._bare = look if isinstance(look, Bare) else None
        self._data = look.text if isinstance(look, Bare) else look
        self._breaks = breaks
        self.text = past + (self._data.translate(None, b"\r\n") if breaks else self._data)

    def tail(self, size: int, held: bytes) -> bytes:
        """Return the last of the text, before what is held back at its end."""
        if self._bare is not None and b"\x1b" in held:
            held = codes().sub(b"", held)
        kept = len(held.translate(None, b"\r\n") if self._breaks else held)
        end = len(self.text) - kept
        return self.text[max(0, end - size) : end]

    def span(self, start: int, end: int) -> Found:
        """Return where a part of the text was."""
        index = start - self.past
        if index >= 0 and self._broken:
            # Mostly it is there in one piece: that is found faster than where its ends were.
            in_text, in_data = self._blocks
            which = bisect_right(in_text, index) - 1
            at = in_data[which]
            place = self._data.find(self.text[start:end], at, at + BLOCK + end - start)
            if place >= 0 and self._left(at, place) == index - in_text[which]:
                return self._before(place), self._before(place + end - start - 1) + 1
        return self.origin(start), self.origin(end - 1) + 1

    def origin(self, index: int) -> int:
        """Return where a character of the text was; 0 for those of the past."""
        index -= self.past
        if index < 0:
            return 0
        if not self._broken:
            return self._before(index)
        near = self._data[-NEAR:]
        left = len(self.text) - self.past - index
        kept = near.translate(None, b"\r\n")
        if left <= len(kept):
            # Mostly it is asked where something begins that may go on after the end.
            at, left = max(0, len(self._data) - NEAR), len(kept) - left
        else:
            in_text, in_data = self._blocks
            which = bisect_right(in_text, index) - 1
            at, left = in_data[which], index - in_text[which]
        # The first place up to which so many characters are left.
        ends = range(at, min(at + BLOCK + 1, len(self._data)))
        return self._before(bisect_right(ends, left, key=lambda end: self._left(at, end + 1)) + at)

    @property
    def _broken(self) -> bool:
        return len(self.text) - self.past != len(self._data)

    def _before(self, index: int) -> int:
        return index if self._bare is None else self._bare.origin(index)

    def _left(self, start: int, end: int) -> int:
        count = self._data.count
        return end - start - count(b"\n", start, end) - count(b"\r", start, end)

    @functools.cached_property
    def _blocks(self) -> tuple[list[int], list[int]]:
        """Return where each block of the data begins, in the text and in the data."""
        in_text, in_data, text = [0], [0], 0
        for at in range(BLOCK, len(self._data), BLOCK):
            text += self._left(at - BLOCK, at)
            in_text.append(text)
            in_data.append(at)
        return in_text, in_data


def automaton(needles: list[bytes]) -> BytesAhoCorasick:
    """Return what finds any of them in one pass."""
    from ahocorasick_rs import BytesAhoCorasick, Implementation  # few texts need it

    return BytesAhoCorasick(needles, implementation=Implementation.DFA)
