"""What a program does, and how its words are looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ._call import Call
from ._rules import Shape

if TYPE_CHECKING:
    from ._policy import Policy


class Effect(msgspec.Struct, frozen=True):
    """What a program does. ``reads``: a word that names a credential means that it is read; ``quiet``: it
    changes nothing; ``judge`` looks at the words.
    """

    judge: Callable[[Policy, Call, Shape], None] | None = None
    reads: bool = True
    quiet: bool = False


def operands_of(call: Call, valued: str = "") -> list[str]:
    """Return the words that are no options, wherever they stand."""
    skip = frozenset(valued.split())
    out: list[str] = []
    words = call.argv
    index = 1
    while index < len(words):
        word = words[index]
        if word == "--":
            return out + words[index + 1 :]
        if word[:1] == "-" and len(word) > 1:
            if word in skip:
                index += 1
        else:
            out.append(word)
        index += 1
    return out


def has(call: Call, letters: str, *names: str) -> bool:
    """Say whether a flag is given: a letter of a cluster, or a long name or an abbreviation of it."""
    for word in call.argv[1:]:
        if word == "--":
            return False
        if word.startswith("--") and len(word) > 2:
            long = word.partition("=")[0]
            if any(name == long or (len(long) > 3 and name.startswith(long)) for name in names):
                return True
        elif word[:1] == "-" and any(letter in word[1:] for letter in letters):
            return True
    return False
