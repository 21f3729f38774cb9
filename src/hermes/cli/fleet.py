"""``hermes fleet``: many independent commands from a file, each exactly once."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hermes.errors import HermesError

from . import _options as options
from ._ask import asker
from ._place import announce, choose
from ._report import report, say
from ._run import run
from ._status import status_line
from ._text import print_json

if TYPE_CHECKING:
    from hermes.fleet import Fleet, Summary

app = options.new_group(
    "Run many commands from a file, each exactly once.", "hermes fleet run commands.jsonl"
)

LEAVE_AFTER = 3.0  # seconds after the first Ctrl-C in which a second one cancels

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE.jsonl", help="One JSON object a line, with a 'command'.", show_default=False
    ),
]
Output = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Where results go. Default: FILE.results.jsonl."),
]


@app.command("run")
def run_(
    file: File,
    sandbox: options.Place = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", metavar="N", min=1, help="How many commands run at a time.")
    ] = 4,
    output: Output = None,
    retry_gone: Annotated[
        bool,
        typer.Option(
            "--retry-gone", help="Run those again that are gone: they may have run, in part or to their end."
        ),
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End what runs, and remove everything but the results.")
    ] = False,
    workspace: options.Workspace = None,
    here: options.Here = False,
    image: options.Image = None,
    network: options.NetworkOption = None,
    gpu: options.Gpu = None,
    settings: options.Settings = None,
    max_output: Annotated[
        int | None,
        typer.Option(
            "--max-output",
            metavar="SIZE",
            parser=options._bytes,
            help="Bytes of each stream in a result, such as 64k: head and tail.",
        ),
    ] = None,
    yes: options.Yes = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
    debug: options.Debug = False,
) -> int:
    """Run the commands of a file, each exactly once.

    A line of JSON is written for each that has ended.
    The same command again goes on where it was: what has a result is not run again, what runs is waited for.
    After Ctrl-C what runs goes on without us; a second one within 3 seconds ends it.

    Exit code: 0 all have ended, whatever their own exit codes; 124 some were ended by their timeout; 125 some
    could not be run, or are gone; 130 Ctrl-C.

    Example: hermes fleet run tests.jsonl --jobs 8
    """
    from hermes.fleet import Fleet

    chosen = choose(
        sandbox,
        name="fleet",
        workspace=workspace,
        here=here,
        image=image,
        network=network,
        gpu=gpu,
        settings=settings,
    )
    fleet = Fleet(
        file,
        output=output,
        backend=chosen.backend,
        jobs=jobs,
        max_output=max_output,
        retry_gone=retry_gone,
        config=chosen.config,
        workspace=chosen.workspace,
        on_approval=asker(yes=yes, lasting=True),
        **chosen.options,
    )
    if chosen.why_auto or chosen.backend == "local":
        announce(chosen, fleet._sandbox("fleet"), quiet=quiet)
    return run(_run(fleet, cancel=cancel, quiet=quiet, debug=debug))


@app.command()
def status(
    file: File, output: Output = None, json: options.Json = False, debug: options.Debug = False
) -> int:
    """Say how far a fleet is.

    Example: hermes fleet status tests.jsonl
    """
    from hermes.fleet import Fleet

    fleet = Fleet(file, output=output)
    summary, held = run(fleet.status())
    if json:
        facts = dataclasses.asdict(summary)
        del facts["troubles"]
        print_json({**facts, "output": str(fleet.output), "client": held})
        return 0
    print(f"{summary}. {'A hermes runs it.' if held else 'No hermes runs it.'}")
    return 0


class _Keys:
    """SIGINT and SIGTERM while a fleet runs: leaving it, and cancelling it."""

    def __init__(self, fleet: Fleet) -> None:
        self.number = 0
        self.cancel = False
        self.leave = asyncio.Event()
        self._fleet = fleet

    def on(self, number: int) -> None:
        if self.cancel:
            os._exit(128 + number)
        if number == signal.SIGTERM:
            self.number = number
            self.leave.set()
        elif self.number:
            self.cancel = True
            self.leave.set()
        else:
            self.number = number
            self._fleet.hold()
            _clear_line()
            say(
                f"no more commands are begun, and hermes leaves in {LEAVE_AFTER:g} s; what runs goes on. "
                "Press Ctrl-C again to end it."
            )
            asyncio.get_running_loop().call_later(LEAVE_AFTER, self.leave.set)


def _clear_line() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")


async def _run(fleet: Fleet, *, cancel: bool, quiet: bool, debug: bool) -> int:
    keys, loop = _Keys(fleet), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, keys.on, number)
    with status_line(quiet=quiet) as show:
        fleet._tell = show
        task = asyncio.ensure_future(fleet.cancel() if cancel else fleet.run())
        left = asyncio.ensure_future(keys.leave.wait())
        try:
            await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if keys.cancel:
            with contextlib.suppress(asyncio.CancelledError, HermesError):
                await task
            show("ending what runs")
            summary = await fleet.cancel()
        elif task.cancelled():
            summary = (await fleet.status())[0]
        else:
            summary = task.result()
    for trouble in _different(summary.troubles):
        report(trouble, debug=debug)
    if not quiet:
        say(f"{summary}. Results: {fleet.output}")
        for line in _advice(summary):
            say(line)
    if keys.number:
        return 128 + keys.number
    return _code(summary, cancelled=cancel)


def _different(troubles: tuple[HermesError, ...]) -> list[HermesError]:
    return list({error.message: error for error in troubles}.values())


def _advice(summary: Summary) -> list[str]:
    lines = []
    if summary.running:
        lines.append("What runs goes on. The same command again takes it up; with --cancel it ends it.")
    elif summary.waiting:
        lines.append("The same command again runs the rest.")
    if summary.failed or summary.refused:
        lines.append("Those that could not be run have not run: the same command again tries them again.")
    if summary.gone:
        lines.append("Those that are gone may have run. They are run again only with --retry-gone.")
    return lines


def _code(summary: Summary, *, cancelled: bool) -> int:
    if summary.troubles:
        return 125
    if cancelled:
        return 0
    if summary.gone or summary.failed or summary.refused or summary.running or summary.waiting:
        return 125
    return 124 if summary.timed_out else 0
