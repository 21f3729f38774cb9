"""What the emulated Vercel keeps: sandboxes, their sessions, commands in those, and snapshots."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._clock import Timer
from .._place import Place, Process

__all__ = ["Box", "Command", "Problem", "Session", "Snapshot", "ident", "ms"]

HOME = "/home/vercel-sandbox"
WORK = "/vercel/sandbox"
STDIN_LIMIT = 512 * 1024
STDIN_PATIENCE = 30.0
REGION = "emulated"


class Problem(Exception):
    """An answer that says no."""

    def __init__(self, status: int, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"code": code, "message": message, **more}}
        self.headers: dict[str, str] = {}


def ident(prefix: str) -> str:
    """Return an id that nothing else has."""
    return f"{prefix}_{secrets.token_hex(12)}"


def ms(seconds: float) -> int:
    """Return what the API says for a time or a duration."""
    return round(seconds * 1000)


def said(**facts: Any) -> dict[str, Any]:
    """Return facts as the API says them: what there is not is left out, not null."""
    return {name: fact for name, fact in facts.items() if fact is not None}


@dataclass
class Snapshot:
    """Files as they were. ``keep`` seconds after its last use it is gone; 0 for never."""

    id: str
    session: str
    tree: Path
    created: float
    keep: float
    method: str
    parent: str | None = None
    used: float = 0.0
    deleted: bool = False

    def alive(self, now: float) -> bool:
        return not self.deleted and (not self.keep or now < max(self.created, self.used) + self.keep)

    def payload(self) -> dict[str, Any]:
        last = max(self.created, self.used)
        return said(
            id=self.id,
            sourceSessionId=self.session,
            region=REGION,
            regions=[REGION],
            status="deleted" if self.deleted else "created",
            sizeBytes=0,
            expiresAt=ms(last + self.keep) if self.keep else None,
            createdAt=ms(self.created),
            updatedAt=ms(last),
            lastUsedAt=ms(self.used) if self.used else None,
            creationMethod=self.method,
            parentId=self.parent,
        )


@dataclass
class Box:
    """A sandbox, which is a name; what runs is its session."""

    name: str
    project: str
    created: float
    settings: dict[str, Any]
    """What the request that made it said, under its own names; changed by updates."""
    source: Path | None = None
    session: Session | None = None
    snapshot: str | None = None
    snapshots: list[str] = field(default_factory=list)
    updated: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def persistent(self) -> bool:
        return bool(self.settings.get("persistent", True))

    @property
    def policy(self) -> dict[str, Any]:
        """The network policy as it is read back."""
        told = self.settings.get("networkPolicy") or {"mode": "allow-all"}
        if "mode" in told:
            return {"mode": told["mode"]}
        return {"mode": "custom", "allowedDomains": list(told.get("allow", ()))}

    def sizes(self) -> dict[str, Any]:
        asked = self.settings.get("resources") or {}
        vcpus = int(asked.get("vcpus") or 2)
        return {"vcpus": vcpus, "memory": int(asked.get("memory") or vcpus * 2048), "region": REGION}

    def payload(self) -> dict[str, Any]:
        assert self.session is not None
        told = self.settings
        return said(
            name=self.name,
            projectId=self.project,
            currentSessionId=self.session.id,
            currentSnapshotId=self.snapshot,
            status=self.session.status,
            statusUpdatedAt=ms(self.session.changed),
            persistent=self.persistent,
            image=None if told.get("runtime") else told.get("image") or "vercel/sandbox/universal:latest",
            runtime=told.get("runtime"),
            timeout=told.get("timeout"),
            cwd=WORK,
            networkPolicy=self.policy,
            snapshotExpiration=told.get("snapshotExpiration"),
            keepLastSnapshots=told.get("keepLastSnapshots"),
            tags=told.get("tags") or {},
            createdAt=ms(self.created),
            updatedAt=ms(max(self.created, self.updated)),
            **self.sizes(),
        )

    def routes(self) -> list[dict[str, Any]]:
        # A place has the network of this machine, so a port of it is one of 127.0.0.1.
        ports = self.settings.get("ports") or ()
        return [{"url": f"http://127.0.0.1:{p}", "port": p, "subdomain": f"{self.name}-{p}"} for p in ports]


@dataclass
class Session:
    """One boot of a sandbox."""

    id: str
    box: Box
    place: Place
    limit: float
    """Seconds for which it may run."""
    requested: float
    status: str = "running"
    started: float = 0.0
    stopped: float | None = None
    changed: float = 0.0
    timer: Timer | None = None
    commands: dict[str, Command] = field(default_factory=dict)
    terminals: set[str] = field(default_factory=set)
    """Tokens of interactive connections that may come."""

    def payload(self) -> dict[str, Any]:
        return said(
            id=self.id,
            sourceSandboxName=self.box.name,
            projectId=self.box.project,
            status=self.status,
            cwd=WORK,
            timeout=ms(self.limit),
            runtime=self.box.settings.get("runtime"),
            networkPolicy=self.box.policy,
            requestedAt=ms(self.requested),
            startedAt=ms(self.started),
            stoppedAt=ms(self.stopped) if self.stopped else None,
            createdAt=ms(self.requested),
            updatedAt=ms(self.changed),
            **self.box.sizes(),
        )

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        base = {
            "PATH": "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin",
            "HOME": HOME,
            "USER": "vercel-sandbox",
            "LANG": "C.UTF-8",
        }
        return {**base, **(self.box.settings.get("env") or {}), **(more or {})}

    def lose(self, code: str) -> None:
        """Let whoever follows a command know that the session is over."""
        for command in self.commands.values():
            command.lose(code)


class Command:
    """A process of a session, with everything that it printed from the start: the API keeps that."""

    def __init__(self, session: Session, told: Mapping[str, Any], now: float) -> None:
        self.id = ident("cmd")
        self.session = session
        self.argv = [str(told["command"]), *map(str, told.get("args") or ())]
        self.cwd = str(told.get("cwd") or WORK)
        self.env = session.environment(told.get("env"))
        self.attached = bool(told.get("attachStdin"))
        self.started = now
        self.log: list[tuple[str, str]] = []
        self.code: int | None = None
        self.lost: str | None = None
        self.over = False
        self.written = 0
        self._moved = asyncio.Event()
        self._lock = asyncio.Lock()
        self._process: Process | None = None
        self._task: asyncio.Task[None] | None = None

    def payload(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.argv[0],
            "args": self.argv[1:],
            "cwd": self.cwd,
            "sessionId": self.session.id,
            "exitCode": self.code,
            "startedAt": ms(self.started),
        }

    async def start(self) -> None:
        """Start the process.

        :raises PlaceEnded: the session is over
        """
        self._process = await self.session.place.spawn(self.argv, cwd=self.cwd, env=self.env)
        if not self.attached and self._process.stdin is not None:
            self._process.stdin.close()
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def _follow(self) -> None:
        process = self._process
        assert process is not None and process.stdout is not None and process.stderr is not None
        loop = asyncio.get_running_loop()
        pumps = {
            loop.create_task(self._pump("stdout", process.stdout)),
            loop.create_task(self._pump("stderr", process.stderr)),
        }
        waiting: set[asyncio.Task[None]] = set(pumps)
        while waiting and process.returncode is None:
            _, waiting = await asyncio.wait(waiting, timeout=0.2)
        if waiting:  # what it left in the background may hold its output open for ever
            await asyncio.wait(waiting, timeout=0.2)
            for pump in waiting:
                pump.cancel()
        code = process.returncode if process.returncode is not None else await process.wait()
        if self.lost is None:
            self.code = code if code >= 0 else 128 - code
            self.over = True
        self._tell()

    async def _pump(self, stream: str, reader: asyncio.StreamReader) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while data := await reader.read(1 << 18):
            if text := decoder.decode(data):
                self.log.append((stream, text))
                self._tell()
        if text := decoder.decode(b"", True):
            self.log.append((stream, text))

    def _tell(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def lose(self, code: str) -> None:
        if not self.over and self.lost is None:
            self.lost = code
            self._tell()

    async def records(self) -> AsyncIterator[tuple[str, str]]:
        """Yield all that it printed and prints, until it is over.

        :raises Problem: its session ended
        """
        at = 0
        while True:
            moved = self._moved
            while at < len(self.log):
                yield self.log[at]
                at += 1
            if self.over:
                return
            if self.lost is not None:
                raise stopped(self.lost)
            await moved.wait()

    async def ended(self) -> None:
        """Return when it is over.

        :raises Problem: its session ended
        """
        while not self.over:
            if self.lost is not None:
                raise stopped(self.lost)
            await self._moved.wait()

    async def feed(self, data: bytes, offset: int | None, close: bool) -> int:
        """Write to its stdin what comes after *offset* bytes and was not written before."""
        async with self._lock:
            stdin = self._process.stdin if self._process is not None else None
            if not self.attached or self.over or stdin is None or stdin.is_closing():
                raise Problem(400, "command_stdin_unavailable", "the command takes no input")
            if len(data) > STDIN_LIMIT:
                raise Problem(413, "payload_too_large", f"more than {STDIN_LIMIT} bytes of input")
            if offset is not None:
                if offset > self.written:
                    raise Problem(400, "bad_request", f"offset {offset}, and {self.written} are written")
                data = data[self.written - offset :]
            try:
                for at in range(0, len(data), 1 << 16):
                    piece = data[at : at + (1 << 16)]
                    stdin.write(piece)
                    self.written += len(piece)
                    async with asyncio.timeout(STDIN_PATIENCE):
                        await stdin.drain()
                if close:
                    stdin.close()
            except TimeoutError:
                raise Problem(
                    504, "command_stdin_timeout", "the command does not read", bytesWritten=self.written
                ) from None
            except OSError:
                raise Problem(400, "command_stdin_unavailable", "the command reads no more") from None
            return self.written

    def kill(self, number: int) -> None:
        if self._process is not None:
            self._process.kill(number)

    async def close(self) -> None:
        """Leave nothing of it behind."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=5)


def stopped(code: str = "sandbox_stopped") -> Problem:
    """Return what is said of a session that is over, or about to be."""
    going = {"sandbox_stopping": 422, "sandbox_snapshotting": 422}
    return Problem(going.get(code, 410), code, f"the session does not run ({code.removeprefix('sandbox_')})")
