"""What marks a container as hermes's, and removing those that nobody needs any more."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes.config import home
from hermes.credentials import stage
from hermes.guest.dirs import default_dir
from hermes.state import SandboxRecord, Store

from .._leftovers import home_mark, known, surplus
from .._workspace import remove_trees
from ._engine import Engine, missing

if TYPE_CHECKING:
    from ..base import Spec

__all__ = ["labels", "prune"]


def labels(spec: Spec) -> list[str]:
    """Return the labels of everything that is made for a sandbox."""
    return [
        f"hermes.id={spec.id}",
        f"hermes.name={spec.name}",
        f"hermes.named={'yes' if spec.named else 'no'}",
        f"hermes.keep={'yes' if spec.keep else 'no'}",
        f"hermes.ttl={int(spec.lifetime.ttl)}",
        f"hermes.home={home_mark()}",
        f"hermes.owner={os.geteuid()}@{socket.gethostname()}",
    ]


async def prune(engine: Engine, store: Store) -> list[str]:
    """Remove containers, volumes, networks and directories that outlived their sandbox; say what went.

    :raises HermesError: code ``state_unreadable``; it cannot be told which sandboxes there are
    """
    ours = await asyncio.to_thread(home_mark)
    mark = f"label=hermes.home={ours}"
    containers = await _listed(engine, "ps", "--all", "--no-trunc", "--filter", mark, "--quiet")
    networks = await _listed(engine, "network", "ls", "--filter", mark, "--format", "{{.Name}}")
    volumes = await _listed(engine, "volume", "ls", "--quiet", "--filter", "name=hermes-")
    directories = await asyncio.to_thread(_directories)
    # Read last: what has no record then, had none when it was listed, and is not just being made. Those of
    # every backend count, since two of them may use this engine.
    records = await known(store)
    used = set(records)
    ended: set[str] = set()
    gone: list[str] = []
    for container in containers:
        inspected = await engine.inspect(container)
        if inspected is None:
            continue
        ident = (inspected["Config"].get("Labels") or {}).get("hermes.id", "")
        why = await asyncio.to_thread(_surplus, inspected, records)
        if why is None:
            used.add(ident)
            continue
        done = await engine.remove(container)
        if done.code == 0 or missing(done.err):
            gone.append(f"container {inspected['Name'].lstrip('/')} removed ({why})")
            ended.add(ident)
    for network in networks:
        # A stopped container does not hold its network, and cannot be started without it.
        if any(ident.startswith(network.rpartition("-")[2]) for ident in used):
            continue
        if (await engine.call("network", "rm", network)).code == 0:
            gone.append(f"network {network} removed")
    for volume in volumes:
        ident = volume.removeprefix("hermes-").partition("-")[0]
        if ident in used or await _owner(engine, volume) != ours:
            continue
        if (await engine.call("volume", "rm", volume)).code == 0:
            gone.append(f"volume {volume} removed")
    return gone + await asyncio.to_thread(_remove_directories, directories - used, ended - used)


async def _listed(engine: Engine, *args: str) -> list[str]:
    return (await engine.ask(*args)).split()


async def _owner(engine: Engine, volume: str) -> str | None:
    """Return the hermes home that a volume belongs to."""
    done = await engine.call("volume", "inspect", volume)
    if done.code != 0 or not done.out:
        return None
    mark = (json.loads(done.out)[0].get("Labels") or {}).get("hermes.home")
    return str(mark) if mark else None


def _surplus(seen: dict[str, Any], records: dict[str, SandboxRecord]) -> str | None:
    marks, state = seen["Config"].get("Labels") or {}, seen["State"]
    record = records.get(marks.get("hermes.id", ""))
    keep = marks.get("hermes.keep") == "yes"
    why = surplus(record, keep=keep)
    if why is not None or keep or state.get("Running"):
        return why
    age = time.time() - _seconds(state.get("FinishedAt") or seen.get("Created") or "")
    ttl = float(marks.get("hermes.ttl") or 0)
    return f"stopped for {age / 86400:.1f} days" if ttl and age > ttl else None


def _seconds(stamp: str) -> float:
    try:
        # Python before 3.11 aside, more than six digits of a second are not understood.
        whole, _, _ = stamp.partition(".")
        return datetime.fromisoformat(whole.rstrip("Z") + "+00:00").timestamp()
    except ValueError:
        return time.time()


def _directories() -> set[str]:
    """Return the sandboxes that have a directory."""
    return {path.name.removeprefix("docker-") for path in (home() / "sandboxes").glob("docker-*")}


def _remove_directories(stale: set[str], ended: set[str]) -> list[str]:
    paths = [home() / "sandboxes" / f"docker-{ident}" for ident in stale]
    paths += [Path(default_dir(f"docker-{ident}")) for ident in stale | ended]
    paths += [Path(stage.folder("docker", ident)) for ident in stale | ended]
    paths = [path for path in paths if path.is_dir()]
    left = remove_trees(paths)
    return [f"directory {path} removed" for path in paths if str(path) not in left]
