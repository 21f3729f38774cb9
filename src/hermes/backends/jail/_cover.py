"""Hiding files of the system in a jail of root's that has been made, before anything of others runs in it.

Bubblewrap, told of each, reads all mounts again for it, some 0.3 ms, and would have to wait for the search.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from hermes.errors import BackendError

from ._files import RUN, started_at

__all__ = ["can_cover", "cover"]

_SECONDS = 10.0
# CAP_SYS_CHROOT, CAP_SYS_PTRACE and CAP_SYS_ADMIN: what looking at a jail's files, and joining them, takes.
_CAPABILITIES = 1 << 18 | 1 << 19 | 1 << 21
_FILES_OF_PROCESS, _MOUNTS = 0x200, 0x20000  # CLONE_FS, CLONE_NEWNS
_SAFE = 1 | 2 | 4  # read-only, no setuid programs, no devices
_REMOUNT, _BIND = 0x20, 0x1000
_libc = ctypes.CDLL(None, use_errno=True)


def can_cover() -> bool:
    """Return whether we have the rights to. Blocks.

    Root of a machine does, root in a container mostly not.
    """
    status = Path("/proc/self/status").read_text("ascii", "replace")
    rights = next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")), 0)
    return rights & _CAPABILITIES == _CAPABILITIES


def cover(pid: int, host_run: str, hidden: Iterable[str]) -> None:
    """Put something empty over paths of a jail, once bubblewrap has made it. Blocks, for a moment.

    Where the jail has ended nothing is done, and nothing said.

    :param pid: its first process, as it is known here
    :param host_run: what it has as its directory for sockets
    :raises BackendError: something is still to be seen, maybe
    """
    folders = {path: os.path.isdir(path) for path in hidden}
    failed: list[OSError] = []

    def run() -> None:
        try:
            _cover(pid, folders)
        except OSError as error:
            failed.append(error)

    try:
        if not folders or not _made(pid, os.stat(host_run)):
            return
        # The thread sees the jail's files for the rest of its life: no other work may come to it.
        thread = threading.Thread(target=run, name="hermes-cover")
        thread.start()
        thread.join()
    except OSError as error:
        failed.append(error)
    if failed and started_at(pid):
        raise BackendError(
            f"what only root may read could not be hidden in the jail: {failed[0]}; no command was run",
            hint="Run hermes as an ordinary user, whose jails have nothing to hide there.",
        ) from failed[0]


def _made(pid: int, run: os.stat_result) -> bool:
    """Wait until a process has the files of its jail, all that bubblewrap mounts; False when it has ended."""
    deadline = time.monotonic() + _SECONDS
    while started_at(pid):
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(f"/proc/{pid}/root{RUN}"), run):
                return True
        if time.monotonic() > deadline:
            raise TimeoutError(f"bubblewrap was not done within {_SECONDS:g} s")
        time.sleep(0.0005)
    return False


def _cover(pid: int, folders: Mapping[str, bool]) -> None:
    space = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _done(_libc.unshare(ctypes.c_int(_FILES_OF_PROCESS)), "unshare")
        _done(_libc.setns(ctypes.c_int(space), ctypes.c_int(_MOUNTS)), "setns")
    finally:
        os.close(space)
    for name, is_folder in folders.items():
        path = os.fsencode(name)
        if is_folder:
            result = _libc.mount(b"tmpfs", path, b"tmpfs", ctypes.c_ulong(_SAFE), b"mode=0755")
        else:
            result = _libc.mount(b"/dev/null", path, None, ctypes.c_ulong(_BIND), None)
            result = result or _libc.mount(None, path, None, ctypes.c_ulong(_REMOUNT | _BIND | _SAFE), None)
        if result and os.path.lexists(path):  # else it was removed meanwhile
            _done(result, name)


def _done(result: int, what: str) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
