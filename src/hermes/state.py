"""The state store: which sandboxes this user has, in a file that other processes read and write too.

It is ``state/state.db`` in hermes's home, of mode 0600 in a directory of mode 0700. What cannot be read is
reported and left alone, since it may be the only trace of a sandbox that still runs. All methods block; async
callers use a thread.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hermes._lazy import Lazy

from ._lock import Lock
from .config import home as default_home
from .errors import ConfigError, HermesError

if TYPE_CHECKING:
    from sqlite3 import Connection

    from ._database import Database

__all__ = [
    "TOUCH_EVERY",
    "Lock",
    "Note",
    "SandboxRecord",
    "Store",
    "check_name",
    "owner",
    "owner_state",
]

TOUCH_EVERY = 60.0  # seconds; to the minute is enough, and each change has to reach the disk

_NAME = Lazy(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)


class SandboxRecord(msgspec.Struct, kw_only=True):
    """What is known of one sandbox.

    ``created`` and ``last_used`` are seconds since the epoch. ``owner_pid`` and ``owner_boot`` say which
    process made it (see ``owner``). ``copied``: its workspace is a copy, which is whole. ``ending``: it is
    being destroyed, so that nobody misses it. ``options`` are what
    it was asked for with, ``settings`` what came of them; ``locator`` is the backend's own.
    """

    name: str
    backend: str
    id: str
    created: float
    owner_pid: int
    owner_boot: str
    workspace: str | None = None
    named: bool = False
    copied: bool = False
    ending: bool = False
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    locator: dict[str, Any] = msgspec.field(default_factory=dict)
    last_used: float = 0.0


class _Pin(msgspec.Struct, kw_only=True):
    backend: str
    pinned: float
    reason: str = ""


def check_name(name: str, what: str = "sandbox name") -> str:
    """Return the name unchanged when it is fit for labels, host names and files everywhere.

    :raises ConfigError: it is not 1 to 63 letters, digits, ``.``, ``_`` and ``-``, or begins with
        one of the last three
    """
    if _NAME.fullmatch(name) is None:
        raise ConfigError(
            f"{name[:80]!r} cannot be a {what}",
            hint="Use up to 63 letters, digits, '.', '_' and '-', beginning with a letter or a digit.",
        )
    return name


def check_names(backend: str, name: str) -> None:
    """Refuse what cannot be the names of a backend and a sandbox.

    :raises ConfigError: see :func:`check_name`
    """
    check_name(backend, "backend name")
    check_name(name)


def owner() -> tuple[int, str]:
    """Return this process's id, and a text that tells it from every other process that ever had that id.

    The text holds the host, its boot, the pid namespace and the start time, as far as the system tells them.
    """
    pid = os.getpid()
    return pid, "/".join((*_world(), _started(pid)))


def owner_state(record: SandboxRecord) -> Literal["alive", "dead", "unknown"]:
    """Return whether the process that made a sandbox still runs.

    ``unknown`` when it ran on another host or in another pid namespace, where nobody here can look.
    """
    host, boot, space, started = (record.owner_boot.split("/") + [""] * 4)[:4]
    our_host, our_boot, our_space = _world()
    if host != our_host:
        return "unknown"
    if boot != our_boot:
        return "dead"
    if space != our_space:
        return "unknown"
    try:
        os.kill(record.owner_pid, 0)
    except ProcessLookupError:
        return "dead"
    except PermissionError:
        pass
    except OverflowError:
        return "dead"
    return "alive" if _started(record.owner_pid) == started else "dead"


def _world() -> tuple[str, str, str]:
    boot = space = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    with contextlib.suppress(OSError):
        space = "".join(c for c in os.readlink("/proc/self/ns/pid") if c.isdigit())
    return socket.gethostname().replace("/", "_"), boot, space


def _started(pid: int) -> str:
    try:
        line = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return ""
    # The second field is the program's name and may hold spaces and parentheses.
    fields = line.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


class Store:
    """The records of one hermes home. Making one does no I/O; reading creates nothing.

    Whatever reads or writes raises HermesError with the code ``state_unreadable``, ``state_unwritable``,
    ``state_busy`` or ``state_newer``; what is kept is then as it was.
    """

    def __init__(self, home: Path | None = None) -> None:
        self._root = (home or default_home()) / "state"
        self._locks = self._root / "locks"

    @functools.cached_property
    def _file(self) -> Database:
        from ._database import Database  # sqlite3 takes a while to load

        return Database(self._root)

    def get(self, backend: str, name: str) -> SandboxRecord | None:
        """Return the record of a sandbox, or None when there is none.

        :raises HermesError: code ``state_unreadable`` also when there is one that makes no sense
        """
        check_names(backend, name)
        with self._file.reading() as db:
            return self._get(db, backend, name)

    def _get(self, db: Connection, backend: str, name: str) -> SandboxRecord | None:
        query = "SELECT record, last_used FROM sandboxes WHERE backend = ? AND name = ?"
        row = db.execute(query, (backend, name)).fetchone()
        return self._decoded(backend, name, *row) if row is not None else None

    def all(self, problems: list[str] | None = None) -> list[SandboxRecord]:
        """Return every readable record, sorted by backend and name.

        :param problems: gets one sentence for each record that cannot be read; it stays
        """
        found = []
        wrong = []
        with self._file.reading() as db:
            for row in db.execute("SELECT * FROM sandboxes ORDER BY backend, name"):
                try:
                    found.append(self._decoded(*row))
                except HermesError as error:
                    wrong.append(error.message)
        if problems is not None:
            problems += wrong
            problems += [
                f"{path}, the record of an earlier hermes, cannot be used; it was left as it is"
                for path in self._file.left()
            ]
        return found

    def _decoded(self, backend: str, name: str, content: str | bytes, last_used: float) -> SandboxRecord:
        try:
            record = msgspec.json.decode(content, type=SandboxRecord)
            wrong = f"it describes {record.backend} {record.name!r}"
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            record, wrong = None, str(error)
        if record is None or (record.backend, record.name) != (backend, name):
            raise HermesError(
                f"the record of the {backend} sandbox '{name}' in {self._file.path} cannot be used: {wrong}; "
                "it was left as it is",
                code="state_unreadable",
                hint="It may be the only trace of a sandbox that runs. Once that is gone: "
                f"sqlite3 {self._file.path} "
                f"\"DELETE FROM sandboxes WHERE backend = '{backend}' AND name = '{name}'\"",
                context={"path": str(self._file.path)},
            )
        record.last_used = max(record.last_used, last_used)
        return record

    def put(self, record: SandboxRecord) -> None:
        """Write a record, in place of any earlier one of that backend and name."""
        check_names(record.backend, record.name)
        try:
            text = msgspec.json.encode(record).decode()
        except UnicodeEncodeError:
            raise ConfigError(
                f"the directory of the sandbox '{record.name}', or HERMES_HOME, has a name that is no UTF-8; "
                "nothing was started",
                hint="Rename it, or use --workspace private.",
            ) from None
        row = (record.backend, record.name, text, record.last_used)
        with self._file.writing() as db:
            db.execute("INSERT OR REPLACE INTO sandboxes VALUES (?, ?, ?, ?)", row)

    def touch(self, record: SandboxRecord, every: float = TOUCH_EVERY) -> None:
        """Note that a sandbox is in use now, to the minute or so. Nothing when its record is gone."""
        now = time.time()
        if 0 <= now - record.last_used < every:
            return
        record.last_used = now
        row = (now, record.backend, record.name)
        with contextlib.suppress(HermesError), self._file.writing(make=False, lasting=False) as db:
            db.execute("UPDATE sandboxes SET last_used = ? WHERE backend = ? AND name = ?", row)

    def remove(self, record: SandboxRecord) -> None:
        """Remove a record, unless another sandbox has taken its name since. Does nothing when it is gone."""
        key = (record.backend, record.name)
        with self._file.writing(make=False) as db:
            current = self._get(db, *key)
            if current is not None and current.id == record.id:
                db.execute("DELETE FROM sandboxes WHERE backend = ? AND name = ?", key)
            db.execute("DELETE FROM manifests WHERE sandbox = ?", (record.id,))

    def put_manifest(self, ident: str, data: bytes) -> None:
        """Keep what was copied into the sandbox of that id."""
        with self._file.writing() as db:
            db.execute("INSERT OR REPLACE INTO manifests VALUES (?, ?)", (ident, data))

    def manifest(self, ident: str) -> bytes | None:
        """Return what was copied into the sandbox of that id, None when that is not known."""
        with self._file.reading() as db:
            row = db.execute("SELECT content FROM manifests WHERE sandbox = ?", (ident,)).fetchone()
            return bytes(row[0]) if row is not None else None

    def lock(self, backend: str, name: str, timeout: float = 60.0, *, part: str = "") -> Lock:
        """Return the lock under which a sandbox of that name is made, attached to for the first time, or
        removed.

        It is held for as long as that takes, which is too long for a transaction.

        :param timeout: how long ``acquire`` waits, in seconds
        :param part: of the sandbox, which is locked apart from it
        """
        check_names(backend, name)
        self._file.prepare(self._locks)
        # Neither part can hold '@' or '/', so the file's name says both without doubt.
        return Lock(self._locks / f"{backend}@{name}{part and '@'}{part}.lock", timeout)

    def due(self, what: str, every: float) -> bool:
        """Return whether so many seconds have passed since it last said yes, or was first asked."""
        now = time.time()
        with self.changing(what) as note:
            try:
                age = now - float(note.content or "nan")
            except ValueError:
                age = math.nan
            if 0 <= age <= every:
                return False
            note.content = str(now)
        return not math.isnan(age)

    def pin(self, backend: str, reason: str = "") -> None:
        """Settle what ``auto`` stands for from now on."""
        pin = _Pin(backend=backend, pinned=time.time(), reason=reason)
        with self.changing("auto") as note:
            note.content = msgspec.json.encode(pin).decode()

    def pinned(self) -> str | None:
        """Return the backend that ``auto`` stands for, or None when that was never settled.

        :raises HermesError: code ``state_unreadable`` also when it was settled, but makes no sense
        """
        content = self.note("auto")
        if content is None:
            return None
        try:
            backend = msgspec.json.decode(content, type=_Pin).backend
            return None if backend == "local" else backend  # an earlier version's; auto is never that now
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HermesError(
                f"what auto stands for, in {self._file.path}, cannot be used: {error}; it was left as it is",
                code="state_unreadable",
                hint="'hermes setup' settles it anew.",
                context={"path": str(self._file.path)},
            ) from error

    def unpin(self) -> None:
        """Let ``auto`` be settled anew. Does nothing when it was not."""
        with self._file.writing(make=False) as db:
            db.execute("DELETE FROM notes WHERE what = 'auto'")

    def note(self, what: str) -> str | bytes | None:
        """Return what was noted under a name, None when nothing was."""
        with self._file.reading() as db:
            return _note(db, what)

    @contextlib.contextmanager
    def changing(self, what: str) -> Iterator[Note]:
        """Give what is noted under a name, to be changed while nobody else changes it."""
        with self._file.writing() as db:
            note = Note(_note(db, what))
            before = note.content
            yield note
            if note.content != before:
                db.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (what, note.content))


class Note(msgspec.Struct):
    """What is kept under a name; bytes when it is no text, which only a file that was damaged has."""

    content: str | bytes | None


def _note(db: Connection, what: str) -> str | bytes | None:
    row = db.execute("SELECT content FROM notes WHERE what = ?", (what,)).fetchone()
    content: str | bytes | None = row[0] if row is not None else None
    return content
