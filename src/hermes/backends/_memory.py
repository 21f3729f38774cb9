"""What is known of a guest that is gone while its place runs on."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

__all__ = ["guest_ended"]


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


def _killed_for_memory(pid: int) -> bool:
    """Return whether that happened in the control group of a process, where it has one of its own."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/cgroup").read_text("utf-8", "replace").splitlines():
            number, kinds, path = line.split(":", 2)
            if path == "/":
                continue
            if number == "0":
                told = Path(f"/sys/fs/cgroup{path}/memory.events")
            elif "memory" in kinds.split(","):
                told = Path(f"/sys/fs/cgroup/memory{path}/memory.oom_control")
            else:
                continue
            with contextlib.suppress(OSError):
                if re.search(r"^oom_kill [1-9]", told.read_text("ascii", "replace"), re.M):
                    return True
    return False
