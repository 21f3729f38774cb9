"""What goes on in an open sandbox, for those who keep an account of it: recordings and telemetry.

On a command's own way nothing is done but to keep in memory what there is to tell. A thread writes it down a
moment later (:mod:`hermes.log`), and nothing that goes wrong there is an error of the command.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import HermesError, Refused, status

if TYPE_CHECKING:
    from .approval import Decision
    from .approval.gate import Ticket
    from .log._writer import Writer
    from .sandbox import Sandbox
    from .session import Result
    from .telemetry import Span, Tracer

__all__ = ["NOTHING", "Entry", "Watch", "begin", "begun", "of_job"]

PAUSE = 0.1  # seconds that come together before they are written
CLOSE_SECONDS = 3.0  # for a disk to take the last of it
SOME = 1 << 16  # bytes of a tail that come together before it is cut
HELD = 16 << 20  # bytes of output that may wait for that
SIZE = (24, 80)
PROGRAMS = (b"python3 -", b"node -")  # what these read is the command
OUT = 1


class Entry:
    """One command, job or terminal, from when it was asked for until its end. A context that notes errors."""

    __slots__ = (
        "_ended",
        "_room",
        "_seen",
        "_sizes",
        "_tails",
        "_told",
        "_watch",
        "began",
        "cwd",
        "given",
        "kind",
        "number",
        "raw",
        "session",
        "size",
        "span",
        "term",
    )

    def __init__(self, watch: Watch, kind: str, raw: bytes, session: str | None, number: int) -> None:
        self._watch = watch
        self.kind = kind
        self.raw = raw
        self.session = session
        self.number = number
        self.began = time.time()
        self.cwd: str | None = None
        self.given: bytes | None = None  # a program that was passed by stdin
        self.size: tuple[int, int] | None = None  # of its terminal
        self.term: str | None = None
        self.span: Span | None = None
        self._told = self._ended = False
        self._room: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._seen: dict[int, int] = {}
        self._tails: dict[int, bytearray] = {}

    def __enter__(self) -> Entry:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.failed(error)

    def go(self, ticket: Ticket | None = None) -> None:
        """Note that it may run."""
        if self._told:
            return
        self._tell(None if ticket is None else ticket.decision)

    def _tell(self, decision: Decision | Refused | None) -> None:
        self._told = True
        self._watch.put(("command", self, self.began, decision))
        if self.span is not None:
            self.span.decided(decision)

    def started(self, job: str) -> None:
        """Note the id of a job. Its span is that of the call which started it: the job outlives us."""
        self._watch.jobs[job] = self
        self._watch.put(("started", self, time.time(), job))
        if self.span is not None:
            self.span.end(None)
            self.span = None

    def data(self, chan: int, data: bytes) -> None:
        """Note output, in which secrets may still be."""
        watch = self._watch
        if not watch.records or self._ended:
            return
        now, size = time.time(), len(data)
        self._sizes[chan] = self._sizes.get(chan, 0) + size
        if self.size is not None:  # a part of what a terminal shows makes no sense by itself
            watch.output(("output", self, now, chan, data), size)
            return
        room = self._room.get(chan, watch.limit)
        if room > 0:
            watch.output(("output", self, now, chan, data[:room]), min(room, size))
            data = data[room:]
            self._room[chan] = room - size
        if data and watch.limit:
            tail = self._tails.setdefault(chan, bytearray())
            tail += data
            if len(tail) > 4 * watch.limit + SOME:
                del tail[: -watch.limit]

    def at(self, chan: int, offset: int, data: bytes) -> None:
        """Note output that began at an offset, each byte once however often it is read."""
        seen, end = self._seen.get(chan, 0), offset + len(data)
        if end > seen:
            self._seen[chan] = end
            self.data(chan, data[max(0, seen - offset) :])

    def cut(self, cut: Mapping[int, tuple[bytes, bytes]], sizes: object) -> None:
        """Note outputs of which there are heads and tails, unless they were noted as they came."""
        watch = self._watch
        if not watch.records or self._ended or self._sizes:
            return
        limit, now = watch.limit, time.time()
        for chan, (head, tail) in cut.items():
            there = len(head) + len(tail)
            if not there:
                continue
            size = sizes.get(str(chan), there) if isinstance(sizes, dict) else there
            size = max(there, size) if type(size) is int else there
            if size > 2 * limit:
                whole = size == there
                head, tail = head[:limit], (head + tail if whole else tail)[-limit:] if limit else b""
            missing = size - len(head) - len(tail)
            if not missing:
                head, tail = head + tail, b""
            watch.output(("cut", self, now, chan, head, missing, tail), len(head) + len(tail))

    def resized(self, rows: int, cols: int) -> None:
        """Note a terminal's new size."""
        if self._told and not self._ended:
            self._watch.put(("resized", self, time.time(), rows, cols))
        self.size = (rows, cols)

    def ended(self, result: Result) -> None:
        """Note the end of a command."""
        self._end(
            {
                "status": result.status,
                "exit_code": result.exit_code,
                "duration": result.duration,
                "cwd": result.cwd,
                "spill": None if result.spill is None else result.spill.path,
            }
        )

    def exited(self, code: int) -> None:
        """Note the end of a job that was followed to it."""
        self._end({"status": "ok", "exit_code": code, "duration": time.time() - self.began})

    def failed(self, error: BaseException) -> None:
        """Note why there is no result."""
        if not self._told:
            self._tell(error if isinstance(error, Refused) else None)
        facts: dict[str, Any] = {"status": "failed", "error": {"code": type(error).__name__, "message": ""}}
        if isinstance(error, HermesError):
            facts = {"status": status(error), "error": {"code": error.code, "message": error.message}}
        elif isinstance(error, asyncio.CancelledError):
            facts = {"status": "cancelled"}
        self._end({**facts, "duration": time.time() - self.began})

    def _end(self, facts: dict[str, Any]) -> None:
        if self._ended:
            return
        now = time.time()
        for chan, kept in self._tails.items():
            tail = bytes(kept[-self._watch.limit :])
            missing = self._sizes[chan] - self._watch.limit - len(tail)
            parts = (b"", missing, tail) if missing else (tail, 0, b"")
            self._watch.output(("cut", self, now, chan, *parts), len(tail))
        self._ended = True
        self._tails.clear()
        self._watch.put(("end", self, now, facts))
        if self.span is not None:
            self.span.end(facts)


class _Nothing(Entry):
    """What is noted of something that nobody keeps an account of."""

    def __init__(self) -> None:
        pass

    def _skip(self, *args: object) -> None:
        pass

    go = started = data = at = cut = resized = ended = exited = failed = _skip  # type: ignore[assignment]


NOTHING: Entry = _Nothing()


class Watch:
    """The account of one client's use of one sandbox."""

    def __init__(self, box: Sandbox, tracer: Tracer | None) -> None:
        place, config = box._the_place(), box._config
        self.tracer = tracer
        self.records = config.log.enabled
        self.settings = config.log
        self.limit = config.log.max_output // 2
        self.jobs: dict[str, Entry] = {}
        self.facts = {
            "client": box._client,
            "backend": box.backend,
            "host": box._options.get("host"),
            "sandbox": box.name,
            "sandbox_id": box.id,
            "named": box.named,
            "isolation": place.capabilities.isolation,
            "cwd": box.cwd,
            "pid": os.getpid(),
        }
        self.password = box._password
        self._box = box
        self._content: object = None
        self._events: deque[tuple[Any, ...]] = deque()
        self._numbers = 0
        self._added = 0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[None] | None = None
        self._writer: Writer | None = None

    def begin(self, kind: str, raw: bytes, session: str | None = None) -> Entry:
        """Return the entry of something that is about to begin."""
        self._numbers += 1
        return Entry(self, kind, raw, session, self._numbers)

    def put(self, event: tuple[Any, ...]) -> None:
        """Keep an event for the writer."""
        if not self.records:
            return
        supply = self._box._supply
        if supply is not None and supply.content is not self._content:
            self._content = supply.content
            declared = self._box._declared
            self._events.append(("secrets", None, 0.0, declared.values(), declared.former))
        self._events.append(event)
        if self._timer is None:
            # The first at once: while the command runs somewhere else there is time to load what writes.
            pause = 0.0 if self._writer is None else PAUSE
            self._timer = self._loop.call_later(pause, self._write)

    def output(self, event: tuple[Any, ...], size: int) -> None:
        """Keep an event with output, unless too much of that waits."""
        done = self._writer.taken if self._writer is not None else 0
        if self._added - done + size <= HELD:
            self._added += size
            self.put(event)

    def _write(self) -> None:
        self._timer = None
        if self._writing is not None:
            if self._events:
                self._timer = self._loop.call_later(PAUSE, self._write)
            return
        self._writing = self._loop.create_future()
        # Not one of the loop's own: those are waited for at its end, however long a disk takes.
        thread = threading.Thread(target=self._in_thread, args=(self._writing,), daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._done(self._writing, str(error))

    def _in_thread(self, writing: asyncio.Future[None]) -> None:
        wrong = self._written()
        with contextlib.suppress(RuntimeError):  # the loop is no more
            self._loop.call_soon_threadsafe(self._done, writing, wrong)

    def _written(self) -> str:
        """Write what there is; return what is wrong."""
        try:
            if self._writer is None:
                from .log._writer import Writer

                self._writer = Writer(self.facts, self.settings, self.password)
            self._writer.take(self._events)
        except OSError as error:
            return f"{error.filename or 'the log'}: {error.strerror or error}"
        except Exception as error:
            return f"this is a fault of hermes: {error!r}"
        return ""

    def _done(self, writing: asyncio.Future[None], wrong: str) -> None:
        self._writing = None
        if not writing.done():
            writing.set_result(None)
        if wrong:
            self._give_up(wrong)

    def _give_up(self, why: str) -> None:
        if self.records:
            self.records = False
            self._events.clear()
            warnings.warn(f"what follows in '{self.facts['sandbox']}' is not recorded: {why}", stacklevel=1)

    def flush(self) -> None:
        """Begin to write at once."""
        if self._timer is not None:
            self._timer.cancel()
            self._write()

    async def close(self) -> None:
        """Write the last of it. A disk that does not answer is not waited for."""
        left, until = len(self._events), self._loop.time() + CLOSE_SECONDS
        while self._events or self._writing is not None:
            self.flush()
            if self._writing is None:
                self._write()
            if self._writing is not None:
                await asyncio.wait({self._writing}, timeout=max(0.0, until - self._loop.time()))
            if self._loop.time() >= until:
                if len(self._events) >= left:
                    self._give_up("the disk does not take it")
                    return
                left, until = len(self._events), self._loop.time() + CLOSE_SECONDS  # slow is not stuck


async def begun(box: Sandbox, began: float) -> Watch | None:
    """Return what keeps an account of a sandbox that has just been opened, None where nobody wants one."""
    config, tracer = box._config, None
    if _traced(config.telemetry.enabled):
        from . import telemetry

        tracer = await asyncio.to_thread(telemetry.tracer, box)
    if tracer is not None:
        tracer.opened(began)
        box._channel.on_open = tracer.stream
    return Watch(box, tracer) if tracer is not None or config.log.enabled else None


def _traced(setting: bool | None) -> bool:
    """Return whether spans are wanted, by our own setting or else by the variables of OpenTelemetry."""
    if setting is not None:
        return setting
    given = os.environ
    if given.get("OTEL_SDK_DISABLED", "").lower() == "true" or given.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(name.startswith("OTEL_") for name in given)


async def over(box: Sandbox) -> None:
    """Let the account of a sandbox that is left be written to its end."""
    watch, box._watch = box._watch, None
    if watch is not None:
        await watch.close()


class Change:
    """A context in which leave is asked for to change a file; notes the change, or that it was refused."""

    def __init__(self, box: Sandbox, path: str) -> None:
        self._watch, self._path = box._watch, path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._watch is not None and (error is None or isinstance(error, HermesError)):
            self._watch.put(("changed", None, time.time(), self._path, error))


def begin(
    box: Sandbox,
    kind: str,
    raw: bytes,
    options: Mapping[str, Any],
    *,
    session: str | None = None,
    size: tuple[int, int] | None = None,
) -> Entry:
    """Return the entry of a command that is to be run."""
    watch = box._watch
    if watch is None:
        return NOTHING
    entry = watch.begin(kind, raw, session)
    entry.cwd = options.get("cwd")
    entry.size = size
    entry.term = options.get("term")
    if raw in PROGRAMS and isinstance(given := options.get("stdin"), str | bytes):
        from .session import text_bytes

        entry.given = text_bytes(given, "the standard input") if isinstance(given, str) else given
    if watch.tracer is not None:
        entry.span = watch.tracer.command(entry)
    return entry


def of_job(box: Sandbox, ident: str, command: str, *, tty: bool) -> Entry:
    """Return the entry of a job that is looked at, which may have been started by another client."""
    watch = box._watch
    if watch is None:
        return NOTHING
    entry = watch.jobs.get(ident)
    if entry is None:
        entry = watch.begin("attach", command.encode("utf-8", "surrogateescape"))
        entry.size = SIZE if tty else None  # until it is told
        entry.go()
        entry.started(ident)
    return entry
