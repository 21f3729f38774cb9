"""The gate of a sandbox: what asks before a command runs, on places where anybody is asked at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .approval.gate import Gate
    from .backends.base import Backend
    from .sandbox import Sandbox

__all__ = ["gate_of"]


def gate_of(box: Sandbox, place: Backend, home: str | None = None) -> Gate | None:
    """Return what judges a sandbox's commands in a place; None where nothing is judged. Blocks.

    :param home: the home directory there, when it is known
    """
    settings = box._config.approvals
    judged = place.capabilities.judged or settings.in_sandbox == "ask"
    if not (judged or settings.denies):
        return None
    from .approval.opening import Facts, gate_for

    facts = Facts(
        backend=box.backend,
        sandbox=box.name,
        host=box._options.get("host"),
        cwd=box.cwd or None,
        home=home,
        workspace=place.workspace() or box.cwd or None,
        env=box._env,
        client=box._client,
    )
    return gate_for(
        settings,
        facts,
        judge=box._judge,
        judged=judged,
        mode=box._mode,
        on_approval=box._on_approval,
        channel=lambda: box._channel,
        password=box._password,
    )
