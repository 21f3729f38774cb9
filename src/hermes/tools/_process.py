"""What runs in the background: the tool `process`."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hermes._json import plain
from hermes.errors import JobError
from hermes.job import Job, JobInfo
from hermes.pty import key_bytes
from hermes.session import text_bytes

from ._command import Seconds, of_result
from ._result import Outcome, Reply, binary_note, cut, fenced, is_binary, readable, shown
from ._tool import ToolError, Use

__all__ = ["Process", "ProcessReply", "process"]

MOST = 100  # jobs in a list
ANSWER = 0.5  # seconds in which a program that was written to may answer
WAIT = 60.0
END_SECONDS = 5.0
RUNNING = ("queued", "running")

Offset = Annotated[int, Meta(ge=0)]


class Listed(msgspec.Struct, kw_only=True):
    """A job in the list."""

    id: str
    kind: str
    state: str
    command: str
    exit_code: int | None
    age_s: float | None
    bytes: int
    tty: bool


class ProcessReply(Reply, kw_only=True):
    """What `process` gives back; which fields are set depends on the action."""

    jobs: list[Listed] = msgspec.field(default_factory=list)
    id: str | None = None
    state: str | None = None
    exit_code: int | None = None
    output: str = ""
    next: Annotated[int | None, Meta(description="The offset behind the last byte that is shown.")] = None
    bytes: Annotated[int | None, Meta(description="Of its whole output until now.")] = None


class Process(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `process`."""

    action: Annotated[
        Literal["list", "output", "wait", "write", "kill"],
        Meta(
            description="list: what runs or has ended; output: what a job has written; wait: for its end; "
            "write: to its input; kill: end it with all it started."
        ),
    ]
    id: Annotated[str | None, Meta(description="The job, for every action but list.")] = None
    offset: Annotated[
        Offset | None, Meta(description="output: the byte to begin with; without it the end is shown.")
    ] = None
    timeout: Annotated[Seconds | None, Meta(description="wait, write: seconds to wait for it.")] = None
    input: Annotated[str | None, Meta(description="write: the text, with its line feeds.")] = None
    keys: Annotated[
        list[str], Meta(description="write: keys after it, named as in tmux: Enter, C-c, Up, Tab.")
    ] = []
    eof: Annotated[bool, Meta(description="write: close the input afterwards.")] = False
    signal: Annotated[
        str | None, Meta(description="kill: only send this signal, such as INT or HUP, to its command.")
    ] = None


async def process(use: Use, args: Process) -> Outcome:
    if args.action == "list":
        return await _list(use)
    if args.id is None:
        raise ToolError(f"process: {args.action} needs an id; nothing was done", hint="list shows them.")
    try:
        return await _of_one(use, args, args.id)
    except JobError as error:
        if error.code == "job_unknown":
            error.hint = "process with action=list shows those that there are."
        raise


async def _of_one(use: Use, args: Process, ident: str) -> Outcome:
    if args.action == "kill":
        return await _kill(use, ident, args.signal)
    job = await use.box.job(ident)
    if args.action == "output":
        return await _output(use, job, args.offset)
    if args.action == "wait":
        return await _wait(use, job, args.timeout or WAIT)
    return await _write(use, job, args)


async def _list(use: Use) -> Outcome:
    found = await use.box.jobs()
    kept = [one for one in found if one.state in RUNNING]
    kept += [one for one in reversed(found) if one.state not in RUNNING]
    jobs = [_listed(one) for one in kept[:MOST]]
    lines = [
        f"{one.id}  {one.kind}  {_state(one.state, one.exit_code)}  "
        f"{'' if one.age_s is None else f'{one.age_s:.0f} s ago  '}{one.bytes} bytes  {one.command}"
        for one in jobs
    ]
    # The object holds the same in more words: half of the room keeps it within the limit too.
    room, size = use.room // 2, 0
    for at, line in enumerate(lines):
        size += len(line.encode())
        if size > room:
            del jobs[at:], lines[at:]
            break
    more = len(found) - len(jobs)
    text = fenced("\n".join(lines), "process") if lines else "nothing runs, and nothing has ended lately"
    return Outcome(text + (f"\nand {more} more" if more else ""), ProcessReply(jobs=jobs))


def _listed(one: JobInfo) -> Listed:
    return Listed(
        id=one.id,
        kind=one.kind,
        state=one.state,
        command=shown(one.command),
        exit_code=one.exit_code,
        age_s=None if one.started is None else round(max(0.0, time.time() - one.started), 1),
        bytes=one.bytes,
        tty=one.tty,
    )


def _state(state: str, code: int | None) -> str:
    return f"exited with {code}" if state == "exited" else state.replace("_", " ")


async def _output(use: Use, job: Job, offset: int | None) -> Outcome:
    info = await job.info()
    begin = max(0, info.bytes - use.room) if offset is None else offset
    return await _shown(use, job, begin, use.room)


async def _shown(use: Use, job: Job, offset: int, size: int) -> Outcome:
    data = await job.output(offset, size)
    info = await job.info()
    text, missing = binary_note(data, len(data), "the output"), False
    if not is_binary(data):
        text, missing = cut(readable(data), use.room)
    end = min(offset + size, max(info.bytes, offset))
    running = info.state in RUNNING
    reply = ProcessReply(
        status="running" if running else "ok",
        id=job.id,
        state=info.state,
        exit_code=info.exit_code,
        output=text,
        next=end,
        bytes=info.bytes,
    )
    head = f"job {job.id}: {_state(info.state, info.exit_code)} | bytes {offset} to {end} of {info.bytes}"
    if missing:
        head += ", less what is left out"
    return Outcome(f"{head}\n{fenced(text, 'process') if text else '(no output)'}", reply, job=job.id)


async def _wait(use: Use, job: Job, timeout: float) -> Outcome:
    try:
        result = await job.wait(timeout)
    except TimeoutError:
        outcome = await _output(use, job, None)
        outcome.reply.hint = f"it still runs after {timeout:g} s more; nothing was ended"
        return Outcome(f"{outcome.text}\nhint: {outcome.reply.hint}", outcome.reply, job=job.id)
    told = of_result(use, result, job.command, "process", job=job.id)
    reply = ProcessReply(
        id=job.id,
        state=(await job.info()).state,
        exit_code=result.exit_code,
        output=told.reply.output,  # type: ignore[attr-defined]
        hint=told.reply.hint,
    )
    return Outcome(told.text, reply, spill=told.spill, job=job.id)


async def _write(use: Use, job: Job, args: Process) -> Outcome:
    info = await job.info()
    data = text_bytes(args.input or "", "the input")
    if info.tty:
        data = data.replace(b"\n", b"\r")  # what the key sends
    data += b"".join(map(key_bytes, args.keys))
    if not data and not args.eof:
        raise ToolError("process: write needs input, keys or eof; nothing was written")
    if data:
        await job.write(data)
    if args.eof:
        await job.close_stdin()
    await asyncio.sleep(min(args.timeout or ANSWER, WAIT))
    return await _shown(use, job, info.bytes, use.room)


async def _kill(use: Use, ident: str, signal: str | None) -> Outcome:
    before = await use.box._job_info(ident)
    if before.state not in RUNNING and signal is None:
        reply = ProcessReply(id=ident, state=before.state, exit_code=before.exit_code)
        return Outcome(f"job {ident} had ended before: {_state(before.state, before.exit_code)}", reply)
    await use.box.kill(ident, signal)
    until = time.monotonic() + END_SECONDS
    while True:
        left = [one for one in await use.box.jobs() if one.id == ident]
        if not left or left[0].state not in RUNNING or signal is not None:
            break
        if time.monotonic() > until:
            raise JobError(f"{plain(ident)} was told to end, but still runs", code="job_lives")
        await asyncio.sleep(0.02)
    if signal is not None:
        return Outcome(f"signal {signal} was sent to job {ident}", ProcessReply(id=ident, state="running"))
    code = left[0].exit_code if left else None
    return Outcome(f"job {ident} was ended", ProcessReply(id=ident, state="killed", exit_code=code))
