"""``hermes skills``: what a sandbox changed of its skills and dotfiles, and taking it over, by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from . import _options as options
from ._place import choose
from ._report import clean
from ._run import opened, run
from ._taking import Taking, lines, objects, write
from ._text import print_json

app = options.new_group("Compare and take over skills that sandboxes changed.", "hermes skills diff")

Paths = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PATH...]", help="Such as skills/NAME, or dotfiles.", show_default=False),
]


@app.command()
def diff(
    paths: Paths = None,
    name_only: Annotated[bool, typer.Option("--name-only", help="Only show names.")] = False,
    sandbox: options.Place = None,
    name: options.Name = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Show what changed inside, in the form of diff -u.

    Example: hermes skills diff skills/deploy
    """

    chosen = choose(sandbox, name=name)

    async def work() -> int:
        changes = []
        async with opened(chosen, create=False) as box:
            async for one, text in box.travel.diffs(*(paths or ())):
                changes.append(one)
                if not (name_only or json):
                    write(text)
        if json:
            print_json({"changes": objects(changes)})
        elif name_only:
            lines(changes)
        elif not changes:
            print(clean(f"'{box.name}' has changed nothing."))
        return 0

    return run(work())


@app.command()
def pull(
    paths: Paths = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite what changed here too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only say what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    sandbox: options.Place = None,
    name: options.Name = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Bring what changed inside into hermes's home.

    Every sandbox gets it from there. Files that changed here too are left alone. Asks before anything is
    written. The exit code is 125 when something was in conflict or could not be written.

    Example: hermes skills pull skills/deploy
    """

    chosen = choose(sandbox, name=name)

    async def work() -> int:
        taking = Taking("brought here", yes=yes, dry_run=dry_run, json=json)
        async with opened(chosen, create=False) as box:
            found = await box.travel.pull(*(paths or ()), force=force, dry_run=dry_run, agree=taking.agree)
        return taking.told(found)

    return run(work())
