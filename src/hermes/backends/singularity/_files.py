"""The directories of one sandbox on this machine, and the arguments that show them inside."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hermes.channel.boot import as_file
from hermes.config import home, make_private
from hermes.credentials import stage
from hermes.errors import HermesError
from hermes.guest.dirs import SOCKET, default_dir, private_dir

from .._connect import connect_guest
from .._seccomp import REFUSED
from .._workspace import make_own, remove_trees
from ..base import Spec
from ._options import CAPABILITIES, CREDENTIALS, HOME, RUN, SCRATCH, WORKSPACE, Bind
from ._plan import Plan
from ._start import start_script

__all__ = ["Files", "home_mark", "privileges", "run_dir", "write"]

PREFIX = "hermes-"
MARK = "hermes.json"
SECCOMP = "seccomp.json"
OWN = {"workspace": WORKSPACE, "home": HOME, "scratch": SCRATCH}

# Root inside is root, and what guards these is the number of the user alone: it sees what programs ask for,
# and can change nothing.
_READ_ONLY = (
    *("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/sysrq-trigger"),
    *("/sys/devices", "/sys/class", "/sys/bus", "/sys/block", "/sys/dev", "/sys/module", "/sys/hypervisor"),
)
_MEMORY_GROUPS = ("/sys/fs/cgroup/memory", "/sys/fs/cgroup")
_HIDDEN = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/latency_stats")


class Files:
    """What a sandbox has here: ``base``, its directory, and ``host_run``, for the guest's socket."""

    def __init__(self, ident: str, base: Path, host_run: str) -> None:
        self.ident = ident
        self.base = base
        self.host_run = host_run
        self.credentials = f"{host_run}-credentials"

    @classmethod
    def new(cls, ident: str, work: Path) -> Files:
        """Return those that a new sandbox has; nothing is made."""
        return cls(ident, work / f"{PREFIX}{ident}", run_dir(ident))

    @property
    def pid_file(self) -> Path:
        """Where the client writes the pid of the instance."""
        return self.base / "pid"

    @property
    def boot(self) -> dict[str, Any]:
        """What the guest is started with."""
        return {
            "id": self.ident,
            "run_dir": f"{RUN}/guest",
            "state_dir": f"{HOME}/.local/state/hermes",
            "cwd": WORKSPACE,
            "relay": False,
            "limited": True,
        }

    def make(self, spec: Spec, plan: Plan) -> None:
        """Make the directories; those that are there, of the same sandbox, are used. Blocks."""
        uid, gid = os.geteuid(), os.getegid()
        make_private(self.base.parent)
        self.base.mkdir(0o700, exist_ok=True)
        mark = {
            "id": spec.id,
            "name": spec.name,
            "named": spec.named,
            "keep": spec.keep,
            "ttl": spec.lifetime.ttl,
            "home": home_mark(),
            "uid": uid,
        }
        write(self.base / MARK, json.dumps(mark))
        for name in (*OWN, "tmp", *(("overlay",) if spec.persistent else ())):
            if name != "workspace" or plan.here is None:
                make_own(self.base / name, uid, gid)
        idle = 0.0 if spec.keep else max(1.0, spec.lifetime.idle_stop - spec.lifetime.idle_guest)
        write(self.base / "start", start_script(idle, asked=plan.options.slurm.wanted), 0o700)
        self.pid_file.unlink(missing_ok=True)
        if plan.options.slurm.wanted:
            write(self.base / "boot.py", as_file(self.boot))  # for the node of the job
            return
        private_dir(os.path.dirname(self.host_run))
        private_dir(self.host_run)
        stage.make(self.credentials, uid, gid)
        write(Path(self.host_run, "boot.py"), as_file(self.boot))
        for name in ("no-guest", "ended"):
            Path(self.host_run, name).unlink(missing_ok=True)

    def arguments(self, plan: Plan) -> list[str]:
        """Return the arguments of ``instance start`` that make the container what it is. Blocks, a little."""
        result = ["--containall", "--no-home", "--no-mount", _no_mount(), *privileges()]
        result += ["--pid-file", str(self.pid_file), "--workdir", str(self.base / "tmp")]
        result += ["--overlay", str(self.base / "overlay")] if plan.persistent else ["--writable-tmpfs"]
        if plan.options.fakeroot:
            result.append("--fakeroot")
        if plan.options.seccomp and not any("seccomp:" in arg for arg in plan.args):
            write(self.base / SECCOMP, json.dumps(_seccomp()))
            result += ["--security", f"seccomp:{self.base / SECCOMP}"]
        result += [flag for flag in ("--nv", "--rocm") if getattr(plan.options, flag[2:])]
        result += ["--net", "--network", "none"] if plan.network == "off" else []
        limits = {} if plan.options.slurm.wanted else plan.limits  # a job has those of SLURM
        for name, flag in (("cpus", "--cpus"), ("memory", "--memory"), ("pids", "--pids-limit")):
            if name in limits:
                result += [flag, f"{limits[name]:g}" if name == "cpus" else str(int(limits[name]))]
        if "memory" in limits:
            result += ["--memory-swap", str(int(limits["memory"]))]
        for bind in self.binds(plan):
            result += bind.arguments()
        return result + plan.args

    def binds(self, plan: Plan) -> list[Bind]:
        """Return everything of this machine that is seen inside, in the order in which it is mounted."""
        found = [
            # Of the machine's own files only those without which names and times go wrong.
            *(Bind(path, path, True) for path in ("/etc/hosts", "/etc/localtime") if os.path.exists(path)),
            Bind(str(self.base / "start"), "/.singularity.d/startscript", True),
            Bind(self.host_run, RUN),
            *((Bind(self.credentials, CREDENTIALS, True),) if os.path.isdir(self.credentials) else ()),
            *(
                Bind(plan.here if plan.here and name == "workspace" else str(self.base / name), target)
                for name, target in OWN.items()
            ),
        ]
        if os.geteuid() == 0:
            found += [Bind(path, path, True) for path in _with_mounts(_READ_ONLY)]
            found += [Bind("/dev/null", path, True) for path in _HIDDEN if os.path.exists(path)]
            if "memory" in plan.limits:
                # The guest reads there that the system has killed something for want of memory.
                groups = next(filter(os.path.isdir, _MEMORY_GROUPS), None)
                found += [Bind(groups, groups, True)] if groups else []
        return found + plan.binds

    def wait_for_guest(self, limit: float) -> None:
        """Wait until the guest accepts connections, or has said that it cannot. Blocks."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline and not self.guest_answers():
            if os.path.lexists(os.path.join(self.host_run, "no-guest")):
                return
            time.sleep(0.002)

    def guest_answers(self) -> bool:
        """Return whether a guest accepts connections. Blocks."""
        try:
            connect_guest(os.path.join(self.host_run, "guest"), SOCKET, os.geteuid()).close()
        except HermesError:
            return False
        return True

    def read_pid(self) -> int | None:
        """Return the pid that the client wrote, None when there is none. Blocks."""
        with contextlib.suppress(OSError, ValueError):
            return int(self.pid_file.read_text("ascii"))
        return None

    def ended_by_itself(self) -> bool:
        """Return whether the instance said that it ends for want of work. Blocks."""
        return os.path.lexists(os.path.join(self.host_run, "ended"))

    def remove(self, keep_files: bool = False) -> list[str]:
        """Remove everything, or all but workspace and home, and return what is left. Blocks."""
        if not keep_files:
            return remove_trees([*self._in_memory(), self.base])
        others = [path for path in self.base.glob("*") if path.name not in ("workspace", "home", MARK)]
        for path in others:
            if not path.is_dir() or path.is_symlink():
                path.unlink(missing_ok=True)
        return remove_trees([*self._in_memory(), *(path for path in others if path.is_dir())])

    def _in_memory(self) -> list[str]:
        return [self.host_run, self.credentials] if self.host_run else []


def _seccomp() -> dict[str, Any]:
    """Return a filter of system calls that refuses what no command needs and a way out may be made of.

    The engines' own lists of what is allowed are too narrow for programs that are newer than they.
    """
    refused = {"names": list(REFUSED), "action": "SCMP_ACT_ERRNO"}
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [refused]}


def _with_mounts(paths: Iterable[str]) -> list[str]:
    """Return those that there are, each with the mounts below it, which would otherwise stay writable."""
    lines = Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    mounts = sorted({line.split(" ")[4] for line in lines})
    found = []
    for path in filter(os.path.exists, paths):
        found += [path, *(mount for mount in mounts if mount.startswith(path + "/"))]
    return found


def _no_mount() -> str:
    """Return what of the machine the client is not to show although the administrator's settings say so."""
    return "bind-paths,hostfs" + (",sys" if os.geteuid() == 0 else "")


def run_dir(ident: str) -> str:
    """Return where the guest's socket is on this machine: in memory. Blocks, for a moment."""
    # Not in XDG_RUNTIME_DIR, which a logout takes away from what goes on.
    if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK | os.X_OK):
        return f"/dev/shm/hermes-{os.geteuid()}/singularity-{ident}"
    return default_dir(f"singularity-{ident}")


def privileges() -> list[str]:
    """Return what takes root's rights away, at the start and for each process that joins later."""
    if os.geteuid() != 0:
        return []  # an ordinary user has none
    return ["--no-privs", "--add-caps", ",".join(CAPABILITIES)]


def home_mark() -> str:
    """Return what tells the sandboxes of one hermes home from those of another."""
    return os.path.realpath(home())


def write(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file that appears whole, and never through a link that is there already. Blocks."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with open(fd, "w", encoding="utf-8") as file:
        os.fchmod(fd, mode)
        file.write(text)
    os.replace(draft, path)
