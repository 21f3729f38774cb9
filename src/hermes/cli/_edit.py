"""Writing one setting into config.yaml, with every comment kept."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from hermes.config import home, parse_value
from hermes.config._load import _nested, _section
from hermes.config._schema import Config
from hermes.config._source import read_yaml
from hermes.errors import ConfigError


def check(key: str, text: str) -> Any:
    """Return the value that a text stands for in the file, None for "none".

    :raises ConfigError: no such setting, or it cannot have that value
    """
    try:
        value = parse_value(text)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None
    settings = _nested({key: value if value is not None else _placeholder(key)})
    if value is not None:
        _section(settings, Config, (), lambda at: "the new value")
    return value


def _placeholder(key: str) -> str:
    """Check that a setting exists which is to be removed."""
    import msgspec

    from .config import _flat, _select

    _select(_flat(msgspec.to_builtins(Config())), key)
    return ""


def write(key: str, value: Any) -> Path:
    """Set *key* in config.yaml, or remove it for None, and return the file's path.

    The file is replaced whole or not at all; one that is a link stays one.

    :raises ConfigError: the file there cannot be read or written, or is no YAML
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap

    path = home() / "config.yaml"
    read_yaml(path)  # says in which line a file is wrong
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        text = ""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1 << 20  # long lines stay as they are
    mapping, dash = _indents(text)
    yaml.indent(mapping=mapping, sequence=dash + 2, offset=dash)
    data = yaml.load(text)
    if data is None:
        data = CommentedMap()
    *sections, last = key.split(".")
    target = data
    for section in sections:
        if not isinstance(target.get(section), dict):
            if value is None:
                return path
            target[section] = CommentedMap()
        target = target[section]
    if value is None:
        target.pop(last, None)
    else:
        target[last] = value
    out = io.StringIO()
    if data:
        yaml.dump(data, out)
    result = _kept_comments(text) + out.getvalue()
    try:
        _replace(Path(os.path.realpath(path)), result)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}; it is as it was") from error
    return path


def _indents(text: str) -> tuple[int, int]:
    """Return by how many columns a file indents what is in a section, and the dashes of a list."""
    mapping = re.search(r"^[\w-]+:[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*( +)[\w-]+:", text, re.MULTILINE)
    dash = re.search(r"^[\w-]+:[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*( *)- ", text, re.MULTILINE)
    return len(mapping[1]) if mapping else 2, len(dash[1]) if dash else 2


def _kept_comments(text: str) -> str:
    """Return the text when it holds nothing but comments: ruamel drops them, with no key to hang on."""
    lines = text.splitlines()
    if any(line.strip() and not line.lstrip().startswith("#") for line in lines):
        return ""
    return text.rstrip("\n") + "\n" if text.strip() else ""


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd, draft = tempfile.mkstemp(dir=path.parent, prefix=".config-")
    try:
        with open(fd, "w", encoding="utf-8") as file:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(fd, path.stat().st_mode & 0o777)
            file.write(text)
            file.flush()
            os.fsync(fd)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
