"""Showing a command to whoever decides about it: nothing hidden, wrapped, the reason underlined."""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Sequence
from itertools import groupby

from hermes.approval import UNKNOWN, Decision, Program, Request

from ._report import clean
from ._text import cells

MAX_LINES = 24
MOST = 6  # programs, and reasons, that a question names
Span = tuple[int, int]


def underlined(
    text: str, spans: Sequence[Span] = (), *, width: int = 80, indent: str = "  ", most: int = 0
) -> list[str]:
    """Return a command's lines, with ``^`` under the parts that *spans* name.

    Control and formatting characters are shown as escapes. A line feed is one too, and starts a new line.

    :param most: leave out the middle of more lines than that, and say so; 0 shows all
    """
    room = max(20, width - len(indent))
    lines: list[str] = []
    line = marks = ""
    marked = bytearray(len(text))
    for start, end in spans:
        marked[start:end] = b"^" * (min(end, len(text)) - start)

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
        marks += ("^" if marked[at] else " ") * wide
        if char == "\n" and at + 1 < len(text):
            put()
    put()
    return _around(lines, most, indent) if most and len(lines) > most else lines


def _around(lines: list[str], most: int, indent: str) -> list[str]:
    """Return head and tail of many lines, and the first ones with a mark wherever they are."""
    half = most // 2
    wanted = set(range(half)) | set(range(len(lines) - half, len(lines)))
    under = [at for at, line in enumerate(lines) if line.strip() and not set(line) - {"^", " "}]
    for at in under[:half]:
        wanted |= {at - 1, at}
    kept, before = [], -1
    for at in sorted(wanted):
        if at != before + 1:
            kept.append(f"{indent}[... {at - before - 1} lines are not shown here ...]")
        kept.append(lines[at])
        before = at
    return kept


def program_line(program: Program) -> str:
    """Return a resolved program as one line of shell, with what is unknown as an ellipsis."""
    words = (word if UNKNOWN in word else shlex.quote(word) for word in program.argv)
    return clean(program.text or " ".join(words)) + "   (if the line were as it looks)" * program.seems


def program_lines(programs: Sequence[Program], most: int = 0, rest: str = "") -> list[str]:
    """Return a line for each program, and one for the same several times over.

    :param most: so many lines, of those first that are asked about; 0 for all
    :param rest: says where the others are
    """
    same = [list(group) for _, group in groupby(programs, program_line)]
    lines = [
        program_line(group[0]) + (f"   ({len(group)} times)" if len(group) > 1 else "") for group in same
    ]
    if not most or len(lines) <= most:
        return lines
    first = sorted(range(len(lines)), key=lambda at: not any(one.asked for one in same[at]))[:most]
    found: list[str] = []
    before = -1
    for at in sorted(first):
        found += ["..."] * (at != before + 1) + [lines[at]]
        before = at
    return [*found, f"and {sum(map(len, same)) - sum(len(same[at]) for at in first)} more{rest}"]


def spans(decision: Decision) -> list[Span]:
    """Return the parts of a command that something is said of."""
    found = [decision.span] if decision.span else []
    return found + [one.span for one in decision.also if one.span[1] > one.span[0]]


def others(decision: Decision, most: int = 0, rest: str = "") -> list[str]:
    """Return what else is said of a command, each once: at the most so many lines, 0 for all."""
    found = [f"{clean(one.reason)} (rule {clean(one.rule)})" for one in decision.also]
    found = [one for one in dict.fromkeys(found) if one != why(decision)]
    return [*found[:most], f"and {len(found) - most} more{rest}"] if most and len(found) > most else found


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
