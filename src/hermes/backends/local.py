"""The local backend: this machine, this user, no isolation. For machines that may be thrown away."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from hermes.config import Config, home
from hermes.errors import BackendError, ConfigError, HermesError, SandboxGone, Unreachable
from hermes.guest.dirs import SOCKET, default_dir

from ._channels import ProcessChannel, SocketChannel
from ._connect import connect_guest
from .base import Backend, ByteChannel, Capabilities, GuestDirs

# The agent's own password for sudo is hermes's business, never a command's.
PRIVATE = frozenset({"HERMES_SUDO_PASSWORD"})
DESTROY_SECONDS = 5.0


class LocalBackend(Backend):
    """Commands run as you, in your files. What protects the machine is approval alone."""

    name: ClassVar[str] = "local"

    @classmethod
    async def check(cls, config: Config) -> None:
        if sys.platform == "win32":
            raise BackendError(
                "the local backend needs a POSIX system",
                code="backend_unavailable",
                hint="Install hermes inside WSL and run it there.",
            )
        if shutil.which("bash") is None and shutil.which("sh") is None:
            raise BackendError(
                "there is neither bash nor sh on the PATH",
                code="backend_unavailable",
                hint="Install bash, or mend the PATH.",
            )

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            isolation="none",
            persistent=True,
            workspace=frozenset({"here", "path", "private"}),
            shared_kernel=True,
            judged=True,
            verified="real" if sys.platform == "linux" else "unverified",
        )

    def check_spec(self) -> None:
        super().check_spec()
        if self.spec.options:
            unknown = ", ".join(sorted(self.spec.options))
            raise ConfigError(f"the local backend has no option {unknown}", hint="It takes none.")
        if self.spec.image is not None:
            raise self._unsupported("an image", "local runs on this machine as it is")

    async def create(self) -> dict[str, Any]:
        workspace = self.workspace()
        if self.spec.workspace == "private":
            await asyncio.to_thread(os.makedirs, workspace, 0o700, True)
        elif not await asyncio.to_thread(os.path.isdir, workspace):
            raise BackendError(f"the workspace {workspace} is not a directory; nothing was started")
        dirs = self.guest_dirs()
        return {"run_dir": dirs.run_dir, "state_dir": dirs.state_dir}

    def workspace(self) -> str:
        """Return the directory in which sessions begin."""
        if self.spec.workspace == "private":
            return str(self._state() / "workspace")
        if self.spec.workspace in (None, "here"):
            return self.spec.here or os.getcwd()
        return os.path.abspath(os.path.expanduser(self.spec.workspace))

    async def find(self, locator: Mapping[str, Any]) -> bool:
        run_dir = locator.get("run_dir")
        if run_dir != self.guest_dirs().run_dir:
            return False
        try:
            sock = await asyncio.to_thread(connect_guest, run_dir, SOCKET, os.geteuid())
        except Unreachable:
            raise
        except SandboxGone:
            return False
        sock.close()
        return True

    async def exec_channel(self, argv: Sequence[str]) -> ByteChannel:
        return ProcessChannel(argv)

    async def direct_channel(self, run_dir: str) -> ByteChannel | None:
        return SocketChannel(run_dir, SOCKET, uid=os.geteuid())

    async def diagnose(self, reason: str) -> str:
        try:
            alive = await self.find(self.guest_dirs()._asdict())
        except HermesError:
            return ""
        return "" if alive else f"its guest process on this machine has ended ({reason})"

    def guest_python(self) -> Sequence[str]:
        return (self.config.local.python or sys.executable, "-I", "-S")

    def guest_dirs(self) -> GuestDirs:
        return GuestDirs(run_dir=default_dir(self.spec.id), state_dir=str(self._state() / "spill"))

    def session_env(self) -> Mapping[str, str]:
        return {key: value for key, value in os.environ.items() if key not in PRIVATE}

    async def destroy(self) -> None:
        await asyncio.to_thread(self._destroy)

    def _state(self) -> Path:
        return home() / "sandboxes" / f"local-{self.spec.id}"

    def _destroy(self) -> None:
        run_dir = self.guest_dirs().run_dir
        pid = _guest_pid(run_dir)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + DESTROY_SECONDS
            while os.path.lexists(os.path.join(run_dir, SOCKET)):
                if time.monotonic() > deadline:
                    # Its nannies kill what ran under it.
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    break
                time.sleep(0.005)
        left = []
        for path in (run_dir, str(self._state())):
            shutil.rmtree(path, ignore_errors=True)
            if os.path.lexists(path):
                left.append(path)
        if left:
            raise BackendError(
                f"the sandbox was ended, but these directories could not be removed: {', '.join(left)}",
                context={"left": left},
            )


def _guest_pid(run_dir: str) -> int | None:
    """Return the pid of the guest that serves the socket in a directory of ours, None when none does."""
    try:
        sock = connect_guest(run_dir, SOCKET, os.geteuid())
    except SandboxGone:
        return None
    with sock:
        size = struct.calcsize("iII")
        return int(struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0])
