"""What of a recorded terminal may reach a real one: text, colours, and moves within the screen.

Everything else could do harm, or would be answered by the terminal as if its user had typed: the clipboard
(OSC 52), titles and links, questions about the device, other modes of the keyboard and the mouse.
"""

from __future__ import annotations

import re

__all__ = ["CALM", "Screen"]

LONGEST = 4096  # characters of a code that is not at its end

# The usual screen (1049 would move the cursor as well), without margins; a cursor; wrapping lines; letters
# instead of lines; no colour.
CALM = "\x1b[?1047l\x1b7\x1b[r\x1b8\x1b[?6l\x1b[?7h\x1b[?25h\x1b(B\x0f\x1b[0m"

_STRING = r"\x1b[\]PX^_]"  # what is followed by text for the terminal, up to BEL or ESC \
_CODE = re.compile(
    rf"{_STRING}[^\x07\x1b\x18\x1a]*(?:\x07|\x1b\\|(?=[\x1b\x18\x1a]))"
    r"|\x1b\[(?P<given>[0-?]*)(?P<more>[ -/]*)(?P<final>[@-~])"
    r"|\x1b(?P<single>[ -/]*[0-~])"
    r"|[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_OPEN = re.compile(rf"(?:{_STRING}[^\x07\x1b\x18\x1a]*\x1b?|\x1b\[[0-?]*[ -/]*|\x1b[ -/]*)\Z")
_MOVES = frozenset("ABCDEFGHIJKLMPSTXZ@`adefgmrsu")
_MODES = frozenset(("6", "7", "25", "47", "1047", "1048", "1049", "2026"))
_SINGLES = frozenset(("7", "8", "D", "E", "M", "(0", "(A", "(B", ")0", ")A", ")B"))
_CONTROLS = frozenset("\b\t\n\r\x0e\x0f")
_GIVEN = re.compile(r"[0-9;:]{0,64}")


class Screen:
    """Lets through what is harmless, of a text that comes in pieces."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, text: str) -> str:
        """Return what may be shown; a code that is not at its end waits for the next piece."""
        text, self._rest = self._rest + text, ""
        opened = _OPEN.search(text, max(0, len(text) - LONGEST))
        if opened is not None:
            text, self._rest = text[: opened.start()], text[opened.start() :]
        return _CODE.sub(_harmless, text)


def _harmless(found: re.Match[str]) -> str:
    code, final, single = found[0], found["final"], found["single"]
    if final is not None:
        given, more = found["given"], found["more"]
        if given.startswith("?"):
            asked = given[1:].split(";")
            moves = final in "hl" and all(mode in _MODES for mode in asked)
            return (
                code if not more and (moves or (final in "JK" and given[1:] in ("", "0", "1", "2"))) else ""
            )
        return code if not more and final in _MOVES and _GIVEN.fullmatch(given) else ""
    if single is not None:
        if single == "c":  # a terminal that begins anew; of that the empty screen
            return "\x1b[H\x1b[2J\x1b[0m"
        return code if single in _SINGLES else ""
    return code if code in _CONTROLS else ""
