"""The client program: which one, what it may know of our environment, and the instances that it knows."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import glob
import json
import os
import pwd
import select
import shutil
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.errors import BackendError

from .._command import Done, run_client

__all__ = ["Client", "client_for", "enforceable", "host"]

CALL_SECONDS = 60.0
END_SECONDS = 10.0
FIRST = frozenset({"appinit", "sinit"})
"""What the first process of an instance calls itself."""

# Everything else of our environment stays here. What begins with APPTAINERENV_ or names binds would change
# the sandbox.
_PASSED = frozenset(
    [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LC_ALL",
        "TMPDIR",
        "XDG_RUNTIME_DIR",
        "DBUS_SESSION_BUS_ADDRESS",
        "LD_LIBRARY_PATH",
        "DOCKER_HOST",
        "DOCKER_CONFIG",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "SLURM_CONF",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "ALL_PROXY",
    ]
)
_OWN = (
    "CACHEDIR",
    "CONFIGDIR",
    "TMPDIR",
    "DOCKER_USERNAME",
    "DOCKER_PASSWORD",
    "DOCKER_HOST",
    "LOCALCACHEDIR",
)
_GPU = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")


@dataclass(frozen=True)
class Client:
    """A client program, by its path."""

    path: str

    @property
    def name(self) -> str:
        """As users write it."""
        return os.path.basename(self.path)

    def environment(self, *, gpus: bool = False, fetches: bool = False) -> dict[str, str]:
        """Return the environment of the client itself, which is not that of what runs inside.

        :param fetches: it is to get an image. The client hands what names a proxy, and may have its password,
            on to what it runs, whatever it is told about the environment
        """
        own = {f"{kind}_{name}" for kind in ("APPTAINER", "SINGULARITY") for name in _OWN}
        found = {key: value for key, value in os.environ.items() if key in _PASSED or key in own}
        if not fetches:
            secret = ("_proxy", "docker_username", "docker_password")
            found = {key: value for key, value in found.items() if not key.lower().endswith(secret)}
        found.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin")
        found.setdefault("HOME", _home())
        if gpus:  # which of the devices is ours is told by a variable only
            for name in _GPU:
                if name in os.environ:
                    for kind in ("APPTAINERENV", "SINGULARITYENV"):
                        found[f"{kind}_{name}"] = os.environ[name]
        return found

    async def call(
        self,
        *args: str,
        timeout: float = CALL_SECONDS,
        on_line: Callable[[str], None] | None = None,
        env: Mapping[str, str] | None = None,
        quiet: bool = True,
    ) -> Done:
        """Run it and return how it ended.

        :raises BackendError: it cannot be started
        :raises Unreachable: it did not end in time
        """
        argv = [self.path, *(("-q",) if quiet else ()), *args]
        environment = {**self.environment(fetches=True), **(env or {})}
        return await run_client(argv, timeout=timeout, env=environment, on_line=on_line)

    async def pid(self, instance: str) -> int | None:
        """Return the pid of an instance's first process, None when there is no such instance.

        :raises BackendError: the client does not answer the question
        """
        return (await self.instances(instance)).get(instance)

    async def instances(self, pattern: str) -> dict[str, int]:
        """Return this user's instances on this machine by name, with their pids.

        :raises BackendError: the client does not answer the question
        """
        done = await self.call("instance", "list", "--json", pattern)
        try:
            listed = json.loads(done.out)["instances"]
            return {str(one["instance"]): int(one["pid"]) for one in listed or []}
        except (ValueError, KeyError, TypeError) as error:
            raise BackendError(
                f"'{self.name} instance list' failed: {done.said or 'it printed nothing'}",
                hint=f"Does '{self.name} instance list' work in a shell?",
            ) from error


async def client_for(program: str) -> Client:
    """Return the client that the setting means: ``auto``, a name or a path.

    :raises BackendError: code ``backend_unavailable``; there is none, or it cannot work here
    """
    client = await asyncio.to_thread(_found, program)
    if client.path not in _asked:
        done = await run_client([client.path, "--version"], timeout=20.0, env=client.environment())
        if done.code != 0:
            raise BackendError(f"{client.path} does not work: {done.said}", code="backend_unavailable")
        _asked.add(client.path)
    return client


_asked: set[str] = set()


def _found(program: str) -> Client:
    names = ("apptainer", "singularity") if program == "auto" else (program,)
    for name in names:
        path = shutil.which(name)
        if path is not None:
            _check_kernel(path)
            return Client(os.path.abspath(path))
    raise BackendError(
        f"there is no {' and no '.join(names)} on the PATH",
        code="backend_unavailable",
        hint="Install apptainer; on a cluster, load its module first, such as: module load apptainer",
    )


def _check_kernel(path: str) -> None:
    """See that an ordinary user can have a container: by a user namespace, or a helper with root's rights."""
    if os.geteuid() == 0 or glob.glob(f"{Path(path).resolve().parent.parent}/libexec/*/bin/starter-suid"):
        return
    for knob, bad in (
        ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        ("/proc/sys/user/max_user_namespaces", "0"),
    ):
        with contextlib.suppress(OSError):
            if Path(knob).read_text("ascii").strip() == bad:
                raise BackendError(
                    f"user namespaces are off here ({knob} is {bad}), and {path} has no setuid helper",
                    code="backend_unavailable",
                    hint="Ask the administrator for one of the two.",
                )


@functools.cache
def enforceable() -> frozenset[str]:
    """Return the limits that this user can set here. Reads a few files once."""
    if os.geteuid() == 0:
        return frozenset({"cpus", "memory", "pids"})
    # An ordinary user needs control groups of the second kind, delegated by systemd, and the way to it.
    bus = os.environ.get("DBUS_SESSION_BUS_ADDRESS") or os.environ.get("XDG_RUNTIME_DIR")
    uid = os.geteuid()
    delegated = f"/sys/fs/cgroup/user.slice/user-{uid}.slice/user@{uid}.service/cgroup.controllers"
    found: set[str] = set()
    if bus:
        with contextlib.suppress(OSError):
            found = set(Path(delegated).read_text("ascii").split())
    return frozenset(
        name for name, kind in (("cpus", "cpu"), ("memory", "memory"), ("pids", "pids")) if kind in found
    )


def host() -> tuple[str, str]:
    """Return this machine's name, and its boot."""
    boot = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return socket.gethostname(), boot


def runs(pid: int, instance: str) -> bool:
    """Return whether a process is the first one of this instance. Blocks, for a moment."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        starter = Path(f"/proc/{int(fields['PPid'])}/cmdline").read_bytes()
    except (OSError, KeyError, ValueError):
        return False
    return (
        fields["Name"] in FIRST
        and not fields["State"].startswith(("Z", "X"))
        and f"[{instance}]".encode() in starter
    )


def running(instance: str) -> int | None:
    """Return the pid of an instance's first process as this machine shows it. Blocks, for a moment."""
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return next((pid for pid in pids if runs(pid, instance)), None)


def end(pid: int, instance: str) -> bool:
    """End an instance by its first process, with all that runs in it; False when it is still there. Blocks.

    The client's own ``instance stop`` waits until the system has reaped what is long dead, for seconds.
    """
    try:
        held = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        # Looked at after it is held: the number cannot pass to another process any more.
        if not runs(pid, instance):
            return True
        status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
        starter = int(status.partition("PPid:\t")[2].split()[0])
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(held, signal.SIGKILL)
        if not select.select([held], [], [], END_SECONDS)[0]:
            return False
    except (OSError, ValueError, IndexError):
        return False
    finally:
        os.close(held)
    # Its parent unmounts and forgets the instance.
    deadline = time.monotonic() + END_SECONDS
    while _lives(starter, instance) and time.monotonic() < deadline:
        time.sleep(0.003)
    return True


def _lives(pid: int, instance: str) -> bool:
    try:
        return f"[{instance}]".encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def forget_logs(instance: str) -> None:
    """Remove the files in which the client keeps what an instance printed. Blocks."""
    for path in _client_files("logs", f"{instance}.*"):
        with contextlib.suppress(OSError):
            os.unlink(path)


def last_words(instance: str) -> str:
    """Return the end of what an instance printed on stderr as it started. Blocks."""
    for path in _client_files("logs", f"{instance}.err"):
        with contextlib.suppress(OSError):
            return " ".join(Path(path).read_text("utf-8", "replace").split())[-600:]
    return ""


def _client_files(kind: str, name: str) -> Sequence[str]:
    found: list[str] = []
    for variable, folder in (
        ("APPTAINER_CONFIGDIR", ".apptainer"),
        ("SINGULARITY_CONFIGDIR", ".singularity"),
    ):
        base = os.environ.get(variable) or os.path.join(_home(), folder)
        found += glob.glob(f"{glob.escape(base)}/instances/{kind}/*/*/{name}")
    return found


def _home() -> str:
    # The client goes by the account's home, whatever HOME says.
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_dir
    return os.environ.get("HOME") or "/"
