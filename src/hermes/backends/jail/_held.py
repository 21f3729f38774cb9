"""Things without meaning that a jail puts where nothing may appear, and that go when the last jail ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping

__all__ = ["Held"]

# Waits for the jail's end. Who then gets the lock alone is the last; what holds anything now is not removed.
_REMOVE = """exec 3<&0; lock=$1; shift
( read -r _ <&3; flock -n -x "$lock" || exit 0
for one; do
    if [ -L "$one" ]; then continue; fi
    if [ -d "$one" ]; then rmdir -- "$one"; continue; fi
    case $(head -c 3 -- "$one" | tr '\\n' ' ') in '' | '. ') rm -f -- "$one" ;; esac
done ) &"""


class Held:
    """What was put into a project. Jails that share one share this too, by a lock of the directory.

    Making it blocks, for a moment.
    """

    def __init__(self, here: str, files: Mapping[str, bytes], folders: Iterable[str]) -> None:
        self._lock = os.open(here, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._paths: list[str] = []
        with contextlib.suppress(OSError):  # a file system without locks: what is put there stays
            fcntl.flock(self._lock, fcntl.LOCK_SH)
        for path in folders:
            self._make(here, path, None)
        for path, content in files.items():
            self._make(here, path, content)

    def _make(self, here: str, path: str, content: bytes | None) -> None:
        parts = path.split("/")
        for n in range(1, len(parts) + 1):
            one = os.path.join(here, *parts[:n])
            if os.path.islink(one):
                return  # refused later, by its name
            # What may not be written to by us, may not by what runs in the jail.
            with contextlib.suppress(OSError):
                if n < len(parts) or content is None:
                    if not os.path.lexists(one):
                        os.mkdir(one)
                        self._paths.append(one)
                    elif n == len(parts):
                        self._paths.append(one)
                    continue
                if not os.path.lexists(one):
                    fd = os.open(one, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
                    os.write(fd, content)
                    os.close(fd)
                self._paths.append(one)

    def until(self, ended: int) -> None:
        """Let it all be removed when a pipe closes that the jail holds. Blocks, for a moment."""
        if self._paths and shutil.which("flock"):
            subprocess.run(
                ["/bin/sh", "-c", _REMOVE, "sh", str(self._lock), *reversed(self._paths)],
                stdin=ended,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(self._lock,),
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                check=False,
            )

    def close(self) -> None:
        """Let go of it here."""
        os.close(self._lock)
