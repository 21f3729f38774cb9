"""``hermes exec``: run one command, as if it ran here."""

from __future__ import annotations

from typing import Annotated

import typer

from . import _options as options
from ._exec import execute

app = options.new_app()

Session = Annotated[
    str | None,
    typer.Option(
        "--session",
        metavar="NAME",
        help="Run in this session, which keeps its directory and variables.",
    ),
]
Stdin = Annotated[
    bool, typer.Option("--stdin", help="Pass our standard input on. Without it the command reads nothing.")
]
Keep = Annotated[
    bool,
    typer.Option(
        "--keep", help="Let a sandbox that is billed by the second go on, until a command without it."
    ),
]


@app.command(context_settings=options.OWN_ARGUMENTS)
def exec_(
    ctx: typer.Context,
    command: options.Command,
    sandbox: options.Place = None,
    name: options.Name = None,
    rm: options.Remove = False,
    keep: Keep = False,
    workspace: options.Workspace = None,
    here: options.Here = False,
    image: options.Image = None,
    network: options.NetworkOption = None,
    gpu: options.Gpu = None,
    recreate: options.Recreate = False,
    budget: options.BudgetOption = None,
    settings: options.Settings = None,
    session: Session = None,
    cwd: options.Cwd = None,
    env: options.Env = None,
    timeout: options.Timeout = None,
    stdin: Stdin = False,
    json: options.Json = False,
    max_output: options.MaxOutput = None,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> int:
    """Run a command in a sandbox.

    Its output and exit code are the command's own. Others: 124 it was ended by the timeout, 121 it was
    refused, 123 the place is gone, 125 hermes or the place failed before or around it, 130 Ctrl-C.

    Example: hermes exec --timeout 10m 'make test'
    """
    if rm and keep:
        raise typer.BadParameter("it is destroyed with --rm, or goes on", param_hint="--keep")
    if max_output is not None and not json:
        raise typer.BadParameter("without --json all output is passed on", param_hint="--max-output")
    return execute(
        ctx.obj,
        command,
        name=name,
        rm=rm,
        keep=keep,
        workspace=workspace,
        here=here,
        image=image,
        network=network,
        gpu=gpu,
        recreate=recreate,
        budget=budget,
        settings=settings,
        session=session,
        cwd=cwd,
        env=options.environment(env),
        timeout=timeout,
        stdin=stdin,
        json=json,
        max_output=max_output,
        yes=yes,
        quiet=quiet,
    )
