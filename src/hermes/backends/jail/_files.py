"""The directories of one jail on this machine, and the processes that hold it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from hermes.config import home, make_private
from hermes.credentials import stage
from hermes.errors import BackendError, HermesError, SandboxGone
from hermes.guest.dirs import SOCKET, default_dir, private_dir

from .._connect import connect_guest
from .._workspace import make_own, remove_trees
from ..base import Spec
from ._limits import Groups

__all__ = ["CREDENTIALS", "HOME", "MARK", "RUN", "WORKSPACE", "Files", "Layout", "held", "started_at"]

WORKSPACE = "/workspace"
HOME = "/home/hermes"
RUN = "/run/hermes"
CREDENTIALS = "/run/hermes-credentials"
PREFIX = "jail-"
MARK = "hermes.json"
NAMESERVER = "10.0.2.3"
END_SECONDS = 5.0
MARKED = "marked"
JAIL = "HERMES_JAIL"
"""The variable that marks the processes of a jail without namespaces."""


class Layout(NamedTuple):
    """Where a command finds what it has."""

    workspace: str = WORKSPACE
    home: str = HOME
    tmp: str = "/tmp"
    run: str = RUN
    credentials: str = CREDENTIALS


class Files:
    """What a jail has here. ``base``: its directory, of which only parts are seen inside."""

    def __init__(self, ident: str, host_run: str | None = None) -> None:
        self.ident = ident
        self.base = home() / "sandboxes" / f"{PREFIX}{ident}"
        self.host_run = host_run or default_dir(f"{PREFIX}{ident}")
        self.credentials = stage.folder("jail", ident)
        self.skills = home() / "skills"
        self.groups = Groups(ident)

    def make(self, spec: Spec, limits: Mapping[str, float]) -> None:
        """Make the directories; those that are there, of the same sandbox, are used. Blocks."""
        uid, gid = os.geteuid(), os.getegid()
        make_private(self.base.parent)
        make_private(self.base)
        mark = {"id": spec.id, "named": spec.named, "keep": spec.keep}
        (self.base / MARK).write_text(json.dumps(mark), "utf-8")
        remove_trees([self.base / "tmp"])
        for name in ("workspace", "home", "tmp", "etc", "processes"):
            make_own(self.base / name, uid, gid)
        (self.base / "tmp").chmod(0o1777)
        private_dir(os.path.dirname(self.host_run))
        private_dir(self.host_run)
        stage.make(self.credentials, uid, gid)
        self.groups.make(limits)

    def as_here(self) -> Layout:
        """Return where it all is for a process that sees the files of this machine."""
        workspace, own, tmp = (str(self.base / name) for name in ("workspace", "home", "tmp"))
        return Layout(workspace, own, tmp, self.host_run, self.credentials)

    def own_etc(self, network: str) -> dict[str, str]:
        """Write the files of ``/etc`` that are the jail's own, and return where they are. Blocks."""
        uid, gid = os.geteuid(), os.getegid()
        user = "root" if uid == 0 else "hermes"
        group = "root" if gid == 0 else "hermes"
        nobody = "nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
        texts = {
            "passwd": f"{user}:x:{uid}:{gid}:{user}:{HOME}:/bin/bash\n{nobody}",
            "group": f"{group}:x:{gid}:\nnogroup:x:65534:\n",
            "hosts": "127.0.0.1 localhost hermes\n::1 localhost\n",
            "hostname": "hermes\n",
        }
        if network != "host":
            texts["resolv.conf"] = f"nameserver {NAMESERVER}\n" if network == "on" else ""
        found = {}
        for name, text in texts.items():
            path = self.base / "etc" / name
            path.write_text(text, "utf-8")
            # What is not on this machine cannot be mounted over.
            if os.path.lexists(f"/etc/{name}"):
                found[name] = str(path)
        return found

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Tell files that were removed meanwhile from other failures. Blocks, for a moment.

        :raises SandboxGone: they were
        :raises BackendError: something else of this machine failed
        """
        try:
            yield
        except OSError as error:
            if not self.base.is_dir():
                raise SandboxGone("there is no jail", reason="its files were removed") from error
            raise BackendError(f"the jail cannot be used: {error}; no command was run") from error

    def note(self, pid: int, text: str) -> None:
        """Remember the first process of a jail, as it is known here, and something about it. Blocks."""
        (self.base / "processes" / f"{pid}-{started_at(pid)}").write_text(text, "utf-8")

    def mark(self) -> None:
        """Remember that its processes have to be looked for, as there are no namespaces. Blocks."""
        (self.base / "processes" / MARKED).touch()

    def end(self) -> list[str]:
        """End every process in it, and return what does not end. Blocks."""
        left = []
        for path in (self.base / "processes").glob("*-*"):
            number, _, started = path.name.partition("-")
            if _ended(int(number), started):
                path.unlink(missing_ok=True)
            else:
                left.append(f"process {number}")
        deadline = time.monotonic() + END_SECONDS
        while (self.base / "processes" / MARKED).exists() and (marked := _marked(self.ident)):
            if time.monotonic() > deadline:
                return [*left, *(f"process {pid}" for pid in marked)]
            for pid in marked:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)
        return left

    def rouse(self, guest: int) -> None:
        """Let everything in it go on when its guest was stopped, which a command can do and nobody inside
        undo. Blocks, for a moment.
        """
        if _state(guest) != "T":
            return
        marked = (self.base / "processes" / MARKED).exists()
        for pid in _marked(self.ident) if marked else _beside(guest):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def guest_answers(self) -> bool:
        """Return whether a guest accepts connections. Blocks."""
        try:
            connect_guest(os.path.join(self.host_run, "guest"), SOCKET, os.geteuid()).close()
        except HermesError:
            return False
        return True

    def remove(self, *, keep_files: bool = False) -> list[str]:
        """Remove everything, or all but workspace and home, and return what is left. Blocks."""
        rest = ("tmp", "etc", "processes")
        own = [self.base / name for name in rest] if keep_files else [self.base]
        return [*self.groups.remove(), *remove_trees([self.host_run, self.credentials, *own])]


def _marked(ident: str) -> list[int]:
    """Return the processes of a jail without namespaces, which are told by their environment."""
    mark, found = f"{JAIL}={ident}".encode(), []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            # A process that has ended, and waits to be asked for, has none any more.
            if mark in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                found.append(int(entry))
    return found


def _beside(pid: int) -> list[int]:
    """Return the processes in the namespace of one, which is not ours."""
    found = []
    with contextlib.suppress(OSError):
        space = os.readlink(f"/proc/{pid}/ns/pid")
        if space == os.readlink("/proc/self/ns/pid"):
            return []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{entry}/ns/pid") == space:
                    found.append(int(entry))
    return found


def _stat(pid: int) -> list[str]:
    """Return what the kernel says of a process, from its state on; nothing when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return []
    return stat.rpartition(") ")[2].split()


def _state(pid: int) -> str:
    return next(iter(_stat(pid)), "")


def started_at(pid: int) -> str:
    """Return when a process was started, in the kernel's own measure; empty when there is none."""
    fields = _stat(pid)
    return "" if not fields or fields[0] in "ZX" else fields[19]


def _ended(pid: int, started: str) -> bool:
    """End the first process of a jail, with which all others in it end, and say whether it is gone."""
    deadline = time.monotonic() + END_SECONDS
    while started and started_at(pid) == started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def held(data: bytes, stack: contextlib.ExitStack) -> int:
    """Return a descriptor from which a child reads this."""
    fd = os.memfd_create("hermes")
    stack.callback(os.close, fd)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
