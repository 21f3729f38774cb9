"""The control plane: sandboxes and snapshots, made, listed, started, stopped and removed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from aiohttp import web
from daytona_api_client_async import (
    CreateSandbox,
    CreateSandboxSnapshot,
    ListSandboxesResponse,
    PaginatedSnapshots,
    PortPreviewUrl,
    SignedPortPreviewUrl,
    SnapshotDto,
    SshAccessDto,
)

from .._place import Place
from ._box import HOME, Box, Snapshot, problem

if TYPE_CHECKING:
    from . import Daytona

MOST = {"cpu": 4, "memory": 8, "disk": 10}
LONGEST_ARCHIVE = 30 * 24 * 60
PAGE = 100

Call = Callable[["Daytona", web.Request], Awaitable[web.StreamResponse]]


def add_routes(emulator: Daytona, app: web.Application) -> None:
    """Add the routes below ``/api``."""

    def route(method: str, path: str, call: Call) -> None:
        app.router.add_route(method, f"/api{path}", lambda request: call(emulator, request))

    route("POST", "/sandbox", create)
    route("GET", "/sandbox", list_boxes)
    route("GET", "/sandbox/{box}", get)
    route("DELETE", "/sandbox/{box}", delete)
    route("POST", "/sandbox/{box}/start", start)
    route("POST", "/sandbox/{box}/stop", stop)
    route("POST", "/sandbox/{box}/archive", archive)
    route("POST", "/sandbox/{box}/snapshot", snapshot)
    route("POST", "/sandbox/{box}/last-activity", active)
    route("PUT", "/sandbox/{box}/labels", labels)
    route("GET", "/sandbox/{box}/toolbox-proxy-url", proxy)
    route("GET", "/sandbox/{box}/ports/{port}/preview-url", preview)
    route("GET", "/sandbox/{box}/ports/{port}/signed-preview-url", signed_preview)
    route("POST", "/sandbox/{box}/ssh-access", ssh_access)
    for name in ("autostop", "autoarchive", "autodelete", "ttl"):
        route("POST", f"/sandbox/{{box}}/{name}/{{minutes}}", interval)
    route("GET", "/snapshots", list_snapshots)
    route("GET", "/snapshots/{name}", get_snapshot)
    route("DELETE", "/snapshots/{name}", delete_snapshot)


def found(emulator: Daytona, request: web.Request) -> Box:
    """Return the sandbox that a request names, by its id or its name."""
    wanted = request.match_info["box"]
    for box in emulator.boxes.values():
        if wanted in (box.id, box.name):
            return box
    raise problem(404, f"Sandbox with ID or name {wanted} not found")


def answer(emulator: Daytona, box: Box) -> web.Response:
    return web.json_response(box.dto(emulator))


async def create(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    if emulator.fault("create_hangs"):
        await emulator.clock.sleep(3600)
    body = await request.json()
    wanted = CreateSandbox.from_dict(body)
    if wanted is None or wanted.additional_properties:
        raise problem(400, f"property should not exist: {wanted and list(wanted.additional_properties)}")
    resources = {"cpu": wanted.cpu or 1, "memory": wanted.memory or 1, "disk": wanted.disk or 3}
    base = None
    if wanted.snapshot is not None:
        if any((wanted.cpu, wanted.memory, wanted.disk)):
            raise problem(400, "Cannot specify Sandbox resources when using a snapshot")
        kept = emulator.snapshots.get(wanted.snapshot)
        if kept is None:
            raise problem(404, f"Snapshot {wanted.snapshot} not found")
        base, resources = kept.tree, {"cpu": kept.cpu, "memory": kept.memory, "disk": kept.disk}
    for name, most in MOST.items():
        if resources[name] > most:
            asked = f"{name} request {resources[name]}"
            raise problem(403, f"{asked} exceeds maximum allowed per sandbox ({most})")
    ident = str(uuid.uuid4())
    name = wanted.name or ident
    if any(name in (box.name, box.id) for box in emulator.boxes.values()):
        raise problem(409, f"Sandbox with name {name} already exists")
    emulator.check_quota(resources["disk"])
    image = _image(wanted)
    ephemeral = wanted.auto_delete_interval == 0
    box = Box(
        id=ident,
        name=name,
        place=Place(emulator.folder / ident, base=base, folders=(HOME,)),
        created=emulator.clock.time(),
        cpu=resources["cpu"],
        memory=resources["memory"],
        disk=resources["disk"],
        snapshot=wanted.snapshot or (None if image else "daytonaio/sandbox:emulated"),
        image=image,
        env=dict(wanted.env or {}),
        labels=dict(wanted.labels or {}),
        target=wanted.target or "emulated",
        public=bool(wanted.public),
        network_block_all=bool(wanted.network_block_all),
        network_allow_list=wanted.network_allow_list,
        domain_allow_list=wanted.domain_allow_list,
        auto_stop=15 if wanted.auto_stop_interval is None else wanted.auto_stop_interval,
        auto_archive=_archive(wanted.auto_archive_interval),
        auto_delete=0 if ephemeral else _or(wanted.auto_delete_interval, -1),
        ttl=wanted.ttl_minutes or 0,
        state="pending_build" if image else "creating",
    )
    emulator.boxes[ident] = box
    emulator.watch(box)
    if image and emulator.fault("build_fails"):
        box.error = f"the build of {image} failed: no such image"
        emulator.set_state(box, "build_failed")
    else:
        emulator.spawn(emulator.bring_up(box, first=image or "snapshot"))
    if emulator.fault("create_lost"):
        assert request.transport is not None
        request.transport.abort()
    return answer(emulator, box)


def _image(wanted: CreateSandbox) -> str | None:
    if wanted.build_info is None:
        return None
    lines = (wanted.build_info.dockerfile_content or "").split("\n")
    return next((line.split()[1] for line in lines if line.startswith("FROM ")), "scratch")


def _archive(minutes: int | None) -> int:
    return 7 * 24 * 60 if minutes is None else min(minutes or LONGEST_ARCHIVE, LONGEST_ARCHIVE)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


async def list_boxes(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    wanted = json.loads(request.query.get("labels") or "{}")
    states = request.query.getall("states", [])
    first, size = int(request.query.get("cursor") or 0), int(request.query.get("limit") or PAGE)
    boxes = [
        box
        for box in emulator.boxes.values()
        if wanted.items() <= box.labels.items() and (not states or box.state in states)
    ]
    after = str(first + size) if len(boxes) > first + size else None
    page = {"items": [box.item(emulator) for box in boxes[first : first + size]], "nextCursor": after}
    checked = ListSandboxesResponse.from_dict(page)
    assert checked is not None
    return web.json_response(page)


async def get(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    return answer(emulator, found(emulator, request))


async def delete(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    box = found(emulator, request)
    emulator.set_state(box, "destroying")
    emulator.spawn(emulator.destroy(box))
    return answer(emulator, box)


def _changing(box: Box) -> None:
    if box.state in ("creating", "starting", "stopping", "restoring", "snapshotting", "destroying"):
        raise problem(409, f"Sandbox state change in progress: {box.state}")


async def start(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    box = found(emulator, request)
    if box.state == "started":
        return answer(emulator, box)
    _changing(box)
    if box.state not in ("stopped", "archived"):
        raise problem(400, f"Sandbox is in {box.state} state. It cannot be started")
    if box.state == "archived":
        emulator.check_quota(box.disk)
    emulator.set_state(box, "restoring" if box.state == "archived" else "starting")
    emulator.spawn(emulator.bring_up(box))
    return answer(emulator, box)


async def stop(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    box = found(emulator, request)
    _changing(box)
    if box.state != "started":
        raise problem(400, f"Sandbox is not started: {box.state}")
    emulator.set_state(box, "stopping")
    emulator.spawn(emulator.take_down(box))
    return web.json_response(box.dto(emulator), status=201)


async def archive(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    box = found(emulator, request)
    if box.state != "stopped":
        raise problem(400, "Sandbox is not stopped")
    emulator.set_state(box, "archiving")
    emulator.spawn(emulator.take_down(box, "archived"))
    return answer(emulator, box)


async def snapshot(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    box = found(emulator, request)
    wanted = CreateSandboxSnapshot.from_dict(await request.json())
    assert wanted is not None
    _changing(box)
    if box.state not in ("started", "stopped"):
        raise problem(400, f"Sandbox is in {box.state} state: no snapshot can be made of it")
    if wanted.name in emulator.snapshots:
        raise problem(409, f"Snapshot with name {wanted.name} already exists")
    before = box.state
    emulator.set_state(box, "snapshotting")
    emulator.spawn(_keep(emulator, box, wanted.name, before))
    return answer(emulator, box)


async def _keep(emulator: Daytona, box: Box, name: str, before: str) -> None:
    ident = str(uuid.uuid4())
    tree = emulator.folder / f"snapshot-{ident}"
    await emulator.linger()
    await box.place.copy(tree)
    if box.id not in emulator.boxes:
        return
    emulator.snapshots[name] = Snapshot(
        ident, name, tree, box.cpu, box.memory, box.disk, emulator.clock.time()
    )
    emulator.set_state(box, before)


async def active(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    found(emulator, request).activity = emulator.clock.time()
    return web.Response(status=201)


async def labels(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    box = found(emulator, request)
    box.labels = dict((await request.json())["labels"])
    return web.json_response({"labels": box.labels})


async def proxy(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    found(emulator, request)
    return web.json_response({"url": f"{emulator.url}/toolbox"})


def _preview(box: Box, request: web.Request) -> dict[str, Any]:
    # A place has the network of this machine, so a port of it is one of 127.0.0.1.
    return {"sandboxId": box.id, "url": f"http://127.0.0.1:{request.match_info['port']}", "token": "emulated"}


async def preview(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    facts = _preview(found(emulator, request), request)
    assert PortPreviewUrl.from_dict(facts) is not None
    return web.json_response(facts)


async def signed_preview(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    facts = _preview(found(emulator, request), request)
    facts["port"] = int(request.match_info["port"])
    assert SignedPortPreviewUrl.from_dict(facts) is not None
    return web.json_response(facts)


async def ssh_access(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    box, now = found(emulator, request), emulator.clock.time()
    minutes = float(request.query.get("expiresInMinutes") or 60)
    facts = {
        "id": str(uuid.uuid4()),
        "sandboxId": box.id,
        "token": "emulated",
        "expiresAt": emulator.stamp(now + minutes * 60),
        "createdAt": emulator.stamp(now),
        "updatedAt": emulator.stamp(now),
        "sshCommand": "ssh emulated@127.0.0.1",
    }
    assert SshAccessDto.from_dict(facts) is not None
    return web.json_response(facts)


async def interval(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    box, minutes = found(emulator, request), int(request.match_info["minutes"])
    which = request.path.split("/")[-2]
    if which == "autostop":
        box.auto_stop = minutes
    elif which == "autoarchive":
        box.auto_archive = _archive(minutes)
    elif which == "autodelete":
        box.auto_delete = minutes
    else:
        box.ttl = int((emulator.clock.time() - box.created) // 60) + minutes if minutes else 0
    emulator.watch(box)
    return answer(emulator, box)


def _snapshot(emulator: Daytona, kept: Snapshot) -> dict[str, Any]:
    stamp = emulator.stamp(kept.created)
    facts = {
        "id": kept.id,
        "organizationId": "emulated-organization",
        "general": False,
        "name": kept.name,
        "imageName": None,
        "state": "active",
        "size": 0.1,
        "entrypoint": [],
        "cpu": kept.cpu,
        "gpu": 0,
        "mem": kept.memory,
        "disk": kept.disk,
        "errorReason": None,
        "createdAt": stamp,
        "updatedAt": stamp,
        "lastUsedAt": None,
        "sourceSandboxId": None,
    }
    assert SnapshotDto.from_dict(facts) is not None
    return facts


def _kept(emulator: Daytona, request: web.Request) -> Snapshot:
    wanted = request.match_info["name"]
    for one in emulator.snapshots.values():
        if wanted in (one.id, one.name):
            return one
    raise problem(404, f"Snapshot {wanted} not found")


async def list_snapshots(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    items = [_snapshot(emulator, one) for one in emulator.snapshots.values()]
    page = {"items": items, "total": len(items), "page": 1, "totalPages": 1}
    assert PaginatedSnapshots.from_dict(page) is not None
    return web.json_response(page)


async def get_snapshot(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    return web.json_response(_snapshot(emulator, _kept(emulator, request)))


async def delete_snapshot(emulator: Daytona, request: web.Request) -> web.StreamResponse:
    del emulator.snapshots[_kept(emulator, request).name]
    return web.Response(status=200)
