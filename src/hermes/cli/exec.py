"""``hermes exec``: run one command, as if it ran here."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated, Any

import typer

from hermes._json import error_object, result_object
from hermes.errors import HermesError, exit_code

from . import _options as options
from ._ask import asker
from ._place import Chosen, choose
from ._report import report, say
from ._run import STOP_SECONDS, Signals, opened, run, stop_runs
from ._streams import Output, OutputClosed, check_readable, chunks

app = options.new_app()

Session = Annotated[
    str | None,
    typer.Option(
        "--session",
        metavar="NAME",
        help="Run in this session, which keeps its directory and variables.",
    ),
]
Stdin = Annotated[
    bool, typer.Option("--stdin", help="Pass our standard input on. Without it the command reads nothing.")
]
Keep = Annotated[
    bool,
    typer.Option(
        "--keep", help="Let a sandbox that is billed by the second go on, until a command without it."
    ),
]


@app.command(context_settings=options.OWN_ARGUMENTS)
def exec_(
    ctx: typer.Context,
    command: options.Command,
    sandbox: options.Place = None,
    name: options.Name = None,
    rm: options.Remove = False,
    keep: Keep = False,
    workspace: options.Workspace = None,
    here: options.Here = False,
    image: options.Image = None,
    network: options.NetworkOption = None,
    gpu: options.Gpu = None,
    recreate: options.Recreate = False,
    budget: options.BudgetOption = None,
    settings: options.Settings = None,
    session: Session = None,
    cwd: options.Cwd = None,
    env: options.Env = None,
    timeout: options.Timeout = None,
    stdin: Stdin = False,
    json: options.Json = False,
    max_output: options.MaxOutput = None,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> int:
    """Run a command in a sandbox.

    Its output and exit code are the command's own. Others: 124 it was ended by the timeout, 121 it was
    refused, 123 the place is gone, 125 hermes or the place failed before or around it, 130 Ctrl-C.

    Example: hermes exec --timeout 10m 'make test'
    """
    if rm and keep:
        raise typer.BadParameter("it is destroyed with --rm, or goes on", param_hint="--keep")
    if max_output is not None and not json:
        raise typer.BadParameter("without --json all output is passed on", param_hint="--max-output")
    given = {
        "timeout": timeout,
        "env": options.environment(env),
        "session": session,
        "cwd": cwd,
        "max_output": max_output,
    }
    text = options.shell_text(command)
    chosen: Chosen | None = None
    try:
        if stdin:
            check_readable(0, closed=ctx.obj.closed_stdin)
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
            session=session,
            alone=True,
        )
        once = session is None and not keep
        return run(_exec(chosen, text, given, once=once, stdin=stdin, as_json=json, quiet=quiet, yes=yes))
    except OutputClosed:
        return 141
    except HermesError as error:
        if not json:
            raise
        if ctx.obj.debug:
            report(error, debug=True)
        backend, sandbox = (chosen.backend, chosen.name) if chosen is not None else (None, None)
        _print(error_object(error, backend=backend, sandbox=sandbox, session=session))
        return exit_code(error)


async def _exec(
    chosen: Chosen,
    command: str | list[str],
    given: dict[str, Any],
    *,
    once: bool,
    stdin: bool,
    as_json: bool,
    quiet: bool,
    yes: bool,
) -> int:
    output = Output()
    boxes = []

    async def work() -> Any:
        async with opened(chosen, quiet=quiet, once=once, on_approval=asker(yes=yes)) as box:
            boxes.append(box)
            return await _call(box, command, given, output, stdin=stdin, live=not as_json)

    async def stop() -> bool:
        return bool(boxes) and await stop_runs(boxes[0])

    with Signals() as signals:
        result = await signals.supervise(work(), stop)
        if result is None:
            return 128 + (signals.number or 0)
        code: int = result.exit_code
        if signals.number is not None and code == 130:
            code = 128 + signals.number
        if as_json:
            where = {"backend": chosen.backend, "sandbox": boxes[0].name, "session": given["session"]}
            _print(result_object(result, code, **where))
        elif result.out_of_memory:
            say("the command ran out of memory: the limit is limits.memory.")
        elif result.timed_out:
            say(f"the command was ended after {result.duration:.3g} s, its time limit.")
        elif result.spill is not None and not result.spill.complete:
            say(f"all of the output was printed; its file in the sandbox is not whole: {result.spill.note}")
        if result.redacted and not (as_json or quiet):
            what = "a secret was" if result.redacted == 1 else f"{result.redacted} secrets were"
            say(f"{what} taken out of the output; --set credentials.redact=off shows all of it.")
        return code


async def _call(
    box: Any, command: str | list[str], given: dict[str, Any], output: Output, *, stdin: bool, live: bool
) -> Any:
    given = dict(given)
    if stdin:
        given["stdin"] = chunks(0)
    if live:

        async def pass_on(fd: int, data: bytes) -> None:
            try:
                await output.write(fd, data)
            except (OutputClosed, HermesError):
                # It must have ended before we leave: nobody would end a command that nobody waits for.
                with contextlib.suppress(HermesError, TimeoutError):
                    async with asyncio.timeout(STOP_SECONDS):
                        await stop_runs(box)
                raise

        given["on_output"] = lambda data: pass_on(1, data)
        given["on_stderr"] = lambda data: pass_on(2, data)
    if given["session"] is None:
        del given["session"]
        return await box.exec(command, **given)
    return await box.run(command, **given)


def _print(found: dict[str, Any]) -> None:
    import json
    import sys

    sys.stdout.flush()
    data = json.dumps(found, ensure_ascii=False) + "\n"
    sys.stdout.buffer.write(data.encode("utf-8", "replace"))
