"""Showing a command to whoever decides about it: nothing hidden, wrapped, the reason underlined."""

from __future__ import annotations

import shlex
import unicodedata

from hermes.approval import UNKNOWN, Decision, Program, Request

from ._report import clean
from ._text import cells

MAX_LINES = 24


def underlined(
    text: str, span: tuple[int, int] | None, *, width: int = 80, indent: str = "  ", most: int = 0
) -> list[str]:
    """Return a command's lines, with ``^`` under the part that *span* names.

    Control and formatting characters are shown as escapes. A line feed is one too, and starts a new line.

    :param most: leave out the middle of more lines than that, and say so; 0 shows all
    """
    room = max(20, width - len(indent))
    lines: list[str] = []
    line = marks = ""
    start, end = span or (-1, -1)

    def put() -> None:
        nonlocal line, marks
        lines.append((indent + line).rstrip())
        if marks.strip():
            lines.append((indent + marks).rstrip())
        line = marks = ""

    for at, char in enumerate(text):
        shown = char if char == " " else clean(char)
        wide = cells(shown)
        if cells(line) + wide > room:
            put()
        line += shown
        marks += ("^" if start <= at < end else " ") * wide
        if char == "\n" and at + 1 < len(text):
            put()
    put()
    if most and len(lines) > most:
        kept = _around(lines, most)
        return kept
    return lines


def _around(lines: list[str], most: int) -> list[str]:
    """Return head and tail of many lines, and those with a mark wherever they are."""
    half = most // 2
    wanted = set(range(half)) | set(range(len(lines) - half, len(lines)))
    for at, line in enumerate(lines):
        if line.strip() and not line.strip().strip("^"):
            wanted |= {at - 1, at}
    kept, before = [], -1
    for at in sorted(wanted):
        if at != before + 1:
            kept.append(f"  [... {at - before - 1} lines are not shown here ...]")
        kept.append(lines[at])
        before = at
    return kept


def program_line(program: Program) -> str:
    """Return a resolved program as one line of shell, with what is unknown as an ellipsis."""
    return clean(" ".join(word if UNKNOWN in word else shlex.quote(word) for word in program.argv))


def odd_letters(text: str) -> list[str]:
    """Return a line for each kind of letter that is not ASCII, since some look like those that are."""
    found = sorted({char for char in text if not char.isascii() and char.isprintable()})
    return [f"{char} is U+{ord(char):04X} {unicodedata.name(char, 'without a name')}" for char in found[:8]]


def place_of(request: Request) -> str:
    """Return where a request is for, in words."""
    place = f"{request.backend}:{request.host}" if request.host else request.backend
    parts = [place or "here"]
    if request.cwd:
        parts.append(f"in {clean(request.cwd)}")
    if request.session:
        parts.append(f"session {clean(request.session)}")
    return ", ".join(parts)


def why(decision: Decision) -> str:
    """Return reason and rule as one sentence."""
    nothing = "nothing in it has to be asked about" if decision.action == "allow" else "no reason was given"
    reason = clean(decision.reason or nothing)
    return f"{reason} (rule {clean(decision.rule)})" if decision.rule else reason
