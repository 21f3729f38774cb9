"""An emulated Modal, with which Modal's own SDK talks as with the real one.

What it models: sandboxes with roots of their own, processes with resumable streams, filesystem snapshots,
fixed lifetimes, idle timeouts, names that are unique, the limit of creations and of arguments, tokens that
expire. What it does not: images (every sandbox has this machine's system), limits of memory and processor,
lists of allowed hosts (``block_network`` does count), tunnels, volumes, GPUs other than by name.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from grpclib import GRPCError, Status
from grpclib.const import Cardinality, Handler
from grpclib.events import SendInitialMetadata, listen
from grpclib.server import Server
from modal._utils.grpc_utils import custom_detail_codec
from modal_proto import api_grpc, task_command_router_grpc

from .._control import SIGN, Emulator
from .._line import Line
from ._router import Router
from ._service import TOKEN, ControlPlane

__all__ = ["EMULATOR", "ModalEmulator"]

_ONCE = {
    "SandboxCreateV2": "x-idempotency-key",
    "SandboxCreate": "x-idempotency-key",
    "TaskExecStart": "exec_id",
    "TaskSnapshotFilesystem": "snapshot_id",
}
"""The calls that clients repeat when their answer was lost, and what tells a repetition."""


class ModalEmulator(Emulator):
    """Two servers of gRPC on loopback: the control plane, and one worker for all sandboxes."""

    name = "modal"
    faults_known: ClassVar[dict[str, str]] = {
        "token_expired": "a call to the control plane is refused as not authenticated",
        "worker_token_expired": "a token for the worker is given out that has expired when it is used",
        "unavailable": "a call about sandboxes finds the control plane unavailable",
        "exhausted": "a creation is refused as one too many; retry_after: seconds that the server names",
        "create_hangs": "a creation succeeds, and is never answered",
        "image_fails": "an image cannot be built",
        "stopped": "the sandbox ends as a process is to be started in it",
        "stopped_in_command": "the sandbox ends as something is written to a process in it",
        "snapshot_slow": "a snapshot takes so many seconds (60) of the emulated clock",
        "snapshot_fails": "a snapshot ends with an error",
        "snapshot_expired": "an image is not there any more",
    }

    def __init__(self, folder: Path, line: Line) -> None:
        super().__init__(folder, line)
        self.control = ControlPlane(self)
        self.router_url = ""
        self._servers: list[Server] = []

    async def start(self) -> dict[str, str]:
        for name in ("sandboxes", "images"):
            await asyncio.to_thread((self.folder / name).mkdir)
        worker = await self._serve(Router(self, self.control), task_command_router_grpc.TaskCommandRouterBase)
        self.router_url = f"http://127.0.0.1:{worker}"
        port = await self._serve(self.control, api_grpc.ModalClientBase)
        return {
            "MODAL_SERVER_URL": f"http://127.0.0.1:{port}",
            "MODAL_TOKEN_ID": TOKEN[0],
            "MODAL_TOKEN_SECRET": TOKEN[1],
            "MODAL_CONFIG_PATH": str(self.folder / "none.toml"),  # so that no real token is ever read
        }

    async def _serve(self, service: Any, base: type) -> int:
        server = Server([_Service(self, service, base)], status_details_codec=custom_detail_codec)
        listen(server, SendInitialMetadata, self._sign)
        self._servers.append(server)
        # asyncio sends small packets at once on sockets that name their protocol.
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.bind(("127.0.0.1", 0))
        await server.start(sock=listening)
        return await self.line.expose(listening.getsockname()[1])

    async def _sign(self, event: SendInitialMetadata) -> None:
        event.metadata[SIGN] = self.name

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for one in self.control.sandboxes.values():
            one.finish(0, 0)
        for one in self.control.sandboxes.values():
            await one.gone()
        for server in self._servers:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(server.wait_closed(), 2)

    def sandboxes(self) -> list[dict[str, Any]]:
        return [
            {
                "id": one.id,
                "name": one.name,
                "state": "running" if one.result is None else "ended",
                "labels": one.tags,
                "created": one.created,
                "timeout": one.definition.timeout_secs,
                "idle_timeout": one.definition.idle_timeout_secs,
                "gpu": one.definition.resources.gpu_config.gpu_type,
                "cpu": one.definition.resources.milli_cpu / 1000,
                "memory": one.definition.resources.memory_mb,
                "network": one.definition.network_access.network_access_type,
                "domains": list(one.definition.network_access.allowed_domains),
                "cidrs": list(one.definition.network_access.allowed_cidrs),
                "regions": list(one.definition.scheduler_placement.regions),
            }
            for one in self.control.sandboxes.values()
        ] + [
            {"id": one.id, "state": "image", "snapshot": one.tree is not None, "from": one.reference}
            for one in self.control.images
        ]


class _Service:
    """All methods that the generated class of a service has: those that we have, and refusals."""

    def __init__(self, emulator: ModalEmulator, ours: Any, base: type) -> None:
        self._emulator = emulator
        self._ours = ours
        self._base = base
        self._once: dict[tuple[str, str], asyncio.Task[Any]] = {}

    def __mapping__(self) -> dict[str, Handler]:
        names = {name: _refused for name in self._base.__abstractmethods__}  # type: ignore[attr-defined]
        theirs = type("Theirs", (self._base,), names)().__mapping__()
        return {path: self._handler(path.rpartition("/")[2], handler) for path, handler in theirs.items()}

    def _handler(self, name: str, theirs: Handler) -> Handler:
        method: Callable[[Any], Any] | None = getattr(self._ours, name, None)
        streams = theirs.cardinality is Cardinality.UNARY_STREAM
        fed = theirs.cardinality is Cardinality.STREAM_UNARY

        async def answer(stream: Any) -> None:
            if method is None:
                self._emulator.unknown(name)
                raise GRPCError(Status.UNIMPLEMENTED, f"this emulator does not know {name}")
            call = self._emulator.called(name)
            try:
                request = stream if fed else await stream.recv_message()
                if not fed and "StdinWrite" not in name:
                    self._emulator.heard(name, request.SerializeToString(), repr(stream.metadata).encode())
                self._ours.check(name, stream.metadata)
                if streams:
                    async with contextlib.aclosing(method(request)) as answers:
                        async for one in answers:
                            await stream.send_message(one)
                else:
                    await stream.send_message(await self._do(name, method, request, stream.metadata))
            except BaseException:
                call["ok"] = False
                raise

        return Handler(answer, theirs.cardinality, theirs.request_type, theirs.reply_type)

    async def _do(self, name: str, method: Callable[[Any], Any], request: Any, metadata: Any) -> Any:
        """Do what a call asks for: what must not happen twice, once for all attempts of a client."""
        mark = _ONCE.get(name)
        if mark is None:
            return await method(request)
        given = metadata.get(mark) if mark.startswith("x-") else getattr(request, mark)
        key = (name, given)
        if key not in self._once or not given:
            self._once[key] = asyncio.ensure_future(method(request))
        task = self._once[key]
        try:
            return await asyncio.shield(task)
        finally:
            if task.done() and (task.cancelled() or task.exception() is not None):
                self._once.pop(key, None)


async def _refused(self: object, stream: object) -> None:
    raise NotImplementedError


EMULATOR = ModalEmulator
