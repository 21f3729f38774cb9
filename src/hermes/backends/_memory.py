"""What is known of a guest that is gone while its place runs on."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

__all__ = ["guest_ended", "killed_in"]


def guest_ended(pid: int | None, reason: str) -> str:
    """Return why there is no guest any more. Blocks, for a moment.

    :param pid: of a process of the place, as this machine numbers it
    :param reason: what the channel said as it broke
    """
    if pid is not None and _killed_for_memory(pid):
        return (
            "its guest process has ended, and the system has killed processes there for want of memory "
            "(limits.memory)"
        )
    return f"its guest process has ended ({reason})"


def killed_in(group: str, *, unified: bool) -> bool:
    """Return whether a control group says so of its processes. Blocks, for a moment.

    :param group: as ``/proc/PID/cgroup`` names it
    :param unified: of version 2 of control groups
    """
    kind, file = ("", "memory.events") if unified else ("/memory", "memory.oom_control")
    with contextlib.suppress(OSError):
        told = Path(f"/sys/fs/cgroup{kind}{group}/{file}").read_text("ascii", "replace")
        return re.search(r"^oom_kill [1-9]", told, re.M) is not None
    return False


def _killed_for_memory(pid: int) -> bool:
    """Return whether that happened in the control group of a process, where it has one of its own."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/cgroup").read_text("utf-8", "replace").splitlines():
            number, kinds, group = line.split(":", 2)
            unified = number == "0"
            own = group != "/" and (unified or "memory" in kinds.split(","))
            if own and killed_in(group, unified=unified):
                return True
    return False
