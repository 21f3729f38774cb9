"""Options that several commands share, each defined once."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hermes.backends import canonical
from hermes.config import parse_duration, parse_size, parse_value

from ._group import Group
from ._process import Globals


def new_app(**options: Any) -> typer.Typer:
    """Return an app without the parts of typer that take time or print tracebacks."""
    options.setdefault("add_completion", False)
    return typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, **options)


def new_group(help: str, example: str) -> typer.Typer:
    """Return an app for a group of commands, which shows its help when none of them is given."""
    group = new_app(cls=Group, help=f"{help}\n\nExample: {example}", invoke_without_command=True)

    @group.callback()
    def show(ctx: typer.Context) -> None:
        if ctx.invoked_subcommand is None:
            print(ctx.get_help())

    return group


def _place(ctx: typer.Context, value: str | None) -> str | None:
    settings: Globals = ctx.obj
    settings.sandbox = canonical(value) if value else settings.sandbox
    return settings.sandbox


def _debug(ctx: typer.Context, value: bool) -> bool:
    settings: Globals = ctx.obj
    settings.debug = settings.debug or value
    return settings.debug


def seconds(value: str) -> float:
    try:
        return parse_duration(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _bytes(value: str) -> int:
    try:
        return parse_size(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def environment(items: list[str] | None) -> dict[str, str]:
    """Return the variables that ``--env`` options name; one without a value has that of our own environment.

    :raises typer.BadParameter: there is no name
    """
    import os

    result = {}
    for item in items or []:
        name, given, value = item.partition("=")
        if not name:
            raise typer.BadParameter(f"'{item}' has no name; write NAME=VALUE", param_hint="--env")
        if given:
            result[name] = value
        elif name in os.environ:
            result[name] = os.environ[name]
    return result


def overrides(items: list[str] | None) -> dict[str, Any]:
    """Return the settings that ``--set`` options give; a value in brackets is a list.

    :raises typer.BadParameter: there is no value, or a list that is none
    """
    result: dict[str, Any] = {}
    for item in items or []:
        key, given, text = item.partition("=")
        if not key or not given:
            raise typer.BadParameter(f"'{item}' has no value; write KEY=VALUE", param_hint="--set")
        try:
            result[key] = parse_value(text)
        except ValueError as error:
            raise typer.BadParameter(f"{key}: {error}", param_hint="--set") from None
    return result


def _places(incomplete: str) -> list[str]:
    from hermes import survey

    return [name for name in survey.places() if name.startswith(incomplete)]


def sandboxes(incomplete: str) -> list[str]:
    """Return the names of the sandboxes that there are, for completion."""
    from hermes.state import Store

    return sorted({one.name for one in Store().all([]) if one.name.startswith(incomplete)})


Place = Annotated[
    str | None,
    typer.Option(
        "--sandbox",
        metavar="BACKEND[:HOST]",
        help="The place to use. Default: HERMES_SANDBOX, then config.yaml, then auto.",
        callback=_place,
        autocompletion=_places,
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="The sandbox's name. Default: made from the current directory.",
        autocompletion=sandboxes,
    ),
]
Remove = Annotated[
    bool, typer.Option("--rm", help="Use a new sandbox that has no name, and destroy it afterwards.")
]
Workspace = Annotated[
    str | None,
    typer.Option("--workspace", metavar="private|here|PATH", help="Which directory the commands work in."),
]
Here = Annotated[bool, typer.Option("--here", help="Short for --workspace here.")]
Image = Annotated[str | None, typer.Option("--image", metavar="IMAGE", help="What the sandbox is made from.")]
NetworkOption = Annotated[
    str | None,
    typer.Option("--network", metavar="on|off|internal|host", help="What of the network can be reached."),
]
Gpu = Annotated[
    str | None,
    typer.Option(
        "--gpu", metavar="GPU", help="A GPU: all, or as the place names it, such as A100 or H100:2."
    ),
]
Recreate = Annotated[
    bool,
    typer.Option(
        "--recreate",
        help="Make the sandbox anew if it was made with other settings (its files stay), or is gone.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a setting this once, such as docker.user=root. May be repeated.",
    ),
]
Cwd = Annotated[
    str | None, typer.Option("--cwd", metavar="DIR", help="Run in this directory, inside the sandbox.")
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        "-e",
        metavar="NAME[=VALUE]",
        help="Set a variable; without a value it gets the one it has here. May be repeated.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", metavar="TIME", parser=seconds, help="End the command after this time: 90, 30s, 10m."
    ),
]
MaxOutput = Annotated[
    int | None,
    typer.Option(
        "--max-output",
        metavar="SIZE",
        parser=_bytes,
        help="With --json: bytes of each stream to show, such as 64k; the rest stays in a file inside.",
    ),
]
BudgetOption = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="AMOUNT",
        help="What may be spent, such as 5usd: warn at 80 percent, suspend at 100.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not say where the command runs.")]
Yes = Annotated[
    bool,
    typer.Option("--yes", "-y", help="Answer yes to what is asked this once. What is blocked stays blocked."),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.", callback=_debug)]
Command = Annotated[
    list[str],
    typer.Argument(
        metavar="COMMAND...",
        help="One argument is text for the shell; several are a program and its arguments.",
        show_default=False,
    ),
]

# What follows the command is the command's own, options too.
OWN_ARGUMENTS: dict[str, Any] = {"allow_interspersed_args": False}
