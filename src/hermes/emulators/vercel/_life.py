"""Coming and going of the emulated sandboxes: boots, time limits, snapshots, what expires."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._place import Place
from ._model import HOME, WORK, Box, Problem, Session, Snapshot, ident, stopped

if TYPE_CHECKING:
    from . import VercelEmulator

__all__ = ["World"]

DAY = 86400.0
DEFAULT_LIMIT = 300.0
LONGEST = 24 * 3600.0  # of a session, on the plans that pay
SNAPSHOT_KEEP = 30 * DAY
RECORD_KEEP = 14 * DAY  # of a sandbox that is not persistent, once it has stopped
MOST_PORTS = 4
RUNTIMES = frozenset({"node26", "node24", "node22", "python3.13"})


class World:
    """All that exists in the emulated account."""

    def __init__(self, emulator: VercelEmulator, folder: Path) -> None:
        self._emulator = emulator
        self._folder = folder
        self._tasks: set[asyncio.Task[None]] = set()
        self.boxes: dict[str, Box] = {}
        self.sessions: dict[str, Session] = {}
        self.snapshots: dict[str, Snapshot] = {}

    def now(self) -> float:
        return self._emulator.clock.time()

    def box(self, name: str) -> Box:
        if name not in self.boxes:
            raise Problem(404, "not_found", f"there is no sandbox {name!r}")
        return self.boxes[name]

    def session(self, name: str) -> Session:
        if name not in self.sessions:
            raise Problem(404, "not_found", f"there is no session {name!r}")
        return self.sessions[name]

    def live(self, name: str) -> Session:
        """Return a session in which something can be done."""
        session = self.session(name)
        if session.status != "running":
            raise stopped(f"sandbox_{session.status}" if session.status != "failed" else "sandbox_stopped")
        return session

    def taken(self, name: str) -> Snapshot:
        found = self.snapshots.get(name)
        if found is None or not found.alive(self.now()):
            raise Problem(410, "snapshot_not_found", f"there is no snapshot {name!r} any more")
        return found

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- sandboxes

    async def create(self, told: dict[str, Any], source: Path | None = None) -> Box:
        name = str(told.get("name") or ident("sandbox").replace("_", "-"))
        if name in self.boxes:
            raise Problem(409, "conflict", f"there is a sandbox {name!r} already")
        self._check(told)
        if source is None and (given := told.get("source")) is not None:
            if given.get("type") != "snapshot":
                raise Problem(400, "bad_request", "the emulator has no sources but snapshots")
            if told.get("runtime") or told.get("image"):
                raise Problem(400, "bad_request", "neither runtime nor image can be chosen for a snapshot")
            snapshot = self.taken(str(given.get("snapshotId")))
            snapshot.used = self.now()
            source = snapshot.tree
        box = Box(name, str(told.get("projectId") or self._emulator.project), self.now(), told, source)
        self.boxes[name] = box
        try:
            await self._boot(box, source)
        except BaseException:
            del self.boxes[name]
            raise
        return box

    def _check(self, told: Mapping[str, Any]) -> None:
        limit = told.get("timeout")
        if limit is not None and not 1000 <= limit <= LONGEST * 1000:
            raise Problem(400, "bad_request", f"timeout: 1000 to {LONGEST * 1000:.0f} milliseconds")
        if len(told.get("ports") or ()) > MOST_PORTS:
            raise Problem(400, "bad_request", f"ports: at most {MOST_PORTS}")
        if (runtime := told.get("runtime")) is not None:
            if runtime not in RUNTIMES:
                raise Problem(400, "bad_request", f"runtime: one of {', '.join(sorted(RUNTIMES))}")
            if told.get("image"):
                raise Problem(400, "bad_request", "runtime and image cannot be used together")

    async def _boot(self, box: Box, base: Path | None) -> Session:
        limit = (box.settings.get("timeout") or DEFAULT_LIMIT * 1000) / 1000
        name = ident("sbx")
        place = Place(self._folder / name, base=base, folders=(WORK, HOME))
        session = Session(name, box, place, limit, self.now())
        await place.start(network=box.policy["mode"] != "deny-all", hostname="vercel")
        session.started = session.changed = self.now()
        self._watch(session)
        self.sessions[name] = box.session = session
        return session

    def _watch(self, session: Session) -> None:
        if session.timer is not None:
            session.timer.cancel()
        at = session.started + session.limit
        session.timer = self._emulator.clock.call_at(at, lambda: self.stop(session))

    def extend(self, session: Session, seconds: float) -> None:
        """Let a session run for longer."""
        if seconds < 1 or session.limit + seconds > LONGEST:
            raise Problem(400, "bad_request", f"a session may run for {LONGEST:.0f} s at the most")
        session.limit += seconds
        self._watch(session)

    async def resume(self, box: Box) -> Session:
        """Return the session that runs, or boot the next one from the latest snapshot."""
        async with box.lock:
            session = box.session
            assert session is not None
            if session.status == "running":
                return session
            if session.status in ("stopping", "snapshotting"):
                raise stopped(f"sandbox_{session.status}")
            if self._emulator.fault("snapshot_expired"):
                raise Problem(410, "snapshot_not_found", "the snapshot of the sandbox has expired")
            base = box.source
            if box.snapshot is not None:
                snapshot = self.taken(box.snapshot)
                snapshot.used = self.now()
                base = snapshot.tree
            return await self._boot(box, base)

    def stop(self, session: Session) -> None:
        """Begin to stop a session; a persistent sandbox keeps its files in a snapshot first."""
        if session.status != "running":
            return
        session.status, session.changed = "stopping", self.now()
        self.spawn(self._stop(session))

    async def _stop(self, session: Session) -> None:
        await self._end(session)
        if session.box.persistent and session.box.name in self.boxes:
            await self._keep(session, session.box.settings.get("snapshotExpiration"), "automatic")
        await self._over(session)

    async def snapshot(self, session: Session, keep: float | None) -> Snapshot:
        """Keep the files of a session, which ends with that."""
        session.status, session.changed = "snapshotting", self.now()
        session.lose("sandbox_snapshotting")
        if slow := self._emulator.fault("snapshot_slow"):
            await asyncio.sleep(float(slow.get("seconds", 30)))
        await self._end(session)
        taken = await self._keep(session, keep, "manual")
        await self._over(session)
        return taken

    async def _end(self, session: Session) -> None:
        if session.timer is not None:
            session.timer.cancel()
        session.lose("sandbox_stopped")
        await session.place.stop()
        for command in session.commands.values():
            await command.close()

    async def _keep(self, session: Session, keep: float | None, method: str) -> Snapshot:
        box = session.box
        seconds = SNAPSHOT_KEEP if keep is None else keep / 1000
        name = ident("snap")
        tree = self._folder / name
        await asyncio.to_thread(os.rename, session.place.tree, tree)
        snapshot = Snapshot(name, session.id, tree, self.now(), seconds, method, box.snapshot)
        self.snapshots[name] = snapshot
        box.snapshot = name
        box.snapshots.append(name)
        retain = box.settings.get("keepLastSnapshots")
        while retain and len(box.snapshots) > int(retain["count"]):
            old = box.snapshots.pop(0)
            if retain.get("deleteEvicted", True):
                await self.forget(self.snapshots[old])
        return snapshot

    async def _over(self, session: Session) -> None:
        session.status = "stopped"
        session.stopped = session.changed = self.now()
        box = session.box
        if not box.persistent:
            self._emulator.clock.call_at(self.now() + RECORD_KEEP, lambda: self._collect(box, session))
        await session.place.remove()

    def _collect(self, box: Box, session: Session) -> None:
        if box.session is session and self.boxes.get(box.name) is box:
            del self.boxes[box.name]

    async def forget(self, snapshot: Snapshot) -> None:
        snapshot.deleted = True
        await asyncio.to_thread(shutil.rmtree, snapshot.tree, ignore_errors=True)

    async def destroy(self, box: Box, *, snapshots: bool) -> dict[str, Any]:
        """Remove a sandbox, and its snapshots when nobody else uses them."""
        del self.boxes[box.name]
        session = box.session
        assert session is not None
        if session.status == "running":
            session.status = "stopping"
            await self._end(session)
            await self._over(session)
        if snapshots:
            others = {one.snapshot for one in self.boxes.values()}
            for name in box.snapshots:
                if name not in others:
                    await self.forget(self.snapshots[name])
        return box.payload()

    async def close(self) -> None:
        """End everything."""
        for session in list(self.sessions.values()):
            if session.status == "running":
                session.status = "stopping"
                with contextlib.suppress(OSError):
                    await self._end(session)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)
