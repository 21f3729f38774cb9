"""Whether the system kills processes here because the place has used up its memory."""

import os
from typing import List


class Kills:
    """Counts them, where a control group of the place's own has a limit; elsewhere the count stays 0."""

    def __init__(self) -> None:
        self._fd = -1
        for path in paths():
            try:
                self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                break
            except OSError:
                pass

    def count(self) -> int:
        if self._fd < 0:
            return 0
        try:
            text = os.pread(self._fd, 4096, 0)
        except OSError:
            return 0
        for line in text.splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
        return 0


def paths() -> List[str]:
    """Return where the kernel may tell: for version 2 of control groups, and for version 1."""
    found = []
    try:
        with open("/proc/self/cgroup") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    for line in lines:
        number, kinds, path = line.split(":", 2)
        for inner in (path.rstrip("/"), ""):
            if number == "0":
                found.append("/sys/fs/cgroup%s/memory.events" % inner)
            elif "memory" in kinds.split(","):
                found.append("/sys/fs/cgroup/memory%s/memory.oom_control" % inner)
    return found
