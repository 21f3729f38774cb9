"""Characters that make a line look like something else than it is."""

from __future__ import annotations

import re
import unicodedata

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x0d\x0e-\x1f\x7f\x80-\x9f]")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0"
    "\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U0010fe00-\U0010ffff]"
)
_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u0085]")
_WIDE = re.compile("[\uff01-\uff5e\U0001d400-\U0001d7ff]")
# Letters of other scripts that look like Latin ones.
_ALIKE = re.compile(
    "[\u0370-\u03ff\u0400-\u052f\u0531-\u058f\u13a0-\u13ff\u1e00-\u1eff\uab70-\uabbf\u2c60-\u2c7f\u0180-\u024f\u0250-\u02af\u1d00-\u1dbf\u037e\u2024\u2044\u2215\u29f8\u2223\uff5c\u01c0\ua789\u02d0\ufe55\u2039\u203a\u2018-\u201b\u2032\u02b9-\u02bc\ufe63\uff0d]"
)
_HOST = re.compile(
    r"(?:https?|ftp|ssh|git|wss?)://[^\s/'\"]*[^\x00-\x7f][^\s/'\"]*|xn--[a-z0-9-]+\.", re.IGNORECASE
)
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_DASH = re.compile("(?<=[ \t])[\u2010-\u2015\u2212](?=[A-Za-z-])")
_JOINED = re.compile("[\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff]")


def suspicious(text: str) -> tuple[str, tuple[int, int]] | None:
    """Say what is deceptive in a text, and where; None for nothing."""
    if text.isascii():
        match = _CONTROL.search(text)
        if match is None:
            return ("a host name in disguise", found.span()) if (found := _HOST.search(text)) else None
        return ("a control character in the line", match.span())
    match = _CONTROL.search(text)
    if match:
        return ("a control character in the line", match.span())
    for match in _INVISIBLE.finditer(text):
        # A variation selector or joiner within an emoji is how it is written.
        if match.group() in "\ufe0f\u200d" and _JOINED.match(text[match.start() - 1 : match.start()] or " "):
            continue
        return ("a character that cannot be seen", match.span())
    match = _SPACES.search(text)
    if match:
        return ("a space that is none for the shell", match.span())
    match = _HOST.search(text)
    if match:
        return ("a host name with letters of another script", match.span())
    for match in _WIDE.finditer(text):
        if not _quoted(text, match.start()):
            return ("a character that looks like another one", match.span())
    for match in _DASH.finditer(text):
        if not _quoted(text, match.start()):
            return ("a dash that is no option's dash", match.span())
    for match in _ALIKE.finditer(text):
        if not _quoted(text, match.start()) and _mixed(text, match.start()):
            return ("a letter of another script among Latin ones", match.span())
    return None


def versions(text: str) -> list[str]:
    """Return the texts to judge: the line itself, and the line as it looks, where that differs."""
    if text.isascii() and _CONTROL.search(text) is None:
        return [text]
    out = [text]
    cleaned = _ANSI.sub("", text)
    cleaned = _CONTROL.sub(
        "", cleaned.replace("\r\n", "\n").replace("\r", "\n").replace("\x0b", " ").replace("\x0c", " ")
    )
    cleaned = _INVISIBLE.sub("", cleaned)
    cleaned = _SPACES.sub(" ", cleaned)
    cleaned = _DASH.sub("-", cleaned)
    cleaned = unicodedata.normalize("NFKC", cleaned)
    if cleaned != text:
        out.append(cleaned)
    return out


def _quoted(text: str, at: int) -> bool:
    """Say whether a place is between quotes, or in a comment, near enough: an odd number of quotes before it."""
    before = text[max(0, at - 20_000) : at]
    line = before.rpartition("\n")[2]
    if re.search(r"(?:^|\s)#", line) and line.count("'") % 2 == 0 and line.count('"') % 2 == 0:
        return True
    return before.count('"') % 2 == 1 or before.count("'") % 2 == 1


def _mixed(text: str, at: int) -> bool:
    """Say whether the word at a place has Latin letters as well, or stands where a command does."""
    start = max(text.rfind(sign, 0, at) for sign in " \t\n;|&") + 1
    stop = min((place for sign in " \t\n;|&" if (place := text.find(sign, at)) >= 0), default=len(text))
    word = text[start:stop]
    return any("a" <= one.lower() <= "z" for one in word) or start == 0 or not word.isalpha()
