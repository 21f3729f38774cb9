"""The approval point of a sandbox that is being opened: what the settings and the place make of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.config import Approvals, home

from . import Judge, Mode, Nobody, OnApproval, standard_judge
from .audit import AuditLog
from .gate import Fetched, Gate, Place
from .grants import Grants

if TYPE_CHECKING:
    from hermes.channel.channel import Channel

__all__ = ["Facts", "gate_for"]

FETCHED: dict[str, type[Any]] = {"known": bool, "turn": int, "busy": bool, "whole": bool, "cwd": str}


class Facts(msgspec.Struct, kw_only=True):
    """What a sandbox says of itself; *home* is that of the user inside, *client* tells this opening of it."""

    backend: str
    sandbox: str
    client: str
    host: str | None = None
    cwd: str | None = None
    home: str | None = None
    workspace: str | None = None
    env: Mapping[str, str] = msgspec.field(default_factory=dict)


def gate_for(
    settings: Approvals,
    facts: Facts,
    *,
    judge: Judge | None,
    judged: bool,
    mode: Mode | None,
    on_approval: OnApproval | Nobody | None,
    channel: Callable[[], Channel],
    password: str | None = None,
) -> Gate:
    """Return what all that is done in a sandbox has to pass.

    :param judge: decides instead of hermes's own rules
    :param judged: all is judged; else the user's deny rules alone count
    :param password: for sudo; not given where nobody is asked what runs
    :raises ConfigError: a rule of the user's that is none
    """
    here = facts.backend == "local"
    agent_home = str(home()) if here else f"{facts.home}/.hermes" if facts.home else None
    advise = None
    if settings.advisor:
        from .advisor import Advisor

        advise = Advisor(settings.advisor)
    gives = judged and bool(password)
    gate = Gate(
        judge or standard_judge(settings, agent_home=agent_home, sudo_password=gives, look_at_disk=here),
        Place(
            backend=facts.backend,
            # One machine, and its paths mean the same in all sandboxes; elsewhere each has its own.
            host="" if here else facts.host or facts.sandbox,
            cwd=facts.cwd,
            home=facts.home,
            workspace=facts.workspace,
            agent_home=agent_home,
        ),
        mode=mode or settings.mode,
        on_approval=on_approval,
        scope="all" if judged else "rules",
        user_rules=[str(rule.get("id")) for rule in settings.rules],
        fetch=lambda name: _session(channel(), name),
        env=facts.env,
        grants=Grants(),
        log=AuditLog(client=facts.client, sandbox=facts.sandbox, secrets=[password] if password else ()),
        advise=advise,
        timeout=settings.timeout,
    )
    if password and gives:
        from .password import Password

        gate.password = Password(password, gate)
    return gate


async def _session(channel: Channel, name: str) -> Fetched:
    """Ask the guest what a session has now, unless it said so when it greeted.

    That may be outdated; a command that was judged for it is then answered with ``session_moved``.
    """
    from hermes.channel.channel import checked

    told = channel.guest.get("session")
    if isinstance(told, dict) and told.get("session") == name:
        del channel.guest["session"]
        if told.get("whole") is True:
            facts = {key: checked(told.get(key), kind) for key, kind in FETCHED.items()}
            return Fetched(script=checked(told.get("script", ""), str), **facts)
    reply = await channel.call("session.state", {"session": name})
    facts = {key: checked(reply.body.get(key), kind) for key, kind in FETCHED.items()}
    return Fetched(script=reply.raw.decode("utf-8", "surrogateescape"), **facts)
