"""An instance on this machine: started, looked at, joined and ended here."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from hermes.errors import BackendError, HermesError

from .._command import Done
from ._client import Client, end, forget_logs, host, last_words, running, runs
from ._files import Files, privileges
from ._plan import Plan

__all__ = ["Here", "Runner", "to_its_end"]

START_SECONDS = 120.0
GUEST_SECONDS = 10.0


async def to_its_end(work: Coroutine[Any, Any, Done]) -> Done:
    """Let a client finish although the wait for it is cancelled: one that is killed may still have started
    something, which would only show after the clean-up."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise


def _run(argv: Sequence[str], env: Mapping[str, str]) -> Done:
    """Run a client to its end and return how it ended, a failure to run it included. Blocks."""
    try:
        done = subprocess.run(
            argv,
            cwd="/",  # what it was is seen inside: the client leaves its settings there
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=START_SECONDS,
            start_new_session=True,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Done(-1, "", str(error))
    return Done(
        done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    )


class Runner(Protocol):
    """Where an instance runs, and how it is reached there."""

    direct: bool
    """Whether the guest's socket is on this machine."""

    async def start(self, plan: Plan, image: str, progress: Callable[[str], None]) -> None:
        """Start the instance.

        :raises BackendError: it could not be started; what there is of it has to be ended
        """

    async def runs(self) -> bool:
        """Return whether it runs.

        :raises HermesError: it cannot be told
        """

    async def end(self) -> list[str]:
        """End it if it runs, forget what is known of it, and return what is left."""

    async def why(self, made: Mapping[str, Any]) -> str:
        """Return why it does not run any more, empty when that cannot be told."""

    def argv(self) -> list[str]:
        """Return the arguments of a process of this machine that runs what follows in the instance."""


class Here:
    """An instance on this machine."""

    direct = True

    def __init__(self, client: Client, files: Files, instance: str) -> None:
        self._client = client
        self._files = files
        self._instance = instance
        self._starting: asyncio.Future[Done] | None = None
        self._failed = False

    async def start(self, plan: Plan, image: str, progress: Callable[[str], None]) -> None:
        """Start it, and wait for the guest, which may answer long before the client is done."""
        client, files = self._client, self._files
        arguments = await asyncio.to_thread(files.arguments, plan)
        argv = [client.path, "-q", "instance", "start", *arguments, image, self._instance]
        env = client.environment(gpus=plan.options.nv or plan.options.rocm)
        # In a thread to its end, whatever becomes of us: a client that is killed may still have started
        # something, which would only show after the clean-up.
        starting = self._starting = asyncio.get_running_loop().run_in_executor(None, _run, argv, env)
        while not starting.done():
            if await asyncio.to_thread(files.guest_answers):
                return
            await asyncio.wait([starting], timeout=0.005)
        done = starting.result()
        self._failed = done.code != 0
        if self._failed:
            words = done.said or await asyncio.to_thread(last_words, self._instance)
            raise BackendError(
                f"the instance could not be started: {words or f'{client.name} ended with {done.code}'}",
                hint=await self._advice(image),
            )
        await asyncio.to_thread(files.wait_for_guest, GUEST_SECONDS)

    async def _advice(self, image: str) -> str:
        """Return what to do about an instance that does not start: whether others could is asked."""
        name = self._client.name
        elsewhere = "singularity.slurm, if a job may have them, or another place, such as jail"
        try:
            await self._client.pid(self._instance)
        except HermesError:
            return (
                f"Instances do not work here: '{name} instance list' fails too. Ask the administrator, "
                f"name another program (singularity.program), or use {elsewhere}."
            )
        return (
            f"Does '{name} exec {image} true' work in a shell? If it does, instances do not work here: use "
            f"{elsewhere}."
        )

    async def _started(self) -> None:
        """Wait until a client that still starts it is done."""
        if self._starting is not None:
            await asyncio.shield(self._starting)

    async def runs(self) -> bool:
        """What the client wrote as it started is looked at before it is asked."""
        return await self.pid() is not None

    async def pid(self) -> int | None:
        """Return the pid of its first process, None when it does not run."""
        await self._started()
        pid = await asyncio.to_thread(self._files.read_pid)
        if pid is not None and await asyncio.to_thread(runs, pid, self._instance):
            return pid
        return await self._client.pid(self._instance)

    async def end(self) -> list[str]:
        """End its first process, with which everything else in it ends."""
        try:
            pid = await self.pid()
        except HermesError:
            if not self._failed:
                raise
            # A client that starts none may not tell either; on this machine it can be seen.
            pid = await asyncio.to_thread(running, self._instance)
        ended = pid is None or await asyncio.to_thread(end, pid, self._instance)
        await asyncio.to_thread(forget_logs, self._instance)
        return [] if ended else [f"instance {self._instance}"]

    async def why(self, made: Mapping[str, Any]) -> str:
        """Told by the boot of this machine, and by what the instance left behind."""
        _, boot = await asyncio.to_thread(host)
        if made.get("boot") not in ("", None, boot):
            return "this machine was restarted"
        if await asyncio.to_thread(self._files.ended_by_itself):
            return "its instance has ended, since nothing ran in it for a while (lifetime.idle_stop)"
        return "its instance was stopped or killed from outside, or ran out of memory"

    def argv(self) -> list[str]:
        """Join it by the client."""
        target = f"instance://{self._instance}"
        return [self._client.path, "-q", "exec", "--cleanenv", *privileges(), "--pwd", "/", target]
