"""What crashed clients left on the machines that are known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hermes.channel.boot import ask
from hermes.config import Config, Ssh
from hermes.errors import ConfigError, HermesError, Unreachable

from ..base import Spec
from ._power import release
from ._target import target_for

if TYPE_CHECKING:
    from hermes.state import Store

GRACE = 60.0  # seconds in which a sandbox may be on a machine before its record is seen here
ASK_SECONDS = 60.0


async def prune(config: Config, store: Store) -> list[str]:
    """Look at each machine of the configuration and the records; remove what is ours and has no record.

    A machine that sleeps is not woken; one that nobody uses any more, and that may be released, is.

    :raises HermesError: one machine could not be looked at; the others were
    """
    from . import SshBackend, owner

    problems: list[str] = []
    records = await asyncio.to_thread(store.all, problems)
    if problems:  # a record that cannot be read may be that of a sandbox that runs
        raise HermesError(problems[0], hint="Nothing was looked for on other machines.")
    records = [record for record in records if record.backend == SshBackend.name]
    known = [record.id for record in records]
    machines: dict[str, Mapping[str, Any]] = {}
    wishes: list[Mapping[str, Any]] = [record.options for record in records]
    wishes += [{"host": name} for name in config.ssh.hosts]
    wishes += [{}]
    for options in wishes:
        where = _on(options, config.ssh)
        if where:
            machines.setdefault(where, options)
    done: list[str] = []
    failures: list[HermesError] = []
    ours = await asyncio.to_thread(owner)
    for where, options in machines.items():
        place = SshBackend(Spec(name="prune", id="0" * 16, options=options), config)
        place.wakes = False
        wanted = {"task": "prune", "id": "prune", "owner": ours, "known": known, "grace": GRACE}
        target = target_for(options, config.ssh)
        try:
            answer = await ask(place, wanted, timeout=ASK_SECONDS)
            for one in answer.get("removed") or []:
                if isinstance(one, dict):
                    done.append(f"{where}: sandbox '{str(one.get('name'))[:63]}' ({str(one.get('id'))[:32]})")
            used = max((r.last_used for r in records if _on(r.options, config.ssh) == where), default=0.0)
            idle = time.time() - used > config.lifetime.idle_stop
            if target.settings.release_command and idle and answer.get("runs") == 0:
                await release(target)
                done.append(f"{where}: released, since nobody uses it")
        except Unreachable as error:
            if target.settings.wake_command is None:  # else it sleeps
                failures.append(error)
        except HermesError as error:
            failures.append(error)
    if failures:
        raise failures[0]
    return done


def _on(options: Mapping[str, Any], config: Ssh) -> str:
    try:
        return str(target_for(options, config))
    except ConfigError:  # nothing is configured, or not any more
        return ""
