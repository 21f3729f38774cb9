"""Facts about living processes, from /proc."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path


def memory(pid: int) -> tuple[int, int]:
    """RSS and PSS in bytes."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
    rss, pss = (re.search(rf"^{key}:\s+(\d+) kB$", text, re.M) for key in ("Rss", "Pss"))
    assert rss and pss
    return int(rss.group(1)) * 1024, int(pss.group(1)) * 1024


def descriptors(pid: int) -> list[str]:
    """What each open descriptor leads to."""
    found = []
    for entry in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that listed the directory
            found.append(os.readlink(f"/proc/{pid}/fd/{entry}"))
    return sorted(found)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0] not in "ZX"
        )
    except OSError:
        return False


def family(pid: int) -> list[int]:
    """A process and its living descendants."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] not in "ZX":
                parents.setdefault(int(fields[1]), []).append(int(entry))
    found = [pid] if alive(pid) else []
    for one in found:
        found += parents.get(one, [])
    return found
