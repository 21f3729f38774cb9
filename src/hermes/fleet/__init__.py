"""Many independent commands from a file, so many at a time, each exactly once whatever becomes of the client.

:class:`Fleet` runs them in sandboxes of its own, or as a job array where singularity runs under SLURM. Their
results are lines of JSON in a file; a journal beside it makes a fleet that was left, or whose client was
killed, go on where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from hermes import auto, places
from hermes._settle import settle
from hermes.config import Config, Lifetime, load
from hermes.errors import ConfigError, HermesError
from hermes.sandbox import Sandbox

from ._input import Command, read_commands
from ._journal import FINAL, Journal

if TYPE_CHECKING:
    from hermes.backends.singularity import SingularityBackend

__all__ = ["Command", "Fleet", "Summary", "read_commands"]

JOBS = 4
TELL_EVERY = 0.1


@dataclass(frozen=True)
class Summary:
    """How far a fleet is, in numbers of commands.

    ``ok``, ``timed_out``, ``gone``, ``refused`` and ``failed`` have a result of that status; those of the
    last two never ran. ``running`` were begun and have none yet, ``waiting`` were not begun. ``troubles``
    are reasons, other than a command's own, for which some of them are left.
    """

    total: int
    ok: int = 0
    timed_out: int = 0
    gone: int = 0
    refused: int = 0
    failed: int = 0
    running: int = 0
    waiting: int = 0
    troubles: tuple[HermesError, ...] = ()

    @property
    def done(self) -> int:
        """Those that have a result."""
        return self.total - self.running - self.waiting

    def __str__(self) -> str:
        parts = [f"{self.ok} of {self.total} done"]
        for count, what in (
            (self.timed_out, "timed out"),
            (self.gone, "gone"),
            (self.refused, "refused"),
            (self.failed, "could not be run"),
            (self.running, "under way"),
            (self.waiting, "waiting"),
        ):
            if count:
                parts.append(f"{count} {what}")
        return ", ".join(parts)


class _Runner(Protocol):
    """How commands are run: in sandboxes, or by job arrays."""

    holding: bool
    detail: str
    troubles: list[HermesError]

    async def run(self, commands: Sequence[Command], todo: Sequence[Command], jobs: int) -> None: ...

    async def cancel(self) -> None: ...

    async def remove(self) -> None: ...


class Fleet:
    """The commands of one file, and their results."""

    def __init__(
        self,
        path: str | Path,
        *,
        output: str | Path | None = None,
        backend: str | None = None,
        jobs: int = JOBS,
        max_output: int | None = None,
        retry_gone: bool = False,
        on_progress: Callable[[str], None] | None = None,
        config: Config | None = None,
        **options: Any,
    ) -> None:
        """Describe the fleet; nothing is read or started yet.

        :param path: the file of commands
        :param output: where results go; ``NAME.results.jsonl`` beside ``NAME.jsonl`` by default
        :param backend: the place's name, None for the configured one
        :param jobs: how many commands run at a time
        :param max_output: bytes of each stream that a result may hold, None for the configured limit
        :param retry_gone: run those again whose result says that they are gone; they may then run twice
        :param on_progress: gets lines for people
        :param options: those of :class:`hermes.Sandbox`
        """
        if jobs < 1:
            raise ConfigError(f"jobs is {jobs}; it has to be 1 or more")
        self.path = Path(path)
        beside = self.path.with_name(f"{self.path.name.removesuffix('.jsonl')}.results.jsonl")
        self.output = Path(output) if output is not None else beside
        self.backend = backend
        self._jobs = jobs
        self._max_output = max_output
        self._retry_gone = retry_gone
        self._tell = on_progress or (lambda line: None)
        self._settled = config
        self._options = options
        self._journal = Journal(self.output)
        self._commands: list[Command] = []
        self._runner: _Runner | None = None
        self._pending: asyncio.TimerHandle | None = None
        self._told = ""

    async def run(self) -> Summary:
        """Run what was not run yet, wait for what runs, and return how it ended.

        Cancelling it leaves what runs as it is: the next run of the same fleet goes on with it.

        :raises ConfigError: code ``fleet_invalid``; a line of the file is no command
        :raises HermesError: code ``fleet_busy``, ``fleet_differs``, ``fleet_unreadable`` or
            ``fleet_unwritable``
        """
        async with self._opened() as runner:
            final = [status for status in FINAL if status != "gone" or not self._retry_gone]
            todo = [
                command
                for command in self._commands
                if not self._journal.open_for(command.id) and self._journal.status(command.id) not in final
            ]
            self._changed()
            try:
                await runner.run(self._commands, todo, self._jobs)
            except HermesError as error:
                if error.code.startswith("fleet_"):
                    raise
                runner.troubles.append(error)
            await runner.remove()
            return self._summary(runner)

    def hold(self) -> None:
        """Begin no more commands; :meth:`run` returns when those that run have ended."""
        if self._runner is not None:
            self._runner.holding = True

    async def cancel(self) -> Summary:
        """End what runs, and remove everything but the results. What was not begun can still be run.

        :raises HermesError: as :meth:`run` does
        """
        async with self._opened() as runner:
            await runner.cancel()
            await runner.remove()
            return self._summary(runner)

    async def status(self) -> tuple[Summary, bool]:
        """Return how far the fleet is, and whether a client runs it now. Touches nothing."""
        self._commands = await asyncio.to_thread(read_commands, self.path)
        self._journal = Journal(self.output)
        held = await asyncio.to_thread(self._journal.look)
        return self._summary(None), held

    # --- inside

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[_Runner]:
        self._commands = await asyncio.to_thread(read_commands, self.path)
        self._journal = Journal(self.output)
        await asyncio.to_thread(self._journal.open)
        try:
            if self._settled is None:
                self._settled = await asyncio.to_thread(load)
            box = self._sandbox("fleet")
            await asyncio.to_thread(settle, box)
            config = self._settled = box._config
            if box.backend == "auto":
                box.backend, why = await auto.resolve(config)
                await asyncio.to_thread(box._store.pin, box.backend, why)
            self.backend = box.backend
            limit = config.output.limit if self._max_output is None else self._max_output
            self._journal.check(self._commands)
            await asyncio.to_thread(self._journal.begin_fleet, box.backend, limit)
            self._runner = await self._runner_for(box, config)
            yield self._runner
        finally:
            self._runner = None
            if self._pending is not None:
                self._pending.cancel()
                self._pending = None
            await asyncio.shield(asyncio.to_thread(self._journal.close))

    async def _runner_for(self, box: Sandbox, config: Config) -> _Runner:
        if box.backend == "singularity":
            from hermes.backends.singularity import SingularityBackend

            place = SingularityBackend(places._spec(box._wanted(), self._journal.fleet), config)
            if place._slurm().wanted:
                return self._arrays(place, box)
        if self._journal.arrays:
            raise HermesError(
                "this fleet was begun as a job array, and singularity.slurm is not set now; nothing was "
                "started",
                code="fleet_differs",
                hint="Set it as it was, or cancel the fleet with it set.",
            )
        from ._boxes import Boxes

        return Boxes(self._journal, self._sandbox, config, self._changed)

    def _arrays(self, place: SingularityBackend, box: Sandbox) -> _Runner:
        from ._arrays import Arrays

        return Arrays(self._journal, place, box, self._changed, self._tell)

    def _sandbox(self, name: str, **more: Any) -> Sandbox:
        config = self._settled or load()
        life = config.lifetime
        # Its results have to be there when the next client comes, which may be as late as its commands end.
        lifetime = Lifetime(
            detached=life.detached,
            idle_guest=max(life.idle_guest, life.detached),
            idle_stop=max(life.idle_stop, life.detached) if life.idle_stop else 0.0,
            ttl=life.ttl,
        )
        given = {"lifetime": lifetime, "on_progress": self._tell, **self._options, **more}
        return Sandbox(self.backend, name=name, config=config, **given)

    def _changed(self) -> None:
        """Tell how far we are, but not for each command of many."""
        if self._pending is None:
            self._pending = asyncio.get_running_loop().call_later(TELL_EVERY, self._tell_now)

    def _tell_now(self) -> None:
        self._pending = None
        detail = self._runner.detail if self._runner is not None else ""
        line = f"{self._summary(None)}" + (f"; {detail}" if detail else "")
        if line != self._told:
            self._told = line
            self._tell(line)

    def _summary(self, runner: _Runner | None) -> Summary:
        counts: Counter[str] = Counter()
        for command in self._commands:
            if self._journal.open_for(command.id):
                counts["running"] += 1
            else:
                counts[self._journal.status(command.id) or "waiting"] += 1
        troubles = tuple(runner.troubles) if runner is not None else ()
        return Summary(total=len(self._commands), troubles=troubles, **counts)
