"""Values of the environment, or of ``.env`` in home: the password for sudo, and what is declared."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable

from hermes._lazy import Lazy
from hermes.errors import ConfigError

from ._units import home

__all__ = ["PASSWORD", "Secret", "at_once", "dotenv", "environment", "sudo_password", "ungivable", "withhold"]

PASSWORD = "HERMES_SUDO_PASSWORD"
MAX_PASSWORD = 1023  # bytes; sudo takes no longer one

_LINE = Lazy(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*", re.ASCII)
_SINGLE = Lazy(r"'((?:[^'\\]|\\.)*)'\s*(?:#.*)?")
_DOUBLE = Lazy(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')


class Secret(str):
    """A text that no representation of what holds it shows."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret()"


_withheld = {PASSWORD}
# What a shell, the loader of programs and hermes's own programs go by is no secret, and another value of this
# machine's would break them there, or its absence here.
_STEERING = Lazy(
    r"(PATH|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|SHLVL|TMPDIR|IFS|ENV|CDPATH|PS4|PROMPT_COMMAND|SHELLOPTS"
    r"|GLOBIGNORE|UID|EUID|PPID|_|(LD_|DYLD_|BASH).*)"
)


def ungivable(name: str) -> str:
    """Return why a variable of that name is given to no sandbox; empty when it may be."""
    if not (name.isascii() and name.isidentifier()):
        return "it is no name of a variable"
    if name.startswith("HERMES_"):
        return "it is hermes's own"
    if _STEERING.fullmatch(name):
        return "it is no secret, but what programs and shells run by"
    return ""


def withhold(names: Iterable[str]) -> None:
    """Keep variables from programs that hermes starts: they are for commands in sandboxes."""
    _withheld.update(names)


def environment() -> dict[str, str]:
    """Return the environment for programs that hermes starts: ours without what is withheld."""
    return {key: value for key, value in os.environ.items() if key not in _withheld}


def sudo_password() -> Secret | None:
    """Return the password for sudo; None when there is none. Blocks.

    :raises ConfigError: the file that has it can be read by others, or it cannot be a password
    """
    value, where = os.environ.get(PASSWORD), "the environment"
    if not value:
        path = home() / ".env"
        value, where = dotenv([PASSWORD]).get(PASSWORD), str(path)
    if not value:
        return None
    if any(bad in value for bad in "\0\r\n") or len(os.fsencode(value)) > MAX_PASSWORD:
        raise ConfigError(f"{PASSWORD} in {where} cannot be a password: it is too long, or has several lines")
    return Secret(value)


def at_once(path: str, flags: int) -> int:
    """Open a file for ``open``; a FIFO, too, which would wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def dotenv(names: Collection[str]) -> dict[str, Secret]:
    """Return those of the variables that ``.env`` in home has. Blocks.

    :raises ConfigError: it cannot be read, or others can read one of them there
    """
    path = home() / ".env"
    try:
        with open(path, "rb", opener=at_once) as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise ConfigError(f"{path} is not a file; it was not used", hint="Move it away.")
            text = file.read().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    found: dict[str, Secret] = {}
    for number, line in enumerate(text.split("\n"), 1):
        match = _LINE.fullmatch(line)
        if match is not None and match[1] in names:
            found[match[1]] = Secret(_unquoted(match[2], f"{path}:{number}", match[1]))
    if any(found.values()) and (stat.S_IMODE(info.st_mode) & 0o077 or info.st_uid != os.geteuid()):
        what = "a password" if PASSWORD in found else "what is secret"
        raise ConfigError(
            f"{path} has {what} and is not yours alone; it was not used",
            hint=f"chmod 600 {path}",
        )
    return found


def _unquoted(text: str, where: str, name: str = "its value") -> str:
    """Return a value as the usual readers of such files take it."""
    if text[:1] not in ("'", '"'):
        return re.sub(r"(?:^|\s+)#.*", "", text)
    single = text[0] == "'"
    found = (_SINGLE if single else _DOUBLE).fullmatch(text)
    if found is None:
        raise ConfigError(f"{where}: the quotes of {name} do not close, or something follows them")
    return re.sub(r"\\(['\\])" if single else r'\\(["\\])', r"\1", found[1])
