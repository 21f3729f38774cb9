"""``hermes bench``: what a command costs here, against the plain way."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from . import _options as options
from ._place import choose
from ._report import say
from ._run import run
from ._text import print_json

app = options.new_app()


@app.command()
def bench(
    sandbox: options.Place = None,
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", min=1, help="Commands per measurement of latency.")
    ] = 500,
    image: options.Image = None,
    settings: options.Settings = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Measure what commands cost here, against the plain way.

    Cold start, attach, latency, throughput, memory, and many commands at once, in sandboxes of its own. It
    takes about a minute; the machine should be quiet.

    Example: hermes bench --sandbox docker
    """
    # Here, because its imports are for this command alone.
    from hermes import survey
    from hermes.bench import render, run_bench

    chosen = choose(sandbox, image=image, settings=settings)
    progress = say if sys.stderr.isatty() else None
    more = {**chosen.options, "config": chosen.config}
    report = run(run_bench(chosen.backend, runs=runs, progress=progress, options=more))
    survey.remember(report.backend, next(row.hermes.median for row in report.rows if row.key == "true"))
    if json:
        import msgspec

        print_json(msgspec.to_builtins(report))
    else:
        print(render(report))
    return 0
