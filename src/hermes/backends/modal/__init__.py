"""The modal backend: sandboxes of Modal, by its own SDK, which sleep as snapshots."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import re
import time
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from hermes._tasks import settled
from hermes.config import Config, Modal
from hermes.errors import BackendError, ConfigError, HermesError, SandboxGone, Unreachable
from hermes.usage import Size

from .._cloud import _limiter
from .._cloud._account import check_account, emulated, mark
from .._cloud._channel import CloudChannel
from .._cloud._meter import note
from ..base import Backend, ByteChannel, Capabilities, GuestDirs, PlaceState, Spec, Stray
from . import _snapshots as snapshots
from . import _tokens
from ._channel import ModalChannel
from ._prune import BORN, prune, strays, tags

if TYPE_CHECKING:
    from hermes.state import Store

    from ._sdk import Connection

if importlib.util.find_spec("modal") is None:
    raise ModuleNotFoundError("No module named 'modal'", name="modal")

CHECK_SECONDS = 5.0
CREATE_SECONDS = 180.0
BUILD_SECONDS = 1800.0
END_SECONDS = 60.0
PATIENCE = 60.0  # for a turn to create, when Modal says that there were too many
MAX_LIFETIME = 24 * 3600
CREATIONS = 5
DEFAULT_IMAGE = "nikolaik/python-nodejs:python3.13-nodejs22"
WORKSPACE = "/workspace"
RUN = "/run/hermes/guest"
STATE = "/root/.local/state/hermes"
MIB = 1 << 20
KEEPER = """
import fcntl, os, sys, time
path = sys.argv[1] + "/guest.sock"
mine = open(os.path.dirname(sys.argv[1]) + "/keeper", "w")
try:
    fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit()
while os.path.exists(path):
    try:
        with open("/proc/net/unix") as file:
            if "guest.sock" not in file.read():
                break
    except OSError:
        pass
    time.sleep(5)
"""
"""Waits for the guest's end: while it does, Modal does not take the sandbox for idle, although no client is
there. The guest ends when nothing runs, and the idle timeout begins then."""


async def sdk() -> ModuleType:
    """Return the module that has Modal's SDK. Its import takes half a second, and reads files."""
    return await asyncio.to_thread(importlib.import_module, f"{__name__}._sdk")


class ModalBackend(Backend):
    """Commands run in a container of Modal's, which is snapshotted and ended when nobody uses it."""

    name: ClassVar[str] = "modal"
    distant: ClassVar[bool] = True
    paid: ClassVar[bool] = True
    swept: ClassVar[bool] = False  # a round trip or two to the cloud, before each new sandbox

    def __init__(self, spec: Spec, config: Config) -> None:
        super().__init__(spec, config)
        self._settled: Modal | None = None
        self._box: Any = None
        self._connected: Connection | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._absent = False  # it was looked for, or ended here, just now

    @classmethod
    async def check(cls, config: Config) -> None:
        await asyncio.to_thread(_tokens.check)
        modal = await sdk()
        connection = await asyncio.to_thread(modal.connection, config.modal)
        try:
            await connection.open(CHECK_SECONDS)
        except Unreachable as error:
            raise BackendError(
                f"Modal does not answer at {connection.url}; nothing was started",
                code="backend_unavailable",
                hint=modal.AWAY,
            ) from error

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            isolation="container",
            persistent=True,
            suspend=True,
            snapshot=True,
            network_off=True,
            limits=frozenset({"cpus", "memory"}),
            workspace=frozenset({"private", "here", "path"}),
            copies=True,
            verified="emulator",
        )

    # --- what is wanted

    @property
    def _settings(self) -> Modal:
        if self._settled is None:
            given = dict(self.spec.options)
            unknown = sorted(set(given) - set(Modal.__struct_fields__))
            if unknown:
                raise ConfigError(
                    f"the modal backend has no option '{unknown[0]}'; nothing was started",
                    hint=f"Its options: {', '.join(Modal.__struct_fields__)}",
                )
            try:
                self._settled = msgspec.convert({**msgspec.structs.asdict(self.config.modal), **given}, Modal)
            except msgspec.ValidationError as error:
                raise ConfigError(f"an option of modal is wrong: {error}; nothing was started") from error
        return self._settled

    @property
    def _image(self) -> str:
        return self.spec.image or self._settings.image or DEFAULT_IMAGE

    def check_spec(self) -> None:
        settings = self._settings
        if "reuse" in self.spec.options:
            raise ConfigError(
                "modal.reuse is for the command line, and no option of a sandbox; nothing was started",
                hint="A Sandbox() without a name shares with nobody; with one it does with all that use it.",
            )
        if self.spec.network in ("internal", "host"):
            raise self._unsupported(f"network: {self.spec.network}", "there are 'on' and 'off'")
        if self.spec.network == "off" and (settings.allow_domains or settings.allow_cidrs):
            raise ConfigError(
                "network: off and modal.allow_domains or modal.allow_cidrs exclude each other; nothing was "
                "started"
            )
        if "" in (self.spec.image, settings.image):
            raise ConfigError(
                "the name of the image is empty; nothing was started",
                hint="Leave it out for the default: hermes config unset modal.image",
            )
        if settings.idle < 1:
            raise ConfigError(
                "modal.idle is the time without use after which a sandbox sleeps: a second at the least; "
                "nothing was started",
                hint="It cannot be switched off, since what nobody uses is billed; it may be as long as 24h.",
            )
        if not 1 <= settings.lifetime <= MAX_LIFETIME:
            raise ConfigError("modal.lifetime can be 24 hours at the most; nothing was started")
        super().check_spec()

    @property
    def _blocked(self) -> bool:
        """Whether nothing may be connected to; an empty list says so as well."""
        lists = self._settings.allow_domains, self._settings.allow_cidrs
        return self.spec.network == "off" or (lists != (None, None) and not any(lists))

    def settings(self) -> dict[str, Any]:
        wanted = self._settings
        return {
            "image": self._image,
            "modal.app": wanted.app,
            "modal.environment": wanted.environment,
            "modal.gpu": wanted.gpu,
            "modal.region": wanted.region,
            "network": "off" if self._blocked else self.spec.network or "on",
            "modal.allow_domains": list(wanted.allow_domains or ()),
            "modal.allow_cidrs": list(wanted.allow_cidrs or ()),
            "limits": dict(self.spec.limits),
        }

    @property
    def stopped_by_client(self) -> bool:
        return True

    @property
    def idle_after(self) -> float | None:
        return self._settings.idle

    async def prepare(self, *, renew: bool = False) -> str:
        modal = await sdk()
        connection = await self._connect(modal)
        app = await connection.app(self._settings)
        await self._build(modal, connection, app)
        return f"Modal answers{emulated(connection.url, 'Modal')}, and the image {self._image} is built"

    async def examine(self) -> list[str]:
        modal = await sdk()
        connection = await self._connect(modal)
        app = await connection.app(self._settings, make=False)
        there = "is there" if app is not None else "will be made with the first sandbox"
        return [
            f"Modal answers at {connection.url}{emulated(connection.url, 'Modal')}, and takes the tokens",
            f"its app '{self._settings.app}' {there}; image: {self._image}",
        ]

    # --- bringing it up

    @property
    def fleeting(self) -> str:
        return "" if self.spec.persistent else f"some {self._settings.idle:g} s after its last use"

    @property
    def service(self) -> str | None:
        return self._connected.url if self._connected is not None else self._settings.server_url

    async def _connect(self, modal: ModuleType) -> Connection:
        found: Connection | None = self._connected
        if found is None:
            found = self._connected = await asyncio.to_thread(modal.connection, self._settings)
        assert found is not None
        await found.open()
        return found

    @property
    def _name(self) -> str:
        readable = re.sub(r"[^a-zA-Z0-9_.-]", "-", self.spec.name)[:30]
        return f"hermes-{readable}-{self.spec.id}"[:63]

    async def _build(self, modal: ModuleType, connection: Connection, app: Any) -> Any:
        image = modal.modal.Image.from_registry(
            self._image, setup_dockerfile_commands=[f"RUN mkdir -p {WORKSPACE}"]
        )
        loop = asyncio.get_running_loop()
        slow = loop.call_later(2, lambda: self.progress(f"Modal builds the image {self._image}"))
        try:
            await modal.call(image.build.aio(app), f"build the image {self._image}", BUILD_SECONDS)
        finally:
            slow.cancel()
        return image

    async def create(self) -> dict[str, Any]:
        modal = await sdk()
        connection = await self._connect(modal)
        app = await connection.app(self._settings)
        entry = await asyncio.to_thread(snapshots.kept, self.spec.id)
        if entry is not None and entry.image != self._image:
            raise BackendError(
                f"the files that are kept of this sandbox are a snapshot of {entry.image}, and cannot be put "
                f"into {self._image}; nothing was started",
                hint="Make it with its former image, or under another name.",
            )
        if entry is not None:
            image = modal.modal.Image.from_id(entry.snapshot, client=connection.client)
        else:
            image = await self._build(modal, connection, app)
        await self._make(modal, connection, app, image, new=True)
        return self._locator

    @property
    def _locator(self) -> dict[str, Any]:
        assert self._connected is not None
        wish, connection = self._settings, self._connected
        return {
            "name": self._name,
            "app": wish.app,
            "environment": wish.environment,
            "server": connection.url,
            "account": mark(connection.account),
        }

    async def _make(
        self, modal: ModuleType, connection: Connection, app: Any, image: Any, *, new: bool = False
    ) -> None:
        """Create the sandbox, when it is our turn. What a failure may have left is looked for and ended."""
        options = await asyncio.to_thread(self._options, connection, app, image)
        end = time.monotonic() + PATIENCE
        pause = 1.0
        while True:
            await _limiter.turn(connection.account, CREATIONS)
            try:
                work = modal.modal.Sandbox.create.aio("sleep", "infinity", **options)
                self._box = await modal.call(work, "create a sandbox", CREATE_SECONDS)
                break
            except BaseException as error:
                refused = isinstance(error.__cause__, modal.ResourceExhaustedError)
                if refused and time.monotonic() + pause < end:
                    self.progress(f"Modal creates no more sandboxes for now; trying again in {pause:g} s")
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, 10.0)
                    continue
                if not refused and not isinstance(error.__cause__, modal.AlreadyExistsError):
                    await settled(self._undo(modal, error))
                raise
        await note(self, "up", new=new, until=time.time() + self._settings.lifetime, size=self.billed)

    @property
    def billed(self) -> Size:
        # More may be used than is asked for, and is billed then; how much is not known.
        limits, gpu = self.spec.limits, (self._settings.gpu or "").partition(":")
        return Size(
            cpus=min(0.125, limits.get("cpus", 0.125)),
            memory=min(128 * MIB, limits.get("memory", 128 * MIB)),
            gpu=gpu[0],
            gpus=int(gpu[2] or 1) if gpu[0] else 0,
        )

    def _options(self, connection: Connection, app: Any, image: Any) -> dict[str, Any]:
        """Return what the sandbox is created with. Blocks, for a moment."""
        settings, limits = self._settings, self.spec.limits
        options: dict[str, Any] = {
            "app": app,
            "client": connection.client,
            "name": self._name,
            "tags": tags(self.spec),
            "image": image,
            "timeout": int(settings.lifetime),
            "idle_timeout": int(settings.idle),
            "workdir": WORKSPACE,
            "block_network": self._blocked,
        }
        if settings.allow_domains:
            options["outbound_domain_allowlist"] = list(settings.allow_domains)
        if settings.allow_cidrs:
            options["outbound_cidr_allowlist"] = list(settings.allow_cidrs)
        for key in ("gpu", "region"):
            if getattr(settings, key):
                options[key] = getattr(settings, key)
        if "cpus" in limits:
            options["cpu"] = (min(0.125, limits["cpus"]), limits["cpus"])
        if "memory" in limits:
            whole = max(int(limits["memory"] / MIB), 1)
            options["memory"] = (min(128, whole), whole)
        return options

    async def _undo(self, modal: ModuleType, error: BaseException) -> None:
        """End what a creation that failed may have brought about all the same."""
        try:
            await self._end(modal)
        except HermesError as failure:
            if isinstance(error, HermesError):
                error.context["left"] = [f"perhaps a sandbox {self._name} ({failure.message})"]

    # --- finding it again

    async def find(self, locator: Mapping[str, Any]) -> PlaceState:
        if not all(isinstance(locator.get(key), str) for key in ("name", "app", "server")):
            return "gone"
        if locator["name"] != self._name:
            return "gone"
        # Where it is counts, not what is configured now.
        there = {"app": locator["app"], "environment": locator.get("environment")}
        self._settled = msgspec.structs.replace(self._settings, **there)
        modal = await sdk()
        connection = await self._connect(modal)
        if await self._running(modal, connection):
            return "running"
        check_account(self, locator, mark(connection.account))
        return "stopped" if await asyncio.to_thread(snapshots.kept, self.spec.id) else "gone"

    async def lost(self) -> str:
        if await asyncio.to_thread(snapshots.kept, self.spec.id):
            return ""
        return "its files are lost: it has ended at Modal, which has no snapshot of them"

    async def _running(self, modal: ModuleType, connection: Connection) -> bool:
        work = modal.from_name(connection, self._settings, self._name)
        try:
            self._box = await modal.call(work, "look for the sandbox")
        except SandboxGone as error:
            if isinstance(error, Unreachable):
                raise
            self._box, self._absent = None, True
            return False
        return True

    async def exec_channel(self, argv: Sequence[str]) -> ByteChannel:
        modal = await sdk()
        box = self._box
        if box is None:
            raise SandboxGone("there is no sandbox of Modal's", reason="it was neither made nor found")

        async def start() -> Any:
            process = await modal.call(
                box.exec.aio(*argv, text=False, workdir="/"), "start a process in the sandbox"
            )
            if not self._tasks:
                loop = asyncio.get_running_loop()
                for work in (self._stay(modal, box), self._outlive(modal, box)):
                    task = loop.create_task(work)
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
            return process

        return ModalChannel(modal, start)

    def failure(self, channel: ByteChannel) -> HermesError | None:
        return channel.failure if isinstance(channel, CloudChannel) else None

    async def _stay(self, modal: ModuleType, box: Any) -> None:
        """Have Modal not take the sandbox for idle while the guest is there."""
        quiet = modal.StreamType.DEVNULL
        await asyncio.sleep(2)  # the guest is there by then
        with contextlib.suppress(HermesError):
            work = box.exec.aio("python3", "-c", KEEPER, RUN, stdout=quiet, stderr=quiet, workdir="/")
            await modal.call(work, "start a process in the sandbox")

    async def _outlive(self, modal: ModuleType, box: Any) -> None:
        """Keep the files before the lifetime, which nothing can extend, is over."""
        with contextlib.suppress(HermesError, ValueError):
            marks = await modal.call(box.get_tags.aio(), "read the sandbox's tags")
            life = self._settings.lifetime
            margin = min(self._settings.snapshot_timeout + 60, life / 2)
            await asyncio.sleep(float(marks.get(BORN, time.time())) + life - margin - time.time())
            while self._box is box:
                try:
                    await self._keep(modal)
                except Unreachable:
                    await asyncio.sleep(5)
                    continue
                self.progress(f"'{self.spec.name}' ends within {margin:.0f} s: its files were kept until now")
                return

    def _let_be(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = set()

    async def left(self) -> None:
        self._let_be()
        if self.spec.persistent and self._box is not None:
            await self._keep(await sdk())

    def guest_python(self) -> Sequence[str]:
        return ("python3", "-I", "-S")

    def guest_dirs(self) -> GuestDirs:
        return GuestDirs(RUN, STATE)

    def workspace(self) -> str:
        return WORKSPACE

    async def diagnose(self, reason: str) -> str:
        if self._box is None:
            return ""
        modal = await sdk()
        try:
            code = await modal.call(self._box.poll.aio(), "look at the sandbox", CHECK_SECONDS)
        except Unreachable:
            return ""
        except SandboxGone:
            return "Modal does not know it any more"
        except HermesError:
            return ""
        return {
            None: "",
            124: f"its lifetime of {self._settings.lifetime:g} s has ended",
            137: "it was ended: by somebody, or because nothing ran in it",
        }.get(code, f"its first process has ended with exit code {code}")

    # --- taking it down

    async def _end(self, modal: ModuleType) -> None:
        connection = await self._connect(modal)
        if self._box is None and not await self._running(modal, connection):
            return
        box, self._box = self._box, None
        self._let_be()
        self._absent = True
        await modal.gone_is_fine(box.terminate.aio(wait=True), "end the sandbox", END_SECONDS)
        await note(self, "down")

    async def destroy(self, *, keep_files: bool = False) -> None:
        modal = await sdk()
        if keep_files and self._box is not None:
            await self._keep(modal)
        await self._end(modal)
        if not keep_files:
            entry = await asyncio.to_thread(snapshots.kept, self.spec.id)
            if entry is not None:
                await self._delete(modal, entry.snapshot)
                await asyncio.to_thread(snapshots.forget, self.spec.id)

    async def _delete(self, modal: ModuleType, snapshot: str) -> None:
        connection = await self._connect(modal)
        work = modal.image_delete.aio(snapshot, client=connection.client)
        await modal.gone_is_fine(work, f"delete the snapshot {snapshot}")

    async def _keep(self, modal: ModuleType) -> None:
        """Take a snapshot of the files, and note it; the one before goes."""
        entry = snapshots.Kept(snapshot=await self._snapshot(modal), image=self._image)
        before = await settled(asyncio.to_thread(snapshots.keep, self.spec.id, entry))
        if before is not None:
            with contextlib.suppress(HermesError):  # it goes by itself, after its time
                await self._delete(modal, before.snapshot)

    async def _snapshot(self, modal: ModuleType) -> str:
        if self._box is None:
            raise SandboxGone("there is no sandbox of Modal's to keep", reason="it has ended")
        seconds = self._settings.snapshot_timeout
        ttl = None if self.spec.keep else max(int(self.spec.lifetime.ttl), 3600)
        work = self._box.snapshot_filesystem.aio(timeout=int(seconds), ttl=ttl)
        try:
            image = await modal.call(work, "take a snapshot of the files", seconds + 10)
        except Unreachable as error:
            if not isinstance(error.__cause__, TimeoutError | modal.OwnTimeout):
                raise
            raise Unreachable(
                f"Modal did not take a snapshot of the files within {seconds:g} s; none is known of",
                reason="no answer",
                operation="take a snapshot",
                hint="Large file systems take long: modal.snapshot_timeout.",
            ) from error.__cause__
        return str(image.object_id)

    async def suspend(self) -> None:
        modal = await sdk()
        await self._keep(modal)
        await self._end(modal)

    async def resume(self) -> None:
        modal = await sdk()
        connection = await self._connect(modal)
        absent, self._absent = self._absent, False
        if not absent and await self._running(modal, connection):
            return
        entry = await asyncio.to_thread(snapshots.kept, self.spec.id)
        if entry is None:
            raise SandboxGone("there is no snapshot of the sandbox's files", reason="it was not suspended")
        began = time.monotonic()
        app = await connection.app(self._settings)
        image = modal.modal.Image.from_id(entry.snapshot, client=connection.client)
        try:
            await self._make(modal, connection, app, image)
        except BackendError as error:
            # Another client was quicker.
            if not isinstance(error.__cause__, modal.AlreadyExistsError):
                raise
            if not await self._running(modal, connection):
                raise
        except SandboxGone as error:
            if not isinstance(error.__cause__, modal.NotFoundError):
                raise
            await asyncio.to_thread(snapshots.forget, self.spec.id)
            raise SandboxGone(
                "Modal does not have the snapshot of the sandbox's files any more",
                reason="its snapshot has expired or was deleted",
            ) from error.__cause__
        self.progress(f"'{self.spec.name}' slept, and woke in {time.monotonic() - began:.1f} s")

    async def snapshot(self) -> str:
        return await self._snapshot(await sdk())

    @classmethod
    async def prune(cls, config: Config, store: Store) -> list[str]:
        return await prune(await sdk(), config, store)

    @classmethod
    async def strays(cls, config: Config, store: Store) -> list[Stray]:
        return await strays(await sdk(), config, store)
