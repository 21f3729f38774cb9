"""Files in the sandbox: `read_file`, `write_file` and `patch`."""

from __future__ import annotations

import shlex
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hermes._json import plain
from hermes.errors import FileError, HermesError, Refused
from hermes.files import Files
from hermes.session import text_bytes

from ._patch import Edit, edited, parsed, patched
from ._result import Outcome, Reply, binary_note, cut, fenced, is_binary, shown
from ._tool import ToolError, Use

__all__ = [
    "Patch",
    "PatchReply",
    "ReadFile",
    "ReadReply",
    "WriteFile",
    "WriteReply",
    "patch",
    "read_file",
    "write_file",
]

PIECE = 1 << 20
SCANNED = 64 << 20  # bytes that are looked through for a line
EDITABLE = 8 << 20
LINES = 2000
LONGEST_LINE = 2000

Some = Annotated[str, Meta(min_length=1)]
Path = Annotated[str, Meta(min_length=1, description="Absolute, or relative to where the sandbox begins.")]


class ReadFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `read_file`."""

    path: Path
    offset: Annotated[int, Meta(ge=1, description="The first line, counted from 1.")] = 1
    limit: Annotated[int, Meta(ge=1, le=LINES, description="How many lines, at most.")] = LINES


class ReadReply(Reply, kw_only=True):
    """What was read."""

    path: str | None = None
    content: Annotated[str, Meta(description="The lines, without their numbers.")] = ""
    first: Annotated[int | None, Meta(description="The number of the first line.")] = None
    last: int | None = None
    bytes: Annotated[int | None, Meta(description="Of the whole file.")] = None
    more: Annotated[bool, Meta(description="Whether lines follow.")] = False
    binary: bool = False
    redacted: Annotated[int, Meta(description="Secrets that were taken out.")] = 0


class WriteFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `write_file`."""

    path: Path
    content: str
    append: Annotated[bool, Meta(description="Add to its end instead of replacing it.")] = False


class Written(msgspec.Struct, kw_only=True):
    """A file that was changed."""

    path: str
    bytes: int
    change: Literal["made", "replaced", "appended", "edited"]
    added: int | None = None
    removed: int | None = None


class WriteReply(Reply, kw_only=True):
    """What was written."""

    files: list[Written] = msgspec.field(default_factory=list)


class Patch(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `patch`."""

    path: Annotated[Some | None, Meta(description="The file, with edits.")] = None
    edits: Annotated[
        list[Edit], Meta(description="Replacements in that file, made one after the other.")
    ] = []
    diff: Annotated[
        Some | None,
        Meta(description="Instead of path and edits: a unified diff, of one file or several."),
    ] = None


class PatchReply(WriteReply, kw_only=True):
    """What was changed."""


async def may_read(use: Use, path: str) -> None:
    """Return when a file may be read: it is judged as the command that would show it.

    :raises Refused: it may not
    """
    gate = use.box._gate
    if gate is not None:
        await gate.check(gate.request("run", f"cat -- {shlex.quote(path)}"))


async def read_file(use: Use, args: ReadFile) -> Outcome:
    await may_read(use, args.path)
    files = use.box.files
    size = (await files.stat(args.path, follow=True)).size
    data = await files.read(args.path, n=PIECE)
    if is_binary(data):
        note = binary_note(data, max(size, len(data)), "the file")
        reply = ReadReply(path=args.path, bytes=size, binary=True, content=note)
        return Outcome(fenced(note, "read_file"), reply)
    skip, offset, seen = args.offset - 1, len(data), 0
    # Line by line is by line feeds alone: that is what other programs count.
    while (found := data.count(b"\n")) < skip + args.limit and len(data) + seen < size:
        if found < skip:  # what is before the first line is not kept
            end = data.rfind(b"\n") + 1
            skip, seen, data = skip - found, seen + end, data[end:]
        elif len(data) > PIECE:
            break
        if seen > SCANNED:
            raise FileError(
                f"line {args.offset} is too far into {plain(args.path)}: more than {SCANNED >> 20} MiB",
                path=args.path,
                code="too_large",
                hint="Use sed -n, or tail, in the terminal.",
            )
        piece = await files.read(args.path, offset=offset, n=PIECE)
        if not piece:
            break
        offset += len(piece)
        data += piece
    redacted = 0
    if use.scrub:
        data, redacted = use.scrub.whole(data, cut=offset < size)
    lines = data.decode("utf-8", "replace").split("\n")
    ends = offset >= size and data.endswith(b"\n")
    if ends or not data:
        lines.pop()
    return _read(use, args, lines[skip:], len(lines), offset < size, size, redacted)


def _read(
    use: Use, args: ReadFile, lines: list[str], known: int, unread: bool, size: int, redacted: int
) -> Outcome:
    kept: list[str] = []
    room = use.room
    for line in lines[: args.limit]:
        line = cut(line.removesuffix("\r"), LONGEST_LINE)[0].replace("\n", " ")
        room -= len(line.encode("utf-8", "replace")) + 8
        if room < 0:
            break
        kept.append(line)
    more = unread or len(kept) < len(lines)
    first, last = args.offset, args.offset + len(kept) - 1
    reply = ReadReply(
        path=args.path, content="\n".join(kept), bytes=size, more=more, redacted=redacted,
        first=first if kept else None, last=last if kept else None,
    )  # fmt: skip
    head = f"{shown(args.path)} | {size} bytes"
    if not kept:
        if size:
            reply.hint = f"it has {known} lines" if not unread else "there is no such line"
        return Outcome(f"{head} | " + (f"no line {first}: {reply.hint}" if size else "empty"), reply)
    if more:
        reply.hint = f"more lines follow: offset={last + 1}"
    if redacted:
        told = f"{redacted} secrets were taken out: change the file with patch, not write_file"
        reply.hint = f"{reply.hint}; {told}" if reply.hint else told
    numbered = "\n".join(f"{first + at:>6}\t{line}" for at, line in enumerate(kept))
    text = f"{head} | lines {first} to {last}\n{fenced(numbered, 'read_file')}"
    return Outcome(f"{text}\nhint: {reply.hint}" if reply.hint else text, reply)


async def write_file(use: Use, args: WriteFile) -> Outcome:
    files = use.box.files
    data = text_bytes(args.content, "the content")
    there = await files.exists(args.path)
    if args.append:
        await files.append(args.path, data)
    else:
        await files.write(args.path, data)
    change: Literal["made", "replaced", "appended"] = "appended" if args.append else "replaced"
    written = Written(path=args.path, bytes=len(data), change=change if there else "made")
    return Outcome(f"{shown(args.path)}: {written.change}, {len(data)} bytes", WriteReply(files=[written]))


async def patch(use: Use, args: Patch) -> Outcome:
    if (args.diff is None) == (args.path is None) or bool(args.edits) != (args.diff is None):
        raise ToolError("patch: give path and edits, or diff alone; nothing was changed")
    wanted: list[tuple[str, str, str, bool]] = []  # path, before, after, new
    if args.diff is not None:
        for part in parsed(args.diff):
            before = "" if part.new else await _text(use, part.path)
            if part.new and await use.box.files.exists(part.path):
                raise FileError(
                    f"{plain(part.path)} is there already, and the diff makes it; nothing was changed",
                    path=part.path,
                    code="exists",
                )
            wanted.append((part.path, before, patched(before, part), part.new))
    elif args.path is not None:
        before = await _text(use, args.path)
        wanted.append((args.path, before, edited(before, args.edits, args.path), False))
    done: list[Written] = []
    try:
        for path, before, after, new in wanted:
            data = text_bytes(after, "the content")
            await use.box.files.write(path, data)
            added, removed = _counted(before, after)
            change: Literal["made", "edited"] = "made" if new else "edited"
            done.append(Written(path=path, bytes=len(data), change=change, added=added, removed=removed))
    except (Refused, FileError) as error:
        if done:
            await _undo(use, wanted[: len(done)], error)
        raise
    lines = [f"{shown(one.path)}: {one.change}, +{one.added} -{one.removed} lines" for one in done]
    return Outcome("\n".join(lines), PatchReply(files=done))


async def _undo(use: Use, done: list[tuple[str, str, str, bool]], error: HermesError) -> None:
    """Take back changes of files, and say so in the error that made it necessary."""
    files = Files(use.box._channel)  # nobody is asked whether what was there may be there again
    left = []
    for path, before, _, new in done:
        try:
            if new:
                await files.remove(path)
            else:
                await files.write(path, before.encode("utf-8", "surrogateescape"))
        except FileError:
            left.append(path)
    told = f"{', '.join(map(shown, left))} stayed changed" if left else "the other files are as they were"
    error.message = f"{error.message}; {told}"


async def _text(use: Use, path: str) -> str:
    await may_read(use, path)
    data = await use.box.files.read(path, n=EDITABLE + 1)
    if len(data) > EDITABLE:
        raise FileError(
            f"{plain(path)} is larger than {EDITABLE >> 20} MiB; nothing was changed",
            path=path,
            code="too_large",
            hint="Use a program such as sed in the terminal.",
        )
    return data.decode("utf-8", "surrogateescape")


def _counted(before: str, after: str) -> tuple[int, int]:
    """Return how many lines are new, and how many are gone, between the first and the last that differ."""
    old, new = before.split("\n"), after.split("\n")
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return len(new) - start - end, len(old) - start - end
