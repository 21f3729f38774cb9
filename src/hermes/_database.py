"""The file of the state store: how it is opened, brought up to date, and filled from earlier versions' files.

Each use opens the file and closes it again: a connection that is kept would have to survive forks, threads
and the removal of the file.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

from hermes._lazy import Lazy

from ._lock import Lock
from .config import make_private
from .errors import HermesError

__all__ = ["MIGRATIONS", "Database"]

PATIENCE = 10.0  # seconds for another process that writes

MIGRATIONS = (
    """
    CREATE TABLE sandboxes (
        backend TEXT NOT NULL, name TEXT NOT NULL, record TEXT NOT NULL, last_used REAL NOT NULL,
        PRIMARY KEY (backend, name));
    CREATE TABLE manifests (sandbox TEXT PRIMARY KEY, content BLOB NOT NULL);
    CREATE TABLE notes (what TEXT PRIMARY KEY, content TEXT NOT NULL);
    """,
)
"""What made each version of the file from the one before. None that was released is ever changed."""

_OLD = ("sandboxes", "workspaces", "auto.json", "grants.json")
_LARGEST = 1 << 28  # of a file that is taken over
_RECORD = Lazy(r"([A-Za-z0-9][\w.-]*)@([A-Za-z0-9][\w.-]*)\.json", re.ASCII)
_MANIFEST = Lazy(r"([A-Za-z0-9][\w.-]*)\.json", re.ASCII)
# Where processes of several machines may look at one file, the shared memory that WAL rests on is not shared.
_ONE_MACHINE = frozenset(
    [
        "apfs",
        "bcachefs",
        "btrfs",
        "ecryptfs",
        "ext2",
        "ext3",
        "ext4",
        "f2fs",
        "jfs",
        "overlay",
        "ramfs",
        "tmpfs",
        "xfs",
        "zfs",
    ]
)


class Database:
    """The file ``state.db`` in a directory, which need not be there yet."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.path = directory / "state.db"
        self._sandboxes = directory / "sandboxes"

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open the file to read it; where there is none, an empty one in memory.

        :raises HermesError: code ``state_unreadable``, ``state_busy`` or ``state_newer``
        """
        with self._failures("read"), contextlib.closing(self._opened(make=False)) as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self, *, make: bool = True, lasting: bool = True) -> Iterator[sqlite3.Connection]:
        """Open the file to change it, all or nothing: what fails inside leaves it as it was.

        :param make: the file is made where there is none; else one in memory is changed, which is forgotten
        :param lasting: the change survives that the machine loses power, not only that processes die
        :raises HermesError: code ``state_unwritable``, or as for :meth:`reading`
        """
        with self._failures("write"), contextlib.closing(self._opened(make=make)) as connection:
            if not lasting:
                connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    def prepare(self, directory: Path) -> None:
        """Make the store's directory, or one in it, and see to it that only this user can look into it.

        :raises HermesError: code ``state_unwritable`` or ``state_unsafe``
        """
        try:
            # Home may be shared with another program: it is made private, but not changed when it exists.
            make_private(self._directory.parent)
            for part in dict.fromkeys((self._directory, directory)):
                part.mkdir(mode=0o700, exist_ok=True)
                facts = part.stat()
                if facts.st_uid != os.geteuid():
                    raise HermesError(
                        f"{part} belongs to user {facts.st_uid}, not to you; nothing was written there",
                        code="state_unsafe",
                        hint="Remove it, or set HERMES_HOME to a directory of your own.",
                    )
                if stat.S_IMODE(facts.st_mode) != 0o700:
                    part.chmod(0o700)
        except OSError as error:
            raise _unwritable(directory, error.strerror or str(error)) from error

    def left(self) -> list[Path]:
        """Return the records of an earlier version that could not be taken over."""
        try:
            return sorted(path for path in self._sandboxes.iterdir() if path.name.endswith(".json"))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unreadable(self._sandboxes, error.strerror or str(error)) from error

    # --- opening

    def _opened(self, *, make: bool) -> sqlite3.Connection:
        if not self._check():
            if not make and not any(os.path.lexists(self._directory / old) for old in _OLD):
                nothing = sqlite3.connect(":memory:", isolation_level=None)
                self._migrate(nothing)
                return nothing
            self.prepare(self._directory)
            with Lock(self._directory / ".write.lock", timeout=PATIENCE):
                if not self._check():
                    self._make()
        connection = self._connect(self.path)
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version < len(MIGRATIONS):
                self._migrate(connection)
            elif version > len(MIGRATIONS):
                raise HermesError(
                    f"{self.path} was written by a later hermes (version {version}, this one knows "
                    f"{len(MIGRATIONS)}); it was left as it is",
                    code="state_newer",
                    hint="Use that hermes, or set HERMES_HOME to another directory.",
                    context={"path": str(self.path)},
                )
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self) -> bool:
        """Return whether the file is there, and see to it that it is ours alone."""
        try:
            facts = os.lstat(self.path)
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(facts.st_mode):
            raise _unreadable(self.path, "it is not a file")
        if facts.st_uid != os.geteuid():
            raise _unreadable(self.path, f"it belongs to user {facts.st_uid}")
        if facts.st_size == 0:  # which sqlite would take for a new one
            raise _unreadable(self.path, "it is empty")
        if facts.st_mode & 0o077:
            os.chmod(self.path, 0o600)
        return True

    @staticmethod
    def _connect(path: Path) -> sqlite3.Connection:
        uri = f"{path.absolute().as_uri()}?mode=rw"
        return sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Bring the file up to date, all or nothing; another process may be at it too."""
        connection.execute("BEGIN IMMEDIATE")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        for script in MIGRATIONS[version:]:
            for statement in script.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")

    # --- making it, with what an earlier version left

    def _make(self) -> None:
        """Make the file, whole or not at all. Under the lock, which earlier versions wrote under too."""
        draft = self.path.with_name(".state.db")
        for end in ("", "-wal", "-shm", "-journal"):
            Path(f"{draft}{end}").unlink(missing_ok=True)
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.chmod(draft, 0o600)
        with contextlib.closing(self._connect(draft)) as connection:
            if _on_one_machine(self._directory):
                connection.execute("PRAGMA journal_mode = WAL")
            self._migrate(connection)
            connection.execute("BEGIN IMMEDIATE")
            taken = self._take_over(connection)
            connection.execute("COMMIT")
        os.rename(draft, self.path)
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        for path in taken:
            with contextlib.suppress(OSError):
                path.unlink()
        for name in ("sandboxes", "workspaces"):
            with contextlib.suppress(OSError):
                (self._directory / name).rmdir()

    def _take_over(self, connection: sqlite3.Connection) -> list[Path]:
        """Put what is in an earlier version's files into the file, as it is; return those.

        A record that makes no sense is taken over too: who asks for it is told. What cannot be read stays.
        """
        taken = []
        for path in self._files():
            try:
                content, changed = _content(path)
            except OSError:
                continue
            text: str | bytes
            try:
                text = content.decode()
            except UnicodeDecodeError:
                text = content
            if path.parent == self._directory:
                kept = text if path.suffix else str(changed)  # of a sweep only the time says something
                connection.execute("INSERT INTO notes VALUES (?, ?)", (path.stem, kept))
            elif path.parent == self._sandboxes and (found := _RECORD.fullmatch(path.name)):
                connection.execute(
                    "INSERT INTO sandboxes VALUES (?, ?, ?, ?)", (*found.groups(), text, changed)
                )
            elif path.parent != self._sandboxes and (found := _MANIFEST.fullmatch(path.name)):
                connection.execute("INSERT INTO manifests VALUES (?, ?)", (found[1], content))
            else:
                continue
            taken.append(path)
        return taken

    def _files(self) -> Iterator[Path]:
        for name in ("auto.json", "grants.json"):
            yield self._directory / name
        yield from self._directory.glob("sweep-*")
        for folder in ("sandboxes", "workspaces"):
            yield from (self._directory / folder).glob("[!.]*")

    # --- what goes wrong

    @contextlib.contextmanager
    def _failures(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise HermesError(
                    f"another hermes process has held {self.path} for {PATIENCE:g} s; nothing changed",
                    code="state_busy",
                    retryable=True,
                    hint="Wait for it to finish, or end it.",
                ) from error
            if what == "read" or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise _unreadable(self.path, str(error)) from error
            raise _unwritable(self.path, str(error)) from error
        except OSError as error:
            raise _unwritable(self.path, error.strerror or str(error)) from error


def _content(path: Path) -> tuple[bytes, float]:
    """Return what a file of ours holds, and when it was last changed.

    :raises OSError: it is no plain file of ours, or cannot be read
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_size > _LARGEST:
            raise OSError(f"{path} is not ours")
        return file.read(), facts.st_mtime


def _on_one_machine(directory: Path) -> bool:
    """Return whether no other machine can have this directory mounted, as far as the system tells."""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return True
    place = os.path.realpath(directory) + "/"
    fields = (line.split(" ") for line in lines)
    # The one mounted last on the longest path is the one that is seen.
    over = [
        (len(one[4]), at, one) for at, one in enumerate(fields) if place.startswith(one[4].rstrip("/") + "/")
    ]
    mount = max(over, default=(0, 0, ["-", "none"]))[2]
    return mount[mount.index("-") + 1] in _ONE_MACHINE


def _unreadable(path: Path, why: str) -> HermesError:
    return HermesError(
        f"{path} cannot be used: {why}; it was left as it is",
        code="state_unreadable",
        hint="It may be the only trace of running sandboxes. Repair it ('sqlite3 state.db .recover' tells "
        "what can be read), or move it away once those are gone.",
        context={"path": str(path)},
    )


def _unwritable(path: Path, why: str) -> HermesError:
    return HermesError(
        f"{path} cannot be written: {why}; what is kept there is as it was",
        code="state_unwritable",
        hint="Check the space and the permissions there, or set HERMES_HOME to another directory.",
        context={"path": str(path)},
    )
