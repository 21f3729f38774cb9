"""An emulated Daytona, of the first platform version: REST, events over Socket.IO, and terminals.

It answers with the models that the SDK ships, so that what the SDK would not understand fails here. Routes
that it does not have answer 501 and are recorded.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import socketio  # type: ignore[import-untyped]
from aiohttp import web

from .._control import Emulator
from .._line import Line
from . import _api, _toolbox
from ._box import Box, Snapshot, problem

__all__ = ["EMULATOR", "Daytona"]

KEY = "emulated-key-of-daytona"
DISK_QUOTA = 100
"""GiB that all sandboxes of the organization may have, stopped ones too; archived ones do not count."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Daytona(Emulator):
    """The API, the proxy to the sandboxes' own servers, and what happens to sandboxes by themselves."""

    name: ClassVar[str] = "daytona"
    faults_known: ClassVar[dict[str, str]] = {
        "unauthorized": "an API call is answered 401",
        "rate_limited": "an API call is answered 429, with Retry-After of `seconds` (1)",
        "api_unavailable": "an API call is answered 503",
        "create_hangs": "a create is not answered",
        "create_lost": "a sandbox is made, but the connection breaks before the answer",
        "create_fails": "a sandbox ends up in the state `error` while it is made",
        "build_fails": "the image cannot be built",
        "slow": "creating, starting, stopping, or taking a snapshot takes `seconds` more of the clock",
        "start_fails": "a sandbox ends up in the state `error` while it starts, as with a full disk",
        "disk_quota": "a create or a start is refused for the organization's disk quota",
        "bad_gateway": "a call to a sandbox's own server is answered 502, as while its state changes",
        "stopped": "the sandbox is stopped right after a terminal was opened in it",
        "no_events": "the connection for events is refused",
    }

    def __init__(self, folder: Path, line: Line) -> None:
        super().__init__(folder, line)
        self.boxes: dict[str, Box] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.url = ""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._events = socketio.AsyncServer(async_mode="aiohttp", logger=False, engineio_logger=False)
        self._events.on("connect", self._connected)
        self._runner: web.AppRunner | None = None

    async def start(self) -> dict[str, str]:
        """Begin to listen. Returns the settings of the SDK."""
        app = web.Application(middlewares=[self._around], client_max_size=64 << 20)
        app.on_response_prepare.append(self.sign)
        self._events.attach(app, socketio_path="api/socket.io")
        _api.add_routes(self, app)
        _toolbox.add_routes(self, app)
        app.router.add_route("*", "/{path:.*}", self._unknown)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port = await self.line.expose(self._runner.addresses[0][1])
        self.url = f"http://127.0.0.1:{port}"
        return {"DAYTONA_API_KEY": KEY, "DAYTONA_API_URL": f"{self.url}/api"}

    async def stop(self) -> None:
        """End every sandbox and stop listening."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for box in list(self.boxes.values()):
            box.cut()
            await box.place.remove()
        await self._events.shutdown()
        if self._runner is not None:
            await self._runner.cleanup()

    def sandboxes(self) -> list[dict[str, Any]]:
        """Return what exists, for the control port."""
        return [
            {"id": box.id, "name": box.name, "state": box.state, "labels": box.labels, "created": box.created}
            for box in self.boxes.values()
        ]

    # --- what each call passes

    @web.middleware
    async def _around(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        path = resource.canonical if resource is not None else request.path
        if path.startswith("/api/socket.io"):
            return await handler(request)
        call = None if path == "/{path}" else self.called(f"{request.method} {path}")
        try:
            if self.record is not None:
                self.heard(request.path_qs, repr(request.headers).encode(), await request.read())
            self._admit(request)
            return await handler(request)
        except web.HTTPException:
            if call is not None:
                call["ok"] = False
            raise

    def _admit(self, request: web.Request) -> None:
        told = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(told.encode(), KEY.encode()):
            raise problem(401, "Invalid credentials. The emulator takes the key that it printed only.")
        if not request.path.startswith("/api/"):
            return
        if self.fault("unauthorized"):
            raise problem(401, "Invalid credentials")
        if limited := self.fault("rate_limited"):
            seconds = str(limited.get("seconds", 1))
            raise problem(429, "Rate limit exceeded", headers={"Retry-After": seconds})
        if self.fault("api_unavailable"):
            raise problem(503, "Service unavailable")

    async def _unknown(self, request: web.Request) -> web.Response:
        self.unknown(f"{request.method} {request.path}")
        raise problem(501, f"the emulator has no {request.method} {request.path}")

    async def _connected(self, sid: str, environ: dict[str, Any], auth: dict[str, Any] | None = None) -> bool:
        self.called("events connect")
        return (auth or {}).get("token") == KEY and not self.fault("no_events")

    # --- what happens to sandboxes

    def stamp(self, at: float | None = None) -> str:
        """Return a time of the clock as the API writes it."""
        return datetime.fromtimestamp(self.clock.time() if at is None else at, UTC).isoformat()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Let something go on by itself."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def set_state(self, box: Box, state: str) -> None:
        """Change a sandbox's state, and tell those who listen for events."""
        old, box.state = box.state, state
        box.changed = self.clock.time()
        if state in ("stopped", "archived", "error"):
            box.idle_since = box.changed
        event = {"sandbox": box.dto(self), "oldState": old, "newState": state}
        self.spawn(self._events.emit("sandbox.state.updated", event))
        self.watch(box)

    def used_disk(self) -> int:
        """Return the GiB that count against the quota."""
        return sum(box.disk for box in self.boxes.values() if box.state not in ("archived", "destroyed"))

    def check_quota(self, more: int) -> None:
        """Refuse what would take more disk than the organization may have."""
        if self.fault("disk_quota") or self.used_disk() + more > DISK_QUOTA:
            raise problem(403, f"Total disk limit exceeded. Maximum allowed: {DISK_QUOTA}GiB")

    async def linger(self) -> None:
        """Take as long as the fault says."""
        if slow := self.fault("slow"):
            await self.clock.sleep(float(slow.get("seconds", 60)))

    async def bring_up(self, box: Box, first: str | None = None) -> None:
        """Bring a sandbox to the state ``started``."""
        await self.linger()
        async with box.lock:
            if box.state in ("destroying", "destroyed"):
                return
            if self.fault("create_fails" if first else "start_fails"):
                box.error = "failed to start the container: no space left on device"
                self.set_state(box, "error")
                return
            try:
                await box.place.start(network=not box.network_block_all, hostname=box.id[:12])
            except Exception as error:
                box.error = str(error)
                self.set_state(box, "error")
                raise
            if box.state not in ("destroying", "destroyed"):
                box.activity = self.clock.time()
                self.set_state(box, "started")

    async def take_down(self, box: Box, state: str = "stopped") -> None:
        """Stop a sandbox; one that is to be deleted with its stop is."""
        await self.linger()
        if box.state in ("destroying", "destroyed"):
            return
        async with box.lock:
            box.cut()
            await box.place.stop()
        if box.auto_delete == 0 and state == "stopped":
            await self.destroy(box)
        else:
            self.set_state(box, state)

    async def destroy(self, box: Box) -> None:
        """Remove a sandbox with its files."""
        if box.state != "destroying":
            self.set_state(box, "destroying")
        async with box.lock:
            box.cut()
            await box.place.remove()
            if self.boxes.pop(box.id, None) is not None:
                self.set_state(box, "destroyed")

    def watch(self, box: Box) -> None:
        """See to it that what is due for a sandbox happens at its time of the clock."""
        if box.timer is not None:
            box.timer.cancel()
            box.timer = None
        if box.id in self.boxes and (due := box.due()) is not None:
            box.timer = self.clock.call_at(due[0], lambda: self._due(box))

    def _due(self, box: Box) -> None:
        due = box.due()
        if due is None or due[0] > self.clock.time():
            self.watch(box)
            return
        self.called(f"clock: {due[1]}")
        if due[1] == "stop" and box.auto_delete != 0:
            # At once, so that what comes after it counts from here however far the clock is moved on.
            box.cut()
            self.spawn(box.place.stop())
            self.set_state(box, "stopped")
        elif due[1] == "archive":
            self.set_state(box, "archived")
        else:
            self.spawn(self.destroy(box))


EMULATOR = Daytona
