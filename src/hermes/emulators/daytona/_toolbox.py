"""The server in a sandbox, reached through the proxy: terminals, commands, and where things are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web
from daytona_toolbox_api_client_async import ExecuteRequest

from .._place import PlaceEnded
from . import _files, _sessions
from ._box import DAEMON, HOME, Box, problem, shell
from ._pty import Terminal, environment_of

if TYPE_CHECKING:
    from . import Daytona

Call = Callable[["Daytona", Box, web.Request], Awaitable[web.StreamResponse]]


def add_routes(emulator: Daytona, app: web.Application) -> None:
    """Add the routes below ``/toolbox``."""

    def route(method: str, path: str, call: Call) -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await call(emulator, _box(emulator, request), request)

        app.router.add_route(method, f"/toolbox/{{box}}{path}", handle)

    route("GET", "/user-home-dir", folder)
    route("GET", "/work-dir", folder)
    route("POST", "/process/execute", execute)
    route("POST", "/process/session", _sessions.create)
    route("POST", "/process/session/{session}/exec", _sessions.execute)
    route("DELETE", "/process/session/{session}", _sessions.delete)
    route("GET", "/files", _files.list_files)
    route("DELETE", "/files", _files.delete)
    route("GET", "/files/info", _files.info)
    route("POST", "/files/folder", _files.create_folder)
    route("POST", "/files/bulk-upload", _files.upload)
    route("POST", "/files/bulk-download", _files.download)
    route("GET", "/process/pty", list_terminals)
    route("GET", "/process/pty/create-connect", create_connect)
    route("GET", "/process/pty/{session}", terminal_info)
    route("DELETE", "/process/pty/{session}", kill)
    route("POST", "/process/pty/{session}/resize", resize)
    route("GET", "/process/pty/{session}/connect", connect)


def _box(emulator: Daytona, request: web.Request) -> Box:
    box = emulator.boxes.get(request.match_info["box"])
    if box is None:
        raise problem(404, "Sandbox not found", source="DAYTONA_PROXY")
    if emulator.fault("bad_gateway"):
        raise problem(502, "bad gateway", source="DAYTONA_PROXY")
    if box.state not in ("started", "snapshotting") or not box.place.running:
        raise problem(
            400,
            "failed to resolve container IP: no IP address found. Is the Sandbox started?",
            source="DAYTONA_PROXY",
        )
    box.activity = emulator.clock.time()
    return box


async def folder(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    return web.json_response({"dir": HOME})


async def execute(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    wanted = ExecuteRequest.from_dict(await request.json())
    assert wanted is not None
    process = await box.place.spawn(
        [shell(), "-c", wanted.command],
        cwd=wanted.cwd or HOME,
        env=box.environment(wanted.envs),
        merge=True,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(wanted.timeout or None):
            output = await process.stdout.read()
            code = await process.wait()
    except TimeoutError:
        raise problem(
            408, "command execution timeout", code="PROCESS_EXECUTION_TIMEOUT", source=DAEMON
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.shield(process.wait())
    text = output.decode("utf-8", "replace")
    return web.json_response({"exitCode": 128 - code if code < 0 else code, "result": text})


async def list_terminals(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    return web.json_response({"sessions": [one.info() for one in box.terminals.values()]})


async def create_connect(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    query = request.query
    ident = query["id"]
    if ident in box.terminals:
        raise problem(409, f"PTY session with ID '{ident}' already exists", source=DAEMON)
    terminal = Terminal(
        ident,
        box,
        rows=int(query.get("rows", 24)),
        cols=int(query.get("cols", 80)),
        cwd=query.get("cwd", HOME),
        envs=environment_of(request),
    )
    terminal.created = emulator.stamp()
    box.terminals[ident] = terminal
    try:
        await terminal.start(shell())
    except (PlaceEnded, OSError) as error:
        box.terminals.pop(ident, None)
        raise problem(502, f"the terminal could not be made: {error}", source=DAEMON) from error
    if emulator.fault("stopped"):
        emulator.set_state(box, "stopping")
        asyncio.get_running_loop().call_later(0.5, lambda: emulator.spawn(emulator.take_down(box)))
    return await terminal.show(request)


def _terminal(box: Box, request: web.Request) -> Terminal:
    terminal = box.terminals.get(request.match_info["session"])
    if terminal is None:
        raise problem(404, f"PTY session {request.match_info['session']} not found", source=DAEMON)
    return terminal


async def terminal_info(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    return web.json_response(_terminal(box, request).info())


async def kill(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    _terminal(box, request).kill()
    return web.json_response({"message": "PTY session deleted"})


async def resize(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    size, terminal = await request.json(), _terminal(box, request)
    with contextlib.suppress(OSError):
        terminal.resize(int(size["rows"]), int(size["cols"]))
    return web.json_response(terminal.info())


async def connect(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    return await _terminal(box, request).show(request)
