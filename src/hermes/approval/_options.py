"""Tells the options of a command from its operands."""

from __future__ import annotations

import shlex

from hermes._lazy import Lazy


def options_of(words: list[str], valued: frozenset[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Split words into options with their values, and the rest from the first operand on.

    ``valued`` are the options that take the next word. A cluster of short ones is one option; the first of
    its letters that takes a value has the rest of it, or the next word.
    """
    found: list[tuple[str, str]] = []
    return found, words[_scan(words, 0, valued, found) :]


def apart(words: list[str], valued: frozenset[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Split words into options and operands, which may stand in any order."""
    found: list[tuple[str, str]] = []
    operands: list[str] = []
    index = _scan(words, 0, valued, found)
    while index < len(words):
        operands.append(words[index])
        index = _scan(words, index + 1, valued, found)
    return found, operands


def _scan(words: list[str], index: int, valued: frozenset[str], found: list[tuple[str, str]]) -> int:
    """Add the options from a place on to those that were found, and return where they end."""
    while index < len(words):
        word = words[index]
        if word == "--":
            return index + 1
        if word[:1] != "-" or word == "-":
            break
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            if not equals and word in valued and index + 1 < len(words):
                index += 1
                value = words[index]
            found.append((name, value))
        elif word in valued:
            index += 1
            found.append((word, words[index] if index < len(words) else ""))
        elif word[:2] in valued:
            found.append((word[:2], word[2:].removeprefix("=")))
        elif (place := _valued(word, valued)) and place < len(word) - 1:
            found.append((word, ""))
            found.append(("-" + word[place], word[place + 1 :]))
        elif place:
            index += 1
            found.append((word, ""))
            found.append(("-" + word[-1], words[index] if index < len(words) else ""))
        else:
            found.append((name, value))
        index += 1
    return index


def _valued(word: str, valued: frozenset[str]) -> int:
    """Return where in a cluster the first letter stands that takes a value; 0 for none."""
    for place in range(2, len(word)):
        if not word[place - 1].isalpha():
            return 0
        if "-" + word[place] in valued:
            return place
    return 0


def searched(words: list[str]) -> list[str]:
    """Return the words of grep or one of its like without what is searched for."""
    out: list[str] = []
    given = ended = False
    index = 0
    while index < len(words):
        word = words[index]
        if word in ("-e", "--regexp") or _PATTERN.fullmatch(word):
            given = True
            index += 1
        elif _PATTERN_FILE.fullmatch(word) or word.startswith("--regexp="):
            given = True
            out.append(word)
        elif word in _GREP_VALUED:
            index += 1
        elif (word[:1] != "-" or ended) and not given:
            given = True
        else:
            ended = ended or word == "--"
            out.append(word)
        index += 1
    return out


_PATTERN = Lazy(r"-[a-zA-Z]*e")
_PATTERN_FILE = Lazy(r"-[a-zA-Z]*f|--file(?:=.*)?")
_GREP_VALUED = frozenset(("-A", "-B", "-C", "-m", "-g", "-t", "-T", "--glob", "--type", "--iglob"))


_QUOTES = Lazy(r"['\"\\]")


def items_of(text: str) -> list[str]:
    """Return the words that xargs makes of what it reads."""
    if _QUOTES.search(text) is None:
        return text.split()
    if len(text) > 4000:
        return _QUOTES.sub("", text).split()  # what is in quotes falls apart at its blanks, too
    try:
        return shlex.split(text, comments=False)
    except ValueError:
        return text.split()
