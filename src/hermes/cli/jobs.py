"""``hermes jobs``: what runs in a sandbox, its output and its end. Only ``start`` brings a sandbox up."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes._json import plain
from hermes.credentials._declared import hide
from hermes.errors import HermesError, SandboxGone

from . import _options as options
from ._ask import asker
from ._place import Chosen, choose
from ._report import put, report, say
from ._run import opened, run, shell_text
from ._streams import Output, OutputClosed
from ._text import age, print_json, size, table

if TYPE_CHECKING:
    from hermes.credentials.scrub import Stream as SecretStream
    from hermes.job import Job, JobInfo
    from hermes.sandbox import Sandbox

app = options.new_group("List, follow, start and end what runs in a sandbox.", "hermes jobs ls")

Id = Annotated[str, typer.Argument(metavar="ID", help="As 'hermes jobs ls' shows it.", show_default=False)]
Ids = Annotated[
    list[str], typer.Argument(metavar="ID...", help="As 'hermes jobs ls' shows them.", show_default=False)
]

END_SECONDS = 5.0
RUNNING = ("queued", "running")


@app.command()
def ls(
    sandbox: options.Place = None,
    name: options.Name = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """List what runs and what has ended.

    Kinds: a job runs in the background, a pty is a terminal, a run is a command that somebody waits for or
    whose client was lost, a stray is a process that a command left in the background.

    Example: hermes jobs ls --json
    """
    chosen = choose(sandbox, name=name)

    async def work() -> list[JobInfo]:
        async with opened(chosen, create=False) as box:
            return await box.jobs()

    try:
        found = run(work())
    except SandboxGone as error:
        # Where nobody ever ran anything there is nothing to list, which is no error; one that was named is.
        if error.reason == "closed here" or not chosen.default_name or type(error) is not SandboxGone:
            raise
        if json:
            print_json([])
        else:
            put(f"No jobs: the {chosen.backend} sandbox {chosen.name} does not run.")
            print("'hermes sandbox ls' shows the sandboxes that there are.")
        return 0
    if json:
        print_json([_object(one) for one in found])
    elif not found:
        put(f"No jobs in the {chosen.backend} sandbox {chosen.name}.")
    else:
        print(_table(found))
    return 0


def _object(one: JobInfo) -> dict[str, Any]:
    return {
        "id": one.id,
        "kind": one.kind,
        "command": plain(one.command),
        "pid": one.pid,
        "state": one.state,
        "exit_code": one.exit_code,
        "started": one.started,
        "ended": one.ended,
        "bytes": one.bytes,
        "session": one.session,
    }


def _table(found: list[JobInfo]) -> str:
    now = time.time()
    rows = []
    for one in found:
        state = f"exit {one.exit_code}" if one.state == "exited" else one.state.replace("_", " ")
        since = None if one.started is None else now - one.started
        rows.append((one.id, one.kind, state, age(since), size(one.bytes), hide(one.command)))
    return table(("ID", "KIND", "STATE", "AGE", "OUTPUT", "COMMAND"), rows, right=(3, 4))


@app.command(context_settings=options.OWN_ARGUMENTS)
def start(
    command: options.Command,
    sandbox: options.Place = None,
    name: options.Name = None,
    workspace: options.Workspace = None,
    here: options.Here = False,
    image: options.Image = None,
    network: options.NetworkOption = None,
    gpu: options.Gpu = None,
    recreate: options.Recreate = False,
    settings: options.Settings = None,
    cwd: options.Cwd = None,
    env: options.Env = None,
    timeout: options.Timeout = None,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> int:
    """Start a command in the background.

    Prints its ID and returns at once.

    Example: hermes jobs start 'npm run dev'
    """
    chosen = choose(
        sandbox,
        name=name,
        workspace=workspace,
        here=here,
        image=image,
        network=network,
        gpu=gpu,
        recreate=recreate,
        settings=settings,
    )
    text, variables = shell_text(command), options.environment(env)

    async def work() -> str:
        async with opened(chosen, quiet=quiet, on_approval=asker(yes=yes)) as box:
            return (await box.start(text, cwd=cwd, env=variables, timeout=timeout)).id

    put(run(work()))
    return 0


@app.command()
def logs(
    job: Id,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
    sandbox: options.Place = None,
    name: options.Name = None,
    debug: options.Debug = False,
) -> int:
    """Print what a job has written so far.

    Example: hermes jobs logs -f 3
    """
    chosen = choose(sandbox, name=name)

    async def work() -> int:
        async with opened(chosen, create=False) as box:
            if follow:
                await _pass_on(box, job, redact=True)
            else:
                await _print_logs(box, job)
            return 0

    return _reading(work(), job)


@app.command()
def attach(
    job: Id,
    sandbox: options.Place = None,
    name: options.Name = None,
    debug: options.Debug = False,
) -> int:
    """Follow a job to its end.

    Prints its output from the beginning, each byte once, and exits with the job's exit code. Ctrl-C leaves
    the job as it is. A shell that was left running is taken up again, with the keyboard.

    Example: hermes jobs attach 3
    """
    chosen = choose(sandbox, name=name)

    async def work() -> int:
        async with opened(chosen, create=False) as box:
            if os.isatty(0) and os.isatty(1) and await _on_terminal(box, job):
                return await _take_up(chosen, box, job)
            return await _pass_on(box, job, redact=not os.isatty(1))

    return _reading(work(), job)


def _reading(work: Any, job: str) -> int:
    try:
        code: int = run(work)
        return code
    except OutputClosed:
        return 141
    except KeyboardInterrupt:
        say(f"job {job} goes on.")
        return 130


class _Redacted:
    """Takes secrets out of what a job has written, by stream."""

    def __init__(self, job: Job, *, redact: bool) -> None:
        self._job, self._redact = job, redact
        self._streams: dict[int, SecretStream] = {}

    def feed(self, chan: int, data: bytes) -> bytes:
        scrub = self._job._scrub() if self._redact else None
        if scrub is None and chan not in self._streams:
            return data
        if scrub is not None:
            self._streams.setdefault(chan, scrub.stream()).renew(scrub)
        return self._streams[chan].feed(data)

    def end(self) -> list[tuple[int, bytes]]:
        """Return what was held back, since it could have become a secret."""
        return [(chan, one.end()) for chan, one in self._streams.items()]


async def _pass_on(box: Sandbox, ident: str, *, redact: bool) -> int:
    """Write a job's output as it comes, and return its exit code."""
    job, output = await box.job(ident), Output()
    redacted = _Redacted(job, redact=redact)
    # Not follow(): the answer at the end of this very stream has the exit code, and a command whose result
    # was fetched is forgotten.
    stream, entry = job._attach(live=True), job._entry()
    offsets: dict[int, int] = {}
    try:
        async for chan, data in stream:
            entry.at(chan, offsets.get(chan, 0), data)
            offsets[chan] = offsets.get(chan, 0) + len(data)
            await output.write(2 if chan == 2 else 1, redacted.feed(chan, data))
        for chan, data in redacted.end():
            await output.write(2 if chan == 2 else 1, data)
        code = (await stream.reply()).body.get("exit_code")
    finally:
        stream.cancel()
    if type(code) is not int:
        return 0
    entry.exited(code)
    return code


async def _print_logs(box: Sandbox, ident: str) -> None:
    job = await box.job(ident)  # says what is wrong with a stray or an unknown one
    output, redacted = Output(), _Redacted(job, redact=True)
    for chan in (1, 2):
        offset = 0
        while True:
            args = {"task": int(ident), "offset": offset, "size": 1 << 18, "chan": chan}
            reply = await box._channel.call("output", args)
            following = reply.body.get("next")
            if not reply.raw or type(following) is not int:
                break
            job._entry().at(chan, offset, reply.raw)
            await output.write(chan, redacted.feed(chan, reply.raw))
            offset = following
    for chan, data in redacted.end():
        await output.write(chan, data)


async def _on_terminal(box: Sandbox, ident: str) -> bool:
    """Return whether a job runs on a terminal, which gets the size of ours then."""
    from ._terminal import terminal_size

    job = await box.job(ident)
    if (await job.info()).state not in RUNNING:
        return False
    try:
        await job.resize(*terminal_size())
    except HermesError as error:
        if error.code == "bad_request":  # it has none
            return False
        raise
    return True


async def _take_up(chosen: Chosen, box: Sandbox, ident: str) -> int:
    from hermes.pty import Pty

    from .shell import relay

    return await relay(chosen, Pty(await box.job(ident), redact=False))


@app.command()
def kill(
    jobs: Ids,
    signal: Annotated[
        str | None,
        typer.Option(
            "--signal", "-s", metavar="NAME", help="Only send the command this signal, such as INT or HUP."
        ),
    ] = None,
    sandbox: options.Place = None,
    name: options.Name = None,
    debug: options.Debug = False,
) -> int:
    """End jobs with all that they started.

    Example: hermes jobs kill 3
    """
    chosen = choose(sandbox, name=name)

    async def work() -> int:
        failed = 0
        async with opened(chosen, create=False) as box:
            for ident in jobs:
                try:
                    put(await _kill(box, ident, signal))
                except HermesError as error:
                    if isinstance(error, SandboxGone):
                        raise
                    report(error, debug=debug)
                    failed = 125
        return failed

    return run(work())


async def _kill(box: Sandbox, ident: str, signal: str | None) -> str:
    before = (await box._job_info(ident)).state
    if before not in RUNNING and signal is None:
        return f"{ident}: had ended before ({before})"
    await box.kill(ident, signal)
    if signal is not None:
        return f"{ident}: signal {signal} was sent"
    deadline = time.monotonic() + END_SECONDS
    while True:
        left = [one for one in await box.jobs() if one.id == ident]
        if not left or left[0].state not in RUNNING:
            return f"{ident}: ended"
        if time.monotonic() > deadline:
            raise HermesError(f"{ident} was told to end, but still runs", code="job_lives")
        await asyncio.sleep(0.02)
