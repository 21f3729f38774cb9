"""Which places can be used on this machine now, and what the others lack."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from . import backends
from .backends import _catalog
from .config import Config, home, make_private
from .errors import HermesError

if TYPE_CHECKING:
    from .backends.base import Backend

__all__ = ["Found", "Proof", "look", "look_at_all", "measured", "place", "places", "prove", "remember"]

PATIENCE = 0.8  # seconds for a place to answer, where the caller does not say


class Proof(msgspec.Struct, kw_only=True):
    """What a command in a place told: system and machine, directory, seconds until it was done.

    ``clock`` is by how many seconds the clock there is ahead of ours.
    """

    system: str
    machine: str
    cwd: str
    seconds: float
    clock: float


class Found(msgspec.Struct, kw_only=True):
    """One place. ``works`` is None when it was asked and did not answer in time.

    ``missing`` says what it lacks, ``remedy`` what to do about it, ``facts`` what is there.
    """

    place: str
    works: bool | None
    verified: str = "unverified"
    missing: str = ""
    remedy: str = ""
    facts: list[str] = []
    proof: Proof | None = None


def places() -> list[str]:
    """Return the names of all places: hermes's own, then those that others added."""
    return [*_catalog.ABOUT, *(name for name in backends.names() if name not in _catalog.ABOUT)]


def place(name: str, config: Config) -> Backend:
    """Return a place that is only to be asked about, or prepared: ``BACKEND[:HOST]``.

    :raises ConfigError: no such backend
    """
    from .backends.base import Spec

    backend, host = backends.split(name)
    spec = Spec(name="doctor", id="0" * 16, options={"host": host} if host else {})
    return backends.load(backend)(spec, config)


async def look_at_all(
    config: Config,
    names: Sequence[str] | None = None,
    *,
    patience: float | None = PATIENCE,
    deep: bool = False,
) -> list[Found]:
    """Look at all places at the same time, or at those that are named; *deep* starts them, one by one."""
    names = await asyncio.to_thread(places) if names is None else names
    found = list(await asyncio.gather(*(look(name, config, None if deep else patience) for name in names)))
    for one in found if deep else ():
        if one.works:
            try:
                one.proof = await prove(one.place, config)
            except HermesError as error:
                one.works, one.missing, one.remedy = False, error.message, error.hint or ""
    return found


async def look(name: str, config: Config, patience: float | None = PATIENCE) -> Found:
    """Find out whether a place can be used now, without starting anything.

    :param name: ``BACKEND[:HOST]``
    :param patience: seconds for its answer, None for as long as it takes
    """
    verified = "unverified"
    try:
        one = await asyncio.to_thread(place, name, config)
        with contextlib.suppress(HermesError):
            verified = one.capabilities.verified
        async with asyncio.timeout(patience):
            await one.check(config)
            await asyncio.to_thread(one.check_spec)
            facts = await one.examine()
    except TimeoutError:
        late = f"no answer within {patience:g} s"
        return Found(place=name, works=None, verified=verified, missing=late, remedy="hermes doctor --deep")
    except HermesError as error:
        missing, remedy = error.message, error.hint or ""
        return Found(place=name, works=False, verified=verified, missing=missing, remedy=remedy)
    return Found(place=name, works=True, verified=verified, facts=facts)


async def prove(name: str, config: Config, *, progress: Callable[[str], None] | None = None) -> Proof:
    """Run a command in a sandbox of that place, which is made for it and removed again.

    :raises HermesError: it does not work
    """
    from .sandbox import Sandbox

    backend, _, host = name.partition(":")
    options: dict[str, Any] = {"host": host} if host else {}
    start = time.monotonic()
    async with Sandbox(
        backend, workspace="private", approval="off", config=config, on_progress=progress, **options
    ) as box:
        result = await box.run("uname -sr; uname -n; pwd; date +%s", timeout=60)
        took, now = time.monotonic() - start, time.time()
    lines = [*result.text.splitlines(), *["?"] * 4]
    clock = float(lines[3]) - now if lines[3].isdecimal() else 0.0
    return Proof(system=lines[0][:60], machine=lines[1][:60], cwd=lines[2], seconds=took, clock=clock)


def remember(name: str, seconds: float) -> None:
    """Keep what a command in an open session took in a place, as ``hermes bench`` measured it."""
    kept = _kept()
    kept[name] = {"median_s": seconds, "measured": time.time()}
    path = home() / "state" / "bench.json"
    with contextlib.suppress(OSError):  # a figure that is not kept is measured again
        make_private(path.parent)
        draft = path.with_suffix(".new")
        draft.write_bytes(msgspec.json.encode(kept))
        draft.replace(path)


def measured(name: str) -> float | None:
    """Return the seconds that the last ``hermes bench`` found for a command there, None without one."""
    found = _kept().get(name, {}).get("median_s")
    return float(found) if isinstance(found, int | float) else None


def _kept() -> dict[str, dict[str, Any]]:
    try:
        data = (home() / "state" / "bench.json").read_bytes()
        return msgspec.json.decode(data, type=dict[str, dict[str, Any]])
    except (OSError, msgspec.DecodeError):
        return {}
