"""Keeping the cloud's metadata addresses out of a container's reach."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from hermes.errors import BackendError

from .._command import Done, run_client
from .._metadata import no_metadata_script, own_metadata_script
from ._engine import Engine

__all__ = ["block_metadata"]


async def block_metadata(engine: Engine, ident: str, image: str, *, plain: bool = True) -> None:
    """Make the metadata addresses unreachable in the network of a running container.

    Nothing inside may change routes, so it takes another process in the container's network for a moment: of
    this machine, where we are root on the engine's own, else of a container that may do that alone. A
    runtime that is not ``plain`` may have routes of its own: there it is one inside, which also looks at what
    came of it.

    :raises BackendError: it cannot be done; the container must not be used
    """
    if not plain:
        inside = ("exec", "--privileged", "--user", "0:0", ident, "python3", "-I", "-S", "-c")
        done = await engine.call(*inside, own_metadata_script())
        if done.code != 0:
            raise _cannot(done)
        return
    script = no_metadata_script()
    pid = await _pid_here(engine, ident)
    if pid is not None:
        enter = ("nsenter", f"--net=/proc/{pid}/ns/net", sys.executable, "-I", "-S", "-c", script)
        done = await run_client(enter, timeout=20.0)
    else:
        done = await engine.call(
            *("run", "--rm", "--pull", "never", "--network", f"container:{ident}", "--user", "0:0"),
            *("--cap-drop", "ALL", "--cap-add", "NET_ADMIN", "--security-opt", "no-new-privileges"),
            *("--read-only", "--entrypoint", "python3", image, "-I", "-S", "-c", script),
        )
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
