"""What an overlay changed of a directory here: looking at it, taking it over, and taking it back."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from hermes.backends._workspace import remove_trees
from hermes.errors import FileError
from hermes.guest.archive import CHUNK, TreeError

from ._facts import MOST_FILE, TOO_LARGE, Entry, Facts
from ._here import facts_of
from ._ignore import Rules
from ._layer import ELSEWHERE, Layer, born, is_opaque, is_whiteout, lstat, marked, reader, to_bytes
from ._plan import Change, Outcome, Sides, change, coming, in_order, is_gits, wanted
from ._protect import Guard
from ._text import MAX_TEXT, quoted, unified
from ._write import Moved, Writer, said

__all__ = ["Found", "diffs", "discard", "empty", "land", "look", "plan"]

MAX_PATH = 4000
BOTH = Entry(Facts("other", 0, 0, (0, 0)), Facts("other", 0, 0, (0, 0)))
"""What was there before of a file that changed on both sides: something else."""


@dataclass
class Found:
    """What differs.

    ``changed``: the paths that were asked for, but those that are ``alike`` although they were written,
    and those that git's rules ignore: the number of these is kept. ``names``: what the directories here hold.
    """

    sides: Sides = field(default_factory=lambda: Sides({}, {}, {}))
    changed: list[str] = field(default_factory=list)
    alike: list[str] = field(default_factory=list)
    ignored: int = 0
    why: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    guard: Guard = field(default_factory=lambda: Guard((), ()))

    def note(self, path: str) -> str:
        """Return why a path is not taken over just so; empty when it is."""
        facts = self.sides.there.get(path)
        if self.sides.changed_here(path):
            return "it changed here too"
        return self.never(path, facts) or self.guard.held(path, facts)

    def never(self, path: str, facts: Facts | None) -> str:
        return self.why.get(path, "") or self.guard.never(path, facts)

    def changes(self) -> list[Change]:
        return [
            change(path, self.sides.here.get(path), self.sides.there.get(path), self.note(path))
            for path in self.changed
        ]


# --- looking


def look(layer: Layer, paths: Iterable[str] = (), *, read_all: bool = False, ignored: bool = False) -> Found:
    """Return what differs between both, of some paths or all. Blocks.

    :param read_all: read every file, so that it can be told later whether it is still the same
    :param ignored: with what git's rules ignore
    """
    found, some = Found(), list(paths)
    _walk(layer, found)
    sides, rules = found.sides, Rules(layer.root)
    every = wanted(sorted({*sides.here, *sides.there}), some)
    room = shutil.disk_usage(f"/proc/self/fd/{layer.lower}").free
    for path in every:
        _read(layer, found, path, room, read_all=read_all)
        if sides.alike(path):
            found.alike.append(path)
            continue
        if not ignored and path not in some and rules.ignores(path, folder=False):
            found.ignored += 1
            continue
        found.changed.append(path)
    found.guard = Guard([*sides.there, *sides.folders], [*sides.here, *found.names])
    return found


def _walk(layer: Layer, found: Found) -> None:
    todo = [("", False)]
    while todo:
        path, hidden = todo.pop()
        try:
            with layer.folder(layer.upper, path) as up, layer.folder(layer.lower, path) as low:
                if up is not None:
                    _folder(layer, found, path, up, low, hidden, todo)
        except OSError as error:
            found.sides.folders.discard(path)
            _other(found, path, f"the directory cannot be read: {error.strerror}")


def _folder(
    layer: Layer,
    found: Found,
    path: str,
    up: int,
    low: int | None,
    hidden: bool,
    todo: list[tuple[str, bool]],
) -> None:
    """Look at one directory of the upper layer. ``hidden``: nothing of the lower one is seen through it."""
    before = set() if low is None else set(os.listdir(low))
    now = sorted(os.listdir(up))
    start = path + "/" if path else ""
    found.names.update(start + name for name in before)
    for name in now:
        one, base = start + name, os.fsencode(name)
        info, lower = lstat(up, base), None if low is None or name not in before else lstat(low, base)
        if info is None:
            continue
        if lower is not None and low is not None:
            since = born(up, base)
            if not (stat.S_ISDIR(info.st_mode) and stat.S_ISDIR(lower.st_mode)):
                _was(layer, found, one, lower, since)
        if is_whiteout(info):
            continue
        _is(found, one, up, base, info, hidden, todo)
    if hidden and low is not None:
        since = born(up, b".")
        for name in before.difference(now):
            lower = lstat(low, os.fsencode(name))
            if lower is not None:
                _was(layer, found, start + name, lower, since)


def _is(
    found: Found,
    path: str,
    up: int,
    base: bytes,
    info: os.stat_result,
    hidden: bool,
    todo: list[tuple[str, bool]],
) -> None:
    """Note what there is in the upper layer."""
    if len(to_bytes(path)) > MAX_PATH:
        _other(found, path, "its path is too long")
        return
    try:
        if stat.S_ISLNK(info.st_mode):
            target = os.readlink(base, dir_fd=up).decode("utf-8", "surrogateescape")
            found.sides.there[path] = facts_of(info).with_content(target)
            return
        if not stat.S_ISDIR(info.st_mode) and not stat.S_ISREG(info.st_mode):
            _other(found, path, "it is no file, directory or link")
            return
        if marked(up, base, *ELSEWHERE):
            _other(found, path, "its content is somewhere else")
        elif stat.S_ISDIR(info.st_mode):
            found.sides.folders.add(path)
            todo.append((path, hidden or is_opaque(up, base)))
        else:
            found.sides.there[path] = facts_of(info)
    except OSError as error:
        _other(found, path, f"it cannot be read: {error.strerror}")


def _other(found: Found, path: str, why: str) -> None:
    found.sides.there[path] = Facts("other", 0, 0, (0, 0))
    found.why[path] = why


def _was(layer: Layer, found: Found, path: str, info: os.stat_result, since: int) -> None:
    """Note what there is in the lower directory: a file, or all that is in a directory."""
    todo = [(path, info)]
    while todo:
        one, info = todo.pop()
        if not stat.S_ISDIR(info.st_mode):
            facts = facts_of(info)
            found.sides.here[one] = facts
            found.sides.base[one] = BOTH if info.st_ctime_ns > since else Entry(facts, facts)
            continue
        with layer.folder(layer.lower, one) as low:
            for name in os.listdir(low) if low is not None else ():
                below = lstat(low, os.fsencode(name)) if low is not None else None
                if below is not None:
                    todo.append((f"{one}/{name}", below))


def _read(layer: Layer, found: Found, path: str, room: int, *, read_all: bool) -> None:
    """Fill in the content of a file, as far as it is needed."""
    sides = found.sides
    here, there = sides.here.get(path), sides.there.get(path)
    if here is not None and here.kind == "link":
        with layer.folder(layer.lower, path.rpartition("/")[0]) as low, contextlib.suppress(OSError):
            if low is not None:
                name = to_bytes(path.rpartition("/")[2])
                target = os.readlink(name, dir_fd=low).decode("utf-8", "surrogateescape")
                here = here.with_content(target)
    elif here is not None and here.kind == "file":
        both = there is not None and (there.kind, there.size) == ("file", here.size)
        here = here.with_content(_hash(layer, layer.lower, path, found) if both else "?")
    if there is not None and there.kind == "file":
        if there.size > room:
            found.why[path] = "there is no room for it here"
        elif read_all or (here is not None and here.content not in ("", "?")):
            there = there.with_content(_hash(layer, layer.upper, path, found))
        sides.there[path] = there
    if here is not None:
        base = sides.base.get(path)
        if base is not None and base is not BOTH:
            sides.base[path] = Entry(here, here)
        sides.here[path] = here


def _hash(layer: Layer, top: int, path: str, found: Found) -> str:
    digest = hashlib.sha256()
    try:
        with layer.file(top, path) as fd:
            if os.fstat(fd).st_size > MOST_FILE:
                found.why.setdefault(path, TOO_LARGE)
                return f"unread {top}"
            while data := os.read(fd, CHUNK):
                digest.update(data)
    except OSError as error:
        found.why.setdefault(path, f"it cannot be read: {error.strerror or error}")
        return f"unread {top}"
    return digest.hexdigest()


# --- showing


def diffs(layer: Layer, found: Found) -> Iterator[tuple[Change | None, str]]:
    """Yield each change with its text, in the form of ``diff -u``; None stands for git's own data. Blocks."""
    of_git = 0
    for one in found.changes():
        if is_gits(one.path) and not one.note:
            of_git += 1
            continue
        note = f"{quoted(one.path)}: {one.note}\n" if one.note else ""
        here, there = found.sides.here.get(one.path), found.sides.there.get(one.path)
        if there is not None and there.kind == "other":
            yield one, note
            continue
        before = _content(layer, layer.lower, one.path, here)
        now = _content(layer, layer.upper, one.path, there)
        yield one, note + unified(one.path, before, now, here, there)
    if of_git:
        yield None, f"git's own data: {of_git} files changed\n"


def _content(layer: Layer, top: int, path: str, facts: Facts | None) -> bytes | None:
    if facts is None:
        return None
    if facts.kind == "link":
        return facts.content.encode("utf-8", "surrogateescape")
    try:
        if facts.kind != "file" or facts.size > MAX_TEXT:
            return bytes(MAX_TEXT + 1)
        with layer.file(top, path) as fd, open(fd, "rb", closefd=False) as file:
            return file.read(MAX_TEXT + 1)
    except OSError:
        return bytes(MAX_TEXT + 1)


# --- taking over, and back


def plan(found: Found, *, force: bool, protected: Collection[str] = ()) -> Outcome:
    """Return what would be taken over.

    :param protected: paths that come here although programs here read them by themselves
    """

    def why(path: str, facts: Facts | None) -> str:
        return found.never(path, facts) or ("" if path in protected else found.guard.held(path, facts))

    return coming(found.sides, found.changed, why, force=force)[0]


def land(layer: Layer, found: Found, outcome: Outcome) -> None:
    """Take over what ``outcome.done`` names; what could not be written moves to ``failed``. Blocks.

    The overlay must not be mounted: what was taken over is no change any more, and goes from it.
    """
    size, free = outcome.bytes, shutil.disk_usage(f"/proc/self/fd/{layer.lower}").free
    if size > free:
        raise FileError(
            f"{layer.root} has room for {free} bytes, and what is to come has {size}; nothing was written",
            path=layer.root,
            code="no_space",
            operation="apply",
        )
    sides = found.sides
    changes = {one.path: one for one in outcome.done}
    outcome.done = []
    gone = sorted((path for path in changes if path not in sides.there), reverse=True)
    coming_in = in_order([path for path in changes if path in sides.there], sides.there)
    writer = Writer(f"/proc/self/fd/{layer.lower}")
    try:
        for path in (*gone, *coming_in):
            why = _land(layer, writer, sides, path)
            one = changes[path]
            if why:
                outcome.failed.append(msgspec.structs.replace(one, note=why))
                continue
            outcome.done.append(one)
            with contextlib.suppress(OSError):
                layer.drop(path)  # else it is alike in both, which the next time finds
    finally:
        writer.close()
    outcome.done.sort(key=lambda one: one.path)
    for path in found.alike:  # written, and the same all the same: it would hide what changes here
        with contextlib.suppress(OSError):
            layer.drop(path)


def _land(layer: Layer, writer: Writer, sides: Sides, path: str) -> str:
    """Take over one path; return why it could not be."""
    there, here = sides.there.get(path), sides.here.get(path)
    try:
        if there is None:
            writer.remove(path, here, sides.folders.__contains__)
        elif there.kind == "link":
            writer.link(path, there, here)
        else:
            with layer.file(layer.upper, path) as fd:
                return writer.put(path, there, here, reader(fd))[1]
    except (OSError, Moved, TreeError) as error:
        return said(error)
    return ""


def discard(layer: Layer, outcome: Outcome) -> None:
    """Take back what ``outcome.done`` names; what could not be moves to ``failed``. Blocks.

    The overlay must not be mounted.
    """
    changes, outcome.done = outcome.done, []
    for one in sorted(changes, key=lambda one: one.path, reverse=True):
        try:
            layer.drop(one.path, whole=one.kind == "other")
        except OSError as error:
            outcome.failed.append(msgspec.structs.replace(one, note=said(error)))
        else:
            outcome.done.append(one)
    outcome.done.sort(key=lambda one: one.path)


def empty(layer: Layer, outcome: Outcome) -> None:
    """Take back everything, also what could not be read. The overlay must not be mounted. Blocks."""
    for name in os.listdir(layer.upper):
        base = os.fsencode(name)
        info = lstat(layer.upper, base)
        if info is not None and stat.S_ISDIR(info.st_mode):
            remove_trees([f"/proc/self/fd/{layer.upper}/{name}"])
        elif info is not None:
            os.unlink(base, dir_fd=layer.upper)
    if left := os.listdir(layer.upper):
        outcome.failed, outcome.done = outcome.done, []
        outcome.failed = [msgspec.structs.replace(one, note=f"{left[0]} is left") for one in outcome.failed]
