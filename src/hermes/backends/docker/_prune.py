"""What marks a container as hermes's, and removing those that nobody needs any more."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hermes.config import home
from hermes.state import SandboxRecord, Store, owner_state

from .._workspace import remove_trees
from ._engine import Engine, missing

if TYPE_CHECKING:
    from ..base import Spec

__all__ = ["labels", "prune"]


def _home_mark() -> str:
    """Return what tells the sandboxes of one hermes home from those of another on the same engine."""
    return hashlib.sha256(f"{os.geteuid()}:{os.path.realpath(home())}".encode()).hexdigest()[:16]


def labels(spec: Spec) -> list[str]:
    """Return the labels of everything that is made for a sandbox."""
    return [
        f"hermes.id={spec.id}",
        f"hermes.name={spec.name}",
        f"hermes.named={'yes' if spec.named else 'no'}",
        f"hermes.keep={'yes' if spec.keep else 'no'}",
        f"hermes.ttl={int(spec.lifetime.ttl)}",
        f"hermes.home={_home_mark()}",
    ]


async def prune(engine: Engine, backend: str, store: Store) -> list[str]:
    """Remove containers, volumes, networks and directories that outlived their sandbox; say what went."""
    records = {one.id: one for one in await asyncio.to_thread(store.all) if one.backend == backend}
    mark = f"label=hermes.home={_home_mark()}"
    gone: list[str] = []
    for found in await _listed(engine, "ps", "--all", "--no-trunc", "--filter", mark):
        inspected = await engine.inspect(found)
        if inspected is None:
            continue
        why = _surplus(inspected, records)
        if why is not None:
            done = await engine.call("rm", "--force", "--volumes", found)
            if done.code == 0 or missing(done.err):
                gone.append(f"container {inspected['Name'].lstrip('/')} removed ({why})")
    for network in await _listed(engine, "network", "ls", "--no-trunc", "--filter", mark):
        # One that is in use cannot be removed.
        if (await engine.call("network", "rm", network)).code == 0:
            gone.append(f"network {network[:12]} removed")
    volumes = (await engine.ask("volume", "ls", "--quiet", "--filter", "name=hermes-")).split()
    for volume in volumes:
        ident = volume.removeprefix("hermes-").partition("-")[0]
        if ident in records or not await _is_ours(engine, volume):
            continue
        if (await engine.call("volume", "rm", volume)).code == 0:
            gone.append(f"volume {volume} removed")
    return gone + await asyncio.to_thread(_stale_directories, store)


async def _listed(engine: Engine, *args: str) -> list[str]:
    return (await engine.ask(*args, "--quiet")).split()


async def _is_ours(engine: Engine, volume: str) -> bool:
    done = await engine.call("volume", "inspect", volume)
    if done.code != 0:
        return False
    marks = (json.loads(done.out)[0].get("Labels") or {}) if done.out else {}
    return bool(marks.get("hermes.home") == _home_mark())


def _surplus(seen: dict[str, Any], records: dict[str, SandboxRecord]) -> str | None:
    marks, state = seen["Config"].get("Labels") or {}, seen["State"]
    record = records.get(marks.get("hermes.id", ""))
    if record is None:
        return "no sandbox has it"
    if not record.named and owner_state(record) == "dead":
        return "its hermes has ended"
    if marks.get("hermes.keep") == "yes" or state.get("Running"):
        return None
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


def _stale_directories(store: Store) -> list[str]:
    base = home() / "sandboxes"
    known = {f"docker-{record.id}" for record in store.all()}
    stale = [path for path in base.glob("docker-*") if path.name not in known]
    left = remove_trees(stale)
    return [f"directory {path} removed" for path in stale if str(path) not in left]
