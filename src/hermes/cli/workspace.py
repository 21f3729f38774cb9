"""``hermes workspace``: what changed in a workspace that is a copy, and taking it over, by hand."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from . import _options as options
from ._place import choose
from ._progress import OnProgress, progress
from ._report import clean, put
from ._run import opened, run
from ._status import status_line
from ._taking import Taking, counts, lines, objects, write
from ._text import plural, print_json

if TYPE_CHECKING:
    from hermes.sandbox import Sandbox

app = options.new_group("Compare and take over files of a copied workspace.", "hermes workspace diff")

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

    chosen = choose(sandbox, name=name)

    async def work() -> int:
        async with opened(chosen, create=False) as box:
            found = await box.workspace.status(*_chosen(box, paths))
        if json:
            print_json({"inside": objects(found.inside), "here": objects(found.here)})
            return 0
        for title, changes in (("Inside", found.inside), ("Here", found.here)):
            if not changes:
                put(f"{title}: nothing changed.")
                continue
            put(f"{title}, since the copy:")
            lines(changes)
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

    chosen = choose(sandbox, name=name)

    async def work() -> int:
        plus = minus = files = 0
        async with opened(chosen, create=False) as box:
            async for one, text in box.workspace.diffs(*_chosen(box, paths)):
                if one is None:
                    if stat or sys.stdout.isatty():
                        print(clean(text, keep="\n"), end="")
                elif name_only:
                    print(clean(one.path))
                elif stat:
                    more, less, binary = counts(text)
                    plus, minus, files = plus + more, minus + less, files + 1
                    what = "binary" if binary else f"+{more} -{less}"
                    print(f"{one.what:<8} {what:>12}  {clean(one.path)}")
                else:
                    write(text)
        if stat and files:
            print(f"{plural(files, 'file')}, {plural(plus, 'line')} added, {plural(minus, 'line')} removed")
        return 0

    return run(work())


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

    chosen = choose(sandbox, name=name)

    async def work() -> int:
        taking = Taking("brought here", yes=yes, dry_run=dry_run, json=json)
        async with opened(chosen, create=False) as box:
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

    chosen = choose(sandbox, name=name)

    async def work() -> int:
        taking = Taking("brought inside", yes=yes, dry_run=dry_run, json=json)
        async with opened(chosen, create=False) as box:
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


def _chosen(box: Sandbox, paths: list[str] | None) -> list[str]:
    """Return the paths as the workspace takes them: from the current directory where that lies in it."""
    root, here = box.workspace.root, os.path.realpath(os.getcwd())
    inside = here == root or here.startswith(root + "/")
    return [os.path.join(here, path) if inside else path for path in paths or []]
