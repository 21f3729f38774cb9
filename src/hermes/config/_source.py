"""Reading a configuration file as plain data that remembers the line of each key."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from hermes.errors import ConfigError

Lines = dict[tuple[str, ...], int]


def read_yaml(path: Path) -> tuple[dict[str, Any], Lines]:
    """Return the mapping in a YAML file and the line of each of its keys, or two empty ones without a file.

    :raises ConfigError: it cannot be read, is not UTF-8, not YAML, or not a mapping with text keys
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}, {}
    except IsADirectoryError:
        raise ConfigError(f"{path} is a directory, not a configuration file", hint="Move it away.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}:{line}: byte {error.start} is not UTF-8 text", hint="Save the file in UTF-8."
        ) from None
    if not text.strip():
        return {}, {}
    kept = path.parent / "state" / "config-cache.json"
    digest = hashlib.sha256(data).hexdigest()
    return _recall(kept, digest) or _remember(kept, digest, _parse(path, text))


def _recall(kept: Path, digest: str) -> tuple[dict[str, Any], Lines] | None:
    """Return what the same text was parsed to before: the parser takes longer than the rest of a command."""
    try:
        found = json.loads(kept.read_bytes())
        if found["digest"] != digest:
            return None
        return found["data"], {tuple(at): line for at, line in found["lines"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(kept: Path, digest: str, parsed: tuple[dict[str, Any], Lines]) -> tuple[dict[str, Any], Lines]:
    data, lines = parsed
    try:
        found = json.dumps(
            {"digest": digest, "data": data, "lines": [[at, line] for at, line in lines.items()]}
        )
        if json.loads(found)["data"] != data:  # JSON has fewer kinds of value than YAML
            return parsed
        fd, draft = tempfile.mkstemp(dir=kept.parent, prefix=".config-cache-")
        with open(fd, "w", encoding="ascii") as file:
            file.write(found)
        os.replace(draft, kept)
    except (OSError, TypeError, ValueError):
        pass  # without a state directory, or room in it, the file is parsed each time
    return parsed


def _parse(path: Path, text: str) -> tuple[dict[str, Any], Lines]:
    # Imported here, because it takes longer than everything else in this package and most runs have no file.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        loaded = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        what = " ".join(str(error.problem or error.context or "malformed").split())
        raise ConfigError(f"{where}: not valid YAML: {what}") from error
    # Deeply nested or cyclic input and odd scalars raise the interpreter's own errors.
    except (YAMLError, ValueError, RecursionError) as error:
        what = " ".join(str(error).split())[:200] or type(error).__name__
        raise ConfigError(f"{path}: not valid YAML: {what}") from error
    if loaded is None:
        return {}, {}
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path}: expected 'key: value' lines, found {type_name(loaded)}")
    lines: Lines = {}
    try:
        return _plain(loaded, path, (), lines), lines
    except RecursionError:
        raise ConfigError(f"{path}: a value contains itself or is nested too deeply") from None


def _plain(value: Any, path: Path, at: tuple[str, ...], lines: Lines) -> Any:
    """Turn what the parser made into values of Python's own types, and note the lines of keys."""
    if isinstance(value, dict):
        result = {}
        for key, item in value.items():
            line: int | None = None
            if hasattr(value, "lc"):
                position = value.lc.data.get(key) if value.lc.data else None
                line = position[0] + 1 if position else None
            if not isinstance(key, str):
                where = f"{path}:{line}" if line else str(path)
                raise ConfigError(f"{where}: the key {key!r} must be text", hint=f'Write it as "{key}".')
            name = str(key)
            if line:
                lines[(*at, name)] = line
            result[name] = _plain(item, path, (*at, name), lines)
        return result
    if isinstance(value, list):
        return [_plain(item, path, at, lines) for item in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def type_name(value: Any) -> str:
    """Return what a reader of YAML would call a value's type."""
    if value is None:
        return "nothing"
    for kinds, name in (
        (bool, "true or false"),
        (int, "a whole number"),
        (float, "a number"),
        (str, "text"),
        (dict, "a section"),
        (list, "a list"),
    ):
        if isinstance(value, kinds):
            return name
    return f"a {type(value).__name__}"
