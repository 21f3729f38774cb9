"""The root command: which modules hold the commands, global options, and how every failure is reported."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes.errors import HermesError, exit_code

from . import _options as options
from ._group import Group, UsageError
from ._options import Debug, Globals, Place, new_app
from ._report import FAILED, report, say

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

    :param argv: None for that of this process, which then ends here: a thread that waits for a reader of our
        output must not keep it
    """
    if argv is None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.showwarning = _warned
    settings = Globals(closed_stdin=_occupy())
    if argv is None and isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # what a terminal of old cannot show
    try:
        code = _flush(_call(argv, settings))
        if "hermes.telemetry" in sys.modules:
            sys.modules["hermes.telemetry"].flush()
    except KeyboardInterrupt:  # while the outcome of it was told
        code = 130
    if argv is None:
        os._exit(code)
    return code


def _call(argv: Sequence[str] | None, settings: Globals) -> int:
    """Run the command, say what went wrong, and return the exit code."""
    code = FAILED
    try:
        result = typer.main.get_command(app).main(
            args=None if argv is None else list(argv),
            prog_name="hermes",
            standalone_mode=False,
            obj=settings,
        )
        code = result if isinstance(result, int) else 0
    except UsageError as error:
        _usage(error)
    except HermesError as error:
        report(error, debug=settings.debug)
        code = exit_code(error)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:
        code = 141
    except SystemExit as error:
        # click's own answer to a reader that has gone is 1, which says nothing.
        gone = isinstance(error.__context__, BrokenPipeError)
        code = 141 if gone else error.code if isinstance(error.code, int) else 0
    except OSError as error:
        report(_unwritten(error), debug=settings.debug)
    except Exception as error:
        report(error, debug=settings.debug)
    return code


def _warned(message: Warning | str, *where: Any, **more: Any) -> None:
    say(f"{message}.")


def _occupy() -> bool:
    """Open /dev/null on each standard descriptor that is closed; return whether stdin was.

    The next file or socket would get its number otherwise, and what is meant for a reader of ours would be
    written into it.
    """
    closed = []
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR if fd else os.O_RDONLY)
            closed.append(fd)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    return 0 in closed


def _usage(error: Any) -> None:
    ctx = error.ctx
    say(f"error: {error.format_message()}")
    if ctx is not None:
        usage = ctx.get_usage()
        say("       " + usage.replace("\n", "\n       "))
        say(f"       Try '{ctx.command_path} --help'.")


def _flush(code: int) -> int:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            # The interpreter would complain at its end as well.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if isinstance(error, BrokenPipeError):
                code = code or 141
            elif not code:
                code = FAILED
                report(_unwritten(error), debug=False)
    return code


def _unwritten(error: OSError) -> HermesError:
    what = str(error.filename or "the output could not be written")
    return HermesError(f"{what}: {error.strerror or error}")
