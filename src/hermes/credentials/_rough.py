"""A rough look at a text with codes for a terminal: whether anything could be in it at all.

To take the codes out exactly costs more than all the rest, since each is one by itself. Nearly all are of the
same few characters, such as `ESC [ 3 1 m`. So the text and what is looked for are compared without those
characters, wherever they stand: what is not there then is not there at all, with codes and without. Other
codes are few, and are taken out one kind at a time. Where something is, the text has to be looked at exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from hermes._lazy import Lazy

from ._views import CARRIED, SHORT, automaton, codes

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick

__all__ = ["Rough"]

NEEDLE = 8
LEAST = 4  # of a value without what codes are of: less is everywhere
KINDS = 16  # of other codes in one text

_MARK = b"\x18"  # where something was; no code has it
_BETWEEN = b"0123456789;:?\r\n"
_USUAL = (b"\x1b[m", b"\x1b[K")
_LEFT_OUT = _BETWEEN + _MARK + bytes(set(b"".join(_USUAL)))
_OTHER = Lazy(rb"\x1b(?!\[[0-;?]*[mK])(?:\[[0-?]*[@-~]|%s)" % SHORT)
_LINK_ENDS = (b"\x1b]8;;\x1b\\", b"\x1b]8;;\x07")
_BELL = b"\x07"
# What a code may have of a value that it stands before.
_SWALLOWED = Lazy(rb"\[?[0-?]*[ -/]*[0-~]")


class _Core(NamedTuple):
    needle: bytes
    reach: int  # so many bytes of the value have the needle


class Rough:
    """What is looked for, without what codes are of."""

    def __init__(self, forms: Iterable[bytes], heads: Iterable[bytes]) -> None:
        cores = [_core(form) for form in forms]
        self.reach = max((one.reach for one in cores), default=0)
        # A value of digits alone is not to be told from the codes.
        self.blind = any(len(one.needle) < LEAST for one in cores)
        self._needles = sorted({one.needle for one in cores if one.needle})
        self._heads = sorted(heads)
        self._times = 4  # so much longer than without codes the last text was at its end
        self._longest = max(map(len, self._heads), default=0)
        self._rests: dict[int, list[bytes]] = {}  # of a token whose first letter ends a code
        for head in self._heads:
            self._rests.setdefault(head[0], []).append(head[1:])
        self._matcher: BytesAhoCorasick = automaton([*self._needles, *map(_core_text, self._heads)])

    def clear(self, data: bytes, joined: bytes, raw: bytes) -> bool:
        """Return whether nothing is in a text, nor begins in it so far that it could be told.

        :param joined: what was before it, without codes and line breaks
        :param raw: the same with them
        """
        text, carried = data, b""
        if b"\x1b]" in data:
            parted = _parted(data)
            if parted is None:
                return False
            text, carried = parted
        others = self._others(text)
        if others is None:
            return False
        whole = _core_text(joined) + _core_text(others) + _BELL + _core_text(carried)
        heads: list[int] = []
        for which, _, _ in self._matcher.find_matches_as_indexes(whole, overlapping=True):
            if which < len(self._needles):
                return False
            heads.append(which - len(self._needles))
        if heads and not self._words(heads, raw, data):
            return False
        # A code at the end of what was before may have the first letter of a token.
        return b"\x1b" not in raw or not self._matcher.find_matches_as_indexes(
            _core_text(raw + data[: self._longest])
        )

    def _others(self, text: bytes) -> bytes | None:
        """Return a text without codes other than the usual, None if there is what is no code."""
        at, left = 0, _unusual(text)
        for _ in range(KINDS):
            if not left:
                return text
            code = _OTHER.search(text, at)
            if code is None or any(code[0] + rest in text for rest in self._rests.get(code[0][-1], ())):
                return None
            at = code.start()
            count = text.count(code[0])
            text = text.replace(code[0], _MARK)
            # `ESC ; [ m` without what is between looks like a usual one.
            left = left - count if code[0].translate(None, _LEFT_OUT) else _unusual(text)
        return None

    def _words(self, heads: list[int], raw: bytes, data: bytes) -> bool:
        """Return whether each of these heads is within a word, as in `task-1`, where no token is."""
        text = raw + data
        return len(heads) == sum(
            text[found.start() - 2 : found.start()].isalpha()  # of the two, one may end a code
            for which in set(heads)
            for found in re.finditer(rb"[0-9]*".join(map(re.escape, _bytes(self._heads[which]))), text)
            if found.end() > len(raw) and found.start() > 1
        )

    def rest(self, data: bytes, least: int) -> tuple[int, bytes]:
        """Return where the end begins that has all that may go on, and so many bytes more, and it bare."""
        least += self.reach
        while (size := self._times * least) <= len(data):
            start = data.rfind(b"\x1b", 0, len(data) - size)
            while start >= 0 and data.startswith(b"\\", start + 1):  # it may be the end of a code
                start = data.rfind(b"\x1b", 0, start)
            if start < 0:
                break
            bare = codes().sub(b"", data[start:])
            left = len(bare.translate(None, b"\r\n"))
            if left > 2 * least and self._times > 2:
                self._times -= 1
            if left >= least:
                return start, bare
            self._times *= 2
        self._times = 4
        return 0, b""


def _parted(data: bytes) -> tuple[bytes, bytes] | None:
    """Return a text without its titles and links, and what those say; None if one of them has no end."""
    if _MARK in data:
        return None
    for end in _LINK_ENDS:  # one for each link
        data = data.replace(end, _MARK + _BELL)
    data = data.replace(b"\x1b\\", _BELL).replace(b"\x1b]", _MARK)
    # In turn what is text, and what a title or a link says, with the bell at its end.
    parts = data.replace(_BELL, _BELL + _MARK).split(_MARK)
    inside = parts[1::2]
    text, carried = _MARK.join(parts[::2]), b"".join(inside)
    if _BELL in text or carried.count(_BELL) < len(inside):
        return None
    if b"\x1b" in carried or max(map(len, inside)) > CARRIED:
        return None
    return text, carried


def _unusual(text: bytes) -> int:
    """Return how many codes there are that are not of characters that are left out alone."""
    bare = text.translate(None, _BETWEEN)
    return bare.count(b"\x1b") - sum(map(bare.count, _USUAL))


def _core_text(text: bytes) -> bytes:
    return text.translate(None, _LEFT_OUT)


def _bytes(text: bytes) -> list[bytes]:
    return [text[at : at + 1] for at in range(len(text))]


def _core(form: bytes) -> _Core:
    if re.search(rb"[\x07\x18\x1b]", form):
        return _Core(b"", 0)
    before = _SWALLOWED.match(form)
    start = before.end() if before else 0
    needle = _core_text(form[start:])[:NEEDLE]
    reach = start
    left = len(needle)
    while left:
        left -= form[reach] not in _LEFT_OUT
        reach += 1
    return _Core(needle, reach)
