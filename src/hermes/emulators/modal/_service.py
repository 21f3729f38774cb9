"""The emulated control plane: ``modal.client.ModalClient``, as far as sandboxes need it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from grpclib import GRPCError, Status
from modal_proto import api_pb2

from ._world import Changes, Image, Sandbox, identifier

if TYPE_CHECKING:
    from . import ModalEmulator

__all__ = ["ControlPlane", "jwt", "variables"]

CREATIONS = 5  # per second
MAX_LIFETIME = 24 * 3600
TOKEN_SECONDS = 20 * 60
HANG = 3600.0
TOKEN = ("ak-emulated", "as-emulated")
_JAVASCRIPT = str(api_pb2.CLIENT_TYPE_LIBMODAL_JS)
_client: ContextVar[str] = ContextVar("client")
"""Which of Modal's SDKs asks."""


def jwt(kind: str, seconds: float = TOKEN_SECONDS) -> str:
    """Return a token of the shape that the SDK takes apart for its expiry."""

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {"exp": time.time() + seconds, "emulator": True, "kind": kind, "id": identifier("jwt")}
    return f"{part({'alg': 'none'})}.{part(claims)}.emulated"


def variables(sources: Any) -> dict[str, str]:
    """Return the variables that a request sets. Those kept on the server are not known here."""
    found: dict[str, str] = {}
    for one in sources:
        found.update(dict(one.env.contents))
    return found


class ControlPlane:
    """The methods of the service, by their names there: each takes a request and returns the answer.

    Those of the older backend (a sandbox with a GPU) differ in their names and in the sandbox's id.
    """

    def __init__(self, emulator: ModalEmulator) -> None:
        self._emulator = emulator
        self._apps: dict[str, str] = {}
        self._images: dict[str, Image] = {}
        self._references: dict[str, str] = {}
        self._created: list[float] = []
        self.sandboxes: dict[str, Sandbox] = {}
        self.tokens: set[str] = set()
        self._new = Changes()

    def check(self, name: str, metadata: Mapping[str, Any]) -> None:
        """Refuse a caller that does not say who it is, or has a token of the real service."""
        _client.set(str(metadata.get("x-modal-client-type", "")))
        known = (metadata.get("x-modal-token-id"), metadata.get("x-modal-token-secret"))
        if known != TOKEN:
            raise GRPCError(
                Status.UNAUTHENTICATED,
                "Token ID is malformed: this is an emulator, which takes no token but its own",
            )
        expired = self._emulator.fault("token_expired") if name != "AuthTokenGet" else None
        wanted = name.endswith("V2") or name == "SandboxGetCommandRouterAccess"
        if expired or (wanted and metadata.get("x-modal-auth-token") not in self.tokens):
            raise GRPCError(Status.UNAUTHENTICATED, "the auth token has expired or was never given out")
        if name.startswith("Sandbox") and self._emulator.fault("unavailable"):
            raise GRPCError(Status.UNAVAILABLE, "the server is busy with something else")

    # --- what sandboxes are made with

    async def AuthTokenGet(self, request: Any) -> Any:
        token = jwt("auth")
        self.tokens.add(token)
        return api_pb2.AuthTokenGetResponse(token=token)

    async def EnvironmentGetOrCreate(self, request: Any) -> Any:
        settings = api_pb2.EnvironmentSettings(image_builder_version="2025.06")
        return api_pb2.EnvironmentGetOrCreateResponse(
            environment_id="en-emulated", metadata=api_pb2.EnvironmentMetadata(name="main", settings=settings)
        )

    async def AppGetOrCreate(self, request: Any) -> Any:
        wanted = request.object_creation_type == api_pb2.OBJECT_CREATION_TYPE_CREATE_IF_MISSING
        if request.app_name not in self._apps and not wanted:
            raise GRPCError(Status.NOT_FOUND, f"App '{request.app_name}' not found")
        ident = self._apps.setdefault(request.app_name, identifier("ap"))
        return api_pb2.AppGetOrCreateResponse(app_id=ident)

    async def ImageGetOrCreate(self, request: Any) -> Any:
        commands = "\n".join(request.image.dockerfile_commands)
        if self._emulator.fault("image_fails"):
            result = api_pb2.GenericResult(
                status=api_pb2.GenericResult.GENERIC_STATUS_FAILURE, exception="the image cannot be pulled"
            )
            return api_pb2.ImageGetOrCreateResponse(image_id=identifier("im"), result=result)
        if commands not in self._references:
            image = Image(reference=commands)
            self._images[image.id] = image
            self._references[commands] = image.id
        success = api_pb2.GenericResult(status=api_pb2.GenericResult.GENERIC_STATUS_SUCCESS)
        return api_pb2.ImageGetOrCreateResponse(
            image_id=self._references[commands], result=success, metadata=api_pb2.ImageMetadata()
        )

    async def ImageFromId(self, request: Any) -> Any:
        image = self._image(request.image_id)
        return api_pb2.ImageFromIdResponse(image_id=image.id, metadata=api_pb2.ImageMetadata())

    async def ImageDelete(self, request: Any) -> Any:
        image = self._image(request.image_id)
        del self._images[image.id]
        if image.tree is not None:
            await asyncio.to_thread(_remove, image)
        return empty_pb2.Empty()

    def keep(self, image: Image) -> None:
        """Take an image that a snapshot made."""
        self._images[image.id] = image

    @property
    def images(self) -> list[Image]:
        """All images that there are."""
        return [one for one in self._images.values() if not self._expired(one)]

    def _expired(self, image: Image) -> bool:
        return image.expires is not None and image.expires <= self._emulator.clock.time()

    def _image(self, ident: str) -> Image:
        image = self._images.get(ident)
        if image is None or self._expired(image) or self._emulator.fault("snapshot_expired"):
            raise GRPCError(Status.NOT_FOUND, f"Image with ID {ident} not found")
        return image

    # --- sandboxes

    async def SandboxCreateV2(self, request: Any) -> Any:
        if request.definition.resources.gpu_config.gpu_type:
            raise GRPCError(Status.INVALID_ARGUMENT, "GPUs are not supported by V2 sandboxes")
        sandbox = await self._create(request, variables(request.secret_sources), old=False)
        access = api_pb2.CommandRouterAccess(jwt=self._worker_token(), url=self._worker_url())
        return api_pb2.SandboxCreateV2Response(
            sandbox_id=sandbox.id,
            task_id=sandbox.task,
            command_router_access=access,
            metadata=api_pb2.SandboxHandleMetadata(app_id=sandbox.app),
        )

    async def SandboxCreate(self, request: Any) -> Any:
        sandbox = await self._create(request, {}, old=True)
        return api_pb2.SandboxCreateResponse(
            sandbox_id=sandbox.id, metadata=api_pb2.SandboxHandleMetadata(app_id=sandbox.app)
        )

    async def _create(self, request: Any, env: Mapping[str, str], *, old: bool) -> Sandbox:
        emulator, wish = self._emulator, request.definition
        if fault := emulator.fault("exhausted"):
            details = None
            if "retry_after" in fault:
                details = [api_pb2.RPCRetryPolicy(retry_after_secs=float(fault["retry_after"]))]
            raise GRPCError(Status.RESOURCE_EXHAUSTED, "Sandbox creation is limited for now", details)
        now = emulator.clock.time()
        self._created = [one for one in self._created if one > now - 1]
        if len(self._created) >= CREATIONS:
            said = f"Sandbox creation rate limit ({CREATIONS}/s) exceeded"
            raise GRPCError(Status.RESOURCE_EXHAUSTED, said)
        if not 0 < wish.timeout_secs <= MAX_LIFETIME:
            raise GRPCError(Status.INVALID_ARGUMENT, f"the timeout must be within {MAX_LIFETIME} seconds")
        if request.app_id not in self._apps.values():
            raise GRPCError(Status.NOT_FOUND, f"App with ID {request.app_id} not found")
        if wish.name and self._named(request.app_id, wish.name):
            raise GRPCError(Status.ALREADY_EXISTS, f"Sandbox with name '{wish.name}' already exists")
        image = self._image(wish.image_id)
        self._created.append(now)
        tags = {tag.tag_name: tag.tag_value for tag in request.tags}
        folder, clock = emulator.folder / "sandboxes", emulator.clock
        sandbox = Sandbox(wish, request.app_id, tags, folder, clock, old=old)
        self.sandboxes[sandbox.id] = sandbox  # its name is taken from here on
        try:
            await sandbox.start(image.tree, env)
        except BaseException:
            del self.sandboxes[sandbox.id]
            raise
        if emulator.fault("create_hangs"):
            await clock.sleep(HANG)  # it exists, and whoever asked for it is not told
        return sandbox

    def _named(self, app: str, name: str, *, ended: bool = False) -> Sandbox | None:
        found = [one for one in self.sandboxes.values() if (one.app, one.name) == (app, name)]
        running = [one for one in found if one.result is None]
        return next(iter(running or (found[::-1] if ended else [])), None)

    def sandbox(self, ident: str) -> Sandbox:
        """Return a sandbox by its id, ended or not.

        :raises GRPCError: there never was one
        """
        found = self.sandboxes.get(ident)
        if found is None:
            raise GRPCError(Status.NOT_FOUND, f"Sandbox with ID {ident} not found")
        return found

    async def SandboxGetTaskIdV2(self, request: Any) -> Any:
        sandbox = self.sandbox(request.sandbox_id)
        if sandbox.result is not None:
            return api_pb2.SandboxGetTaskIdResponse(task_result=sandbox.result)
        return api_pb2.SandboxGetTaskIdResponse(task_id=sandbox.task)

    async def SandboxGetCommandRouterAccess(self, request: Any) -> Any:
        sandbox = self.sandbox(request.sandbox_id)
        if sandbox.result is not None:
            raise GRPCError(Status.FAILED_PRECONDITION, "Sandbox already finished")
        return api_pb2.SandboxGetCommandRouterAccessResponse(jwt=self._worker_token(), url=self._worker_url())

    async def TaskGetCommandRouterAccess(self, request: Any) -> Any:
        if all(one.task != request.task_id or one.result is not None for one in self.sandboxes.values()):
            raise GRPCError(Status.NOT_FOUND, f"Task {request.task_id} not found")
        return api_pb2.TaskGetCommandRouterAccessResponse(jwt=self._worker_token(), url=self._worker_url())

    def _worker_url(self) -> str:
        url = self._emulator.router_url
        # That SDK takes no other address, and then speaks to this machine without TLS.
        return url.replace("http:", "https:") if _client.get() == _JAVASCRIPT else url

    def _worker_token(self) -> str:
        if self._emulator.fault("worker_token_expired"):
            return jwt("worker", 1)
        token = jwt("worker")
        self.tokens.add(token)
        return token

    async def SandboxWaitV2(self, request: Any) -> Any:
        sandbox = self.sandbox(request.sandbox_id)
        if sandbox.result is None and request.timeout > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(sandbox.ended.wait(), request.timeout)
        return api_pb2.SandboxWaitResponse(
            result=sandbox.result, metadata=api_pb2.SandboxHandleMetadata(app_id=sandbox.app)
        )

    async def SandboxTerminateV2(self, request: Any) -> Any:
        sandbox = self.sandbox(request.sandbox_id)
        before = sandbox.result
        sandbox.finish(api_pb2.GenericResult.GENERIC_STATUS_TERMINATED, 137)
        return api_pb2.SandboxTerminateResponse(existing_result=before)

    async def SandboxGetFromNameV2(self, request: Any) -> Any:
        app = self._apps.get(request.app_name)
        found = self._named(app, request.sandbox_name, ended=request.include_terminated) if app else None
        if found is None:
            raise GRPCError(Status.NOT_FOUND, f"Sandbox '{request.sandbox_name}' not found")
        return api_pb2.SandboxGetFromNameResponse(
            sandbox_id=found.id, metadata=api_pb2.SandboxHandleMetadata(app_id=found.app)
        )

    async def SandboxListV2(self, request: Any) -> Any:
        wanted = {tag.tag_name: tag.tag_value for tag in request.tags}
        found = [
            one
            for one in self.sandboxes.values()
            if (not request.app_id or one.app == request.app_id)
            and (request.include_finished or one.result is None)
            and (not request.before_timestamp or one.created < request.before_timestamp)
            and wanted.items() <= one.tags.items()
        ]
        found.sort(key=lambda one: -one.created)
        infos = [
            api_pb2.SandboxInfo(
                id=one.id,
                created_at=one.created,
                app_id=one.app,
                name=one.name,
                tags=self._tags(one),
                timeout_secs=one.definition.timeout_secs,
                task_info=api_pb2.TaskInfo(id=one.task, started_at=one.created, result=one.result),
                metadata=api_pb2.SandboxHandleMetadata(app_id=one.app, result=one.result),
            )
            for one in found[:100]
        ]
        return api_pb2.SandboxListResponse(sandboxes=infos)

    @staticmethod
    def _tags(sandbox: Sandbox) -> list[Any]:
        return [api_pb2.SandboxTag(tag_name=key, tag_value=value) for key, value in sandbox.tags.items()]

    async def SandboxTagsGetV2(self, request: Any) -> Any:
        return api_pb2.SandboxTagsGetResponse(tags=self._tags(self.sandbox(request.sandbox_id)))

    async def SandboxTagsSetV2(self, request: Any) -> Any:
        self.sandbox(request.sandbox_id).tags = {tag.tag_name: tag.tag_value for tag in request.tags}
        return empty_pb2.Empty()

    SandboxGetTaskId = SandboxGetTaskIdV2
    SandboxWait = SandboxWaitV2
    SandboxTerminate = SandboxTerminateV2
    SandboxGetFromName = SandboxGetFromNameV2
    SandboxList = SandboxListV2
    SandboxTagsGet = SandboxTagsGetV2
    SandboxTagsSet = SandboxTagsSetV2


def _remove(image: Image) -> None:
    import shutil

    assert image.tree is not None
    shutil.rmtree(image.tree, ignore_errors=True)
