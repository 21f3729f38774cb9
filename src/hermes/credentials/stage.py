"""The directory of this machine that a place shows, read-only, as the one of its credentials."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from hermes.errors import BackendError
from hermes.guest.dirs import default_dir, private_dir

from ._declared import Piece

__all__ = ["clear", "folder", "make", "write"]


def folder(kind: str, ident: str) -> str:
    """Return the directory for a sandbox: in memory where there is such a place. Blocks, for a moment."""
    # Not in XDG_RUNTIME_DIR, which another login may have elsewhere, and a logout takes away.
    if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK | os.X_OK):
        return f"/dev/shm/hermes-{os.geteuid()}/{kind}-{ident}-credentials"
    return default_dir(f"{kind}-{ident}-credentials")


def make(folder: str, uid: int, gid: int | None = None) -> None:
    """Make it for a user inside, whose group has the same number if no other is said. Blocks.

    :raises BackendError: it cannot be made, or is not ours alone
    """
    try:
        private_dir(os.path.dirname(folder))
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        if os.path.islink(folder) or os.lstat(folder).st_uid not in (uid, os.geteuid()):
            raise PermissionError(1, "it is not ours", folder)
        _give(folder, uid, gid if gid is not None else os.getegid() if uid == os.geteuid() else uid)
    except OSError as error:
        raise BackendError(
            f"{folder} cannot be made: {error.strerror or error}; nothing was started",
            hint="Remove it if it is not yours, or set XDG_RUNTIME_DIR to a directory of your own.",
        ) from error


def write(folder: str, files: Mapping[str, Piece], before: Mapping[str, Piece] | None) -> None:
    """Make what is in a directory that there is what is declared, each file whole at any time. Blocks.

    :param before: what is there, None when that is not known
    """
    owner = os.stat(folder)
    for name, piece in files.items():
        path = Path(folder, name)
        if before is not None and before.get(name) == piece:
            continue
        for above in reversed(path.relative_to(folder).parents[:-1]):
            with contextlib.suppress(FileExistsError):
                os.mkdir(Path(folder, above), 0o700)
                _give(Path(folder, above), owner.st_uid, owner.st_gid)
        draft = path.with_name(f"{path.name}.hermes-{os.getpid()}")
        draft.unlink(missing_ok=True)
        mode = 0o500 if piece.executable else 0o400
        with open(
            draft, "xb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600)
        ) as file:
            os.fchmod(file.fileno(), mode)
            if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            file.write(piece.data)
        os.replace(draft, path)
    for inner, folders, names in os.walk(folder, topdown=False):
        for name in names:
            if os.path.relpath(os.path.join(inner, name), folder) not in files:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(inner, name))
        for name in folders:
            with contextlib.suppress(OSError):  # it has files
                os.rmdir(os.path.join(inner, name))


def clear(folder: str) -> None:
    """Empty it; the place may still show it. Blocks."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                import shutil

                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


def _give(path: str | Path, uid: int, gid: int) -> None:
    if (uid, gid) != (os.geteuid(), os.getegid()):
        os.chown(path, uid, gid)
