"""Keeping the cloud's metadata addresses out of a container's reach."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from hermes.errors import BackendError

from .._command import Done, run_client
from ._container import no_metadata_script
from ._engine import Engine

__all__ = ["block_metadata"]


async def block_metadata(engine: Engine, ident: str) -> None:
    """Make the metadata addresses unreachable in the network of a running container.

    Nothing inside may change routes, so it takes a process with more rights, for a moment: as root on the
    engine's own machine one in the container's network, elsewhere a privileged one inside.

    :raises BackendError: it cannot be done; the container must not be used
    """
    script = no_metadata_script()
    pid = await _pid_here(engine, ident)
    if pid is not None:
        enter = ("nsenter", f"--net=/proc/{pid}/ns/net", sys.executable, "-I", "-S", "-c", script)
        done = await run_client(enter, timeout=20.0)
    else:
        inside = ("exec", "--privileged", "--user", "0:0", ident, "python3", "-I", "-S", "-c", script)
        done = await engine.call(*inside)
    if done.code != 0:
        raise _cannot(done)


async def _pid_here(engine: Engine, ident: str) -> int | None:
    """Return the container's first process, if we are root and see it by that number."""
    if os.geteuid() != 0 or not engine.facts.local or sys.platform != "linux":
        return None
    pid = (await engine.ask("inspect", "--format", "{{.State.Pid}}", ident)).strip()
    if not pid.isdigit() or pid == "0":
        return None
    try:
        group = await asyncio.to_thread(Path(f"/proc/{pid}/cgroup").read_text)
    except OSError:
        return None
    return int(pid) if ident[:12] in group else None


def _cannot(done: Done) -> BackendError:
    return BackendError(
        f"the cloud's metadata addresses could not be put out of the container's reach: {done.said}",
        hint="Where there is no metadata service, set docker.metadata to 'allowed'; or use network: off.",
    )
