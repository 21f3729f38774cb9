"""A jail where there are no user namespaces: held by Landlock and a filter of system calls alone."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes.errors import BackendError

from .._process import ProcessChannel
from .._seccomp import SOCKETS, program
from . import _fence
from ._bwrap import SHOWN, only_roots
from ._files import Files, held

__all__ = ["LandlockChannel", "missing", "reasons"]

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc", *SHOWN)
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
_INTERNET = (2, 10)  # AF_INET, AF_INET6


def missing() -> str:
    """Return why this cannot be done here, empty when it can. Blocks, for a moment."""
    if _fence.abi() < 1:
        return "the kernel has no Landlock, or it is not in use"
    if program(platform.machine()) is None:
        return f"there is no filter of system calls for {platform.machine()} yet"
    return ""


def reasons() -> tuple[str, ...]:
    """Return why it counts as no sandbox. Asks the kernel, and no file."""
    found = [
        "it is held by Landlock alone: that files elsewhere are there is seen, their modes can be changed",
        "sockets in the file system and this user's terminals are reached, and other processes are seen",
    ]
    if _fence.abi() < 3:
        found.append("this kernel's Landlock does not keep files elsewhere from being emptied")
    if _fence.abi() < 6:
        found.append("this kernel's Landlock lets signals and abstract sockets pass")
    return tuple(found)


class LandlockChannel(ProcessChannel):
    """The stdin and stdout of a process that is held, and may do no more than what it starts."""

    def __init__(self, argv: Sequence[str], files: Files, network: str, *, env: Mapping[str, str]) -> None:
        super().__init__(argv, env=env, cwd="/")
        self._files, self._network = files, network

    def _spawn(self) -> subprocess.Popen[bytes]:
        inner = list(self._argv)
        with self._files.used(), contextlib.ExitStack() as stack:
            told = held(json.dumps(self._told()).encode(), stack)
            fence = [sys.executable, "-I", "-S", str(Path(_fence.__file__)), str(told)]
            self._argv = [*self._files.groups.enter(), *fence, *inner]
            self._popen["pass_fds"] = (told,)
            self._files.mark()
            return super()._spawn()

    def _told(self) -> dict[str, object]:
        files = self._files
        code = program(
            platform.machine(), sockets=SOCKETS if self._network == "host" else (*SOCKETS, *_INTERNET)
        )
        if code is None:
            raise BackendError(missing(), code="backend_unavailable")
        own = [str(files.base / name) for name in ("workspace", "home", "tmp")]
        return {
            "cwd": own[0],
            "filter": code.hex(),
            "allowed": {
                "read": [*_SYSTEM, sys.base_prefix, *_readable("/etc"), files.credentials],
                "write": [*own, files.host_run],
                "device": [f"/dev/{name}" for name in _DEVICES],
            },
        }


def _readable(folder: str) -> list[str]:
    """Return the paths that together are a directory without what only root may read."""
    if os.geteuid() != 0:
        return [folder]
    hidden = set(only_roots(folder))
    if not hidden:
        return [folder]
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.path in hidden or entry.is_symlink():
                continue
            below = any(one.startswith(f"{entry.path}/") for one in hidden)
            found += _readable(entry.path) if below else [entry.path]
    return found
