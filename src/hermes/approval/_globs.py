"""Patterns for the names of files, matched in time that grows with their length alone."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from functools import lru_cache

from hermes._lazy import Lazy

from . import _marks as marks

# A name has no more bytes, and a path no more than the other; what asks for more stands for nothing.
MAX_NAME = 255
MAX_PATTERN = 4096
_SIGNS = frozenset("*?[")
_STARS = Lazy(r"\*{2,}")
_ONE = Lazy(r"\[[!^]?\]?(?:\[:[a-z]+:\]|[^]])*\]|[^*]", re.DOTALL)
_KIND = Lazy(r"\[:([a-z]+):\]")
_KINDS = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "xdigit": "0-9a-fA-F",
    "word": "a-zA-Z0-9_",
    "punct": ":-@!-/[-`{-~",
    "graph": '"-~!',
    "print": " -~",
    "ascii": "\x01-~",
    "space": " \t-\r",
    "blank": " \t",
    "cntrl": "\x01-\x1f",
}


def among(names: Iterable[str], pattern: str) -> list[str]:
    """Return which of some names match a word with active globs."""
    pattern = marks.plain(pattern)
    head = pattern[: min(map(pattern.index, _SIGNS.intersection(pattern)), default=len(pattern))]
    found = [one for one in names if one.startswith(head)]
    compiled = _compiled(pattern) if found else None
    return [] if compiled is None else [one for one in found if compiled.match(one)]


@lru_cache(maxsize=200)
def fitting(names: frozenset[str], pattern: str) -> tuple[str, ...]:
    """Return the names that match a word with active globs, in order."""
    compiled = _compiled(marks.plain(pattern))
    return () if compiled is None else tuple(sorted(one for one in names if compiled.match(one)))


def meets(name: str, pattern: str) -> bool:
    """Say whether a name matches a pattern."""
    compiled = _compiled(pattern)
    return compiled is not None and compiled.match(name) is not None


@lru_cache(maxsize=1000)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """Return the expression for a pattern; None where no name can be as long as it asks for."""
    if len(pattern) > MAX_PATTERN:
        return None
    pattern = _STARS.sub("*", pattern)
    # Past the last bracket that closes none is closed, so that none is looked for in vain.
    closed = pattern.rfind("]") + 1
    least = len(_ONE.findall(pattern, 0, closed)) + len(pattern) - closed - pattern.count("*", closed)
    if least > MAX_NAME and "/" not in pattern:
        return None
    if "[" in pattern:
        pattern = _ONE.sub(_bracket, pattern[:closed]) + pattern[closed:]
    return re.compile(fnmatch.translate(pattern))


def _bracket(match: re.Match[str]) -> str:
    text = match.group()
    if text[0] != "[" or len(text) == 1:
        return text
    negated = text[1] in "!^"
    inside = text[1 + negated :]
    return ("[!" if negated else "[") + _KIND.sub(lambda kind: _KINDS.get(kind.group(1), ""), inside)
