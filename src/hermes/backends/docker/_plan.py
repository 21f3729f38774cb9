"""What a sandbox's options come to: image, user, mounts and arguments, and whether they reach the host."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hermes.config import IMAGE, Docker, section
from hermes.errors import ConfigError

from .._least import check_least
from .._workspace import check_nesting, checked_workspace
from ..base import Spec
from . import _devcontainer
from ._container import HOME, WORKSPACE
from ._engine import Facts, chosen_engine
from ._image import DEFAULT_IMAGE, Image, from_dockerfile, is_pin
from ._options import CAPABILITIES, Mount, mount_reach, parse_args, parse_mount

__all__ = ["Plan", "plan_for"]


@dataclass
class Plan:
    """Everything that is known before an engine is asked.

    ``here``: the directory of this machine that becomes the workspace, None for one of the sandbox's own.
    ``user_name``: a user that only the image can turn into a number. ``engine``: the one that is meant, None
    for this machine's own. ``reasons``: why this is no sandbox. ``ignored``: what was asked for and is
    not done.
    """

    options: Docker
    image: Image
    network: str
    here: str | None
    skills: str
    limits: Mapping[str, float]
    mounts: list[Mount] = field(default_factory=list)
    args: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    env: Mapping[str, str] = field(default_factory=dict)
    user_name: str | None = None
    engine: str | None = None
    post_create: tuple[tuple[str, ...], ...] = ()
    ignored: str = ""

    @property
    def binds(self) -> list[str]:
        """The paths of this machine that are to be seen inside."""
        return [*([self.here] if self.here else []), *(one.source for one in self.mounts if one.is_bind)]

    def remapped(self, facts: Facts) -> bool:
        """Return whether users inside are others outside."""
        return facts.remapped and "--userns=host" not in self.args

    def user(self, facts: Facts) -> str:
        """Return ``UID:GID`` inside."""
        wish = "root" if self.options.writable_root else self.options.user
        if wish == "root":
            return "0:0"
        if wish == "host":
            # Without an own user namespace numbers are the same inside and outside; in a rootless one of
            # docker, root inside is this user.
            return "0:0" if facts.rootless and not facts.podman else f"{os.geteuid()}:{os.getegid()}"
        return wish if ":" in wish else f"{wish}:{wish}"

    def capabilities(self, facts: Facts) -> Sequence[str]:
        """Return what root inside keeps. Podman would give it to any user, so others get none there."""
        if facts.podman and (self.user_name is not None or not self.user(facts).startswith("0:")):
            return ()
        return (*CAPABILITIES, *(("SETUID", "SETGID") if self.options.writable_root else ()))

    def settings(self) -> dict[str, Any]:
        """Return what a container is made with, for people to compare."""
        options = self.options
        found: dict[str, Any] = {
            "image": self.image.shown,
            "network": self.network,
            "workspace": self.here or "private",
            "limits": dict(self.limits),
            "docker.user": "root" if options.writable_root else self.user_name or options.user,
            "mounts": [f"{m.source}:{m.target}{':ro' if m.read_only else ''}" for m in self.mounts],
            "docker.args": list(self.args),
            "skills": self.skills,
        }
        kept = ("program", "context", "writable_root", "runtime", "gpus", "metadata")
        for key in (*kept, "tmp_size", "scratch_size", "shm_size"):
            found[f"docker.{key}"] = getattr(options, key)
        found["docker.context"] = self.engine
        if self.post_create:
            found["post-create"] = [_devcontainer.shown(argv) for argv in self.post_create]
        if options.tmp_exec:  # records of before the setting have none
            found["docker.tmp_exec"] = True
        return found


def plan_for(spec: Spec, configured: Docker, skills: str) -> Plan:
    """Return the plan for a spec. Reads the files that it names.

    :raises ConfigError: options that make no sense, or contradict each other
    """
    options = section(configured, spec.options, "docker option")
    sources = [key for key in ("image", "dockerfile", "devcontainer") if spec.options.get(key)]
    if spec.image is not None:
        sources.append("image")
    if not sources:  # what the sandbox itself asks for outranks the configuration
        sources = [key for key in ("image", "dockerfile", "devcontainer") if getattr(configured, key)]
        if len(sources) > 1 and is_pin(configured.image):
            sources.remove("image")  # written there by setup: nobody chose it
    if len(set(sources)) > 1:
        raise ConfigError(
            f"{' and '.join(sources)} are given, but there is one image; nothing was started",
            hint=f"Leave one out, such as by: hermes config unset docker.{sources[0]}",
        )
    source = sources[0] if sources else "image"
    here = None
    if spec.workspace not in (None, "private"):
        here = checked_workspace(str(spec.workspace), spec.here)
    plan = Plan(
        options=options,
        image=Image(spec.image if spec.image is not None else options.image or DEFAULT_IMAGE),
        network=spec.network or "on",
        here=here,
        skills=skills,
        limits=spec.limits,
        engine=chosen_engine(options),
    )
    check_least(spec.limits)
    if source == "dockerfile":
        plan.image = from_dockerfile(str(options.dockerfile), workspace=here)
    elif source == "devcontainer":
        _apply_devcontainer(plan, spec, str(options.devcontainer))
    if not re.search(IMAGE, plan.image.reference):
        raise ConfigError(
            f"the image '{plan.image.reference}' has a name that no image has; nothing was started",
            hint="Name it as 'docker images' lists it, in small letters, such as debian:13-slim.",
        )
    _settle_user(plan)
    parsed = parse_args(options.args)
    own = [parse_mount(text) for text in options.mounts]
    plan.mounts += [*own, *parsed.mounts]
    plan.args += parsed.args
    plan.reasons += [*filter(None, map(mount_reach, own)), *parsed.reasons]
    if plan.network == "host":
        plan.reasons.append("it is in the network of this machine")
    check_nesting(
        [*([(here, False)] if here else []), *((m.source, m.read_only) for m in plan.mounts if m.is_bind)]
    )
    taken = [mount.target for mount in plan.mounts]
    for target in taken:
        if taken.count(target) > 1 or target in (WORKSPACE, HOME):
            raise ConfigError(f"two mounts have the target {target}; nothing was started")
    return plan


def _apply_devcontainer(plan: Plan, spec: Spec, path: str) -> None:
    folder = plan.here or spec.here or os.getcwd()
    found = _devcontainer.load(
        os.path.join(folder, os.path.expanduser(path)), folder, WORKSPACE, changing=plan.here
    )
    parsed = parse_args(found.args)
    plan.image, plan.env, plan.post_create = found.image, found.env, found.post_create
    if found.ignored:
        plan.ignored = f"of {found.path} nothing is done with {', '.join(found.ignored)}"
    plan.mounts += [*found.mounts, *parsed.mounts]
    plan.args += parsed.args
    plan.reasons += [*filter(None, map(mount_reach, found.mounts)), *parsed.reasons]
    if found.user and plan.options.user == "host":
        plan.options = msgspec.structs.replace(plan.options, user=found.user)


def _settle_user(plan: Plan) -> None:
    wish = plan.options.user
    if plan.options.writable_root:
        if wish not in ("host", "root", "0", "0:0"):
            raise ConfigError(
                f"docker.writable_root means root inside, but docker.user is '{wish}'; nothing was started"
            )
    elif wish not in ("host", "root") and not re.fullmatch(r"\d{1,9}(:\d{1,9})?", wish):
        if not re.fullmatch(r"[a-z_][a-z0-9_-]*", wish):
            raise ConfigError(
                f"docker.user: '{wish}' is no user; nothing was started",
                hint="Say host, root, a name that the image knows, or UID[:GID].",
            )
        plan.user_name = wish
