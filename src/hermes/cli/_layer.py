"""The changes that a jail keeps beside a directory here: whose they are, and what has to rest first."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from hermes.backends.jail import _overlay
from hermes.backends.jail._files import Files
from hermes.config import load
from hermes.errors import ConfigError, HermesError, UnsupportedError
from hermes.places import locked, place_of
from hermes.state import Store
from hermes.workspace._layer import Layer

from ._place import default_name
from ._records import chosen_for, find_record
from ._report import say
from ._run import opened
from ._text import plural

if TYPE_CHECKING:
    from hermes.state import SandboxRecord
    from hermes.workspace._overlay import Found

Paths = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PATH...]", help="Only these files and directories.", show_default=False),
]
Name = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="The jail's name. Default: that of this directory."),
]
Every = Annotated[bool, typer.Option("--all", help="Everything that changed.")]
Ignored = Annotated[bool, typer.Option("--ignored", help="With what git's rules ignore.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Only say what would be done.")]
Stop = Annotated[bool, typer.Option("--stop", help="End what runs in the jail, if anything does.")]


class Target(NamedTuple):
    """A jail, where its changes are, and what they are changes of."""

    record: SandboxRecord
    upper: str
    root: str

    def chosen(self, paths: list[str] | None) -> list[str]:
        """Return paths, which begin at the current directory, as those in the project.

        :raises ConfigError: one is not in it
        """
        here, found = os.path.realpath(os.getcwd()), []
        base = here if here == self.root or here.startswith(self.root + "/") else self.root
        for path in paths or []:
            full = os.path.normpath(os.path.join(base, path))
            if full != self.root and not full.startswith(self.root + "/"):
                raise ConfigError(f"{path} is not in {self.root}; nothing was done")
            found.append(os.path.relpath(full, self.root))
        return found

    @contextlib.contextmanager
    def layer(self) -> Iterator[Layer]:
        """Open the changes.

        :raises HermesError: the project is not where it was
        """
        try:
            layer = Layer(self.upper, self.root)
        except OSError as error:
            raise HermesError(
                f"the changes of '{self.record.name}' cannot be looked at: {self.root}: "
                f"{error.strerror}; nothing was done",
                hint="They are kept. Put the directory back, or remove them: 'hermes sandbox rm --force'.",
            ) from error
        try:
            yield layer
        finally:
            layer.close()


def target(name: str | None) -> Target:
    """Return the jail of a name, or that of the current directory, or of one above it.

    :raises SandboxGone: there is none
    :raises UnsupportedError: it has no overlay
    """
    record = find_record(name or _of_directory(), "jail")
    found = overlay_of(record)
    if found is None:
        raise UnsupportedError(
            f"the jail '{record.name}' keeps no changes: it was made without jail.overlay, or without --here",
            hint="hermes exec --sandbox jail --here --set jail.overlay=true ...",
        )
    return found


def overlay_of(record: SandboxRecord) -> Target | None:
    if record.backend != "jail":
        return None
    base = Files(record.id).base
    root = _overlay.original(base)
    return None if root is None else Target(record, _overlay.upper(base), root)


def unapplied(record: SandboxRecord) -> int:
    """Return how many files of a project were changed in a jail, and are in it alone. Blocks."""
    from hermes.workspace._overlay import look

    found = overlay_of(record)
    if found is None:
        return 0
    try:
        with found.layer() as layer:
            return len(look(layer).changed)
    except HermesError:
        return 0  # there is nothing that they could be taken over to


def _of_directory() -> str:
    at = os.path.realpath(os.getcwd())
    known = {one.name for one in Store().all() if one.backend == "jail"}
    first = default_name(load().workspace)
    while first not in known and at != "/":
        if (name := default_name(at)) in known:
            return name
        at = os.path.dirname(at)
    return first


async def check_idle(target: Target, *, stop: bool) -> None:
    """Check that nothing runs in a jail that is about to be stopped.

    :raises HermesError: code ``busy``; something does
    """
    from hermes.errors import SandboxGone

    if stop:
        return
    try:
        async with opened(chosen_for(target.record), create=False) as box:
            running = [one for one in await box.jobs() if one.state in ("queued", "running")]
    except SandboxGone:
        return
    if running:
        raise HermesError(
            f"'{target.record.name}' is busy ({plural(len(running), 'command')}); nothing was done",
            code="busy",
            hint="Its files must not change under them. Wait ('hermes jobs'), or end them with --stop.",
        )


@contextlib.asynccontextmanager
async def at_rest(target: Target) -> AsyncIterator[None]:
    """Stop a jail, and keep it from being started: the kernel wants nothing changed below a mount."""
    record = target.record
    async with locked(Store(), record.backend, record.name):
        place = place_of(record, await asyncio.to_thread(load))
        state = await place.find(record.locator)
        if state != "gone":
            await place.suspend()  # also where its guest has ended, and something lives on
        if state == "running":
            say(f"'{record.name}' was stopped for it; the next command starts it again.")
        yield


def tell(found: Found, paths: list[str], given: list[str] | None) -> None:
    """Say which paths have no changes, and that some were left out."""
    for path, word in zip(paths, given or [], strict=True):
        if path != "." and not any(one == path or one.startswith(path + "/") for one in found.changed):
            say(f"{word}: nothing changed.")
    if found.ignored:
        say(f"{plural(found.ignored, 'file')} that git's rules ignore left out: --ignored has them too.")
