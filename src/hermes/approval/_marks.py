"""Marks: characters that stand, inside a resolved text, for what cannot be known.

A resolved word is a plain ``str``. Where its text is not known one of these characters stands in its place,
so that
every operation on strings carries the marks along. A request that contains one of them itself is asked about.
"""

from __future__ import annotations

import re

from hermes._lazy import Lazy

UNKNOWN = "\U0010ff00"  # some text, within one word
SPLIT = "\U0010ff01"  # some text that was not quoted: any number of words
SECRET = "\U0010ff02"  # text of a credential
REMOTE = "\U0010ff03"  # text that came over the network
ENVIRON = "\U0010ff04"  # the whole environment, which may hold secrets
DECODED = "\U0010ff05"  # text that was decoded from something unreadable
PIDS = "\U0010ff06"  # numbers of processes that were looked up
EVERY = "\U0010ff07"  # of all there are, unfiltered
OUTPUT = "\U0010ff08"  # what a command printed
PRIVATE = "\U0010ff09"  # text of a file that is not for others, but may be looked at
NUMBER = "\U0010ff0b"  # what a command printed that can only be a number, a date, a hash and the like
FOUND = "\U0010ff0c"  # the rest of a path that a search found
BEFORE = "\U0010ff0d"  # what was in a file before the session changed it
KEY = "\U0010ff0a"  # a credential in a variable

STAR = "\U0010ff10"  # glob characters that are not quoted
QUESTION = "\U0010ff11"
BRACKET = "\U0010ff12"

_UNKNOWNS = frozenset(
    (UNKNOWN, SPLIT, SECRET, REMOTE, ENVIRON, DECODED, PIDS, EVERY, OUTPUT, PRIVATE, KEY, NUMBER, FOUND)
) | {BEFORE}
ALL = "".join(chr(0x10FF00 + index) for index in range(16))
GLOBS = {STAR: "*", QUESTION: "?", BRACKET: "["}
_FIRST = "\U0010ff00"
_SHOWN = {ord(one): "…" for one in _UNKNOWNS} | {ord(mark): text for mark, text in GLOBS.items()}
_PLAIN = {ord(mark): text for mark, text in GLOBS.items()}
_ACTIVE = {ord(text): mark for mark, text in GLOBS.items()}
# Whether there is a bracket that is closed, said so that a search is linear.
_BRACKETS = Lazy(r"\[[^][/]+\]|\[[^][/]*\[\]|\[\][^]/]*\]")
_NO_BRACKET = {ord(text): mark for mark, text in GLOBS.items() if text != "["}
_UNQUOTED = {**_ACTIVE, ord(UNKNOWN): SPLIT, ord(OUTPUT): OUTPUT + SPLIT}
_OUTPUT = {ord(UNKNOWN): OUTPUT, ord(SPLIT): OUTPUT}


def marked(text: str) -> bool:
    """Say whether a text has a mark of any kind."""
    return not text.isascii() and max(text) >= _FIRST


def unknown(text: str) -> bool:
    """Say whether a part of the text is not known."""
    return not text.isascii() and not _UNKNOWNS.isdisjoint(text)


def globbed(text: str) -> bool:
    """Say whether the text is a pattern for names of files."""
    return not text.isascii() and (STAR in text or QUESTION in text or BRACKET in text)


def kinds(*texts: str) -> str:
    """Return which kinds of unknown text are in these, and at least UNKNOWN: what a filter makes of them."""
    found = UNKNOWN
    for text in texts:
        if not text.isascii():
            for mark in (SECRET, REMOTE, ENVIRON, DECODED, PIDS, OUTPUT, PRIVATE, KEY):
                if mark in text and mark not in found:
                    found += mark
    return found


def plain(text: str) -> str:
    """Return the text with its glob characters as they were written."""
    return text if text.isascii() else text.translate(_PLAIN)


def shown(text: str) -> str:
    """Return the text for a human: what is unknown is an ellipsis."""
    return text if text.isascii() else re.sub("…+", "…", text.translate(_SHOWN))


def unquoted(text: str) -> str:
    """Return what the text of an expansion outside quotes is: its globs are active, its unknown parts
    split.
    """
    if "[" in text and not _BRACKETS.search(text):
        return text.translate({**_UNQUOTED, ord("["): "["})
    return text.translate(_UNQUOTED)


def active(text: str) -> str:
    """Return literal text outside quotes, with its globs active."""
    if "[" in text and not _BRACKETS.search(text):
        return text.translate(_NO_BRACKET)
    return text.translate(_ACTIVE)


def cut(text: str, most: int) -> str:
    """Return a text; of a longer one what it begins with, and after that a line which is not known."""
    return text if len(text) <= most else f"{text[:most]}\n{kinds(text[most:])}"


def output(text: str) -> str:
    """Return what a command printed as the value of its substitution: what is unknown came from a command."""
    return text if text.isascii() else text.translate(_OUTPUT)


def names(text: str) -> frozenset[str]:
    """Return the words of a text as a set: how tables of names are written."""
    return frozenset(text.split())
