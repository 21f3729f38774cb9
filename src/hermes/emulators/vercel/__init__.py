"""Vercel Sandbox, emulated: REST, streams of lines of JSON, and a WebSocket for terminals.

A sandbox is a root of its own made by bubblewrap, so ``sudo`` changes nothing and a network policy of domains
is noted but not enforced. Drives, users of a sandbox, and sources from git and archives are not there.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

from aiohttp import web

from .._control import Emulator
from .._line import Line
from ._life import World
from ._model import Problem, ms
from ._routes import Routes

__all__ = ["EMULATOR", "VercelEmulator"]

MOST_BODY = 1 << 20  # of a request of JSON
MOST_FILES = 1 << 31

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class VercelEmulator(Emulator):
    """The emulated account: one team, one project, one token."""

    name: ClassVar[str] = "vercel"
    faults_known: ClassVar[dict[str, str]] = {
        "token_expired": "the next request is refused as that of a token which is not valid any more",
        "rate_limited": "the next request gets 429 with Retry-After (seconds=1)",
        "bad_gateway": "the next request gets 502, as while a state changes",
        "server_error": "the next request gets 500",
        "create_hangs": "the next create is never answered",
        "quota": "the next create is refused for want of quota",
        "stopped_mid_command": "the session stops after the next command began (delay=0.3)",
        "start_cut": "the next command starts, and the connection breaks before the answer",
        "stream_closed": "the next reading of a log finds the connection to the sandbox lost",
        "stream_cut": "the next record of a stream is cut in its middle",
        "stream_without_end": "the next stream ends early and properly, without its last record",
        "stdin_stalls": "the next input is not taken in time (written=0)",
        "snapshot_slow": "the next snapshot takes long (seconds=30)",
        "snapshot_expired": "the next resume finds its snapshot gone",
    }

    def __init__(self, folder: Path, line: Line) -> None:
        super().__init__(folder, line)
        self.world = World(self, folder)
        self.token = f"emulated-{secrets.token_hex(12)}"
        self.team, self.project = "team_emulated", "prj_emulated"
        self.wire = ""
        self._runner: web.AppRunner | None = None

    async def start(self) -> dict[str, str]:
        routes = Routes(self)
        app = web.Application(client_max_size=MOST_FILES, middlewares=[self._guarded])
        app.on_response_prepare.append(self.sign)
        for (method, path), handler in routes.table.items():
            app.router.add_route(method, path, handler)
        app.router.add_get("/interactive/{session}", routes.terminal)
        app.router.add_get("/health", _healthy)
        app.router.add_route("*", "/{rest:.*}", self._unimplemented)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port = await self.line.expose(self._runner.addresses[0][1])
        self.wire = f"ws://127.0.0.1:{port}"
        return {
            "VERCEL_TOKEN": self.token,
            "VERCEL_TEAM_ID": self.team,
            "VERCEL_PROJECT_ID": self.project,
            "HERMES_VERCEL_API_URL": f"http://127.0.0.1:{port}",
        }

    async def stop(self) -> None:
        await self.world.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def sandboxes(self) -> list[dict[str, Any]]:
        kept = {name for name, one in self.world.snapshots.items() if one.alive(self.clock.time())}
        return [
            {
                "name": box.name,
                "status": box.session.status,
                "session": box.session.id,
                "persistent": box.persistent,
                "image": box.payload().get("image"),
                "runtime": box.settings.get("runtime"),
                "vcpus": box.sizes()["vcpus"],
                "ports": list(box.settings.get("ports") or ()),
                "policy": box.policy,
                "tags": box.settings.get("tags") or {},
                "snapshots": [one for one in box.snapshots if one in kept],
                "created": box.created,
                "limit": box.session.limit,
                "commands": [one.argv for one in box.session.commands.values() if not one.over],
            }
            for box in self.world.boxes.values()
            if box.session is not None
        ]

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        path = resource.canonical if resource is not None else request.path
        open_to_all = path in ("/health", "/interactive/{session}")
        call: dict[str, Any] = {}
        try:
            if path != "/{rest}":
                call = self.called(f"{request.method} {path}")
            if not path.endswith("/stdin") and self.record is not None:
                self.heard(request.path_qs, repr(request.headers).encode(), await request.read())
            if not open_to_all:
                self._admit(request)
            answer = await handler(request)
        except Problem as problem:
            call["ok"] = False
            answer = web.json_response(problem.body, status=problem.status, headers=problem.headers)
        except asyncio.CancelledError:
            call["ok"] = False
            raise
        return answer

    def _admit(self, request: web.Request) -> None:
        if self.fault("token_expired") or request.headers.get("authorization") != f"Bearer {self.token}":
            raise Problem(403, "forbidden", "Not authorized", invalidToken=True)
        if request.query.get("teamId") != self.team:
            raise Problem(403, "forbidden", "Not authorized: no such team")
        for key in ("projectId", "project"):
            if request.query.get(key, self.project) != self.project:
                raise Problem(404, "not_found", "Project not found")
        if fault := self.fault("rate_limited"):
            problem = Problem(429, "rate_limited", "Rate limit exceeded")
            seconds = float(fault.get("seconds", 1))
            problem.headers = {
                "retry-after": f"{seconds:g}",
                "x-ratelimit-reset": str(ms(self.clock.time() + seconds) // 1000),
            }
            raise problem
        if self.fault("bad_gateway"):
            raise Problem(502, "bad_gateway", "Bad Gateway")
        if self.fault("server_error"):
            raise Problem(500, "internal_server_error", "Internal Server Error")
        big = "fs/write" not in request.path and (request.content_length or 0) > MOST_BODY
        if big:
            raise Problem(413, "payload_too_large", f"more than {MOST_BODY} bytes")

    async def _unimplemented(self, request: web.Request) -> web.StreamResponse:
        self.unknown(f"{request.method} {request.path}")
        raise Problem(501, "not_implemented", f"the emulator has no {request.method} {request.path}")


async def _healthy(request: web.Request) -> web.Response:
    return web.json_response({"ok": True})


EMULATOR = VercelEmulator
