"""Which snapshot has the files of a sandbox that sleeps: ``modal_snapshots.json`` in hermes's home."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from hermes._lock import Lock
from hermes.config import home, make_private
from hermes.errors import HermesError

__all__ = ["Kept", "forget", "keep", "kept", "known"]

LOCK_SECONDS = 30.0


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot: the provider's id of it, the image that its sandbox began with, and when it was taken."""

    snapshot: str
    image: str
    taken: float = msgspec.field(default_factory=time.time)


def _path() -> Path:
    return home() / "modal_snapshots.json"


def known() -> dict[str, Kept]:
    """Return all entries, by the sandbox's id. Blocks.

    :raises HermesError: the file cannot be read; nothing is known then, and nothing may be forgotten
    """
    try:
        return msgspec.json.decode(_path().read_bytes(), type=dict[str, Kept])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise HermesError(
            f"{_path()} cannot be read: {error}; nothing was changed",
            code="state_unreadable",
            hint="It says in which snapshots the files of sleeping sandboxes are. Mend it, or move it away.",
        ) from error


def kept(ident: str) -> Kept | None:
    """Return the snapshot of a sandbox. Blocks. Raises as :func:`known`."""
    return known().get(ident)


def keep(ident: str, entry: Kept) -> Kept | None:
    """Note the newest snapshot of a sandbox, and return the one that it takes the place of. Blocks."""
    return _change(lambda entries: (entries.get(ident), {**entries, ident: entry}))


def forget(ident: str) -> Kept | None:
    """Forget the snapshot of a sandbox, which the provider does not have any more. Blocks."""
    return _change(
        lambda entries: (entries.get(ident), {key: one for key, one in entries.items() if key != ident})
    )


def _change(change: Callable[[dict[str, Kept]], tuple[Kept | None, dict[str, Kept]]]) -> Kept | None:
    path = _path()
    make_private(path.parent)
    with Lock(Path(f"{path}.lock"), LOCK_SECONDS):
        before, after = change(known())
        draft = path.with_suffix(".new")
        draft.unlink(missing_ok=True)  # one that a crash left may have any rights
        with open(draft, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(msgspec.json.format(msgspec.json.encode(after)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        with contextlib.suppress(OSError):
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    return before
