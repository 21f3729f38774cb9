"""Taking secrets out of what comes back, as it comes.

A declared value is found also when it is encoded, and when line breaks or codes for a terminal stand in the
middle. The text is looked at without those, by a matcher that finds the first bytes of all values in one
pass; what follows them is compared then. It is looked at with the codes as well: a code may carry a text, as
those of titles and links do. What may be the beginning of one at the end of a piece is held back until the
next.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ._rough import Rough
from ._views import Bare, Found, View, automaton, begins, codes, opened
from .shapes import BEFORE, SHAPES, known
from .values import LONGEST, SHORTEST, forms_of, values_of

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick

    from hermes.config import Credentials

    from ._declared import Content
    from .former import Former

__all__ = ["MARK", "Scrub", "Stream", "scrub_of"]

MARK = b"[redacted]"
NEEDLE = 8
EDGE = 4  # so many bytes of a value, where the rest was cut off, tell it
SMALL = 4096
LEAST = 12  # bytes of a token
HELD = 1 << 16
UNIT = 1 << 14  # of a text with codes, looked at roughly as a whole
PART = 1 << 12  # of one in which something is, looked at exactly as a whole or not at all
ROUGH = 1024  # a shorter one is looked at exactly

_HEADS = {head.encode(): one for one in SHAPES for head in one.heads}
_PAST = max(map(len, _HEADS)) + 1


class _Patterns:
    """Expressions, made when they are first needed: most commands print nothing that they are for."""

    def __init__(self) -> None:
        self.heads = re.compile(b"|".join(map(re.escape, _HEADS)))
        self.known = re.compile(known().pattern.encode(), known().flags & ~re.U)
        self.before = re.compile(BEFORE.encode())


@functools.cache
def _re() -> _Patterns:
    return _Patterns()


def scrub_of(content: Content, settings: Credentials) -> Scrub | None:
    """Return what takes secrets out as it is set, None when nothing is taken out."""
    if settings.redact == "off":
        return None
    return Scrub(values_of(content), shapes=settings.redact == "all")


class Scrub:
    """What is taken out. Made anew when what is declared changes; used for any number of texts."""

    def __init__(self, values: Iterable[bytes], *, shapes: bool, former: Former | None = None) -> None:
        """Look for values, for what looks like a token with *shapes*, and for values that were renewed."""
        self.shapes = shapes
        self._former = former
        forms = {form.translate(None, b"\r\n") for value in values for form in forms_of(value)}
        forms = {form for form in forms if len(form) >= SHORTEST}
        self._by_needle: dict[bytes, list[bytes]] = {}
        for form in sorted(forms, key=len, reverse=True):  # the longest first
            self._by_needle.setdefault(form[:NEEDLE], []).append(form)
        self._needles = list(self._by_needle)
        self._starts = {form[:size] for form in forms for size in range(1, NEEDLE)}

    def __bool__(self) -> bool:
        return self.shapes or bool(self._needles) or bool(self._former)

    def __repr__(self) -> str:  # never a value
        return f"Scrub({len(self._needles)} needles)"

    def stream(self) -> Stream:
        """Return what scrubs one text that comes in pieces."""
        return Stream(self)

    def whole(self, data: bytes, *, cut: bool = False) -> tuple[bytes, int]:
        """Return a text without secrets, and how many were taken out.

        :param cut: it ends where something else went on: half of a secret at its end is taken out too
        """
        if not (self._needles or self._former) and (not self.shapes or self._plain(data)):
            return data, 0
        stream = self.stream()
        return stream.feed(data) + stream.end(cut=cut), stream.count

    @staticmethod
    def _plain(data: bytes) -> bool:
        """Return whether it is plain to see that there is no token in it: it is asked about every output."""
        if len(data) < LEAST:
            return True
        if len(data) >= SMALL or b"\x1b" in data:
            return False
        for head in _HEADS:  # noqa: SIM110  # a generator would take longer than the rest
            if head in data:
                return False
        return True

    def rest(self, data: bytes) -> tuple[bytes, int]:
        """Do the same for a text that begins where something else was cut off."""
        data, count = self.whole(data)
        view = View(b"", Bare(data[: 2 * LONGEST]), breaks=True)
        for forms in self._by_needle.values():
            for form in forms:
                for size in range(min(len(form) - 1, len(view.text)), EDGE - 1, -1):
                    if view.text.startswith(form[-size:]):
                        return MARK + data[view.origin(size - 1) + 1 :], count + 1
        return data, count

    # --- finding

    @functools.cached_property
    def _matcher(self) -> BytesAhoCorasick:
        return automaton([*self._needles, *(_HEADS if self.shapes else ())])

    @functools.cached_property
    def _rough(self) -> Rough:
        forms = (form for some in self._by_needle.values() for form in some)
        return Rough(forms, _HEADS if self.shapes else ())

    @property
    def roughly(self) -> bool:
        """Whether a rough look can tell that nothing is in a text."""
        return not (self._former or self._rough.blind)

    def clear(self, data: bytes, past: list[bytes]) -> tuple[int, bytes]:
        """Return up to where nothing is in a text with codes: 0, or nearly its end, and that without codes.

        :param past: what was let through before it, as :class:`Stream` keeps it
        """
        if not self.roughly or len(data) < ROUGH or not self._rough.clear(data, past[0], past[3]):
            return 0, b""
        return self._rough.rest(data, _PAST)

    def declared(self, view: View) -> tuple[list[Found], int, bool]:
        """Return where declared values are in a view, and where one may begin that goes on after its end.

        Also those of before, encoded.

        And whether there may be a token: how one begins is looked for in the same pass.
        """
        text, headed, done = view.text, False, -1
        found, hold = self._former.find_encoded(text) if self._former else ([], len(text))
        if not self._needles:
            return found, hold, True
        # Values may overlap. Those that begin alike are looked for once in each that was found: a value may
        # repeat itself, and its beginning be everywhere in it.
        past: dict[int, int] = {}
        for which, start, _ in self._matcher.find_matches_as_indexes(text, overlapping=True):
            if which >= len(self._needles):
                headed = True
                continue
            if start < done and start < past.get(which, -1):
                continue
            for form in self._by_needle[self._needles[which]]:
                if text.startswith(form, start):
                    found.append((start, start + len(form)))
                    past[which] = start + len(form)
                    done = max(done, past[which])
                    break
                if len(text) - start < len(form) and form.startswith(text[start:]):
                    hold = min(hold, start)
        for size in range(min(NEEDLE - 1, len(text)), 0, -1):
            if text[-size:] in self._starts:
                return found, min(hold, max(len(text) - size, done)), headed
        return found, hold, headed

    def begun(self, text: bytes, least: int) -> int | None:
        """Return how much of a declared value begins at the end of a short text, None if a needle or more."""
        if self._matcher.find_matches_as_indexes(text):
            return None
        for size in range(NEEDLE - 1, least - 1, -1):
            if text[-size:] in self._starts:
                return size
        return 0

    def others(self, view: View, *, tokens: bool) -> tuple[list[Found], int]:
        """Return the same of values of before, and of what looks like a token if there may be *tokens*."""
        # What was before the first character is not known, where that is not the beginning of all.
        first = int(view.past == _PAST)
        found, hold = self._tokens(view.text, first) if tokens else ([], len(view.text))
        if self._former:
            more, begun = self._former.find(view.text)
            found, hold = found + more, min(hold, begun)
        return found, hold

    def _tokens(self, text: bytes, first: int) -> tuple[list[Found], int]:
        found: list[Found] = []
        hold, done = len(text), -1
        if not self.shapes or b"\0" in text:  # nobody reads binary data, and to change it would spoil it
            return [], hold
        if len(text) < SMALL:
            starts: Iterable[int] = [one.start() for one in _re().heads.finditer(text)]
        else:
            starts = sorted(
                {start for _, start, _ in _heads().find_matches_as_indexes(text, overlapping=True)}
            )
        for start in starts:
            if start < max(done, first):
                continue
            match = _re().known.match(text, start)
            if match is not None:
                found.append((start, match.end()))
                done = match.end()
            ends = match is None or done == len(text) or text[start] == ord("-")
            if ends and _unfinished(text, start):
                hold = min(hold, start)
        return found, hold


@functools.cache
def _heads() -> BytesAhoCorasick:
    return automaton(list(_HEADS))


@functools.cache
def _more(more: str) -> re.Pattern[bytes]:
    return re.compile(more.encode() + rb"\Z")


def _unfinished(text: bytes, start: int) -> bool:
    """Return whether a token that begins there may go on after the end of the text."""
    head = _re().heads.match(text, start)
    assert head is not None
    if text[start] != ord("-") and _re().before.match(text, start) is None:
        return False
    return _more(_HEADS[head[0]].more).match(text, head.end()) is not None


class Stream:
    """One text that comes in pieces. ``count``: how many secrets were taken out so far."""

    def __init__(self, scrub: Scrub) -> None:
        self._scrub = scrub
        self._held = b""
        # The last that was let through, as each look has it: without codes and with them, without line breaks
        # and with them.
        self._past = [b""] * 4
        self._begun = 0  # how much of a secret there may be at the end
        self.count = 0

    def feed(self, data: bytes) -> bytes:
        """Take a piece, and return what can be let through now."""
        if len(data) <= UNIT or b"\x1b" not in data:
            return self._take(self._held + data if self._held else data, last=False)
        return self._divided(data, UNIT)

    def renew(self, scrub: Scrub) -> None:
        """Look for what is declared by now from here on."""
        self._scrub = scrub

    @property
    def waits(self) -> bool:
        """Whether something is held back that :meth:`pause` would let through."""
        return bool(self._held) and self._begun < NEEDLE

    def pause(self) -> bytes:
        """Return what was held back when nothing more comes for now, if it is too short to tell a secret.

        With what it may be the beginning of it is found all the same.
        """
        return self.end() if self.waits else b""

    def end(self, *, cut: bool = False) -> bytes:
        """Return what was held back, at the end of the text."""
        held, self._held = self._held, b""
        return self._take(held, last=True, cut=cut) if held else b""

    def _divided(self, data: bytes, size: int, *, more: bool = False) -> bytes:
        """Take a piece in parts: where there is a secret in one, the others need not be looked at exactly."""
        parts = []
        for at in range(0, len(data), size):
            part, follows = self._held + data[at : at + size], more or at + size < len(data)
            parts.append(self._take(part, last=False, more=follows, part=size == PART))
        return b"".join(parts)

    def _take(
        self, data: bytes, *, last: bool, cut: bool = False, more: bool = False, part: bool = False
    ) -> bytes:
        end = len(data) if last else opened(data)
        whole = data[:end] if end < len(data) else data  # the rest is not known to be a code yet
        # Without a code both ways of looking are the same.
        twice = b"\x1b" in whole or self._past[:2] != self._past[2:]
        short = not more and data[-1:] in b"\r\n"
        since, clear = self._scrub.clear(whole, self._past) if twice else (0, b"")
        if since and not last:
            back = self._ends(whole[since:], clear, EDGE if short else 1)
            if back is not None:
                self._held = data[end - back :]
                return data[: end - back]
        if (
            twice
            and not (since or last or part)
            and len(data) > 2 * PART >= len(self._held)
            and self._scrub.roughly
        ):
            self._held = b""
            return self._divided(data, PART, more=more)
        looked, pasts = (whole[since:], [b""] * 4) if since else (whole, self._past)
        bare = Bare(looked)
        views: list[View] = []
        spans: list[Found] = []
        hold, self._begun = len(whole), 0
        # Declared values are looked for without line breaks, tokens with them; both without codes, and with.
        for look in (bare, looked) if twice else (bare,):
            joined = View(pasts[len(views)], look, breaks=True)
            exact = View(pasts[len(views) + 1], look, breaks=False)
            views += joined, exact
            found, first, tokens = self._scrub.declared(joined)
            also, other = self._scrub.others(exact, tokens=tokens and not since)
            for view, some, begin in ((joined, found, first), (exact, also, other)):
                # Others were found before.
                spans += [
                    (since + start, since + end)
                    for start, end in (view.span(*one) for one in some if one[1] > view.past)
                ]
                if begin < len(view.text):
                    self._begun = max(self._begun, len(view.text) - begin)
                    # After a line's end more must be known: it would keep most lines waiting.
                    let = short and view is joined and len(view.text) - begin < EDGE
                    hold = min(hold, len(whole) if let else since + view.origin(begin))
        if last or len(data) - hold > HELD:
            if cut and len(data) - hold >= EDGE:
                spans.append((hold, len(data)))
            hold = len(data)
        else:
            hold = _undivided(bare, spans, hold, since)
        self._held = data[hold:]
        out = self._without(data, [one for one in spans if one[1] <= hold], hold)
        held = whole[hold:]
        past = [view.tail(_PAST, held) for view in views]
        self._past = past if twice else past * 2
        return out

    def _ends(self, text: bytes, bare: bytes, least: int) -> int | None:
        """Return how much is to be held of the end of what was clear, None if that has to be looked at.

        What is let through of it is kept.

        :param bare: it without codes
        :param least: so many bytes of a value matter
        """
        joined, crossed = bare.translate(None, b"\r\n"), text.translate(None, b"\r\n")
        first, second = self._scrub.begun(joined, least), self._scrub.begun(crossed, least)
        if first is None or second is None:
            return None
        hold = begins(text, first, second)
        if hold is None:
            return None
        self._begun, held = max(first, second), text[hold:]
        kept = codes().sub(b"", held) if b"\x1b" in held else held
        ends = kept.translate(None, b"\r\n"), kept, held.translate(None, b"\r\n"), held
        self._past = [
            look[-_PAST - len(end) : len(look) - len(end)]
            for look, end in zip((joined, bare, crossed, text), ends, strict=True)
        ]
        return len(held)

    def _without(self, data: bytes, spans: list[Found], end: int) -> bytes:
        if not spans:
            return data[:end] if end < len(data) else data
        parts, at, merged = [], 0, _merged(spans)
        for first, last in merged:
            parts += [data[at:first], MARK]
            for code in codes().finditer(data, first, last):
                # One in the middle of a secret stays, unless it carries one itself.
                if not any(code.start() < start < code.end() for start, _ in spans):
                    parts.append(code[0])
            at = last
        self.count += len(merged)
        return b"".join([*parts, data[at:end]])


def _undivided(bare: Bare, spans: list[Found], hold: int, since: int) -> int:
    """Return a place, not after *hold*, at which neither a secret nor a code is cut in two.

    :param since: where *bare* begins
    """
    merged, before = _merged(spans), -1
    while hold != before:
        before = hold
        for start, end in merged:
            if start < hold < end:
                hold = start
        hold = since + bare.undivided(hold - since)
    return hold


def _merged(spans: list[Found]) -> list[Found]:
    merged: list[Found] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
