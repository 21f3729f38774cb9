"""Groups of commands that suggest the nearest one for a name which they do not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer._click.core import Context

# Typer keeps its copy of click to itself, but what it raises for a wrong option has a public child.
UsageError: type[Any] = typer.BadParameter.__mro__[1]


class Group(TyperGroup):
    """A group whose unknown commands are answered with the nearest known one."""

    def resolve_command(self, ctx: Context, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            raise _unknown(ctx, args[0], known)
        return super().resolve_command(ctx, args)


def _unknown(ctx: Any, name: str, known: list[str]) -> Exception:
    import difflib

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    what = f"Did you mean '{near[0]}'?" if near else "Commands: " + ", ".join(known) + "."
    error: Exception = UsageError(f"there is no command '{name}'. {what}", ctx=ctx)
    return error
