"""Places and their records: made under a name, found again, looked at, removed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import warnings
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from . import backends
from ._tasks import settled
from .config import Config, Lifetime, shown_limit
from .errors import BackendError, HermesError, SandboxDiffers, SandboxGone, Unreachable
from .state import TOUCH_EVERY, SandboxRecord, Store, owner

if TYPE_CHECKING:
    from .backends.base import Backend, Spec
    from .sandbox import Sandbox

__all__ = ["Wanted", "end", "find_or_create", "forget", "place_of", "remove", "used"]

SWEEP_EVERY = 3600.0
ANSWER_SECONDS = 12.0  # for a service that is to remove something
Origin = Literal["there", "new", "anew"]
COMMON = ("image", "network", "limits", "persistent", "keep")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The sandbox that a client asks for. *options* are the backend's own and those that all share.

    *recreate* allows to make it anew, with its files, where it was made with other settings; *progress* gets
    lines for people about what takes long.
    """

    backend: str
    name: str
    named: bool
    workspace: str | None = None
    here: str = ""
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    lifetime: Lifetime = msgspec.field(default_factory=Lifetime)
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    recreate: bool = False
    progress: Callable[[str], None] | None = None


def _spec(wanted: Wanted, ident: str) -> Spec:
    from .backends.base import Spec

    return Spec(
        name=wanted.name,
        id=ident,
        named=wanted.named,
        workspace=wanted.workspace,
        here=wanted.here,
        env=wanted.env,
        lifetime=wanted.lifetime,
        options={key: value for key, value in wanted.options.items() if key not in COMMON},
        **{key: wanted.options[key] for key in COMMON if key in wanted.options},
    )


def place_of(record: SandboxRecord, config: Config, wanted: Wanted | None = None) -> Backend:
    """Return the place of a record, not yet looked for; what it was made with counts, not what is wanted."""
    made = Wanted(
        backend=record.backend,
        name=record.name,
        named=record.named,
        workspace=record.workspace,
        here=wanted.here if wanted is not None else "",
        env=wanted.env if wanted is not None else {},
        lifetime=wanted.lifetime if wanted is not None else config.lifetime,
        options=record.options,
    )
    return backends.load(record.backend)(_spec(made, record.id), config)


@contextlib.asynccontextmanager
async def locked(store: Store, backend: str, name: str) -> AsyncIterator[None]:
    """Keep other processes from making, finding for the first time, or removing a sandbox of that name."""
    lock = await asyncio.to_thread(store.lock, backend, name)
    try:
        await asyncio.to_thread(lock.acquire)
        yield
    finally:
        await asyncio.to_thread(lock.release)


async def find_or_create(
    wanted: Wanted, config: Config, store: Store, *, create: bool
) -> tuple[Backend, SandboxRecord, Origin]:
    """Return the place under a name, its record, and where it comes from. Call it under the lock.

    A place that sleeps is woken. One that is gone is made anew, with its files; where they are lost with it,
    only when it may be.

    :param create: False leaves a place that is gone or sleeps as it is
    :raises SandboxGone: there is none that runs, and none was to be made; or it is gone with its files
    :raises SandboxDiffers: there is one that was made with other settings, and it may not be made anew
    :raises Unreachable: it cannot be told whether it is there
    """
    record = await asyncio.to_thread(store.get, wanted.backend, wanted.name) if wanted.named else None
    state, why = "gone", ""
    if record is not None:
        place = place_of(record, config, wanted)
        if wanted.progress is not None:
            place.progress = wanted.progress
        state = await place.find(record.locator)
        if (
            create
            and state != "gone"
            and (other := await asyncio.to_thread(_differences, wanted, record, config))
        ):
            if not wanted.recreate or any(line.startswith("workspace: ") for line in other if record.copied):
                await place.let_go()
                raise _differs(record, other)
            try:
                again = backends.load(wanted.backend)(_spec(wanted, record.id), config)
                await again.check_remake(record.locator)
            except BaseException:
                await place.let_go()
                raise
            await place.destroy(keep_files=True)
            return *await _create(wanted, config, store, record), "anew"
        if state == "stopped" and create:
            try:
                await place.resume()
                state = "running"
            except Unreachable:
                raise
            except SandboxGone as error:
                state, why = "gone", error.reason
        if state == "running":
            if record.ending:  # that came to nothing
                record.ending = False
                await settled(asyncio.to_thread(store.put, record))
            return place, record, "there"
    if not create:
        which = f"{wanted.backend} sandbox '{wanted.name}'"
        if record is not None:
            await place.let_go()
        if record is None:
            said, reason = f"there is no {which}", "it was never made, or was removed"
        elif state == "stopped":
            said, reason = f"the {which} has stopped", "stopped"
        else:
            said, reason = f"the {which} does not run any more", "it has ended"
        raise SandboxGone(said, reason=reason, hint="'hermes sandbox ls' shows those that there are.")
    if record is not None:
        lost = await place.lost() if record.locator and not record.ending else ""
        if lost and not wanted.recreate:
            await place.let_go()
            raise _lost(record, lost, why)
        # Its container, say, was removed by somebody; the files of its own were not.
        with contextlib.suppress(HermesError):
            await place.destroy(keep_files=not lost)
        if not lost:
            if record.locator and not record.ending:
                place.progress(f"'{record.name}' was gone, and is made anew; its files are kept")
            return *await _create(wanted, config, store, record), "anew"
        await settled(asyncio.to_thread(store.remove, record))
    return *await _create(wanted, config, store), "new"


def _lost(record: SandboxRecord, lost: str, why: str) -> SandboxGone:
    because = f" ({why})" if why else ""
    return SandboxGone(
        f"the {record.backend} sandbox '{record.name}' is gone{because}, and {lost}; nothing was started in "
        "its place",
        reason=why or lost,
        operation="open",
        hint="Make an empty one under its name with --recreate (recreate=True), or remove what is left of "
        f"it: hermes sandbox rm {record.name}",
    )


def _differences(wanted: Wanted, record: SandboxRecord, config: Config) -> list[str]:
    place = backends.load(wanted.backend)(_spec(wanted, record.id), config)
    place.check_spec()  # what it could never do is no difference, and is not left out in silence
    # As a record gives them back: without the difference of lists and tuples.
    now = msgspec.json.decode(msgspec.json.encode(_settings(place)))
    return [
        f"{key}: {_shown(key, record.settings.get(key))}, now {_shown(key, now.get(key))}"
        for key in sorted({*now, *record.settings})
        if now.get(key) != record.settings.get(key)
    ]


def _settings(place: Backend) -> dict[str, Any]:
    """Return what a place is made with. Blocks."""
    if not place.capabilities.copies:
        return place.settings()
    return {**place.settings(), "workspace": place.copied() or "private"}


def _shown(key: str, value: Any) -> str:
    if key == "limits" and isinstance(value, dict):
        return " ".join(f"{name} {shown_limit(name, limit)}" for name, limit in value.items()) or "none"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 120 else text[:117] + "..."


def _differs(record: SandboxRecord, other: list[str]) -> SandboxDiffers:
    return SandboxDiffers(
        f"the {record.backend} sandbox '{record.name}' was made with other settings ({'; '.join(other)}); "
        "nothing was run",
        hint="Say where its workspace is as when it was made (--here, --workspace), or use another name."
        if record.copied and any(line.startswith("workspace: ") for line in other)
        else "Use another name, or make it anew with --recreate (recreate=True): what runs in it ends, its "
        "workspace and home stay.",
        context={"differences": other},
    )


async def _create(
    wanted: Wanted, config: Config, store: Store, earlier: SandboxRecord | None = None
) -> tuple[Backend, SandboxRecord]:
    kind = backends.load(wanted.backend)
    again = earlier is not None  # its files are there: the record, without which nobody finds them, stays
    ident = earlier.id if earlier is not None else os.urandom(8).hex()
    await _sweep(kind, config, store, wanted)
    place = kind(_spec(wanted, ident), config)
    if wanted.progress is not None:
        place.progress = wanted.progress
    await asyncio.to_thread(place.check_spec)
    await kind.check(config)
    pid, boot = await asyncio.to_thread(owner)
    record = SandboxRecord(
        name=wanted.name,
        backend=wanted.backend,
        id=ident,
        created=time.time(),
        owner_pid=pid,
        owner_boot=boot,
        workspace=wanted.workspace,
        named=wanted.named,
        options=dict(wanted.options),
        copied=earlier is not None and earlier.copied,
        settings=await asyncio.to_thread(_settings, place),
        # By the earlier one it is known that there are files.
        locator=earlier.locator if earlier is not None else {},
        last_used=time.time(),
    )
    # Written before anything is started: what a crash leaves can then be found.
    made = False
    try:
        await settled(asyncio.to_thread(store.put, record))
        record.locator = await place.create()
        made = True
        await settled(asyncio.to_thread(store.put, record))
    except BaseException as error:
        if made:
            with contextlib.suppress(HermesError):
                await settled(place.destroy(keep_files=again))
        if not again and not (isinstance(error, HermesError) and error.context.get("left")):
            await settled(asyncio.to_thread(store.remove, record))
        if isinstance(error, SandboxGone):  # nobody's sandbox is gone: there never was one
            raise BackendError(
                error.message,
                code="backend_unavailable" if isinstance(error, Unreachable) else None,
                operation="create",
                retryable=error.retryable,
                hint=error.hint,
                context=error.context,
            ) from error
        raise
    return place, record


async def _sweep(kind: type[Backend], config: Config, store: Store, wanted: Wanted) -> None:
    """Remove what earlier sandboxes of a backend left behind, now and then."""
    from .backends.base import Backend

    if not kind.swept or kind.prune.__func__ is Backend.prune.__func__:  # type: ignore[attr-defined]
        return  # it leaves nothing, or looks only when it is told to
    if not await asyncio.to_thread(store.due, f"sweep-{wanted.backend}", SWEEP_EVERY):
        return
    try:
        removed = await kind.prune(config, store)
    except HermesError as error:
        removed = [f"what earlier sandboxes left could not be removed: {error.message}"]
        if wanted.progress is None:
            warnings.warn(removed[0], stacklevel=2)
    for line in removed:
        if wanted.progress is not None:
            wanted.progress(line)


async def remove(record: SandboxRecord, config: Config, store: Store) -> None:
    """End and remove a sandbox, its place and its record.

    :raises HermesError: something is left; the record is kept
    """
    place = place_of(record, config)
    async with locked(store, record.backend, record.name):
        await _look(place, record)
        await end(place, record, store)
        await asyncio.to_thread(store.remove, record)


async def wake(record: SandboxRecord, config: Config, store: Store) -> bool:
    """Start the place of a sandbox that was suspended or stopped, and return whether it had to be.

    :raises SandboxGone: there is nothing left to start; nothing was made in its stead
    """
    place = place_of(record, config)
    async with locked(store, record.backend, record.name):
        state = await place.find(record.locator)
        if state == "gone":
            if lost := await place.lost():
                raise _lost(record, lost, "")
            raise SandboxGone(
                f"the {record.backend} sandbox '{record.name}' does not run any more",
                reason="it has ended",
                hint="The next command in it makes it anew.",
            )
        if state == "stopped":
            await place.resume()
            await asyncio.to_thread(store.touch, record)
        await place.let_go()
    return state == "stopped"


async def _look(place: Backend, record: SandboxRecord) -> None:
    """Find a place that is to be removed. A service that does not answer is not asked a second time.

    :raises Unreachable: it does not
    """
    try:
        async with asyncio.timeout(ANSWER_SECONDS if place.paid else None):
            await place.find(record.locator)
    except (Unreachable, TimeoutError) as error:
        if not place.paid:
            return  # to remove it says what is wrong there
        said = f": {error.message}" if isinstance(error, Unreachable) else f" within {ANSWER_SECONDS:g} s"
        raise Unreachable(
            f"{record.backend} does not answer{said}; '{record.name}' was not removed, and may still run and "
            "cost money",
            reason="no answer",
            operation="remove",
            hint=f"Is there a network? 'hermes doctor --sandbox {record.backend}' says what is asked.",
        ) from error


async def end(place: Backend, record: SandboxRecord, store: Store) -> None:
    """Destroy a place; when we are killed at it, nobody is told later that it was lost.

    :raises HermesError: something is left
    """
    if place.paid and record.named and not record.ending:
        record.ending = True
        await settled(asyncio.to_thread(store.put, record))
    await place.destroy()


def note_use(box: Sandbox) -> None:
    """Note that a sandbox is in use: to the minute, to the second where a round trip takes longer anyway.

    Commands do not wait for it: they would be overtaken by those that need not.
    """
    place, record, now = box._place, box._record, time.time()
    if place is None or record is None:
        return
    if not 0 <= now - record.last_used < (1.0 if place.distant else TOUCH_EVERY):
        record.last_used = now
        loop = asyncio.get_running_loop()
        box._noting = loop.run_in_executor(None, box._store.touch, record, 0.0)


async def used(box: Sandbox) -> None:
    """Note that a sandbox is in use, and wait until that is written."""
    note_use(box)
    if box._noting is not None:
        await box._noting
        box._noting = None


async def forget(record: SandboxRecord, store: Store) -> None:
    """Remove a sandbox's record alone; what there is of the sandbox stays where it is."""
    async with locked(store, record.backend, record.name):
        await asyncio.to_thread(store.remove, record)
