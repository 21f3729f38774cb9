"""The project's own file, ``.hermes.yaml``: it comes with the repository, so nobody here vouches for it.

What makes the place tighter, and what it is made from, it may say. Everything else counts only when the user
has trusted that very content. A key that does not count is left out, and told: the result is then never less
isolated than without the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hermes._lazy import Lazy
from hermes.errors import ConfigError

from ._schema import IMAGE, Config
from ._source import Source, read_yaml, remember
from ._units import home

__all__ = ["NAME", "allowed", "find", "forget", "read", "said", "trust", "trusted"]

NAME = ".hermes.yaml"
DEVCONTAINERS = (".devcontainer/devcontainer.json", ".devcontainer.json", "devcontainer.json")
"""Where in a directory a ``devcontainer.json`` is looked for."""

CONTAINERS = ("docker", "podman", "singularity")
TIGHTER_THAN = (None, "auto", "local", "jail", *CONTAINERS)
"""Places that a container on this machine isolates at least as well as."""

SMALL = {"cpus": 1.0, "memory": float(1 << 30), "pids": 1024.0}
"""Limits below what a place has without one that the user set."""

_RISKY = Lazy(
    r'localEnv|\$\{env|"(?:\w*Command|\w+User|mounts|runArgs|workspaceMount|build|docker\w+|features|service|privileged|cap\w+|sec\w+)"'
)


def find() -> Path | None:
    """Return the file of the project that the current directory is in: there, or above it in a repository."""
    try:
        here = Path(os.getcwd())
    except OSError:
        return None
    candidate: Path | None = None
    for folder in (here, *here.parents):
        if candidate is None and os.path.lexists(folder / NAME):
            candidate = folder / NAME
        if (folder / ".git").exists():
            return candidate
    return candidate if candidate is not None and candidate.parent == here else None


def read(path: Path) -> Source:
    """Return what a project's file says, nothing of it checked.

    :raises ConfigError: it cannot be read; a link is not followed, since it may lead to a file of the user's
    """
    if not stat.S_ISREG(path.lstat().st_mode):
        raise ConfigError(f"{path} is not a file; nothing was started", hint="Move it away.")
    kept = home() / "state" / "project-cache.json"
    source = read_yaml(path, kept)
    remember(source, kept)
    return source


def said(path: Path) -> dict[str, Any]:
    """Return what a project's file says, as trust in it is about: :func:`read` as plain data."""
    return _located(path, read(path).data)


def allowed(path: Path, wanted: dict[str, Any], base: Config) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what counts of a project's file, and the keys that do not until the user trusts it.

    :param wanted: what it says, checked
    :param base: what holds without it
    """
    wanted = _located(path, wanted)
    if trusted(path, wanted):
        return wanted, ()
    counts: dict[str, Any] = {}
    out: list[str] = []
    owned = path.lstat().st_uid in (os.geteuid(), 0)
    for keys, value in _leaves(wanted):
        if owned and _may(path, keys, value, base):
            target = counts
            for part in keys[:-1]:
                target = target.setdefault(part, {})
            target[keys[-1]] = value
        else:
            out.append(".".join(keys))
    return counts, tuple(out)


def _located(path: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return what a file says with the path in it made absolute: what is checked is what is used."""
    docker = wanted.get("docker")
    if not isinstance(docker, dict) or not isinstance(docker.get("devcontainer"), str):
        return wanted
    file = os.path.realpath(path.parent / docker["devcontainer"])
    if os.path.isdir(file):
        named = [os.path.realpath(os.path.join(file, place)) for place in DEVCONTAINERS]
        file = next(filter(os.path.isfile, named), file)
    return {**wanted, "docker": {**docker, "devcontainer": file}}


def _leaves(data: Mapping[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*at, key))
        else:
            yield (*at, key), value


def _may(path: Path, keys: tuple[str, ...], value: Any, base: Config) -> bool:
    match keys:
        case ("timeout",):
            return True
        case ("limits", limit):
            now = getattr(base.limits, limit)
            most = now if now is not None else SMALL.get(limit, float("inf"))
            return value is not None and value <= most
        case ("network",):
            return bool(value == "off")
        case ("sandbox",):
            return value in CONTAINERS and (base.sandbox or "").partition(":")[0] in (*TIGHTER_THAN, "")
        case ("docker", "image"):
            return value is not None  # a path is none
        case ("singularity", "image"):
            kind, _, name = str(value).partition("://")
            return kind == "docker" and re.search(IMAGE, name) is not None
        case ("docker", "devcontainer"):
            return isinstance(value, str) and _harmless(path.parent, value)
    return False


def _harmless(folder: Path, name: str) -> bool:
    """Return whether a ``devcontainer.json`` of the project asks for an image and no more that matters."""
    file = os.path.realpath(folder / name)
    if not Path(file).is_relative_to(os.path.realpath(folder)):
        return False
    try:
        text = _devcontainer(file).decode("utf-8")
    except ValueError:
        return False
    # An escape could spell a key that the pattern does not see.
    return bool(text) and "\\" not in text and _RISKY.search(text) is None


def _devcontainer(file: str | Path) -> bytes:
    """Return all of a file: what is looked at must be what is used. Nothing where there is none."""
    try:
        return Path(file).read_bytes() if Path(file).is_file() else b""
    except OSError:
        return b""


def _digest(path: Path, wanted: Mapping[str, Any]) -> str:
    """Return what tells this content from any other: the file's, and that of the devcontainer it names."""
    name = wanted.get("docker", {}).get("devcontainer") if isinstance(wanted.get("docker"), Mapping) else None
    found = hashlib.sha256(path.read_bytes())
    if isinstance(name, str):
        # Its place counts, too: a link may lead elsewhere by now.
        file = os.path.realpath(path.parent / name)
        found.update(b"\0" + os.fsencode(file) + b"\0" + _devcontainer(file))
    return found.hexdigest()


def trusted(path: Path, wanted: Mapping[str, Any]) -> bool:
    """Return whether the user has trusted the content that a project's file has now."""
    kept = _kept().get(os.path.realpath(path))
    return kept is not None and kept == _digest(path, wanted)


def trust(path: Path, wanted: Mapping[str, Any]) -> None:
    """Let a project's file count as it is now. What it becomes later does not."""
    _keep({**_kept(), os.path.realpath(path): _digest(path, wanted)})


def forget(path: Path) -> bool:
    """Take trust back; return whether there was any."""
    kept = _kept()
    found = kept.pop(os.path.realpath(path), None)
    if found is not None:
        _keep(kept)
    return found is not None


def _kept() -> dict[str, str]:
    try:
        found = json.loads((home() / "state" / "trusted.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _keep(found: dict[str, str]) -> None:
    from ._file import locked, replace

    with locked():
        replace(home() / "state" / "trusted.json", json.dumps(found, indent=1).encode(), private=True)
