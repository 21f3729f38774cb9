"""What well-known tokens look like: how each begins, of which characters it is, how long it has to be."""

from __future__ import annotations

import functools
import re

import msgspec

__all__ = ["BEFORE", "SHAPES", "Shape", "known", "userinfo"]

KEY_LONGEST = 16384  # of a private key

_KEY = "PRIVATE KEY-----"


class Shape(msgspec.Struct):
    """``heads``: how it begins; ``body``: what has to follow; ``more``: what of that may be all there is yet.

    Every repetition is bounded, and none can be read in two ways: the text may be made to take long.
    """

    heads: tuple[str, ...]
    body: str
    more: str


def _of(letters: str, least: int, *heads: str) -> Shape:
    return Shape(heads, f"{letters}{{{least},250}}", f"{letters}{{0,250}}")


SHAPES = (
    Shape(("AKIA", "ASIA"), "[A-Z0-9]{16}(?![A-Za-z0-9])", "[A-Z0-9]{0,16}"),
    _of("[A-Za-z0-9]", 20, "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "hf_", "npm_"),
    _of("[A-Za-z0-9_]", 20, "github_pat_"),
    _of("[A-Za-z0-9_-]", 16, "glpat-", "sk-"),
    _of("[A-Za-z0-9-]", 10, "xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-"),
    _of("[A-Za-z0-9_-]", 20, "pypi-"),
    _of("[A-Za-z0-9_-]", 30, "AIza"),
    Shape(
        ("eyJ",),
        r"[A-Za-z0-9_-]{8,3000}\.[A-Za-z0-9_-]{8,3000}\.[A-Za-z0-9_-]{0,1000}",
        r"[A-Za-z0-9_-]{0,3000}(?:\.[A-Za-z0-9_-]{0,3000}(?:\.[A-Za-z0-9_-]{0,1000})?)?",
    ),
    Shape(
        ("-----BEGIN ",),
        rf"[A-Z ]{{0,30}}{_KEY}(?:[^-]{{0,{KEY_LONGEST}}}(?:-----END [A-Z ]{{0,30}}{_KEY}|\Z))?",
        rf"[A-Z ]{{0,45}}(?:-{{0,4}}|-----[^-]{{0,{KEY_LONGEST}}}(?:-{{0,5}}|-----[A-Z ]{{0,49}}-{{0,4}}))",
    ),
)

# "task-..." is no "sk-...": nothing of a word may stand before it.
BEFORE = "(?<![A-Za-z0-9_-])"


@functools.cache
def userinfo() -> re.Pattern[str]:
    """Return the expression for a password in an address; the first group is what stands before it."""
    return re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"']{0,100}:)[^\s/@\"']+(?=@)")


@functools.cache
def known() -> re.Pattern[str]:
    """Return the expression for any of them."""
    each = (
        ("" if one.heads[0][0] == "-" else BEFORE) + f"(?:{'|'.join(one.heads)}){one.body}" for one in SHAPES
    )
    return re.compile("|".join(each), re.S | re.A)
