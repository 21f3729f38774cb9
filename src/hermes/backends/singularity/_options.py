"""The options of singularity: checked, and looked through for what would reach the host."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hermes.errors import ConfigError

from .._workspace import reaches_host

__all__ = [
    "CAPABILITIES",
    "CREDENTIALS",
    "HOME",
    "RUN",
    "SCRATCH",
    "WORKSPACE",
    "Bind",
    "Reach",
    "parse_args",
    "parse_bind",
]

WORKSPACE = "/workspace"
HOME = "/home/hermes"
SCRATCH = "/scratch"
RUN = "/run/hermes"
CREDENTIALS = "/run/hermes-credentials"

CAPABILITIES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER")
"""What root inside keeps, so that it can manage files of any owner."""

OURS = (
    WORKSPACE,
    HOME,
    SCRATCH,
    RUN,
    CREDENTIALS,
    "/tmp",
    "/var/tmp",
    "/proc",
    "/sys",
    "/dev",
    "/.singularity.d",
)


class Bind(NamedTuple):
    """A path of this machine, and where it appears inside."""

    source: str
    target: str
    read_only: bool = False

    def arguments(self) -> tuple[str, str]:
        """The arguments that make it; the value is a line of comma-separated values."""
        parts = ["type=bind", f"source={self.source}", f"destination={self.target}"]
        parts += ["ro"] if self.read_only else []
        quoted = ('"' + p.replace('"', '""') + '"' if set(p) & set(',"\n') else p for p in parts)
        return "--mount", ",".join(quoted)

    def __str__(self) -> str:
        return f"{self.source}:{self.target}{':ro' if self.read_only else ''}"


@dataclass
class Reach:
    """What was asked for, and why it would make the container no sandbox any more."""

    args: list[str] = field(default_factory=list)
    binds: list[Bind] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def parse_bind(text: str) -> Bind:
    """Return the bind that ``SOURCE[:TARGET[:ro|rw]]`` means.

    :raises ConfigError: it means none, or one over what hermes itself mounts
    """
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if not source or mode not in ("", "ro", "rw") or "," in text:
        raise ConfigError(
            f"'{text}' is no bind; nothing was started",
            hint="Write SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro.",
        )
    source = os.path.abspath(os.path.expanduser(source))
    target = os.path.normpath(target or source).replace("//", "/")
    source = os.path.realpath(source)
    if not target.startswith("/") or target.strip("/") == "":
        raise ConfigError(f"the target '{target}' of a bind is no path inside; nothing was started")
    if any(target == own or target.startswith(own + "/") for own in OURS):
        raise ConfigError(f"nothing can be bound at {target}; nothing was started")
    return Bind(source, target, mode == "ro")


def bind_reach(bind: Bind) -> str | None:
    """Return why a bind reaches the host, None when it does not. Blocks, for a moment."""
    why = reaches_host(bind.source, read_only=bind.read_only)
    return f"{bind.source} is bound: {why}" if why else None


# What `instance start` takes. Options that are in no table are refused: nobody has looked at what they do.
_ALONE = {"--uts", "--no-umask", "--no-eval", "--unsquash", "--underlay", "--nvccli"}
_HARMLESS = _ALONE | {
    *("--hostname", "--dns", "--cpu-shares", "--cpuset-cpus", "--cpuset-mems", "--blkio-weight"),
    *("--memory-reservation", "--memory-swap", "--drop-caps"),
}
_REACHING = {
    "--keep-privs": "root inside keeps its privileges",
    "--allow-setuid": "programs inside may gain privileges",
    "--add-caps": "it has the capability {}",
    "--netns-path": "it is in the network {}",
    "--fusemount": "it mounts {}",
    "--security": "its security settings are changed: {}",
}
_REACHING_ALONE = {"--keep-privs", "--allow-setuid"}
_BY_KEY = {
    **dict.fromkeys(("--net", "-n", "--network", "--network-args"), "network"),
    **dict.fromkeys(("--memory", "--cpus", "--pids-limit", "--apply-cgroups"), "limits"),
    **dict.fromkeys(("--env", "--env-file", "-e", "--cleanenv"), "env"),
    **dict.fromkeys(("--overlay", "-o", "--writable-tmpfs", "--writable", "-w"), "persistent"),
    **dict.fromkeys(("--home", "-H", "--no-home", "--workdir", "-W", "--scratch", "-S"), "workspace"),
    **dict.fromkeys(("--fakeroot", "-f"), "singularity.fakeroot"),
    "--nv": "singularity.nv",
    "--rocm": "singularity.rocm",
}


def parse_args(args: Sequence[str]) -> Reach:
    """Return what more arguments of ``instance start`` mean.

    :raises ConfigError: one that hermes does not know, or for which it has a setting of its own
    """
    found = Reach()
    rest = list(args)
    while rest:
        name, given, value = rest.pop(0).partition("=")
        if not name.startswith("-"):
            raise ConfigError(f"singularity.args: '{name}' is no option; nothing was started")
        if name in _BY_KEY:
            raise ConfigError(
                f"singularity.args: {name} is hermes's own business; nothing was started",
                hint=f"Use the setting '{_BY_KEY[name]}'.",
            )
        if name not in _HARMLESS and name not in _REACHING and name not in ("--bind", "-B"):
            raise ConfigError(
                f"singularity.args: hermes does not know what {name} does to it; nothing was started",
                hint="Known: " + " ".join(sorted((*_HARMLESS, *_REACHING, "--bind"))),
            )
        alone = name in _ALONE or name in _REACHING_ALONE
        if alone and given:
            raise ConfigError(f"singularity.args: {name} takes no value; nothing was started")
        if not given and not alone:
            if not rest:
                raise ConfigError(f"singularity.args: {name} has no value; nothing was started")
            value = rest.pop(0)
        if name in ("--bind", "-B"):
            found.binds += [parse_bind(part) for part in value.split(",")]
        else:
            found.args.append(name if alone else f"{name}={value}")
            why = _reaching(name, value)
            if why:
                found.reasons.append(why)
    return found


def _reaching(name: str, value: str) -> str | None:
    if name not in _REACHING:
        return None
    if name == "--add-caps" and {one.strip().upper() for one in value.split(",")} <= set(CAPABILITIES):
        return None
    if name == "--security" and value.startswith(("apparmor:", "selinux:")):
        return None  # one more restriction
    return _REACHING[name].format(value)
