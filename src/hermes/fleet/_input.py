"""The commands of a fleet: a file with one JSON object a line, checked whole before anything is started."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes.config import parse_duration
from hermes.errors import ConfigError

__all__ = ["Command", "read_commands"]

KEYS = ("id", "command", "timeout", "env", "cwd", "stdin")
MAX_LINE = 64 << 20
MAX_SECONDS = 1e9
SHOWN = 5  # faults that are told; a file with more of them is of another kind
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True)
class Command:
    """One line. ``text`` is for the shell; ``digest`` tells it from every other command, whatever its id."""

    id: str
    text: str
    timeout: float | None
    env: dict[str, str]
    cwd: str | None
    stdin: bytes | None
    digest: str


def read_commands(path: Path) -> list[Command]:
    """Return the commands of a file, in its order. Blocks.

    :raises ConfigError: code ``fleet_invalid``; it cannot be read, or a line is none, with each such line
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise _invalid(f"{path} cannot be read: {error.strerror or error}") from error
    found: dict[str, Command] = {}
    where: dict[str, int] = {}
    faults: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            one = _command(line, number)
            if one.id in found:
                raise ValueError(f"the id '{one.id}' is that of line {where[one.id]} already")
        except ValueError as error:
            faults.append(f"{path}:{number}: {error}")
            continue
        found[one.id], where[one.id] = one, number
    if faults:
        more = len(faults) - SHOWN
        raise _invalid("\n".join(faults[:SHOWN]) + (f"\nand {more} more such lines" if more > 0 else ""))
    if not found:
        raise _invalid(f"{path} holds no command")
    return list(found.values())


def _invalid(what: str) -> ConfigError:
    return ConfigError(
        what + "\nnothing was started",
        code="fleet_invalid",
        hint='Write one object a line, such as {"id": "a", "command": "make test", "timeout": 60}; '
        f"keys: {', '.join(KEYS)}.",
    )


def _command(line: bytes, number: int) -> Command:
    """Return what one line says.

    :raises ValueError: why it says nothing
    """
    if len(line) > MAX_LINE:
        raise ValueError(f"the line has {len(line)} bytes; put what is large into files")
    given = _object(line)
    for key in given:
        if key not in KEYS:
            raise ValueError(f"unknown key '{key}'{_near(key)}")
    if "command" not in given:
        raise ValueError("there is no 'command'")
    ident = given.get("id")
    if "id" not in given:
        ident = str(number)
    elif not isinstance(ident, str) or not ident:
        raise ValueError("'id' has to be text, and not empty")
    stdin = given.get("stdin")
    if stdin is not None and not isinstance(stdin, str):
        raise ValueError("'stdin' has to be text")
    text, timeout = _text(given["command"]), _timeout(given.get("timeout"))
    env, cwd = _env(given.get("env")), _cwd(given.get("cwd"))
    try:
        facts = json.dumps([ident, text, timeout, sorted(env.items()), cwd, stdin], ensure_ascii=False)
        digest = hashlib.sha256(facts.encode("utf-8")).hexdigest()[:16]
    except UnicodeEncodeError:
        raise ValueError("it holds half of a surrogate pair, which is no text") from None
    fed = None if stdin is None else stdin.encode("utf-8")
    return Command(id=str(ident), text=text, timeout=timeout, env=env, cwd=cwd, stdin=fed, digest=digest)


def _object(line: bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            raise ValueError("a key is there twice")
        return result

    try:
        given = json.loads(line.decode("utf-8"), object_pairs_hook=once)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8, at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error.msg}, at column {error.colno}") from None
    except RecursionError:
        raise ValueError("it is no JSON object of ours: too deep") from None
    if not isinstance(given, dict):
        raise ValueError("it is no JSON object")
    return given


def _near(key: str) -> str:
    import difflib

    near = difflib.get_close_matches(key, KEYS, n=1)
    return f"; did you mean '{near[0]}'?" if near else f"; there are {', '.join(KEYS)}"


def _text(command: Any) -> str:
    if isinstance(command, str):
        text = command
    elif isinstance(command, list) and command and all(isinstance(part, str) for part in command):
        text = shlex.join(command)
    else:
        raise ValueError("'command' has to be text, or a list of texts: a program and its arguments")
    if not text.strip():
        raise ValueError("'command' is empty")
    if "\0" in text:
        raise ValueError("'command' holds a NUL, which no shell can be given")
    return text


def _timeout(value: Any) -> float | None:
    if value is None:
        return None
    try:
        seconds = parse_duration(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError(f"'timeout': {error}") from None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ValueError("'timeout' has to be seconds, or a text such as 10m")
    if not 0 < seconds <= MAX_SECONDS:  # NaN too
        raise ValueError(f"'timeout' has to be more than 0 and at most {MAX_SECONDS:.0f} seconds")
    return float(seconds)


def _env(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("'env' has to be an object of names and texts")
    for name, text in value.items():
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"'env': '{name}' cannot be a variable's name")
        if not isinstance(text, str) or "\0" in text:
            raise ValueError(f"'env': {name} has to be text without a NUL")
    return dict(value)


def _cwd(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("'cwd' has to be the path of a directory")
    return os.path.normpath(value) if not value.startswith("~") else value
