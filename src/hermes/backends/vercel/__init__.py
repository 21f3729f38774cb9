"""The vercel backend: commands run in a microVM of Vercel Sandbox, through the provider's own SDK."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from hermes.config import Config, Vercel, section
from hermes.errors import BackendError, ConfigError, HermesError, SandboxGone, Unreachable
from hermes.usage import Size

from .._cloud import _limiter
from .._cloud._account import check_account, emulated, mark
from .._cloud._channel import CloudChannel
from .._cloud._meter import note
from ..base import Backend, ByteChannel, Capabilities, Encoding, GuestDirs, PlaceState, Spec, Stray
from ..ssh import owner
from . import _snapshots as snapshots
from ._account import KEEP, OWNER, PREFIX, account, runtime

if TYPE_CHECKING:
    from vercel.sandbox import Sandbox, SandboxClient, SandboxRuntimeSession

    from hermes.state import Store

if importlib.util.find_spec("vercel.sandbox") is None:
    raise ModuleNotFoundError("No module named 'vercel.sandbox'", name="vercel")

API_URL = "https://vercel.com/api"
WORK = "/vercel/sandbox"
DAY = 86400.0
ALLOCATION = 200, 60.0  # cores that a team of a paying plan may begin with in so many seconds
DIAGNOSE_SECONDS = 5.0
RUNNING = frozenset({"running", "pending"})
STOPPING = frozenset({"stopping", "snapshotting"})
PAUSE = 0.25  # seconds between looks at a state that changes
MEMORY = 2 << 30  # that goes with each core

T = TypeVar("T")


def _opened(settings: Vercel, runtime: str | None = None) -> SandboxClient:
    """Return a client of the SDK, whose import takes half a second, and is done for what follows. Blocks."""
    from . import _channel, _prune  # noqa: F401
    from ._client import opened

    return opened(settings, runtime)


class VercelBackend(Backend):
    """A sandbox of Vercel's, which is a name; each boot of it is a session with a time limit."""

    name: ClassVar[str] = "vercel"
    distant: ClassVar[bool] = True
    paid: ClassVar[bool] = True
    snapshot_ends: ClassVar[bool] = True
    encoding: Encoding = "text"

    def __init__(self, spec: Spec, config: Config) -> None:
        super().__init__(spec, config)
        self._settings: Vercel | None = None
        self._spare: tuple[SandboxClient, Sandbox] | None = None
        self._found = False

    @classmethod
    async def check(cls, config: Config) -> None:
        await asyncio.to_thread(account, config.vercel)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            isolation="vm",
            persistent=True,
            suspend=self.spec.persistent,
            snapshot=True,
            network_off=True,
            limits=frozenset({"cpus"}),
            copies=True,
            workspace=frozenset({"private", "here", "path"}),
            verified="emulator",
        )

    def check_spec(self) -> None:
        wish, spec = self._wish, self.spec
        if spec.network in ("internal", "host"):
            raise self._unsupported(f"network: {spec.network}", "it is on, or off, or on for vercel.domains")
        if spec.network == "off" and wish.domains:  # an empty list says the same
            raise ConfigError("vercel.domains are to be reached, and network is off; nothing was started")
        if "" in (spec.image, wish.image, wish.snapshot):
            raise ConfigError(
                "the name of the image or the snapshot is empty; nothing was started",
                hint="Leave it out for the provider's own: hermes config unset vercel.image",
            )
        if len(wish.ports) > 4:
            raise ConfigError("vercel.ports: at most four; nothing was started")
        cpus = spec.limits.get("cpus")
        if cpus is not None and cpus != int(cpus):
            raise self._unsupported(f"cpus: {cpus:g}", "its cores are whole ones, each with 2 GiB of memory")
        if wish.lifetime < 1:
            raise ConfigError("vercel.lifetime: at least a second; nothing was started")
        chosen = {"runtime": wish.runtime, "image": self._image, "snapshot": wish.snapshot}
        if len(several := [name for name, value in chosen.items() if value]) > 1:
            raise ConfigError(
                f"a sandbox begins with one of {' and '.join(several)}, not with both; nothing was started",
                hint="Leave all but one out: "
                + ", ".join(f"hermes config unset vercel.{name}" for name in several),
            )
        super().check_spec()

    @property
    def _wish(self) -> Vercel:
        if self._settings is None:
            self._settings = section(self.config.vercel, self.spec.options, "option of vercel")
        return self._settings

    @property
    def _blocked(self) -> bool:
        return self.spec.network == "off" or self._wish.domains == ()

    @property
    def _image(self) -> str | None:
        return self.spec.image or self._wish.image

    @property
    def _runtime(self) -> str | None:
        return None if self.spec.image else runtime(self._wish)

    @property
    def _cpus(self) -> int:
        return int(self.spec.limits.get("cpus", 2))

    def settings(self) -> dict[str, Any]:
        wish = self._wish
        return {
            "runtime": self._runtime,
            "image": self._image,
            "snapshot": wish.snapshot,
            "region": wish.region,
            "cpus": self._cpus,
            "ports": list(wish.ports),
            "network": "off" if self._blocked else self.spec.network or "on",
            "domains": list(wish.domains or ()),
            "persistent": self.spec.persistent,
        }

    @property
    def fleeting(self) -> str:
        return (
            "" if self.spec.persistent else f"{self._wish.lifetime:g} s after its last client at the latest"
        )

    @property
    def service(self) -> str:
        return self._wish.api_url or API_URL

    @property
    def _at(self) -> str:
        return PREFIX + self.spec.id

    # --- the SDK

    async def _client(self) -> SandboxClient:
        return await asyncio.to_thread(_opened, self._wish)

    async def _with(self, work: Callable[[SandboxClient, Sandbox], Awaitable[T]]) -> T:
        """Do something with the sandbox, on the connection that is left from the last time.

        :raises SandboxGone: there is none
        """
        spare, self._spare = self._spare, None
        if spare is not None:
            client, box = spare
            try:
                return await work(client, box)
            finally:
                await client.aclose()
        client = await self._client()
        try:
            return await work(client, await self._get(client))
        finally:
            await client.aclose()

    async def _get(self, client: SandboxClient, seconds: float | None = None) -> Sandbox:
        from ._client import within

        deadline = self._wish.deadline if seconds is None else seconds
        return await within(
            deadline, "look for a sandbox", lambda: client.get_sandbox(name=self._at), repeats=True
        )

    async def _account(self) -> str:
        who = await asyncio.to_thread(account, self._wish)
        return mark(who.team, who.project)

    # --- coming and going

    async def create(self) -> dict[str, Any]:
        wish, spec = self._wish, self.spec
        earlier = await asyncio.to_thread(snapshots.left_by, spec.id)
        source = earlier or wish.snapshot
        tags = {OWNER: await asyncio.to_thread(owner), "hermes-name": spec.name}
        if spec.keep:
            tags[KEEP] = "1"
        expiration = 0.0 if spec.keep else max(spec.lifetime.ttl, DAY)
        # A snapshot has the runtime that it was taken of, and none can be asked for.
        kind = None if source else await asyncio.to_thread(lambda: self._runtime)
        who = await asyncio.to_thread(account, wish)
        await _limiter.turn(f"vercel {who.team}", *ALLOCATION, weight=self._cpus)
        client = await asyncio.to_thread(_opened, wish, kind)
        from vercel.sandbox import NetworkPolicy, SandboxResources, SnapshotExpiration, SnapshotSource

        from ._client import code_of, within

        policy = NetworkPolicy.allow_all()
        if self._blocked:
            policy = NetworkPolicy.deny_all()
        elif wish.domains:
            policy = NetworkPolicy.custom({domain: () for domain in wish.domains})
        try:
            box = await within(
                wish.deadline,
                "make a sandbox",
                lambda: client.create_sandbox(
                    name=self._at,
                    image=None if source else self._image,
                    source=SnapshotSource(snapshot_id=source) if source else None,
                    ports=list(wish.ports) or None,
                    execution_time_limit=wish.lifetime,
                    resources=SandboxResources(vcpus=self._cpus),
                    persistent=spec.persistent,
                    network_policy=policy,
                    tags=tags,
                    snapshot_expiration=SnapshotExpiration(expiration) if spec.persistent else None,
                ),
            )
        except BaseException as error:
            await client.aclose()
            no_snapshot = code_of(error)[1] == "snapshot_not_found" or (source and code_of(error)[0] == 404)
            if code_of(error)[0] not in (400, 401, 402, 403, 409):  # else it is not there, or not ours
                await asyncio.shield(self._unmade(error))
            if no_snapshot and not earlier:
                raise BackendError(
                    f"Vercel has no snapshot {source} in this project (any more); nothing was started",
                    code="snapshot_gone",
                    operation="create",
                    hint="vercel.snapshot says what a new sandbox begins with; 'snapshot()' makes one.",
                ) from error.__cause__
            raise
        self._spare = (client, box)
        if earlier is not None:
            await asyncio.to_thread(snapshots.forget, earlier)
        await self._note("up", new=True)
        return {"name": self._at, "persistent": spec.persistent, "account": await self._account()}

    async def _unmade(self, error: BaseException) -> None:
        """Remove what may have been made although nobody was told."""
        try:
            await self.destroy()
        except HermesError as left:
            if isinstance(error, HermesError):
                error.context["left"] = [self._at]
                error.context["why"] = left.message

    async def find(self, locator: Mapping[str, Any]) -> PlaceState:
        return await self._look(locator, keep=True)

    async def look(self, locator: Mapping[str, Any]) -> PlaceState:
        return await self._look(locator, keep=False)

    async def _look(self, locator: Mapping[str, Any], *, keep: bool) -> PlaceState:
        if locator.get("name") != self._at:
            return "gone"
        await self._drop()
        client = await self._client()
        try:
            box = await self._get(client)
        except SandboxGone as error:
            await client.aclose()
            if isinstance(error, Unreachable):
                raise
            check_account(self, locator, await self._account())
            return "gone"
        except BaseException:
            await client.aclose()
            raise
        if keep:
            self._spare = (client, box)
        else:
            await client.aclose()
        if box.status in RUNNING:
            self._found = True
            return "running"
        return "stopped" if box.persistent or box.current_snapshot_id else "gone"

    async def lost(self) -> str:
        if await asyncio.to_thread(snapshots.left_by, self.spec.id):
            return ""
        kept = "its snapshot is gone, too" if self.spec.persistent else "persistent: true would keep them"
        return f"its files are lost: its time at Vercel was over, or somebody removed it ({kept})"

    async def let_go(self) -> None:
        await self._drop()

    async def _drop(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            await spare[0].aclose()

    async def exec_channel(self, argv: Sequence[str]) -> ByteChannel:
        from ._channel import VercelChannel

        wish = self._wish
        return VercelChannel(
            argv, self._attached, deadline=wish.deadline, lifetime=wish.lifetime, on_limit=self._limited
        )

    def failure(self, channel: ByteChannel) -> HermesError | None:
        return channel.failure if isinstance(channel, CloudChannel) else None

    async def _attached(self) -> tuple[SandboxClient, SandboxRuntimeSession]:
        """Return the session that runs, and its client. Wakes nothing, as a sandbox's own methods would."""
        spare, self._spare = self._spare, None
        if spare is not None:
            client, box = spare
        else:
            client = await self._client()
        try:
            if spare is None:
                box = await self._get(client)
            session = box.current_session
            if session is None or box.status not in RUNNING:
                raise SandboxGone(
                    f"the sandbox does not run: {self._why(box)}", reason=self._why(box), operation="attach"
                )
        except BaseException:
            await client.aclose()
            raise
        return client, session

    def _why(self, box: Sandbox) -> str:
        kept = box.persistent or box.current_snapshot_id
        files = "its files are kept, and are there when it is opened again" if kept else "its files are gone"
        return f"its session has {box.status or 'ended'}, by its time limit or by somebody; {files}"

    async def _limited(self, left: float | None) -> None:
        if left is not None:
            await self._note("up")
            return
        kept = "kept" if self.spec.persistent else "lost, unless they are fetched"
        self.progress(
            f"Vercel does not let '{self.spec.name}' run for longer: its files are {kept} at the end"
        )

    @property
    def billed(self) -> Size:
        return Size(cpus=self._cpus, memory=self._cpus * MEMORY)

    async def _note(self, state: str, *, new: bool = False) -> None:
        if state == "up":
            await note(self, "up", new=new, until=time.time() + self._wish.lifetime, size=self.billed)
        else:
            await note(self, "down")

    @property
    def guest_likely(self) -> bool:
        return self._found

    def guest_dirs(self) -> GuestDirs:
        folder = f"/var/tmp/hermes-{self.spec.id}"
        return GuestDirs(f"{folder}/run", f"{folder}/spill")

    def workspace(self) -> str:
        return WORK

    async def diagnose(self, reason: str) -> str:
        try:
            async with asyncio.timeout(DIAGNOSE_SECONDS):
                client = await self._client()
                try:
                    box = await self._get(client, DIAGNOSE_SECONDS)
                finally:
                    await client.aclose()
        except Unreachable:
            return ""
        except SandboxGone:
            return "Vercel has no sandbox of that name any more: it was removed, or expired"
        except (HermesError, TimeoutError):
            return ""
        return "" if box.status in RUNNING else self._why(box)

    async def examine(self) -> list[str]:
        wish = self._wish

        async def first() -> int:
            async for _ in client.query_sandboxes(page_size=1):
                return 1
            return 0

        client = await self._client()
        from ._client import within

        try:
            some = await within(min(wish.deadline, DIAGNOSE_SECONDS), "list sandboxes", first, repeats=True)
        finally:
            await client.aclose()
        at = f"{self.service}{emulated(self.service, 'Vercel')}"
        kind = await asyncio.to_thread(lambda: self._runtime)
        begins = kind or self._image or wish.snapshot or "the provider's own image"
        return [
            f"the API at {at} accepts the token; the project has {'sandboxes' if some else 'no sandbox'}",
            f"begins with {begins}{'' if kind is None or wish.runtime else ', as the linked project'}",
            f"{self._cpus} cores, {self._cpus * 2} GiB, for {wish.lifetime:g} s unless a client extends that",
            "proved against an emulator only",
        ]

    # --- sleep

    @property
    def stopped_by_client(self) -> bool:
        return self.spec.persistent

    async def suspend(self) -> None:
        if not self.spec.persistent:
            raise self._unsupported("suspend", "persistent: true keeps the files when it stops")

        async def work(client: SandboxClient, box: Sandbox) -> None:
            from ._client import within

            before = box.current_snapshot_id
            await within(self._wish.deadline, "stop a sandbox", box.stop, repeats=True)
            stopped = await self._settle(client)
            await self._evict(client, before, stopped.current_snapshot_id)

        await self._with(work)
        self._found = False
        await self._note("down")

    async def _evict(self, client: SandboxClient, before: str | None, now: str | None) -> None:
        """Remove the snapshot that another has taken the place of, so that one is billed and not each."""
        if before is None or before == now or before in await asyncio.to_thread(snapshots.kept):
            return
        from ._client import within

        with contextlib.suppress(HermesError):  # it is removed with the sandbox then

            async def delete() -> None:
                await (await client.get_snapshot(snapshot_id=before)).delete()

            await within(self._wish.deadline, "remove a snapshot", delete)

    async def _settle(self, client: SandboxClient) -> Sandbox:
        """Wait until a sandbox that stops has stopped."""
        until = time.monotonic() + self._wish.snapshot_deadline
        while True:
            box = await self._get(client)
            if box.status not in STOPPING:
                return box
            if time.monotonic() > until:
                raise Unreachable(
                    f"the sandbox is still {box.status} after {self._wish.snapshot_deadline:g} s; it goes on",
                    reason="it does not stop",
                    operation="suspend",
                    hint="Large file systems take long: vercel.snapshot_deadline.",
                )
            await asyncio.sleep(PAUSE)

    async def resume(self) -> None:
        await self._drop()
        began = time.monotonic()
        client = await self._client()
        try:
            if not self.spec.persistent and (await self._get(client)).current_snapshot_id is None:
                raise SandboxGone(
                    "there is nothing to wake: the sandbox kept no files", reason="it was not persistent"
                )
            box = await self._resumed(client)
        except BaseException:
            await client.aclose()
            raise
        self._spare, self._found = (client, box), False
        self.progress(f"'{self.spec.name}' slept, and woke in {time.monotonic() - began:.1f} s")
        await self._note("up")

    async def _resumed(self, client: SandboxClient) -> Sandbox:
        from ._client import code_of, within

        deadline = self._wish.deadline
        while True:
            try:
                return await within(
                    deadline,
                    "wake a sandbox",
                    lambda: client.resume_sandbox(name=self._at),
                    repeats=True,  # what runs already is answered as it is
                )
            except Unreachable as error:
                if code_of(error)[0] != 422:
                    raise
                await self._settle(client)

    async def snapshot(self) -> str:
        wish = self._wish

        async def work(client: SandboxClient, box: Sandbox) -> str:
            from vercel.sandbox import SnapshotExpiration

            from ._client import within

            keep = SnapshotExpiration(max(wish.snapshot_keep, DAY) if wish.snapshot_keep else 0)
            session = box.current_session
            if session is None or box.status not in RUNNING:
                raise SandboxGone("there is no session to keep", reason=self._why(box), operation="snapshot")
            before = box.current_snapshot_id
            taken = await within(
                wish.snapshot_deadline, "take a snapshot", lambda: session.snapshot(expiration=keep)
            )
            await asyncio.to_thread(snapshots.remember, taken.id)
            await self._evict(client, before, taken.id)
            return taken.id

        ident = await self._with(work)
        await self.resume()
        return ident

    async def destroy(self, *, keep_files: bool = False) -> None:
        async def work(client: SandboxClient, box: Sandbox) -> None:
            if keep_files:
                await self._leave(client, box)
            from ._prune import end

            await end(client, box, self._wish.deadline)

        try:
            await self._with(work)
        except SandboxGone as error:
            if isinstance(error, Unreachable):
                raise
        await self._note("down")

    async def _leave(self, client: SandboxClient, box: Sandbox) -> None:
        """Keep the files in a snapshot for the next place of this sandbox."""
        from ._client import within

        ident = box.current_snapshot_id
        session = box.current_session
        if session is not None and box.status in RUNNING:
            taken = await within(
                self._wish.snapshot_deadline, "take a snapshot", lambda: session.snapshot(expiration=7 * DAY)
            )
            ident = taken.id
        if ident is not None:
            await asyncio.to_thread(snapshots.remember, ident, self.spec.id)

    @classmethod
    async def prune(cls, config: Config, store: Store) -> list[str]:
        module = await asyncio.to_thread(importlib.import_module, f"{__name__}._prune")
        gone: list[str] = await module.prune(config, store)
        return gone

    @classmethod
    async def strays(cls, config: Config, store: Store) -> list[Stray]:
        module = await asyncio.to_thread(importlib.import_module, f"{__name__}._prune")
        found: list[Stray] = await module.strays(config, store)
        return found
