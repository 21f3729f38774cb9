"""Decodes texts of the line itself, so that what they hide is judged by what it says."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

from hermes._lazy import Lazy

from . import _marks as marks
from ._marks import DECODED

MAX_DECODED = 20_000
_WAYS: dict[str, Callable[[str], bytes]] = {
    "base64": lambda text: base64.b64decode(_padded(text.translate({45: 43, 95: 47}), 4)),
    "base32": lambda text: base64.b32decode(_padded(text.upper(), 8)),
    "base16": bytes.fromhex,
    "base85": base64.b85decode,
    "ascii85": base64.a85decode,
}
_SPACE = Lazy(r"[\s\\]+")


def decoded(text: str, way: str) -> str | None:
    """Return what a text stands for, with the mark of what was decoded; None where it cannot be told."""
    if len(text) > MAX_DECODED or not text.isascii() or not text.strip():
        return None
    try:
        raw = _WAYS[way](_SPACE.sub("", text))
        out = raw.decode("utf-8")
    except (ValueError, binascii.Error):
        return None
    if not out or marks.marked(out) or "\0" in out:
        return None
    return f"{out.rstrip(chr(10))}\n{DECODED}"


def legible(text: str) -> str:
    """Return a decoded text without its mark."""
    return text.replace("\n" + DECODED, "")


def _padded(text: str, size: int) -> str:
    text = text.rstrip("=")
    return text + "=" * (-len(text) % size)


def way_of(name: str, words: list[str]) -> str:
    """Return how a program decodes that is given options; empty where it is not known."""
    if name in ("base64", "base32"):
        return name
    if name == "base64decode":
        return "base64"
    if name == "basenc":
        return next((way for one in words for way in _WAYS if one in (f"--{way}", f"--{way}url")), "")
    plain = "".join(one[1:] for one in words if re.fullmatch(r"-[a-zA-Z]+", one))
    if name == "xxd" and "r" in plain and "p" in plain:
        return "base16"
    if name == "openssl" and words[:1] == ["base64"]:
        return "base64"
    if name == "openssl" and words[:1] == ["enc"] and set(words) <= {"enc", "-base64", "-a", "-A", "-d"}:
        return "base64"  # with a cipher it is no plain text
    return ""
