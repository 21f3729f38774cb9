"""The options of docker: checked, and looked through for what would reach the host."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from hermes.errors import ConfigError

from .._workspace import reaches_host

__all__ = ["CAPABILITIES", "Mount", "Reach", "parse_args", "parse_mount"]

CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER")
"""What root inside keeps, so that it can manage files of any owner."""

WORKSPACE = "/workspace"
HOME = "/home/hermes"
OURS = ("/run", "/proc", "/sys", "/dev", "/scratch", "/tmp", "/var/tmp")


class Mount(NamedTuple):
    """A directory of this machine (an absolute path) or a volume (a name), and where it appears inside."""

    source: str
    target: str
    read_only: bool = False

    @property
    def is_bind(self) -> bool:
        """Whether the source is a path of this machine."""
        return self.source.startswith("/")

    def argument(self) -> str:
        """The value for ``--mount``, which is a line of comma-separated values."""
        parts = [
            f"type={'bind' if self.is_bind else 'volume'}",
            f"source={self.source}",
            f"target={self.target}",
            *(["readonly"] if self.read_only else []),
        ]
        return ",".join(
            '"' + part.replace('"', '""') + '"' if set(part) & set(',"') else part for part in parts
        )


@dataclass
class Reach:
    """What was asked for, and why it would make the container no sandbox any more."""

    args: list[str] = field(default_factory=list)
    mounts: list[Mount] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def parse_mount(text: str) -> Mount:
    """Return the mount that ``SOURCE:TARGET[:ro|rw]`` means.

    :raises ConfigError: it means none, or one over what hermes itself mounts
    """
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    words = set(mode.split(",")) - {""}
    if not source or not target or words - {"ro", "rw", "z", "Z"}:
        raise ConfigError(
            f"'{text}' is no mount; nothing was started",
            hint="Write SOURCE:TARGET or SOURCE:TARGET:ro; SOURCE is a path here or the name of a volume.",
        )
    if source.startswith(("~", ".")):
        source = os.path.abspath(os.path.expanduser(source))
    if not source.startswith("/") and not re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*", source):
        raise ConfigError(
            f"'{source}' is neither an absolute path nor the name of a volume; nothing was started"
        )
    if not source.startswith("/") and os.path.isdir(source):
        raise ConfigError(
            f"'{text}' would mount a volume of the engine, but there is a directory '{source}' here; "
            "nothing was started",
            hint=f"Write './{source}:{target}' for the directory, or name the volume otherwise.",
        )
    return _checked(Mount(source, target, "ro" in words))


def _checked(mount: Mount) -> Mount:
    target = os.path.normpath(mount.target).replace("//", "/")
    if not target.startswith("/") or target == "/":
        raise ConfigError(f"the mount's target '{mount.target}' is no path inside; nothing was started")
    if any(target == own or target.startswith(own + "/") for own in OURS):
        raise ConfigError(f"nothing can be mounted at {target}; nothing was started")
    source = os.path.realpath(mount.source) if mount.is_bind else mount.source
    return mount._replace(source=source, target=target)


def mount_reach(mount: Mount) -> str | None:
    """Return why a mount reaches the host, None when it does not."""
    why = reaches_host(mount.source, read_only=mount.read_only) if mount.is_bind else None
    return f"{mount.source} is mounted: {why}" if why else None


# What `docker run` takes. Options that are in no table are refused: nobody has looked at what they do.
_ALONE = {"--no-healthcheck", "--publish-all", "-P"}
_HARMLESS_TEXT = """
    --add-host --blkio-weight --cpu-period --cpu-quota --cpu-shares -c --cpuset-cpus
    --cpuset-mems --dns --dns-option --dns-search --domainname --expose --group-add --health-cmd
    --health-interval --health-retries --health-start-period --health-timeout --hostname -h --ip --ip6
    --label -l --log-driver --log-opt --mac-address --memory-reservation --memory-swappiness
    --network-alias --oom-score-adj --platform --publish -p --stop-signal --stop-timeout --storage-opt
    --sysctl --tmpfs --ulimit
"""
_HARMLESS = _ALONE | set(_HARMLESS_TEXT.split())
_REACHING = {
    "--privileged": "it is privileged",
    "--device": "it has a device of this machine",
    "--device-cgroup-rule": "it may use devices of this machine",
    "--volumes-from": "it has the mounts of another container",
    "--cap-add": "it has the capability {}",
    "--security-opt": "a protection is off: {}",
    "--pid": "it sees the processes of {}",
    "--ipc": "it shares memory with {}",
    "--uts": "it shares the host name with {}",
    "--userns": "it has the users of {}",
    "--cgroupns": "it sees the control groups of {}",
    "--cgroup-parent": "it is in the control group {}",
    "--annotation": "its runtime is told {}",
}
_BY_KEY = {
    "--user": "docker.user",
    "-u": "docker.user",
    "--network": "network",
    "--net": "network",
    "--memory": "limits.memory",
    "-m": "limits.memory",
    "--cpus": "limits.cpus",
    "--pids-limit": "limits.pids",
    "--gpus": "docker.gpus",
    "--runtime": "docker.runtime",
    "--shm-size": "docker.shm_size",
    "--env": "env",
    "-e": "env",
    "--env-file": "env",
    "--read-only": "docker.writable_root",
    "--workdir": "cwd",
    "-w": "cwd",
    "--memory-swap": "limits.memory",
    "--init": "none: the first process of the container reaps already",
    "--rm": "name",
    "--name": "name",
}


def parse_args(args: tuple[str, ...] | list[str]) -> Reach:
    """Return what more arguments of ``docker run`` mean.

    :raises ConfigError: one that hermes does not know, or for which it has a setting of its own
    """
    found = Reach()
    rest = list(args)
    while rest:
        name, given, value = rest.pop(0).partition("=")
        if not name.startswith("-"):
            raise ConfigError(f"docker.args: '{name}' is no option; nothing was started")
        if name in _BY_KEY:
            raise ConfigError(
                f"docker.args: {name} is hermes's own business; nothing was started",
                hint="Leave it out: the first process of a sandbox reaps already."
                if name == "--init"
                else f"Use the setting '{_BY_KEY[name]}'.",
            )
        if name not in {*_HARMLESS, *_REACHING, "--volume", "-v", "--mount"}:
            raise ConfigError(
                f"docker.args: hermes does not know what {name} does to the sandbox; nothing was started",
                hint="Known: " + " ".join(sorted((*_HARMLESS, *_REACHING, "--volume", "--mount"))),
            )
        alone = name in _ALONE or name == "--privileged"
        if alone and given:  # what is written so may be meant to turn it off
            raise ConfigError(
                f"docker.args: {name} takes no value; nothing was started",
                hint=f"Write {name}, or leave it out.",
            )
        if not given and not alone:
            if not rest:
                raise ConfigError(f"docker.args: {name} has no value; nothing was started")
            value = rest.pop(0)
        if name == "--tmpfs" and _checked(Mount("", value.partition(":")[0])).target in (WORKSPACE, HOME):
            raise ConfigError(f"docker.args: {value} would hide files that are kept; nothing was started")
        if name in ("--label", "-l") and value.startswith("hermes."):
            raise ConfigError("docker.args: labels 'hermes.*' are hermes's own; nothing was started")
        if name in ("--volume", "-v"):
            found.mounts.append(parse_mount(value))
        elif name == "--mount":
            found.mounts.append(_parse_long(value))
        elif name in _HARMLESS:
            found.args.append(name if alone else f"{name}={value}")
        else:
            found.args += [name] if alone else [f"{name}={value}"]
            why = _reaching(name, value)
            if why:
                found.reasons.append(why)
    for mount in found.mounts:
        why = mount_reach(mount)
        if why:
            found.reasons.append(why)
    return found


def _reaching(name: str, value: str) -> str | None:
    if name == "--cap-add" and value.upper().removeprefix("CAP_") in CAPABILITIES:
        return None
    if name == "--security-opt" and re.fullmatch(r"no-new-privileges([:=]true)?", value):
        return None
    if name in ("--ipc", "--cgroupns", "--uts") and value in ("private", "none", ""):
        return None
    if name == "--userns" and (value == "auto" or value.startswith(("keep-id", "nomap"))):
        return None
    return _REACHING[name].format("this machine" if value == "host" else value)


def _parse_long(text: str) -> Mount:
    fields: dict[str, str] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        fields[{"src": "source", "dst": "target", "destination": "target"}.get(key, key)] = value
    words = {fields.pop(name, "false") or "true" for name in ("readonly", "ro")}
    kind = fields.pop("type", "volume")
    fields.pop("consistency", None)  # it has no meaning on Linux
    if kind not in ("bind", "volume") or set(fields) != {"source", "target"} or words - {"true", "false"}:
        raise ConfigError(
            f"--mount {text} is no mount that hermes knows; nothing was started",
            hint="Write type=bind|volume,source=...,target=...[,readonly]. For memory, use --tmpfs.",
        )
    if (kind == "bind") != fields["source"].startswith("/"):
        raise ConfigError(f"--mount {text}: the source of a {kind} is not of that kind; nothing was started")
    return _checked(Mount(fields["source"], fields["target"], "true" in words))
