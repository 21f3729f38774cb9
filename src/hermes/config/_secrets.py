"""Secrets: which names are some, and writing them to ``.env`` in home, mode 0600, and nowhere else."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path

from hermes.errors import ConfigError

from ._env import PASSWORD, at_once, ungivable
from ._env import _unquoted as unquoted
from ._file import locked, replace
from ._load import ENVIRONMENT, load
from ._model import key_variable
from ._units import home

__all__ = ["KNOWN", "MODEL_KEY", "PASSWORD", "declared", "names", "read", "secret_name", "write"]

KNOWN = {
    "modal.token_id": "MODAL_TOKEN_ID",
    "modal.token_secret": "MODAL_TOKEN_SECRET",
    "daytona.api_key": "DAYTONA_API_KEY",
    "vercel.token": "VERCEL_TOKEN",
}
"""Names as of settings, for secrets whose variable the places' own programs know."""

MODEL_KEY = "model.api_key"
"""The same for the model's key, whose variable is its provider's."""

_WORDS = re.compile(r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(?:_ID)?$")
_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,100}", re.ASCII)
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_./+:@%,-]+", re.ASCII)
MAX_VALUE = 1 << 16


def secret_name(key: str) -> str | None:
    """Return the variable in which a secret of that name is kept, None when the name is no secret's.

    :raises ConfigError: it is a variable's name, but not that of a secret
    """
    if key in KNOWN:
        return KNOWN[key]
    if key in declared() and ungivable(key) == "":
        return key
    if key == MODEL_KEY:
        return key_variable(load().model)
    if not _NAME.fullmatch(key):
        return None
    if key == PASSWORD or (key not in ENVIRONMENT and _WORDS.search(key)):
        return key
    setting = ENVIRONMENT.get(key)
    raise ConfigError(
        f"{key} is no setting, and not the name of a secret; nothing was changed",
        hint=f"The setting is {setting}."
        if setting
        else f"To keep its value in .env for sandboxes, declare it first, in credentials.env: "
        f"hermes config set credentials.env '[{', '.join([*declared(), key])}]'. Else set it in your shell.",
    )


def declared() -> tuple[str, ...]:
    """Return the variables that the configuration declares, none where it cannot be read."""
    try:
        return load().credentials.env
    except ConfigError:
        return ()


def own() -> tuple[str, ...]:
    """Return the variables that hermes itself reads, and commands in a sandbox have no need of."""
    with contextlib.suppress(ConfigError):
        return *KNOWN.values(), PASSWORD, key_variable(load().model)
    return *KNOWN.values(), PASSWORD


def like_a_secret(key: str) -> str | None:
    """Return the name of the variable for what is written like a setting and is likely a secret."""
    if key in KNOWN or key == MODEL_KEY:
        return secret_name(key)
    name = re.sub(r"[^A-Z0-9]+", "_", key.upper()).strip("_")
    return name if _NAME.fullmatch(name) and _WORDS.search(name) else None


def names() -> dict[str, bool]:
    """Return the variables that ``.env`` sets, each with whether its name is a secret's."""
    text = _read(home() / ".env")
    found = (_LINE.fullmatch(line) for line in text.split("\n"))
    return {
        line[1]: line[1] == PASSWORD or bool(_WORDS.search(line[1])) for line in found if line and line[2]
    }


def read(path: Path) -> dict[str, str]:
    """Return the variables that a file such as ``.env`` sets. Values that cannot be read are left out."""
    found: dict[str, str] = {}
    for line in _read(path).split("\n"):
        parts = _LINE.fullmatch(line)
        if parts is not None:
            with contextlib.suppress(ConfigError):
                found[parts[1]] = unquoted(parts[2], str(path))
    return found


def write(name: str, value: str | None) -> tuple[Path, str]:
    """Set a variable in ``.env``, or remove it for None. Every other line stays as it is.

    Returns where that is, and what was done about who may read it, empty where nothing was.

    :raises ConfigError: the file is another user's or cannot be written, or the value cannot be in it
    """
    path = home() / ".env"
    if value is not None and (not value or len(value) > MAX_VALUE or any(bad in value for bad in "\0\r\n")):
        raise ConfigError(f"{name} is empty, too long or of several lines; nothing was written")
    told = ""
    with locked():
        text = _read(path)
        with contextlib.suppress(OSError):
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & 0o077:
                told = (
                    f"{path} could be read by other users (mode {mode:04o}); it is 0600 now. What is in it "
                    "may have been read: change those secrets if others use this machine"
                )
        lines = text.split("\n") if text else []
        if lines and not lines[-1]:
            lines.pop()
        new = None if value is None else f"{name}={_quoted(value)}"
        result: list[str] = []
        for line in lines:
            found = _LINE.fullmatch(line)
            if found is None or found[1] != name:
                result.append(line)
            elif new is not None:
                result.append(new)
                new = None
        if new is not None:
            result.append(new)
        data = "".join(line + "\n" for line in result).encode("utf-8", "surrogateescape")
        replace(path, data, private=True)
    return path, told


def _read(path: Path) -> str:
    try:
        with open(path, "rb", opener=at_once) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise ConfigError(f"{path} is not a file; nothing was changed", hint="Move it away.")
            if facts.st_uid != os.geteuid():
                raise ConfigError(f"{path} belongs to user {facts.st_uid}; nothing was changed")
            return file.read(1 << 20).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
