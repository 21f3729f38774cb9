"""The local backend: this machine, this user, no isolation. For machines that may be thrown away."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from hermes.config import Config, home, make_private
from hermes.errors import BackendError, ConfigError, HermesError, SandboxGone, Unreachable
from hermes.guest.dirs import SOCKET, default_dir

from ._connect import connect_guest
from .base import Backend, ByteChannel, Capabilities, GuestDirs, PlaceState, Spec
from .channels import ProcessChannel, SocketChannel

# The password for sudo is hermes's business, never a command's; the size is that of the client's terminal.
WITHHELD = frozenset({"HERMES_SUDO_PASSWORD", "LINES", "COLUMNS"})
# What a program needs to run at all, and names no secret. Everything else has to be declared.
INHERITED = frozenset(["HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TERM", "TZ", "TMPDIR"])
DESTROY_SECONDS = 5.0


class LocalBackend(Backend):
    """Commands run as you, in your files. What protects the machine is approval alone."""

    name: ClassVar[str] = "local"

    def __init__(self, spec: Spec, config: Config) -> None:
        super().__init__(spec, config)
        self._dirs: GuestDirs | None = None
        self._workspace = ""

    @classmethod
    async def check(cls, config: Config) -> None:
        if sys.platform == "win32":
            raise BackendError(
                "the local backend needs a POSIX system",
                code="backend_unavailable",
                hint="Install hermes inside WSL and run it there.",
            )
        if await asyncio.to_thread(_find_shell) is None:
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
            shares_network=True,
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

    async def examine(self) -> list[str]:
        return ["no isolation: commands run as your user, in your files"]

    async def create(self) -> dict[str, Any]:
        return await asyncio.to_thread(self._create)

    def _create(self) -> dict[str, Any]:
        self._dirs = self._default_dirs()
        here = self.spec.here or os.getcwd()
        if self.spec.workspace == "private":
            workspace = str(Path(self._dirs.state_dir).parent / "workspace")
            for path in Path(workspace).parents[1::-1]:
                make_private(path)
            os.makedirs(workspace, 0o700, exist_ok=True)
        elif self.spec.workspace in (None, "here"):
            workspace = here
        else:
            workspace = os.path.abspath(os.path.join(here, os.path.expanduser(self.spec.workspace)))
        if not os.path.isdir(workspace):
            raise BackendError(f"the workspace {workspace} is not a directory; nothing was started")
        self._workspace = workspace
        return {**self._dirs._asdict(), "workspace": workspace}

    async def find(self, locator: Mapping[str, Any]) -> PlaceState:
        run_dir, state_dir, workspace = (locator.get(key) for key in ("run_dir", "state_dir", "workspace"))
        if not (isinstance(run_dir, str) and isinstance(state_dir, str) and isinstance(workspace, str)):
            return "gone"
        if os.path.basename(run_dir) != self.spec.id:
            return "gone"
        self._dirs, self._workspace = GuestDirs(run_dir, state_dir), workspace
        return "running" if await self._alive(self._dirs) else "gone"

    async def lost(self) -> str:
        if self.spec.workspace != "private" or not self._workspace:
            return ""
        from ._workspace import lost_files

        return await asyncio.to_thread(lost_files, self._workspace)

    async def _alive(self, dirs: GuestDirs) -> bool:
        try:
            sock = await asyncio.to_thread(connect_guest, dirs.run_dir, SOCKET, os.geteuid())
        except Unreachable:
            raise
        except SandboxGone:
            return False
        sock.close()
        return True

    def workspace(self) -> str:
        return self._workspace

    async def exec_channel(self, argv: Sequence[str]) -> ByteChannel:
        return ProcessChannel(argv, env=self.session_env())

    async def direct_channel(self, run_dir: str) -> ByteChannel | None:
        return SocketChannel(run_dir, SOCKET, uid=os.geteuid())

    async def diagnose(self, reason: str) -> str:
        try:
            alive = await self._alive(self.guest_dirs())
        except HermesError:
            return ""
        return "" if alive else f"its guest process on this machine has ended ({reason})"

    def guest_python(self) -> Sequence[str]:
        return (self.config.local.python or sys.executable, "-I", "-S")

    def guest_dirs(self) -> GuestDirs:
        assert self._dirs is not None, "neither created nor found"
        return self._dirs

    def plain_argv(self, command: str) -> Sequence[str]:
        return ("bash", "-c", command)

    def session_env(self) -> Mapping[str, str]:
        everything = self.config.credentials.inherit
        return {
            key: value
            for key, value in os.environ.items()
            if key not in WITHHELD and (everything or key in INHERITED or key.startswith("LC_"))
        }

    async def destroy(self, *, keep_files: bool = False) -> None:
        await asyncio.to_thread(self._destroy, keep_files)

    def _default_dirs(self) -> GuestDirs:
        state = home() / "sandboxes" / f"local-{self.spec.id}"
        return GuestDirs(run_dir=default_dir(self.spec.id), state_dir=str(state / "spill"))

    def _destroy(self, keep_files: bool) -> None:
        run_dir, state_dir = self._dirs or self._default_dirs()
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
        import shutil

        for path in (run_dir, state_dir if keep_files else os.path.dirname(state_dir)):
            shutil.rmtree(path, ignore_errors=True)
            if os.path.lexists(path):
                left.append(path)
        if left:
            raise BackendError(
                f"the sandbox was ended, but these directories could not be removed: {', '.join(left)}",
                context={"left": left},
            )


def _find_shell() -> str | None:
    import shutil

    return shutil.which("bash") or shutil.which("sh")


def _guest_pid(run_dir: str) -> int | None:
    """Return the pid of the guest that serves the socket in a directory of ours, None when none does."""
    try:
        sock = connect_guest(run_dir, SOCKET, os.geteuid())
    except SandboxGone:
        return None
    with sock:
        if not hasattr(socket, "SO_PEERCRED"):  # not Linux: the guest ends by its own means only
            return None
        size = struct.calcsize("iII")
        return int(struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0])
