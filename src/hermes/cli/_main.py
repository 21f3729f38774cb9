"""The root command: which modules hold the commands, and the global options."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import _options as options
from ._group import Group, UsageError
from ._options import Debug, Place, new_app
from ._process import Globals, whole
from ._report import FAILED, say

if TYPE_CHECKING:
    from typer._click.core import Command, Context

COMMANDS = {
    "exec": "exec",
    "shell": "shell",
    "jobs": "jobs",
    "fleet": "fleet",
    "files": "files",
    "workspace": "workspace",
    "diff": "diff",
    "apply": "apply",
    "discard": "discard",
    "sandbox": "sandbox",
    "setup": "setup",
    "backends": "backends",
    "doctor": "doctor",
    "approvals": "approvals",
    "credentials": "credentials",
    "skills": "skills",
    "config": "config",
    "log": "log",
    "replay": "replay",
    "usage": "usage",
    "bench": "bench",
    "mcp": "mcp",
    "emulate": "emulate",
}
"""Command to module. Each has an ``app``: one command, or a group of them."""


class Root(Group):
    """Imports the module of a command when that command is asked for."""

    def list_commands(self, ctx: Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"{__package__}.{COMMANDS[cmd_name]}")
        command: Command = typer.main.get_command(module.app)
        return command


app = new_app(cls=Root, invoke_without_command=True, add_completion=True)


def _version(ctx: typer.Context, value: bool) -> None:
    if value:
        import hermes

        print(f"hermes {hermes.__version__}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    query: Annotated[
        str | None,
        typer.Option(
            "-q", "--query", metavar="TEXT", help="Let the model do this, and end. A - reads it from stdin."
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--continue", "-c", help="Go on with this directory's last conversation.")
    ] = False,
    sandbox: Place = None,
    name: options.Name = None,
    rm: options.Remove = False,
    workspace: options.Workspace = None,
    here: options.Here = False,
    image: options.Image = None,
    network: options.NetworkOption = None,
    gpu: options.Gpu = None,
    budget: options.BudgetOption = None,
    settings: options.Settings = None,
    json: Annotated[bool, typer.Option("--json", help="With -q: print the answer as JSON.")] = False,
    debug: Debug = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> int | None:
    """Talk to a model that works in a place which was chosen for it, or run commands there yourself.

    Without a command it is a conversation; -q is one task. Options other than --sandbox are for these alone:
    a command has its own.

    Example: hermes --sandbox docker --here -q 'make the tests pass'
    """
    place = {
        "name": name,
        "unnamed": rm,
        "workspace": workspace,
        "here": here,
        "image": image,
        "network": network,
        "gpu": gpu,
        "budget": budget,
        "settings": settings,
    }
    given = query is not None or again or json or any(place.values())
    if ctx.invoked_subcommand is not None:
        if given:
            raise UsageError("this option goes after the command, or goes without one", ctx=ctx)
        return None
    if not given and sandbox is None and not _on_terminal():
        print(ctx.get_help())
        return None
    from .chat import start

    return start(query, sandbox, place, again=again, json=json)


def _on_terminal() -> bool:
    """Return whether somebody is there to talk."""
    return os.isatty(0) and os.isatty(1)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    :param argv: None for that of this process, which then ends here
    """
    return whole(lambda settings: _command(argv, settings), ends=argv is None)


def _command(argv: Sequence[str] | None, settings: Globals) -> Any:
    try:
        return typer.main.get_command(app).main(
            args=None if argv is None else list(argv),
            prog_name="hermes",
            standalone_mode=False,
            obj=settings,
        )
    except UsageError as error:
        _usage(error)
        return FAILED
    except typer.Abort:
        return 130


def _usage(error: Any) -> None:
    ctx = error.ctx
    say(f"error: {error.format_message()}")
    if ctx is not None:
        usage = ctx.get_usage()
        say("       " + usage.replace("\n", "\n       "))
        say(f"       Try '{ctx.command_path} --help'.")
