"""What git on this machine would follow or run of a project: it must not become what a command put there."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hermes.config import environment

__all__ = ["Followed", "followed", "nested"]

# What git reads as commands, or as the way to them.
NAMES = ("hooks", "config", "config.worktree", "commondir", "info", "modules", "worktrees")
SAME = b".\n"
"""A ``commondir`` that leads to where it lies: as if there were none."""

# Values that are never run, although a file of that name may be there.
_DATA = re.compile(r"(branch|remote|url|submodule|user|author|committer|tag|pull|push|i18n|init)\.")
_GITLINK = b"\0\0\xe0\0"
_SECONDS = 5.0


class Followed(NamedTuple):
    """Paths in a project. ``kept``: must stay as they are; ``files`` and ``folders``: must not appear."""

    kept: list[str]
    files: dict[str, bytes]
    folders: list[str]


def followed(here: str) -> Followed:
    """Return what git follows of a directory, its hooks and configuration included. Blocks.

    Asks git itself; where there is none, nothing here follows a configuration.
    """
    found = Followed([], {}, [])
    if not os.path.lexists(os.path.join(here, ".git")) or _is_nothing(os.path.join(here, ".git")):
        found.folders.append(".git")
        return found
    for folder in ("", *nested(here)):
        _of_repository(here, folder, found)
    if os.path.isdir(os.path.join(here, ".git")):
        for path, kind in _configured(here):
            inside = _within(here, path)
            if inside is None or any(f"{inside}/".startswith(f"{one}/") for one in found.kept):
                continue
            if os.path.lexists(os.path.join(here, inside)):
                found.kept.append(inside)
            elif kind == "folder":
                found.folders.append(inside)
            elif kind == "file":
                found.files[inside] = b""
    return found


def nested(here: str) -> list[str]:
    """Return the repositories in a project: those that git looks into from outside, and those near its top.

    Blocks.
    """
    found = [one for one in _gitlinks(here) if os.path.lexists(os.path.join(here, one, ".git"))]
    try:
        near = [one.name for one in os.scandir(here) if one.is_dir(follow_symlinks=False)]
    except OSError:
        near = []
    found += [one for one in near if one != ".git" and os.path.lexists(os.path.join(here, one, ".git"))]
    return list(dict.fromkeys(found))


def _of_repository(here: str, folder: str, found: Followed) -> None:
    git = os.path.join(folder, ".git")
    whole = os.path.join(here, git)
    if os.path.islink(whole) or not os.path.isdir(whole):
        found.kept.append(git)  # a file that leads elsewhere
        return
    if not os.path.lexists(os.path.join(whole, "HEAD")):
        found.kept.append(git)  # none yet, and none is to become of it
        return
    with contextlib.suppress(OSError):
        os.mkdir(os.path.join(whole, "hooks"))  # as git itself makes it
    for name in NAMES:
        if os.path.lexists(os.path.join(whole, name)):
            found.kept.append(f"{git}/{name}")
    for name, content in (("commondir", SAME), ("config.worktree", b"")):
        if not os.path.lexists(os.path.join(whole, name)) or _is_nothing(os.path.join(whole, name)):
            found.files[f"{git}/{name}"] = content
    found.kept.extend(filter(None, (_within(here, one) for one in _targets(os.path.join(whole, "hooks")))))


def _is_nothing(path: str) -> bool:
    """Return whether it is what a jail puts where nothing is, and may have left."""
    if os.path.islink(path):
        return False
    if os.path.isdir(path):
        return not os.listdir(path)
    return os.path.getsize(path) <= len(SAME) and Path(path).read_bytes() in (SAME, b"")


def _configured(here: str) -> Iterator[tuple[str, str]]:
    """Yield paths that settings name, and what is there when it is followed; empty for what is only run."""
    words = _asked(here, ["config", "--list", "--show-origin", "-z"]).split("\0")
    for origin, setting in zip(words[::2], words[1::2], strict=False):
        key, _, value = setting.partition("\n")
        file = os.path.join(here, os.path.expanduser(origin.removeprefix("file:")))
        yield file, "origin"
        if key == "include.path" or (key.startswith("includeif.") and key.endswith(".path")):
            yield os.path.join(os.path.dirname(file), os.path.expanduser(value)), "file"
        elif key == "core.hookspath":
            folder = os.path.join(here, os.path.expanduser(value))
            yield folder, "folder"
            yield from ((one, "run") for one in _targets(folder))
        elif not _DATA.match(key):
            yield from ((path, "run") for path in _programs(here, value))


def _targets(folder: str) -> list[str]:
    """Return what the links in a directory lead to."""
    try:
        links = [one.path for one in os.scandir(folder) if one.is_symlink()]
    except OSError:
        return []
    return [path for path in map(os.path.realpath, links) if os.path.exists(path)]


def _programs(here: str, value: str) -> Iterator[str]:
    """Yield the files of the project that a setting may run."""
    try:
        words = shlex.split(value.removeprefix("!"))
    except ValueError:
        words = value.split()
    for at, word in enumerate(words):
        # A word alone is looked for on the PATH.
        if (at or "/" in word) and os.path.isfile(path := os.path.join(here, word)):
            yield path


def _within(here: str, path: str) -> str | None:
    """Return a path relative to the project, None when it lies elsewhere."""
    path = os.path.normpath(path)
    inside = path.removeprefix(here.rstrip("/") + "/")
    return inside if inside != path and inside else None


def _gitlinks(here: str) -> list[str]:
    """Return the directories that the index has as repositories: git looks into these from outside."""
    try:
        if _GITLINK not in Path(here, ".git", "index").read_bytes():
            return []
    except OSError:
        return []
    entries = _asked(here, ["ls-files", "--stage", "-z"]).split("\0")
    return [one.partition("\t")[2] for one in entries if one.startswith("160000 ")]


def _asked(here: str, words: list[str]) -> str:
    env = {name: value for name, value in environment().items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=here,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "surrogateescape")
