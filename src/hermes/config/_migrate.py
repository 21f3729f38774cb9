"""What hermes-agent's settings mean here. It keeps them in a file of the same name, and in ``.env``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hermes.errors import ConfigError

from ._env import ungivable
from ._load import FOREIGN, FOREIGN_MODES, _section
from ._schema import Config

__all__ = ["Step", "plan"]

PLACES = ("local", "docker", "ssh", "singularity", "modal", "daytona", "vercel")


class Step(NamedTuple):
    """One of their settings: the name and value that it has here, or, without a name, why it has none."""

    theirs: str
    ours: str = ""
    value: Any = None
    why: str = ""


def _as_it_is(value: Any) -> Any:
    return value


def _place(value: Any) -> Any:
    return {"vercel_sandbox": "vercel", "apptainer": "singularity"}.get(str(value), value)


def _list(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.strip().startswith("["):
        return json.loads(value)
    return [part.strip() for part in value.split(",") if part.strip()]


def _names(value: Any) -> list[str]:
    names = [str(one) for one in _list(value)]
    for name in names:
        if why := ungivable(name):
            raise ValueError(f"{name[:40]!r} cannot be given to a sandbox: {why}")
    return names


def _files(value: Any) -> list[dict[str, str]]:
    # Theirs is a list of paths, or of objects that have one.
    return [{"path": str(one["path"] if isinstance(one, Mapping) else one)} for one in _list(value)]


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) and "." in value else int(value)


def _truth(value: Any) -> bool:
    return value if isinstance(value, bool) else str(value).strip().lower() in ("1", "true", "yes", "on")


_SAME: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "backend": ("sandbox", _place),
    "timeout": ("timeout", _number),
    "lifetime_seconds": ("lifetime.idle_stop", _number),
    "docker_image": ("docker.image", _as_it_is),
    "docker_volumes": ("docker.mounts", _list),
    "docker_extra_args": ("docker.args", _list),
    "docker_shm_size": ("docker.shm_size", _as_it_is),
    "singularity_image": ("singularity.image", _as_it_is),
    "ssh_host": ("ssh.host", _as_it_is),
    "ssh_user": ("ssh.user", _as_it_is),
    "ssh_port": ("ssh.port", _number),
    "ssh_key": ("ssh.key", _as_it_is),
    "docker_forward_env": ("credentials.env", _names),
    "env_passthrough": ("credentials.env", _names),
    "credential_files": ("credentials.files", _files),
    "modal_image": ("modal.image", _as_it_is),
    "daytona_image": ("daytona.image", _as_it_is),
}
"""Their keys in ``terminal`` that mean the same under another name."""

_WHEN: dict[str, tuple[bool, str, Any]] = {
    "docker_network": (False, "network", "off"),
    "docker_mount_cwd_to_workspace": (True, "workspace", "here"),
}
"""Their keys that mean something for one of their values."""

_NONE = {
    "container_cpu": "a limit holds on every place, and is refused where there is none: see limits.cpus",
    "container_memory": "a limit holds on every place, and is refused where there is none: see limits.memory",
    "container_disk": "a limit holds on every place, and is refused where there is none: see limits.disk",
    "container_persistent": "files of a sandbox with a name survive anyway",
    "docker_run_as_host_user": "so it is unless docker.user says otherwise",
    "docker_env": "give variables with 'hermes exec --env'",
    "cwd": "a sandbox belongs to the directory that hermes is called in",
    "persistent_shell": "'hermes exec --session NAME' keeps a shell",
}

_VARIABLES = {"TERMINAL_ENV": "backend", "TERMINAL_BACKEND": "backend"}


def plan(data: Mapping[str, Any], variables: Mapping[str, str]) -> list[Step]:
    """Return what becomes of each of their settings: those of the file, then variables that it does not say.

    :param variables: of ``.env`` and the environment, of which those that begin with ``TERMINAL_`` count
    """
    terminal = data.get("terminal")
    terminal = dict(terminal) if isinstance(terminal, Mapping) else {}
    named = {key: f"terminal.{key}" for key in terminal}
    for name, value in variables.items():
        key = _VARIABLES.get(name, name.removeprefix("TERMINAL_").lower())
        # The file wins, as it does with them. TERMINAL_SSH_HOST and its like are read here as they are.
        theirs = name.startswith("TERMINAL_") and not name.startswith("TERMINAL_SSH_")
        if theirs and key not in terminal and (key in _SAME or key in _WHEN or key in _NONE):
            terminal[key], named[key] = value, name
    steps = _joined([_step(key, value, named[key]) for key, value in terminal.items()])
    model = _model(data.get("model"))
    others = [key for key in data if key in FOREIGN and key != "terminal" and not (key == "model" and model)]
    told = (Step(key, why=_others(key)) for key in others)
    return [*steps, *model, *_approvals(data), *told, *_security(data)]


def _others(key: str) -> str:
    return {
        "command_allowlist": "it has hermes-agent's own words for what it asks about; approvals.allow has "
        "patterns of commands, and 'always' is an answer",
        "security": "has no meaning here, but for redact_secrets",
        "model": "its names are of another form here: hermes config set model.name PROVIDER:MODEL",
    }.get(key, "has no meaning here")


_PROVIDERS = {"anthropic": "anthropic", "openai": "openai", "google": "google", "gemini": "google"}
"""Their names of providers that hermes speaks with itself."""

_OTHERWISE = (
    "hermes speaks with openai, anthropic, google and with servers at model.base_url: see docs/chat.md"
)


def _model(section: Any) -> list[Step]:
    """Return what becomes of the model that they talk to; nothing where the section is ours."""
    if isinstance(section, str) and section:
        why = f"its names are of another form here: hermes config set model.name PROVIDER:{section[:80]}"
        return [Step("model", why=why)]
    if not isinstance(section, Mapping) or "name" in section:
        return []
    name, url, whose = (section.get(key) for key in ("default", "base_url", "provider"))
    if not isinstance(name, str) or not name:
        return []
    if isinstance(url, str) and url:
        return [Step("model.default", "model.name", name), Step("model.base_url", "model.base_url", url)]
    provider = _PROVIDERS.get(str(whose or name.partition("/")[0]).lower())
    if provider is None:
        return [Step("model.default", why=_OTHERWISE)]
    first, slash, rest = name.partition("/")
    bare = rest if slash and _PROVIDERS.get(first.lower()) == provider else name
    return [Step("model.default", "model.name", f"{provider}:{bare}")]


def _approvals(data: Mapping[str, Any]) -> list[Step]:
    section = data.get("approvals")
    mode = section.get("mode") if isinstance(section, Mapping) else None
    if mode is False:
        mode = "off"  # which is what YAML made of the word
    if not isinstance(mode, str):
        return []
    return [Step("approvals.mode", "approvals.mode", FOREIGN_MODES.get(mode, mode))]


def _security(data: Mapping[str, Any]) -> list[Step]:
    section = data.get("security")
    if not isinstance(section, Mapping) or "redact_secrets" not in section:
        return []
    why = "is the default here: credentials.redact"
    if not _truth(section["redact_secrets"]):
        why = "secrets are taken out of output here, until you set credentials.redact to off"
    return [Step("security.redact_secrets", why=why)]


def _joined(steps: list[Step]) -> list[Step]:
    """Return the steps with lists that become one setting put together."""
    result: list[Step] = []
    for step in steps:
        for at, other in enumerate(result):
            if step.ours and step.ours == other.ours and isinstance(step.value, list):
                value = [*other.value, *(one for one in step.value if one not in other.value)]
                result[at] = Step(f"{other.theirs}, {step.theirs}", step.ours, value)
                break
        else:
            result.append(step)
    return result


def _step(key: str, value: Any, theirs: str) -> Step:
    if key in _NONE:
        return Step(theirs, why=_NONE[key])
    if key in _WHEN:
        when, ours, setting = _WHEN[key]
        return (
            Step(theirs, ours, setting) if _truth(value) is when else Step(theirs, why="is the default here")
        )
    if key not in _SAME:
        return Step(theirs, why="has no meaning here")
    ours, convert = _SAME[key]
    if value in (None, "", []):
        return Step(theirs, why="is empty")
    try:
        setting = convert(value)
        if ours == "sandbox" and setting not in PLACES:
            raise ValueError(f"there is no place '{str(setting)[:40]}'")
        nested = setting
        for part in reversed(ours.split(".")):
            nested = {part: nested}
        _section(nested, Config, (), lambda at: ours)
    except (ConfigError, ValueError, TypeError, KeyError) as error:
        why = error.message if isinstance(error, ConfigError) else str(error)
        return Step(theirs, why=f"cannot be taken over: {why}")
    return Step(theirs, ours, setting)
