"""The jail backend: this machine and this user, in Linux namespaces that bubblewrap makes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from hermes._tasks import settled
from hermes.config import Config
from hermes.errors import BackendError, HermesError, SandboxGone
from hermes.guest.dirs import SOCKET

from .._workspace import lost_files, unchanged
from ..base import Backend, ByteChannel, Capabilities, GuestDirs, PlaceState, Shown, Spec
from ..channels import SocketChannel
from . import _landlock, _overlay
from ._bwrap import bwrap_for, guest_python, search_path
from ._channel import JailChannel
from ._files import JAIL, Files, Layout
from ._landlock import LandlockChannel
from ._limits import PIDS, enforceable, inside
from ._network import program
from ._plan import LANDLOCK, Plan, plan_for
from ._prune import prune
from ._watch import Watch

if TYPE_CHECKING:
    from hermes.state import Store

NOT_BY_LANDLOCK = {
    "path_of_one_command": "a rule that lets / be listed would let every directory below it be listed"
}
"""Cases that fail without namespaces."""


class JailBackend(Backend):
    """Commands run as you, where the system is read-only and of your files only the workspace is there.

    There is no process that is the place: what starts the guest makes the namespaces, and they go with it.
    """

    name: ClassVar[str] = "jail"
    rouses: ClassVar[bool] = True

    def __init__(self, spec: Spec, config: Config) -> None:
        super().__init__(spec, config)
        self._plan: Plan | None = None
        self._known: Files | None = None
        self._made: dict[str, Any] = {}
        self._watch: Watch | None = None
        self._limits: frozenset[str] = frozenset({"cpus", "memory", "pids"})  # until somebody has looked

    @classmethod
    async def check(cls, config: Config) -> None:
        await _holder(config.jail.program)

    @property
    def capabilities(self) -> Capabilities:
        reasons = self._reasons
        return Capabilities(
            isolation="none" if reasons else "container",
            persistent=True,
            suspend=True,
            network_off=True,
            shares_network=self.spec.network == "host",
            limits=self._limits,
            workspace=frozenset({"private"} if self._by_landlock else {"private", "here", "path"}),
            shared_kernel=True,
            judged=bool(reasons) or (self.spec.workspace not in (None, "private") and not self._has_overlay),
            reaches_host=reasons,
            verified="real",
            exceptions=NOT_BY_LANDLOCK if self._by_landlock else {},
        )

    def check_spec(self) -> None:
        plan = self._planned()
        self._limits = enforceable(counted=not self._by_landlock)
        if self._by_landlock and plan.network == "on":
            raise self._unsupported(
                "network: on by Landlock, which has no network of its own", "Say network: off, or host."
            )
        if self._by_landlock and plan.skills == "shared":
            raise self._unsupported(
                "skills: shared by Landlock", "They can only be copied: --set skills=copy."
            )
        for limit in plan.limits:
            if limit in ("cpus", "memory", "pids") and limit not in self._limits:
                raise self._unsupported(
                    f"the limit '{limit}' for this user on this machine",
                    "it needs a control group, which only root may make; leave it out, or use docker",
                )
        super().check_spec()

    def settings(self) -> dict[str, Any]:
        return self._planned().settings()

    def _planned(self) -> Plan:
        if self._plan is None:
            self._plan = plan_for(self.spec, self.config.jail, self.config.skills)
        return self._plan

    async def examine(self) -> list[str]:
        holder = await _holder(self.config.jail.program)
        if holder == LANDLOCK:
            return [*self._reasons]
        way_out = await asyncio.to_thread(program)
        found = [
            f"program: {holder}",
            f"network: {way_out or 'off, since neither slirp4netns nor pasta is installed'}",
        ]
        if self.config.jail.overlay:
            await _overlay.try_out(holder)
            found.append("overlay: can be mounted")
        return found

    @property
    def _by_landlock(self) -> bool:
        wish = self._made.get("holder") or self.spec.options.get("program", self.config.jail.program)
        return bool(wish == LANDLOCK)

    @property
    def _has_overlay(self) -> bool:
        """Whether a workspace of this machine is not written to. What a jail was made with counts."""
        if self._made:
            return bool(self._made.get("overlay"))
        return self._plan is not None and self._plan.overlay

    @property
    def _reasons(self) -> tuple[str, ...]:
        """Why it is no sandbox."""
        found = self._plan.reasons if self._plan else ()
        return (*_landlock.reasons(), *found) if self._by_landlock else found

    @property
    def _layout(self) -> Layout:
        return self._files.as_here() if self._by_landlock else Layout()

    @property
    def _files(self) -> Files:
        """What it has on this machine. Blocks where it was neither made nor found."""
        if self._known is None:
            self._known = Files(self.spec.id)
        return self._known

    # --- bringing it up, and finding it again

    async def create(self) -> dict[str, Any]:
        plan = await asyncio.to_thread(self._planned)
        holder = await _holder(plan.options.program)
        files = await asyncio.to_thread(lambda: self._files)
        if await asyncio.to_thread(files.guest_answers):
            raise BackendError(f"there is a jail {self.spec.id} already; nothing was started")
        network = plan.network
        if network is None and holder == LANDLOCK:
            network = "off"
            self.progress("the network is off: Landlock has none of its own")
        elif network in (None, "on") and await asyncio.to_thread(program) is None:
            if network == "on":
                raise self._unsupported(
                    "network: on, since neither slirp4netns nor pasta is installed", "Install one of them."
                )
            network = "off"
            self.progress("the network is off: neither slirp4netns nor pasta is installed")
        limits = {"pids": PIDS, **plan.limits} if "pids" in self._limits else dict(plan.limits)
        had_files = await asyncio.to_thread(files.base.exists)
        try:
            await settled(asyncio.to_thread(files.make, self.spec, limits))
        except BaseException as error:
            left = await asyncio.shield(asyncio.to_thread(files.remove, keep_files=had_files))
            if left and isinstance(error, HermesError):
                error.context["left"] = left
            raise
        self._made = {
            "holder": holder,
            "python": await asyncio.to_thread(guest_python),
            "base": str(files.base),
            "host_run": files.host_run,
            "here": plan.here,
            "overlay": plan.overlay,
            "network": network or "on",
            "limits": limits,
        }
        return self._made

    async def find(self, locator: Mapping[str, Any]) -> PlaceState:
        texts = ("holder", "python", "base", "host_run", "network")
        if not all(isinstance(locator.get(key), str) for key in texts):
            return "gone"
        if not isinstance(locator.get("limits"), dict):
            return "gone"
        files = await asyncio.to_thread(Files, self.spec.id, locator["host_run"])
        if locator["base"] != str(files.base):
            return "gone"
        # The directory that it was made with, wherever it is looked for, and whether that is written to.
        spec = msgspec.structs.replace(
            self.spec,
            workspace=locator.get("here") or "private",
            options={**self.spec.options, "overlay": bool(locator.get("overlay"))},
        )
        self._plan = await asyncio.to_thread(plan_for, spec, self.config.jail, self.config.skills)
        self._limits = await asyncio.to_thread(enforceable, counted=not self._by_landlock)
        self._known, self._made = files, dict(locator)
        if await asyncio.to_thread(files.guest_answers):
            return "running"
        return "stopped" if await asyncio.to_thread(files.base.is_dir) else "gone"

    async def lost(self) -> str:
        return await asyncio.to_thread(lost_files, self._files.base) if self._made else ""

    # --- what is inside

    async def exec_channel(self, argv: Sequence[str]) -> ByteChannel:
        made, plan = self._made, await asyncio.to_thread(self._planned)
        if not made or not await asyncio.to_thread(self._files.base.is_dir):
            raise SandboxGone("there is no jail", reason="its files were removed")
        if made["holder"] == LANDLOCK:
            return LandlockChannel(argv, self._files, made["network"], env=self.session_env())
        argv = [*inside(made["limits"]), *argv]
        return JailChannel(made["holder"], argv, plan, self._files, made["network"], env=self.session_env())

    def failure(self, channel: ByteChannel) -> HermesError | None:
        return channel.failure if isinstance(channel, JailChannel) else None

    async def direct_channel(self, run_dir: str) -> ByteChannel | None:
        # Of a jail with nothing of this machine to keep there is nothing to look after.
        here = None if self._made.get("overlay") else self._made["here"]
        if self._watch is None and not self._by_landlock and (here or os.geteuid() == 0):
            self._watch = Watch(self._files, here)
        if run_dir != self.guest_dirs().run_dir:
            return None  # it comes from inside, and is none that we gave
        files = self._files
        return SocketChannel(os.path.join(files.host_run, "guest"), SOCKET, uid=os.geteuid(), met=files.rouse)

    async def diagnose(self, reason: str) -> str:
        if not await asyncio.to_thread(self._files.base.is_dir):
            return "its files were removed"
        if await asyncio.to_thread(self._files.guest_answers):
            return ""
        if await asyncio.to_thread(self._files.groups.short_of_memory):
            return "its processes have ended, some by the system for want of memory (limits.memory)"
        return f"its processes have ended ({reason})"

    def guest_python(self) -> Sequence[str]:
        return (self._made["python"], "-I", "-S")

    def guest_dirs(self) -> GuestDirs:
        return GuestDirs(f"{self._layout.run}/guest", f"{self._layout.home}/.local/state/hermes")

    def credentials_shown(self) -> Shown:
        return Shown(self._files.credentials, self._layout.credentials)

    def workspace(self) -> str:
        return self._layout.workspace

    def session_env(self) -> Mapping[str, str]:
        user, layout = "root" if os.geteuid() == 0 else "hermes", self._layout
        found = {
            "HOME": layout.home,
            "USER": user,
            "LOGNAME": user,
            "SHELL": "/bin/bash",
            "PATH": search_path(self._made["python"]),
            "LANG": LANG if (LANG := os.environ.get("LANG", "C")) not in ("", "C", "POSIX") else "C.UTF-8",
            "TMPDIR": layout.tmp,
        }
        return {**found, JAIL: self.spec.id} if self._by_landlock else found

    # --- looking after it

    def still(self, *, done: bool = False) -> bool:
        return self._watch is None or self._watch.still(done=done)

    async def mend(self) -> list[str]:
        return [] if self._watch is None else await asyncio.to_thread(self._watch.look)

    # --- taking it down

    async def suspend(self) -> None:
        if not await asyncio.to_thread(self._files.base.is_dir):
            raise SandboxGone("the sandbox is gone", reason="its files were removed")
        left = await asyncio.to_thread(self._files.end)
        if left:
            raise BackendError(f"the sandbox could not be stopped: {', '.join(left)}", context={"left": left})

    async def resume(self) -> None:
        files = self._files
        if await asyncio.to_thread(files.guest_answers):
            return
        if not await asyncio.to_thread(files.base.is_dir):
            raise SandboxGone("there is nothing left to resume", reason="its files were removed")
        plan = await asyncio.to_thread(self._planned)
        await asyncio.to_thread(unchanged, [plan.here] if plan.here else [])
        await self.suspend()  # what lives on although its guest has ended
        await settled(asyncio.to_thread(files.make, self.spec, self._made["limits"]))

    async def destroy(self, *, keep_files: bool = False) -> None:
        files = await asyncio.to_thread(lambda: self._files)
        left = await asyncio.to_thread(files.end)
        left += await asyncio.to_thread(files.remove, keep_files=keep_files)
        if left:
            raise BackendError(
                f"the sandbox was ended, but something is left: {', '.join(left)}", context={"left": left}
            )

    @classmethod
    async def prune(cls, config: Config, store: Store) -> list[str]:
        return await asyncio.to_thread(prune, store)


async def _holder(wish: str) -> str:
    """Return what holds jails here: the path of a bubblewrap, or the word for Landlock.

    :raises BackendError: code ``backend_unavailable``; it does not work here
    """
    if wish != LANDLOCK:
        return await bwrap_for(wish)
    why = await asyncio.to_thread(_landlock.missing)
    if why:
        raise BackendError(why, code="backend_unavailable", hint="Use docker.", context={"backend": "jail"})
    return LANDLOCK
