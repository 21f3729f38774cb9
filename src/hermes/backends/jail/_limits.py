"""What a jail may use at the most: by control groups where we may make them, else by limits of processes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes.errors import BackendError

from .._memory import killed_in

__all__ = ["PIDS", "Groups", "enforceable", "inside"]

PIDS = 4096
"""Processes of a jail that says nothing: a runaway must not take the machine with it."""

TOP = Path("/sys/fs/cgroup")
_KINDS = {"cpus": "cpu", "memory": "memory", "pids": "pids"}
_PERIOD = 100_000
_REMOVE_SECONDS = 2.0


def enforceable(*, counted: bool) -> frozenset[str]:
    """Return the limits that can be set here. Blocks, for a moment.

    :param counted: whether the kernel counts its processes apart from others of this user
    """
    found = {name for name, kind in _KINDS.items() if _top_of(kind) is not None}
    # Of an ordinary user the kernel counts the processes in each user namespace; of root it does not.
    return frozenset(found | {"pids"} if counted and os.geteuid() != 0 else found)


def _top_of(kind: str) -> Path | None:
    """Return where groups of a kind are made, None where they cannot be."""
    if (TOP / "cgroup.controllers").exists():
        with contextlib.suppress(OSError):
            if (
                kind in (TOP / "cgroup.controllers").read_text("ascii").split()
                and os.access(TOP, os.W_OK)
                and _hands_on(kind)
            ):
                return TOP
        return None
    return TOP / kind if os.access(TOP / kind, os.W_OK) else None


def _hands_on(kind: str) -> bool:
    """Return whether groups below the top of version 2 can have a controller.

    In a container the top is a group itself, and one with processes hands on nothing more than it does.
    """
    if kind in (TOP / "cgroup.subtree_control").read_text("ascii").split():
        return True
    return not (TOP / "cgroup.type").exists() or not (TOP / "cgroup.procs").read_text("ascii").strip()


class Groups:
    """The control groups of one jail. Making and removing them blocks, for a moment."""

    def __init__(self, ident: str) -> None:
        self._name = f"hermes-jail-{ident}"

    def _own(self, kind: str) -> Path | None:
        top = _top_of(kind)
        return None if top is None else top / self._name

    def make(self, limits: Mapping[str, float]) -> None:
        """Make those that the limits need, and set them.

        :raises BackendError: one cannot be set
        """
        try:
            for name, kind in _KINDS.items():
                own = self._own(kind)
                if name not in limits or own is None:
                    continue
                unified = own.parent == TOP
                if unified:
                    (TOP / "cgroup.subtree_control").write_text(f"+{kind}", "ascii")
                own.mkdir(0o755, exist_ok=True)
                for file, value in _values(name, limits[name], unified=unified):
                    if (own / file).exists():
                        (own / file).write_text(value, "ascii")
        except OSError as error:
            self.remove()
            raise BackendError(
                f"the limit '{name}' cannot be set by a control group: {error.strerror}; nothing was started",
                hint="Leave the limit out, or use docker.",
            ) from error

    def enter(self) -> list[str]:
        """Return the beginning of a command line whose program, and all it starts, is in the groups."""
        groups = {one for one in map(self._own, _KINDS.values()) if one and one.is_dir()}
        if not groups:
            return []
        # For a process the kernel waits until no other one forks, some 10 ms; for a thread that moves itself
        # it does not, and the shell has one. Version 2 moves threads within a process's group only.
        files = sorted(str(one / ("cgroup.procs" if one.parent == TOP else "tasks")) for one in groups)
        script = "".join(f"echo 0 >{file} && " for file in files) + 'exec "$@"'
        return ["/bin/sh", "-c", script, "sh"]

    def shown(self) -> list[str]:
        """Return the arguments of bubblewrap that show what tells of processes killed for want of memory."""
        own = self._own("memory")
        if own is None or not own.is_dir():
            return []
        return ["--ro-bind", str(own), str(own.parent)]

    def short_of_memory(self) -> bool:
        """Return whether the system has killed something in them for want of memory. Blocks, for a moment."""
        own = self._own("memory")
        return own is not None and killed_in(f"/{self._name}", unified=own.parent == TOP)

    def remove(self) -> list[str]:
        """Remove them, once no process is in them, and return those that are left."""
        left = []
        for own in {own for own in map(self._own, _KINDS.values()) if own is not None}:
            deadline = time.monotonic() + _REMOVE_SECONDS
            while own.is_dir():
                try:
                    own.rmdir()
                except OSError:
                    if time.monotonic() > deadline:
                        left.append(str(own))
                        break
                    time.sleep(0.005)
        return left


def inside(limits: Mapping[str, float]) -> Sequence[str]:
    """Return the beginning of a command line in the jail that holds what no control group does."""
    if "pids" not in limits or os.geteuid() == 0:
        return ()
    count = int(limits["pids"])
    return ("/usr/bin/prlimit", f"--nproc={count}:{count}", "--")


def _values(name: str, value: float, *, unified: bool) -> list[tuple[str, str]]:
    whole = str(int(value))
    if name == "memory":
        if unified:
            return [("memory.max", whole), ("memory.swap.max", "0")]
        return [("memory.limit_in_bytes", whole), ("memory.memsw.limit_in_bytes", whole)]
    if name == "pids":
        return [("pids.max", whole)]
    quota = str(int(value * _PERIOD))
    if unified:
        return [("cpu.max", f"{quota} {_PERIOD}")]
    return [("cpu.cfs_period_us", str(_PERIOD)), ("cpu.cfs_quota_us", quota)]
