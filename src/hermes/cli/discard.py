"""``hermes discard``: what was changed in a jail is forgotten."""

from __future__ import annotations

import asyncio
import os

import typer

from hermes.workspace import Outcome

from . import _options as options
from ._layer import DryRun, Every, Ignored, Name, Paths, Stop, Yes, at_rest, check_idle, target, tell
from ._run import run
from ._taking import Taking

app = options.new_app()


@app.command()
def discard(
    paths: Paths = None,
    every: Every = False,
    ignored: Ignored = False,
    dry_run: DryRun = False,
    stop: Stop = False,
    yes: Yes = False,
    name: Name = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Forget changes of a jail's overlay.

    The jail sees the project's own files again. Asks first. The jail is stopped for it. The project is not
    touched. --all is also what git ignores.

    Example: hermes discard notes.txt
    """
    import msgspec

    from hermes.workspace._overlay import discard as take_back
    from hermes.workspace._overlay import empty, look

    if bool(paths) == every:
        raise typer.BadParameter("give either paths or --all", param_hint="PATH")
    wanted = target(name)
    chosen = wanted.chosen(paths)

    async def work() -> int:
        taking = Taking("discarded", yes=yes, dry_run=dry_run, json=json)
        with wanted.layer() as layer:
            found = await asyncio.to_thread(look, layer, chosen, ignored=ignored or every)
            outcome = Outcome(done=[msgspec.structs.replace(one, note="") for one in found.changes()])
            tell(found, chosen, paths)
            if not dry_run and (outcome.done or (every and os.listdir(layer.upper))):
                await check_idle(wanted, stop=stop)
                if await taking.agree(outcome):
                    async with at_rest(wanted):
                        await asyncio.to_thread(empty if every else take_back, layer, outcome)
        return taking.told(outcome)

    return run(work())
