"""Running a fleet in sandboxes: each has one command at a time, as a job that goes on without us.

A command carries a mark in its own text, by which another client finds its job again. Where there is none,
the start may still be on its way: the text begins with making a file that only one of two can make, so that
starting it again is safe.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shlex
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from hermes import backends, places
from hermes._json import error_object, result_object
from hermes.config import Config
from hermes.errors import CommandError, HermesError, Refused, SandboxGone, Unreachable
from hermes.files import Files
from hermes.job import Job, JobInfo
from hermes.session import Result, collect, text_bytes
from hermes.state import Store

from ._input import Command
from ._journal import Begun, Journal

if TYPE_CHECKING:
    from hermes.sandbox import Sandbox

__all__ = ["Boxes"]

RUNNING = ("queued", "running")
AT_ONCE = 8  # sandboxes that are made or ended at a time


class Boxes:
    """The sandboxes of a fleet, and what runs in them."""

    def __init__(
        self, journal: Journal, make: Callable[..., Sandbox], config: Config, changed: Callable[[], None]
    ) -> None:
        """Nothing is done yet.

        :param make: returns a sandbox of a name, not opened, with further options of one
        :param changed: called whenever a command was begun or finished
        """
        self._journal = journal
        self._make = make
        self._config = config
        self._changed = changed
        self._few = asyncio.Semaphore(AT_ONCE)
        self._todo: deque[Command] = deque()
        self._known: dict[str, Command] = {}
        self.detail = ""
        self.holding = False
        self.troubles: list[HermesError] = []

    async def run(self, commands: Sequence[Command], todo: Sequence[Command], jobs: int) -> None:
        """Finish what was begun, and run what was not. What goes wrong with a sandbox is in ``troubles``.

        :raises HermesError: the results cannot be written any more; what runs goes on
        """
        self._known = {command.id: command for command in commands}
        self._todo = deque(todo)
        begun: dict[str, list[Begun]] = {}
        for one in self._journal.open_all():
            begun.setdefault(one.sandbox, []).append(one)
        names = [f"fleet-{self._journal.fleet}-{number}" for number in range(1, jobs + 1)]
        busy = [name for name in (*names, *begun) if name in begun]
        idle = [name for name in names if name not in begun][: len(self._todo)]
        tasks = [
            asyncio.create_task(self._serve(name, begun.get(name, []), more=name in names))
            for name in dict.fromkeys((*busy, *idle))
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, name: str, begun: Sequence[Begun], *, more: bool) -> None:
        """Run one command after the other in one sandbox."""
        box: Sandbox | None = None
        try:
            for one in begun:
                box = await self._take_up(box, name, one)
            while more and self._todo and not self.holding:
                box = box or await self._opened(name)
                try:
                    await box._channel.call("ping")  # one that has gone by itself costs no command
                except Unreachable:
                    raise
                except SandboxGone:
                    await box.close()
                    box = None
                    continue
                if not self._todo or self.holding:
                    break
                command = self._todo.popleft()
                guest = str(box._channel.guest.get("guest"))
                one = Begun(command.id, command.digest, name, secrets.token_hex(8), guest)
                await asyncio.to_thread(self._journal.begin, one)
                self._changed()
                box = await self._finish(box, one, self._fresh(box, one))
        except HermesError as error:
            if error.code.startswith("fleet_"):
                raise
            self.troubles.append(error)
        finally:
            if box is not None:
                await box.close()

    async def _opened(self, name: str) -> Sandbox:
        await asyncio.to_thread(self._journal.box, name)
        async with self._few:
            try:
                return await self._make(name).open()
            except Unreachable:
                raise
            except SandboxGone:  # with its files, which no command is promised to find
                return await self._make(name, recreate=True).open()

    # --- one command

    async def _take_up(self, box: Sandbox | None, name: str, one: Begun) -> Sandbox | None:
        """Finish a command that another client has begun."""
        try:
            box = box or await self._make(name).open(create=False)
            self._same_guest(box, one)
        except Unreachable:
            raise
        except SandboxGone as error:
            await self._write(one, error)
            return box
        return await self._finish(box, one, self._again(box, one))

    @staticmethod
    def _same_guest(box: Sandbox, one: Begun) -> None:
        if box._channel.guest.get("guest") != one.guest:
            reason = "its guest has ended, and with it what ran"
            raise SandboxGone(f"the sandbox '{box.name}' is another one: {reason}", reason=reason)

    async def _finish(self, box: Sandbox, one: Begun, work: Awaitable[Result]) -> Sandbox | None:
        """Await and write down a result; return the sandbox unless it is gone."""
        try:
            outcome: Result | HermesError = await work
        except Unreachable:
            raise
        except HermesError as error:
            outcome = error
        await self._write(one, outcome)
        if isinstance(outcome, SandboxGone):
            await box.close()
            return None
        command = self._known.get(one.id)
        if command is not None and command.stdin is not None:
            with contextlib.suppress(HermesError):
                await Files(box._channel).remove(_paths(box, one.mark)[1])
        return box

    async def _fresh(self, box: Sandbox, one: Begun) -> Result:
        result = await self._collect(box, await self._start(box, one))
        if result.exit_code == 125 and result.stderr.endswith(f"{_CANNOT} {one.mark}\n".encode()):
            raise CommandError(
                "there is no room for the mark of a command in the sandbox; the command was not run",
                hint="An earlier command may have removed or filled the home directory there.",
            )
        return await self._again(box, one) if _was_late(result, one.mark) else result

    async def _again(self, box: Sandbox, one: Begun) -> Result:
        """Return the result of the job that got ahead; start one when there is none."""
        seen: set[str] = set()
        started = False
        while True:
            for info in await self._marked(box, one):
                if info.id not in seen:
                    seen.add(info.id)
                    result = await self._collect(box, int(info.id))
                    if not _was_late(result, one.mark):
                        return result
            if started:
                raise _lost(one, "its job is not known any more")
            await self._start(box, one)
            started = True

    async def _marked(self, box: Sandbox, one: Begun) -> list[JobInfo]:
        begin = f": fleet {one.mark};"
        return [info for info in await box.jobs() if info.kind == "job" and info.command.startswith(begin)]

    async def _start(self, box: Sandbox, one: Begun) -> int:
        """Start a command and return its job's id.

        :raises CommandError: it was not started, and is not on its way
        :raises Refused: likewise
        """
        from hermes.channel.channel import checked

        command = self._known[one.id]
        limits = {"timeout": command.timeout, "max_output": self._journal.limit}
        args = box._args({"env": command.env, "cwd": command.cwd, **limits})
        said = text_bytes(command.text, "the command")
        await box._leave(
            "start",
            said,
            session=None,
            options={"cwd": command.cwd, "env": command.env, "stdin": command.stdin},
        )
        guard, stdin = _paths(box, one.mark)
        if command.stdin is not None:
            try:
                # It is part of what was approved, and lies in the guest's own directory.
                await Files(box._channel).write(stdin, command.stdin, mode=0o600)
            except SandboxGone:
                raise
            except HermesError as error:
                raise CommandError(
                    f"the standard input could not be put into the sandbox: {error.message}; the command was "
                    "not run",
                    code="stdin_failed",
                ) from error
        text = text_bytes(_wrapped(command, one.mark, guard, stdin), "the command")
        tries = 0
        while True:
            tries += 1
            # By its own text: what we put around it names no variable.
            sent = {**box._base, **args, **await box._given(said, args)}
            try:
                reply = await box._channel.call("start", sent, text)
            except HermesError as error:
                await box._again(error, None, tries)
            else:
                return checked(reply.body.get("id"), int)

    async def _collect(self, box: Sandbox, job: int) -> Result:
        stream = Job(box, job, "")._attach(live=False)
        try:
            scrub = box._supply.scrub if box._supply is not None else None
            return await collect(box._channel, stream, self._journal.limit, scrub)
        finally:
            stream.cancel()

    async def _write(self, one: Begun, outcome: Result | HermesError) -> None:
        backend = str(self._journal.header["backend"])
        if isinstance(outcome, Result):
            found = result_object(
                outcome, outcome.exit_code, backend=backend, sandbox=one.sandbox, session=None
            )
            found["spill"] = None  # it goes with the sandbox
        else:
            told = isinstance(outcome, CommandError | Refused | SandboxGone)
            if not told and outcome.code not in ("no_shell", "shell_failed"):
                # It may have run, so it must not be taken for one that did not.
                outcome = _lost(one, outcome.message)
            found = error_object(outcome, backend=backend, sandbox=one.sandbox, session=None)
        await asyncio.to_thread(self._journal.finish, one.id, found)
        self._changed()

    # --- ending

    async def cancel(self) -> None:
        """End what runs. Results that are there already are kept."""

        async def end(one: Begun) -> None:
            async with self._few:
                try:
                    outcome = await self._end(one)
                except Unreachable as error:
                    self.troubles.append(error)
                    return
                except HermesError as error:
                    outcome = error
                await self._write(one, outcome)

        await asyncio.gather(*(end(one) for one in list(self._journal.open_all())))

    async def _end(self, one: Begun) -> Result | HermesError:
        box = await self._make(one.sandbox).open(create=False)
        try:
            self._same_guest(box, one)
            for info in await self._marked(box, one):
                if info.state not in RUNNING:
                    result = await self._collect(box, int(info.id))
                    if not _was_late(result, one.mark):
                        return result
                await box.kill(info.id)
            return SandboxGone("the command was cancelled", reason="it was cancelled", code="cancelled")
        finally:
            await box.close()

    async def remove(self) -> None:
        """Remove the sandboxes, unless something is still to be had from one of them."""
        if any(self._journal.open_all()):
            return
        store = await asyncio.to_thread(Store)
        backend = str(self._journal.header["backend"])
        await asyncio.to_thread(backends.load, backend)  # imports it

        async def one(name: str) -> None:
            async with self._few:
                try:
                    record = await asyncio.to_thread(store.get, backend, name)
                    if record is not None:
                        await places.remove(record, self._config, store)
                    await asyncio.to_thread(self._journal.removed, name)
                except HermesError as error:
                    self.troubles.append(error)

        await asyncio.gather(*map(one, self._journal.boxes))


def _wrapped(command: Command, mark: str, guard: str, stdin: str) -> str:
    """Return what the shell runs: on the command's own first line, so that its lines keep their numbers."""
    source = shlex.quote(stdin) if command.stdin is not None else "/dev/null"
    quoted = shlex.quote(guard)
    return (
        f": fleet {mark}; command mkdir -p {shlex.quote(os.path.dirname(guard))}; set -C; "
        f"{{ command : >{quoted}; }} 2>/dev/null || {{ if [ -e {quoted} ]; then echo '{_LATE} {mark}'; "
        f"else echo '{_CANNOT} {mark}'; fi >&2; exit 125; }}; set +C; "
        f"exec <{source} || exit 125; {command.text}"
    )


_LATE = "fleet: it was begun before:"
_CANNOT = "fleet: it cannot be begun here:"


def _was_late(result: Result, mark: str) -> bool:
    """Return whether a job ran nothing, since another one of the same mark had begun before."""
    return result.exit_code == 125 and result.stderr == f"{_LATE} {mark}\n".encode()


def _paths(box: Sandbox, mark: str) -> tuple[str, str]:
    """Return where, inside, a command's guard and its standard input are."""
    base = f"{box._channel.guest['state_dir']}/fleet-{mark}"
    return base, base + ".in"


def _lost(one: Begun, why: str) -> SandboxGone:
    return SandboxGone(f"the command was begun, but its result is lost: {why}", reason=why)
