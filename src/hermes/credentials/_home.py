"""Hermes's home is its user's alone: looked at whenever a sandbox is opened, mended, or refused."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from hermes.config import home, make_private
from hermes.errors import ConfigError

__all__ = ["FOLDER", "mend", "root_told"]

FOLDER = "credentials"
_OTHERS = 0o077


def mend() -> list[str]:
    """Make the home if there is none, take rights of others on it away, and say what was done. Blocks.

    What hermes makes in it is private from the start, so only what people put there is looked at.

    :raises ConfigError: it, or a file in it, belongs to another user, or it cannot be made
    """
    path = home()
    try:
        make_private(path)
    except OSError as error:
        raise ConfigError(
            f"hermes's home, {path}, cannot be made: {error.strerror}; nothing was started",
            hint="Set HERMES_HOME to a directory of your own.",
        ) from error
    return [line for one in (path, *_within(path)) if (line := _mended(one, path))]


def root_told() -> list[str]:
    """Return the warning that hermes runs as root, once for a home. Blocks."""
    if os.geteuid() != 0 or os.environ.get("HERMES_ALLOW_ROOT"):
        return []
    told = home() / "state" / "root-told"
    try:
        make_private(told.parent)
        os.close(os.open(told, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return []
    except OSError:
        pass  # it is said once more
    return [
        "hermes runs as root: what gets out of a sandbox, or runs on local, is root here. An ordinary user "
        "is safer; this is said once, and not at all with HERMES_ALLOW_ROOT=1"
    ]


def _within(path: Path) -> Iterator[Path]:
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield Path(entry.path)
    yield from _tree(path / FOLDER)


def _tree(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    yield folder
    for inner, folders, files in os.walk(folder):
        yield from (Path(inner, name) for name in (*folders, *files))


def _mended(path: Path, base: Path) -> str | None:
    try:
        info = os.lstat(path)
        if stat.S_ISLNK(info.st_mode):
            if info.st_uid not in (0, os.geteuid()):
                raise _foreign(path, info.st_uid)
            if path != base:
                return None  # who reads it looks at where it leads
            info = os.stat(path)
        if info.st_uid != os.geteuid():
            raise _foreign(path, info.st_uid)
        mode = stat.S_IMODE(info.st_mode)
        if not mode & _OTHERS or not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
            return None
        os.chmod(path, mode & ~_OTHERS)
    except FileNotFoundError:
        return None  # it went meanwhile
    except OSError as error:
        raise ConfigError(
            f"{path} is open to other users, and that cannot be changed: {error.strerror or error}",
            hint="Put hermes's home (HERMES_HOME) where its rights can be set.",
        ) from error
    return (
        f"{path} was open to other users of this machine (mode {mode:04o}); it is {mode & ~_OTHERS:04o} now"
    )


def _foreign(path: Path, uid: int) -> ConfigError:
    return ConfigError(
        f"{path} belongs to user {uid}, who could change what hermes does by it; nothing was started",
        hint="chown it, or set HERMES_HOME to a directory of your own.",
    )
