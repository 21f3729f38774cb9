"""What the building of a Dockerfile takes from the directory around it, so that a change of it is noticed."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

__all__ = ["digest_of"]

CONTENT_MOST = 64 << 20
"""Bytes that are read; of the files after those size and time are compared."""
STARS_MOST = 3

_CONTINUED = re.compile(r"[\\`][ \t]*\n")
_COMMENT = re.compile(r"^[ \t]*#[^\n]*\n", re.M)
_TAKES = re.compile(r"^\s*(?:ONBUILD\s+)?(?:(COPY|ADD)\s+(.+)|RUN\s+(--mount=\S.*))$", re.I | re.M)
_ELSEWHERE = re.compile(r"https?://|git@|git://|ssh://|<<")


def digest_of(content: bytes, dockerfile: str, folder: str, workspace: str | None = None) -> bytes:
    """Return what tells the files that a Dockerfile takes from those of another time. Blocks.

    :param folder: the directory that it is built with
    :param workspace: a directory that the sandbox itself will change: no directory is taken that lies in it
        or holds it, or each of its commands would make another image
    :return: nothing where it takes none
    """
    found = sources(content.decode("utf-8", "replace"))
    if not found:
        return b""
    ignored = _ignored(dockerfile, folder)
    total, room = hashlib.sha256(), CONTENT_MOST
    for path in sorted({path for source in found for path in _matching(folder, source)}):
        if workspace is not None and os.path.isdir(path) and _meets(path, workspace):
            continue
        for one in _files(path):
            name = os.path.relpath(one, folder)
            if _is_ignored(name, ignored):
                continue
            try:
                facts, size = _facts(one, room)
            except OSError:
                facts, size = b"unreadable", 0
            room -= size
            total.update(repr((name, facts)).encode("utf-8", "surrogateescape"))
    return total.digest()


def sources(text: str) -> list[str]:
    """Return the paths that a Dockerfile copies from its directory, ``.`` where that cannot be told."""
    found: list[str] = []
    for verb, words, mounts in _TAKES.findall(_CONTINUED.sub(" ", _COMMENT.sub("", text))):
        if not verb:
            if any(
                not re.search(r"\bfrom=|type=(?!bind)", one) for one in re.findall(r"--mount=(\S+)", mounts)
            ):
                found.append(".")
            continue
        flags = re.match(r"(?:--\S+\s+)*", words)
        assert flags is not None
        if re.search(r"--from=", flags[0], re.I):
            continue
        rest = words[flags.end() :].strip()
        try:
            named = json.loads(rest) if rest.startswith("[") else shlex.split(rest)
            named = [str(one) for one in named[:-1]]
        except ValueError:
            named = ["."]
        found += ["." if "$" in one else one for one in named if not _ELSEWHERE.match(one)]
    return found


def _matching(folder: str, source: str) -> Iterator[str]:
    inside = os.path.normpath("/" + source).lstrip("/")  # nothing outside can be named
    for path in glob.glob(inside, root_dir=folder, include_hidden=True) if inside else ["."]:
        whole = os.path.normpath(os.path.join(folder, path))
        if Path(os.path.realpath(whole)).is_relative_to(os.path.realpath(folder)):
            yield os.path.realpath(whole)


def _meets(path: str, other: str) -> bool:
    own, real = Path(os.path.realpath(path)), Path(os.path.realpath(other))
    return own.is_relative_to(real) or real.is_relative_to(own)


def _files(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        yield from (os.path.join(folder, name) for name in sorted([*names, *folders]))


def _facts(path: str, room: int) -> tuple[object, int]:
    """Return what tells a file from another one, and how much of it was read for that."""
    info = os.lstat(path)
    mode = stat.S_IMODE(info.st_mode)
    if stat.S_ISLNK(info.st_mode):
        return ("link", os.readlink(path)), 0
    if not stat.S_ISREG(info.st_mode):
        return (stat.S_IFMT(info.st_mode), mode), 0
    if info.st_size > room:
        return (mode, info.st_size, info.st_mtime_ns), 0
    with open(path, "rb") as file:
        return (mode, hashlib.file_digest(file, "sha256").digest()), info.st_size


def _ignored(dockerfile: str, folder: str) -> list[tuple[bool, re.Pattern[str]]]:
    """Return the patterns of ``.dockerignore``, and whether each takes back what earlier ones ignore."""
    if os.path.exists(f"{dockerfile}.dockerignore"):
        return []  # some builders go by that one and others do not: rather too much is compared
    file = Path(folder, ".dockerignore")
    try:
        if not file.is_file():  # a FIFO would hold us up
            return []
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    found = []
    for line in map(str.strip, lines):
        if line and not line.startswith("#"):
            back = line.startswith("!")
            clean = os.path.normpath("/" + line.removeprefix("!").strip()).lstrip("/")
            if clean.count("*") - clean.count("**") > STARS_MOST:
                return []  # it may be one for which an expression takes for ever
            if clean:
                found.append((back, re.compile(_translated(clean))))
    return found


def _translated(pattern: str) -> str:
    """Return the expression for a pattern: what it matches, and all that is below that."""
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    words = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    return "".join(parts.get(word, re.escape(word)) for word in words) + r"(?:/.*)?\Z"


def _is_ignored(name: str, patterns: list[tuple[bool, re.Pattern[str]]]) -> bool:
    ignored = False
    for back, pattern in patterns:
        if pattern.match(name):
            ignored = not back
    return ignored
