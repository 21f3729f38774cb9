"""What a container is made with: the arguments of ``docker run``, and the program that keeps it running."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hermes.config import Docker

from ._engine import Facts
from ._options import HOME, WORKSPACE, Mount

__all__ = [
    "BOOT",
    "CREDENTIALS",
    "HOME",
    "INIT",
    "RUN",
    "SCRATCH",
    "WORKSPACE",
    "run_arguments",
]

SCRATCH = "/scratch"
RUN = "/run/hermes"
CREDENTIALS = "/run/hermes-credentials"
BOOT = f"{RUN}/boot.py"

PIDS = 1024
CHECK_EVERY = 10

# It starts the guest where hermes left one to start, reaps what is orphaned, and leaves when nothing but
# itself has run for so many seconds: that ends the container, also when no hermes is left to do it.
INIT = """
trap 'exit 0' TERM INT
[ -r {boot} ] && {{ python3 -I -S {boot} </dev/null >/dev/null 2>&1 || : >{run}/no-guest; }} &
quiet=0
while :; do
  sleep {every} & wait $!
  set -- /proc/[0-9]*
  if [ $# -gt 1 ]; then quiet=0; else quiet=$((quiet + {every})); fi
  [ {idle} -gt 0 ] && [ $quiet -ge {idle} ] && exit 0
done
"""


def init_script(idle: float) -> str:
    """Return the text of the first process.

    :param idle: seconds with nothing running after which it leaves, 0 for never
    """
    every = max(1, min(CHECK_EVERY, int(idle) or CHECK_EVERY))
    return INIT.format(boot=BOOT, run=RUN, every=every, idle=int(idle)).strip()


def run_arguments(
    options: Docker,
    *,
    user: str,
    network: str,
    limits: dict[str, float],
    capabilities: Sequence[str],
    mounts: list[Mount],
    args: list[str],
    run_mount: Mount | None,
) -> list[str]:
    """Return the arguments of ``docker run`` that make the container what it is, without name and labels.

    :param network: empty for the engine's own default
    :param run_mount: where the guest's socket is seen by this machine; None keeps it in memory inside
    """
    tmpfs = "rw,nosuid,nodev,size={size},mode={mode}"
    result = ["--cap-drop", "ALL"]
    result += [part for name in capabilities for part in ("--cap-add", name)]
    result += ["--security-opt", "no-new-privileges"]
    if not options.writable_root:
        result.append("--read-only")
    # What they hold counts as memory and no killing frees it: together they must leave some.
    memory = int(limits.get("memory", 1 << 62))
    execute = "exec" if options.tmp_exec else "noexec"
    for path, room, mode, executes in (
        ("/tmp", min(options.tmp_size, memory // 8), "1777", execute),
        ("/var/tmp", min(options.tmp_size, memory // 8), "1777", execute),
        ("/run", min(64 << 20, memory // 16), "755", "noexec"),
        (SCRATCH, min(options.scratch_size, memory * 3 // 8), "1777", "exec"),
    ):
        result += ["--tmpfs", f"{path}:{executes},{tmpfs.format(size=room, mode=mode)}"]
    if run_mount is None:
        result += ["--tmpfs", f"{RUN}:noexec,{tmpfs.format(size=min(64 << 20, memory // 16), mode='1777')}"]
    else:
        result += ["--mount", run_mount.argument()]
    for mount in mounts:
        result += ["--mount", mount.argument()]
    if "pids" in limits:
        result += ["--pids-limit", str(int(limits["pids"]))]
    if "memory" in limits:
        size = str(int(limits["memory"]))
        result += ["--memory", size, "--memory-swap", size]
    if "cpus" in limits:
        result += ["--cpus", f"{limits['cpus']:g}"]
    result += ["--shm-size", str(min(options.shm_size, memory // 8))]
    result += ["--ipc", "private", "--cgroupns", "private", "--user", user, "--workdir", WORKSPACE]
    if network:
        result += ["--network", network]
    if options.runtime:
        result += ["--runtime", options.runtime]
    if options.gpus:
        result += ["--gpus", options.gpus]
    for variable, value in (("HOME", HOME), ("USER", "hermes"), ("LOGNAME", "hermes"), ("TMPDIR", SCRATCH)):
        result += ["--env", f"{variable}={value}"]
    return result + args


def default_limits(facts: Facts) -> dict[str, float]:
    """Return the limits of a container that says none: a runaway must not take the machine with it."""
    limits: dict[str, float] = {"pids": PIDS}
    limits["cpus"] = facts.cpus - 1 if facts.cpus > 2 else facts.cpus
    if facts.memory:
        limits["memory"] = facts.memory * 3 // 4
    return {name: value for name, value in limits.items() if name in facts.limits}


def internal_network(facts: Facts) -> Sequence[str]:
    """Return the arguments that leave this machine out of an internal network: its bridge has no address.

    With one, all that listens on every address here can be reached. Podman gives it none.
    """
    return () if facts.podman else ("--opt", "com.docker.network.bridge.inhibit_ipv4=true")


def no_ipv6(facts: Facts) -> Sequence[str]:
    """Return the arguments that close an internal network's other way to this machine. Blocks.

    Docker gives such a network no addresses of that kind.
    """
    there = facts.podman and facts.local and os.path.isdir("/proc/sys/net/ipv6")
    return ("--sysctl", "net.ipv6.conf.all.disable_ipv6=1") if there else ()


def never_began(text: str) -> bool:
    """Return whether an engine says that the first process of a container could not even be made."""
    return any(
        words in text
        for words in ("failed to create shim", "OCI runtime create failed", "runc create failed")
    )
