"""What the emulated Modal holds: sandboxes, the processes in them, and images."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from grpclib import GRPCError, Status
from modal_proto import api_pb2

from .._clock import Clock, Timer
from .._place import Place, PlaceEnded, Process

__all__ = ["Changes", "Execution", "Image", "Sandbox", "identifier"]

KEPT = 32 << 20  # bytes of each stream that can be read again
AHEAD = 8 << 20  # bytes that a process may be ahead of its reader
CHUNK = 1 << 20
MAX_ARGUMENTS = 1 << 16
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "HERMES_EMULATOR": "modal",
}
HOME = "/root"
FILES_PROGRAM = "/__modal/.bin/modal-sandbox-fs-tools"
"""The SDKs run it for every operation on files."""


def identifier(kind: str, *, old: bool = False) -> str:
    """Return a new id. A sandbox's of the older backend has 22 characters, by which the SDK knows it."""
    letters = "ABCDEFGHJKMNPQRSTVWXYZ0123456789"
    return f"{kind}-" + "".join(secrets.choice(letters) for _ in range(22 if old else 26))


class Changes:
    """Lets many wait for the next change of something."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def tell(self) -> None:
        """Wake all who wait."""
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self) -> None:
        """Wait for a change that is told from now on."""
        await self._next.wait()


class _Output:
    """A stream that is read from any offset which is not too long past."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.begins = 0
        self.read = 0
        self.over = False
        self.changes = Changes()

    @property
    def ends(self) -> int:
        return self.begins + len(self.data)

    async def fill(self, stream: asyncio.StreamReader | None) -> None:
        while stream is not None and (data := await stream.read(CHUNK)):
            self.data += data
            if len(self.data) > KEPT:
                self.begins += len(self.data) - KEPT
                del self.data[: len(self.data) - KEPT]
            self.changes.tell()
            while self.ends - self.read > AHEAD:
                await self.changes.wait()
        self.over = True
        self.changes.tell()

    async def pieces(self, offset: int) -> AsyncIterator[tuple[int, bytes]]:
        """Yield what comes from an offset on, each piece with where it begins."""
        while True:
            if offset < self.begins:
                raise GRPCError(Status.OUT_OF_RANGE, f"output before {self.begins} is not kept")
            piece = bytes(self.data[offset - self.begins : offset - self.begins + CHUNK])
            if piece:
                yield offset, piece
                offset += len(piece)
                self.read = max(self.read, offset)
                self.changes.tell()
            elif self.over:
                return
            else:
                await self.changes.wait()


class Execution:
    """One process of a sandbox, with what it printed and how far its stdin was written."""

    def __init__(self, process: Process, *, timer: Timer | None = None, quiet: tuple[bool, bool]) -> None:
        self._process = process
        self._timer = timer
        self.out, self.err = _Output(), _Output()
        self.written = 0
        self.closed = False
        self.code: int | None = None
        self.over = Changes()
        for output, none in zip((self.out, self.err), quiet, strict=True):
            output.read = 1 << 62 if none else 0  # nobody reads it, so it never waits for a reader
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._writing = asyncio.Lock()

    async def _run(self) -> None:
        await asyncio.gather(self.out.fill(self._process.stdout), self.err.fill(self._process.stderr))
        self.code = await self._process.wait()
        if self._timer is not None:
            self._timer.cancel()
        self.over.tell()

    async def write(self, offset: int, data: bytes, end: bool) -> None:
        """Write to its stdin at an offset: what was written before is left out, a gap is refused."""
        async with self._writing:
            stdin = self._process.stdin
            if offset > self.written:
                raise GRPCError(Status.OUT_OF_RANGE, f"stdin has {self.written} bytes, not {offset}")
            new = data[self.written - offset :]
            if self.closed and (new or not end):
                raise GRPCError(Status.FAILED_PRECONDITION, "stdin is closed")
            assert stdin is not None
            try:
                self.written += len(new)
                stdin.write(new)
                await stdin.drain()
                if end and not self.closed:
                    self.closed = True
                    stdin.close()
            except (BrokenPipeError, ConnectionResetError) as error:
                raise GRPCError(Status.FAILED_PRECONDITION, "the process does not read its stdin") from error

    async def wait(self) -> int:
        """Wait for its end. The code is negative for a signal."""
        while self.code is None:
            await self.over.wait()
        return self.code

    def kill(self) -> None:
        """Kill it and its group."""
        self._process.kill()

    async def close(self) -> None:
        """Forget it; its place is gone."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


class Image:
    """An image: the host's own system, or what a snapshot kept in ``tree``."""

    def __init__(self, tree: Path | None = None, expires: float | None = None, reference: str = "") -> None:
        self.id = identifier("im")
        self.tree = tree
        self.expires = expires
        self.reference = reference


class Sandbox:
    """One sandbox, from its creation on; ended ones are kept, to be asked about."""

    def __init__(
        self, definition: Any, app: str, tags: dict[str, str], folder: Path, clock: Clock, *, old: bool
    ) -> None:
        self.id = identifier("sb", old=old)
        self.task = identifier("ta") + ("" if old else "V")
        self.definition = definition
        self.app = app
        self.tags = tags
        self.name: str = definition.name
        self.created = clock.time()
        self.result: Any = None
        self.ended = Changes()
        self.executions: dict[str, Execution] = {}
        self.entry: Execution | None = None
        self._clock = clock
        self._used = self.created
        self._timers: list[Timer] = []
        self._watch: asyncio.Task[None] | None = None
        self._folder = folder
        self._ending: asyncio.Task[None] | None = None
        self.place: Place

    async def start(self, base: Path | None, env: Mapping[str, str]) -> None:
        """Bring it up."""
        self.environment = {**ENVIRONMENT, **env}
        wish = self.definition
        folders = [wish.workdir or HOME, os.path.dirname(FILES_PROGRAM)]
        self.place = Place(self._folder / self.id, base=base, folders=folders)
        blocked = wish.network_access.network_access_type == api_pb2.NetworkAccess.BLOCKED
        await self.place.start(network=not blocked, hostname="modal")
        await asyncio.to_thread(self._install)
        self.used()
        self._timers.append(self._clock.call_at(self.created + wish.timeout_secs, self._too_old))
        if wish.HasField("idle_timeout_secs"):
            self._look_idle()
        if wish.entrypoint_args:
            self.entry = await self._spawn(wish.entrypoint_args, "", {}, 0, quiet=(True, True))
            self._watch = asyncio.get_running_loop().create_task(self._watch_entry(self.entry))

    def _install(self) -> None:
        program = self.place.path(FILES_PROGRAM)
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/usr/bin/python3 -I\n" + Path(__file__).with_name("_files.py").read_text())
        program.chmod(0o755)

    async def _watch_entry(self, entry: Execution) -> None:
        code = await entry.wait()
        status = api_pb2.GenericResult.GENERIC_STATUS_FAILURE
        if code == 0:
            status = api_pb2.GenericResult.GENERIC_STATUS_SUCCESS
        self.finish(status, code if code >= 0 else 128 - code)

    def _too_old(self) -> None:
        self.finish(api_pb2.GenericResult.GENERIC_STATUS_TIMEOUT, 124)

    def _look_idle(self) -> None:
        # As its documentation has it: a running exec is activity, as is writing to a stdin.
        limit = self.definition.idle_timeout_secs
        if any(one.code is None for one in self.executions.values()):
            self._used = self._clock.time()
        if self._clock.time() >= self._used + limit:
            self.finish(api_pb2.GenericResult.GENERIC_STATUS_TERMINATED, 137)
        elif self.result is None:
            self._timers.append(self._clock.call_at(self._used + limit, self._look_idle))

    def used(self) -> None:
        """Note that it is used now."""
        self._used = self._clock.time()

    async def execute(self, request: Any, env: Mapping[str, str]) -> None:
        """Start a process once for each of the client's ids.

        :raises GRPCError: it has ended, or the arguments are too long
        """
        self.used()
        if request.exec_id in self.executions:
            return
        if sum(len(one.encode()) for one in request.command_args) > MAX_ARGUMENTS:
            raise GRPCError(Status.INVALID_ARGUMENT, f"the arguments have more than {MAX_ARGUMENTS} bytes")
        timeout = request.timeout_secs if request.HasField("timeout_secs") else 0
        quiet = (request.stdout_config == 0, request.stderr_config != 1)  # 0 is DEVNULL, 1 is PIPE
        self.executions[request.exec_id] = await self._spawn(
            request.command_args, request.workdir, env, timeout, quiet=quiet, merge=request.stderr_config == 2
        )

    async def _spawn(
        self,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        timeout: float,
        *,
        quiet: tuple[bool, bool],
        merge: bool = False,
    ) -> Execution:
        try:
            process = await self.place.spawn(
                list(argv),
                cwd=cwd or self.definition.workdir or HOME,
                env={**self.environment, **env},
                merge=merge,
            )
        except PlaceEnded as error:
            raise GRPCError(Status.NOT_FOUND, "the sandbox has ended") from error
        timer = self._clock.call_at(self._clock.time() + timeout, process.kill) if timeout else None
        return Execution(process, timer=timer, quiet=quiet)

    def finish(self, status: Any, code: int) -> None:
        """Let it end now; the files go."""
        if self.result is not None:
            return
        self.result = api_pb2.GenericResult(status=status, exitcode=code)
        for timer in self._timers:
            timer.cancel()
        self.ended.tell()
        self._ending = asyncio.get_running_loop().create_task(self._end())

    async def _end(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        await self.place.stop()
        for one in [*self.executions.values(), *([self.entry] if self.entry else [])]:
            await one.close()
        await self.place.remove()

    async def gone(self) -> None:
        """Wait until an end that has begun is over."""
        if self._ending is not None:
            await self._ending
