"""What may be declared at all: names that mean nothing else to a shell, to the system or to hermes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from hermes._lazy import Lazy
from hermes.config import CredentialFile, ungivable
from hermes.errors import ConfigError

from ._home import FOLDER

__all__ = ["OWN", "OWN_FOLDERS", "check_files", "check_name", "check_own", "check_variables"]

OWN = frozenset({"config.yaml", ".env"})
OWN_FOLDERS = frozenset({FOLDER, "skills", "dotfiles", "state", "sandboxes", "cache"})
_DRAFT = Lazy(r"\.hermes-(?:new|\d+)$")  # what a file is called here and inside while it is written
_LONGEST = 200  # bytes of a name, which gets more while it is written


def check_variables(names: Iterable[str]) -> None:
    """Check the names of variables.

    :raises ConfigError: one cannot be given to a sandbox
    """
    for name in names:
        if why := ungivable(name):
            raise ConfigError(
                f"credentials.env: {name[:80]!r} cannot be given to a sandbox: {why}; nothing was started",
                hint="What is no secret is set by env= or --env.",
            )


def check_files(files: Iterable[CredentialFile], home: Path) -> None:
    """Check where files are to come from, and where they are to be found inside.

    :raises ConfigError: a path leads out of the home, is hermes's own, or is none inside
    """
    wishes: set[str] = set()
    for one in files:
        path = os.path.normpath(one.path)
        if os.path.isabs(path) or path.split("/")[0] in ("..", ".") or "\0" in path:
            raise ConfigError(
                f"credentials.files: {one.path!r} is not a path below {home}; nothing was started",
                hint=f"Put the file below {home}, and name it from there.",
            )
        check_own(path, home)
        if one.to is None:
            continue
        wish = one.to.removeprefix("~/")
        parts = wish.removeprefix("/").split("/")
        strange = not wish.isprintable() or wish.startswith("~")
        if strange or any(part in ("", ".", "..") for part in parts) or wish in wishes:
            why = "is wanted by two files" if wish in wishes else "is no path of a file inside"
            raise ConfigError(
                f"credentials.files: 'to: {one.to[:200]!r}' {why}; nothing was started",
                hint="It is a file's path from the home inside, or an absolute one, without '..'.",
            )
        wishes.add(wish)


def check_own(path: str, home: Path) -> None:
    """Refuse what hermes itself keeps in its home: all secrets, and what it trusts.

    :param path: from the home
    """
    first = path.split("/")[0]
    if path in OWN or first in OWN_FOLDERS - {FOLDER, "skills", "dotfiles"}:
        raise ConfigError(
            f"{home / path} is hermes's own, and for no sandbox; nothing was started",
            hint="A single value of .env is declared by credentials.env.",
        )


def check_name(name: str, path: str, taken: set[str]) -> None:
    """Check the name that a file gets inside, and take it.

    :param taken: names of the files before, and of their directories with a slash
    :raises ConfigError: it cannot be one
    """
    parts = name.split("/")
    above = ["/".join(parts[:at]) for at in range(1, len(parts))]
    why = ""
    if not name.isprintable():
        why = "its name has signs that cannot be shown"
    elif any(len(part.encode()) > _LONGEST for part in parts):
        why = f"its name has more than {_LONGEST} bytes"
    elif any(_DRAFT.search(part) for part in parts):
        why = "hermes itself uses such names"
    elif not taken.isdisjoint((name, f"{name}/", *above)):
        why = f"another one is called {name}, or has it as its directory, inside"
    if why:
        raise ConfigError(
            f"the credential {path!r} was not used: {why}; nothing was started", hint="Give it another name."
        )
    taken.update((name, *(f"{one}/" for one in above)))
