"""The facts of a sandbox, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .backends._cloud._account import is_here
from .errors import SandboxGone

if TYPE_CHECKING:
    from .sandbox import Sandbox


def not_open(box: Sandbox) -> SandboxGone:
    """Return the error of whoever uses a sandbox that is closed, or asleep, in a way that wakes nothing."""
    if box._asleep:
        return SandboxGone(
            f"the sandbox '{box.name}' is suspended",
            reason="suspended here",
            hint="A command wakes it, or resume().",
        )
    return SandboxGone(
        f"the sandbox '{box.name}' is not open here",
        reason="closed here",
        hint="Use it inside 'async with', or call open() first.",
    )


def describe(box: Sandbox) -> dict[str, Any]:
    """Return what :meth:`Sandbox.describe` does."""
    place, gate = box._the_place(), box._gate
    can = place.capabilities
    guest = box._open_channel.guest if box._open_channel is not None else {}
    return {
        "name": box.name,
        "id": box.id,
        "backend": box.backend,
        "isolation": can.isolation,
        "persistent": can.persistent,
        "suspend": can.suspend,
        "snapshot": can.snapshot,
        "copies": can.copies,
        "network_off": can.network_off,
        "shares_network": can.shares_network,
        "limits": sorted(can.limits),
        "settings": dict(box._record.settings) if box._record is not None else {},
        "verified": can.verified,
        "service": place.service,
        "emulated": is_here(place.service),
        "reaches_host": list(can.reaches_host),
        "exceptions": dict(can.exceptions),
        "cwd": box.cwd,
        "judge": gate.judge.name if gate is not None else None,
        "approval": gate.mode if gate is not None and gate.scope == "all" else None,
        "channel": box._open_channel.path if box._open_channel is not None else None,
        "python": guest.get("python"),
        "lifetime": {
            "detached": box._life.detached,
            "idle_guest": box._life.idle_guest,
            "idle_stop": box._life.idle_stop,
            "ttl": box._life.ttl,
        },
    }
