"""What crashed clients left on the machines that are known."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hermes.channel.boot import ask
from hermes.config import Config
from hermes.errors import ConfigError, HermesError

from ..base import Backend, Spec
from ._target import target_for

if TYPE_CHECKING:
    from hermes.state import Store

GRACE = 60.0  # seconds in which a sandbox may be on a machine before its record is seen here
ASK_SECONDS = 60.0


async def prune(kind: type[Backend], config: Config, store: Store) -> list[str]:
    """Look at each machine of the configuration and the records; remove what is ours and has no record.

    :raises HermesError: one machine could not be looked at; the others were
    """
    from . import owner

    records = [record for record in await asyncio.to_thread(store.all) if record.backend == kind.name]
    known = [record.id for record in records]
    machines: dict[str, Mapping[str, Any]] = {}
    wishes: list[Mapping[str, Any]] = [record.options for record in records]
    wishes += [{"host": name} for name in config.ssh.hosts]
    wishes += [{}]
    for options in wishes:
        try:
            machines.setdefault(str(target_for(options, config.ssh)), options)
        except ConfigError:
            continue  # nothing is configured, or not any more
    done: list[str] = []
    failures: list[HermesError] = []
    ours = await asyncio.to_thread(owner)
    for where, options in machines.items():
        place = kind(Spec(name="prune", id="0" * 16, options=options), config)
        wanted = {"task": "prune", "id": "prune", "owner": ours, "known": known, "grace": GRACE}
        try:
            answer = await ask(place, wanted, timeout=ASK_SECONDS)
        except HermesError as error:
            failures.append(error)
            continue
        for one in answer.get("removed") or []:
            if isinstance(one, dict):
                done.append(f"{where}: sandbox '{str(one.get('name'))[:63]}' ({str(one.get('id'))[:32]})")
    if failures:
        raise failures[0]
    return done
