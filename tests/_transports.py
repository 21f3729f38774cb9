"""Other ways to a guest than a place's own: a relay process, and a terminal with text frames."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import msgspec
import pytest

from hermes import backends
from hermes.backends._stream import in_thread
from hermes.backends.base import Backend, ByteChannel, Capabilities, Encoding
from hermes.backends.docker import DockerBackend
from hermes.backends.docker._engine import engine_for
from hermes.backends.jail import JailBackend
from hermes.backends.local import LocalBackend
from hermes.backends.singularity import SingularityBackend
from hermes.backends.ssh import SshBackend


class RelayBackend(LocalBackend):
    """Local, but through a relay process, as in places that share no kernel with the host."""

    name: ClassVar[str] = "local-relay"

    async def direct_channel(self, run_dir: str) -> ByteChannel | None:
        return None


class TerminalBackend(RelayBackend):
    """Local, but through a relay on a terminal that greets first and knows nothing of bytes."""

    name: ClassVar[str] = "local-text"
    encoding: Encoding = "text"

    async def exec_channel(self, argv: Sequence[str]) -> ByteChannel:
        return TerminalChannel(argv)


class TerminalChannel:
    """A byte channel over a pseudo-terminal."""

    encoding: Encoding = "text"

    def __init__(self, argv: Sequence[str]) -> None:
        noise = 'printf "Welcome!\\nYou have \\036 mail.\\n"; exec "$0" "$@"'
        self._argv = ["sh", "-c", noise, *argv]
        self._process: subprocess.Popen[bytes] | None = None
        self._fd = -1
        self._queue = bytearray()
        self._room = asyncio.Event()
        self._room.set()
        self._on_close: Callable[[str | None], None] | None = None

    async def start(self, on_data: Callable[[bytes], None], on_close: Callable[[str | None], None]) -> None:
        self._fd, slave = os.openpty()
        os.set_blocking(self._fd, False)
        self._on_data, self._on_close = on_data, on_close
        self._process = await in_thread(
            lambda: subprocess.Popen(
                self._argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
            ),
            _end_process,
        )
        os.close(slave)
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._on_data(data)
        else:
            self._end("the terminal was closed")

    def write(self, data: bytes) -> None:
        if self._fd >= 0:
            self._queue += data
            self._push()

    def _push(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._queue:
                del self._queue[: os.write(self._fd, self._queue[:4096])]
        except BlockingIOError:
            loop.add_writer(self._fd, self._push)
        except OSError:
            self._end("the terminal was closed")
            return
        else:
            loop.remove_writer(self._fd)
        if len(self._queue) < 65536:
            self._room.set()
        else:
            self._room.clear()

    async def drain(self) -> None:
        await self._room.wait()

    async def close(self) -> None:
        self._end(None)
        if self._process is not None:
            await asyncio.to_thread(self._process.wait, 10)

    def _end(self, reason: str | None) -> None:
        if self._fd < 0:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._fd)
        loop.remove_writer(self._fd)
        os.close(self._fd)
        self._fd = -1
        self._room.set()
        if self._process is not None:
            _end_process(self._process)
        if self._on_close is not None:
            self._on_close(reason)


def _end_process(process: subprocess.Popen[bytes]) -> None:
    """End it, and wait for it whatever becomes of who started it."""
    process.terminate()
    threading.Thread(target=process.wait, daemon=True).start()


class CopyBackend(LocalBackend):
    """Local, but as a place that can mount nothing: a directory of this machine is copied in."""

    name: ClassVar[str] = "local-copy"

    @property
    def capabilities(self) -> Capabilities:
        return msgspec.structs.replace(super().capabilities, copies=True)

    def _create(self) -> dict[str, Any]:
        asked = self.spec
        self.spec = msgspec.structs.replace(asked, workspace="private")
        try:
            return super()._create()
        finally:
            self.spec = asked


class CopyRelayBackend(CopyBackend, RelayBackend):
    """The same, through a relay process."""

    name: ClassVar[str] = "local-copy-relay"


class CopyTextBackend(CopyBackend, TerminalBackend):
    """The same, on a terminal."""

    name: ClassVar[str] = "local-copy-text"


class DockerRelayBackend(DockerBackend):
    """Docker as where the engine is another machine's: no socket that is seen here, and volumes."""

    name: ClassVar[str] = "docker-relay"

    async def create(self) -> dict[str, Any]:
        engine = await engine_for(self.config.docker, "docker")
        here = engine.facts
        try:
            engine.facts = dataclasses.replace(here, local=False)
            return await super().create()
        finally:
            engine.facts = here


class DockerRemapBackend(DockerBackend):
    """Docker with an engine whose users are others outside; ``DOCKER_HOST`` says so."""

    name: ClassVar[str] = "docker-remap"


class DockerRunscBackend(DockerBackend):
    """Docker with gVisor. ``DOCKER_HOST`` says so; the name is for the table of exceptions."""

    name: ClassVar[str] = "docker-runsc"


class JailRelayBackend(JailBackend):
    """A jail through a relay process, which is in namespaces of its own."""

    name: ClassVar[str] = "jail-relay"

    async def direct_channel(self, run_dir: str) -> ByteChannel | None:
        return None


class JailWheelBackend(JailBackend):
    """A jail by the package's bubblewrap. Its options say so; the name is for the table of exceptions."""

    name: ClassVar[str] = "jail-wheel"


class JailOverlayBackend(JailBackend):
    """A jail whose workspace is a directory here beneath an overlay, as its options say."""

    name: ClassVar[str] = "jail-overlay"


class JailLandlockBackend(JailBackend):
    """A jail by Landlock alone, as its options say too; with its exceptions."""

    name: ClassVar[str] = "jail-landlock"
    _by_landlock = True


class SingularityRelayBackend(SingularityBackend):
    """Singularity through a relay process in the instance, as where the socket's directory was lost."""

    name: ClassVar[str] = "singularity-relay"

    async def direct_channel(self, run_dir: str) -> ByteChannel | None:
        return None


class SingularitySlurmBackend(SingularityBackend):
    """Singularity in a job of SLURM. Its options say so; the name is for the table of exceptions."""

    name: ClassVar[str] = "singularity-slurm"


class SshFarBackend(SshBackend):
    """Ssh to a machine that is 50 ms away. Its options say so; the name is for the table of exceptions."""

    name: ClassVar[str] = "ssh-far"


KINDS: dict[str, type[Backend]] = {
    kind.name: kind
    for kind in (
        RelayBackend,
        TerminalBackend,
        CopyBackend,
        CopyRelayBackend,
        CopyTextBackend,
        DockerRelayBackend,
        DockerRemapBackend,
        DockerRunscBackend,
        JailRelayBackend,
        JailWheelBackend,
        JailOverlayBackend,
        JailLandlockBackend,
        SingularityRelayBackend,
        SingularitySlurmBackend,
        SshFarBackend,
    )
}


@contextlib.contextmanager
def known() -> Iterator[None]:
    """Make these ways known as backends."""
    load = backends.load
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends, "load", lambda name: KINDS[name] if name in KINDS else load(name))
        yield
