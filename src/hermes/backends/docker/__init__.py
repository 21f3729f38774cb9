"""The docker backend: a hardened container, driven through the client program of docker or podman."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import math
import os
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from hermes._tasks import settled
from hermes.config import Config, Lifetime, shown_limit
from hermes.credentials import stage
from hermes.errors import BackendError, HermesError, SandboxGone, UnsupportedError
from hermes.guest.dirs import SOCKET

from .._connect import connect_guest
from .._memory import guest_ended
from .._workspace import lost_files, reaches_host, unchanged
from ..base import Backend, ByteChannel, Capabilities, GuestDirs, PlaceState, Shown, Spec
from ..channels import ProcessChannel, SocketChannel
from . import _container as container
from ._devcontainer import needs_container, shown, with_container, with_variables
from ._engine import Engine, engine_for, missing
from ._files import Files, base_of
from ._image import DEFAULT_IMAGE, ensure, latest, no_image, pinned
from ._metadata import block_metadata
from ._plan import Plan, plan_for
from ._prune import labels, prune

if TYPE_CHECKING:
    from hermes.state import Store

GUEST_SECONDS = 10.0
NO_FILTER = "its engine filters no system calls"
POST_CREATE_SECONDS = 3600.0
ENGINE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What engines give a container whose image says nothing."""
GIVE = 'o=$1; shift; for d do [ "$(stat -c %u:%g "$d")" = "$o" ] || chown -hR "$o" "$d" || exit; done'


class DockerBackend(Backend):
    """Commands run in a container with a read-only image, few capabilities, and limits."""

    name: ClassVar[str] = "docker"

    def __init__(self, spec: Spec, config: Config) -> None:
        super().__init__(spec, config)
        self._plan: Plan | None = None
        self._engine: Engine | None = None
        self._made: dict[str, Any] = {}
        self._since = math.inf
        """When it was last known to run, in seconds since the epoch."""

    @classmethod
    async def check(cls, config: Config) -> None:
        await engine_for(config.docker, cls.name)

    @property
    def capabilities(self) -> Capabilities:
        reasons = self._made["reasons"] if self._made else self._planned().reasons
        return Capabilities(
            isolation="none" if reasons else "container",
            persistent=True,
            suspend=True,
            network_off=True,
            shares_network=self.spec.network == "host",
            limits=self._engine.facts.limits if self._engine else frozenset({"cpus", "memory", "pids"}),
            workspace=frozenset({"private", "here", "path"}),
            shared_kernel=True,
            judged=bool(reasons),
            verified="real",
            reaches_host=tuple(reasons),
        )

    def check_spec(self) -> None:
        super().check_spec()
        self._planned()

    def settings(self) -> dict[str, Any]:
        plan = self._planned()
        found = plan.settings()
        if plan.env:  # the values may be secrets
            text = json.dumps(sorted(plan.env.items())).encode("utf-8", "surrogatepass")
            digest = hashlib.blake2s(text, key=self.spec.id.encode()[:32], digest_size=4).hexdigest()
            found["environment"] = f"{', '.join(sorted(plan.env))} ({digest})"
        # What chooses docker's engine means nothing to podman.
        return found | ({"docker.context": plan.options.context} if self.name == "podman" else {})

    def _planned(self) -> Plan:
        if self._plan is None:
            self._plan = plan_for(self.spec, self.config.docker, self.config.skills)
        return self._plan

    # --- bringing it up

    async def prepare(self, *, renew: bool = False) -> str:
        plan = await asyncio.to_thread(self._planned)
        engine = await engine_for(plan.options, self.name)
        image = latest(plan.image) if renew else plan.image
        await ensure(engine, image, self.progress, self.measure, renew=renew)
        return f"{engine.name} works, and the image {image.shown} is here"

    async def pin(self) -> dict[str, Any]:
        plan = await asyncio.to_thread(self._planned)
        engine = await engine_for(plan.options, self.name)
        image = latest(plan.image)
        exact = await pinned(engine, image) if image.reference == DEFAULT_IMAGE else None
        return {} if exact is None else {"docker.image": exact}

    async def examine(self) -> list[str]:
        name, image = await self.image_here()
        assert self._plan is not None
        facts = (await engine_for(self._plan.options, self.name)).facts
        limits = ", ".join(sorted(facts.limits)) or "none"
        return [
            f"engine: {name}{', rootless' if facts.rootless else ''}; limits that it enforces: {limits}",
            f"image: {self._plan.image.shown} is {'here' if image is None else 'not here: hermes setup'}",
        ]

    async def image_here(self) -> tuple[str, str | None]:
        """Return the engine's name, and that of the image if it is not here.

        :raises BackendError: no engine works
        """
        plan = await asyncio.to_thread(self._planned)
        engine = await engine_for(plan.options, self.name)
        there = (await engine.call("image", "inspect", plan.image.reference)).code == 0
        return engine.name, None if there else plan.image.shown

    async def create(self) -> dict[str, Any]:
        plan = await asyncio.to_thread(self._planned)
        engine = self._engine = await engine_for(plan.options, self.name)
        self._refuse(plan, engine)
        files = await asyncio.to_thread(Files, self.spec, plan, engine.facts)
        name = self._container_name()
        try:
            await settled(asyncio.to_thread(files.make))
            self._made = await self._run(engine, plan, files, name)
            await self._finish(engine, plan, files)
        except BaseException as error:
            await asyncio.shield(self._undo(engine, files, name, error))
            if isinstance(error, BaseExceptionGroup):
                raise error.exceptions[0] from None
            raise
        if plan.ignored:
            warnings.warn(plan.ignored, stacklevel=1)
        self._since = time.time()
        return self._made

    def _refuse(self, plan: Plan, engine: Engine) -> None:
        facts = engine.facts
        for limit in self.spec.limits:
            if limit not in facts.limits:
                raise self._unsupported(
                    f"the limit '{limit}' with this {engine.name} engine",
                    "rootless engines need cgroup v2 with that controller delegated; leave the limit out, "
                    "or use another engine",
                )
        cpus = self.spec.limits.get("cpus", 0)
        if cpus > facts.cpus and not facts.podman:
            raise self._unsupported(
                f"limits.cpus: {shown_limit('cpus', cpus)} with this {engine.name} engine",
                f"it has {facts.cpus}; name fewer",
            )
        if not facts.local and plan.binds:
            raise UnsupportedError(
                f"the {engine.name} engine does not see the files of this machine, so "
                f"{', '.join(plan.binds)} cannot be mounted; nothing was started",
                hint="Use --workspace private and copy files with 'hermes sandbox cp'.",
            )
        if plan.here is not None and plan.remapped(facts):
            raise UnsupportedError(
                f"the {engine.name} engine numbers users otherwise (userns-remap), so the files in "
                f"{plan.here} would be of two users, you and another; nothing was started",
                hint="Use --workspace private and copy files with 'hermes sandbox cp'.",
            )

    def _container_name(self) -> str:
        readable = re.sub(r"[^a-zA-Z0-9_.-]", "-", self.spec.name)[:40]
        return f"hermes-{readable}-{self.spec.id[:8]}"

    async def _run(self, engine: Engine, plan: Plan, files: Files, name: str) -> dict[str, Any]:
        if plan.user_name is not None or files.volumes:
            await ensure(
                engine, plan.image, self.progress, self.measure
            )  # it is needed before the container is
        user = await self._user(engine, plan)
        network = {"on": "", "off": "none", "host": "host", "internal": name}[plan.network]
        label = [part for one in await asyncio.to_thread(labels, self.spec) for part in ("--label", one)]
        if plan.network == "internal":
            alone = container.internal_network(engine.facts)
            await settled(engine.ask("network", "create", "--internal", *alone, *label, name))
        for volume in files.volumes:
            if (await engine.call("volume", "inspect", volume)).code != 0:
                files.new_volumes.append(volume)
                await settled(engine.ask("volume", "create", *label, volume))
        files.owner = user
        limits = {**container.default_limits(engine.facts), **self.spec.limits}
        arguments = container.run_arguments(
            plan.options,
            user=user,
            network=network,
            limits=limits,
            capabilities=plan.capabilities(engine.facts),
            mounts=[*files.mounts, *plan.mounts],
            args=[*plan.args, *files.keep_id()],
            run_mount=files.run_mount(),
        )
        closed: Sequence[str] = ()
        if plan.network == "internal":
            closed = await asyncio.to_thread(container.no_ipv6, engine.facts)
        narrowed = await asyncio.to_thread(files.filter)
        argv = (
            *("run", "--detach", "--pull", "never", "--name", name, "--hostname", name[:63].rstrip("-.")),
            *(() if self.spec.named else ("--rm",)),
            # Podman would give it this machine's proxies, which may have passwords.
            *(("--http-proxy=false",) if engine.facts.podman else ()),
            *label,
            *arguments,
            *narrowed,
            *closed,
            *("--entrypoint", "/bin/sh", plan.image.reference, "-c"),
            container.init_script(0 if self.spec.keep else _idle(self.spec.lifetime)),
        )
        done = await settled(engine.call(*argv, cwd=files.kept_at))
        if done.code != 0 and no_image(done.err):
            # Looking first would cost every start the time of a call.
            await ensure(engine, plan.image, self.progress, self.measure)
            done = await settled(engine.call(*argv, cwd=files.kept_at))
        if done.code != 0 and container.never_began(done.err):
            # Engines are seen to lose a container's files for a moment. Nothing has run in it.
            await settled(engine.call("rm", "--force", name))
            done = await settled(engine.call(*argv, cwd=files.kept_at))
        runtime = plan.options.runtime
        if done.code != 0 and runtime and runtime not in engine.facts.runtimes and "runtime" in done.err:
            raise BackendError(
                f"the {engine.name} engine has no runtime '{runtime}'; nothing was started",
                code="backend_unavailable",
                hint=f"docker.runtime can be one of: {', '.join(engine.facts.runtimes)}",
            )
        if done.code != 0:
            raise BackendError(
                f"the container could not be started: {done.said}",
                hint=f"'{engine.name} info' may tell more.",
            )
        ident = done.out.split()[-1]
        return {
            "program": list(engine.argv),
            "container": ident,
            "name": name,
            "image": plan.image.reference,
            "host_run": files.host_run,
            "host_uid": files.host_uid,
            "credentials": files.credentials,
            "volumes": files.volumes,
            "network": name if plan.network == "internal" else None,
            "block": plan.network == "on" and plan.options.metadata == "blocked",
            "plain": engine.facts.plain(plan.options.runtime),
            "local": engine.facts.local,
            "limits": limits,
            "binds": plan.binds,
            "reasons": [
                *plan.reasons,
                *await self._reaching_volumes(engine, plan),
                *([] if engine.facts.seccomp else [NO_FILTER]),
            ],
            "env": await self._environment(engine, plan, ident),
        }

    async def _environment(self, engine: Engine, plan: Plan, ident: str) -> dict[str, str]:
        """Return the variables that commands have, with what only the container knows filled in."""
        if not needs_container(plan.env):
            return dict(plan.env)
        seen = await engine.inspect(ident) or {}
        own = dict(one.partition("=")[::2] for one in seen.get("Config", {}).get("Env") or ())
        return with_container(plan.env, {"PATH": ENGINE_PATH, **own}, complete=True)

    async def _give(self, engine: Engine, plan: Plan, files: Files) -> None:
        """Give volumes to the user inside. Nobody in the sandbox's own container has the right to.

        The engine must have mounted them there: it then gives them what the image has in their place. Those
        that another user had are given with all that is in them.
        """
        ours = set(files.volumes)
        if files.owner.startswith("0:"):
            ours -= set(files.new_volumes)
        mounts = [mount for mount in files.mounts if mount.source in ours]
        if not mounts:
            return
        await settled(
            engine.ask(
                *("run", "--rm", "--pull", "never", "--network", "none", "--user", "0:0", "--read-only"),
                *("--cap-drop", "ALL", "--cap-add", "CHOWN", "--cap-add", "DAC_OVERRIDE"),
                *("--security-opt", "no-new-privileges"),
                *(part for mount in mounts for part in ("--mount", mount.argument())),
                *("--entrypoint", "/bin/sh", plan.image.reference, "-c", GIVE, "sh", files.owner),
                *(one.target for one in mounts),
            )
        )

    async def _user(self, engine: Engine, plan: Plan) -> str:
        if plan.user_name is None:
            return plan.user(engine.facts)
        asked = await engine.ask(
            *("run", "--rm", "--pull", "never", "--network", "none", "--user", plan.user_name),
            *("--entrypoint", "/bin/sh", plan.image.reference, "-c", "id -u; id -g"),
        )
        return ":".join(asked.split())

    async def _finish(self, engine: Engine, plan: Plan, files: Files) -> None:
        """Do what needs the running container: it must be right before the first command."""
        ident = self._made["container"]
        async with asyncio.TaskGroup() as group:
            if self._made["block"]:
                group.create_task(self._block(engine))
            if files.host_run is not None:
                group.create_task(asyncio.to_thread(files.wait_for_guest, GUEST_SECONDS))
            if files.volumes:
                await self._give(engine, plan, files)
        for argv in plan.post_create:
            self.progress(f"post-create: {shown(argv)[:200]}")
            passed, whole = with_variables(self._made["env"], argv)
            done = await engine.call(
                *("exec", *(part for name in passed for part in ("--env", name)), ident, *whole),
                timeout=POST_CREATE_SECONDS,
                on_line=self.progress,
                env=passed,
            )
            if done.code != 0:
                unwritable = re.search("read-only file system|permission denied", done.err + done.out, re.I)
                raise BackendError(
                    f"the post-create command ended with exit code {done.code}: {done.said}; the container "
                    "was removed",
                    hint="The image's files cannot be written to unless docker.writable_root is set."
                    if unwritable and not plan.options.writable_root
                    else f"It was: {shown(argv)[:200]}",
                )

    async def _block(self, engine: Engine) -> None:
        made = self._made
        await block_metadata(engine, made["container"], made["image"], plain=made.get("plain", True))

    async def _undo(self, engine: Engine, files: Files, name: str, error: BaseException) -> None:
        left: list[str] = []
        try:
            done = await engine.remove(name)
        except HermesError as failure:
            left.append(f"{name} ({failure.message})")
        else:
            if done.code != 0 and not missing(done.err):
                left.append(name)
        with contextlib.suppress(HermesError):
            await engine.call("network", "rm", name)
        for volume in files.new_volumes:
            with contextlib.suppress(HermesError):
                await engine.call("volume", "rm", "--force", volume)
        left += await self._remove_files(engine, files.host_run, files.kept)
        self._made = {}
        if left and isinstance(error, HermesError):
            error.context["left"] = left

    # --- finding it again

    async def find(self, locator: Mapping[str, Any]) -> PlaceState:
        if not _is_locator(locator):
            return "gone"
        self._made, self._since = dict(locator), time.time()
        engine = self._engine = Engine(locator["program"][0])
        engine.argv = tuple(locator["program"])
        if locator["host_run"] is not None and await self._answers():
            return "running"
        seen = await engine.inspect(locator["container"])
        if seen is None or seen.get("State", {}).get("Status") in ("dead", "removing"):
            return "gone"
        return "running" if seen["State"].get("Running") and not seen["State"].get("Paused") else "stopped"

    async def check_remake(self, locator: Mapping[str, Any]) -> None:
        plan = await asyncio.to_thread(self._planned)
        engine = await engine_for(plan.options, self.name)
        if not _is_locator(locator) or locator["program"] != list(engine.argv):
            return
        files = await asyncio.to_thread(Files, self.spec, plan, engine.facts)
        if bool(files.volumes) != bool(locator["volumes"]):
            raise UnsupportedError(
                f"the files of '{self.spec.name}' are in "
                f"{'volumes' if locator['volumes'] else 'directories'}, "
                f"which cannot be given to the docker.user '{plan.options.user}'; nothing was removed",
                hint="A user that only the image knows has volumes, one with a number directories: keep to "
                "the kind that it has, as in docker.user=UID:GID, or use another name.",
            )

    async def lost(self) -> str:
        if not self._made or self._made["volumes"]:
            return ""
        return await asyncio.to_thread(lambda: lost_files(base_of(self.spec.id)))

    async def _answers(self) -> bool:
        run_dir = os.path.join(self._made["host_run"], "guest")
        try:
            sock = await asyncio.to_thread(connect_guest, run_dir, SOCKET, self._made["host_uid"])
        except HermesError:
            return False
        sock.close()
        return True

    async def exec_channel(self, argv: Sequence[str]) -> ByteChannel:
        made = self._open()
        return ProcessChannel([*made["program"], "exec", "--interactive", made["container"], *argv])

    async def direct_channel(self, run_dir: str) -> ByteChannel | None:
        made = self._open()
        if made["host_run"] is None:
            return None
        if run_dir != self.guest_dirs().run_dir:
            return None  # it comes from inside, and is no path that we gave
        return SocketChannel(os.path.join(made["host_run"], "guest"), SOCKET, uid=made["host_uid"])

    async def diagnose(self, reason: str) -> str:
        if self._engine is None or not self._made:
            return ""
        try:
            seen = await self._engine.inspect(self._made["container"])
            alone = self._made["host_run"] is not None and not await self._answers()
            for _ in range(4):
                if seen is None or (seen.get("State", {}).get("Running") and not alone):
                    break
                # Who removes a container kills it first, and its guest may end before it does.
                await asyncio.sleep(0.25)
                seen = await self._engine.inspect(self._made["container"])
        except HermesError:
            return ""
        state = {} if seen is None else seen.get("State", {})
        if seen is None or state.get("Status") in ("removing", "dead"):
            return "its container was removed"
        if state.get("Paused"):
            return ""
        if state.get("Running"):
            here = self._made.get("local")  # the clock and the processes are this machine's
            if here and _began(state) > self._since:
                return "its container was restarted"
            if not alone:
                return ""
            pid = state.get("Pid") if here else None
            return await asyncio.to_thread(guest_ended, pid, reason)
        if state.get("OOMKilled"):
            return "its container ran out of memory and was killed"
        code = int(state.get("ExitCode") or 0)
        return {
            0: "its container was stopped",
            137: "its container was killed",
            143: "its container was stopped",
        }.get(code, f"its container ended with exit code {code}, as after a restart of the engine")

    def _open(self) -> dict[str, Any]:
        if not self._made:
            raise SandboxGone("there is no container", reason="it was neither made nor found")
        return self._made

    def guest_python(self) -> Sequence[str]:
        return ("python3", "-I", "-S")

    def guest_dirs(self) -> GuestDirs:
        # Where this machine does not see it, its parent is made by the guest too, which owns it then.
        own = "" if self._made.get("host_run") else "/own"
        return GuestDirs(f"{container.RUN}{own}/guest", f"{container.HOME}/.local/state/hermes")

    def credentials_shown(self) -> Shown | None:
        here = self._made.get("credentials")
        return Shown(here, container.CREDENTIALS) if isinstance(here, str) else None

    def workspace(self) -> str:
        return container.WORKSPACE

    def plain_argv(self, command: str) -> Sequence[str]:
        made = self._open()
        return (*made["program"], "exec", made["container"], "bash", "-c", command)

    def session_env(self) -> Mapping[str, str] | None:
        return self._made.get("env") or None

    # --- taking it down

    async def suspend(self) -> None:
        engine, made = self._engine, self._open()
        assert engine is not None
        done = await engine.call("stop", "--time", "2", made["container"])
        if done.code != 0:
            if missing(done.err):
                raise SandboxGone("the container is gone", reason="its container was removed")
            raise BackendError(f"the container could not be stopped: {done.said}")

    async def resume(self) -> None:
        engine, made = self._engine, self._open()
        assert engine is not None
        seen = await engine.inspect(made["container"])
        if seen is None:
            raise SandboxGone("the container is gone", reason="its container was removed")
        paused = bool(seen.get("State", {}).get("Paused"))
        if seen.get("State", {}).get("Running") and not paused:
            return
        if await self.lost():
            raise SandboxGone("the files of the container are gone", reason="its directory was removed")
        await asyncio.to_thread(unchanged, made.get("binds") or ())
        if made["host_run"] is not None and not paused:
            # In memory: a restart of the machine has taken it away. And what ran inside may have changed it.
            await asyncio.to_thread(Files.make_run, made["host_run"], made["host_uid"], self.spec)
        if isinstance(made.get("credentials"), str) and not paused:
            await asyncio.to_thread(stage.make, made["credentials"], made["host_uid"])
        verb = "unpause" if paused else "start"
        kept_at = None if made["volumes"] else str(await asyncio.to_thread(base_of, self.spec.id))
        done = await engine.call(verb, made["container"], cwd=kept_at)
        if done.code != 0:
            if missing(done.err):
                raise SandboxGone("the container is gone", reason="its container was removed")
            raise BackendError(f"the container could not be started again: {done.said}")
        self._since = time.time()
        if made["block"]:
            await self._block(engine)

    async def _reaching_volumes(self, engine: Engine, plan: Plan) -> list[str]:
        """Return why volumes that were asked for reach the host: some are its directories by another name."""
        found = []
        for mount in plan.mounts:
            if mount.is_bind:
                continue
            asked = await engine.ask("volume", "inspect", "--format", "{{json .Options}}", mount.source)
            device = str((json.loads(asked) or {}).get("device") or "")
            if device.startswith("/"):
                why = await asyncio.to_thread(reaches_host, device, read_only=mount.read_only)
                found += [f"the volume {mount.source} is {device}: {why}"] if why else []
        return found

    async def destroy(self, *, keep_files: bool = False) -> None:
        made, engine = self._made, self._engine
        left: list[str] = []
        if not made:
            # What a hermes that was killed made before it could write down where.
            with contextlib.suppress(HermesError):
                engine = await engine_for(self.config.docker, self.name)
                await engine.remove(self._container_name())
        if made and engine is not None:
            done = await engine.remove(made["container"])
            if done.code != 0 and not missing(done.err):
                left.append(f"container {made['name']} ({done.said})")
            if made["network"]:
                await engine.call("network", "rm", made["network"])
            for volume in () if keep_files else made["volumes"]:
                done = await engine.call("volume", "rm", "--force", volume)
                if done.code != 0 and not missing(done.err):
                    left.append(f"volume {volume}")
        left += await self._remove_files(engine, made.get("host_run"), keep_files)
        if left:
            raise BackendError(
                f"the sandbox was ended, but something is left: {', '.join(left)}", context={"left": left}
            )

    async def _remove_files(
        self, engine: Engine | None, host_run: str | None, keep_files: bool = False
    ) -> list[str]:
        """Remove the directories on this machine, and return what is left of them."""
        left = await asyncio.to_thread(Files.remove, self.spec.id, host_run, keep_files)
        if left and engine is not None and engine.name == "podman" and os.geteuid() != 0:
            # What root inside gave to other users is not ours out here.
            with contextlib.suppress(HermesError):
                await engine.call("unshare", "rm", "-rf", "--", *left)
            left = [path for path in left if await asyncio.to_thread(os.path.lexists, path)]
        return left

    @classmethod
    async def prune(cls, config: Config, store: Store) -> list[str]:
        return await prune(await engine_for(config.docker, cls.name), store)


class PodmanBackend(DockerBackend):
    """The same, always with podman."""

    name: ClassVar[str] = "podman"


def _idle(life: Lifetime) -> float:
    """Return the seconds with nothing running after which a container ends, as its guest did before."""
    return max(life.idle_stop - life.idle_guest, min(life.idle_stop, 60.0), 1.0)


def _began(state: Mapping[str, Any]) -> float:
    """Return when a container was started, in seconds since the epoch; 0 when that is not told."""
    with contextlib.suppress(ValueError, OverflowError):
        return datetime.fromisoformat(str(state.get("StartedAt"))).timestamp()
    return 0.0


def _is_locator(locator: Mapping[str, Any]) -> bool:
    texts = ("container", "name", "image")
    program = locator.get("program")
    return (
        all(isinstance(locator.get(key), str) for key in texts)
        and isinstance(program, list)
        and bool(program)
        and {"host_run", "host_uid", "volumes", "network", "block", "reasons", "limits"} <= set(locator)
    )
