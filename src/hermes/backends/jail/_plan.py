"""What a jail's options come to: workspace, network, limits, and what stays read-only."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from hermes.config import Jail, section
from hermes.errors import ConfigError, UnsupportedError

from .._workspace import checked_workspace
from ..base import Spec

__all__ = ["LANDLOCK", "Kept", "Plan", "plan_for", "protected"]

LANDLOCK = "landlock"
"""The program that is none: the kernel alone holds the jail."""


@dataclass(frozen=True)
class Plan:
    """``here``: the directory of this machine that is the workspace, None for one of the sandbox's own.

    ``network``: as it was asked for, None for whatever can be had.
    """

    options: Jail
    here: str | None
    network: str | None
    skills: str
    limits: Mapping[str, float]

    @property
    def overlay(self) -> bool:
        """Whether what is written to ``here`` is kept beside it."""
        return self.options.overlay and self.here is not None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is no sandbox."""
        return ("it uses the network of this machine",) if self.network == "host" else ()

    def settings(self) -> dict[str, Any]:
        """Return what a jail is made with, for people to compare."""
        return {
            "workspace": self.here or "private",
            "network": self.network or "on, where it can be had",
            "limits": dict(self.limits),
            "skills": self.skills,
            "jail.program": self.options.program,
            "jail.protect": list(self.options.protect),
            **({"jail.overlay": True} if self.overlay else {}),
        }


def plan_for(spec: Spec, configured: Jail, skills: str) -> Plan:
    """Return the plan for a spec. Looks at the files that it names.

    :raises ConfigError: options that make no sense
    :raises UnsupportedError: a network that there is none of
    """
    options = section(configured, spec.options, "jail option")
    if spec.image is not None:
        raise UnsupportedError(
            "the jail backend cannot do an image; nothing was started",
            hint="What is installed on this machine is seen in it. Use docker, or leave the image out.",
            context={"backend": "jail"},
        )
    if spec.network == "internal":
        raise UnsupportedError(
            "the jail backend cannot do network: internal; nothing was started",
            hint="Use network: off, or the docker backend.",
            context={"backend": "jail"},
        )
    for path in options.protect:
        if posixpath.isabs(path) or posixpath.normpath(path).split("/")[0] in ("..", ".") or "\n" in path:
            raise ConfigError(
                f"jail.protect: '{path}' is no path in the workspace; nothing was started",
                hint="Write it relative to the workspace.",
            )
    here = None
    if spec.workspace not in (None, "private"):
        here = checked_workspace(str(spec.workspace), spec.here)
    return Plan(options, here, spec.network, skills, spec.limits)


class Kept(NamedTuple):
    """What stays read-only of a directory of this machine, and what is around it; relative paths.

    What is around has to be mounted too: else it could be moved away, and another put in its place.
    """

    kept: list[str]
    around: list[str]


def protected(here: str, more: Iterable[str]) -> Kept:
    """Return what is there of what programs run by themselves, and of further paths. Blocks.

    :raises ConfigError: something is a link, which cannot be kept as it is
    """
    from hermes.workspace._protect import FILES, FOLDERS

    wanted = [name for name in sorted(FILES | FOLDERS) if name != ".env"]
    found = Kept([], [])
    for path in dict.fromkeys([*wanted, *map(posixpath.normpath, more)]):
        above = [path.rsplit("/", n)[0] for n in range(path.count("/"), 0, -1)]
        if not os.path.lexists(os.path.join(here, path)):
            continue
        for one in (*above, path):
            if os.path.islink(os.path.join(here, one)):
                raise ConfigError(
                    f"{os.path.join(here, one)} is a link, which a jail cannot keep as it is; nothing was "
                    "started",
                    hint="Put the file itself in its place, or use --workspace private.",
                )
        found.kept.append(path)
        found.around.extend(one for one in above if one not in found.around)
    return found
