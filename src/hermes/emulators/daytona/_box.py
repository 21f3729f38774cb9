"""One emulated sandbox: its facts as the API tells them, its terminals, and when something is due."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web
from daytona_api_client_async import Sandbox as Answer
from daytona_api_client_async import SandboxListItem

from .._clock import Timer
from .._place import Place

if TYPE_CHECKING:
    from . import Daytona
    from ._pty import Terminal
    from ._sessions import Session

DAEMON = "DAYTONA_DAEMON"
HOME = "/root"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_KINDS: dict[int, type[web.HTTPException]] = {
    kind.status_code: kind
    for kind in (
        web.HTTPBadRequest, web.HTTPUnauthorized, web.HTTPForbidden, web.HTTPNotFound, web.HTTPConflict,
        web.HTTPRequestTimeout, web.HTTPTooManyRequests, web.HTTPNotImplemented, web.HTTPBadGateway,
        web.HTTPServiceUnavailable,
    )
}  # fmt: skip


def problem(
    status: int,
    message: str,
    *,
    code: str | None = None,
    source: str = "DAYTONA_API",
    headers: Mapping[str, str] | None = None,
) -> web.HTTPException:
    """Return an error as the API answers it."""
    body = {"statusCode": status, "message": message, "source": source, **({"code": code} if code else {})}
    kind = _KINDS[status]
    return kind(text=json.dumps(body), content_type="application/json", headers=headers)


@dataclass
class Snapshot:
    """Files to make sandboxes from, and the resources that they get."""

    id: str
    name: str
    tree: Path
    cpu: int
    memory: int
    disk: int
    created: float


@dataclass
class Box:
    """A sandbox. Intervals are in minutes, times are those of the emulator's clock."""

    id: str
    name: str
    place: Place
    created: float
    cpu: int = 1
    memory: int = 1
    disk: int = 3
    snapshot: str | None = None
    image: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    target: str = "emulated"
    public: bool = False
    network_block_all: bool = False
    network_allow_list: str | None = None
    domain_allow_list: str | None = None
    auto_stop: int = 15
    auto_archive: int = 7 * 24 * 60
    auto_delete: int = -1
    ttl: int = 0
    state: str = "creating"
    error: str | None = None
    changed: float = 0.0
    activity: float = 0.0
    idle_since: float = 0.0
    timer: Timer | None = None
    terminals: dict[str, Terminal] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def dto(self, emulator: Daytona) -> dict[str, Any]:
        """Return what the API answers, which the SDK's own model has checked."""
        answer = Answer.from_dict(self._facts(emulator))
        assert answer is not None
        return answer.to_dict()

    def item(self, emulator: Daytona) -> dict[str, Any]:
        """Return what a list of sandboxes has of it."""
        answer = SandboxListItem.from_dict(self._facts(emulator))
        assert answer is not None
        return answer.to_dict()

    def _facts(self, emulator: Daytona) -> dict[str, Any]:
        facts = {
            "id": self.id,
            "organizationId": "emulated-organization",
            "name": self.name,
            "snapshot": self.snapshot,
            "user": "root",
            "env": self.env,
            "labels": self.labels,
            "public": self.public,
            "networkBlockAll": self.network_block_all,
            "networkAllowList": self.network_allow_list,
            "domainAllowList": self.domain_allow_list,
            "kvm": False,
            "target": self.target,
            "cpu": self.cpu,
            "gpu": 0,
            "memory": self.memory,
            "disk": self.disk,
            "state": self.state,
            "desiredState": "started" if self.state in ("creating", "starting", "started") else "stopped",
            "errorReason": self.error,
            "autoStopInterval": self.auto_stop,
            "autoArchiveInterval": self.auto_archive,
            "autoDeleteInterval": self.auto_delete,
            "createdAt": emulator.stamp(self.created),
            "updatedAt": emulator.stamp(self.changed or self.created),
            "lastActivityAt": emulator.stamp(self.activity or self.created),
            "sandboxClass": "container",
            "daemonVersion": "emulated",
            "toolboxProxyUrl": f"{emulator.url}/toolbox",
        }
        if self.ttl:
            facts["autoDestroyAt"] = emulator.stamp(self.created + self.ttl * 60)
        return facts

    def due(self) -> tuple[float, str] | None:
        """Return when what happens next by itself, None for nothing.

        A running sandbox is stopped after a time without calls. Processes in it, and what goes over a
        terminal that is open, do not count.
        """
        found: list[tuple[float, str]] = []
        if self.state == "started" and self.auto_stop:
            found.append((self.activity + self.auto_stop * 60, "stop" if self.auto_delete else "delete"))
        if self.state in ("stopped", "archived") and self.auto_delete > 0:
            found.append((self.idle_since + self.auto_delete * 60, "delete"))
        if self.state == "stopped" and self.auto_archive:
            found.append((self.idle_since + self.auto_archive * 60, "archive"))
        if self.ttl and self.state not in ("destroying", "destroyed"):
            found.append((self.created + self.ttl * 60, "delete"))
        return min(found, default=None)

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a process in it."""
        own = {
            "HOME": HOME,
            "PATH": PATH,
            "USER": "root",
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "DAYTONA_SANDBOX_ID": self.id,
        }
        return {**own, **self.env, **(more or {})}

    def cut(self) -> None:
        """Break every connection to it, as when the server in it is gone."""
        for terminal in list(self.terminals.values()):
            terminal.cut()
        self.sessions.clear()


def shell() -> str:
    """Return the shell that commands run in."""
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
