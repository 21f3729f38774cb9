"""Running commands and code: `terminal` and `execute_code`."""

from __future__ import annotations

import contextlib
import inspect
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hermes._json import plain
from hermes._tasks import settled
from hermes.errors import HermesError
from hermes.job import Job
from hermes.session import Result

from ._hints import hint_for
from ._result import Outcome, Reply, binary_note, cut, fenced, is_binary, readable, shown
from ._tool import ToolError, Use

__all__ = ["CommandReply", "ExecuteCode", "Terminal", "execute_code", "of_result", "terminal"]

ROWS, COLUMNS = 40, 120
SOON = 0.25  # seconds in which a background command that fails at once is noticed
NOTE = 512  # bytes for the line in the middle that says what is missing
LONGEST_ARGUMENT = 100_000  # Linux takes 128 KiB for one

Seconds = Annotated[float, Meta(gt=0, le=7 * 86400)]
Session = Annotated[str, Meta(min_length=1, max_length=100)]


class CommandReply(Reply, kw_only=True):
    """What became of a command."""

    exit_code: Annotated[int | None, Meta(description="Null while it runs.")] = None
    output: Annotated[str, Meta(description="Stdout and stderr in the order they came, head and tail.")] = ""
    truncated: Annotated[bool, Meta(description="Whether the middle of the output is missing.")] = False
    bytes: Annotated[int | None, Meta(description="Of the whole output, when some is missing.")] = None
    spill: Annotated[str | None, Meta(description="A file inside that has the whole output.")] = None
    duration_s: float | None = None
    cwd: Annotated[str | None, Meta(description="The session's directory afterwards.")] = None
    job: Annotated[str | None, Meta(description="The id for `process`, of what runs on.")] = None
    redacted: Annotated[int, Meta(description="Secrets that were taken out of the output.")] = 0


class Terminal(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `terminal`."""

    command: Annotated[str, Meta(min_length=1, description="Shell text, as for bash -c.")]
    timeout: Annotated[
        Seconds | None, Meta(description="Seconds, after which it is ended with all it started.")
    ] = None
    background: Annotated[
        bool,
        Meta(description="Return at once with a job id; it goes on, also when this conversation ends."),
    ] = False
    session: Annotated[
        Session | None,
        Meta(
            description="Another shell than the default one, by a name of your choice; it is made when new. "
            "Commands in different sessions run side by side.",
        ),
    ] = None
    pty: Annotated[
        bool,
        Meta(description="Run it on a terminal, for programs that want one. Use background to drive it."),
    ] = False
    cwd: Annotated[str | None, Meta(description="A directory for this command only.")] = None


class ExecuteCode(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `execute_code`."""

    code: Annotated[str, Meta(min_length=1, description="The whole program. It gets no input.")]
    language: Literal["python", "node", "bash"] = "python"
    timeout: Annotated[
        Seconds | None, Meta(description="Seconds, after which it is ended with all it started.")
    ] = None
    session: Annotated[
        Session | None,
        Meta(description="The session whose directory and variables it has."),
    ] = None


async def terminal(use: Use, args: Terminal) -> Outcome:
    if args.session is not None and (args.background or args.pty):
        raise ToolError(
            "terminal: session is for commands that are waited for, without pty; nothing was run",
            hint="Leave session out: a background command begins with what the default session has.",
        )
    if not (args.background or args.pty):
        result = await use.box.run(
            args.command,
            timeout=use.seconds(args.timeout),
            session=args.session,
            cwd=args.cwd,
            merge_stderr=True,
            on_output=use.on_output,
            max_output=use.room - NOTE,
        )
        return of_result(use, result, args.command, "terminal")
    job = await use.box.start(
        args.command,
        cwd=args.cwd,
        timeout=args.timeout if args.background else use.seconds(args.timeout),
        pty=(ROWS, COLUMNS) if args.pty else None,
    )
    if not args.background:
        return of_result(use, await _attended(use, job), args.command, "terminal")
    with contextlib.suppress(TimeoutError):
        return of_result(use, await job.wait(SOON), args.command, "terminal", job=job.id)
    reply = CommandReply(
        status="running",
        job=job.id,
        hint=f"process has its output (action=output), waits for it, writes to it and ends it: id={job.id}",
    )
    return Outcome(f"job {job.id} runs in the background\nhint: {reply.hint}", reply, job=job.id)


async def _attended(use: Use, job: Job) -> Result:
    """Wait for a job that somebody waits for: it ends with the wait."""
    try:
        if use.on_output is not None:
            async for data in job.follow():
                waiting = use.on_output(data)
                if inspect.isawaitable(waiting):
                    await waiting
        return await job.wait()
    except BaseException:
        with contextlib.suppress(HermesError):
            await settled(job.kill())
        raise


async def execute_code(use: Use, args: ExecuteCode) -> Outcome:
    # As what an interpreter reads, or as an argument of bash, it is judged as any command is.
    argv = {"python": ["python3", "-"], "node": ["node", "-"], "bash": ["bash", "-c", args.code]}
    stdin = None if args.language == "bash" else args.code
    if stdin is None and len(args.code.encode("utf-8", "surrogateescape")) > LONGEST_ARGUMENT:
        raise ToolError(
            f"execute_code: {LONGEST_ARGUMENT} bytes of bash at most; nothing was run",
            hint="Write it into a file with write_file, and run that.",
        )
    result = await use.box.run(
        argv[args.language],
        timeout=use.seconds(args.timeout),
        session=args.session,
        stdin=stdin,
        merge_stderr=True,
        on_output=use.on_output,
        max_output=use.room - NOTE,
    )
    return of_result(use, result, args.code if args.language == "bash" else "", args.language)


def of_result(use: Use, result: Result, command: str, source: str, *, job: str | None = None) -> Outcome:
    """Return a command's result as a tool's."""
    spill = result.spill
    output, kept = result.stdout, len(result.stdout)
    size = spill.bytes if spill is not None else kept
    if is_binary(output):
        text, missing = binary_note(output, size, "the output"), True
    else:
        where = f"; process action=output id={job} has it" if job and spill is None else ""
        text, missing = cut(readable(output), use.room, where)
    truncated = result.truncated or missing
    path = plain(spill.path) if spill is not None else None
    hint = hint_for(command, result.exit_code, timed_out=result.timed_out, out_of_memory=result.out_of_memory)
    reply = CommandReply(
        status=result.status,
        exit_code=result.exit_code,
        output=text,
        truncated=truncated,
        bytes=size if truncated else None,
        spill=path,
        duration_s=round(result.duration, 3),
        cwd=plain(result.cwd),
        job=job,
        redacted=result.redacted,
        hint=hint,
    )
    return Outcome(_rendered(reply, source, spill.note if spill is not None else None), reply, spill=spill)


def _rendered(reply: CommandReply, source: str, note: str | None) -> str:
    state = "timed out" if reply.status == "timed_out" else f"exit code {reply.exit_code}"
    head = [state, f"{reply.duration_s:.2f} s", f"cwd {shown(reply.cwd or '?')}"]
    if reply.redacted:
        head.append(f"{reply.redacted} secrets were taken out")
    lines = [" | ".join(head), fenced(reply.output, source) if reply.output else "(no output)"]
    if reply.spill is not None:
        kept = f"; {shown(note)}" if note else ""
        lines.append(f"all {reply.bytes} bytes of output are in {shown(reply.spill)}{kept}")
    if reply.hint:
        lines.append(f"hint: {reply.hint}")
    return "\n".join(lines)
