"""Reading a configuration file as plain data that remembers the line of each key."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hermes.errors import ConfigError

from ._units import MAX_DEPTH, too_deep

Lines = dict[tuple[str, ...], int]

MAX_BYTES = 256 << 10
MAX_PARTS = 20_000  # lines and commas, each of which the parser takes a while for
MAX_VALUES = 100_000  # a page of aliases can stand for more values than fit into memory
CACHE = "config-cache.json"
GOOD = "config-good.yaml"
"""In the state directory: ``config.yaml`` as it was when it last made sense."""


class Source(NamedTuple):
    """A file's data, the lines of its keys, and its bytes when they were parsed just now.

    ``where`` names a key's place in the file, as far as it has one.
    """

    path: Path
    data: dict[str, Any]
    lines: Lines
    new: bytes | None = None

    def where(self, at: tuple[str, ...]) -> str:
        return f"{self.path}:{self.lines[at]}" if at in self.lines else str(self.path)


def read_yaml(path: Path, kept: Path | None = None) -> Source:
    """Return the mapping in a YAML file and the line of each of its keys, or two empty ones without a file.

    :param kept: where it is kept parsed; beside it otherwise, which is for a file in home alone
    :raises ConfigError: it cannot be read, is not UTF-8, not YAML, or not a mapping with text keys
    """
    data = read_bytes(path)
    if data is None:
        return Source(path, {}, {})
    found = _recall(kept or path.parent / "state" / CACHE, data)
    if found is not None:
        return Source(path, *found)
    return Source(path, *parse(path, decoded(path, data)), new=data)


def read_bytes(path: Path) -> bytes | None:
    """Return what is in a file, None when there is none.

    :raises ConfigError: it cannot be read, is no file, or is too large
    """
    with contextlib.suppress(OSError):  # reading says better what is wrong
        facts = path.stat()
        if stat.S_ISDIR(facts.st_mode):
            raise ConfigError(f"{path} is a directory, not a configuration file", hint="Move it away.")
        if not stat.S_ISREG(facts.st_mode):  # a FIFO would wait for a writer
            raise ConfigError(f"{path} is not a file", hint="Move it away.")
        if facts.st_size > MAX_BYTES:
            raise ConfigError(f"{path} has {facts.st_size} bytes, more than {MAX_BYTES}; it was not read")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def decoded(path: Path, data: bytes) -> str:
    """Return the text of a file, without a mark of its encoding at the beginning.

    :raises ConfigError: it is not UTF-8
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}:{line}: byte {error.start} is not UTF-8 text", hint="Save the file in UTF-8."
        ) from None


def good_copy(path: Path) -> Path | None:
    """Return where a configuration file is kept as it was when it last made sense, None when it is not."""
    kept = path.parent / "state" / GOOD
    return kept if kept.is_file() else None


def _recall(kept: Path, data: bytes) -> tuple[dict[str, Any], Lines] | None:
    """Return what the same text was parsed to before: the parser takes longer than the rest of a command."""
    try:
        found = json.loads(kept.read_bytes())
        if found["digest"] != hashlib.sha256(data).hexdigest():
            return None
        return found["data"], {tuple(at): line for at, line in found["lines"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(source: Source, kept: Path | None = None) -> None:
    """Keep what a file was parsed to."""
    if source.new is None:
        return
    state = source.path.parent / "state" if kept is None else kept.parent
    digest = hashlib.sha256(source.new).hexdigest()
    lines = [[at, line] for at, line in source.lines.items()]
    try:
        found = json.dumps({"digest": digest, "data": source.data, "lines": lines})
        if json.loads(found)["data"] == source.data:  # JSON has fewer kinds of value than YAML
            _put(state / (kept.name if kept is not None else CACHE), found.encode())
    except (OSError, TypeError, ValueError):
        pass  # without a state directory, or room in it, the file is parsed each time


def keep_good(source: Source) -> None:
    """Keep the text of config.yaml, which was found to make sense."""
    if source.new is not None:
        with contextlib.suppress(OSError):
            _put(source.path.parent / "state" / GOOD, source.new)


def _put(target: Path, content: bytes) -> None:
    import tempfile  # which takes its time, and this is done once for each text

    fd, draft = tempfile.mkstemp(dir=target.parent, prefix=".config-")
    with open(fd, "wb") as file:
        file.write(content)
    os.replace(draft, target)


def parse(path: Path, text: str) -> tuple[dict[str, Any], Lines]:
    """Return the mapping in a text and the line of each of its keys; *path* is for what is said about it.

    :raises ConfigError: it is not YAML, or not a mapping with text keys
    """
    if not text.strip():
        return {}, {}
    if text.count("\n") + text.count(",") > MAX_PARTS:
        raise ConfigError(f"{path} has more than {MAX_PARTS} lines and commas; it was not read")
    if (deep := too_deep(text)) is not None:
        raise ConfigError(
            f"{path}:{text.count(chr(10), 0, deep) + 1}: more than {MAX_DEPTH} brackets in brackets; it was "
            "not read"
        )
    # Imported here, because it takes longer than everything else in this package and most runs have no file.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.reader import ReaderError

    try:
        if "*" in text and (line := _cycle(YAML().compose(text))) is not None:
            raise ConfigError(f"{path}:{line + 1}: a value contains itself")
        loaded = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(str(error.problem or error.context or "malformed").split())
        raise _not_yaml(path, what, (mark.line, mark.column) if mark is not None else None) from error
    except ReaderError as error:
        before = text[: error.position]
        at = (before.count("\n"), error.position - before.rfind("\n") - 1)
        raise _not_yaml(path, f"the character U+{error.character:04X} may not be in it", at) from error
    # Deeply nested or cyclic input and odd scalars raise the interpreter's own errors.
    except (YAMLError, ValueError, RecursionError) as error:
        what = " ".join(str(error).split())[:200] or type(error).__name__
        raise _not_yaml(path, what, None) from error
    if loaded is None:
        return {}, {}
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path}: expected 'key: value' lines, found {type_name(loaded)}")
    lines: Lines = {}
    try:
        return _Plain(path, lines).of(loaded, ()), lines
    except RecursionError:
        raise ConfigError(f"{path}: a value contains itself or is nested too deeply") from None


def _cycle(node: Any, above: tuple[Any, ...] = (), seen: set[int] | None = None) -> int | None:
    """Return the line of a node that contains itself, which the parser would read as nothing."""
    seen = set() if seen is None else seen
    if any(node is one for one in above):
        return int(node.start_mark.line)
    if id(node) in seen or not isinstance(getattr(node, "value", None), list):
        return None
    seen.add(id(node))
    parts = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
    return next((at for part in parts if (at := _cycle(part, (*above, node), seen)) is not None), None)


def _not_yaml(path: Path, what: str, at: tuple[int, int] | None) -> ConfigError:
    where = f"{path}:{at[0] + 1}" if at else str(path)
    column = f" (column {at[1] + 1})" if at else ""
    kept = good_copy(path)
    return ConfigError(
        f"{where}: not valid YAML: {what}{column}",
        hint="Mend it with 'hermes config edit'"
        + (f", or take the last good copy, {kept}: 'hermes config restore'." if kept else "."),
    )


class _Plain:
    """Turns what the parser made into values of Python's own types, and notes the lines of keys."""

    def __init__(self, path: Path, lines: Lines) -> None:
        self._path = path
        self._lines = lines
        self._left = MAX_VALUES

    def of(self, value: Any, at: tuple[str, ...]) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ConfigError(
                f"{self._path}: its aliases (*name) stand for more than {MAX_VALUES} values; it was not read"
            )
        if isinstance(value, dict):
            return {name: self.of(item, (*at, name)) for name, item in self._named(value, at)}
        if isinstance(value, list):
            return [self.of(item, at) for item in value]
        for kind in (bool, int, float, str):
            if isinstance(value, kind):
                return kind(value)
        return value

    def _named(self, value: dict[Any, Any], at: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for key, item in value.items():
            line: int | None = None
            if hasattr(value, "lc"):
                position = value.lc.data.get(key) if value.lc.data else None
                line = position[0] + 1 if position else None
            if not isinstance(key, str):
                where = f"{self._path}:{line}" if line else str(self._path)
                plain = key is None or isinstance(key, bool | int | float)
                said = ("null" if key is None else str(key).lower()) if plain else "there"
                hint = f'Write it as "{said}".' if plain else "Write one word."
                raise ConfigError(f"{where}: the key {said} must be text", hint=hint)
            name = str(key)
            if line:
                self._lines[(*at, name)] = line
            yield name, item


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
