"""The daytona backend: sandboxes at Daytona, which sleep when nobody uses them and keep their files."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import daytona as _sdk  # noqa: F401  # light; whether it is installed has to be known here

from hermes._tasks import settled
from hermes.config import Config
from hermes.errors import BackendError, HermesError, SandboxGone, Unreachable, UnsupportedError
from hermes.usage import Size

from .._cloud import _limiter
from .._cloud._account import check_account, emulated
from .._cloud._channel import CloudChannel
from .._cloud._labels import home_mark, surplus
from .._cloud._meter import note
from .._leftovers import known
from ..base import Backend, ByteChannel, Capabilities, Encoding, GuestDirs, PlaceState, Spec, Stray
from ._channel import DaytonaChannel
from ._client import API_URL, Client, account, asked, credentials
from ._plan import GIB, Plan, parameters, plan_for, provider_name

if TYPE_CHECKING:
    from daytona import AsyncDaytona, AsyncSandbox

    from hermes.state import Store

CALL_SECONDS = 30.0
LIST_SECONDS = 12.0
KEEP_AWAKE = 300.0
CREATIONS = (300, 60.0)  # so many in so many seconds, which is what the smallest account may do
COMING_UP = frozenset(
    (
        "creating",
        "restoring",
        "starting",
        "resuming",
        "pending_build",
        "building_snapshot",
        "pulling_snapshot",
    )
)
GONE = frozenset(("destroyed", "destroying", "build_failed"))

ACCESS_MINUTES = 60
T = TypeVar("T")


class DaytonaBackend(Backend):
    """Commands run in a sandbox of an account at Daytona."""

    name: ClassVar[str] = "daytona"
    distant: ClassVar[bool] = True
    paid: ClassVar[bool] = True
    swept: ClassVar[bool] = False  # to ask for a list would make every new sandbox wait
    encoding: Encoding = "text"

    def __init__(self, spec: Spec, config: Config) -> None:
        super().__init__(spec, config)
        self._plan: Plan | None = None
        self._client = Client(config)
        self._id = ""
        self._known: tuple[AsyncDaytona, AsyncSandbox] | None = None
        self._found = False

    @classmethod
    async def check(cls, config: Config) -> None:
        await asyncio.to_thread(credentials, config)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            isolation="container",
            persistent=True,
            suspend=True,
            snapshot=True,
            network_off=True,
            limits=frozenset({"cpus", "memory", "disk"}),
            workspace=frozenset({"private", "here", "path"}),
            copies=True,
            verified="emulator",
        )

    def check_spec(self) -> None:
        super().check_spec()
        self._planned()

    def settings(self) -> dict[str, Any]:
        plan = self._planned()
        return {
            "image": plan.image,
            "snapshot": plan.snapshot,
            "limits": plan.resources,
            "network": "off" if plan.blocked else "on",
            "allow_networks": list(plan.settings.allow_networks or ()),
            "allow_domains": list(plan.settings.allow_domains or ()),
            "api_url": self.service,
            "target": plan.settings.target,
        }

    @property
    def service(self) -> str:
        return self._planned().settings.api_url or API_URL

    def _planned(self) -> Plan:
        if self._plan is None:
            self._plan = plan_for(self.spec, self.config)
        return self._plan

    async def examine(self) -> list[str]:
        from daytona import ListSandboxesQuery

        mark = await asyncio.to_thread(home_mark)

        async def count(sdk: AsyncDaytona) -> int:
            query = ListSandboxesQuery(labels={"hermes.home": mark})
            return len([one async for one in sdk.list(query)])

        found = await self._ask("list sandboxes", count)
        await self._client.close()
        at = f"{self.service}{emulated(self.service, 'Daytona')}"
        return [f"{at} answers; sandboxes of this hermes home there: {found}"]

    async def _ask(
        self, what: str, work: Callable[[AsyncDaytona], Awaitable[T]], seconds: float = CALL_SECONDS
    ) -> T:
        async with self._client.use() as sdk:
            return await asked(what, lambda: work(sdk), seconds)

    # --- coming and going

    async def create(self) -> dict[str, Any]:
        plan = await asyncio.to_thread(self._planned)
        try:
            box = await settled(self._create(plan))
        except BaseException as error:
            left = await asyncio.shield(self._undo())
            if left and isinstance(error, HermesError):
                error.context["left"] = [left]
            await self._client.close()
            raise
        self._found = False
        await self._note("up", new=True)
        return {
            "id": box.id,
            "name": box.name,
            "cpus": box.cpu,
            "memory": box.memory * GIB,
            "account": await asyncio.to_thread(account, self.config),
        }

    async def _create(self, plan: Plan) -> AsyncSandbox:
        seconds = plan.settings.create_timeout
        if plan.image is not None:
            self.progress(f"making a sandbox from {plan.image}; the first time takes minutes")
        wanted = await asyncio.to_thread(parameters, plan, self.spec)
        login = await asyncio.to_thread(credentials, self.config)
        account = f"{self.name} {login.get('api_key') or login.get('organization_id')}"
        await _limiter.turn(account, *CREATIONS)
        async with self._client.use() as sdk:
            try:
                box = await asked("make a sandbox", lambda: sdk.create(wanted, timeout=seconds), seconds + 5)
            except Unreachable as error:
                # Whether it was made is not known, and it is not made twice: if it is there, it is this one.
                try:
                    box = await self._named(sdk)
                except SandboxGone:
                    raise error from error.__cause__
                await self._up(box, seconds)
            except SandboxGone as error:
                what = f"snapshot {plan.snapshot}" if plan.snapshot else f"image {plan.image}"
                raise BackendError(
                    f"Daytona has no {what} (any more), or its target has not; nothing was started",
                    code="snapshot_gone" if plan.snapshot else None,
                    operation="create",
                    hint="daytona.snapshot, daytona.image and daytona.target say what a sandbox begins with.",
                ) from error.__cause__
            self._known, self._id = (sdk, box), box.id
            return box

    async def _named(self, sdk: AsyncDaytona) -> AsyncSandbox:
        box = await asked("look for the sandbox", lambda: sdk.get(provider_name(self.spec)), CALL_SECONDS)
        if box.labels.get("hermes.id") != self.spec.id:
            raise BackendError(f"there is another sandbox named {box.name} at Daytona; nothing was started")
        return box

    async def _undo(self) -> str | None:
        """Remove what a create left, and return its name if it is still there."""
        name = provider_name(self.spec)
        try:
            async with self._client.use() as sdk:
                box = await self._named(sdk)
                await asked("remove the sandbox", lambda: box.delete(timeout=CALL_SECONDS), CALL_SECONDS)
        except Unreachable:
            return name
        except HermesError:
            return None
        return None

    async def find(self, locator: Mapping[str, Any]) -> PlaceState:
        ident = locator.get("id")
        if not isinstance(ident, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", ident):
            return "gone"
        self._id, self._found = ident, True
        try:
            box = await self._look()
        except Unreachable:
            raise
        except SandboxGone:
            check_account(self, locator, await asyncio.to_thread(account, self.config))
            return "gone"
        state = _state(box)
        if box.labels.get("hermes.id") != self.spec.id or state in GONE:
            return "gone"
        return "running" if state in ("started", "snapshotting") else "stopped"

    async def lost(self) -> str:
        return "its files are lost: it was deleted at Daytona, by somebody or after lifetime.ttl"

    async def _look(self) -> AsyncSandbox:
        """Ask for the sandbox as it is now."""
        async with self._client.use() as sdk:
            box = await asked("look at the sandbox", lambda: sdk.get(self._ident()), CALL_SECONDS)
            self._known = (sdk, box)
            return box

    def _ident(self) -> str:
        if not self._id:
            raise SandboxGone("there is no sandbox", reason="it was neither made nor found")
        return self._id

    async def _box(self, sdk: AsyncDaytona) -> AsyncSandbox:
        """Return the sandbox as this client of the SDK knows it, without asking again where it does."""
        if self._known is None or self._known[0] is not sdk:
            return await self._look()
        return self._known[1]

    async def exec_channel(self, argv: Sequence[str]) -> ByteChannel:
        self._ident()
        idle = self.spec.lifetime.idle_stop
        return DaytonaChannel(
            argv, self._client, self._box, self._keep_awake, min(idle / 3, KEEP_AWAKE) if idle else 0.0
        )

    def failure(self, channel: ByteChannel) -> HermesError | None:
        return channel.failure if isinstance(channel, CloudChannel) else None

    async def _keep_awake(self, box: AsyncSandbox) -> None:
        """Say that the sandbox is used: the provider counts calls, not what runs in it."""
        with contextlib.suppress(HermesError):
            await asked("keep the sandbox awake", box.refresh_activity, CALL_SECONDS)
            await self._note("up")

    async def diagnose(self, reason: str) -> str:
        try:
            async with asyncio.timeout(5.0):
                box = await self._look()
        except (Unreachable, TimeoutError):
            return ""
        except SandboxGone:
            return "it was deleted at Daytona"
        except HermesError:
            return ""
        state = _state(box)
        if state in GONE:
            return "it was deleted at Daytona"
        if state == "error":
            return f"it broke at Daytona: {_reason(box)}"
        if state in ("stopped", "stopping", "archived", "archiving", "paused", "pausing"):
            return f"it was stopped at Daytona ({state}), and its files are kept"
        return ""

    def guest_python(self) -> Sequence[str]:
        return ("python3", "-I", "-S")

    def guest_dirs(self) -> GuestDirs:
        base = f"/tmp/hermes-{self.spec.id}"
        return GuestDirs(f"{base}/guest", f"{base}/state")

    @property
    def guest_likely(self) -> bool:
        return self._found

    # --- sleeping and waking

    @property
    def stopped_by_client(self) -> bool:
        return True

    async def suspend(self) -> None:
        box = await self._look()
        if _state(box) in ("stopped", "archived", "paused"):
            return
        seconds = CALL_SECONDS * 4
        await self._settled_into(box, "stop", lambda: box.stop(timeout=seconds), seconds)
        await self._note("down")

    async def resume(self) -> None:
        began = time.monotonic()
        box = await self._look()
        state = _state(box)
        if state == "started":
            return
        if state == "archived":
            self.progress("the sandbox is archived: waking it may take many minutes")
        await self._up(box, self._planned().settings.wake_timeout)
        self._found = False
        await self._note("up")
        self.progress(f"the sandbox was asleep; waking it took {time.monotonic() - began:.1f} s")

    async def _up(self, box: AsyncSandbox, seconds: float) -> None:
        """Bring a sandbox to where a process can be started in it, whatever state it is in."""
        state = _state(box)
        if state in GONE:
            raise SandboxGone("the sandbox is gone: it was deleted at Daytona", reason="it was deleted")
        if state == "error":
            raise BackendError(
                f"the sandbox is there, but broken at Daytona: {_reason(box)}; nothing was run in it",
                code="place_broken",
                operation="resume",
                hint="The provider's dashboard may mend it. 'hermes sandbox rm' removes it with its files.",
            )
        if state in COMING_UP:
            await asked("wait for the sandbox", lambda: box.wait_for_sandbox_start(timeout=seconds), seconds)
        elif state != "started":
            await self._settled_into(box, "start", lambda: box.start(timeout=seconds), seconds)

    async def _settled_into(
        self, box: AsyncSandbox, verb: str, work: Callable[[], Awaitable[None]], seconds: float
    ) -> None:
        """Start or stop a sandbox. Where the answer is lost, or its state is just changing, look again."""
        wanted = ("started",) if verb == "start" else ("stopped", "destroyed")
        end = time.monotonic() + seconds
        while True:
            try:
                await asked(f"{verb} the sandbox", work, max(end - time.monotonic(), 1.0))
                return
            except HermesError as error:
                changing = getattr(error.__cause__, "status_code", None) in (400, 409)
                if not (isinstance(error, Unreachable) or changing) or time.monotonic() > end:
                    raise
                await asyncio.sleep(0.5)
                with contextlib.suppress(Unreachable):
                    await asked("look at the sandbox", box.refresh_data, CALL_SECONDS)
                    if _state(box) in wanted:
                        return
                    settled_elsewhere = _state(box) not in ("starting", "stopping", "started", "stopped")
                    if changing and settled_elsewhere and _state(box) not in COMING_UP:
                        raise

    async def link(self, port: int) -> str:
        async def make(sdk: AsyncDaytona) -> str:
            box = await self._box(sdk)
            return (await box.create_signed_preview_url(port, expires_in_seconds=ACCESS_MINUTES * 60)).url

        return await self._ask("make a link", make)

    async def ssh_command(self) -> str:
        async def make(sdk: AsyncDaytona) -> str:
            box = await self._box(sdk)
            return (await box.create_ssh_access(expires_in_minutes=ACCESS_MINUTES)).ssh_command

        return await self._ask("allow access by ssh", make)

    async def snapshot(self) -> str:
        seconds = self._planned().settings.snapshot_timeout
        box = await self._look()
        name = f"hermes-{self.spec.id[:8]}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
        try:
            await asked("take a snapshot", lambda: box.create_snapshot(name, timeout=seconds), seconds + 5)
        except Unreachable:
            # It may have been taken all the same.
            await self._ask("look for the snapshot", lambda sdk: sdk.snapshot.get(name))
        return name

    async def destroy(self, *, keep_files: bool = False) -> None:
        if keep_files and self._id:
            await self._refuse_to_keep()
        try:
            async with self._client.use() as sdk:
                box = await (self._box(sdk) if self._id else self._named(sdk))
                # The name of one that was never written down is likely wanted again at once.
                wait = not self._id
                await asked(
                    "remove the sandbox", lambda: box.delete(timeout=CALL_SECONDS, wait=wait), CALL_SECONDS
                )
        except Unreachable:
            raise
        except SandboxGone:
            pass
        finally:
            await self._client.close()
        if self._id:
            await self._note("down")
        self._id, self._known = "", None

    async def _refuse_to_keep(self) -> None:
        try:
            if _state(await self._look()) in GONE:
                return
        except Unreachable:
            raise
        except SandboxGone:
            return
        raise UnsupportedError(
            f"the sandbox '{self.spec.name}' cannot be made anew and keep its files, which are on its "
            "own disk at Daytona; nothing was removed",
            hint="Keep them with snapshot() and make another sandbox of that, or remove this one first.",
        )

    @property
    def billed(self) -> Size | None:
        box = self._known[1] if self._known is not None else None
        return Size(cpus=box.cpu, memory=box.memory * GIB) if box is not None else None

    async def _note(self, state: Any, *, new: bool = False) -> None:
        idle = self.spec.lifetime.idle_stop
        until = time.time() + idle if idle and state == "up" else None
        await note(self, state, new=new, until=until, size=self.billed)

    @classmethod
    async def prune(cls, config: Config, store: Store) -> list[str]:
        client = Client(config)
        gone = []
        try:
            async with client.use() as sdk:
                boxes = await _listed(sdk)
                records = await known(store)
                for box in boxes:
                    why = await asyncio.to_thread(surplus, box.labels, records)
                    if why is None or _state(box) in GONE:
                        continue
                    with contextlib.suppress(SandboxGone):
                        await asked("remove a sandbox", box.delete, CALL_SECONDS)
                    gone.append(f"daytona sandbox {box.name} removed ({why})")
        finally:
            await client.close()
        return gone

    @classmethod
    async def strays(cls, config: Config, store: Store) -> list[Stray]:
        client = Client(config)
        try:
            async with client.use() as sdk:
                boxes = await _listed(sdk)
        finally:
            await client.close()
        records = await known(store)
        return [
            Stray(box.name, box.labels.get("hermes.id", ""), _born(box))
            for box in boxes
            if box.labels.get("hermes.id") not in records and _state(box) not in GONE
        ]


async def _listed(sdk: AsyncDaytona) -> list[AsyncSandbox]:
    from daytona import ListSandboxesQuery

    mark = await asyncio.to_thread(home_mark)

    async def listed() -> list[AsyncSandbox]:
        return [one async for one in sdk.list(ListSandboxesQuery(labels={"hermes.home": mark}))]

    return await asked("list sandboxes", listed, LIST_SECONDS)


def _born(box: AsyncSandbox) -> float:
    with contextlib.suppress(ValueError):
        return datetime.datetime.fromisoformat(box.created_at or "").timestamp()
    return 0.0


def _state(box: AsyncSandbox) -> str:
    return str(box.state.value) if box.state is not None else "unknown"


def _reason(box: AsyncSandbox) -> str:
    text = "".join(c for c in box.error_reason or "" if c.isprintable())[:300]
    return text or "it does not say why"
