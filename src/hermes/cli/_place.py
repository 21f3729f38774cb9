"""Which place and which sandbox a command means, and saying so."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes import auto, backends
from hermes.config import Config, home, load
from hermes.errors import ConfigError

from ._report import say

if TYPE_CHECKING:
    from hermes.sandbox import Sandbox

LOCAL_MEANS = (
    "local isolates nothing: commands run as your user, in your files. It is for throw-away machines only."
)


class Chosen(msgspec.Struct, frozen=True):
    """A place, and the sandbox in it that is meant. ``name`` is None for one that is made and destroyed.

    ``why_auto``: why ``auto`` stands for this place, when that was settled just now.
    """

    config: Config
    backend: str
    name: str | None
    workspace: str | None = None
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    default_name: bool = False
    why_auto: str = ""

    def sandbox(self, **more: Any) -> Sandbox:
        """Return the sandbox, not opened yet."""
        from hermes.sandbox import Sandbox

        return Sandbox(
            self.backend,
            name=self.name,
            workspace=self.workspace,
            config=self.config,
            **{**self.options, **more},
        )


def choose(
    place: str | None,
    *,
    name: str | None = None,
    unnamed: bool = False,
    workspace: str | None = None,
    here: bool = False,
    image: str | None = None,
    network: str | None = None,
    gpu: str | None = None,
    recreate: bool = False,
    settings: list[str] | None = None,
    budget: str | None = None,
    session: str | None = None,
    alone: bool = False,
) -> Chosen:
    """Settle place and sandbox from the options, the configuration and the current directory.

    :param place: ``BACKEND[:HOST]``, None for the configured one
    :param session: the session that a command is for
    :param alone: it is for a command that ends with us, which may have a sandbox for itself
    :raises ConfigError: options that contradict each other, or a directory that no longer exists
    """
    if unnamed and name is not None:
        raise ConfigError("--rm and --name exclude each other", hint="A sandbox with a name is kept.")
    if here and workspace not in (None, "here"):
        raise ConfigError(f"--here and --workspace {workspace} exclude each other")
    given: dict[str, Any] = {"network": network} if network else {}
    if settings:
        from ._options import overrides

        given = {**overrides(settings), **given}
    config = load(given)
    backend, host = backends.split(place or config.sandbox or "auto")
    why = ""
    if backend == "auto":
        from hermes.state import Store

        backend = Store().pinned() or ""
        if not backend:
            backend, why = asyncio.run(auto.resolve(config))
    if workspace is not None and not workspace.strip():
        raise ConfigError(
            "--workspace is empty; nothing was started",
            hint="Say a directory, 'here', or 'private' for one of the sandbox's own.",
        )
    if image is not None and not image.strip():
        raise ConfigError("--image is empty; nothing was started", hint="Leave it out for the default.")
    wanted = "here" if here else workspace or config.workspace
    if wanted not in (None, "here", "private"):
        wanted = os.path.abspath(os.path.expanduser(wanted))
    if wanted in (None, "here") and backend == "local":
        # By its path, so that the sandbox keeps its directory when it is used from another one.
        wanted = _directory()
    default = name is None and not unnamed
    if default and alone and backend == "modal" and config.modal.reuse == "command":
        if session is not None:
            raise ConfigError(
                "--session needs a sandbox that stays, and modal.reuse is 'command'; nothing was run",
                hint="Say --name, or --set modal.reuse=session.",
            )
        default = False
    if default:
        name = default_name(wanted, host)
        if session is not None and backend == "modal" and config.modal.reuse == "session":
            name += f".{session}"
    return Chosen(
        config=config,
        backend=backend,
        name=name,
        workspace=wanted,
        options={
            **({"host": host} if host else {}),
            **({"image": image} if image else {}),
            **(_gpu(backend, gpu) if gpu else {}),
            **({"recreate": True} if recreate else {}),
            **({"budget": budget} if budget else {}),
        },
        default_name=default,
        why_auto=why,
    )


def _gpu(backend: str, wanted: str) -> dict[str, Any]:
    """Return the option of a place that gives a sandbox this GPU."""
    if backend == "modal":
        return {"gpu": wanted}
    if backend in ("docker", "podman") and (wanted == "all" or wanted.isdecimal() or "=" in wanted):
        return {"gpus": wanted}
    if backend == "singularity" and wanted == "all":
        return {"nv": True}
    if backend in ("docker", "podman", "singularity"):
        job = " A job of SLURM: --set singularity.slurm.gpus=1"
        raise ConfigError(
            f"{backend} gives a sandbox GPUs of this machine, and cannot choose '{wanted}'; nothing was run",
            hint="Say --gpu all" + ("." + job if backend == "singularity" else ", a number, or device=0."),
        )
    raise ConfigError(
        f"{backend} gives a sandbox no GPU of its own; nothing was run",
        hint="Modal has them by their kind; docker, podman and singularity those of this machine: --gpu all.",
    )


def default_name(workspace: str | None, host: str = "") -> str:
    """Return the name of the sandbox of a directory: its last part, and eight hex digits of its path.

    On another host than the configured one, which has a sandbox of that name too, the host's name follows.
    """
    path = _directory() if workspace in (None, "here", "private") else str(workspace)
    path = os.path.realpath(path)
    folder = re.sub(r"[^A-Za-z0-9_.-]+", "-", os.path.basename(path)).strip("-._")[:32]
    host = re.sub(r"[^A-Za-z0-9_.-]+", "-", host)[:20]
    return f"{folder or 'root'}-{zlib.crc32(os.fsencode(path)):08x}" + (f".{host}" if host else "")


def _directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise ConfigError(
            "the current directory no longer exists; nothing was run", hint="Change to another one."
        ) from None


def _approvals_off(box: Sandbox) -> bool:
    """Return whether nothing is asked in a sandbox although the place is none."""
    if box._gate is not None:
        return box._gate.scope == "all" and box._gate.mode == "off"
    return box.backend == "local" and (box._mode or box._config.approvals.mode) == "off"


def announce(chosen: Chosen, box: Sandbox, *, quiet: bool) -> None:
    """Say on stderr where commands run: in full the first time, in one line when somebody reads it."""
    if chosen.why_auto:
        from hermes.state import Store

        Store().pin(chosen.backend, chosen.why_auto)
    if quiet:
        return
    if chosen.backend == "local" and _first_use():
        say(LOCAL_MEANS + " (This is said once.)")
    off = ", approvals are OFF" if _approvals_off(box) else ""
    if chosen.config.foreign and _first_use("told-foreign"):
        _tell_foreign(chosen.config.foreign)
    if chosen.config.untrusted:
        keys = ", ".join(chosen.config.untrusted)
        say(f"{keys} of this project's .hermes.yaml do not count: 'hermes config trust' shows and allows it.")
    if chosen.why_auto:
        say(f"no place was chosen, so auto stands for {chosen.backend} from now on: {chosen.why_auto}{off}.")
    elif sys.stderr.isatty():
        say(f"{chosen.backend} ({_isolation(chosen.backend, box)}{off})")


def _isolation(backend: str, box: Sandbox) -> str:
    if backend == "local":
        return "no isolation: your user, your files"
    kind = box.describe()["isolation"]
    return {"none": "no isolation", "remote": "another machine"}.get(kind, str(kind))


def _tell_foreign(keys: tuple[str, ...]) -> None:
    """Say once which settings are those of another program."""
    others = [key for key in keys if "." not in key]
    if others:
        some = ", ".join(others[:6]) + (" and others" if len(others) > 6 else "")
        say(f"config.yaml: {some} are hermes-agent's and do nothing here; 'hermes config migrate' shows what")
        say("can be taken over. (This is said once.)")
    inside = [key for key in keys if "." in key and key != "approvals.mode"]
    if inside:
        say(f"config.yaml: {', '.join(inside)} are hermes-agent's and do nothing here. (This is said once.)")
    if "approvals.mode" in keys:
        say("config.yaml: approvals.mode has a word of hermes-agent's, which counts as 'ask' here: a person")
        say("is asked, never a model. (This is said once.)")


def _first_use(what: str = "told-local") -> bool:
    """Return True once for each home: something, such as what local means, has not been said there yet."""
    path: Path = home() / "state" / what
    with contextlib.suppress(OSError):
        if path.exists():
            return False
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return True
