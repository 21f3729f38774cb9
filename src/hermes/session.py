"""Running commands: sessions, their results, and the output that was too long to hand over."""

from __future__ import annotations

import asyncio
import inspect
import os
import shlex
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from ._watch import NOTHING, Entry
from .errors import CommandError, HermesError, ProtocolError

if TYPE_CHECKING:
    from .channel.channel import Channel, Stream
    from .credentials.scrub import Scrub
    from .sandbox import Sandbox

__all__ = ["OnOutput", "Result", "RunOptions", "SessionInfo", "Shell", "Spill", "Stdin"]

OUT, ERR = 1, 2
INLINE_STDIN = 1 << 17

Bytes = bytes  # under a second name, for a class that has a field of the first
Stdin = bytes | str | AsyncIterable[bytes]
OnOutput = Callable[[bytes], "Awaitable[None] | None"]


class RunOptions(TypedDict, total=False):
    """The options of :meth:`Sandbox.run`, which says what they mean."""

    timeout: float | None
    stdin: Stdin | None
    env: Mapping[str, str] | None
    cwd: str | None
    merge_stderr: bool
    on_output: OnOutput | None
    on_stderr: OnOutput | None
    max_output: int | None


def call_args(
    limit: int, timeout: float | None, env: Mapping[str, str] | None, cwd: str | None, *, merge: bool
) -> dict[str, Any]:
    """Return what a call that runs a command says of it.

    :raises CommandError: one of them makes no sense
    """
    if limit < 0:
        raise CommandError(f"max_output is {limit}; it has to be 0 or more", code="command_invalid")
    args: dict[str, Any] = {"limit": limit}
    if timeout is not None:
        if not timeout >= 0:  # NaN too
            raise CommandError(
                f"timeout is {timeout}; it has to be 0 or more seconds", code="command_invalid"
            )
        args["timeout"] = timeout
    if env:
        for key, value in env.items():
            if not (isinstance(key, str) and isinstance(value, str)):
                raise CommandError(
                    f"the environment variable {key!r} is set to {value!r}; both have to be text",
                    code="env_invalid",
                )
        args["env"] = dict(env)
    if cwd is not None:
        args["cwd"] = os.fsdecode(cwd)
    if merge:
        args["merge"] = True
    return args


@dataclass(frozen=True, slots=True)
class Spill:
    """The whole of an output that was too long: a file inside the sandbox, kept for a while.

    ``bytes`` is how many the command wrote. ``complete`` is False when some could not be kept, and ``note``
    says why. ``stderr`` is the other stream's own spill, None when both went into one.
    """

    path: str
    bytes: int
    complete: bool = True
    note: str | None = None
    stderr: Spill | None = None
    _channel: Channel | None = field(default=None, repr=False, compare=False)

    async def read(self, offset: int = 0, n: int = 65536) -> Bytes:
        """Return up to *n* bytes from *offset*; fewer only at the end.

        :raises FileError: code ``not_found``; the file is no longer kept
        """
        assert self._channel is not None
        parts = []
        while n > 0:
            args = {"path": self.path, "offset": offset, "size": n}
            data = (await self._channel.call("spill", args)).raw
            if not data:
                break
            parts.append(data)
            offset += len(data)
            n -= len(data)
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a command.

    ``status`` is ``ok`` for a command that ended by itself, whatever its exit code, and ``timed_out`` for one
    that was ended by its time limit (exit code 124, with the output until then). ``duration`` is in seconds.
    ``stdout`` and ``stderr`` are exact bytes; when ``truncated``, the middle is replaced by a line that says
    how much is missing, and ``spill`` has the whole. ``cwd`` is the session's directory afterwards.
    ``out_of_memory``: it failed, and meanwhile the system killed something for want of memory. ``redacted``:
    so many secrets were taken out of both streams.
    """

    status: Literal["ok", "timed_out"]
    exit_code: int
    stdout: bytes
    stderr: bytes
    duration: float
    timed_out: bool
    truncated: bool
    cwd: str
    spill: Spill | None = None
    out_of_memory: bool = False
    redacted: int = 0

    @property
    def text(self) -> str:
        """Stdout as text, with U+FFFD where it is not UTF-8."""
        return self.stdout.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as :meth:`Sandbox.sessions` lists it; ``created`` in seconds since the epoch."""

    name: str
    cwd: str
    created: float
    running: str | None
    queued: int


class Shell:
    """A session: one shell in the sandbox that keeps its directory, variables and functions.

    Commands of one session run one after the other, those of different sessions side by side.
    """

    def __init__(self, sandbox: Sandbox, name: str) -> None:
        self._sandbox = sandbox
        self.name = name

    async def run(self, command: str | Sequence[str], **options: Unpack[RunOptions]) -> Result:
        """Run a command in this session; see :meth:`Sandbox.run`."""
        return await self._sandbox.run(command, session=self.name, **options)

    async def interrupt(self) -> bool:
        """End the command that runs now, with all it started; its result has exit code 130.

        Return False when none was running.
        """
        reply = await self._sandbox._channel.call("stop", {"session": self.name})
        return bool(reply.body.get("stopped"))

    async def close(self) -> None:
        """End the session. What it left running in the background goes on."""
        await self._sandbox._channel.call("session.close", {"session": self.name})
        self._sandbox._forget_session(self.name)


def command_bytes(command: str | Sequence[str]) -> bytes:
    """Return a command as the shell gets it; an argv is quoted.

    :raises CommandError: it holds a NUL, which no shell can be given
    """
    data = text_bytes(command if isinstance(command, str) else shlex.join(command), "the command")
    if b"\0" in data:
        raise _invalid("the command holds a NUL byte; it was not run")
    return data


def text_bytes(text: str, what: str) -> bytes:
    """Return text as UTF-8, with the bytes that surrogates stand for as they were.

    :raises CommandError: a surrogate stands for no byte
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise _invalid(
            f"{what} holds a surrogate that stands for no byte, at {error.start}; it was not sent"
        ) from error


def _invalid(what: str) -> CommandError:
    return CommandError(
        what, code="command_invalid", hint="Pass binary data as bytes, by stdin or by a file."
    )


class Clip:
    """Collects an output up to a limit: its head and its tail."""

    def __init__(self, limit: int) -> None:
        self.size = 0
        self._head_limit = limit // 2
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        self.size += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            if len(self._tail) > 2 * self._tail_limit + 65536:
                del self._tail[: -self._tail_limit or None]

    def parts(self) -> tuple[bytes, bytes]:
        """Return head and tail; both together are everything when it was within the limit."""
        if self.size <= self._head_limit + self._tail_limit:
            return bytes(self._head), bytes(self._tail)
        return bytes(self._head), bytes(self._tail[-self._tail_limit :]) if self._tail_limit else b""


async def run_command(
    channel: Channel,
    args: dict[str, Any],
    raw: bytes,
    *,
    limit: int,
    stdin: Stdin | None,
    on_output: OnOutput | None,
    on_stderr: OnOutput | None,
    on_sent: Callable[[], None] | None = None,
    scrub: Scrub | None = None,
    entry: Entry = NOTHING,
) -> Result:
    """Send a prepared ``run`` and gather its result. Cancelling it ends the command.

    :param on_sent: called when the command is on its way
    :param scrub: takes secrets out of what is handed over
    :param entry: is told of the output
    """
    feed: AsyncIterable[bytes] | None = None
    if isinstance(stdin, str):
        stdin = text_bytes(stdin, "the standard input")
    if stdin is None:
        pass
    elif isinstance(stdin, bytes | bytearray | memoryview):
        if len(stdin) <= INLINE_STDIN:
            args["stdin"], raw = "inline", raw + bytes(stdin)
        else:
            args["stdin"], feed = "stream", _whole(bytes(stdin))
    else:
        args["stdin"], feed = "stream", stdin
    if on_output is not None or on_stderr is not None:
        args["live"] = True
    stream = channel.open("run", args, raw)
    if on_sent is not None:
        on_sent()
    if feed is None and not args.get("live"):
        return await collect(channel, stream, limit, scrub, entry)
    return await _follow(channel, stream, limit, feed, on_output, on_stderr, scrub, entry)


async def collect(
    channel: Channel, stream: Stream, limit: int, scrub: Scrub | None = None, entry: Entry = NOTHING
) -> Result:
    """Gather the head and tail that a stream brings, and the result."""
    parts: dict[int, list[bytes]] = {OUT: [], ERR: []}
    room = 2 * limit

    def take(data: bytes, chan: int) -> None:
        nonlocal room
        room -= len(data)
        if room < 0 or chan not in parts:
            stream.abort(ProtocolError("the guest sent more output than was asked for; it was dropped"))
            return
        parts[chan].append(data)

    stream.on_data = take
    try:
        body = (await stream.reply()).body
    except asyncio.CancelledError:
        stream.cancel()
        raise
    heads = body.get("heads", {})
    cut = {}
    for chan, pieces in parts.items():
        data = b"".join(pieces)
        head = heads.get(str(chan), len(data)) if isinstance(heads, dict) else None
        if type(head) is not int:
            raise ProtocolError("the guest sent a result without sense: what was cut is not said")
        cut[chan] = (data[:head], data[head:])
    entry.cut(cut, body.get("sizes"))
    return build_result(channel, body, cut, scrub)


async def _follow(
    channel: Channel,
    stream: Stream,
    limit: int,
    feed: AsyncIterable[bytes] | None,
    on_output: OnOutput | None,
    on_stderr: OnOutput | None,
    scrub: Scrub | None,
    entry: Entry,
) -> Result:
    clips = {OUT: Clip(limit), ERR: Clip(limit)}
    callbacks = {OUT: on_output, ERR: on_stderr or on_output}
    scrubbing = {chan: scrub.stream() for chan in callbacks} if scrub else {}

    async def pass_on(chan: int, data: bytes) -> None:
        callback = callbacks[chan]
        if callback is not None and data:
            waiting = callback(data)
            if inspect.isawaitable(waiting):
                await waiting

    pump = asyncio.create_task(_pump(stream, feed)) if feed is not None else None
    try:
        async for chan, data in stream:
            if chan not in clips:
                raise ProtocolError(f"the guest sent output on channel {chan}", operation="run")
            clips[chan].add(data)
            entry.data(chan, data)
            await pass_on(chan, scrubbing[chan].feed(data) if scrubbing else data)
            if pump is not None and pump.done() and (error := pump.exception()):
                raise error
        body = (await stream.reply()).body
        for chan, one in scrubbing.items():
            await pass_on(chan, one.end())
    except BaseException as error:
        stream.cancel()
        if pump is not None and pump.done() and not pump.cancelled() and pump.exception():
            raise pump.exception() from error  # type: ignore[misc]
        raise
    finally:
        if pump is not None:
            pump.cancel()
    return build_result(channel, body, {chan: clip.parts() for chan, clip in clips.items()}, scrub)


async def _pump(stream: Stream, feed: AsyncIterable[bytes]) -> None:
    try:
        async for data in feed:
            await stream.send(data)
    except HermesError:
        raise
    except Exception as error:
        stream.cancel()
        raise CommandError(
            f"standard input could not be read: {error!r}; the command was ended",
            code="stdin_failed",
            operation="run",
        ) from error
    stream.send_eof()


async def _whole(data: bytes) -> AsyncIterable[bytes]:
    yield data


def build_result(
    channel: Channel,
    body: Mapping[str, Any],
    cut: Mapping[int, tuple[bytes, bytes]],
    scrub: Scrub | None = None,
) -> Result:
    """Return the result from what the guest says and the outputs as head and tail."""
    try:
        sizes = {int(chan): int(size) for chan, size in body.get("sizes", {}).items()}
        spill = _spill(channel, body.get("spill")) if body.get("truncated") else None
        stdout, first = _joined(cut[OUT], sizes.get(OUT, 0), spill, OUT, scrub)
        stderr, second = _joined(cut[ERR], sizes.get(ERR, 0), spill, ERR, scrub)
        timed_out = body["state"] in ("timed_out", "expired")
        return Result(
            status="timed_out" if timed_out else "ok",
            exit_code=int(body["exit_code"]),
            stdout=stdout,
            stderr=stderr,
            duration=float(body["duration"]),
            timed_out=timed_out,
            truncated=bool(body.get("truncated")),
            cwd=str(body["cwd"]),
            spill=spill,
            out_of_memory=body.get("out_of_memory") is True,
            redacted=first + second,
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ProtocolError(f"the guest sent a result without sense: {error!r}", operation="run") from error


def _joined(
    cut: tuple[bytes, bytes], size: int, spill: Spill | None, chan: int, scrub: Scrub | None
) -> tuple[bytes, int]:
    """Return an output as one, and how many secrets were taken out of it."""
    head, tail = cut
    missing = size - len(head) - len(tail)
    count = 0
    if missing <= 0 or spill is None:
        return scrub.whole(head + tail) if scrub else (head + tail, 0)
    if scrub:
        (head, first), (tail, second) = scrub.whole(head, cut=True), scrub.rest(tail)
        count = first + second
    own = spill.stderr if chan == ERR and spill.stderr is not None else spill
    where = "whole output" if own.complete else "what was kept of it"
    note = f"\n[... {missing} bytes omitted of {size}; {where}: {own.path} ...]\n"
    return head + note.encode("utf-8", "surrogateescape") + tail, count


def _spill(channel: Channel, facts: Any) -> Spill | None:
    if not isinstance(facts, dict):
        raise TypeError(f"a spill that is {facts!r}")
    made: dict[str, Spill] = {}
    for chan, (path, size, dropped, note) in sorted(facts.items(), reverse=True):
        made[chan] = Spill(
            path=str(path),
            bytes=int(size),
            complete=not dropped and note is None,
            note=f"{int(dropped)} bytes were not kept: {str(note)[:300]}" if note is not None else None,
            stderr=made.get(str(ERR)),
            _channel=channel,
        )
    return made[str(OUT)]
