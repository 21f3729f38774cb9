"""Running a fleet as job arrays of SLURM: one as a rule, another for what a later client adds.

What was submitted is found again by the array's name. Each task makes a file before it runs its command, and
only if there is none: a task that is queued again, or an array that was submitted twice, runs nothing twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes._gate import gate_of
from hermes._json import error_object
from hermes.backends._command import Done
from hermes.backends.singularity import workdir
from hermes.backends.singularity._client import Client, client_for
from hermes.backends.singularity._files import Files
from hermes.backends.singularity._here import to_its_end
from hermes.backends.singularity._image import ensure
from hermes.backends.singularity._slurm import SlurmJob
from hermes.credentials.scrub import scrub_of
from hermes.errors import BackendError, ConfigError, HermesError, Refused, SandboxGone
from hermes.session import text_bytes
from hermes.travel import trees

from ._input import Command
from ._journal import Array, Begun, Journal
from ._task import Container, Tasks

if TYPE_CHECKING:
    from hermes.backends.singularity import SingularityBackend
    from hermes.sandbox import Sandbox

__all__ = ["Arrays"]

LOOK_EVERY = (0.2, 0.001)  # seconds between two looks for results, and for each that is awaited
ASK_EVERY = (2.0, 10.0)  # seconds between two questions to SLURM: first, later
CANCEL_SECONDS = 45.0
SETTLE_SECONDS = 20.0
MAX_ARRAY = 1000  # what SLURM takes unless it says otherwise

REASONS = {
    "TIMEOUT": "its job reached the time limit",
    "DEADLINE": "its job reached the deadline",
    "CANCELLED": "its job was cancelled",
    "NODE_FAIL": "the node of its job failed",
    "BOOT_FAIL": "the node of its job failed",
    "OUT_OF_MEMORY": "its job ran out of memory",
    "PREEMPTED": "its job was preempted",
}

Queue = dict[int, tuple[str, str]]
"""Tasks that SLURM has not finished with, by their index: state, and why one waits."""


class Arrays:
    """The job arrays of a fleet."""

    def __init__(
        self,
        journal: Journal,
        place: SingularityBackend,
        box: Sandbox,
        changed: Callable[[], None],
        tell: Callable[[str], None],
    ) -> None:
        """Nothing is done yet.

        :param box: a sandbox that is never opened; it knows the settings, and who is asked for approval
        :param changed: called whenever a command was submitted or finished
        """
        self._journal = journal
        self._place = place
        self._box = box
        self._changed = changed
        self._tell = tell
        self._known: dict[str, Command] = {}
        self._client: Client | None = None
        self._missing: set[str] = set()
        self.detail = ""
        self.holding = False
        self.troubles: list[HermesError] = []

    async def run(self, commands: Sequence[Command], todo: Sequence[Command], jobs: int) -> None:
        """Wait for what was submitted, and submit what was not."""
        self._known = {command.id: command for command in commands}
        await asyncio.to_thread(self._place.check_spec)
        self._client = await client_for(self._place._planned().options.program)
        await self._take_up(jobs)
        await self._wait()
        if todo:
            self._check_credentials()
        waiting = await self._approved(todo) if todo and not self.holding else []
        most = await self._most() if waiting else 0
        while waiting and not self.holding:
            chunk, waiting = waiting[:most], waiting[most:]
            await self._submit(chunk, jobs)
            await self._wait()

    # --- submitting

    async def _take_up(self, jobs: int) -> None:
        """Find the arrays that another client submitted, or was about to."""
        arrays = {array.name: array for array in self._journal.arrays}
        lost = [one.id for one in self._journal.open_all() if one.sandbox not in arrays]
        for array in self._journal.arrays:  # a client had taken hold of them, and came no further
            tasks = Tasks(Path(array.folder))
            lost += [one.id for one, n in self._open(array) if await asyncio.to_thread(tasks.is_kept, n)]
        await asyncio.to_thread(self._journal.back, lost)
        for name in {one.sandbox for one in self._journal.open_all()}:
            array = arrays[name]
            if array.number:
                continue
            tasks = Tasks(Path(array.folder))
            number = next(iter(await self._numbers(array)), "")
            for index in range(len(array.ids)):
                number = number or (await asyncio.to_thread(tasks.started, index) or "").partition("_")[0]
            if number:
                await asyncio.to_thread(self._journal.job, array, number)
            else:
                # It may come yet; then each task is run by the one of the two that comes first.
                await to_its_end(self._sbatch(array, jobs))

    def _check_credentials(self) -> None:
        """Refuse what would run without the credentials that are declared for it.

        A task has no guest that could keep them in memory, and its directory is on a disk that others share.
        """
        content, settings = self._box._declared.content, self._box._config.credentials
        names = ", ".join([*content.env, *content.files])
        if not names:
            return
        if settings.missing == "error":
            raise ConfigError(
                f"the tasks of a job array cannot have declared credentials ({names}); nothing was started",
                code="credentials_missing",
                hint="Say --set credentials.missing=warn if the commands do without, or --set "
                "singularity.slurm.enabled=false to run them here.",
            )
        warnings.warn(f"the tasks of a job array do without declared credentials: {names}", stacklevel=2)

    async def _approved(self, todo: Sequence[Command]) -> list[Command]:
        """Return those that may be run; the others have their result then."""
        self._box._gate = await asyncio.to_thread(gate_of, self._box, self._place)
        if self._box._gate is None:
            return list(todo)
        found = []
        for command in todo:
            try:
                await self._box._leave(
                    "start",
                    text_bytes(command.text, "the command"),
                    session=None,
                    options={"cwd": command.cwd, "env": command.env, "stdin": command.stdin},
                )
            except Refused as error:
                one = Begun(command.id, command.digest, "")
                refused = error_object(error, backend="singularity", sandbox=None, session=None)
                await asyncio.to_thread(self._journal.begin, one)
                await asyncio.to_thread(self._journal.finish, command.id, refused)
            else:
                found.append(command)
        return found

    async def _submit(self, commands: Sequence[Command], jobs: int) -> None:
        client, plan = self._the_client(), self._place._planned()
        work, _ = await asyncio.to_thread(workdir.choose)
        image = await ensure(client, plan.image, work, self._tell)
        box = self._box
        container = Container(
            *(client.path, image, self._place.spec, plan),
            env=dict(box._env),
            timeout=box._timeout,
            travels=await asyncio.to_thread(trees, box._config),
        )
        # A directory of that name is what a client left that came no further: nothing was submitted then.
        name = f"fleet-{self._journal.fleet}-{self._journal.submitted + 1}"
        array = Array(name, str(work / name), [command.id for command in commands])
        await asyncio.to_thread(Tasks(Path(array.folder)).make, commands, container)
        await asyncio.to_thread(self._journal.array, array, commands)
        self._changed()
        await to_its_end(self._sbatch(array, jobs))

    async def _sbatch(self, array: Array, jobs: int) -> Done:
        folder = Path(array.folder)
        options = await asyncio.to_thread(self._job(folder)._options, self._place._planned())
        done = await self._ask(
            "sbatch",
            *options,
            *(f"--job-name={array.name}", f"--array=0-{len(array.ids) - 1}%{jobs}", "--no-requeue"),
            f"--output={folder}/%a/log",
            str(folder / "job.sh"),
        )
        number = done.out.strip().partition(";")[0]
        if done.code != 0 or not number.isdigit():
            await self._give_back(array)
            if not self._open(array):
                await asyncio.to_thread(Tasks(folder).remove)
                await asyncio.to_thread(self._journal.removed, array.name)
            raise BackendError(
                f"SLURM did not take the job array: {done.said}; nothing was started",
                hint="'sinfo' lists partitions; the settings are in singularity.slurm.",
            )
        await asyncio.to_thread(self._journal.job, array, number)
        return done

    async def _give_back(self, array: Array) -> None:
        """Take back those of an array that have not begun: they cannot begin any more."""
        tasks, back = Tasks(Path(array.folder)), []
        for one, index in self._open(array):
            if await asyncio.to_thread(tasks.keep_from_running, index):
                back.append(one.id)
        await asyncio.to_thread(self._journal.back, back)

    def _job(self, folder: Path) -> SlurmJob:
        files = Files(self._place.spec.id, folder, "")
        return SlurmJob(self._the_client(), files, folder.name, self._place._slurm())

    async def _ask(self, *argv: str) -> Done:
        return await self._job(Path("/"))._ask(*argv)

    def _the_client(self) -> Client:
        assert self._client is not None
        return self._client

    async def _most(self) -> int:
        """Return how many tasks an array may have here."""
        done = await self._ask("scontrol", "show", "config")
        found = re.search(r"^MaxArraySize\s*=\s*(\d+)", done.out, re.M)
        return max(1, int(found[1])) if found else MAX_ARRAY

    # --- waiting

    def _open(self, array: Array) -> list[tuple[Begun, int]]:
        index = {ident: number for number, ident in enumerate(array.ids)}
        return [(one, index[one.id]) for one in self._journal.open_all() if one.sandbox == array.name]

    async def _wait(self) -> None:
        """Wait until every command that was submitted has a result."""
        began, asked = time.monotonic(), 0.0
        while True:
            for array in self._journal.arrays:
                await self._gather(array)
            left = sum(1 for _ in self._journal.open_all())
            if not left:
                return
            now = time.monotonic()
            if now - asked > min(ASK_EVERY[1], ASK_EVERY[0] + (now - began) / 10):
                details = []
                for array in self._journal.arrays:
                    if self._open(array):
                        details.append(await self._look(array))
                asked = now
                self.detail = "; ".join(details)
                self._changed()
            await asyncio.sleep(max(LOOK_EVERY[0], LOOK_EVERY[1] * left))

    async def _gather(self, array: Array) -> None:
        """Write down the results that are there."""
        tasks, waiting = Tasks(Path(array.folder)), {index: one for one, index in self._open(array)}
        for index in await asyncio.to_thread(tasks.finished, sorted(waiting)):
            await asyncio.to_thread(self._finish, array, tasks, waiting[index], index)
            self._changed()

    def _finish(self, array: Array, tasks: Tasks, one: Begun, index: int) -> None:
        result = tasks.result(
            index,
            self._known.get(one.id),
            limit=self._journal.limit,
            task=tasks.started(index) or f"{array.number}_{index}",
            timeout=self._box._timeout,
            scrub=scrub_of(self._box._declared.content, self._box._config.credentials),
        )
        self._journal.finish(one.id, result)

    async def _look(self, array: Array) -> str:
        """Ask SLURM for an array, and give up those of its tasks that have ended without a result."""
        queue = await self._queue(array)
        if queue is None:
            return "SLURM does not answer"
        tasks = Tasks(Path(array.folder))
        for one, index in self._open(array):
            if index in queue:
                self._missing.discard(one.id)
            elif one.id not in self._missing:
                self._missing.add(one.id)  # its result may take a moment to be seen here
            elif index not in await asyncio.to_thread(tasks.finished, [index]):
                await self._gone(array, tasks, one, index)
        states = [state for state, _ in queue.values()]
        waits = [reason for state, reason in queue.values() if state == "PENDING"]
        text = f"SLURM job {array.number}: {states.count('RUNNING')} run"
        return text + (f", {len(waits)} wait ({waits[0]})" if waits else "")

    async def _queue(self, array: Array) -> Queue | None:
        """Return what SLURM still has of an array, None when it does not say."""
        with contextlib.suppress(HermesError):
            done = await self._ask(
                *("squeue", "--noheader", "--array", "--me", f"--name={array.name}", "--format=%K|%T|%r|%F")
            )
            if done.code == 0:
                found: Queue = {}
                for line in done.out.splitlines():
                    index, state, reason, _ = (line.strip().split("|") + [""] * 4)[:4]
                    if index.isdigit():
                        found[int(index)] = (state, reason)
                return found
        return None

    async def _numbers(self, array: Array) -> set[str]:
        """Return the numbers under which SLURM has an array.

        :raises BackendError: it does not say
        """
        done = await self._ask("squeue", "--noheader", "--me", f"--name={array.name}", "--format=%F")
        if done.code != 0:
            raise BackendError(f"SLURM does not say which jobs there are: {done.said}; nothing was started")
        return set(done.out.split())

    async def _gone(self, array: Array, tasks: Tasks, one: Begun, index: int, why: str = "") -> None:
        begun = not await asyncio.to_thread(tasks.keep_from_running, index)
        task = (await asyncio.to_thread(tasks.started, index)) or f"{array.number}_{index}"
        why = why or await self._why(task)
        said = await asyncio.to_thread(tasks.said, index)
        error = SandboxGone(
            f"the task {task} ended without a result: {why}"
            + ("" if begun else "; its command had not begun")
            + (f" ({said})" if said else ""),
            reason=why,
        )
        found = error_object(error, backend="singularity", sandbox=task, session=None)
        await asyncio.to_thread(self._journal.finish, one.id, found)
        self._changed()

    async def _why(self, task: str) -> str:
        """Return what SLURM says of a task's end."""
        state = ""
        with contextlib.suppress(HermesError):
            done = await self._ask("scontrol", "show", "job", "--oneliner", task)
            found = re.search(r"\bJobState=(\w+)", done.out)
            state = found[1] if found else ""
            if not state:  # the controller forgets after some minutes; the accounts, if there are any, do not
                done = await self._ask("sacct", "--noheader", "-X", "-P", f"--jobs={task}", "--format=State")
                state = (done.out.split() or [""])[0] if done.code == 0 else ""
        return REASONS.get(
            state, f"its job is {state.lower()}" if state else "SLURM does not know it any more"
        )

    # --- ending

    async def cancel(self) -> None:
        """Cancel what SLURM has, and give back what had not begun. Results that are there are kept."""
        self._client = await client_for(self._place._planned().options.program)
        for array in self._journal.arrays:
            await self._give_back(array)
            await self._ask("scancel", "--me", f"--name={array.name}")
        for array in self._journal.arrays:
            if not await self._drained(array, CANCEL_SECONDS):
                self.troubles.append(
                    BackendError(f"SLURM still has the job {array.number}; look at 'squeue'")
                )
                continue
            await self._gather(array)
            tasks = Tasks(Path(array.folder))
            for one, index in self._open(array):
                await self._gone(array, tasks, one, index, "it was cancelled")

    async def _drained(self, array: Array, limit: float) -> bool:
        deadline = time.monotonic() + limit
        while (queue := await self._queue(array)) is None or queue:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(LOOK_EVERY[0])
        return True

    async def remove(self) -> None:
        """Remove the directories, unless something is still to come; nothing is left in the queue then."""
        if any(self._journal.open_all()):
            return
        for array in self._journal.arrays:
            if not await self._drained(array, SETTLE_SECONDS):
                # What is left has nothing to do: it ran elsewhere.
                await self._ask("scancel", "--me", f"--name={array.name}")
                await self._drained(array, CANCEL_SECONDS)
            left: list[Any] = await asyncio.to_thread(Tasks(Path(array.folder)).remove)
            if left:
                self.troubles.append(BackendError(f"{', '.join(left)} could not be removed"))
            else:
                await asyncio.to_thread(self._journal.removed, array.name)
