"""Small things that configuration is made of: the home directory, durations and sizes."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from pathlib import Path
from typing import Any

from hermes._lazy import Lazy
from hermes.errors import ConfigError

MAX_DEPTH = 50
_BRACKETS = Lazy(r"^\w|[\[{\]}]", re.MULTILINE)
_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DURATION = Lazy(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)", re.ASCII)
_SIZE = Lazy(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.ASCII)


def _account() -> str:
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name


def home() -> Path:
    """Return the directory that holds configuration and state, which need not exist.

    ``HERMES_HOME`` when it is set and not empty, otherwise ``~/.hermes``.

    :raises ConfigError: neither can be told
    """
    named = os.environ.get("HERMES_HOME")
    if named:
        return Path(os.path.abspath(os.path.expanduser(named)))
    try:
        # An empty HOME would make it a directory of the whole machine's.
        own = Path(f"~{_account()}").expanduser() if os.environ.get("HOME") == "" else Path.home()
        return own / ".hermes"
    except (KeyError, RuntimeError) as error:
        raise ConfigError(
            "this user has no home directory, so there is no place for hermes's files",
            hint="set HERMES_HOME to a directory of your own",
        ) from error


def make_private(path: Path) -> None:
    """Make a directory for this user alone; those above it that are missing too, which ``mkdir`` leaves open.

    :raises OSError: it cannot be made
    """
    if not path.is_dir():
        make_private(path.parent)
        path.mkdir(0o700, exist_ok=True)


def keep(path: Path, data: bytes) -> None:
    """Write a file of the cache, whole or not at all, in place of those with the same name before the ``-``.

    :raises OSError: it cannot be written
    """
    make_private(path.parent)
    for old in path.parent.glob(f"{path.name.partition('-')[0]}-*.json"):
        old.unlink(missing_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    with open(new, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(data)
    new.replace(path)


def parse_duration(value: float | str) -> float:
    """Return seconds from a number, or from text such as ``90``, ``1.5s``, ``10m`` or ``1h30m``.

    :raises ValueError: it is neither, or is negative or not finite
    """
    if isinstance(value, str):
        text = value.strip().lower()
        try:
            seconds = float(text)
        except ValueError:
            if not text or _DURATION.sub("", text).strip():
                raise ValueError(f"'{value}' is not a duration such as 90, 30s, 10m, 24h or 7d") from None
            seconds = sum(float(n) * _DURATION_UNITS[unit] for n, unit in _DURATION.findall(text))
    else:
        seconds = float(value)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"'{value}' is not a duration: it must be finite, and 0 or more")
    return seconds


def given_duration(value: float | str | None, what: str) -> float | None:
    """Return the seconds of an argument, None for none.

    :raises ConfigError: it is no duration
    """
    try:
        return None if value is None else parse_duration(value)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{what}: {error}", hint="Give seconds, or text such as 30s or 10m.") from error


def parse_size(value: float | str) -> int:
    """Return bytes from a whole number, or from text such as ``4096``, ``64k``, ``1.5 MiB`` or ``1g``.

    Units are powers of 1024.

    :raises ValueError: it is neither, or is negative
    """
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip().lower())
        if found is None:
            raise ValueError(f"'{value}' is not a size such as 4096, 64k, 1.5m or 1g")
        return int(float(found[1]) * _SIZE_UNITS[found[2]])
    if not math.isfinite(value) or value != int(value) or value < 0:
        raise ValueError(f"'{value}' is not a size: it must be a whole number of bytes, 0 or more")
    return int(value)


def shown_limit(name: str, value: float) -> str:
    """Return a limit as people write it: a size in the largest unit that keeps it whole, such as ``512m``."""
    if name in ("memory", "disk"):
        for unit, size in sorted(_SIZE_UNITS.items(), key=lambda one: -one[1]):
            if value >= size and value % size == 0:
                return f"{int(value // size)}{unit}"
    return f"{value:.15g}"


def parse_value(text: str) -> Any:
    """Return what a text given for a setting stands for: a truth value, a number, None, YAML, or text.

    :raises ValueError: it begins as a list or a section, and is none
    """
    value: Any = {"true": True, "false": False, "none": None, "null": None}.get(text.lower(), text)
    for kind in (int, float):
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = kind(value)
    if isinstance(value, str) and (text.startswith(("[", "{")) or "\n" in text):
        return _structured(text)
    return value


def too_deep(text: str) -> int | None:
    """Return where a text opens more brackets in brackets than any setting has, None when it does not.

    A reader of YAML takes many seconds for a few thousand of them. Those in quotes are not told apart, but
    what one setting opens does not count for the next.
    """
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth = max(0, depth + {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], -depth))
        if depth > MAX_DEPTH:
            return found.start()
    return None


def _structured(text: str) -> Any:
    if too_deep(text) is not None:
        raise ValueError(f"more than {MAX_DEPTH} brackets in brackets")
    with contextlib.suppress(ValueError):
        return json.loads(text)
    plain = not any(sign in text for sign in ('"', "'", "{", "}", "\n", "#", ": "))
    if plain and text.startswith("[") and text.endswith("]"):
        # Without the parser, which takes longer than all the rest; and YAML would not read some patterns.
        return [part.strip() for part in text[1:-1].split(",") if part.strip()]
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError):
        kind = "section; write {a: 1, b: 2}" if text.startswith("{") else 'list; write [a, b] or ["a", "b"]'
        raise ValueError(f"'{text[:60]}' is no {kind}") from None
