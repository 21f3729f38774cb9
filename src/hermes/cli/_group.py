"""Groups of commands that suggest the nearest one for a name which they do not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer._click.core import Context

# Typer keeps its copy of click to itself, but what it raises for a wrong option has a public child.
UsageError: type[Any] = typer.BadParameter.__mro__[1]


OTHERS = {
    **dict.fromkeys(("run", "cmd", "execute", "command"), "exec"),
    **dict.fromkeys(("ls", "list", "ps", "rm", "stop", "kill", "sandboxes", "boxes"), "sandbox"),
    **dict.fromkeys(("init", "login", "configure", "install", "start", "onboard"), "setup"),
    **dict.fromkeys(("set", "get", "settings", "cfg", "env"), "config"),
    **dict.fromkeys(("status", "check", "info", "health"), "doctor"),
    **dict.fromkeys(("cp", "copy", "put", "upload", "download", "file"), "files"),
    **dict.fromkeys(("secrets", "secret", "creds", "auth", "tokens", "token"), "credentials"),
    **dict.fromkeys(("places", "providers", "backend"), "backends"),
    **dict.fromkeys(("logs", "log", "job", "bg"), "jobs"),
    **dict.fromkeys(("enter", "bash", "sh", "ssh", "console", "attach"), "shell"),
    **dict.fromkeys(("cost", "costs", "billing"), "usage"),
}
"""Words that people try first, and the command that has what they are for."""


class Group(TyperGroup):
    """A group whose unknown commands are answered with the nearest known one."""

    def resolve_command(self, ctx: Context, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            raise _unknown(ctx, args[0], known)
        return super().resolve_command(ctx, args)


def _unknown(ctx: Any, name: str, known: list[str]) -> Exception:
    import difflib

    near = [OTHERS[name]] if ctx.parent is None and name in OTHERS else []
    near = near or difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    what = f"Did you mean '{near[0]}'?" if near else "Commands: " + ", ".join(known) + "."
    error: Exception = UsageError(f"there is no command '{name}'. {what}", ctx=ctx)
    return error
