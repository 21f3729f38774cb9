"""A rough look at a text with codes for a terminal: whether anything could be in it at all.

To take the codes out exactly costs more than all the rest, since each is one by itself. Without their
digits they are few: `ESC [ m`, `ESC [ ; m`, `ESC [ K`, and each of those is taken out everywhere at once. So
the text and what is looked for are compared without digits. What is not there then is not there at all; where
something is, the text has to be looked at exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from hermes._lazy import Lazy

from ._views import CARRIED, automaton, codes

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick

__all__ = ["Rough"]

NEEDLE = 12
LEAST = 4  # of a value without digits: less is everywhere
KINDS = 16  # of codes in one text

_DIGITS = b"0123456789"
_WORD = frozenset(b"%c" % one for one in b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-")
_CODE = b"\x18"  # where one was; no code has it
_OSC = Lazy(rb"\x1b\]([^\x07\x1b]{0,%d})(?:\x07|\x1b\\)" % CARRIED)
_LINK_ENDS = (b"\x1b]8;;\x1b\\", b"\x1b]8;;\x07")
_KIND = Lazy(rb"\x1b(?:\[[:-?]*[@-~]|[ -/]{0,4}[:-Z\\^-~])")
_OF_DIGITS = (b"\x1b7", b"\x1b8", b"\x1b(0", b"\x1b)0")
# What a code, or what is one only without its digits, may have of a value that it stands before.
_SWALLOWED = Lazy(rb"\[?[0-?]*[ -/]*[0-~]")


class _Core(NamedTuple):
    needle: bytes
    reach: int  # so many bytes of the value have the needle


class Rough:
    """What is looked for, without its digits."""

    def __init__(self, forms: Iterable[bytes], heads: Iterable[bytes]) -> None:
        cores = [_core(form) for form in forms]
        self.reach = max((one.reach for one in cores), default=0)
        # A value of digits alone is not to be told from the codes.
        self.blind = any(len(one.needle) < LEAST for one in cores)
        self._needles = sorted({one.needle for one in cores if one.needle})
        self._heads = sorted(heads)
        self._rests: dict[int, list[bytes]] = {}  # of a token whose first letter ends a code
        for head in self._heads:
            self._rests.setdefault(head[0], []).append(head[1:])
        self._matcher: BytesAhoCorasick = automaton([*self._needles, *self._heads])

    def clear(self, data: bytes, joined: bytes, exact: bytes, raw: bytes) -> bool:
        """Return whether nothing is in a text, nor begins in it so far that it could be told.

        :param joined: what was before it, without codes and line breaks
        :param exact: the same with line breaks
        :param raw: the same with codes too
        """
        if self.blind or _CODE in data:
            return False
        carried = b""
        if b"\x1b]" in data:
            data, said = _parted(data)
            carried = b"\n" + said.translate(None, _DIGITS)
        for code in _OF_DIGITS:
            data = data.replace(code, _CODE)
        text = data.translate(None, _DIGITS)
        for _ in range(KINDS):
            at = text.find(b"\x1b")
            if at < 0:
                break
            kind = _KIND.match(text, at)
            if kind is None:
                return False
            code = kind[0]
            for rest in self._rests.get(code[-1], ()):
                if code + rest in text:
                    return False
            text = text.replace(code, _CODE)
        else:
            return False
        text += carried
        whole = joined.translate(None, _DIGITS) + text.translate(None, b"\r\n" + _CODE)
        headed = False
        for which, _, _ in self._matcher.find_matches_as_indexes(whole, overlapping=True):
            if which < len(self._needles):
                return False
            headed = True
        # What ends a code may be no part of a word, where what was before the code is.
        if headed and (
            self._begun(exact.translate(None, _DIGITS) + text.translate(None, _CODE))
            or any(_CODE + head in text for head in self._heads)
        ):
            return False
        # A code at the end of what was before may have the first letter of a token.
        return b"\x1b" not in raw or not self._begun(raw + data[:NEEDLE])

    def _begun(self, text: bytes) -> bool:
        """Return whether a token may begin there: in the middle of a word none does."""
        return any(
            which >= len(self._needles) and (text[start] == ord("-") or text[start - 1 : start] not in _WORD)
            for which, start, _ in self._matcher.find_matches_as_indexes(text, overlapping=True)
        )

    def rest(self, data: bytes, least: int) -> tuple[int, bytes]:
        """Return where the end begins that has all that may go on, and so many bytes more, and it bare."""
        least += self.reach
        for size in (4 * least, 16 * least):
            if size > len(data):
                break
            start = data.rfind(b"\x1b", 0, len(data) - size)
            while start >= 0 and data.startswith(b"\\", start + 1):  # it may be the end of a code
                start = data.rfind(b"\x1b", 0, start)
            if start < 0:
                break
            bare = codes().sub(b"", data[start:])
            if len(bare.translate(None, b"\r\n")) >= least:
                return start, bare
        return 0, b""


def _parted(data: bytes) -> tuple[bytes, bytes]:
    """Return a text without its titles and links, and what those say."""
    for end in _LINK_ENDS:  # one for each link
        data = data.replace(end, _CODE)
    if b"\x1b]" not in data:
        return data, b""
    end = b"\x07" if b"\x07" in data else b"\x1b\\"
    first, *others = data.split(b"\x1b]")
    carried, ends, texts = zip(*[one.partition(end) for one in others], strict=True)
    said = b"\n".join(carried)
    if b"\x1b" in said or b"" in ends or max(map(len, carried)) > CARRIED:
        found = _OSC.split(data)  # they end in several ways, or not at all
        return _CODE.join(found[::2]), b"\n".join(found[1::2])
    return _CODE.join([first, *texts]), said


def _core(form: bytes) -> _Core:
    if re.search(rb"[\x07\x18\x1b]", form):
        return _Core(b"", 0)
    before = _SWALLOWED.match(form)
    start = before.end() if before else 0
    needle = form[start:].translate(None, _DIGITS)[:NEEDLE]
    reach = start
    left = len(needle)
    while left:
        left -= form[reach] not in _DIGITS
        reach += 1
    return _Core(needle, reach)
