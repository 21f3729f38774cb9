"""The singularity backend: a container of apptainer or singularity, driven through the client program."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hermes._tasks import settled
from hermes.config import Config, Slurm, section
from hermes.errors import BackendError, HermesError, SandboxGone, Unreachable
from hermes.guest.dirs import SOCKET

from .._least import check_least
from .._memory import guest_ended
from .._workspace import lost_files, unchanged
from ..base import Backend, ByteChannel, Capabilities, GuestDirs, PlaceState, Shown, Spec
from ..channels import ProcessChannel, SocketChannel
from . import workdir
from ._client import Client, client_for, enforceable, host
from ._files import PREFIX, Files
from ._here import Here, Runner
from ._image import ensure
from ._options import CREDENTIALS, HOME, RUN, WORKSPACE
from ._plan import Plan, plan_for
from ._prune import prune
from ._slurm import SlurmJob
from ._start import ASK, clean_environment

if TYPE_CHECKING:
    from hermes.state import Store

DIAGNOSE_TRIES = 10


class SingularityBackend(Backend):
    """Commands run in an instance of its own, with its own files, on this machine or in a job of SLURM."""

    name: ClassVar[str] = "singularity"

    def __init__(self, spec: Spec, config: Config) -> None:
        super().__init__(spec, config)
        self._plan: Plan | None = None
        self._client: Client | None = None
        self._files: Files | None = None
        self._runner: Runner | None = None
        self._made: dict[str, Any] = {}
        self._limits: frozenset[str] | None = None

    @classmethod
    async def check(cls, config: Config) -> None:
        await client_for(config.singularity.program)

    @property
    def capabilities(self) -> Capabilities:
        reasons = tuple(self._made["reasons"] if self._made else self._plan.reasons if self._plan else ())
        limits = self._limits
        if limits is None:  # nobody has looked yet
            limits = frozenset({"cpus", "memory", "pids"}) if os.geteuid() == 0 else frozenset()
        return Capabilities(
            isolation="none" if reasons else "container",
            persistent=True,
            suspend=True,
            network_off=True,
            shares_network=self.spec.network != "off",
            limits=limits,
            workspace=frozenset({"private", "here", "path"}),
            shared_kernel=True,
            judged=bool(reasons),
            reaches_host=reasons,
            verified="real",
        )

    def check_spec(self) -> None:
        plan = self._planned()
        self._limits = self._enforced()
        for limit in plan.limits:
            if limit in ("cpus", "memory", "pids") and limit not in self._limits:
                raise self._unsupported(
                    f"the limit '{limit}' for this user on this machine",
                    "an ordinary user needs control groups of version 2, delegated by systemd; leave it out, "
                    "or have SLURM enforce it (cpus, memory): singularity.slurm",
                )
        super().check_spec()
        check_least(plan.limits)

    def _enforced(self) -> frozenset[str]:
        return frozenset({"cpus", "memory"}) if self._slurm().wanted else enforceable()

    def settings(self) -> dict[str, Any]:
        return self._planned().settings()

    def _planned(self) -> Plan:
        if self._plan is None:
            self._plan = plan_for(self.spec, self.config.singularity, self.config.skills)
        return self._plan

    @property
    def _instance(self) -> str:
        return f"{PREFIX}{self.spec.id}"

    # --- bringing it up

    async def prepare(self, *, renew: bool = False) -> str:
        plan = await asyncio.to_thread(self._planned)
        client = await client_for(plan.options.program)
        work, _ = await asyncio.to_thread(workdir.choose)
        image = await ensure(client, plan.image, work, self.progress, self.measure, renew=renew)
        return f"{client.name} works, sandboxes go to {work}, and the image is {image}"

    async def examine(self) -> list[str]:
        client = await client_for(self.config.singularity.program)
        work, passed = await asyncio.to_thread(workdir.choose)
        image = self.config.singularity.image or "the default one"
        return [
            f"program: {client.name}; image: {image}",
            f"work directory: {work}",
            *(f"passed over: {where}: {why}" for where, why in passed),
        ]

    async def create(self) -> dict[str, Any]:
        plan = await asyncio.to_thread(self._planned)
        client = await client_for(plan.options.program)
        work, _ = await asyncio.to_thread(workdir.choose)
        files = await asyncio.to_thread(Files.new, self.spec.id, work)
        slurm = plan.options.slurm if plan.options.slurm.wanted else None
        runner = self._settle(client, files, slurm)
        machine, boot = await asyncio.to_thread(host)
        made = {
            "program": client.path,
            "instance": self._instance,
            "base": str(files.base),
            "host_run": files.host_run,
            "binds": plan.bound,
            "host": machine,
            "boot": boot,
            "slurm": slurm is not None,
            "shows_credentials": slurm is None,
            "reasons": list(plan.reasons),
            "limits": dict(plan.limits),
        }
        had_files = await asyncio.to_thread(files.base.exists)
        if had_files and await runner.runs():
            raise BackendError(f"there is an instance {self._instance} already; nothing was started")
        try:
            image = made["image"] = await ensure(client, plan.image, work, self.progress, self.measure)
            await settled(asyncio.to_thread(files.make, self.spec, plan))
            await runner.start(plan, image, self.progress)
        except BaseException as error:
            await asyncio.shield(self._undo(runner, files, error, keep_files=had_files))
            raise
        self._made = made
        return made

    def _settle(self, client: Client, files: Files, slurm: Slurm | None) -> Runner:
        self._client, self._files = client, files
        if slurm is not None:
            self._runner = SlurmJob(client, files, self._instance, slurm)
        else:
            self._runner = Here(client, files, self._instance)
        return self._runner

    async def _undo(self, runner: Runner, files: Files, error: BaseException, *, keep_files: bool) -> None:
        try:
            left = await runner.end()
        except HermesError as failure:
            left = [f"instance {self._instance} ({failure.message})"]
        left += await asyncio.to_thread(files.remove, keep_files)
        if left and isinstance(error, HermesError):
            error.context["left"] = left

    # --- finding it again

    async def find(self, locator: Mapping[str, Any]) -> PlaceState:
        if not _is_locator(locator, self._instance):
            return "gone"
        self._made = dict(locator)
        files = Files(self.spec.id, Path(locator["base"]), locator["host_run"])
        slurm = self._slurm() if locator["slurm"] else None
        self._settle(Client(locator["program"]), files, slurm)
        self._limits = await asyncio.to_thread(self._enforced)
        machine, _ = await asyncio.to_thread(host)
        if slurm is None and locator["host"] != machine:
            raise Unreachable(
                f"the sandbox '{self.spec.name}' runs on {locator['host']}, and this is {machine}",
                reason=f"it is on {locator['host']}",
                hint=f"Use it on {locator['host']}; instances are known on their own machine only.",
            )
        return await self._state()

    async def _state(self) -> PlaceState:
        files, runner = self._open()
        if runner.direct and await self._answers():
            return "running"
        # Without the directory of its socket, which somebody removed, nobody can reach it any more.
        lost = runner.direct and not await asyncio.to_thread(os.path.isdir, files.host_run)
        if not lost and await runner.runs():
            return "running"
        return "stopped" if await asyncio.to_thread(files.base.is_dir) else "gone"

    async def look(self, locator: Mapping[str, Any]) -> PlaceState:
        """Do as ``find``, and tell what waits for its turn from what is gone or has stopped."""
        state = await self.find(locator)
        if self._files is None:
            await self._search()
        if state != "running" and isinstance(self._runner, SlurmJob):
            return await self._runner.place() or state
        return state

    async def lost(self) -> str:
        return await asyncio.to_thread(lost_files, self._files.base) if self._files is not None else ""

    def _slurm(self) -> Slurm:
        return section(self.config.singularity, self.spec.options, "singularity option").slurm

    def _open(self) -> tuple[Files, Runner]:
        if self._files is None or self._runner is None:
            raise SandboxGone("there is no instance", reason="it was neither made nor found")
        return self._files, self._runner

    async def _answers(self) -> bool:
        assert self._files is not None
        return await asyncio.to_thread(self._files.guest_answers)

    async def exec_channel(self, argv: Sequence[str]) -> ByteChannel:
        _, runner = self._open()
        if not await runner.runs():
            why = await self._why() or "its instance has ended"
            raise SandboxGone(f"the instance {self._instance} does not run: {why}", reason=why)
        assert self._client is not None
        return ProcessChannel([*runner.argv(), *argv], env=self._client.environment())

    async def direct_channel(self, run_dir: str) -> ByteChannel | None:
        files, runner = self._open()
        # Another path comes from inside, and is none that we gave.
        if not runner.direct or run_dir != self.guest_dirs().run_dir:
            return None
        return SocketChannel(os.path.join(files.host_run, "guest"), SOCKET, uid=os.geteuid())

    async def diagnose(self, reason: str) -> str:
        try:
            _, runner = self._open()
            pid = None
            for _ in range(DIAGNOSE_TRIES):
                if not await runner.runs():
                    return await self._why()
                if not runner.direct or await self._answers():
                    return ""
                await asyncio.sleep(0.1)  # of an instance that ends the guest may be the first to go
            if isinstance(runner, Here) and "memory" in self._made["limits"]:
                pid = await runner.pid()
        except HermesError:
            return ""
        return await asyncio.to_thread(guest_ended, pid, reason)

    async def _why(self) -> str:
        files, runner = self._open()
        if not await asyncio.to_thread(files.base.is_dir):
            return "its files were removed"
        return await runner.why(self._made)

    def guest_python(self) -> Sequence[str]:
        ask = "" if self._runner is None or self._runner.direct else f"; {ASK}"
        return ("/bin/sh", "-c", f'{clean_environment()}{ask}; exec python3 -I -S "$@"', "hermes")

    def guest_dirs(self) -> GuestDirs:
        return GuestDirs(f"{RUN}/guest", f"{HOME}/.local/state/hermes")

    def credentials_shown(self) -> Shown | None:
        return (
            Shown(self._open()[0].credentials, CREDENTIALS) if self._made.get("shows_credentials") else None
        )

    def workspace(self) -> str:
        return WORKSPACE

    def plain_argv(self, command: str) -> Sequence[str]:
        return (*self._open()[1].argv(), "bash", "-c", command)

    # --- taking it down

    async def suspend(self) -> None:
        _, runner = self._open()
        if await self._state() == "gone":
            raise SandboxGone("the sandbox is gone", reason="its files were removed")
        left = await runner.end()
        if left:
            raise BackendError(f"the sandbox could not be stopped: {', '.join(left)}", context={"left": left})

    async def resume(self) -> None:
        files, runner = self._open()
        state = await self._state()
        if state == "running":
            return
        if state == "gone":
            raise SandboxGone("there is nothing left to resume", reason="its files were removed")
        await asyncio.to_thread(unchanged, self._made.get("binds") or ())
        plan = await asyncio.to_thread(self._planned)
        await runner.end()  # a job that waits for its turn, or what an instance left
        await settled(asyncio.to_thread(files.make, self.spec, plan))
        try:
            await runner.start(plan, self._made["image"], self.progress)
        except BaseException:
            await asyncio.shield(runner.end())
            raise
        self._made["boot"] = (await asyncio.to_thread(host))[1]

    async def destroy(self, *, keep_files: bool = False) -> None:
        if self._files is None:
            await self._search()
        if self._files is None:
            return
        files, runner = self._open()
        try:
            left = await runner.end()
        except BackendError as error:
            left = [f"{self._instance} ({error.message})"]
        left += await asyncio.to_thread(files.remove, keep_files)
        if left:
            raise BackendError(
                f"the sandbox was ended, but something is left: {', '.join(left)}", context={"left": left}
            )

    async def _search(self) -> None:
        """Settle on what a crash may have left of one that was neither made nor found.

        With what settings it was to be made is not known: these need not be those of now.
        """
        base = await asyncio.to_thread(workdir.of, self._instance)
        files = await asyncio.to_thread(Files.new, self.spec.id, base)
        slurm, client = self._slurm(), Client("apptainer")
        in_job = slurm.wanted or await asyncio.to_thread((files.base / "job.sh").exists)
        if not in_job:
            with contextlib.suppress(HermesError):  # no SLURM that works here
                in_job = bool((await SlurmJob(client, files, self._instance, slurm).state())[0])
        try:
            client = await client_for(self.config.singularity.program)
        except HermesError:
            if not in_job:
                return
        self._settle(client, files, slurm if in_job else None)

    @classmethod
    async def prune(cls, config: Config, store: Store) -> list[str]:
        return await prune(await client_for(config.singularity.program), store)


def _is_locator(locator: Mapping[str, Any], instance: str) -> bool:
    texts = ("program", "instance", "base", "host_run", "host", "boot", "image")
    return (
        all(isinstance(locator.get(key), str) for key in texts)
        and locator["instance"] == instance
        and os.path.basename(locator["base"]) == instance
        and isinstance(locator.get("reasons"), list)
        and isinstance(locator.get("slurm"), bool)
    )
