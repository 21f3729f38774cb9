"""Which places can be used on this machine now, and what the others lack."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from . import backends
from .backends import _catalog
from .config import Config, home
from .errors import HermesError

__all__ = ["Found", "look", "look_at_all", "measured", "remember"]

PATIENCE = 1.0  # seconds for a place to answer, unless it is to be started anyway


class Found(msgspec.Struct, kw_only=True):
    """One place. ``works`` is None when it was asked and did not answer in time; ``built``: hermes has it.

    ``missing`` says what it lacks, ``remedy`` what to do about it, ``facts`` what is there. ``ran`` is what a
    command there printed, when one was to be run.
    """

    place: str
    works: bool | None
    built: bool = True
    missing: str = ""
    remedy: str = ""
    facts: list[str] = []
    ran: str = ""


def places() -> list[str]:
    """Return the names of all places: those to come too, then those that others added."""
    return [*_catalog.ABOUT, *(name for name in backends.names() if name not in _catalog.ABOUT)]


async def look_at_all(
    config: Config, names: Sequence[str] | None = None, *, deep: bool = False
) -> list[Found]:
    """Look at all places at the same time, or at those that are named."""
    names = places() if names is None else names
    return list(await asyncio.gather(*(look(name, config, deep=deep) for name in names)))


async def look(place: str, config: Config, *, deep: bool = False) -> Found:
    """Find out whether a place can be used now.

    :param place: ``BACKEND[:HOST]``
    :param deep: really start a sandbox there, run a command in it, and remove it
    """
    name, _, host = backends.canonical(place).partition(":")
    if not _catalog.built(name):
        return Found(
            place=place,
            works=False,
            built=False,
            missing=f"{name} is not built into this version yet",
            remedy="choose another place; 'hermes backends' shows them",
        )
    facts: list[str] = []
    try:
        async with asyncio.timeout(None if deep else PATIENCE):
            kind = await asyncio.to_thread(backends.load, name)
            await kind.check(config)
            spec = _spec({"host": host} if host else {})
            one = kind(spec, config)
            await asyncio.to_thread(one.check_spec)
            facts = await one.examine()
        ran = await _prove(name, host, config) if deep else ""
    except TimeoutError:
        return Found(
            place=place, works=None, missing=f"no answer within {PATIENCE:g} s", remedy="--deep waits"
        )
    except HermesError as error:
        return Found(place=place, works=False, missing=error.message, remedy=error.hint or "", facts=facts)
    return Found(place=place, works=True, facts=facts, ran=ran)


def _spec(options: dict[str, Any]) -> Any:
    from .backends.base import Spec

    return Spec(name="doctor", id="0" * 16, options=options)


async def _prove(name: str, host: str, config: Config) -> str:
    """Run a command in a sandbox of that place, made for it; return a line that says where it ran."""
    from .sandbox import Sandbox

    options: dict[str, Any] = {"host": host} if host else {}
    start = time.monotonic()
    async with Sandbox(name, workspace="private", approval="off", config=config, **options) as box:
        result = await box.run("uname -sr; uname -n; pwd", timeout=60)
        took = time.monotonic() - start
        system, machine, cwd = (result.text.splitlines() + ["?"] * 3)[:3]
        return f"{system} on {machine}, in {cwd}; {took:.1f} s with its start"


def remember(place: str, seconds: float) -> None:
    """Keep what a command in an open session took there, as ``hermes bench`` measured it."""
    kept = _kept()
    kept[place] = {"median_s": seconds, "measured": time.time()}
    path = home() / "state" / "bench.json"
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.write_bytes(msgspec.json.encode(kept))
    draft.replace(path)


def measured(place: str) -> float | None:
    """Return the seconds that the last ``hermes bench`` found for a command there, None without one."""
    found = _kept().get(place, {}).get("median_s")
    return float(found) if isinstance(found, int | float) else None


def _kept() -> dict[str, dict[str, Any]]:
    try:
        return msgspec.json.decode(
            (home() / "state" / "bench.json").read_bytes(), type=dict[str, dict[str, Any]]
        )
    except (OSError, msgspec.DecodeError):
        return {}
