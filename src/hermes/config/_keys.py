"""The names of settings: which there are, which is nearest, and what a text stands for in one."""

from __future__ import annotations

import types
from typing import Any, Union, get_args, get_origin

import msgspec

from hermes.errors import ConfigError

from ._load import _each, _hints, _section
from ._schema import Config, Image
from ._units import parse_value

__all__ = ["known", "nearest", "plain_names", "split", "value_of"]


def plain_names(kind: type[msgspec.Struct] = Config, prefix: str = "") -> dict[str, Any]:
    """Return every setting by its dotted name, with the type that it wants."""
    found: dict[str, Any] = {}
    for name, wanted in _hints(kind).items():
        if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
            found |= plain_names(wanted, f"{prefix}{name}.")
        else:
            found[prefix + name] = wanted
    return found


def split(key: str) -> tuple[list[str], Any]:
    """Return the parts of a dotted name, and the type that the setting wants; None for a section.

    :raises ConfigError: there is no such setting; names the nearest one
    """
    known = plain_names()
    if key in known:
        return key.split("."), known[key]
    for name, wanted in known.items():
        each = _each(wanted)
        if each is not None and key.startswith(name + "."):
            label, _, rest = key[len(name) + 1 :].partition(".")
            inner = plain_names(each)
            if label and (not rest or rest in inner):
                return [*name.split("."), label, *([rest] if rest else [])], inner.get(rest)
            raise _no_setting(key, [f"{name}.{label}.{one}" for one in inner])
    if any(name.startswith(key + ".") for name in known):
        return key.split("."), None
    raise _no_setting(key, list(known))


def known(key: str) -> bool:
    """Return whether there is such a setting."""
    try:
        split(key)
    except ConfigError:
        return False
    return True


def nearest(key: str, known: list[str]) -> str | None:
    """Return the known name that a key is most like: as a whole, or by its last part."""
    import difflib

    lower = key.lower().replace("-", "_")
    dotted = difflib.get_close_matches(lower, known, n=1, cutoff=0.7)
    if dotted:
        return dotted[0]
    for name in known:  # docker_image, DOCKER.IMAGE
        if name.replace(".", "_") == lower.replace(".", "_"):
            return name
    last = {name.rpartition(".")[2]: name for name in reversed(known)}
    near = difflib.get_close_matches(lower.rpartition(".")[2], last, n=1, cutoff=0.8)
    return last[near[0]] if near else None


def _no_setting(key: str, known: list[str]) -> ConfigError:
    near = nearest(key, known)
    return ConfigError(
        f"there is no setting '{key[:80]}'; nothing was changed",
        hint=f"Did you mean '{near}'?" if near else "'hermes config show --all' shows all.",
        context={"key": key},
    )


def value_of(key: str, text: str) -> Any:
    """Return the value that a text stands for in a setting, None for "none".

    Lists and sections are YAML.

    :raises ConfigError: no such setting, or it cannot have that value
    """
    keys, wanted = split(key)
    if text.strip().lower() in ("none", "null"):
        return None
    value: Any = text
    if not _is_text(wanted):
        try:
            value = parse_value(text)
        except ValueError as error:
            raise ConfigError(f"{key}: {error}; nothing was changed") from None
    nested = value
    for part in reversed(keys):
        nested = {part: nested}
    try:
        _section(nested, Config, (), lambda at: "the new value")
    except ConfigError as error:
        error.message = error.message.removeprefix("the new value: ") + "; nothing was changed"
        raise
    return value


def _is_text(wanted: Any) -> bool:
    """Return whether a setting takes any text, so that ``1.20`` and ``[x]`` are no number and no list."""
    options = get_args(wanted) if get_origin(wanted) in (Union, types.UnionType) else (wanted,)
    return str in options or Image in options
