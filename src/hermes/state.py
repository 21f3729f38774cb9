"""The state store: which sandboxes this user has, in files that other processes read too.

Everything is under ``state/`` in hermes's home, in directories of mode 0700 and files of mode 0600. A record
is replaced whole or not at all. What cannot be read is reported and left alone, since it may be the only
trace of a sandbox that still runs. All methods block; async callers use a thread.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from ._lock import Lock
from .config import home as default_home
from .config import make_private
from .errors import ConfigError, HermesError

__all__ = ["Lock", "SandboxRecord", "Store", "check_name", "owner", "owner_state"]

_MAX_RECORD = 1 << 20
_MAX_MANIFEST = 1 << 28
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)


class SandboxRecord(msgspec.Struct, kw_only=True):
    """What is known of one sandbox.

    ``created`` and ``last_used`` are seconds since the epoch. ``owner_pid`` and ``owner_boot`` say which
    process made it (see ``owner``). ``copied``: its workspace is a copy, which is whole. ``options`` are what
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
    """The records of one hermes home. Making one does no I/O; reading creates nothing."""

    def __init__(self, home: Path | None = None) -> None:
        self._root = (home or default_home()) / "state"
        self._records = self._root / "sandboxes"
        self._locks = self._root / "locks"
        self._copies = self._root / "workspaces"
        self._pin = self._root / "auto.json"

    def get(self, backend: str, name: str) -> SandboxRecord | None:
        """Return the record of a sandbox, or None when there is none.

        :raises HermesError: code ``state_unreadable``; there is one, but it cannot be read or makes no sense
        """
        return self._read(self._file(backend, name), backend, name)

    def all(self, problems: list[str] | None = None) -> list[SandboxRecord]:
        """Return every readable record, sorted by backend and name.

        :param problems: gets one sentence for each file that cannot be read; the files stay
        """
        try:
            files = sorted(os.listdir(self._records))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failed("read", self._records, error) from error
        found = []
        for entry in files:
            if entry.startswith(".") or not entry.endswith(".json"):
                continue
            backend, _, name = entry[: -len(".json")].partition("@")
            try:
                record = self._read(self._records / entry, backend, name)
            except HermesError as error:
                if problems is not None:
                    problems.append(error.message)
            else:
                if record is not None:
                    found.append(record)
        return found

    def put(self, record: SandboxRecord) -> None:
        """Write a record, in place of any earlier one of that backend and name.

        :raises HermesError: code ``state_unwritable``; the earlier record, if any, is as it was
        """
        self._write(self._file(record.backend, record.name), msgspec.json.encode(record))

    def due(self, what: str, every: float) -> bool:
        """Return whether so many seconds have passed since this last said yes; the first time counts as one.

        :raises HermesError: code ``state_unwritable``
        """
        path = self._root / what
        try:
            age = time.time() - path.stat().st_mtime
        except FileNotFoundError:
            age = 0.0
            self._write(path, b"")
        except OSError as error:
            raise _failed("read", path, error) from error
        if 0 <= age <= every:
            return False
        with contextlib.suppress(OSError):
            os.utime(path)
        return True

    def touch(self, record: SandboxRecord) -> None:
        """Note that a sandbox is in use now. Cheap, and nothing when its record is gone."""
        record.last_used = time.time()
        with contextlib.suppress(OSError):
            os.utime(self._file(record.backend, record.name), (record.last_used, record.last_used))

    def remove(self, record: SandboxRecord) -> None:
        """Remove a record, unless another sandbox has taken its name since. Does nothing when it is gone."""
        path = self._file(record.backend, record.name)
        if not self._records.is_dir():
            return
        with self._writing():
            current = self._read(path, record.backend, record.name)
            if current is not None and current.id == record.id:
                try:
                    os.unlink(path)
                except OSError as error:
                    raise _failed("remove", path, error) from error
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._manifest(record.id))

    def put_manifest(self, ident: str, data: bytes) -> None:
        """Keep what was copied into the sandbox of that id."""
        self._write(self._manifest(ident), data)

    def manifest(self, ident: str) -> bytes | None:
        """Return what was copied into the sandbox of that id, None when that is not known."""
        found = self._load(self._manifest(ident), _MAX_MANIFEST)
        return found[0] if found is not None else None

    def _manifest(self, ident: str) -> Path:
        return self._copies / f"{check_name(ident, 'sandbox id')}.json"

    def lock(self, backend: str, name: str, timeout: float = 60.0) -> Lock:
        """Return the lock under which a sandbox of that name is made, attached to for the first time, or
        removed.

        :param timeout: how long ``acquire`` waits, in seconds
        """
        self._prepare(self._locks)
        return Lock(self._locks / (self._file(backend, name).stem + ".lock"), timeout)

    def pin(self, backend: str, reason: str = "") -> None:
        """Settle what ``auto`` stands for from now on."""
        self._write(self._pin, msgspec.json.encode(_Pin(backend=backend, pinned=time.time(), reason=reason)))

    def pinned(self) -> str | None:
        """Return the backend that ``auto`` stands for, or None when that was never settled.

        :raises HermesError: code ``state_unreadable``; it was settled, but cannot be read
        """
        data = self._load(self._pin)
        if data is None:
            return None
        try:
            backend = msgspec.json.decode(data[0], type=_Pin).backend
            return None if backend == "local" else backend  # an earlier version's; auto is never that now
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _unreadable(self._pin, str(error)) from error

    def unpin(self) -> None:
        """Let ``auto`` be settled anew. Does nothing when it was not."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._pin)

    def _file(self, backend: str, name: str) -> Path:
        # Neither part can hold '@' or '/', so the file's name says both without doubt.
        return self._records / f"{check_name(backend, 'backend name')}@{check_name(name)}.json"

    def _read(self, path: Path, backend: str, name: str) -> SandboxRecord | None:
        data = self._load(path)
        if data is None:
            return None
        try:
            record = msgspec.json.decode(data[0], type=SandboxRecord)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _unreadable(path, str(error)) from error
        if (record.backend, record.name) != (backend, name):
            raise _unreadable(path, f"it describes {record.backend} {record.name!r}")
        record.last_used = max(record.last_used, data[1])
        return record

    def _load(self, path: Path, most: int = _MAX_RECORD) -> tuple[bytes, float] | None:
        """Return a file's bytes and the time it was last changed, or None when there is no such file."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(path, error.strerror or str(error)) from error
        try:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode):
                raise _unreadable(path, "it is not a file")
            if facts.st_uid != os.geteuid():
                raise _unreadable(path, f"it belongs to user {facts.st_uid}")
            if facts.st_size > most:
                raise _unreadable(path, f"it has {facts.st_size} bytes")
            if facts.st_mode & 0o077:
                os.fchmod(fd, 0o600)
            with open(fd, "rb", closefd=False) as file:
                return file.read(most + 1), facts.st_mtime
        except OSError as error:
            raise _unreadable(path, error.strerror or str(error)) from error
        finally:
            os.close(fd)

    def _write(self, path: Path, data: bytes) -> None:
        self._prepare(path.parent)
        with self._writing():
            # One name for all, under the lock: a writer that was killed leaves one file, which the next one
            # takes.
            draft = path.parent / ".draft"
            try:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(draft)
                fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with open(fd, "wb") as file:
                    os.fchmod(fd, 0o600)
                    file.write(data)
                    file.flush()
                    os.fsync(fd)
                os.replace(draft, path)
                self._sync(path.parent)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.unlink(draft)
                raise _failed("write", path, error) from error

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        self._prepare(self._root)
        with Lock(self._root / ".write.lock", timeout=10.0):
            yield

    def _prepare(self, directory: Path) -> None:
        """Make a directory of the store, and see to it that only this user can look into it."""
        try:
            # Home itself may be shared with another program: it is made private, but not changed when it
            # exists.
            make_private(self._root.parent)
            for part in (self._root, directory) if directory != self._root else (self._root,):
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
            raise _failed("make", directory, error) from error

    @staticmethod
    def _sync(directory: Path) -> None:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _failed(what: str, path: Path, error: OSError) -> HermesError:
    return HermesError(
        f"cannot {what} {path}: {error.strerror or error}; the record there, if any, is as it was",
        code="state_unwritable" if what != "read" else "state_unreadable",
        hint="Check the space and the permissions there, or set HERMES_HOME to another directory.",
        context={"path": str(path)},
    )


def _unreadable(path: Path, why: str) -> HermesError:
    return HermesError(
        f"{path} cannot be used: {why}; it was left as it is",
        code="state_unreadable",
        hint="It may be the only trace of a running sandbox: repair it, or remove it once that is gone.",
        context={"path": str(path)},
    )
