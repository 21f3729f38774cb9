"""A process in a jail: bubblewrap, started with what it is told through descriptors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from hermes._tasks import settled
from hermes.errors import BackendError, HermesError

from .._process import ProcessChannel
from . import _overlay
from ._bwrap import CHANGED, arguments, identity, only_roots, seccomp
from ._cover import can_cover, cover
from ._files import Files, held
from ._git import followed
from ._held import Held
from ._network import Network, program
from ._plan import Kept, Plan, protected
from ._watch import begin

__all__ = ["JailChannel"]


class JailChannel(ProcessChannel):
    """The stdin and stdout of a process in a jail of its own making, whose files are the sandbox's.

    What it starts stays when the channel is closed. A way out of its network comes up beside it, and nothing
    passes but the first block until that is there.
    """

    def __init__(
        self,
        bwrap: str,
        argv: Sequence[str],
        plan: Plan,
        files: Files,
        network: str,
        *,
        env: Mapping[str, str],
    ) -> None:
        super().__init__([bwrap, *argv], env=env, cwd="/")
        self._plan, self._files, self._network = plan, files, network
        self._way_out: Network | None = None
        self._coming: asyncio.Task[None] | None = None
        self._no_network: HermesError | None = None
        self._begun = False
        self._later: list[bytes] | None = []  # what is written and heard before there is a network
        self._heard = b""

    async def _open(self) -> None:
        try:
            await super()._open()
        except BaseException:
            if self._way_out is not None:
                await settled(asyncio.to_thread(self._way_out.close))
            raise
        if self._way_out is not None:
            self._coming = asyncio.create_task(self._until_there(self._way_out))

    async def _until_there(self, way_out: Network) -> None:
        try:
            await asyncio.to_thread(way_out.wait)
        except HermesError as error:
            self._no_network, self._heard = error, b""
            self._abort(error.message)
            return
        finally:
            await asyncio.to_thread(way_out.close)
        later, self._later = self._later, None
        for data in later or ():
            super().write(data)
        self._hand_on()

    def write(self, data: bytes) -> None:
        # The first block lets a guest start meanwhile. Without the rest it serves nobody, and ends with us.
        if self._coming is None or self._later is None:
            super().write(data)
        elif self._begun:
            self._later.append(data)
        else:
            self._begun = True
            super().write(data)

    def _deliver(self, data: bytes) -> None:
        if self._coming is None or self._later is None:
            super()._deliver(data)
        else:
            self._heard += data

    def _hand_on(self) -> None:
        heard, self._heard = self._heard, b""
        if heard:
            super()._deliver(heard)

    def _ended(self, reason: str | None) -> None:
        self._hand_on()
        super()._ended(reason)

    async def _close(self) -> None:
        await super()._close()
        if self._coming is not None:
            await asyncio.wait([self._coming])  # it ends with the jail

    @property
    def failure(self) -> HermesError | None:
        """Why there is no process in the jail; None while there is one, or when nobody says."""
        if self.returncode == CHANGED:
            return BackendError(
                "the workspace was changed while it was mounted into the jail; nothing was run",
                code="workspace_changed",
                hint="Something else works in that directory: try again.",
            )
        said = self.stderr_tail
        return _failed(said) if self.returncode and said.startswith("bwrap: ") else self._no_network

    def _spawn(self) -> subprocess.Popen[bytes]:
        bwrap, *inner = self._argv
        with self._files.used(), contextlib.ExitStack() as stack:
            filters = held(seccomp(), stack)
            said, said_in = (
                stack.enter_context(open(fd, mode)) for fd, mode in zip(os.pipe(), ("rb", "wb"), strict=True)
            )
            ended, alive = os.pipe()
            stack.callback(os.close, ended)
            stack.callback(os.close, alive)
            kept = self._keep(ended, stack)
            is_root = os.geteuid() == 0
            covers = is_root and can_cover()
            hidden = list(only_roots("/etc")) if is_root and not covers else []
            words, check = arguments(self._plan, self._files, self._network, kept, hidden)
            words += ["--info-fd", str(said_in.fileno()), "--seccomp", str(filters), "--sync-fd", str(alive)]
            network = self._way_out = self._network_of_its_own(ended)
            given = held(b"".join(os.fsencode(word) + b"\0" for word in words), stack)
            plan, base = self._plan, self._files.base
            overlay = (
                _overlay.enter(base, plan.here, identity(plan.here)) if plan.overlay and plan.here else []
            )
            enter = [*self._files.groups.enter(), *overlay]
            self._argv = [*enter, bwrap, "--args", str(given), "--", *check, *inner]
            self._popen["pass_fds"] = (said_in.fileno(), filters, given, alive)
            process = super()._spawn()
            said_in.close()
            pid = 0
            try:
                if covers:  # bubblewrap works meanwhile
                    hidden = list(only_roots("/etc"))
                pid = int(json.loads(said.read())["child-pid"])
                begin(self._files, pid, None if plan.overlay else plan.here, kept.kept, hidden)
                if network is not None:
                    network.start(pid)
                if covers:  # nobody has asked for anything yet
                    cover(pid, self._files.host_run, hidden)
            except BaseException as error:
                words_of_it = _discard(process, pid)
                if isinstance(error, ValueError):
                    raise _overlay.failed(words_of_it) or _failed(words_of_it) from error
                raise
            return process

    def _keep(self, ended: int, stack: contextlib.ExitStack) -> Kept:
        """Return what stays read-only of the workspace, with what is put there lest it appear."""
        here = self._plan.here
        if here is None or self._plan.overlay:
            return Kept([], [])
        git = followed(here)
        held = Held(here, git.files, git.folders)
        stack.callback(held.close)
        held.until(ended)
        return protected(here, [*self._plan.options.protect, *git.kept, *git.files, *git.folders])

    def _network_of_its_own(self, ended: int) -> Network | None:
        if self._network != "on":
            return None
        path = program()
        if path is None:
            raise BackendError(
                "neither slirp4netns nor pasta is here any more; no command was run",
                hint="Install one of them, or make the sandbox anew with network: off.",
            )
        return Network(path, self._files.base / "network.log", ended)


def _discard(process: subprocess.Popen[bytes], pid: int) -> str:
    """End it and the jail whose first process this is, and return what it said."""
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.kill()
    return process.communicate()[1].decode("utf-8", "replace").strip()[:600]


def _failed(said: str) -> BackendError:
    return BackendError(
        f"bubblewrap could not make the jail: {said}; nothing was run",
        hint="'hermes doctor --sandbox jail' may find out more.",
    )
