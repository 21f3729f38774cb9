"""Which machine is meant, and how the system's ssh is told to reach it."""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hermes.config import Ssh, SshHost, home, make_private, section
from hermes.errors import BackendError, ConfigError

__all__ = ["Target", "target_for"]

# What a host of its own does not take from the settings of all.
OWN = frozenset({"host", "port", "jump", "workdir", "wake_command", "release_command"})
REQUIRED = {"host": "TERMINAL_SSH_HOST", "user": "TERMINAL_SSH_USER"}


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A machine and the account on it; the rest says how to get there."""

    host: str
    user: str
    settings: SshHost

    @property
    def port(self) -> int | None:
        return self.settings.port

    def __str__(self) -> str:
        return f"{self.user}@{self.host}" + (f":{self.port}" if self.port else "")

    def by_hand(self, command: str) -> str:
        """Return what a person types to try the same way there."""
        s = self.settings
        words = ["ssh", "-o", "BatchMode=yes"]
        for option, value in (("-F", s.config_file), ("-i", s.key), ("-J", s.jump), ("-p", s.port)):
            if value:
                words += [option, os.path.expanduser(str(value))]
        return f"{shlex.join([*words, '-l', self.user, self.host])} {command}"

    def argv(self, command: str, *, connect_timeout: float | None = None) -> list[str]:
        """Return the argv that runs a line of shell there. Blocks: the configuration file is seen to."""
        s = self.settings
        timeout = s.connect_timeout if connect_timeout is None else connect_timeout
        forced = {
            # A connection that somebody else shares could be closed, or looked into, by somebody else.
            "ControlMaster": "no",
            "ControlPath": "none",
            "ControlPersist": "no",
            "RemoteCommand": "none",
            "RequestTTY": "no",
            "PermitLocalCommand": "no",
            "ClearAllForwardings": "yes",
            "ForwardX11": "no",
            "ForwardAgent": "yes" if s.forward_agent else "no",
            "EscapeChar": "none",
            "LogLevel": "ERROR",
            "ConnectTimeout": f"{max(1, round(timeout))}",
            "ServerAliveInterval": f"{max(1, round(s.keepalive))}",
            "ServerAliveCountMax": "3",
            "SessionType": "default",
            "StdinNull": "no",
            "ForkAfterAuthentication": "no",
        }
        # Older ones do not know the last three, and have not what they guard against.
        known = "IgnoreUnknown=SessionType,StdinNull,ForkAfterAuthentication"
        argv = ["ssh", "-F", str(_config(s)), "-T", "-o", known]
        for key, value in forced.items():
            argv += ["-o", f"{key}={value}"]
        if s.key:
            argv += ["-o", "IdentitiesOnly=yes", "-i", _key_file(s.key)]
        if s.jump:
            argv += ["-J", s.jump]
        if s.port:
            argv += ["-p", str(s.port)]
        return [*argv, "-l", self.user, "--", self.host, command]


def target_for(options: Mapping[str, Any], config: Ssh, at: Mapping[str, Any] | None = None) -> Target:
    """Return the machine that the options and the configuration mean.

    :param at: host, user and port that count whatever those say now
    :raises ConfigError: host or user is missing, both names what; or a value that cannot be
    """
    named = options.get("host")
    settings: SshHost = config
    where = "option of ssh"
    nearest = options  # of what says the machine
    if isinstance(named, str) and named in config.hosts:
        given = nearest = config.hosts[named]
        base = {
            key: value for key, value in msgspec.to_builtins(config).items() if key not in {*OWN, "hosts"}
        }
        settings = section(SshHost(host=named), {**base, **given}, f"ssh.hosts.{named}")
        options = {key: value for key, value in options.items() if key != "host"}
    else:
        base = {key: value for key, value in msgspec.to_builtins(config).items() if key != "hosts"}
        settings = section(SshHost(), base, "ssh")
    settings = section(settings, {**options, **(at or {})}, where)
    # Who names one machine with its user means that, whatever is said for all machines.
    apart = "host" in nearest and not ("user" in nearest or "user" in options)
    host, user = _apart(settings.host, None if apart else settings.user)
    user = user or settings.user
    missing = [key for key, value in (("host", host), ("user", user)) if not value]
    if missing:
        both = " and ".join(REQUIRED[key] for key in missing)
        keys = " and ".join(f"ssh.{key}" for key in missing)
        raise ConfigError(
            f"the ssh backend needs {both}, which {'is' if len(missing) == 1 else 'are'} not set; "
            "nothing was tried",
            hint=f"Set {'it' if len(missing) == 1 else 'them'} in the environment, or {keys} with "
            f"'hermes config set ssh.{missing[0]} VALUE'.",
            context={"missing": missing},
        )
    assert host is not None and user is not None
    for what, text in (("host", host), ("user", user), ("jump", settings.jump or "x")):
        if text.startswith("-") or any(c.isspace() or not c.isprintable() for c in text):
            wrong = "begins with '-'" if text.startswith("-") else "has a blank or a control character in it"
            raise ConfigError(
                f"ssh.{what} is {text[:60]!r}, which {wrong}; nothing was tried",
                hint=f"'hermes config get ssh.{what} --explain' tells where that was said.",
            )
    return Target(host=host, user=user, settings=settings)


def _apart(host: str | None, user: str | None) -> tuple[str | None, str | None]:
    """Return host and user, for a host that may be USER@HOST.

    :raises ConfigError: it is, with nothing before or after the sign, or with another user
    """
    if not host or "@" not in host:
        return host, user
    named, _, rest = host.rpartition("@")
    if not named or not rest:
        raise ConfigError(
            f"ssh.host is {host[:60]!r}, which has no {'host after' if named else 'user before'} the '@'; "
            "nothing was tried",
            hint="It is HOST or USER@HOST (TERMINAL_SSH_HOST, or 'hermes config set ssh.host VALUE').",
        )
    if user and user != named:
        raise ConfigError(
            f"ssh.host says the user {named[:60]!r}, and ssh.user says {user[:60]!r}; nothing was tried",
            hint="Say it in one of them only (TERMINAL_SSH_USER, or 'hermes config unset ssh.user').",
        )
    return rest, named


def _key_file(named: str) -> str:
    """Return the path of a key as ssh takes it, which reads more into a percent sign.

    :raises BackendError: it is no file
    """
    path = os.path.expanduser(named)
    # A key on a token or in an agent is named by its public half.
    if not os.path.isfile(path) and not os.path.isfile(f"{path}.pub"):
        raise BackendError(f"ssh.key is {path}, which is no file; nothing was tried")
    return path.replace("%", "%%")


def _config(settings: SshHost) -> Path:
    """Return the configuration file for ssh: the user's and the system's own, and what holds where they say
    nothing.

    :raises BackendError: the user's may be written to by others
    """
    own = Path(os.path.expanduser(settings.config_file)) if settings.config_file else _users_own()
    if settings.config_file and not own.is_file():
        raise BackendError(f"ssh.config_file is {own}, which is no file; nothing was tried")
    text = f"""# Made by hermes. What is said first counts.
Include {_quoted(own)}
Match all
Include /etc/ssh/ssh_config
Match all
    StrictHostKeyChecking accept-new
    BatchMode yes
"""
    folder = home() / "cache"
    path = folder / f"ssh-{hashlib.sha256(text.encode()).hexdigest()[:16]}.conf"
    try:
        if path.read_text() == text:
            return path
    except OSError:
        pass
    make_private(folder)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with open(draft, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
    draft.replace(path)
    return path


def _users_own() -> Path:
    path = Path(os.path.expanduser("~/.ssh/config"))
    try:
        facts = path.stat()
    except OSError:
        return path
    # ssh itself would refuse it; read through another file it would not.
    if facts.st_uid not in (0, os.geteuid()) or stat.S_IMODE(facts.st_mode) & 0o022:
        raise BackendError(
            f"{path} can be changed by others, so ssh must not follow it; nothing was tried",
            hint=f"chmod 600 {path}",
        )
    return path


def _quoted(path: Path) -> str:
    # Include takes patterns.
    text = "".join(f"\\{c}" if c in "*?[]\\" else c for c in str(path))
    return f'"{text}"'
