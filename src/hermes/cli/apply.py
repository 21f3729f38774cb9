"""``hermes apply``: what was changed in a jail comes to the project."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from . import _options as options
from ._layer import DryRun, Every, Ignored, Name, Paths, Stop, Yes, at_rest, check_idle, target, tell
from ._run import run
from ._taking import Taking

app = options.new_app()


@app.command()
def apply(
    paths: Paths = None,
    every: Every = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite what changed here too.")] = False,
    include_protected: Annotated[
        bool,
        typer.Option(
            "--include-protected",
            help="Also files that programs here read by themselves, such as git's hooks, if PATH names them.",
        ),
    ] = False,
    ignored: Ignored = False,
    dry_run: DryRun = False,
    stop: Stop = False,
    yes: Yes = False,
    name: Name = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Bring changes of a jail's overlay to the project.

    That is what a jail with jail.overlay changed: new, changed and deleted files. Those that changed here too
    are left alone. Asks before anything is written. The jail is stopped for it. The exit code is 125 when
    something was in conflict or could not be written.

    Example: hermes apply src
    """
    from hermes.workspace._overlay import land, look, plan

    if bool(paths) == every:
        raise typer.BadParameter("give either paths or --all", param_hint="PATH")
    if include_protected and every:
        raise typer.BadParameter("it goes with paths, not with --all", param_hint="--include-protected")
    wanted = target(name)
    chosen = wanted.chosen(paths)

    async def work() -> int:
        taking = Taking("applied", yes=yes, dry_run=dry_run, json=json)
        with wanted.layer() as layer:
            found = await asyncio.to_thread(look, layer, chosen, read_all=True, ignored=ignored)
            outcome = plan(found, force=force, protected=chosen if include_protected else ())
            tell(found, chosen, paths)
            if not dry_run and (outcome.done or found.alike):
                await check_idle(wanted, stop=stop)
                if await taking.agree(outcome):
                    async with at_rest(wanted):
                        await asyncio.to_thread(land, layer, found, outcome)
        return taking.told(outcome)

    return run(work())
