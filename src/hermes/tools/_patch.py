"""Changing a text: replacements that have to be unambiguous, and unified diffs. All of it, or nothing."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from msgspec import Meta

from hermes.errors import FileError

from ._result import shown

__all__ = ["Edit", "Part", "edited", "parsed", "patched"]

NAMED = 5  # places that an error names
COMPARED = 20_000  # lines among which a similar one is looked for


class Edit(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One replacement."""

    old: Annotated[
        str, Meta(min_length=1, description="The text as it is now, exactly; it has to be unique.")
    ]
    new: Annotated[str, Meta(description="What stands there afterwards.")]
    all: Annotated[bool, Meta(description="Replace it wherever it is.")] = False


class _DoesNotFit(FileError):
    default_code = "patch_does_not_fit"


def edited(text: str, edits: list[Edit], path: str) -> str:
    """Return a text with the replacements made, one after the other.

    :raises FileError: code ``patch_does_not_fit``
    """
    for number, edit in enumerate(edits, 1):
        old, new = edit.old, edit.new
        if old not in text and "\r\n" in text and "\r" not in old:
            old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
        count = text.count(old)
        which = f"edit {number} of {len(edits)}" if len(edits) > 1 else "the text"
        if not count:
            raise _DoesNotFit(
                f"{which} is not in {shown(path)}; nothing was changed",
                path=path,
                hint=_nearest(text, edit.old),
            )
        if count > 1 and not edit.all:
            at, places = -1, list[str]()
            while len(places) < NAMED and (at := text.find(old, at + 1)) >= 0:
                places.append(str(text.count("\n", 0, at) + 1))
            raise _DoesNotFit(
                f"{which} is {count} times in {shown(path)}, at lines {', '.join(places)}"
                f"{' and more' if count > len(places) else ''}; nothing was changed",
                path=path,
                hint="Give more of what is around it, or all=true.",
            )
        text = text.replace(old, new)
    return text


def _nearest(text: str, old: str) -> str:
    """Return what is most like a text that was not found."""
    wanted = next((line for line in old.split("\n") if line.strip()), "")
    lines = text.split("\n")[:COMPARED]
    same = [at for at, line in enumerate(lines, 1) if line.strip() and line.split() == wanted.split()]
    if same:
        return (
            f"Line {same[0]} differs from its first line only in white space, or what follows differs: "
            "read_file shows it."
        )
    near = difflib.get_close_matches(wanted, lines, n=1, cutoff=0.6)
    if near:
        return f"Most like its first line is line {lines.index(near[0]) + 1}: {shown(near[0])}"
    return "Nothing in it is similar: read_file shows the file as it is now."


# --- unified diffs


@dataclass
class Hunk:
    """A piece of a diff: where it was, what has to be there, and what replaces it; lines with their ends."""

    line: int
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


@dataclass
class Part:
    """What a diff does to one file."""

    path: str
    new: bool
    hunks: list[Hunk] = field(default_factory=list)


_RANGE = re.compile(r"@@+ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def parsed(diff: str) -> list[Part]:
    """Return the parts of a unified diff.

    :raises FileError: it is none, or does what this tool does not
    """
    lines = diff.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    parts: list[Part] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(("rename ", "copy ", "GIT binary patch", "Binary files ")):
            raise _DoesNotFit(
                f"the diff has '{shown(line)}', which is not done here; nothing was changed",
                hint="Use git apply, mv or cp in the terminal.",
            )
        if line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            before, after = _name(line), _name(lines[at + 1])
            if after == "/dev/null":
                raise _DoesNotFit(
                    f"the diff removes {shown(before)}, which is not done here; nothing was changed",
                    hint="Remove it in the terminal.",
                )
            git = (before.startswith("a/") and before[2:] == after[2:]) or before == "/dev/null"
            path = after.removeprefix("b/") if git else after
            if any(one.path == path for one in parts):
                raise _DoesNotFit(f"the diff has {shown(path)} twice; nothing was changed")
            parts.append(Part(path, new=before == "/dev/null"))
            at += 2
        elif line.startswith("@@"):
            if not parts:
                raise _DoesNotFit(
                    "the diff does not say which file it is for; nothing was changed",
                    hint="Begin with the lines '--- a/PATH' and '+++ b/PATH'.",
                )
            at = _hunk(lines, at, parts[-1])
        else:
            at += 1
    if not any(part.hunks for part in parts):
        raise _DoesNotFit(
            "this is no unified diff; nothing was changed",
            hint="It has lines '--- PATH', '+++ PATH' and '@@ -LINE,COUNT +LINE,COUNT @@'; or use edits.",
        )
    return parts


def _name(line: str) -> str:
    return line[4:].split("\t")[0].strip()


def _hunk(lines: list[str], at: int, part: Part) -> int:
    found = _RANGE.match(lines[at])
    if found is None:
        raise _DoesNotFit(f"'{shown(lines[at])}' is no range of a diff; nothing was changed")
    hunk = Hunk(int(found[1]))
    left, right = int(found[2] or 1), int(found[4] or 1)
    at += 1
    while (left > 0 or right > 0) and at < len(lines):
        sign, rest = lines[at][:1], lines[at][1:] + "\n"
        if sign == "\\":
            _without_end(hunk, lines[at - 1][:1])
        elif sign in (" ", ""):
            hunk.old.append(rest if sign else "\n")
            hunk.new.append(rest if sign else "\n")
            left, right = left - 1, right - 1
        elif sign == "-":
            hunk.old.append(rest)
            left -= 1
        elif sign == "+":
            hunk.new.append(rest)
            right -= 1
        else:
            break
        at += 1
    if at < len(lines) and lines[at].startswith("\\"):
        _without_end(hunk, lines[at - 1][:1])
        at += 1
    if left or right:
        raise _DoesNotFit(
            f"the piece of {shown(part.path)} at line {hunk.line} has not as many lines as it says; "
            "nothing was changed",
            hint="The counts in '@@ -LINE,COUNT +LINE,COUNT @@' have to be right; or use edits.",
        )
    part.hunks.append(hunk)
    return at


def _without_end(hunk: Hunk, sign: str) -> None:
    for side, signs in ((hunk.old, " -"), (hunk.new, " +")):
        if side and sign in signs:
            side[-1] = side[-1].removesuffix("\n")


def patched(text: str, part: Part) -> str:
    """Return a text as a diff makes it. A piece that has moved is found where it is, if that is one place.

    :raises FileError: code ``patch_does_not_fit``
    """
    lines = text.splitlines(keepends=True) if "\r" not in text else re.findall(r"[^\n]*\n|[^\n]+", text)
    crlf = bool(lines) and lines[0].endswith("\r\n")
    shift, least = 0, 0
    for number, hunk in enumerate(part.hunks, 1):
        old, new = hunk.old, hunk.new
        if crlf:
            old, new = ([re.sub(r"(?<!\r)\n$", "\r\n", line) for line in side] for side in (old, new))
        begin = hunk.line - 1 + shift if old else hunk.line + shift
        at = _place(lines, old, max(begin, 0), least)
        if at is None:
            wanted = "".join(old[:1]).rstrip("\r\n")
            raise _DoesNotFit(
                f"piece {number} of {len(part.hunks)} (line {hunk.line}) does not fit {shown(part.path)}; "
                "nothing was changed",
                path=part.path,
                hint=_nearest(text, wanted),
            )
        lines[at : at + len(old)] = new
        shift, least = at - begin + shift + len(new) - len(old), at + len(new)
    return "".join(lines)


def _place(lines: list[str], old: list[str], begin: int, least: int) -> int | None:
    """Return where lines are: at their place, else at the one other place behind what was done before."""
    if begin >= least and lines[begin : begin + len(old)] == old and begin <= len(lines):
        return begin
    if not old:
        return None
    found = [
        at
        for at in range(least, len(lines) - len(old) + 1)
        if lines[at] == old[0] and lines[at : at + len(old)] == old
    ]
    return found[0] if len(found) == 1 else None
