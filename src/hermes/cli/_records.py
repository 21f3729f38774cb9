"""The sandboxes that the state store knows: looking for them, and removing them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from hermes import backends, places
from hermes.backends._leftovers import surplus
from hermes.config import Config, load
from hermes.errors import ConfigError, HermesError, SandboxGone, Unreachable
from hermes.places import place_of
from hermes.state import SandboxRecord, Store, owner_state

from ._place import Chosen
from ._status import working
from ._text import plural

State = Literal["running", "gone", "stopped", "starting", "unreachable", "stray"]
CLOUDS = ("modal", "daytona", "vercel")
LOOK_SECONDS = 12.0
_SILENT = f"no answer within {LOOK_SECONDS:g} s"


@dataclass(frozen=True)
class Seen:
    """A record, and what its place says now; ``why`` is for people, when it could not be told.

    ``lost`` says what is lost with one that is gone, ``silent`` that there was no answer.
    """

    record: SandboxRecord
    state: State
    why: str = ""
    lost: str = ""
    silent: bool = False


def chosen_for(record: SandboxRecord) -> Chosen:
    """Return the choice that means exactly the sandbox of a record."""
    return Chosen(
        config=load(),
        backend=record.backend,
        name=record.name,
        workspace=record.workspace,
        options=dict(record.options),
    )


def find_record(name: str, backend: str | None) -> SandboxRecord:
    """Return the record of that name, or of an id that begins so (four digits at least).

    :raises SandboxGone: there is none
    :raises HermesError: code ``ambiguous``; there are several
    """
    backend = backend and backend.partition(":")[0]
    records = [one for one in Store().all() if backend in (None, "auto", one.backend)]
    found = [one for one in records if one.name == name]
    if not found and len(name) >= 4:
        found = [one for one in records if one.id.startswith(name)]
    if not found:
        import difflib

        near = difflib.get_close_matches(name, [one.name for one in records], n=1)
        raise SandboxGone(
            f"there is no sandbox '{name}'" + (f" on {backend}" if backend else ""),
            reason="it was never made, or was removed",
            hint=f"Did you mean '{near[0]}'?" if near else "'hermes sandbox ls' shows those that there are.",
        )
    if len(found) > 1:
        raise HermesError(
            f"'{name}' may be any of: "
            + ", ".join(f"{one.name} on {one.backend} ({one.id[:8]})" for one in found),
            code="ambiguous",
            hint="Add --sandbox, or give more of the ID.",
        )
    return found[0]


async def seen(backend: str | None) -> list[Seen]:
    """Return what there is; see :func:`look`."""
    return (await look(backend))[0]


async def look(backend: str | None) -> tuple[list[Seen], list[str]]:
    """Return every sandbox with its state, and what is wrong with the records that cannot be read."""
    backend = backend and backend.partition(":")[0]
    problems: list[str] = []
    records = await asyncio.to_thread(Store().all, problems)
    config = load()
    wanted = [one for one in records if backend in (None, "auto", one.backend)]
    return await asyncio.gather(*(_look(one, config) for one in wanted)), problems


async def strays(backend: str | None) -> tuple[list[Seen], list[str]]:
    """Return what runs at the configured providers and has no record here, and who could not be asked."""
    backend = backend and backend.partition(":")[0]
    config, problems = load(), list[str]()
    found: list[Seen] = []

    async def ask(name: str) -> None:
        try:
            kind = await asyncio.to_thread(backends.load, name)
            await kind.check(config)
        except HermesError:
            return  # it is not installed, or not configured: nothing of ours can run there
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                there = await kind.strays(config, await asyncio.to_thread(Store))
        except (HermesError, TimeoutError) as error:
            why = str(error) or _SILENT  # a TimeoutError says nothing
            problems.append(f"{name}: what runs there without a record here could not be asked for: {why}")
            return
        for one in there:
            record = SandboxRecord(
                name=one.name, backend=name, id=one.id, created=one.created, owner_pid=0, owner_boot=""
            )
            why = "it has no record here, and costs money; 'hermes sandbox prune' removes what is not kept"
            found.append(Seen(record, "stray", why))

    await asyncio.gather(*(ask(name) for name in CLOUDS if backend in (None, "auto", name)))
    return found, problems


async def _look(record: SandboxRecord, config: Config) -> Seen:
    if not record.locator and await asyncio.to_thread(owner_state, record) == "alive":
        return Seen(record, "starting")
    try:
        place = place_of(record, config)
        async with asyncio.timeout(LOOK_SECONDS):
            state = await place.look(record.locator)
            lost = await place.lost() if state == "gone" else ""
    except TimeoutError:
        return Seen(record, "unreachable", _SILENT, silent=True)
    except HermesError as error:
        return Seen(record, "unreachable", str(error), silent=isinstance(error, Unreachable))
    return Seen(record, state, lost=lost)


def unapplied(record: SandboxRecord) -> int:
    """Return how many files of a project were changed in a sandbox, and are changed in it alone. Blocks."""
    if record.backend != "jail":
        return 0
    from ._layer import unapplied

    return unapplied(record)


def check_applied(record: SandboxRecord) -> None:
    """Check that nothing would be lost with a sandbox that somebody wants to look at first. Blocks.

    :raises HermesError: code ``unapplied``
    """
    if count := unapplied(record):
        raise HermesError(
            f"{plural(count, 'file')} changed in '{record.name}' would be lost; it was not removed",
            code="unapplied",
            hint=f"hermes diff --name {record.name} shows them. Apply or discard them, or remove the "
            "sandbox with --force.",
        )


async def remove(record: SandboxRecord) -> None:
    """End and remove a sandbox; see :func:`hermes.places.remove`."""
    with working(f"removing '{record.name}' on {record.backend}"):
        await places.remove(record, load(), Store())


async def suspend(record: SandboxRecord, consent: Callable[[int], Awaitable[bool]]) -> bool:
    """Stop a sandbox, and return whether it ran.

    :param consent: asked when jobs run there, with their number; False leaves all as it is
    :raises HermesError: it cannot; or code ``refused``, there was no consent
    """
    chosen = chosen_for(record)
    place = await asyncio.to_thread(place_of, record, chosen.config)
    if not place.capabilities.suspend:
        raise place._unsupported("suspend", "'hermes sandbox rm' ends it.")
    state = await place.look(record.locator)
    if state == "stopped":
        return False
    box = chosen.sandbox()
    try:
        await box.open(create=False)
    except SandboxGone:
        if state == "gone":
            raise
        # Its guest has ended, so nothing runs there.
        await place.find(record.locator)
        await place.suspend()
        return True
    try:
        try:
            jobs = sum(one.state in ("queued", "running") for one in await box.jobs())
        except Unreachable:  # so busy that it does not answer: this is how to end that
            jobs = 1
        if jobs and not await consent(jobs):
            raise HermesError(f"'{record.name}' was not suspended: something runs there", code="in_use")
        await box.suspend()
    finally:
        await box.close()
    return True


async def wake(record: SandboxRecord) -> bool:
    """Start a sandbox that was suspended, and return whether it had to be; see :func:`hermes.places.wake`."""
    return await places.wake(record, load(), Store())


async def forget(record: SandboxRecord) -> str:
    """Remove the record of a sandbox that cannot be removed; return what may be left, and where."""
    await places.forget(record, Store())
    host, user = record.locator.get("host"), record.locator.get("user")
    where = f"on {user}@{host}" if host else f"on {record.backend}"
    return f"its files and what runs in it may be left {where}; 'hermes sandbox prune' looks for them"


async def prune_all(backend: str | None, *, dry_run: bool) -> tuple[list[tuple[str, str]], list[HermesError]]:
    """Remove what is left over; return what was removed and why, and what went wrong."""
    config, now = load(), time.time()
    done: list[tuple[str, str]] = []
    failures: list[HermesError] = []
    with working("looking at the sandboxes that there are"):
        found, problems = await look(backend)
    failures += [HermesError(problem, code="state_unreadable") for problem in problems]
    for one in found:
        why = await asyncio.to_thread(_surplus, one, config.lifetime.ttl, now)
        if why is None:
            continue
        try:
            if one.record.named:
                await asyncio.to_thread(check_applied, one.record)
            if not dry_run:
                await remove(one.record)
        except HermesError as error:
            failures.append(error)
        else:
            done.append((one.record.name, why))
    if dry_run:
        return done, failures
    used, silent = {one.record.backend for one in found}, {one.record.backend for one in found if one.silent}
    names = [
        name
        for name in sorted(used | set(backends.TABLE))
        if backend is None or backend.partition(":")[0] == name
    ]
    with working("looking for what has no record"):
        results = await asyncio.gather(
            *(_left(name, config, silent=name in silent) for name in names), return_exceptions=True
        )
    for name, left in zip(names, results, strict=True):
        if isinstance(left, ConfigError):  # a backend that is not installed here; `ls` says so
            continue
        if isinstance(left, HermesError):
            # What was never used here, and has no program here, left nothing.
            if left.code != "backend_unavailable" or name in used:
                failures.append(left)
        elif isinstance(left, BaseException):
            raise left
        else:
            done += [(name, line) for line in left]
    return done, failures


async def _left(name: str, config: Config, *, silent: bool) -> list[str]:
    """Remove what a backend left; one whose service did not answer just now is not asked again."""
    kind = await asyncio.to_thread(backends.load, name)
    if silent and kind.paid:
        raise Unreachable(
            f"{name} does not answer: what was left there was neither looked for nor removed",
            reason="no answer",
            hint=f"Is there a network? 'hermes doctor --sandbox {name}' says what is asked.",
        )
    return await kind.prune(config, Store())


def _surplus(one: Seen, ttl: float, now: float) -> str | None:
    """Return why a sandbox may go, None when it may not.

    One with a name that is gone may be made anew, with the files of its own where it has them still.
    """
    if one.state == "unreachable":
        return None
    record = one.record
    if not record.locator:  # it is being made
        return surplus(record)
    has_files = record.named and (record.workspace == "private" or record.backend != "local") and not one.lost
    if one.state == "gone" and not has_files:
        return "it is gone"
    if not record.named and owner_state(record) == "dead":
        return "its hermes has ended"
    idle = now - (record.last_used or record.created)
    if idle > ttl and not record.options.get("keep"):
        return f"it was not used for {idle / 86400:.1f} days"
    return None
