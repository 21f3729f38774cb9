"""Finding files, and lines in them: `search_files`. The searching is done inside."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hermes.errors import CommandError, FileError
from hermes.session import Result

from ._result import Outcome, Reply, cut, fenced, readable, shown
from ._tool import Use

__all__ = ["SearchFiles", "SearchReply", "search_files"]

LONGEST = 500  # characters of a line
SECONDS = 60.0
KEPT = 1 << 20

Glob = Annotated[str, Meta(min_length=1)]


class Match(msgspec.Struct, kw_only=True):
    """A line that matched, or is near one."""

    path: str
    line: int
    text: str
    near: Annotated[bool, Meta(description="It stands around a match, and is none itself.")] = False


class SearchReply(Reply, kw_only=True):
    """What was found."""

    matches: list[Match] = msgspec.field(default_factory=list)
    paths: list[str] = msgspec.field(default_factory=list)
    more: Annotated[bool, Meta(description="Whether there is more than is shown.")] = False


class SearchFiles(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `search_files`."""

    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            description="For content a regular expression (extended, as of grep -E), searched line by line. "
            "For files a path with *, ?, [...] and ** for any directories, such as src/**/*.py.",
        ),
    ]
    target: Literal["content", "files"] = "content"
    path: Annotated[str, Meta(min_length=1, description="Where to look.")] = "."
    glob: Annotated[Glob | None, Meta(description="content: only files of such a name, like *.py.")] = None
    literal: Annotated[bool, Meta(description="content: the pattern is plain text.")] = False
    ignore_case: Annotated[bool, Meta(description="content: upper and lower case are the same.")] = False
    context: Annotated[int, Meta(ge=0, le=20, description="content: lines around each match.")] = 0
    limit: Annotated[int, Meta(ge=1, le=1000, description="Matches, at most.")] = 100


async def search_files(use: Use, args: SearchFiles) -> Outcome:
    return await (_files(use, args) if args.target == "files" else _content(use, args))


async def _files(use: Use, args: SearchFiles) -> Outcome:
    paths = await use.box.files.glob(args.pattern, root=args.path)
    kept, room = [], use.room
    for path in paths[: args.limit]:
        path = shown(path)
        room -= len(path.encode()) + 1
        if room < 0:
            break
        kept.append(path)
    reply = SearchReply(paths=kept, more=len(kept) < len(paths))
    if not kept:
        return Outcome("nothing matched", reply)
    more = f"\nand {len(paths) - len(kept)} more: narrow the pattern, or raise limit" if reply.more else ""
    return Outcome(fenced("\n".join(kept), "search_files") + more, reply)


class _Enough(Exception):
    """As much as is wanted has come."""


class _Lines:
    """Takes what a search prints, until that is enough."""

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self._most = most

    def take(self, data: bytes) -> None:
        self.data += data
        if len(self.data) > KEPT or self.data.count(b"\n") > self._most:
            raise _Enough


async def _content(use: Use, args: SearchFiles) -> Outcome:
    stopped, result = False, None
    for argv in (_ripgrep(args), _grep(args)):
        lines = _Lines(args.limit * (2 * args.context + 2))
        try:
            result = await use.box.exec(
                argv, timeout=SECONDS, on_output=lines.take, on_stderr=_nothing, max_output=4096
            )
        except _Enough:
            stopped = True
            break
        if result.exit_code != 127:
            break
    if result is not None and not stopped:
        stopped = _failed(args, result, bool(lines.data))
    # With a NUL in it, it would pass for binary data, in which no secrets are looked for.
    data = bytes(lines.data).replace(b"\0", b"\x1f")
    if use.scrub:
        data = use.scrub.whole(data)[0]
    return _found(use, args, data, stopped)


async def _nothing(data: bytes) -> None:
    """Take what goes to stderr; the result has its beginning."""


def _failed(args: SearchFiles, result: Result, some: bool) -> bool:
    """Return whether a search was cut short.

    :raises CommandError: it could not be made
    """
    if result.timed_out:
        return True
    if result.exit_code in (0, 1) or some:
        return False
    said = cut(readable(result.stderr).strip(), 500)[0] or f"exit code {result.exit_code}"
    missing = "No such file" in said or "not found" in said
    kind = FileError if missing else CommandError
    raise kind(
        f"the search failed: {said}",
        code="not_found" if missing else "search_failed",
        hint=None if missing else "With literal=true the pattern is plain text.",
    )


def _ripgrep(args: SearchFiles) -> list[str]:
    argv = ["rg", "--no-config", "--line-number", "--with-filename", "--no-heading", "--null"]
    argv += ["--color=never", "--sort=path"]
    return [*argv, *_common(args), *(["--glob", args.glob] if args.glob else []), *_what(args)]


def _grep(args: SearchFiles) -> list[str]:
    argv = ["grep", "-r", "-I", "-n", "-H", "-Z", "--exclude-dir=.git"]
    argv += [] if args.literal else ["-E"]
    return [*argv, *_common(args), *([f"--include={args.glob}"] if args.glob else []), *_what(args)]


def _common(args: SearchFiles) -> list[str]:
    return (
        (["-F"] if args.literal else [])
        + (["-i"] if args.ignore_case else [])
        + [f"-C{args.context}"] * bool(args.context)
    )


def _what(args: SearchFiles) -> list[str]:
    return ["-e", args.pattern, "--", args.path]


_LINE = re.compile(rb"([^\x1f\n]+)\x1f(\d+)([:-])(.*)")


def _found(use: Use, args: SearchFiles, data: bytes, stopped: bool) -> Outcome:
    matches: list[Match] = []
    count, room, more = 0, use.room // 2, stopped  # the object has the same in more words
    for raw in data.split(b"\n"):
        part = _LINE.fullmatch(raw)
        if part is None:
            continue
        near = part[3] == b"-"
        text = readable(part[4])
        text = text if len(text) <= LONGEST else text[:LONGEST] + "..."
        path = shown(part[1].decode("utf-8", "replace")).removeprefix("./")
        room -= len(text.encode()) + len(path.encode()) + 12
        if room < 0 or (count == args.limit and not near):
            more = True
            break
        count += not near
        matches.append(Match(path=path, line=int(part[2]), text=text, near=near))
    reply = SearchReply(matches=matches, more=more)
    if not matches:
        return Outcome("nothing matched" + (" until the search was ended" if more else ""), reply)
    lines = [
        f"{one.path}{'-' if one.near else ':'}{one.line}{'-' if one.near else ':'}{one.text}"
        for one in matches
    ]
    note = "\nand more: narrow the pattern or the path, or raise limit" if more else ""
    return Outcome(fenced("\n".join(lines), "search_files") + note, reply)
