"""``hermes shell``: an interactive shell, or another program, on a terminal in the sandbox."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from . import _options as options
from ._ask import asker
from ._place import Chosen, choose
from ._report import say
from ._run import opened, run, shell_text

if TYPE_CHECKING:
    from hermes.pty import Pty

app = options.new_app()

Program = Annotated[
    list[str] | None,
    typer.Argument(metavar="[COMMAND...]", help="What to run instead of a shell.", show_default=False),
]
Escape = Annotated[
    str,
    typer.Option("--escape", metavar="CHAR|none", help="The key that, after Enter, speaks to hermes."),
]


@app.command(context_settings=options.OWN_ARGUMENTS)
def shell(
    command: Program = None,
    sandbox: options.Place = None,
    name: options.Name = None,
    rm: options.Remove = False,
    workspace: options.Workspace = None,
    here: options.Here = False,
    image: options.Image = None,
    network: options.NetworkOption = None,
    gpu: options.Gpu = None,
    recreate: options.Recreate = False,
    budget: options.BudgetOption = None,
    settings: options.Settings = None,
    cwd: options.Cwd = None,
    env: options.Env = None,
    escape: Escape = "~",
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> int:
    """Open an interactive shell in a sandbox.

    All keys go to it, Ctrl-C too. Enter ~ . leaves it running, Enter ~ ? says what else there is. The exit
    code is the shell's.

    Example: hermes shell --name build
    """
    from ._relay import check_terminal

    check_terminal("hermes shell")
    chosen = choose(
        sandbox,
        name=name,
        unnamed=rm,
        workspace=workspace,
        here=here,
        image=image,
        network=network,
        gpu=gpu,
        recreate=recreate,
        settings=settings,
        budget=budget,
        alone=True,
    )
    variables = options.environment(env)
    return run(interact(chosen, command, cwd=cwd, env=variables, escape=escape, yes=yes, quiet=quiet))


async def interact(
    chosen: Chosen,
    command: list[str] | None,
    *,
    cwd: str | None = None,
    env: dict[str, str] | None = None,
    escape: str = "~",
    yes: bool = False,
    quiet: bool = False,
    create: bool = True,
) -> int:
    """Run a program on a terminal in the sandbox and relay it to ours; return the exit code."""
    from ._terminal import terminal_size

    async with opened(chosen, create=create, quiet=quiet, on_approval=asker(yes=yes)) as box:
        rows, cols = terminal_size()
        pty = await box.pty(
            shell_text(command) if command else None,
            rows=rows,
            cols=cols,
            cwd=cwd,
            env=_about_terminal() | (env or {}),
            term=os.environ.get("TERM") or "xterm-256color",
            redact=False,  # it is a person's, and goes nowhere else
        )
        return await relay(chosen, pty, escape=escape)


async def relay(chosen: Chosen, pty: Pty, *, escape: str = "~") -> int:
    """Relay a terminal of the sandbox to ours; say how to come back when it is left running.

    SIGTERM ends the program. A terminal that is closed under us leaves it running, as Enter ~ . does.
    """
    from ._relay import Relay

    link = Relay(pty, escape="" if escape == "none" else escape)
    code = await link.run()
    if code is not None:
        return code
    if link.signal == signal.SIGTERM or link.signal == signal.SIGQUIT or chosen.name is None:
        await pty.close()
        return 128 + (link.signal or 0) if link.signal else 0
    await pty.detach()
    place = "" if chosen.default_name else f" --name {chosen.name}"
    say(f"it goes on as job {pty.id}. Back: hermes jobs attach {pty.id}{place}")
    return 128 + link.signal if link.signal else 0


def _about_terminal() -> dict[str, str]:
    return {name: os.environ[name] for name in ("COLORTERM",) if name in os.environ}
