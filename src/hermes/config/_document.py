"""Changing single settings in the text of a YAML file, and nothing else in it.

Lines are put in, replaced and taken out; the rest stays byte for byte: comments, order, quotes, the ends of
lines. Where that cannot be done (``{a: 1}``, aliases) the YAML library writes the file anew, which keeps
comments and order too. Either way the result is read again, and is used only when it says exactly what the
old text said, but for the change.
"""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes.errors import ConfigError

from ._source import parse

__all__ = ["changed"]

Keys = Sequence[str]


def changed(path: Path, text: str, keys: Keys, value: Any) -> str:
    """Return the text with the setting under *keys* set to *value*, or without it for None.

    :param path: for what is said about the text
    :raises ConfigError: the text is no YAML, or the change cannot be made without loss
    """
    before, _ = parse(path, text)
    wanted = copy.deepcopy(before)
    if not _apply(wanted, keys, value):
        return text
    for way in (_by_lines, _by_library):
        result = way(text, keys, value)
        if result is not None and _says(path, result, wanted) and _comments(text) <= _comments(result):
            return result
    raise ConfigError(
        f"{path} cannot be changed here without loss; it is as it was",
        hint=f"Change {'.'.join(keys)} by hand: 'hermes config edit'.",
    )


def _apply(data: dict[str, Any], keys: Keys, value: Any) -> bool:
    """Make the change in plain data; return whether there is one to make."""
    *sections, last = keys
    for part in sections:
        if not isinstance(data.get(part), dict):
            if value is None:
                return False
            data[part] = {}
        data = data[part]
    if value is None:
        return data.pop(last, _MISSING) is not _MISSING
    data[last] = value
    return True


_MISSING = object()


def _says(path: Path, text: str, wanted: dict[str, Any]) -> bool:
    try:
        found, _ = parse(path, text)
    except ConfigError:
        return False
    return bool(_pruned(found) == _pruned(wanted))


def _pruned(data: Any) -> Any:
    """Return the data without empty sections, which say nothing."""
    if isinstance(data, list):
        return [_pruned(item) for item in data]
    if not isinstance(data, dict):
        # What has a tag of its own is an object that equals nothing but itself.
        return (str(data.tag), str(data.value)) if hasattr(data, "tag") else data
    inner = {key: _pruned(value) for key, value in data.items()}
    return {key: value for key, value in inner.items() if value not in ({}, None)}


def _comments(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines() if line.lstrip().startswith("#")}


def _by_lines(text: str, keys: Keys, value: Any) -> str | None:
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import MappingNode

    ends = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    node = YAML().compose(text)
    if node is None:
        return None if value is None else _put(lines, len(lines), _written(keys, value, 0, text), ends)
    if not isinstance(node, MappingNode):
        return None
    for depth, key in enumerate(keys):
        if node.flow_style or not node.value:
            return None
        found = next((pair for pair in node.value if pair[0].value == key), None)
        if found is None:
            if value is None:
                return None
            new = _written(keys[depth:], value, node.value[0][0].start_mark.column, text)
            return _put(lines, _end(node, lines), new, ends)
        name, item = found
        if item.start_mark.index < name.end_mark.index:
            return None  # an alias
        if depth == len(keys) - 1:
            break
        if not isinstance(item, MappingNode):
            if value is None or str(item.value) or item.end_mark.index > item.start_mark.index:
                return None
            new = _written(keys[depth + 1 :], value, name.start_mark.column + _step(text), text)
            return _put(lines, name.start_mark.line + 1, new, ends)
        node = item
    if value is None:
        return _taken_out(text, lines, keys)
    start, end = item.start_mark, item.end_mark
    if start.line == name.end_mark.line == end.line and item.value != [] and _is_scalar(value):
        new_text = _written([keys[-1]], value, 0, text)[0].partition(": ")[2]
        rest = text[end.index :]
        gap = len(rest) - len(rest.lstrip(" "))
        if gap and rest[gap : gap + 1] == "#":  # the comment stays in its column
            rest = " " * max(1, gap - len(new_text) + end.index - start.index) + rest[gap:]
        return text[: start.index] + new_text + rest
    new = _written([keys[-1]], value, name.start_mark.column, text)
    last = _end(item, lines)
    return "".join([*lines[: name.start_mark.line], *(line + ends for line in new), *lines[last:]])


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, dict | list | tuple)


def _end(node: Any, lines: list[str]) -> int:
    """Return the number of the line after the last one of a node's own."""
    from ruamel.yaml.nodes import MappingNode, SequenceNode

    if isinstance(node, MappingNode) and node.value and not node.flow_style:
        key, value = node.value[-1]
        return int(max(_end(key, lines), _end(value, lines)))
    if isinstance(node, SequenceNode) and node.value and not node.flow_style:
        return int(max(_end(item, lines) for item in node.value))
    if getattr(node, "style", None) in ("|", ">"):
        at = node.start_mark.line + 1
        inside = next((len(line) - len(line.lstrip()) for line in lines[at:] if line.strip()), 0)
        last: int = at
        while at < len(lines) and (not lines[at].strip() or lines[at].startswith(" " * max(1, inside))):
            at += 1
            if lines[at - 1].strip():
                last = at
        return last
    mark = node.end_mark
    return int(mark.line + (1 if mark.column or mark.line == node.start_mark.line else 0))


def _taken_out(text: str, lines: list[str], keys: Keys) -> str | None:
    """Return the text without a setting, and without the sections that held nothing else."""
    from ruamel.yaml import YAML

    node = YAML().compose(text)
    span = None
    for key in keys:
        name, item = next(pair for pair in node.value if pair[0].value == key)
        first, last = name.start_mark.line, _end(item, lines)
        alone = span is not None and len(node.value) == 1 and not _comments("".join(lines[span[0] : last]))
        if not alone:
            span = (first, last)
        node = item
    assert span is not None
    return "".join([*lines[: span[0]], *lines[span[1] :]])


def _put(lines: list[str], at: int, new: list[str], ends: str) -> str:
    before = lines[:at]
    if before and not before[-1].endswith("\n"):
        before[-1] += ends
    return "".join([*before, *(line + ends for line in new), *lines[at:]])


def _written(keys: Keys, value: Any, column: int, text: str) -> list[str]:
    """Return the lines that set a value, each indented by so many columns."""
    for key in reversed(keys):
        value = {key: value}
    out = io.StringIO()
    _library(text).dump(_flowing(value), out)
    return [" " * column + line if line else line for line in out.getvalue().splitlines()]


def _flowing(value: Any) -> Any:
    """Return a value of the library's own types: short lists of plain values are written on one line."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    if isinstance(value, dict):
        return CommentedMap({key: _flowing(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        result = CommentedSeq(_flowing(item) for item in value)
        if all(_is_scalar(item) for item in value) and sum(len(str(item)) + 2 for item in value) < 70:
            result.fa.set_flow_style()
        return result
    return value


def _by_library(text: str, keys: Keys, value: Any) -> str | None:
    yaml = _library(text)
    data = yaml.load(text)
    *sections, last = keys
    target = data
    for part in sections:
        if not isinstance(target.get(part), dict):
            target[part] = _flowing({})
        target = target[part]
    if value is None:
        del target[last]
    else:
        target[last] = _flowing(value)
    out = io.StringIO()
    yaml.dump(data, out)
    return out.getvalue().replace("\n", "\r\n") if "\r\n" in text else out.getvalue()


def _library(text: str) -> Any:
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1 << 20  # long lines stay as they are
    dash = re.search(r"^[\w-]+:[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*( *)- ", text, re.MULTILINE)
    offset = len(dash[1]) if dash else 2
    yaml.indent(mapping=_step(text), sequence=offset + 2, offset=offset)
    return yaml


def _step(text: str) -> int:
    """Return by how many columns a file indents what is in a section."""
    found = re.search(r"^[\w-]+:[ \t]*(?:#.*)?\r?\n(?:[ \t]*(?:#.*)?\r?\n)*( +)[\w-]+:", text, re.MULTILINE)
    return len(found[1]) if found else 2
