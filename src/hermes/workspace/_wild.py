"""Patterns of ``.gitignore``, matched as git does, byte by byte.

Not by regular expressions: the patterns may have come from a sandbox, and one can be written for which an
expression takes for ever. Here a path costs its length times that of the pattern.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

P = TypeVar("P")
S = TypeVar("S")

# One byte that is meant as it is, a set of bytes, or ANY of them and any number of them.
Token = int | frozenset[int]
ANY: Token = -1
SLASH = ord("/")
EVERY = frozenset(range(256)) - {SLASH}

_PRINTED = frozenset(range(0x21, 0x7F))
_ALNUM = frozenset((string.ascii_letters + string.digits).encode())
CLASSES = {
    b"alnum": _ALNUM,
    b"alpha": frozenset(string.ascii_letters.encode()),
    b"blank": frozenset(b" \t"),
    b"cntrl": frozenset((*range(0x20), 0x7F)),
    b"digit": frozenset(string.digits.encode()),
    b"graph": _PRINTED,
    b"lower": frozenset(string.ascii_lowercase.encode()),
    b"print": _PRINTED | {0x20},
    b"punct": _PRINTED - _ALNUM,
    b"space": frozenset(b" \t\n\v\f\r"),
    b"upper": frozenset(string.ascii_uppercase.encode()),
    b"xdigit": frozenset(string.hexdigits.encode()),
}


class Part(NamedTuple):
    """What one name has to look like. ``ends``: a beginning and an end, where one star is between them."""

    tokens: list[Token]
    plain: bytes | None
    ends: tuple[bytes, bytes] | None

    @classmethod
    def of(cls, tokens: list[Token]) -> Part:
        # Most patterns are a name or `*.o`: comparing bytes is much quicker than matching them.
        plain = [token for token in tokens if isinstance(token, int) and token != ANY]
        if len(plain) == len(tokens):
            return cls(tokens, bytes(plain), None)
        if tokens.count(ANY) == 1 and len(plain) + 1 == len(tokens):
            at = tokens.index(ANY)
            return cls(tokens, None, (bytes(plain[:at]), bytes(plain[at:])))
        return cls(tokens, None, None)

    def matches(self, name: bytes) -> bool:
        if self.plain is not None:
            return name == self.plain
        if self.ends is not None:
            start, end = self.ends
            return len(name) >= len(start) + len(end) and name.startswith(start) and name.endswith(end)
        return _match(self.tokens, name, lambda token: token == ANY, _byte)


class Pattern(NamedTuple):
    """One line. ``parts`` are those of each name, or of the last one unless it is ``anchored``."""

    parts: list[Part]
    anchored: bool
    folders_only: bool
    ignores: bool

    def matches(self, path: Sequence[bytes], *, folder: bool) -> bool:
        """Return whether it means this very path, given as its names; not one that it lies in."""
        if self.folders_only and not folder:
            return False
        if not self.anchored:
            return self.parts[0].matches(path[-1])
        return _path(self.parts, path)


def parse(text: bytes) -> list[Pattern]:
    """Return the patterns in a file; lines that can match nothing are left out."""
    found = (_line(line.removesuffix(b"\r")) for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"))
    return [one for one in found if one is not None]


def last_word(patterns: Sequence[Pattern], path: Sequence[bytes], *, folder: bool) -> bool | None:
    """Return whether a path is ignored as the last pattern that means it says; None when none does."""
    for pattern in reversed(patterns):
        if pattern.matches(path, folder=folder):
            return pattern.ignores
    return None


def _line(line: bytes) -> Pattern | None:
    if line.startswith(b"#"):
        return None
    while line.endswith(b" ") and not _escaped(line):
        line = line[:-1]
    ignores = not line.startswith(b"!")
    line = line if ignores else line[1:]
    folders_only = line.endswith(b"/")
    line = line[:-1] if folders_only else line
    tokens = _tokens(line)
    if not line or tokens is None:
        return None
    anchored = b"/" in line
    parts: list[list[Token]] = [[]]
    for token in tokens[1:] if tokens[:1] == [SLASH] else tokens:
        if token == SLASH:
            parts.append([])
        else:
            parts[-1].append(token)
    return Pattern([Part.of(part) for part in parts], anchored, folders_only, ignores)


def _escaped(line: bytes) -> bool:
    """Return whether the last byte has a backslash before it that counts."""
    before = line[:-1]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1


def _tokens(line: bytes) -> list[Token] | None:
    """Return the tokens of a pattern; None when it can match nothing."""
    found: list[Token] = []
    at = 0
    while at < len(line):
        byte = line[at : at + 1]
        at += 1
        if byte == b"\\":
            if at == len(line):
                return None
            found.append(line[at])
            at += 1
        elif byte == b"*":
            found.append(ANY)
        elif byte == b"?":
            found.append(EVERY)
        elif byte == b"[":
            members, at = _class(line, at)
            if members is None:
                return None
            found.append(members)
        else:
            found.append(byte[0])
    return found


def _class(line: bytes, at: int) -> tuple[frozenset[int] | None, int]:
    """Return the bytes in brackets, and where they end; None when they do not."""
    members: set[int] = set()
    negated = line[at : at + 1] in (b"!", b"^")
    at += negated
    start, before = at, -1  # before: what a range may begin with
    while at < len(line) and (line[at] != ord("]") or at == start):
        if line[at : at + 2] == b"[:" and (end := line.find(b":]", at + 2)) >= 0:
            named = CLASSES.get(line[at + 2 : end])
            if named is None:
                return None, at
            members |= named
            at, before = end + 2, -1
            continue
        if line[at] == ord("-") and before >= 0 and line[at + 1 : at + 2] not in (b"", b"]"):
            at += 1
            at += line[at] == ord("\\")
            if at >= len(line):
                return None, at
            members.update(range(before, line[at] + 1))
            at, before = at + 1, -1
            continue
        at += line[at] == ord("\\")
        if at >= len(line):
            return None, at
        before = line[at]
        members.add(before)
        at += 1
    if at >= len(line):
        return None, at
    return (EVERY - members if negated else frozenset(members) & EVERY), at + 1


DEEP: list[Token] = [ANY, ANY]


def _is_any_depth(part: Part) -> bool:
    return part.tokens == DEEP


def _path(parts: list[Part], path: Sequence[bytes]) -> bool:
    if _is_any_depth(parts[-1]) and len(parts) > 1:
        # What is inside, at least one name deep.
        parts = [*parts, Part.of([ANY])]
    return _match(parts, path, _is_any_depth, Part.matches)


def _byte(token: Token, byte: int) -> bool:
    return byte == token if isinstance(token, int) else byte in token


def _match(
    pattern: Sequence[P], items: Sequence[S], is_star: Callable[[P], bool], one: Callable[[P, S], bool]
) -> bool:
    """Match items one to one; a star stands for any number of them. To go back to the last star is enough."""
    at = 0
    star, resume = -1, 0
    item = 0
    while item < len(items):
        if at < len(pattern) and is_star(pattern[at]):
            star, resume = at, item
            at += 1
        elif at < len(pattern) and one(pattern[at], items[item]):
            at += 1
            item += 1
        elif star >= 0:
            resume += 1
            at, item = star + 1, resume
        else:
            return False
    return all(is_star(rest) for rest in pattern[at:])
