"""Writing the files in hermes's home: whole or not at all, and one hermes at a time."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hermes._lock import Lock
from hermes.errors import ConfigError

from ._document import changed
from ._load import senseless, understood
from ._source import GOOD, decoded, good_copy, parse, read_bytes, read_yaml
from ._units import home, make_private

__all__ = ["change", "data", "free_name", "locked", "path", "replace", "restore", "save"]

BOM = "\ufeff"
PATIENCE = 10.0  # seconds for another hermes to finish


def path() -> Path:
    """Return where ``config.yaml`` is, or would be."""
    return home() / "config.yaml"


def data() -> dict[str, Any]:
    """Return what config.yaml says, nothing of it checked.

    :raises ConfigError: it cannot be read
    """
    return read_yaml(path()).data


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Keep other processes from writing the configuration.

    :raises ConfigError: home cannot be written to
    :raises HermesError: code ``state_busy``; another hermes is at it
    """
    state = home() / "state"
    try:
        make_private(state)
    except OSError as error:
        raise ConfigError(
            f"{state} cannot be made: {error.strerror}; nothing was changed",
            hint="Set HERMES_HOME to a directory of your own.",
        ) from error
    with Lock(state / "config.lock", timeout=PATIENCE):
        yield


def change(settings: list[tuple[list[str], Any]]) -> Path:
    """Set each of the settings in config.yaml, or remove it for None; all of them or none.

    :raises ConfigError: the file there cannot be read, is wrong, or cannot be written; it is as it was
    """

    def edited(text: str) -> str:
        for keys, value in settings:
            text = changed(path(), text, keys, value)
        return text

    return save(edited)


def save(edit: Callable[[str], str], *, broken: bool = False) -> Path:
    """Replace the text of config.yaml by what *edit* makes of it.

    :param broken: what is there need not be text; *edit* gets its bytes with ``surrogateescape``
    :raises ConfigError: as :func:`change`
    """
    where = path()
    with locked():
        data = read_bytes(where)
        old = ""
        if data is not None:
            old = data.decode("utf-8-sig", "surrogateescape") if broken else decoded(where, data)
        new = edit(old)
        if data is not None and new == old:
            return where
        parsed, lines = parse(where, new)
        values, wrong = understood(parsed, lambda at: f"{where}:{lines[at]}" if at in lines else str(where))
        if wrong:
            raise wrong[0]
        mark = BOM if data is not None and data.startswith(BOM.encode()) else ""
        replace(where, (mark + new).encode())
        if not senseless(values, lambda at: ""):
            replace(home() / "state" / GOOD, (mark + new).encode())
    return where


def restore() -> tuple[Path, Path | None]:
    """Put the last good copy in the place of config.yaml; return it, and where the file there is kept now.

    :raises ConfigError: there is no copy
    """
    where = path()
    with locked():
        kept = good_copy(where)
        if kept is None:
            raise ConfigError("there is no good copy of config.yaml; nothing was changed")
        broken: Path | None = None
        if os.path.lexists(where):
            try:
                if not os.path.islink(where) and read_bytes(where) == kept.read_bytes():
                    return where, None
            except ConfigError:
                pass  # what cannot be read is put aside like what is wrong
            broken = free_name(where.with_name(f"config.yaml.broken-{time.strftime('%Y%m%d-%H%M%S')}"))
            try:
                os.rename(where, broken)
            except OSError as error:
                raise _unwritable(where, error) from error
        replace(where, kept.read_bytes())
    return where, broken


def free_name(path: Path) -> Path:
    """Return the path, with a number after it where there is something already. Call it under the lock."""
    number, found = 1, path
    while os.path.lexists(found):
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


def replace(target: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file whole or not at all. One that is a link stays one; mode and owner stay.

    :param private: the mode is 0600, whatever it was

    :raises ConfigError: it cannot be written; it is as it was
    """
    try:
        real = Path(os.path.realpath(target))
        make_private(real.parent)
        fd, draft = tempfile.mkstemp(dir=real.parent, prefix=".config-")
        try:
            with open(fd, "wb") as file:
                with contextlib.suppress(FileNotFoundError):
                    facts = real.stat()
                    os.fchmod(fd, 0o600 if private else facts.st_mode & 0o777)
                    if (facts.st_uid, facts.st_gid) != (os.geteuid(), os.getegid()):
                        os.fchown(fd, facts.st_uid, facts.st_gid)
                file.write(data)
                file.flush()
                os.fsync(fd)
            os.replace(draft, real)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise
    except OSError as error:
        raise _unwritable(target, error) from error


def _unwritable(target: Path, error: OSError) -> ConfigError:
    return ConfigError(f"{target} cannot be written: {error.strerror}; it is as it was")
