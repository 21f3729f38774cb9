"""The files of a workspace on this machine."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from hermes.guest.archive import CHUNK, READ

from ._facts import MOST_FILE, TOO_LARGE, Facts, Kind
from ._ignore import Rules


@dataclass
class Here:
    """What there is: files and links, directories with their modes, and what cannot be copied and why."""

    files: dict[str, Facts] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


def look(root: str, rules: Rules, known: Mapping[str, Facts], *, stop: threading.Event | None = None) -> Here:
    """Return what is below a directory and not ignored. A file is read only when its dates are new. Blocks.

    :param known: what an earlier look found
    """
    found = Here()
    todo = [""]
    while todo:
        folder = todo.pop()
        try:
            with os.scandir(os.path.join(os.fsencode(root), _bytes(folder))) as entries:
                names = sorted(entry.name for entry in entries)
        except OSError as error:
            if not folder:
                raise
            found.skipped[folder] = error.strerror or str(error)
            continue
        for name in names:
            if stop is not None and stop.is_set():
                return found
            path = (folder + "/" if folder else "") + name.decode("utf-8", "surrogateescape")
            _one(root, path, rules, known, found, todo, stop)
    return found


def _one(
    root: str,
    path: str,
    rules: Rules,
    known: Mapping[str, Facts],
    found: Here,
    todo: list[str],
    stop: threading.Event | None,
) -> None:
    place = os.path.join(os.fsencode(root), _bytes(path))
    try:
        info = os.lstat(place)
        is_folder = stat.S_ISDIR(info.st_mode)
        if rules.ignores(path, folder=is_folder):
            return
        if is_folder:
            found.folders[path] = stat.S_IMODE(info.st_mode) & 0o777
            todo.append(path)
            return
        facts = facts_of(info)
        if facts.kind == "other":
            found.skipped[path] = "no file, directory or link"
            return
        before = known.get(path)
        if before is not None and before.content and facts.untouched(before):
            content = before.content
        elif facts.kind == "link":
            content = os.readlink(place).decode("utf-8", "surrogateescape")
        elif facts.size > MOST_FILE:
            found.skipped[path] = TOO_LARGE
            return
        else:
            content = _hashed(place, stop)
        found.files[path] = facts.with_content(content)
    except FileNotFoundError:
        pass  # it went meanwhile
    except OSError as error:
        found.skipped[path] = error.strerror or str(error)


def facts_of(info: os.stat_result) -> Facts:
    """Return what ``lstat`` tells, without the content."""
    kind: Kind = "other"
    if stat.S_ISREG(info.st_mode):
        kind = "file"
    elif stat.S_ISLNK(info.st_mode):
        kind = "link"
    size = info.st_size if kind == "file" else 0
    return Facts(kind, size, stat.S_IMODE(info.st_mode) & 0o777, (info.st_mtime_ns, info.st_ctime_ns))


def _hashed(path: bytes, stop: threading.Event | None) -> str:
    found = hashlib.sha256()
    fd = os.open(path, READ)
    try:
        while (data := os.read(fd, CHUNK)) and not (stop is not None and stop.is_set()):
            found.update(data)
    finally:
        os.close(fd)
    return found.hexdigest()


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
