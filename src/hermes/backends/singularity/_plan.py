"""What a sandbox's options come to: image, binds and arguments, and whether they reach the host."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes.config import Singularity, home, section
from hermes.errors import ConfigError, UnsupportedError

from .._workspace import check_nesting, checked_workspace
from ..base import Spec
from ._image import Image, parse_image
from ._options import HOME, Bind, bind_reach, parse_args, parse_bind

__all__ = ["Plan", "plan_for"]


@dataclass
class Plan:
    """Everything that is known before the client program is asked.

    ``here``: the directory of this machine that becomes the workspace, None for one of the sandbox's own.
    ``reasons``: why this is no sandbox. ``bound``: the paths of this machine that the user wants seen inside.
    """

    options: Singularity
    image: Image
    network: str
    here: str | None
    skills: str
    limits: Mapping[str, float]
    persistent: bool
    binds: list[Bind] = field(default_factory=list)
    args: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    bound: list[str] = field(default_factory=list)

    def settings(self) -> dict[str, Any]:
        """Return what an instance is made with, for people to compare."""
        options = self.options
        found: dict[str, Any] = {
            "image": self.image.shown,
            "network": self.network,
            "workspace": self.here or "private",
            "limits": dict(self.limits),
            "persistent": self.persistent,
            "singularity.binds": [str(bind) for bind in self.binds],
            "singularity.args": list(self.args),
            "skills": self.skills,
        }
        for key in ("program", "nv", "rocm", "fakeroot", "seccomp"):
            found[f"singularity.{key}"] = getattr(options, key)
        if options.slurm.wanted:
            found["singularity.slurm"] = {
                key: getattr(options.slurm, key) for key in ("partition", "account", "qos", "gpus", "time")
            } | {"args": list(options.slurm.args)}
        return found


_SLURM_OURS = {
    *("--output", "-o", "--error", "-e", "--input", "-i", "--wrap", "--array", "-a", "--job-name", "-J"),
    *("--chdir", "-D", "--export", "--export-file", "--uid", "--gid", "--parsable", "--test-only", "--wait"),
}


def plan_for(spec: Spec, configured: Singularity, skills: str) -> Plan:
    """Return the plan for a spec. Looks at the files that it names.

    :raises ConfigError: options that make no sense, or contradict each other
    :raises UnsupportedError: a network, or a combination, that singularity cannot make
    """
    options = section(configured, spec.options, "singularity option")
    here = None
    if spec.workspace not in (None, "private"):
        here = checked_workspace(str(spec.workspace), spec.here)
    parsed = parse_args(options.args)
    binds = [*map(parse_bind, options.binds), *parsed.binds]
    plan = Plan(
        options=options,
        image=parse_image(spec.image or options.image, spec.here),
        network=_network(spec.network),
        here=here,
        skills=skills,
        limits=spec.limits,
        persistent=spec.persistent,
        binds=binds,
        args=parsed.args,
        reasons=[*filter(None, map(bind_reach, binds)), *parsed.reasons],
        bound=[*([here] if here else []), *(one.source for one in binds)],
    )
    check_nesting([*([(here, False)] if here else []), *((one.source, one.read_only) for one in binds)])
    for one in options.slurm.args:
        if not one.startswith("-") or one.partition("=")[0] in _SLURM_OURS:
            raise ConfigError(
                f"singularity.slurm.args: '{one}' is no option, or hermes's own; nothing was submitted",
                hint="Write options as --name=value.",
            )
    for bind in binds:
        if not os.path.lexists(bind.source):
            raise ConfigError(f"there is no {bind.source} to be bound; nothing was started")
        if sum(one.target == bind.target for one in binds) > 1:
            raise ConfigError(f"two binds have the target {bind.target}; nothing was started")
    if not options.seccomp:
        plan.reasons.append("its system calls are not filtered")
    if options.fakeroot and os.geteuid() == 0:
        raise UnsupportedError(
            "singularity.fakeroot is for ordinary users: to root it gives nothing and takes protection away; "
            "nothing was started",
            hint="Leave it out: root here is root inside, with three capabilities.",
        )
    shared = home() / "skills"
    if skills == "shared" and shared.is_dir():
        plan.binds.append(Bind(str(shared), f"{HOME}/.hermes/skills", read_only=True))
    return plan


def _network(wish: str | None) -> str:
    if wish in ("internal", "host"):
        hints = {
            "internal": "Use network: off, or the docker backend.",
            "host": "network: on is the network of this machine already.",
        }
        raise UnsupportedError(
            f"the singularity backend cannot do network: {wish}; nothing was started", hint=hints[wish]
        )
    return wish or "on"
