"""``devcontainer.json``: the parts of it that say what a container is made from."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes.config import DEVCONTAINERS
from hermes.errors import ConfigError

from ._image import Image, from_dockerfile, read_regular
from ._options import Mount, parse_args

__all__ = ["Devcontainer", "load", "needs_container", "shown", "with_container", "with_variables"]

UNSUPPORTED = ("dockerComposeFile", "features", "service")
IGNORED = (
    *(
        "initializeCommand",
        "onCreateCommand",
        "updateContentCommand",
        "postStartCommand",
        "postAttachCommand",
    ),
    *("workspaceFolder", "workspaceMount", "appPort", "capAdd", "securityOpt", "privileged"),
)
"""Keys that would change what is inside, and do not here."""
IGNORED_BUILD = ("options", "cacheFrom")

_CONTAINER_ENV = re.compile(r"\$\{containerEnv:([^}:]*)(?::([^}]*))?\}")
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)


@dataclass(frozen=True)
class Devcontainer:
    """What a ``devcontainer.json`` asks for, with its variables filled in."""

    path: str
    image: Image
    user: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    args: tuple[str, ...] = ()
    post_create: tuple[tuple[str, ...], ...] = ()
    ignored: tuple[str, ...] = ()


def load(path: str, workspace: str, inside: str, changing: str | None = None) -> Devcontainer:
    """Read a ``devcontainer.json``.

    :param path: the file, or a directory that holds one
    :param workspace: the directory of this machine that its ``localWorkspaceFolder`` stands for
    :param inside: where the workspace appears inside
    :param changing: the directory of this machine that the sandbox can write to
    :raises ConfigError: it cannot be read, or asks for what hermes does not do
    """
    file = _find(path)
    try:
        data = json.loads(_plain(read_regular(file).decode("utf-8")))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}; nothing was started") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is no JSON: {error}; nothing was started") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{file} holds no object; nothing was started")
    for key in UNSUPPORTED:
        if data.get(key):
            raise ConfigError(
                f"{file}: '{key}' is not supported; nothing was started",
                hint="Build the image with the devcontainer command line tool, and name it in docker.image.",
            )
    data = _filled(data, workspace, inside)
    root = file.parent.parent if file.parent.name == ".devcontainer" else file.parent
    _check_inside(data, file, root)
    text = data.get("remoteUser") or data.get("containerUser")
    env = _texts(data, "containerEnv", file)
    env |= with_container(_texts(data, "remoteEnv", file), env)
    return Devcontainer(
        path=str(file),
        image=_image(data, file, changing),
        user=str(text) if text else None,
        env=env,
        mounts=tuple(_mount(one, file) for one in _items(data, "mounts", file)),
        args=tuple(str(one) for one in _items(data, "runArgs", file)),
        post_create=_commands(data.get("postCreateCommand"), file),
        ignored=(
            *(key for key in IGNORED if data.get(key) and data[key] != inside),
            *(f"build.{key}" for key in IGNORED_BUILD if _build(data).get(key)),
        ),
    )


def _find(path: str) -> Path:
    start = Path(os.path.abspath(os.path.expanduser(path)))
    if not start.is_dir():
        return start
    for place in DEVCONTAINERS:
        if (start / place).is_file():
            return start / place
    raise ConfigError(f"there is no devcontainer.json in {start}; nothing was started")


def _plain(text: str) -> str:
    """Take out comments and trailing commas, which the format allows and JSON does not."""
    return _TOKEN.sub(lambda match: match[0] if match[0][0] == '"' else "", text)


def _filled(value: Any, workspace: str, inside: str) -> Any:
    if isinstance(value, str):
        known = {
            "localWorkspaceFolder": workspace,
            "localWorkspaceFolderBasename": os.path.basename(workspace),
            "containerWorkspaceFolder": inside,
            "containerWorkspaceFolderBasename": os.path.basename(inside),
        }

        def fill(match: re.Match[str]) -> str:
            name, _, rest = match[1].partition(":")
            if name in ("localEnv", "env"):
                variable, _, default = rest.partition(":")
                return os.environ.get(variable, default)
            return known.get(name, match[0])

        return re.sub(r"\$\{([^}]*)\}", fill, value)
    if isinstance(value, list):
        return [_filled(one, workspace, inside) for one in value]
    if isinstance(value, dict):
        return {key: _filled(one, workspace, inside) for key, one in value.items()}
    return value


def needs_container(env: Mapping[str, str]) -> bool:
    """Return whether variables are made of what the container alone knows."""
    return any(_CONTAINER_ENV.search(text) for text in env.values())


def with_container(
    env: Mapping[str, str], known: Mapping[str, str], *, complete: bool = False
) -> dict[str, str]:
    """Fill in ``${containerEnv:NAME}`` from what is known of the container's own variables.

    :param complete: there are no others
    """

    def fill(match: re.Match[str]) -> str:
        return known.get(match[1], (match[2] or "") if complete else match[0])

    return {name: _CONTAINER_ENV.sub(fill, text) for name, text in env.items()}


def with_variables(env: Mapping[str, str], argv: tuple[str, ...]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return variables for a client program to pass on, and the command that gets *env* of them.

    They do not have their own names there, which may mean something to the client, or to what loads it.
    """
    if not env:
        return {}, argv
    passed = {f"HERMES_ENV_{number}": text for number, text in enumerate(env.values())}
    unset = " ".join(f"-u {name}" for name in passed)
    given = " ".join(f'{shlex.quote(name)}="${alias}"' for name, alias in zip(env, passed, strict=True))
    return passed, ("/bin/sh", "-c", f'exec env {unset} {given} "$@"', "sh", *argv)


def _image(data: Mapping[str, Any], file: Path, changing: str | None) -> Image:
    build = _build(data)
    dockerfile = build.get("dockerfile") or data.get("dockerFile")
    if dockerfile:
        target = build.get("target")
        if not isinstance(target, (str, type(None))):
            raise ConfigError(f"{file}: 'target' is no name; nothing was started")
        return from_dockerfile(
            str(file.parent / str(dockerfile)),
            str(file.parent / str(build.get("context") or data.get("context") or ".")),
            tuple(f"{key}={value}" for key, value in sorted(_texts(build, "args", file).items())),
            target,
            changing,
        )
    if not isinstance(data.get("image"), str):
        raise ConfigError(f"{file} names neither an image nor a Dockerfile; nothing was started")
    return Image(data["image"])


def _check_inside(data: Mapping[str, Any], file: Path, root: Path) -> None:
    """Check that an image is built from the project alone: its file may come from anywhere."""
    build = _build(data)
    named = [build.get("context"), build.get("dockerfile"), data.get("context"), data.get("dockerFile")]
    for one in filter(None, named):
        if not Path(os.path.realpath(file.parent / str(one))).is_relative_to(os.path.realpath(root)):
            raise ConfigError(
                f"{file}: '{one}' lies outside of {root}; nothing was built or started",
                hint="Build that image yourself, and name it in docker.image.",
            )


def _build(data: Mapping[str, Any]) -> Mapping[str, Any]:
    build = data.get("build")
    return build if isinstance(build, dict) else {}


def _texts(data: Mapping[str, Any], key: str, file: Path) -> dict[str, str]:
    value = data.get(key) or {}
    if not isinstance(value, dict):
        raise ConfigError(f"{file}: '{key}' is no object; nothing was started")
    found = {str(name): str(text) for name, text in value.items() if text is not None}
    for name, text in found.items():
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) or "\0" in text:
            raise ConfigError(f"{file}: {name!r} in '{key}' cannot be a variable; nothing was started")
    return found


def _items(data: Mapping[str, Any], key: str, file: Path) -> list[Any]:
    value = data.get(key) or []
    if not isinstance(value, list):
        raise ConfigError(f"{file}: '{key}' is no list; nothing was started")
    return value


def _mount(value: Any, file: Path) -> Mount:
    text = value
    if isinstance(value, dict):
        text = ",".join(f"{key}={one}" for key, one in value.items())
    if not isinstance(text, str):
        raise ConfigError(f"{file}: '{value}' is no mount; nothing was started")
    return parse_args(["--mount", text]).mounts[0]


def _commands(value: Any, file: Path) -> tuple[tuple[str, ...], ...]:
    """Return the argvs of a command: a text for the shell, an argv, or an object of several of either."""
    if not value:
        return ()
    if isinstance(value, str) and "\0" not in value:
        return (("/bin/sh", "-c", value),)
    if isinstance(value, list) and all(isinstance(part, str) and "\0" not in part for part in value):
        return (tuple(value),)
    if isinstance(value, dict) and not any(isinstance(one, dict) for one in value.values()):
        return tuple(argv for one in value.values() for argv in _commands(one, file))
    raise ConfigError(f"{file}: 'postCreateCommand' is no command; nothing was started")


def shown(argv: tuple[str, ...]) -> str:
    """Return a command for people."""
    return argv[2] if argv[:2] == ("/bin/sh", "-c") else shlex.join(argv)
