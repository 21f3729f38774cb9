"""What an opening would refuse of the settings, found before: for whoever writes, checks or keeps a file.

It is asked of the same code that refuses there. What this machine lacks (a program, an engine, an extra) is
no fault of a setting.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from . import backends
from .config import Config, home
from .errors import BackendError, ConfigError, HermesError

__all__ = ["known_place", "wrong"]

_OUTCOME = re.compile(r"; nothing was (?:started|run|changed|done)$")
_NAMED = re.compile(r"([a-z_]+(?:\.[a-z_]+)+)\b")  # of a setting, with which a message begins
_HERE = frozenset({"extra_missing", "backend_unknown"})


def wrong(values: Mapping[str, Any]) -> list[ConfigError]:
    """Return what would be refused of a file's settings, each of which is of the right type. Blocks.

    The context of each has the ``key`` that it is about: a setting, or a section.
    """
    config = msgspec.convert(values, Config)
    found: list[ConfigError] = []
    for key, look in _looks(config, values):
        try:
            look()
        except BackendError:
            continue
        except HermesError as error:
            if error.code in _HERE and key != "sandbox":
                continue
            said = _OUTCOME.sub("", error.message)
            named = _NAMED.match(said)
            key = str(error.context.get("key") or (named[1] if named else _culprit(key, values, error)))
            message = f"{key}: {said.removeprefix(f'{key}: ')}"
            found.append(ConfigError(message, code=error.code, hint=error.hint, context={"key": key}))
    return found


def _culprit(key: str, values: Mapping[str, Any], error: HermesError) -> str:
    """Return the setting of a place's section that is refused by itself, the section where none is."""
    section = values.get(key)
    for name, value in section.items() if key in backends.TABLE and isinstance(section, Mapping) else ():
        try:
            _section(key, msgspec.convert({key: {name: value}}, Config), used=False)
        except HermesError as alone:
            if alone.message == error.message:
                return f"{key}.{name}"
    return key


def _looks(config: Config, values: Mapping[str, Any]) -> Iterator[tuple[str, Callable[[], object]]]:
    from .credentials._names import check_files, check_variables

    place = config.sandbox or ""
    if place:
        yield "sandbox", lambda: known_place(place)
    if config.workspace not in (None, "here", "private"):
        yield "workspace", lambda: _directory(str(config.workspace))
    if config.credentials.env:
        yield "credentials.env", lambda: check_variables(config.credentials.env)
    if config.credentials.files:
        yield "credentials.files", lambda: check_files(config.credentials.files, home())
    if values.get("approvals"):
        yield "approvals", lambda: _rules(config)
    if config.dotfiles:
        from .travel import trees

        yield "dotfiles", lambda: trees(config)
    used = backends.canonical(place).partition(":")[0]
    for name in backends.TABLE:
        if values.get(name) or name == used:
            yield name, functools.partial(_section, name, config, used=name == used)


def known_place(place: str) -> None:
    """Refuse a name that no place has.

    :raises ConfigError: code ``backend_unknown``, with the nearest one; or a host that cannot be chosen
    """
    from . import survey
    from .config import _keys

    name = backends.split(place)[0]
    if name == "auto" or name in backends.names():
        return
    known = [*survey.places(), "auto"]
    near = _keys.nearest(name, known)
    raise ConfigError(
        f"there is no backend '{name[:80]}'",
        code="backend_unknown",
        hint=f"Did you mean '{near}'?" if near else f"There are: {', '.join(known)}.",
    )


def _directory(path: str) -> None:
    full = os.path.expanduser(path)
    if os.path.isabs(full) and not os.path.isdir(full):  # another one is looked for from where one is then
        raise ConfigError(f"{path} is no directory of this machine", hint="Say private, here, or another.")


def _rules(config: Config) -> None:
    from .approval._rules import BadRule
    from .approval.engine import Engine

    rules = config.approvals
    try:
        Engine(rules=rules.rules, deny=rules.deny, ask=rules.ask, allow=rules.allow)
    except BadRule as error:
        raise ConfigError(
            str(error),
            hint="docs/approval-rules.md says how rules are written.",
            context={"key": f"approvals.{error.key}"},
        ) from None


def _section(name: str, config: Config, *, used: bool) -> None:
    """Refuse what the place would, so far as it can be told without it.

    :param used: it is the place in force, so that what is said for all places is for it
    """
    if name == "local":
        python = config.local.python
        if python and os.path.isabs(python) and not os.access(python, os.X_OK):
            raise ConfigError(f"local.python: {python} is no program")
        return
    if name == "ssh" and not (config.ssh.host and config.ssh.user):
        return  # which is said when it is used: one is set after the other
    from .backends.base import Spec

    here = ""
    with contextlib.suppress(OSError):  # which is said when a sandbox is opened
        here = os.getcwd()
    common: dict[str, Any] = {}
    if used:
        limits = {
            key: value for key, value in msgspec.structs.asdict(config.limits).items() if value is not None
        }
        common = {"limits": limits, "persistent": config.persistent, "keep": config.keep}
        common |= {"network": config.network} if config.network else {}
        if config.workspace and os.path.isabs(os.path.expanduser(config.workspace)):
            common["workspace"] = config.workspace
    # What is found from the directory in which one is then cannot be looked for now.
    docker = config.docker
    for key in ("dockerfile", "devcontainer"):
        path = getattr(docker, key)
        if path and not os.path.isabs(os.path.expanduser(path)):
            docker = msgspec.structs.replace(docker, **{key: None})
    config = msgspec.structs.replace(config, docker=docker)
    if "/" in (image := config.singularity.image or "") and ":" not in image and not os.path.isabs(image):
        config = msgspec.structs.replace(
            config, singularity=msgspec.structs.replace(config.singularity, image=None)
        )
    backends.load(name)(Spec(name="settings", id="0" * 16, here=here, **common), config).check_spec()
