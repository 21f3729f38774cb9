"""Characters that make a line look like something else than it is."""

from __future__ import annotations

import re
import unicodedata

from hermes._lazy import Lazy

_CONTROL = Lazy(r"[\x00-\x08\x0b-\x0d\x0e-\x1f\x7f\x80-\x9f]")
_INVISIBLE = Lazy(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-"
    "\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udc7f\udd00-\udfff\ufe00-\ufe0e\ufeff\uffa0"
    "\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U0010fe00-\U0010ffff]"
)
_SPACES = Lazy("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u0085]")
_WIDE = "\uff01-\uff5e\U0001d400-\U0001d7ff"
# Letters and signs of other scripts that look like Latin ones.
_ALIKE = (
    "\u0370-\u03ff\u0400-\u052f\u0531-\u058f\u13a0-\u13ff\u1e00-"
    "\u1eff\uab70-\uabbf\u2c60-\u2c7f\u0180-\u024f\u0250-\u02af"
    "\u1d00-\u1dbf\u2024\u2044\u2215\u29f8\u2223\uff5c\u01c0\ua789"
    "\u017f\u212a\u02d0\ufe55\u2039\u203a\u2018-\u201b\u2032\u02b9-\u02bc\ufe63"
)
_DASHES = "\u2010-\u2015\u2212"
_DASH = Lazy(f"(?<=[ \\t])[{_DASHES}](?=[A-Za-z-])")
# Without regard to case some letters of other scripts would be the same as Latin ones.
_HOST = Lazy(
    r"(?i:https?|ftp|ssh|git|"
    r"wss?)://[^\s/'\"]*[^\x00-\x7f\u2026][^\s/'\"]*|(?<![\w.-])(?i:xn)--[A-Za-z0-9-]+\.|\.(?i:xn)--[A-Za-z0-9-]+",
)
_ANSI = Lazy(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)|[@-Z\\-_])")
_EMOJI = Lazy("[\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u200d\ufe0f]")
# What matters for telling quoted text, comments and documents from the rest.
_SIGNS = Lazy(f"""['"\\\\\n#]|<<-?\\s*['"]?(\\w+)|[{_WIDE}{_ALIKE}{_DASHES}]""")


def suspicious(text: str) -> tuple[str, tuple[int, int]] | None:
    """Say what is deceptive in a text, and where; None for nothing."""
    match = _CONTROL.search(text)
    if match:
        return ("a control character in the line", match.span())
    match = _HOST.search(text)
    if match:
        return ("a host name with letters of another script", match.span())
    if text.isascii():
        return None
    for match in _INVISIBLE.finditer(text):
        # A variation selector or joiner within an emoji is how it is written.
        if match.group() in "\ufe0f\u200d" and _EMOJI.match(text[match.start() - 1 : match.start()] or " "):
            continue
        return ("a character that cannot be seen", match.span())
    match = _SPACES.search(text)
    if match:
        return ("a space that is none for the shell", match.span())
    return _alike(text)


def _alike(text: str) -> tuple[str, tuple[int, int]] | None:
    """Look for characters that look like others, outside quotes, comments and documents."""
    quote = ""
    ends: list[str] = []
    skip = 0
    for match in _SIGNS.finditer(text):
        at, sign = match.start(), match.group()
        if at < skip:
            continue
        if sign == "\n":
            if ends and not quote:
                for end in ends:
                    found = re.compile(rf"^\t*{end}$", re.MULTILINE).search(text, max(skip, at + 1))
                    skip = found.end() if found else len(text)
                ends = []
        elif sign == "\\":
            if quote != "'":
                skip = at + 2
        elif sign in "'\"":
            quote = "" if quote == sign else quote or sign
        elif quote:
            continue
        elif sign == "#":
            if at == 0 or text[at - 1] in " \t\n;":
                stop = text.find("\n", at)
                skip = len(text) if stop < 0 else stop
        elif match.group(1):
            ends.append(match.group(1))
        elif sign[0] == "<":
            continue
        elif "\uff01" <= sign <= "\uff5e" or sign >= "\U0001d400":
            return ("a character that looks like another one", match.span())
        elif _DASH.match(text, at):
            return ("a dash that is no option's dash", match.span())
        elif not ("\u2010" <= sign <= "\u2015" or sign == "\u2212") and _mixed(text, at):
            return ("a letter of another script among Latin ones", match.span())
    return None


def versions(text: str) -> list[str]:
    """Return the texts to judge: the line itself, and the line as it looks, where that differs."""
    if text.isascii() and _CONTROL.search(text) is None:
        return [text]
    cleaned = _ANSI.sub("", text)
    cleaned = cleaned.replace("\r\n", "\n").replace("\r", "\n").replace("\x0b", " ").replace("\x0c", " ")
    cleaned = _INVISIBLE.sub("", _CONTROL.sub("", cleaned))
    cleaned = _DASH.sub("-", _SPACES.sub(" ", cleaned))
    cleaned = unicodedata.normalize("NFKC", cleaned)
    return [text] if cleaned == text else [text, cleaned]


def _mixed(text: str, at: int) -> bool:
    """Say whether the word at a place has Latin letters as well, or stands where a command does."""
    start = max(text.rfind(sign, max(0, at - 200), at) for sign in " \t\n;|&") + 1
    word = re.compile(r"[^ \t\n;|&]{1,400}").match(text, start)
    inside = word.group() if word else ""
    return any("a" <= one.lower() <= "z" for one in inside) or start == 0 or not inside.isalpha()
