"""``hermes workspace``: what changed in a workspace that is a copy, and taking it over, by hand."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from . import _options as options
from ._place import choose
from ._progress import OnProgress, progress
from ._report import clean, confirmed, say
from ._run import opened, run
from ._status import status_line
from ._text import plural, print_json, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.sandbox import Sandbox
    from hermes.workspace import Change, Outcome

app = options.new_group("Compare and take over files of a copied workspace.")

SHOWN = 40  # lines of each part before somebody is asked; 'status' and --dry-run show all

Paths = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PATH...]", help="Only these files and directories.", show_default=False),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite what changed on the other side too.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Only say what would be done.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command()
def status(
    paths: Paths = None,
    sandbox: options.Place = None,
    name: options.Name = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """List what changed since the copy, inside and here.

    Example: hermes workspace status
    """

    async def work() -> int:
        async with opened(choose(sandbox, name=name), create=False) as box:
            found = await box.workspace.status(*_chosen(box, paths))
        if json:
            print_json({"inside": _objects(found.inside), "here": _objects(found.here)})
            return 0
        for title, changes in (("Inside", found.inside), ("Here", found.here)):
            if not changes:
                print(f"{title}: nothing changed.")
                continue
            print(f"{title}, since the copy:")
            _lines(changes)
        return 0

    return run(work())


@app.command()
def diff(
    paths: Paths = None,
    stat: Annotated[bool, typer.Option("--stat", help="Only count lines.")] = False,
    name_only: Annotated[bool, typer.Option("--name-only", help="Only show names.")] = False,
    sandbox: options.Place = None,
    name: options.Name = None,
    debug: options.Debug = False,
) -> int:
    """Show what changed inside since the copy, in the form of diff -u.

    'hermes workspace diff | git apply' would do what 'hermes workspace pull' does for text.

    Example: hermes workspace diff --stat
    """

    async def work() -> int:
        plus = minus = files = 0
        async with opened(choose(sandbox, name=name), create=False) as box:
            async for one, text in box.workspace.diffs(*_chosen(box, paths)):
                if one is None:
                    if stat or sys.stdout.isatty():
                        print(text, end="")
                elif name_only:
                    print(clean(one.path))
                elif stat:
                    more, less, binary = _counts(text)
                    plus, minus, files = plus + more, minus + less, files + 1
                    counts = "binary" if binary else f"+{more} -{less}"
                    print(f"{one.what:<8} {counts:>12}  {clean(one.path)}")
                else:
                    _write(text)
        if stat and files:
            print(f"{plural(files, 'file')}, {plural(plus, 'line')} added, {plural(minus, 'line')} removed")
        return 0

    return run(work())


def _counts(text: str) -> tuple[int, int, bool]:
    """Return how many lines a text adds and removes, and whether it shows none because they are no text."""
    head, hunk, body = text.partition("\n@@ ")
    lines = body.split("\n")[1:] if hunk else []
    more, less = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return more, less, "\nBinary files " in f"\n{head}"


def _write(text: str) -> None:
    if sys.stdout.isatty():
        sys.stdout.write(clean(text, keep="\n\t"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))


@app.command()
def pull(
    paths: Paths = None,
    force: Force = False,
    include_protected: Annotated[
        bool,
        typer.Option(
            "--include-protected",
            help="Bring what programs here read by themselves too, such as git's hooks.",
        ),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    sandbox: options.Place = None,
    name: options.Name = None,
    json: options.Json = False,
    quiet: Quiet = False,
    debug: options.Debug = False,
) -> int:
    """Bring what changed inside here: new, changed and deleted files.

    Files that changed here too are left alone. Asks before anything is written. The exit code is 125 when
    something was in conflict or could not be written.

    Example: hermes workspace pull src
    """

    async def work() -> int:
        taking = _Taking("brought here", yes=yes, dry_run=dry_run, json=json)
        async with opened(choose(sandbox, name=name), create=False) as box:
            with contextlib.ExitStack() as stack:
                bar: list[OnProgress | None] = []

                def show(done: int, total: int | None, path: str) -> None:
                    if not bar:  # not while somebody is asked
                        bar.append(stack.enter_context(progress(quiet=quiet)))
                    if bar[0] is not None:
                        bar[0](done, total, path)

                found = await box.workspace.pull(
                    *_chosen(box, paths),
                    force=force,
                    include_protected=include_protected,
                    dry_run=dry_run,
                    agree=taking.agree,
                    on_progress=show,
                )
        return taking.told(found)

    return run(work())


@app.command()
def push(
    paths: Paths = None,
    force: Force = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    sandbox: options.Place = None,
    name: options.Name = None,
    json: options.Json = False,
    quiet: Quiet = False,
    debug: options.Debug = False,
) -> int:
    """Bring what changed here inside: new, changed and deleted files.

    Files that changed inside too are left alone. Asks before anything is written.

    Example: hermes workspace push
    """

    async def work() -> int:
        taking = _Taking("brought inside", yes=yes, dry_run=dry_run, json=json)
        async with opened(choose(sandbox, name=name), create=False) as box:
            with status_line(quiet=quiet) as show:
                found = await box.workspace.push(
                    *_chosen(box, paths),
                    force=force,
                    dry_run=dry_run,
                    agree=taking.agree,
                    on_progress=show,
                )
        return taking.told(found)

    return run(work())


class _Taking:
    """Shows what is about to be done, asks, and says what was done."""

    def __init__(self, done: str, *, yes: bool, dry_run: bool, json: bool) -> None:
        self._done = done
        self._yes = yes
        self._dry_run = dry_run
        self._json = json
        self._refused = False

    async def agree(self, plan: Outcome) -> bool:
        if self._yes or not plan.done:
            return True
        if not self._json:
            self._show(plan, f"To be {self._done}:", SHOWN)
        count = plural(len(plan.done), "file")
        self._refused = not await confirmed(f"{count}, {size(plan.bytes)}: shall it be {self._done}?")
        return not self._refused

    def told(self, found: Outcome) -> int:
        """Say what came of it, and return the exit code."""
        if self._refused:
            say(f"nothing was {self._done}.")
            return 125
        if self._json:
            print_json(
                {
                    "dry_run": self._dry_run,
                    "done": _objects(found.done),
                    "conflicts": _objects(found.conflicts),
                    "held": _objects(found.held),
                    "failed": _objects(found.failed),
                }
            )
        elif self._dry_run or self._yes or not found.done:
            verb = f"To be {self._done}:" if self._dry_run else f"{self._done.capitalize()}:"
            self._show(found, verb, None)
            if not found.done:
                print(f"Nothing {'is to be' if self._dry_run else 'was'} {self._done}.")
        else:
            _section("Could not be written:", found.failed)
        if not self._dry_run and found.done:
            say(f"{plural(len(found.done), 'file')}, {size(found.bytes)}, {self._done}.")
        return 125 if found.failed or (found.conflicts and not self._dry_run) else 0

    @staticmethod
    def _show(found: Outcome, title: str, most: int | None) -> None:
        _section(title, found.done, most)
        _section("Changed on both sides, left alone without --force:", found.conflicts, most)
        _section("Held back:", found.held, most)
        _section("Could not be written:", found.failed)


def _section(title: str, changes: Sequence[Change], most: int | None = None) -> None:
    if changes:
        print(title)
        _lines(changes, most)


def _lines(changes: Sequence[Change], most: int | None = None) -> None:
    from hermes.workspace._plan import is_gits

    own = [one for one in changes if one.note or not is_gits(one.path)]
    for one in own[:most]:
        print(f"  {one.what:<8}  {clean(one.path)}{': ' + clean(one.note) if one.note else ''}")
    if most is not None and len(own) > most:
        print(f"  ... and {len(own) - most} more; --dry-run shows all")
    if len(own) < len(changes):
        print(f"  git's own data: {plural(len(changes) - len(own), 'file')} (commits, branches, the index)")


def _objects(changes: Sequence[Change]) -> list[dict[str, Any]]:
    found = []
    for one in changes:
        path = one.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        found.append({**msgspec.structs.asdict(one), "path": path})
    return found


def _chosen(box: Sandbox, paths: list[str] | None) -> list[str]:
    """Return the paths as the workspace takes them: from the current directory where that lies in it."""
    root, here = box.workspace.root, os.path.realpath(os.getcwd())
    inside = here == root or here.startswith(root + "/")
    return [os.path.join(here, path) if inside else path for path in paths or []]
