"""The ssh backend: the commands live on another machine, reached by the system's own ssh."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from hermes.channel.boot import ask
from hermes.config import Config, home, make_private
from hermes.errors import BackendError, ConfigError, HermesError

from ..base import Backend, ByteChannel, Capabilities, GuestDirs, PlaceState, Spec
from ._bootstrap import command_for, find_python, line_for
from ._channel import SshChannel
from ._power import release, wake
from ._target import Target, target_for

if TYPE_CHECKING:
    from hermes.state import Store

ASK_SECONDS = 60.0


class SshBackend(Backend):
    """Commands run as a user of another machine, in that user's files."""

    name: ClassVar[str] = "ssh"
    distant: ClassVar[bool] = True
    swept: ClassVar[bool] = False  # a machine that does not answer would keep every new sandbox waiting

    def __init__(self, spec: Spec, config: Config) -> None:
        super().__init__(spec, config)
        self._target: Target | None = None
        self._heard = False  # the machine has been reached, so something may be there
        self._found = False
        self._guest: SshChannel | None = None
        self.wakes = True  # a machine that sleeps is woken, rather than taken for one that does not answer

    @classmethod
    async def check(cls, config: Config) -> None:
        if await asyncio.to_thread(shutil.which, "ssh") is None:
            raise BackendError(
                "there is no ssh on the PATH",
                code="backend_unavailable",
                hint="Install OpenSSH's client (Debian: apt-get install openssh-client).",
            )

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            isolation="remote",
            persistent=True,
            suspend=self._releases,
            copies=True,
            workspace=frozenset({"private", "here", "path"}),
            judged=True,
            shares_network=True,
            verified="real",
        )

    def check_spec(self) -> None:
        self._where()
        if self.spec.image is not None:
            raise self._unsupported("an image", "the other machine is as it is")
        super().check_spec()

    def settings(self) -> dict[str, Any]:
        target = self._where()
        return {
            "host": target.host,
            "user": target.user,
            "port": target.port,
            "workdir": target.settings.workdir,
        }

    def _where(self) -> Target:
        if self._target is None:
            self._target = target_for(self.spec.options, self.config.ssh)
        return self._target

    @property
    def reconnect_for(self) -> float:
        return self._where().settings.reconnect_for

    # --- coming and going

    async def create(self) -> dict[str, Any]:
        # The machine is there already. What is to be made on it, the guest makes: one connection does all.
        target = self._where()
        return {"host": target.host, "user": target.user, "port": target.port}

    async def find(self, locator: Mapping[str, Any]) -> PlaceState:
        """Take the machine for there: to connect, only to ask, would double what opening costs."""
        at = {key: locator.get(key) for key in ("host", "user", "port")}
        if not (isinstance(at["host"], str) and isinstance(at["user"], str)):
            return "gone"
        self._target = target_for(self.spec.options, self.config.ssh, at)
        self._found = True
        return "running"

    async def look(self, locator: Mapping[str, Any]) -> PlaceState:
        if await self.find(locator) == "gone":
            return "gone"
        self.wakes = False
        answer = await self._ask("look")
        return "running" if answer.get("runs") is True else "stopped"

    async def prepare(self, *, renew: bool = False) -> str:
        return f"ready: {await self._facts()}"

    async def examine(self) -> list[str]:
        return [await self._facts(), "commands run as that user, in that user's files"]

    async def _facts(self) -> str:
        answer = await self._ask("look")
        python, system = (str(answer.get(key))[:40] for key in ("python", "system"))
        return f"{self._where()} answers: {system}, Python {python}"

    async def exec_channel(self, argv: Sequence[str]) -> ByteChannel:
        if self.wakes:
            await self.resume()
        channel = self._guest = SshChannel(self._where(), line_for(argv))
        channel.on_ran = self._reached
        return channel

    async def program_channel(self, program: str) -> ByteChannel | None:
        command = command_for(self._where().settings.python, program)
        if command is None:
            return None
        if self.wakes:
            await self.resume()
        channel = self._guest = SshChannel(self._where(), command=command)
        channel.on_ran = self._reached
        return channel

    @property
    def guest_likely(self) -> bool:
        return self._found

    def _reached(self) -> None:
        self._heard = True

    def failure(self, channel: ByteChannel) -> HermesError | None:
        return channel.failure if isinstance(channel, SshChannel) else None

    def guest_python(self) -> Sequence[str]:
        python = self._where().settings.python
        return ("/bin/sh", "-c", find_python(python, '"$@"'), python or "python3")

    def guest_dirs(self) -> GuestDirs:
        return GuestDirs("", "")  # that machine's business: hermes.guest.host

    def guest_options(self) -> Mapping[str, Any]:
        return {
            "host": True,
            "private": self.spec.workspace is not None,  # a directory of its own, whether empty or a copy
            "workdir": self._where().settings.workdir,
            "label": {
                "name": self.spec.name,
                "owner": owner(),
                "from": socket.gethostname(),
                "keep": self.spec.keep,
            },
        }

    def plain_argv(self, command: str) -> Sequence[str]:
        return self._where().argv(command)

    async def destroy(self, *, keep_files: bool = False) -> None:
        guest, self._guest = self._guest, None
        if guest is not None and guest.nothing_left:
            return
        if not (self._heard or self._found):
            return  # it was never reached
        answer = await self._ask("remove", keep_files=keep_files)
        left = answer.get("left")
        if left:
            shown = ", ".join(str(path)[:200] for path in left) if isinstance(left, list) else "something"
            raise BackendError(
                f"the sandbox was ended, but something is left on {self._target}: {shown}",
                context={"left": left},
            )

    # --- machines that sleep

    @property
    def _releases(self) -> bool:
        try:
            return self._where().settings.release_command is not None
        except ConfigError:  # no machine is named; what needs one says so
            return False

    @property
    def stopped_by_client(self) -> bool:
        return self._releases

    async def suspend(self) -> None:
        """Release the machine, unless somebody else's sandbox still runs on it."""
        if not self._releases:
            raise self._unsupported("suspend", "set ssh.release_command for a machine that may sleep")
        if not await self._others():
            await release(self._where())

    async def _others(self) -> bool:
        runs = (await self._ask("look")).get("others")
        return not isinstance(runs, int) or runs > 0

    async def resume(self) -> None:
        await wake(self._where(), self.progress)

    async def _ask(self, task: str, **options: Any) -> dict[str, Any]:
        asked = {"task": task, "id": self.spec.id, **options}
        try:
            return await ask(self, asked, timeout=ASK_SECONDS)
        finally:
            self._guest = None

    @classmethod
    async def prune(cls, config: Config, store: Store) -> list[str]:
        from ._prune import prune

        return await prune(config, store)


def owner() -> str:
    """Return what tells this user's sandboxes on a machine from those of others: a number made once."""
    path = home() / "state" / "owner"
    try:
        return path.read_text("ascii").strip()
    except OSError:
        make_private(path.parent)
        with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(os.urandom(8).hex())
        return path.read_text("ascii").strip()
