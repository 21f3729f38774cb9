"""``hermes setup``: get a place ready, so that its first sandbox starts at once."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from hermes import auto, backends
from hermes.config import Config, load
from hermes.state import Store

from . import _options as options
from ._report import say
from ._run import run
from ._status import status_line

app = options.new_app()


@app.command()
def setup(
    sandbox: options.Place = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Pull or build the image again although it is here.")
    ] = False,
    settings: options.Settings = None,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> int:
    """Get a place ready: check it, pull or build its image.

    Without --sandbox it is the configured one; with 'auto' the best one there is, which is then kept.
    """
    config = load(options.overrides(settings))
    name = (sandbox or config.sandbox or "auto").partition(":")[0]
    return run(_setup(name, config, renew=renew, quiet=quiet))


async def _setup(name: str, config: Config, *, renew: bool, quiet: bool) -> int:
    from hermes.backends.base import Spec

    chosen = name == "auto"
    if chosen:
        name, why = await auto.best(config)
    kind = backends.load(name)
    place = kind(Spec(name="setup", id="0" * 16), config)
    await kind.check(config)
    with status_line(quiet=quiet) as show:
        place.progress = show
        ready = await place.prepare(renew=renew)
    print(f"{name}: {ready}")
    if chosen:
        await asyncio.to_thread(Store().pin, name, why)
        say(f"auto stands for {name} from now on: {why}.")
    return 0
