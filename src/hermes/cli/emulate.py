"""``hermes emulate``: a cloud on this machine, for trying and testing."""

from __future__ import annotations

import json as encoding
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from hermes._extra import needs
from hermes.emulators import NAMES

from . import _options as options
from ._report import say
from ._run import run

if TYPE_CHECKING:
    from hermes.emulators._control import Ready

app = options.new_app()


@app.command()
def emulate(
    provider: Annotated[str, typer.Argument(metavar="|".join(NAMES), help="The cloud.")],
    delay: Annotated[
        float,
        typer.Option(
            "--delay", metavar="TIME", parser=options.seconds, help="What each byte takes, one way."
        ),
    ] = 0.0,
    cut: Annotated[
        float,
        typer.Option(
            "--cut", metavar="TIME", parser=options.seconds, help="Reset all connections again and again."
        ),
    ] = 0.0,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Run a cloud of your own on this machine, without a bill.

    It speaks the provider's protocol to the provider's own SDK, on 127.0.0.1, until Ctrl-C. What it prints
    are the variables to set in the shell that uses it. Nothing of it outlives it.

    Example: hermes emulate modal
    """
    if provider not in NAMES:
        raise typer.BadParameter(f"there is no '{provider}'; choose from: {', '.join(NAMES)}")
    with needs("the emulator", f"emulators,{provider}"):
        from hermes.emulators import _control

        kind = _control.load(provider)

    def ready(emulator: Ready) -> None:
        if json:
            print(encoding.dumps(emulator._asdict()), flush=True)
            return
        say(f"an emulator of {provider} runs on this machine until Ctrl-C. It is not {provider}: it costs")
        say("nothing, and what works here may work differently there.")
        for name, value in emulator.settings.items():
            print(f"export {name}={shlex.quote(value)}", flush=True)
        say(f"set these in another terminal, then for example: hermes --sandbox {provider} exec 'uname -a'")
        say(f"calls, faults and the clock: {emulator.control}")

    run(_control.serve(kind, ready, delay=delay, cut=cut))
    return 0
