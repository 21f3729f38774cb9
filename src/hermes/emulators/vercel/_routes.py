"""The routes of the API that are emulated."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from aiohttp import web

from .._place import PlaceEnded
from ._model import WORK, Command, Problem, Session, ident, stopped
from ._terminal import serve_terminal

if TYPE_CHECKING:
    from . import VercelEmulator

__all__ = ["Routes"]

EDGE = 300.0
"""Seconds after which whatever streams is cut on the way."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Routes:
    """The handlers, each under the method and the path that it is for."""

    def __init__(self, emulator: VercelEmulator) -> None:
        self._emulator = emulator
        self._world = emulator.world
        at = "/v2/sandboxes"
        one = f"{at}/sessions/{{session}}"
        self.table: dict[tuple[str, str], Handler] = {
            ("POST", "/v3/sandboxes"): self.create,
            ("POST", at): self.create_of_runtime,
            ("GET", at): self.boxes,
            ("GET", f"{at}/sessions"): self.sessions,
            ("GET", one): self.session,
            ("POST", f"{one}/stop"): self.stop,
            ("POST", f"{one}/snapshot"): self.snapshot,
            ("POST", f"{one}/extend-timeout"): self.extend,
            ("POST", f"{one}/network-policy"): self.policy,
            ("POST", f"{one}/cmd"): self.run,
            ("GET", f"{one}/cmd"): self.commands,
            ("GET", f"{one}/cmd/{{command}}"): self.command,
            ("GET", f"{one}/cmd/{{command}}/logs"): self.logs,
            ("POST", f"{one}/cmd/{{command}}/kill"): self.kill,
            ("POST", f"{one}/cmd/{{command}}/stdin"): self.stdin,
            ("POST", f"{one}/interactive"): self.interactive,
            ("POST", f"{one}/fs/mkdir"): self.mkdir,
            ("POST", f"{one}/fs/read"): self.read,
            ("POST", f"{one}/fs/write"): self.write,
            ("GET", f"{at}/snapshots"): self.snapshots,
            ("GET", f"{at}/snapshots/{{snapshot}}"): self.one_snapshot,
            ("DELETE", f"{at}/snapshots/{{snapshot}}"): self.delete_snapshot,
            ("GET", f"{at}/{{name}}"): self.get,
            ("PATCH", f"{at}/{{name}}"): self.update,
            ("DELETE", f"{at}/{{name}}"): self.destroy,
            ("POST", f"{at}/{{name}}/fork"): self.fork,
        }

    # --- sandboxes

    def _whole(self, name: str, **more: Any) -> web.Response:
        box = self._world.box(name)
        assert box.session is not None
        return web.json_response(
            {
                "sandbox": box.payload(),
                "session": box.session.payload(),
                "routes": box.routes(),
                **more,
            }
        )

    async def create(self, request: web.Request) -> web.StreamResponse:
        told = await _json(request)
        if "runtime" in told:
            raise Problem(400, "bad_request", "runtime: this version of the API has images only")
        return await self._create(told)

    async def create_of_runtime(self, request: web.Request) -> web.StreamResponse:
        """The version before, which what asks for a runtime is still sent to."""
        told = await _json(request)
        if "runtime" not in told and "source" not in told:
            told["runtime"] = "node24"
        return await self._create(told)

    async def _create(self, told: dict[str, Any]) -> web.StreamResponse:
        if self._emulator.fault("create_hangs"):
            await asyncio.sleep(3600)
        if self._emulator.fault("quota"):
            raise Problem(402, "payment_required", "the account's quota of sandboxes is used up")
        box = await self._world.create(told)
        return self._whole(box.name)

    async def boxes(self, request: web.Request) -> web.StreamResponse:
        asked = request.query
        key, _, value = asked.get("tags", "").partition(":")
        found = [
            box
            for box in self._world.boxes.values()
            if box.name.startswith(asked.get("namePrefix", ""))
            and (not key or (box.settings.get("tags") or {}).get(key) == value)
        ]
        by = asked.get("sortBy", "createdAt")
        descending = asked.get("sortOrder") != "asc"
        found.sort(key=lambda box: (str(box.payload().get(by, "")), box.created), reverse=descending)
        return _page(request, "sandboxes", [box.payload() for box in found])

    async def get(self, request: web.Request) -> web.StreamResponse:
        box = self._world.box(request.match_info["name"])
        resumed = False
        if request.query.get("resume") == "true":
            before = box.session
            resumed = await self._world.resume(box) is not before
        return self._whole(box.name, resumed=resumed)

    async def update(self, request: web.Request) -> web.StreamResponse:
        box = self._world.box(request.match_info["name"])
        told = await _json(request)
        if (snapshot := told.pop("currentSnapshotId", None)) is not None:
            box.snapshot = self._world.taken(snapshot).id
        box.settings.update(told)
        box.updated = self._world.now()
        return self._whole(box.name)

    async def destroy(self, request: web.Request) -> web.StreamResponse:
        box = self._world.box(request.match_info["name"])
        orphans = request.query.get("deleteOrphanSnapshots") == "true"
        return web.json_response({"sandbox": await self._world.destroy(box, snapshots=orphans)})

    async def fork(self, request: web.Request) -> web.StreamResponse:
        box = self._world.box(request.match_info["name"])
        asked = await _json(request)
        told = {**box.settings, **asked, "name": asked.get("name")}
        told.pop("source", None)
        if asked.get("image"):
            told.pop("runtime", None)
        base = None
        if box.snapshot is not None:
            base = self._world.taken(box.snapshot).tree
        forked = await self._world.create(told, base)
        return self._whole(forked.name)

    # --- sessions

    async def sessions(self, request: web.Request) -> web.StreamResponse:
        name = request.query.get("name")
        found = [s for s in self._world.sessions.values() if name in (None, s.box.name)]
        found.sort(key=lambda s: s.requested, reverse=request.query.get("sortOrder") != "asc")
        return _page(request, "sessions", [session.payload() for session in found])

    async def session(self, request: web.Request) -> web.StreamResponse:
        session = self._world.session(request.match_info["session"])
        return web.json_response({"session": session.payload(), "routes": session.box.routes()})

    async def stop(self, request: web.Request) -> web.StreamResponse:
        session = self._world.session(request.match_info["session"])
        self._world.stop(session)
        return web.json_response({"session": session.payload(), "sandbox": session.box.payload()})

    async def snapshot(self, request: web.Request) -> web.StreamResponse:
        session = self._live(request)
        keep = (await _json(request)).get("expiration")
        # Whoever asked may hang up: the snapshot is taken all the same.
        taken = await asyncio.shield(asyncio.ensure_future(self._world.snapshot(session, keep)))
        return web.json_response({"snapshot": taken.payload(), "session": session.payload()}, status=201)

    async def extend(self, request: web.Request) -> web.StreamResponse:
        session = self._live(request)
        self._world.extend(session, float((await _json(request))["duration"]) / 1000)
        return web.json_response({"session": session.payload()})

    async def policy(self, request: web.Request) -> web.StreamResponse:
        session = self._live(request)  # it is noted; the network of a place that runs stays as it is
        session.box.settings["networkPolicy"] = await _json(request)
        return web.json_response({"session": session.payload()})

    def _live(self, request: web.Request) -> Session:
        return self._world.live(request.match_info["session"])

    # --- commands

    def _command(self, request: web.Request) -> Command:
        session = self._world.session(request.match_info["session"])
        if session.status != "running":
            raise stopped()  # what it printed is lost with it
        found = session.commands.get(request.match_info["command"])
        if found is None:
            raise Problem(404, "not_found", "there is no such command")
        return found

    async def _started(self, session: Session, told: dict[str, Any]) -> Command:
        command = Command(session, told, self._world.now())
        try:
            await command.start()
        except PlaceEnded:
            raise stopped() from None
        except OSError as error:
            if error.errno != errno.E2BIG:
                raise
            raise Problem(400, "bad_request", "the arguments are too long") from None
        session.commands[command.id] = command
        if limit := told.get("timeout"):
            clock = self._emulator.clock
            clock.call_at(clock.time() + limit / 1000, lambda: command.kill(9))
        if fault := self._emulator.fault("stopped_mid_command"):
            loop = asyncio.get_running_loop()
            loop.call_later(float(fault.get("delay", 0.3)), self._world.stop, session)
        return command

    async def run(self, request: web.Request) -> web.StreamResponse:
        session = self._live(request)
        told = await _json(request)
        command = await self._started(session, told)
        if self._emulator.fault("start_cut") and request.transport is not None:
            request.transport.abort()
        if not told.get("wait"):
            return web.json_response({"command": command.payload()})
        first = {"command": command.payload()}
        return await self._stream(request, command, first, logs=bool(told.get("logs", True)), last=True)

    async def commands(self, request: web.Request) -> web.StreamResponse:
        session = self._live(request)
        return web.json_response({"commands": [one.payload() for one in session.commands.values()]})

    async def command(self, request: web.Request) -> web.StreamResponse:
        command = self._command(request)
        if request.query.get("wait") == "true":
            await command.ended()
        return web.json_response({"command": command.payload()})

    async def logs(self, request: web.Request) -> web.StreamResponse:
        command = self._command(request)
        if self._emulator.fault("stream_closed"):
            raise Problem(410, "sandbox_stream_closed", "the connection to the sandbox was lost")
        return await self._stream(request, command, None, logs=True, last=False)

    async def _stream(
        self, request: web.Request, command: Command, first: dict[str, Any] | None, *, logs: bool, last: bool
    ) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"content-type": "application/x-ndjson"})
        await answer.prepare(request)
        transport = request.transport
        assert transport is not None
        clock = self._emulator.clock
        edge = clock.call_at(clock.time() + EDGE, transport.abort)

        async def say(record: dict[str, Any]) -> None:
            await answer.write(json.dumps(record).encode() + b"\n")

        try:
            if first is not None:
                await say(first)
            async for stream, text in command.records():
                if self._emulator.fault("stream_cut"):
                    await answer.write(b'{"stream":"std')
                    transport.abort()
                    return answer
                if self._emulator.fault("stream_without_end"):
                    return answer
                if logs:
                    await say({"stream": stream, "data": text})
            if last:
                await say({"command": command.payload()})
        except Problem as problem:
            await say({"stream": "error", "data": problem.body["error"]})
        except ConnectionError:
            pass
        finally:
            edge.cancel()
        with contextlib.suppress(ConnectionError):
            await answer.write_eof()
        return answer

    async def kill(self, request: web.Request) -> web.StreamResponse:
        command = self._command(request)
        command.kill(int((await _json(request)).get("signal", 15)))
        return web.json_response({"command": command.payload()})

    async def stdin(self, request: web.Request) -> web.StreamResponse:
        command = self._command(request)
        told = await _json(request)
        data = base64.b64decode(told.get("data") or "")
        if fault := self._emulator.fault("stdin_stalls"):
            raise Problem(504, "timeout", "the command does not read", bytesWritten=fault.get("written", 0))
        written = await command.feed(data, told.get("offset"), bool(told.get("close")))
        return web.json_response({"command": command.payload(), "bytesWritten": written})

    async def interactive(self, request: web.Request) -> web.StreamResponse:
        session = self._live(request)
        token = ident("tok")
        session.terminals.add(token)
        return web.json_response({"url": f"{self._emulator.wire}/interactive/{session.id}", "token": token})

    async def terminal(self, request: web.Request) -> web.StreamResponse:
        session = self._live(request)
        if request.query.get("token") not in session.terminals:
            raise Problem(403, "forbidden", "the token is not valid")
        session.terminals.remove(request.query["token"])
        return await serve_terminal(request, session)

    # --- files

    async def mkdir(self, request: web.Request) -> web.StreamResponse:
        told = await _json(request)
        argv = ["mkdir", *(["-p"] if told.get("recursive", True) else []), "--", str(told["path"])]
        code, _, said = await self._inside(request, argv, str(told.get("cwd") or WORK))
        if code:
            raise Problem(404 if "No such file" in said else 400, "path_not_found", said)
        return web.json_response({})

    async def read(self, request: web.Request) -> web.StreamResponse:
        told = await _json(request)
        code, data, said = await self._inside(
            request, ["cat", "--", str(told["path"])], str(told.get("cwd") or WORK)
        )
        if code:
            raise Problem(404, "file_not_found", said)
        return web.Response(body=data, content_type="application/octet-stream")

    async def write(self, request: web.Request) -> web.StreamResponse:
        where = request.headers.get("x-cwd", "/")
        argv = ["tar", "--extract", "--gzip", "--no-same-owner", "--file=-"]
        code, _, said = await self._inside(request, argv, where, await request.read())
        if code:
            raise Problem(400, "bad_request", said)
        return web.json_response({})

    async def _inside(
        self, request: web.Request, argv: list[str], cwd: str, data: bytes = b""
    ) -> tuple[int, bytes, str]:
        session = self._live(request)
        try:
            process = await session.place.spawn(argv, cwd=cwd, env=session.environment())
        except PlaceEnded:
            raise stopped() from None
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None

        async def feed(stdin: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                stdin.write(data)
                await stdin.drain()
            stdin.close()

        _, out, err = await asyncio.gather(feed(process.stdin), process.stdout.read(), process.stderr.read())
        return await process.wait(), out, err.decode("utf-8", "replace").strip()

    # --- snapshots

    async def snapshots(self, request: web.Request) -> web.StreamResponse:
        name = request.query.get("name")
        world = self._world
        alive = [one for one in world.snapshots.values() if one.alive(world.now())]
        found = [one for one in alive if name in (None, world.sessions[one.session].box.name)]
        found.sort(key=lambda s: s.created, reverse=request.query.get("sortOrder") != "asc")
        return _page(request, "snapshots", [one.payload() for one in found])

    async def one_snapshot(self, request: web.Request) -> web.StreamResponse:
        found = self._world.snapshots.get(request.match_info["snapshot"])
        if found is None or not found.alive(self._world.now()):
            raise Problem(404, "not_found", "there is no such snapshot")
        return web.json_response({"snapshot": found.payload()})

    async def delete_snapshot(self, request: web.Request) -> web.StreamResponse:
        found = self._world.snapshots.get(request.match_info["snapshot"])
        if found is None or found.deleted:
            raise Problem(404, "not_found", "there is no such snapshot")
        await self._world.forget(found)
        return web.json_response({"snapshot": found.payload()})


async def _json(request: web.Request) -> dict[str, Any]:
    if not request.body_exists:
        return {}
    try:
        told = await request.json()
    except ValueError:
        raise Problem(400, "bad_request", "the body is not JSON") from None
    return told if isinstance(told, dict) else {}


def _page(request: web.Request, key: str, found: list[dict[str, Any]]) -> web.Response:
    at = int(request.query.get("cursor") or 0)
    end = at + int(request.query.get("limit") or 20)
    more = str(end) if end < len(found) else None
    shown = found[at:end]
    return web.json_response({key: shown, "pagination": {"count": len(shown), "next": more, "prev": None}})
