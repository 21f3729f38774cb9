"""Sessions of commands: a shell that keeps its directory and variables, with both streams of each command.

As there, commands of a session wait for each other, and ``exit`` ends it. Commands that are to run in
the background, and following their logs, are not there.
"""

from __future__ import annotations

import asyncio
import shlex
import uuid
from typing import TYPE_CHECKING

from aiohttp import web
from daytona_toolbox_api_client_async import (
    CreateSessionRequest,
    SessionExecuteRequest,
    SessionExecuteResponse,
)

from .._place import Process
from ._box import DAEMON, HOME, Box, problem, shell

if TYPE_CHECKING:
    from . import Daytona

FOLDER = "/tmp"


class Session:
    """A shell that waits for commands."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lock = asyncio.Lock()

    async def run(self, box: Box, command: str) -> tuple[int, str, str]:
        """Run a command and return its exit code and what it printed."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        names = [f"{FOLDER}/{uuid.uuid4()}" for _ in range(3)]
        paths = [box.place.path(name) for name in names]
        async with self._lock:
            for path, text in zip(paths, (command, "", ""), strict=True):
                await asyncio.to_thread(path.write_text, text)
            script, out, err = (shlex.quote(name) for name in names)
            process.stdin.write(f". {script} >{out} 2>{err} </dev/null; echo $?\n".encode())
            line = await process.stdout.readline()
        code = int(line) if line else await process.wait()
        said = [await asyncio.to_thread(path.read_text, "utf-8", "replace") for path in paths[1:]]
        for path in paths:
            await asyncio.to_thread(path.unlink)
        return code, said[0], said[1]

    def end(self) -> None:
        """Kill the shell, with what runs in it."""
        self._process.kill()


def _session(box: Box, request: web.Request) -> Session:
    found = box.sessions.get(request.match_info["session"])
    if found is None:
        raise problem(404, f"session {request.match_info['session']} not found", source=DAEMON)
    return found


async def create(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    wanted = CreateSessionRequest.from_dict(await request.json())
    assert wanted is not None
    if wanted.session_id in box.sessions:
        raise problem(409, f"session {wanted.session_id} already exists", source=DAEMON)
    process = await box.place.spawn([shell()], cwd=HOME, env=box.environment(), merge=True)
    box.sessions[wanted.session_id] = Session(process)
    return web.Response(status=201)


async def execute(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    wanted = SessionExecuteRequest.from_dict(await request.json())
    assert wanted is not None
    if wanted.run_async or wanted.var_async:
        emulator.unknown("a command of a session in the background")
        raise problem(501, "the emulator runs commands of a session in the foreground only", source=DAEMON)
    code, out, err = await _session(box, request).run(box, wanted.command)
    answer = {
        "cmdId": str(uuid.uuid4()),
        "exitCode": code,
        "output": out + err,
        "stdout": out,
        "stderr": err,
    }
    assert SessionExecuteResponse.from_dict(answer) is not None
    return web.json_response(answer)


async def delete(emulator: Daytona, box: Box, request: web.Request) -> web.StreamResponse:
    _session(box, request).end()
    del box.sessions[request.match_info["session"]]
    return web.Response(status=204)
