"""``hermes mcp``: the sandbox as tools for any client of the Model Context Protocol."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes._extra import needs
from hermes.errors import ConfigError

from . import _options as options
from ._place import Chosen, choose
from ._report import say
from ._run import Signals, opened, own_shell, run
from ._streams import Output, OutputClosed, chunks

if TYPE_CHECKING:
    from hermes.mcp import ToolServer

TOKEN = "HERMES_MCP_TOKEN"
SHORTEST = 16

app = options.new_app()


@app.command()
def mcp(
    http: Annotated[
        bool, typer.Option("--http", help="Serve HTTP on 127.0.0.1 instead of standard input and output.")
    ] = False,
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="PORT", min=0, max=65535, help="With --http: 0 takes any that is free."
        ),
    ] = 8747,
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
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> int:
    """Serve a sandbox as tools, by the Model Context Protocol.

    Clients such as Claude Code, Cursor, VS Code and Codex start it by themselves. What approval asks is asked
    there, where the client can; otherwise it is refused. With --http a client needs the token that
    HERMES_MCP_TOKEN has, in the environment or .env, or that is shown at the start.

    Example: hermes mcp --sandbox docker --here
    """
    serve = _http(port) if http else _stdio()
    with needs("serving MCP", "mcp"):
        import hermes.mcp as modules
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
    )
    return run(_serve(chosen, serve, modules, shared=http, quiet=quiet))


# Takes the server, and a function that is to be told how to stop it.
Serve = Callable[["ToolServer", Callable[[Callable[[], None]], None]], Awaitable[None]]


async def _serve(chosen: Chosen, serve: Serve, modules: Any, *, shared: bool, quiet: bool) -> int:
    stops: list[Callable[[], None]] = []

    async def work() -> None:
        async with (
            opened(chosen, quiet=quiet, on_approval=modules.Asker()) as box,
            own_shell(box) as cwd,
        ):
            server = modules.ToolServer(box, shared=shared, cwd=cwd)
            try:
                await serve(server, stops.append)
            finally:
                await server.close()

    async def stop() -> bool:
        for one in stops:
            one()
        return bool(stops)

    with Signals() as signals:
        with contextlib.suppress(OutputClosed):
            await signals.supervise(work(), stop, "what it started")
        return 0 if signals.number is None else 128 + signals.number


def _stdio() -> Serve:
    # Nothing but the protocol may reach the client: whoever else writes to stdout writes to stderr, and
    # nobody else reads what the client sends.
    if os.isatty(0):
        say("a client starts this and speaks to it on standard input; Ctrl-C ends it.")
        say("What to tell which client is in docs/mcp.md; --http serves on a port.")
    source, wire = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.close(null)
    output = Output()

    async def serve(server: ToolServer, stoppable: Callable[[Callable[[], None]], None]) -> None:
        from hermes.mcp import serve_stdio

        serving = asyncio.ensure_future(
            serve_stdio(server.protocol, chunks(source), lambda data: output.write(wire, data))
        )

        def stop() -> None:
            serving.cancel()

        stoppable(stop)
        with contextlib.suppress(asyncio.CancelledError):
            await serving

    return serve


def _http(port: int) -> Serve:
    token = _token()

    async def serve(server: ToolServer, stoppable: Callable[[Callable[[], None]], None]) -> None:
        from hermes.mcp._http import serve_http

        def ready(address: str, stop: Callable[[], None]) -> None:
            stoppable(stop)
            say(f"serving {address} until Ctrl-C.")
            if token[1]:
                say(f"the token, for this run: {token[0]}")
                say(f"({TOKEN} in the environment or .env makes it one that stays.)")

        await serve_http(server.protocol, port=port, token=token[0], ready=ready)

    return serve


def _token() -> tuple[str, bool]:
    """Return the token that clients need, and whether it was made just now.

    :raises ConfigError: it can be guessed
    """
    import secrets

    from hermes.config import dotenv, withhold

    withhold([TOKEN])
    given = os.environ.get(TOKEN) or dotenv([TOKEN]).get(TOKEN)
    if not given:
        return secrets.token_urlsafe(32), True
    if len(given) < SHORTEST or not given.isascii() or not given.isprintable() or " " in given:
        raise ConfigError(
            f"{TOKEN} is shorter than {SHORTEST} characters, or has others than of ASCII; nothing is served",
            hint="Make one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return str(given), False
