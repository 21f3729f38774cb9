"""``hermes replay``: play what was recorded of a session."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from hermes.errors import HermesError

from . import _options as options
from ._report import say

app = options.new_app()


@app.command()
def replay(
    session: Annotated[
        str, typer.Argument(metavar="[SESSION]", help="As 'hermes log' shows it. Default: the last one.")
    ] = "last",
    number: Annotated[
        int | None,
        typer.Option(
            "--command", metavar="N", min=1, help="Only this command, as 'hermes log SESSION' shows."
        ),
    ] = None,
    speed: Annotated[
        float, typer.Option("--speed", metavar="X", min=0.01, max=1000, help="Times as fast. Default: 1.")
    ] = 1.0,
    idle_limit: Annotated[
        float,
        typer.Option(
            "--idle-limit",
            metavar="TIME",
            parser=options.seconds,
            help="Where nothing happens, go on after this time: 0.5, 2s. Default: 2s.",
        ),
    ] = 2.0,
    raw: Annotated[
        bool, typer.Option("--raw", help="Send your terminal all that the recorded one was sent.")
    ] = False,
    cast: Annotated[
        str | None,
        typer.Option("--cast", metavar="FILE", help="Write it for asciinema instead; - is standard output."),
    ] = None,
    debug: options.Debug = False,
) -> int:
    """Play a recorded session on this terminal.

    Space pauses, n goes on to the next command, + and - change the speed, q ends it. Codes that could do
    more to your terminal than show text are left out, unless --raw is given.

    Example: hermes replay last --speed 4
    """
    from hermes.log._read import find, read

    from ._play import Player, as_cast, size, timeline
    from ._terminal import terminal_size

    recording = read(find(session))
    frames = timeline(recording, number, raw=raw)
    if not frames:
        what = f"command {number}" if number is not None else "command"
        raise HermesError(f"no {what} was recorded in {recording.short}", code="recording_unknown")
    if cast is None:
        columns, rows = size(recording, number)
        here = terminal_size()
        drawn = any(command.terminal for command in recording.commands)
        if drawn and sys.stdout.isatty() and (here[1] < columns or here[0] < rows):
            say(f"recorded on {columns} columns and {rows} rows, of which yours has {here[1]} and {here[0]}.")
        Player(speed, idle_limit).play(frames)
        return 0
    if cast == "-":
        as_cast(recording, frames, sys.stdout, idle_limit=idle_limit, number=number)
        return 0
    try:
        with open(cast, "x", encoding="utf-8", errors="replace") as file:
            as_cast(recording, frames, file, idle_limit=idle_limit, number=number)
    except OSError as error:
        raise HermesError(
            f"{cast} cannot be written: {error.strerror or error}", hint="Name a file that is not there yet."
        ) from error
    say(f"{cast} is written: asciinema play {cast}")
    return 0
