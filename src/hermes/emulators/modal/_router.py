"""The emulated worker: ``modal.task_command_router.TaskCommandRouter``, processes and snapshots."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from grpclib import GRPCError, Status
from modal_proto import api_pb2
from modal_proto import task_command_router_pb2 as router_pb2

from ._service import ControlPlane, variables
from ._world import Execution, Image, Sandbox

if TYPE_CHECKING:
    from . import ModalEmulator

__all__ = ["Router"]


class Router:
    """The methods of the service, by their names there. One that streams yields its answers."""

    def __init__(self, emulator: ModalEmulator, control: ControlPlane) -> None:
        self._emulator = emulator
        self._control = control
        self._snapshots: dict[str, str] = {}

    def check(self, name: str, metadata: Mapping[str, Any]) -> None:
        """Refuse a caller without the token that the control plane gave it."""
        token = str(metadata.get("authorization", "")).removeprefix("Bearer ")
        if token not in self._control.tokens:
            raise GRPCError(Status.UNAUTHENTICATED, "the token has expired or was never given out")

    def _sandbox(self, task: str) -> Sandbox:
        for one in self._control.sandboxes.values():
            if one.task == task:
                if one.result is not None:
                    raise GRPCError(Status.NOT_FOUND, f"task {task} has finished")
                return one
        raise GRPCError(Status.NOT_FOUND, f"no task {task}")

    def _execution(self, request: Any) -> tuple[Sandbox, Execution]:
        sandbox = self._sandbox(request.task_id)
        found = sandbox.executions.get(request.exec_id)
        if found is None:
            raise GRPCError(Status.NOT_FOUND, f"no exec {request.exec_id}")
        return sandbox, found

    async def TaskExecStart(self, request: Any) -> Any:
        if request.HasField("pty_info"):
            self._emulator.unknown("TaskExecStart with a terminal")
            raise GRPCError(Status.UNIMPLEMENTED, "this emulator gives processes no terminal")
        sandbox = self._sandbox(request.task_id)
        if self._emulator.fault("stopped"):
            sandbox.finish(api_pb2.GenericResult.GENERIC_STATUS_TERMINATED, 137)
            raise GRPCError(Status.NOT_FOUND, f"task {sandbox.task} has finished")
        await sandbox.execute(request, {**dict(request.env), **variables(request.secret_sources)})
        return router_pb2.TaskExecStartResponse()

    async def TaskExecStdioRead(self, request: Any) -> AsyncIterator[Any]:
        sandbox, found = self._execution(request)
        second = request.file_descriptor == router_pb2.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDERR
        async for _, data in (found.err if second else found.out).pieces(request.offset):
            yield router_pb2.TaskExecStdioReadResponse(data=data)
        if sandbox.result is not None:
            raise GRPCError(Status.NOT_FOUND, f"task {sandbox.task} has finished")

    async def TaskExecStdinWrite(self, request: Any) -> Any:
        sandbox, found = self._execution(request)
        if self._emulator.fault("stopped_in_command"):
            sandbox.finish(api_pb2.GenericResult.GENERIC_STATUS_TERMINATED, 137)
            raise GRPCError(Status.NOT_FOUND, f"task {sandbox.task} has finished")
        sandbox.used()
        await found.write(request.offset, request.data, request.eof)
        return router_pb2.TaskExecStdinWriteResponse()

    async def TaskExecStdinWriteStream(self, requests: AsyncIterator[Any]) -> Any:
        start = (await anext(aiter(requests))).start
        offset = start.offset
        async for request in requests:
            sandbox, found = self._execution(start)
            sandbox.used()
            await found.write(offset, request.data, request.HasField("end"))
            offset += len(request.data)
        return router_pb2.TaskExecStdinWriteStreamResponse()

    async def TaskExecStdinStatus(self, request: Any) -> Any:
        _, found = self._execution(request)
        return router_pb2.TaskExecStdinStatusResponse(num_bytes_written=found.written, closed=found.closed)

    async def TaskExecPoll(self, request: Any) -> Any:
        _, found = self._execution(request)
        return router_pb2.TaskExecPollResponse(**_status(found.code))

    async def TaskExecWait(self, request: Any) -> Any:
        _, found = self._execution(request)
        return router_pb2.TaskExecWaitResponse(**_status(await found.wait()))

    async def SandboxStdioReadV2(self, request: Any) -> AsyncIterator[Any]:
        entry = self._sandbox(request.task_id).entry
        if entry is None:
            return
        second = request.file_descriptor == router_pb2.SANDBOX_STDIO_FILE_DESCRIPTOR_STDERR
        async for offset, data in (entry.err if second else entry.out).pieces(request.offset):
            yield router_pb2.SandboxStdioReadV2Response(data=data, starting_offset=offset)

    async def SandboxStdinWriteV2(self, request: Any) -> Any:
        sandbox = self._sandbox(request.task_id)
        if sandbox.entry is None:
            raise GRPCError(Status.FAILED_PRECONDITION, "the sandbox has no process of its own")
        sandbox.used()
        await sandbox.entry.write(request.offset, request.data, request.eof)
        return router_pb2.SandboxStdinWriteV2Response()

    async def TaskSnapshotFilesystem(self, request: Any) -> Any:
        sandbox, clock = self._sandbox(request.task_id), self._emulator.clock
        if fault := self._emulator.fault("snapshot_slow"):
            await clock.sleep(float(fault.get("seconds", 60)))
            self._sandbox(request.task_id)  # its lifetime may have ended meanwhile
        if self._emulator.fault("snapshot_fails"):
            raise GRPCError(Status.INTERNAL, "the snapshot could not be taken")
        if request.snapshot_id not in self._snapshots:
            ttl = request.ttl_seconds if request.HasField("ttl_seconds") else 30 * 86400
            image = Image(expires=clock.time() + ttl if ttl > 0 else None)
            image.tree = self._emulator.folder / "images" / image.id
            await sandbox.place.copy(image.tree)
            self._control.keep(image)
            self._snapshots[request.snapshot_id] = image.id
        return router_pb2.TaskSnapshotFilesystemResponse(image_id=self._snapshots[request.snapshot_id])


def _status(code: int | None) -> dict[str, int]:
    if code is None:
        return {}
    return {"signal": -code} if code < 0 else {"code": code}
