"""What is declared: variables by name, files by path, and whatever lies in the folder ``credentials``."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes._lazy import Lazy
from hermes.config import Credentials, Secret, dotenv, home, withhold
from hermes.errors import ConfigError

from ._home import FOLDER
from ._names import OWN, OWN_FOLDERS, check_files, check_name, check_own, check_variables
from .scrub import Scrub
from .values import values_of

if TYPE_CHECKING:
    from .former import Former

__all__ = ["Content", "Declared", "Piece", "hide", "undeclared"]

MAX_FILE = 1 << 20
MAX_ALL = 8 << 20
MAX_VARIABLE = 128 << 10  # what Linux takes of one, name and all
MAX_VARIABLES = 1 << 20
# A file that was just written to may not be whole yet, and may change again within the same time stamp.
SETTLED = 0.01
RACY_NS = 50_000_000
PATIENCE = 1.0
VALUES_KEPT = 4  # of a value that is renewed: what was written with the one before may come back yet

Stats = tuple[int, ...] | None


class Piece(msgspec.Struct, frozen=True):
    """One file: its content, where it lies here, and where a program inside looks for it."""

    data: bytes
    source: str
    to: str | None = None
    executable: bool = False

    def __repr__(self) -> str:
        return f"Piece({self.source!r})"


class Content(msgspec.Struct, frozen=True):
    """All that is declared, as it is now. ``state`` is another one when any file is other than before.

    ``absent``: what is declared and is not there, one sentence each.
    """

    env: Mapping[str, Secret] = msgspec.field(default_factory=dict)
    files: Mapping[str, Piece] = msgspec.field(default_factory=dict)
    state: str = ""
    absent: tuple[str, ...] = ()


class Declared:
    """What the configuration declares, and what there is of it. Reading blocks; looking is a ``stat``."""

    def __init__(self, settings: Credentials) -> None:
        """Check the declaration itself.

        :raises ConfigError: a name that cannot be a variable's, or a path that leads out of the home
        """
        self._settings = settings
        self._home = home()
        check_variables(settings.env)
        withhold(settings.env)
        check_files(settings.files, self._home)
        self._watched: dict[str, Stats] = {}
        self._env: dict[str, str | None] = {}
        self._racy = False
        self._values: deque[set[bytes]] = deque(maxlen=VALUES_KEPT)
        self._valued: Content | None = None
        self._hiding: tuple[Content, Scrub] | None = None
        self.former: Former | None = None
        self.content = Content()
        _all.add(self)

    # --- looking

    def changed(self) -> bool:
        """Return whether anything may be other than it was when it was last read."""
        # Asked before each command: a loop takes less than a generator.
        for path, seen in self._watched.items():
            if _stat(path) != seen:
                return True
        for name, value in self._env.items():
            if os.environ.get(name) != value:
                return True
        return self._racy

    # --- what must not be shown

    def values(self) -> set[bytes]:
        """Return what is secret of it, with what it was before it was renewed the last few times."""
        if self._valued is not self.content:
            self._valued = self.content
            self._values.append(values_of(self.content))
        return set().union(*self._values)

    def hidden(self, text: str) -> str:
        """Return a text without the values."""
        if self._hiding is None or self._hiding[0] is not self.content:
            self._hiding = (self.content, Scrub(self.values(), shapes=False, former=self.former))
        data, count = self._hiding[1].whole(text.encode("utf-8", "surrogateescape"))
        return data.decode("utf-8", "surrogateescape") if count else text

    # --- reading

    def read(self) -> Content:
        """Read it again, and keep it as ``content``. Blocks.

        :raises ConfigError: a file is unsafe, too large, or cannot be read
        """
        watched: dict[str, Stats] = {str(self._home / FOLDER): _stat(str(self._home / FOLDER))}
        absent: list[str] = []
        files: dict[str, Piece] = {}
        taken: set[str] = set()
        named = {str(self._home / os.path.normpath(one.path)) for one in self._settings.files}
        for name, path, to in self._paths(watched):
            watched[path] = _stat(path)
            piece = self._piece(path, to, watched)
            if piece is None:
                if path in named or os.path.islink(path):  # else a draft, which has got its name meanwhile
                    absent.append(f"the file {path}")
            else:
                if name not in files or files[name].source != path:  # it may be named and lie there as well
                    check_name(name, path, taken)
                files[name] = piece
        if sum(len(one.data) for one in files.values()) > MAX_ALL:
            raise ConfigError(f"the declared files are of more than {MAX_ALL >> 20} MiB; none was used")
        env = self._variables(watched, absent)
        now = time.time_ns()
        self._racy = any(seen is not None and now - seen[0] < RACY_NS for seen in watched.values())
        self._watched = watched
        digest = hashlib.sha256()
        for name, piece in sorted(files.items()):
            for part in (name.encode(), (piece.to or "").encode(), b"x" * piece.executable, piece.data):
                digest.update(b"%d:" % len(part) + part)
        self.content = Content(env, files, digest.hexdigest()[:24] if files else "", tuple(absent))
        self._learn()
        return self.content

    def _learn(self) -> None:
        content = self.content
        if content.env or content.files:
            from .former import learn  # most homes declare nothing

            known = {f"${name}": values_of(Content({name: value})) for name, value in content.env.items()}
            known |= {name: values_of(Content({}, {name: one})) for name, one in content.files.items()}
            self.former = learn(self._home, known)

    def _paths(self, watched: dict[str, Stats]) -> Iterator[tuple[str, str, str | None]]:
        """Yield name inside, path here, and where else it is wanted, of each file; note directories."""
        folder = str(self._home / FOLDER)
        for inner, folders, names in os.walk(folder):
            watched[inner] = _stat(inner)
            linked = [name for name in folders if os.path.islink(os.path.join(inner, name))]
            for name in sorted([*names, *linked]):
                path = os.path.join(inner, name)
                yield os.path.relpath(path, folder), path, None
            folders.sort()
        for one in self._settings.files:
            name = os.path.normpath(one.path)
            yield name.removeprefix(FOLDER + "/"), str(self._home / name), one.to

    def _piece(self, path: str, to: str | None, watched: dict[str, Stats]) -> Piece | None:
        real = os.path.realpath(path)
        if not Path(real).is_relative_to(os.path.realpath(self._home)):
            raise _unsafe(path, f"it is a link that leads out of {self._home}")
        if real != path:
            check_own(os.path.relpath(real, os.path.realpath(self._home)), self._home)
            watched[real] = _stat(real)
        try:
            info, data = _whole(real)
        except FileNotFoundError:
            return None
        except IsADirectoryError:
            raise _unsafe(path, "it is a directory: each file of it is declared, or lies there") from None
        except OSError as error:
            raise ConfigError(f"the credential {path} cannot be read: {error.strerror or error}") from error
        if not stat.S_ISREG(info.st_mode):
            raise _unsafe(path, "it is not a regular file")
        if info.st_uid not in (0, os.geteuid()) or info.st_mode & 0o022:
            raise _unsafe(path, "other users can change it")
        if len(data) > MAX_FILE:
            raise ConfigError(
                f"the credential {path} has more than {MAX_FILE >> 20} MiB; it was not used",
                hint="What is that large travels better in the workspace, or by 'hermes sandbox cp'.",
            )
        return Piece(data, path, to, bool(info.st_mode & 0o100))

    def _variables(self, watched: dict[str, Stats], absent: list[str]) -> dict[str, Secret]:
        names = self._settings.env
        if not names:
            return {}
        self._env = {name: os.environ.get(name) for name in names}
        found = {name: Secret(value) for name, value in self._env.items() if value}
        missing = [name for name in names if name not in found]
        if missing:
            if self._settings.store == "keyring":
                from ._keyring import stored

                found.update(stored(missing))
            else:
                watched[str(self._home / ".env")] = _stat(str(self._home / ".env"))
                found.update({name: value for name, value in dotenv(missing).items() if value})
        for name in names:
            if name not in found:
                where = "the keyring" if self._settings.store == "keyring" else self._home / ".env"
                absent.append(f"the variable {name} (in the environment, or in {where})")
            elif "\0" in found[name]:
                raise ConfigError(
                    f"the value of {name} holds a NUL, which no variable can; nothing was started"
                )
        sizes = {name: len(os.fsencode(value)) + len(name) + 2 for name, value in found.items()}
        large = [name for name, size in sizes.items() if size > MAX_VARIABLE]
        if large or sum(sizes.values()) > MAX_VARIABLES:
            what = f"the value of {large[0]} has" if large else "the declared variables have together"
            raise ConfigError(
                f"{what} more than {(MAX_VARIABLE if large else MAX_VARIABLES) >> 10} KiB, with which no "
                "program could be started; nothing was started",
                hint="Declare it as a file: credentials.files.",
            )
        return found


_all: weakref.WeakSet[Declared] = weakref.WeakSet()


def hide(text: str) -> str:
    """Return a text for a log or a message without any value that this process knows to be declared."""
    for one in list(_all):
        text = one.hidden(text)
    return text


def _stat(path: str) -> Stats:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino


def _whole(path: str) -> tuple[os.stat_result, bytes]:
    """Read a file that nobody is writing to. One that is never left alone is read as it is in the end."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            before = os.fstat(file.fileno())
            data = file.read(MAX_FILE + 1) if stat.S_ISREG(before.st_mode) else b""
            after = os.fstat(file.fileno())
        quiet = (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size) and (
            not 0 <= time.time() - after.st_mtime < SETTLED
        )
        # Replaced while it was read: whole, and not the newest.
        if (quiet and _same(path, after)) or time.monotonic() > deadline:
            return after, data
        time.sleep(0.002)


def _same(path: str, info: os.stat_result) -> bool:
    try:
        return os.stat(path).st_ino == info.st_ino
    except FileNotFoundError:
        return False


def _unsafe(path: str, why: str) -> ConfigError:
    return ConfigError(
        f"the credential {path} was not used: {why}; nothing was started",
        hint="Put the file itself there, yours alone (chmod 600).",
    )


_LOOKS = (
    r"(?i)(token|credential|oauth|secret|service.?account|client_id|api.?key"
    r"|^id_\w+$|^auth\.json$|\.pem$|\.key$)"
)
_HOLDS = Lazy(rb'"(?:refresh_token|access_token|client_secret|private_key|id_token)"\s*:')


def undeclared(settings: Credentials, folder: Path | None = None) -> list[str]:
    """Return what looks like a credential in hermes's home, or another, and is not declared. Blocks.

    By the name of a file, or of a directory that ends with a slash then, or by the fields of a JSON object.
    """
    declared = {os.path.normpath(one.path) for one in settings.files}
    found = []
    try:
        with os.scandir(folder or home()) as entries:
            for entry in entries:
                if entry.name in declared or any(one.startswith(f"{entry.name}/") for one in declared):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in OWN_FOLDERS and re.search(_LOOKS, entry.name):
                        found.append(f"{entry.name}/")
                elif entry.is_file() and entry.name not in OWN and _secret(entry):
                    found.append(entry.name)
    except OSError:
        return []
    return sorted(found)


def _secret(entry: os.DirEntry[str]) -> bool:
    if re.search(_LOOKS, entry.name):
        return True
    if not entry.name.endswith(".json") or entry.stat().st_size > MAX_FILE:
        return False
    try:
        with open(entry.path, "rb") as file:
            return _HOLDS.search(file.read(MAX_FILE)) is not None
    except OSError:
        return False
