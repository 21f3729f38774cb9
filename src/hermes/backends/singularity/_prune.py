"""Removing what outlived its sandbox: instances, directories and jobs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import Any

from hermes.config import Slurm
from hermes.errors import HermesError
from hermes.state import SandboxRecord, Store

from .._leftovers import known, surplus
from . import workdir
from ._client import Client
from ._files import MARK, PREFIX, Files, home_mark, run_dir
from ._here import Here
from ._slurm import SlurmJob, waiting_jobs

__all__ = ["prune"]


async def prune(client: Client, store: Store) -> list[str]:
    """Remove instances, directories and jobs that no sandbox of this hermes home has any more; say what went.

    Only what says in its directory, or to SLURM, that it is of this home, and of this user, is looked at.

    :raises HermesError: code ``state_unreadable``; it cannot be told which sandboxes there are
    """
    here = await client.instances(f"{PREFIX}*")
    directories = await asyncio.to_thread(_directories)
    jobs = await waiting_jobs(client)
    # Read last: what has no record then, had none when it was listed, and is not just being made.
    records = await known(store)
    gone: list[str] = []
    for base in directories:
        mark = await asyncio.to_thread(_mark, base)
        if mark is None:
            continue
        name, record = base.name, records.get(str(mark["id"]))
        files = await asyncio.to_thread(_files, base, str(mark["id"]), record)
        runner: Here | SlurmJob = Here(client, files, name)
        running = name in here
        try:
            if await asyncio.to_thread((base / "job.sh").exists):
                runner = SlurmJob(client, files, name, Slurm())
                running = bool((await runner.state())[0])
            # One with a name may be started again with its files, whether it runs or not.
            why = await asyncio.to_thread(surplus, record, keep=bool(mark.get("keep")))
            if why is None or await runner.end() or await asyncio.to_thread(files.remove):
                continue
        except HermesError:  # SLURM does not answer, or is not here: the next time
            continue
        gone.append(f"{'instance' if running else 'directory'} {name} removed ({why})")
    for name in set(jobs) - {base.name for base in directories}:  # somebody removed the directory
        ident = name.removeprefix(PREFIX)
        why = await asyncio.to_thread(surplus, records.get(ident)) if name != ident else None
        if why is not None:
            with contextlib.suppress(HermesError):
                job = SlurmJob(client, _files(workdir.of(name) / name, ident, None), name, Slurm())
                if not await job.end():
                    gone.append(f"job {name} cancelled ({why})")
    return gone


def _directories() -> list[Path]:
    """Return the directories of sandboxes in every place where they may be."""
    found: list[Path] = []
    for _, path, _ in workdir.candidates():
        if path is not None:
            found += sorted(path.glob(f"{PREFIX}*"))
    return found


def _mark(base: Path) -> dict[str, Any] | None:
    """Return what a directory says of itself, None when it is not ours to remove."""
    try:
        fd = os.open(base / MARK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(fd, encoding="utf-8") as file:
            mark = json.loads(file.read(10_000))
            owner = os.fstat(file.fileno()).st_uid
    except (OSError, ValueError):
        return None
    if not isinstance(mark, dict) or owner != os.geteuid() or mark.get("home") != home_mark():
        return None
    return mark if base.name == f"{PREFIX}{mark.get('id')}" else None


def _files(base: Path, ident: str, record: SandboxRecord | None) -> Files:
    found = record.locator.get("host_run") if record is not None else None
    return Files(ident, base, found if isinstance(found, str) else run_dir(ident))
