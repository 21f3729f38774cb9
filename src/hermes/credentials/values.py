"""What is secret of what is declared, and how it may be written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._declared import Content

__all__ = ["LONGEST", "MOST", "SHORTEST", "forms_of", "values_of"]

SHORTEST = 8  # a shorter value is in too many words that are none
LONGEST = 4096
FAR = 1 << 16  # bytes of one word of a long value that are looked for
MOST = 10_000  # values: each takes memory and time when it changes

# Which are no secrets, whatever they are declared as, and in everybody's output.
_PLAIN_WORDS = frozenset(
    b"""
    password passwords username postgres changeme changeit localhost production development
    container workspace undefined disabled enabled administrator 127.0.0.1
    """.split()
)


def values_of(content: Content) -> set[bytes]:
    """Return what is secret of what is declared: values as they are, and what looks like it in long ones.

    Of files it may be looked for too, and of values that have several lines, which are shown line by line.
    """
    word = re.compile(r"[A-Za-z0-9_.~-]{16,}|[A-Za-z0-9+/]{32,}={0,2}")
    name = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+|[a-z_.-]+|[A-Z_]+|[A-Za-z]+")  # of a host, a key, a word
    whole = [value.encode("utf-8", "surrogateescape").strip() for value in content.env.values()]
    parted = [value for value in whole if len(value) > LONGEST or b"\n" in value]
    for piece in content.files.values():
        whole.append(piece.data.strip())
        parted.append(whole[-1])
    found = {value for value in whole if len(value) <= LONGEST and value.lower() not in _PLAIN_WORDS}
    for text in parted:
        for one in word.finditer(text.decode("utf-8", "replace")):
            if len(found) >= MOST:
                break
            if not name.fullmatch(one[0]):
                # In pieces that are found each by itself, as far as anybody would look at it.
                found.update(
                    one[0][at : at + LONGEST].encode() for at in range(0, min(len(one[0]), FAR), LONGEST)
                )
    return {value for value in found if len(value) >= SHORTEST}


def forms_of(value: bytes) -> Iterator[bytes]:
    """Yield a value and what encodings make of it, also where it stands in the middle of something longer."""
    import base64
    import json
    import urllib.parse

    yield value
    text = value.decode("utf-8", "surrogateescape")
    quotes = [urllib.parse.quote(value, safe=safe) for safe in ("", "/", "!'()*")]  # as others leave them
    for quoted in (*quotes, urllib.parse.quote_plus(value)):
        yield quoted.encode()
        yield re.sub(r"%..", lambda found: found[0].lower(), quoted).encode()
    escaped = json.dumps(text)[1:-1]
    others = re.sub(r"\\u....", lambda found: "\\u" + found[0][2:].upper(), escaped)
    for one in (escaped, others, json.dumps(text, ensure_ascii=False)[1:-1]):
        for written in (one, one.replace("/", "\\/")):  # as others escape it
            yield written.encode("utf-8", "surrogateescape")
    for shift, first in ((0, 0), (1, 2), (2, 3)):  # the characters before depend on what is before
        last = (shift + len(value)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(b"\0" * shift + value)[first:last]
