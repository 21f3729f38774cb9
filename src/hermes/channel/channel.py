"""The host's end: calls and streams to a guest, over connections that may break and come back."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hermes import errors
from hermes.errors import HermesError, SandboxGone, Unreachable
from hermes.guest.frames import (
    BYE,
    CALL,
    CANCEL,
    CREDIT,
    DATA,
    EOF,
    HELLO,
    PING,
    PROTOCOL,
    REPLY,
    Binary,
    Frame,
    ProtocolError,
    Text,
)
from hermes.guest.link import Flow, Link

from .boot import Boot, start_guest
from .message import pack, unpack

if TYPE_CHECKING:
    from hermes.backends.base import Backend, ByteChannel

PING_EVERY = 15.0
SILENCE = 45.0
LATE = 5.0  # seconds after a command's time limit in which its result should be here
LATE_SILENCE = 10.0  # then a guest that is well says something within these
STOPPED = 3.0  # seconds of silence after which a guest that connecting can wake counts as stopped
BOOT_TIMEOUT = 60.0
HELLO_TIMEOUT = 20.0
NO_GREETING = "its guest does not answer"
TEXT_VIOLATIONS = 5
FIRST_PATIENCE = 10.0  # seconds for which a first connection that breaks is tried again
BACKOFF = (0.05, 5.0)  # seconds between attempts to reconnect: first, longest

_ERRORS: dict[str, type[HermesError]] = {
    **dict.fromkeys(("cwd_unusable", "env_invalid", "command_invalid", "no_room"), errors.CommandError),
    **dict.fromkeys(
        (
            "not_found",
            "exists",
            "not_a_directory",
            "is_a_directory",
            "permission",
            "no_space",
            "too_large",
            "unsafe_path",
            "io",
        ),
        errors.FileError,
    ),
    **dict.fromkeys(("job_unknown", "job_finished"), errors.JobError),
    **dict.fromkeys(("port_refused", "port_error"), errors.PortError),
    **dict.fromkeys(("shell_failed", "no_shell"), errors.BackendError),
}
_HINTS = {
    "no_room": "Stop what runs there: 'hermes sandbox suspend' ends all of it and keeps the files, "
    "'hermes sandbox rm' removes the sandbox."
}

T = TypeVar("T")


class Reply(NamedTuple):
    """The answer to a call: a JSON object and the bytes that came with it."""

    body: dict[str, Any]
    raw: bytes


def checked(value: Any, kind: type[T]) -> T:
    """Return what a guest sent as the type it should have.

    :raises ProtocolError: it has another
    """
    import msgspec

    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise errors.ProtocolError(f"the guest sent an answer without sense: {error}") from error


def error_from(operation: str, body: Mapping[str, Any]) -> HermesError:
    """Return the exception for a guest's error; its texts are hostile, so they are cut and only shown."""
    code, context = str(body.get("code"))[:64], body.get("context")
    facts = dict(context) if isinstance(context, dict) else {}
    message = str(body.get("message"))[:2000]
    kind = _ERRORS.get(code, HermesError)
    hint = facts.pop("hint", None) or _HINTS.get(code)
    fields: dict[str, Any] = {"code": code, "operation": operation, "context": facts}
    if isinstance(hint, str):
        fields["hint"] = hint[:500]
    if kind is errors.FileError and isinstance(facts.get("path"), str):
        fields["path"] = facts["path"]
    return kind(message, **fields)


class Stream:
    """One call that is being answered, with bytes each way.

    Iterating gives ``(chan, data)`` until the answer is there; ``on_data`` gets them at once instead.
    """

    def __init__(self, channel: Channel, ident: int, operation: str) -> None:
        self.id = ident
        self.operation = operation
        self.on_data: Callable[[bytes, int], None] | None = None
        self._channel = channel
        self._flow = Flow(channel._link, ident)
        self._reply: asyncio.Future[Reply] = channel._loop.create_future()
        self._queue: deque[tuple[int, bytes]] = deque()
        self._moved = asyncio.Event()  # something came: data, credit, the end
        self._ended = False

    async def send(self, data: bytes, chan: int = 0) -> None:
        """Send bytes, waiting for credit. After the answer has come they are dropped."""
        view = memoryview(data)
        while view and not self._reply.done():
            room = min(self._flow.credit, self._channel._link.chunk)
            if room <= 0:
                self._moved.clear()
                await self._moved.wait()
                continue
            self._flow.send(bytes(view[:room]), chan)
            self._channel._flush()
            view = view[room:]
            await self._channel._drain()

    def send_eof(self) -> None:
        """Say that nothing more will be sent."""
        if not self._reply.done():
            self._channel._link.send(EOF, self.id)
            self._channel._flush()

    @property
    def answered(self) -> bool:
        """Whether the answer has come."""
        return self._reply.done()

    async def reply(self) -> Reply:
        """Wait for the answer. Cancelling the wait gives the answer up.

        :raises HermesError: the guest's error, or the reason for which the channel broke
        """
        return await self._reply

    def cancel(self) -> None:
        """Tell the guest that the answer is not wanted any more; what it started for this call is ended."""
        if self._channel._streams.pop(self.id, None) is not None:
            self._channel._link.send(CANCEL, self.id)
            self._channel._flush()
        if not self._reply.done():
            self._reply.cancel()
        self._moved.set()

    def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        return self._chunks()

    async def _chunks(self) -> AsyncIterator[tuple[int, bytes]]:
        while True:
            while self._queue:
                chan, data = self._queue.popleft()
                yield chan, data
                self._grant(len(data))
            if self._ended or self._reply.done():
                return
            self._moved.clear()
            await self._moved.wait()

    def _grant(self, size: int) -> None:
        if not self._reply.done():
            self._flow.grant(size)
            self._channel._flush()

    def _receive(self, kind: int, chan: int, body: bytes) -> None:
        if kind == DATA:
            self._flow.received(len(body))
            if self.on_data is not None:
                self.on_data(body, chan)
                self._flow.grant(len(body))
            else:
                self._queue.append((chan, body))
                self._moved.set()
        elif kind == CREDIT:
            self._flow.granted(body)
            self._moved.set()
        elif kind == EOF:
            self._ended = True
            self._moved.set()

    def abort(self, error: HermesError) -> None:
        """Give the call up with an error for whoever waits."""
        self._fail(error)
        self.cancel()

    def _answer(self, chan: int, body: bytes) -> None:
        obj, raw = unpack(body)
        if self._reply.done():
            return
        if chan:
            self._fail(error_from(self.operation, obj))
        else:
            self._reply.set_result(Reply(obj, raw))
        self._moved.set()

    def _fail(self, error: HermesError) -> None:
        if not self._reply.done():
            self._reply.set_exception(error)
            self._reply.exception()  # it is raised again to whoever waits; nobody waiting is no fault
        self._moved.set()


class _Wire:
    """One connection: a byte channel, its decoder, and the greeting."""

    def __init__(self, channel: Channel, stream: ByteChannel) -> None:
        self.stream = stream
        self.codec: Binary | Text = Binary() if stream.encoding == "binary" else Text()
        self.hello: asyncio.Future[dict[str, Any]] = channel._loop.create_future()
        self.closed = False
        self.ended = asyncio.Event()
        self.heard = time.monotonic()
        self.asked = 0.0  # when it was pinged, if nothing was heard since
        self._channel = channel

    def on_data(self, data: bytes) -> None:
        if self.closed:
            return
        self.heard = time.monotonic()
        try:
            for frame in self.codec.feed(data):
                if self.hello.done():
                    self._channel._handle(frame)
                else:
                    self._greeted(frame)
            self._channel._flush()
        except ProtocolError as error:
            self._channel._violated(str(error))
            self.fail(f"the guest broke the protocol: {error}")

    def on_close(self, reason: str | None) -> None:
        self.ended.set()
        self.fail(reason or "it was closed")

    def fail(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        if not self.hello.done():
            self.hello.set_exception(
                Unreachable("the guest did not greet", reason=reason, operation="attach")
            )
            self.hello.exception()
        self._channel._lost(self, reason)

    def _greeted(self, frame: Frame) -> None:
        if frame[0] != HELLO:
            raise ProtocolError("no greeting")
        hello, _ = unpack(frame[5])
        # Frames may follow in the same read: the link has to be ready for them now.
        self._channel._welcome(self, hello)
        if not self.hello.done():
            self.hello.set_result(hello)


class _Search:
    """The attempts to connect again since the last time that anything new came over."""

    def __init__(self, seen: int) -> None:
        self.seen = seen
        self.since = time.strftime("%H:%M:%S")
        self.began = time.monotonic()
        self.attempts = 0

    async def pause(self) -> None:
        """Wait before the next attempt, longer each time; not before the first."""
        if self.attempts:
            await asyncio.sleep(min(BACKOFF[0] * 2 ** (self.attempts - 1), BACKOFF[1]))
        self.attempts += 1


class Channel:
    """Calls to one guest. Lost connections are made again; calls in flight go on where they were."""

    def __init__(
        self,
        backend: Backend,
        options: Mapping[str, Any],
        *,
        reconnect_for: float = 60.0,
        hello: Mapping[str, Any] | None = None,
        session: str | None = None,
        after: Channel | None = None,
    ) -> None:
        """Make a channel that is not connected yet.

        :param options: what the guest is booted with
        :param reconnect_for: seconds for which a lost connection is sought before calls fail
        :param hello: lifetimes and quotas, told to the guest at each connection
        :param session: what there is to know of it comes with the first greeting, as ``guest["session"]``
        :param after: one that was given up, whose guest is wanted and no other
        """
        self._loop = asyncio.get_running_loop()
        self._backend = backend
        self._options = dict(options)
        self._reconnect_for = reconnect_for
        self._hello = dict(hello or {})
        self._session = session
        self._client = uuid.uuid4().hex
        self._link = Link((Binary if backend.encoding == "binary" else Text).chunk)
        self._link.deflates = backend.distant
        self._streams: dict[int, Stream] = {}
        self._next = 0
        self._wire: _Wire | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._reconnecting = False
        self._closing = False
        self._violations = 0
        self._search: _Search | None = None
        self._error: Callable[[], HermesError] | None = None
        self._bounds: dict[asyncio.Timeout, float] = {}  # when each command's result should be here
        self._silent = ""  # since when the guest does not answer
        self.used = time.monotonic()  # when something was last asked for
        self._boot: str = after._boot if after else ""  # of the machine, as the guest's way in told it
        self._wanted = after.guest.get("guest") if after is not None else None
        self.unreachable = False  # it was given up for that, and may be there again
        self.on_open: Callable[[Stream, Mapping[str, Any]], None] | None = None  # is told of each call
        self.guest: dict[str, Any] = {}
        self.path = ""  # "direct" or "relay"

    async def open_connection(self, *, start: bool) -> None:
        """Connect for the first time.

        :param start: start a guest when none runs
        :raises SandboxGone: none runs and none was to be started
        """
        began = time.monotonic()
        while True:
            try:
                await self._connect(start)
                break
            except Unreachable as error:
                # The link broke while the guest was started: to start it again is to find it.
                broke = error.code == "link_broke" or error.operation == "attach"
                late = time.monotonic() - began > FIRST_PATIENCE
                if late or not (broke and self._backend.distant):
                    raise
                await asyncio.sleep(BACKOFF[0])
        if self._error is not None:
            raise self._error()
        self._spawn(self._keep_alive())

    def check(self, operation: str) -> None:
        """Do nothing where a call can be sent.

        :raises SandboxGone: the channel has broken for good
        """
        if self._error is not None:
            raise self._error()
        if self._closing:
            raise SandboxGone("this client has left the sandbox", reason="closed here", operation=operation)

    def open(self, operation: str, args: Mapping[str, Any] | None = None, raw: bytes = b"") -> Stream:
        """Send a call and return its stream.

        :raises SandboxGone: the channel has broken for good
        """
        self.check(operation)
        self.used = time.monotonic()
        self._next += 1
        stream = self._streams[self._next] = Stream(self, self._next, operation)
        self._link.send(CALL, stream.id, pack({"op": operation, **(args or {})}, raw))
        self._flush()
        if self.on_open is not None:
            self.on_open(stream, args or {})
        return stream

    @property
    def waits(self) -> bool:
        """Whether an answer is still to come, but for that of the call which waits for questions of sudo."""
        return any(stream.operation != "sudo" for stream in self._streams.values())

    async def call(
        self,
        operation: str,
        args: Mapping[str, Any] | None = None,
        raw: bytes = b"",
        *,
        timeout: float | None = None,
    ) -> Reply:
        """Send a call and wait for its answer.

        :param timeout: seconds after which the call is given up, None for no limit
        :raises HermesError: the guest's error, or the reason for which the channel broke
        :raises TimeoutError: no answer came in time
        """
        stream = self.open(operation, args, raw)
        try:
            async with asyncio.timeout(timeout):
                return await stream.reply()
        except (asyncio.CancelledError, TimeoutError):
            stream.cancel()
            raise

    async def close(self) -> None:
        """Take leave of the guest, which goes on without us."""
        if self._closing:
            return
        self._closing = True
        for task in list(self._tasks):
            task.cancel()
        wire = self._wire
        if wire is not None and not wire.closed:
            self._link.control(BYE)
            self._flush()
            # The guest hangs up once it has read everything; to leave earlier could lose what we said last.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await wire.ended.wait()
            wire.closed = True
            await wire.stream.close()
        self._give_up(lambda: SandboxGone("this client has left the sandbox", reason="closed here"))

    # --- connections

    async def _connect(self, start: bool) -> None:
        direct = await self._backend.direct_channel(self._options["run_dir"])
        if direct is not None:
            try:
                await self._greet(_Wire(self, direct), None)
                self.path = "direct"
                return
            except SandboxGone as error:
                if not start or isinstance(error, Unreachable):
                    raise
        options = dict(self._options, attach_only=not start, relay=direct is None)
        options["boot"] = self._boot
        options["asks"] = not start or self._backend.guest_likely
        greeted = direct is None
        if greeted:  # with the options it takes no round trip of its own
            codec = Binary() if self._backend.encoding == "binary" else Text()
            options["greeting"] = self._greeting(codec).decode("latin-1")
        stream, boot, announced = await start_guest(self._backend, options, timeout=BOOT_TIMEOUT)
        self._boot = str(announced.get("boot") or "")
        if direct is not None:
            await stream.close()
            direct = await self._backend.direct_channel(str(announced.get("run_dir")))
            assert direct is not None
            await self._greet(_Wire(self, direct), None)
            self.path = "direct"
            return
        wire = _Wire(self, stream)
        await self._greet(wire, boot, greeted=greeted)
        self.path = "relay"

    def _greeting(self, codec: Binary | Text) -> bytes:
        body = pack(
            {
                "protocol": PROTOCOL,
                "client": self._client,
                "seen": self._link.seen,
                "options": self._hello,
                "deflates": self._link.deflates,
                "session": None if self.guest else self._session,
            }
        )
        return codec.encode(HELLO, 0, 0, 0, 0, body)

    async def _greet(self, wire: _Wire, boot: Boot | None, *, greeted: bool = False) -> None:
        """Exchange greetings on a connection that starts now, or that a boot left open."""
        if boot is None:
            await wire.stream.start(wire.on_data, wire.on_close)
        if not greeted:
            wire.stream.write(self._greeting(wire.codec))
        if boot is not None:
            boot.hand_over(wire.on_data, wire.on_close)
        try:
            async with asyncio.timeout(HELLO_TIMEOUT):
                await wire.hello
        except BaseException as error:
            wire.closed = True
            await wire.stream.close()
            if isinstance(error, TimeoutError):
                raise Unreachable(
                    "the guest in the sandbox does not answer, though its place does",
                    reason=NO_GREETING,
                    operation="attach",
                    hint="It may be stopped, or its machine may be out of memory: look there.",
                ) from None
            raise

    def _welcome(self, wire: _Wire, hello: Mapping[str, Any]) -> None:
        if hello.get("protocol") != PROTOCOL:
            raise ProtocolError(f"the guest speaks protocol {hello.get('protocol')!r}, not {PROTOCOL}")
        seen = hello.get("seen")
        if type(seen) is not int:
            raise ProtocolError("a greeting without numbers")
        wanted = self.guest.get("guest", self._wanted)
        if wanted and (hello.get("guest") != wanted or (self.guest and not hello.get("known"))):
            self._wire = wire
            reason = "it was restarted, and what ran in it is gone"
            self._give_up(lambda: SandboxGone("the guest is not the one we knew", reason=reason))
            return
        self.guest = dict(hello)
        self._wire = wire
        self._link.connect(wire.codec, seen)

    def _violated(self, what: str) -> None:
        """Note a breach of the protocol. Noise may damage a text channel; a clean one has no excuse."""
        self._violations += 1
        if self._backend.encoding == "binary" or self._violations > TEXT_VIOLATIONS:
            self._give_up(
                lambda: errors.ProtocolError(
                    f"the guest broke the protocol: {what}; the channel was closed, nothing of it was used",
                    hint="Destroy this sandbox: its guest may be hostile, or of another version.",
                )
            )

    def _lost(self, wire: _Wire, reason: str) -> None:
        if self._wire is not wire:
            return
        if self._search is None or self._link.seen != self._search.seen:
            self._search = _Search(self._link.seen)
        self._wire = None
        self._link.disconnect()
        self._spawn(wire.stream.close())
        if not self._closing and not self._reconnecting and self._error is None:
            self._reconnecting = True
            self._spawn(self._reconnect(reason))

    async def _reconnect(self, reason: str) -> None:
        search = self._search
        assert search is not None
        last = reason
        try:
            while self._error is None:
                if search.attempts and time.monotonic() - search.began > self._reconnect_for:
                    self._give_up(_unreachable(search.since, last))
                    return
                await search.pause()
                try:
                    await self._connect(start=False)
                    return
                except Unreachable as error:
                    last = error.reason or str(error)
                    if last == NO_GREETING:
                        self._silent = search.since
                        for scope in self._late():
                            scope.reschedule(0)
                except SandboxGone as error:
                    why = await self._backend.diagnose(reason) or error.reason or reason
                    self._give_up(_gone(why))
                    return
                except HermesError as error:
                    last = str(error)
                except Exception as error:
                    self._give_up(_broke(error))
                    raise
                why = await self._backend.diagnose(reason)
                if why:
                    self._give_up(_gone(why))
                    return
        finally:
            self._reconnecting = False

    async def _keep_alive(self) -> None:
        rouses = self._backend.rouses
        while True:
            every = LATE_SILENCE / 2 if self._late() else PING_EVERY
            await asyncio.sleep(STOPPED / 2 if rouses else every)
            wire, now = self._wire, time.monotonic()
            if wire is None or (rouses and not self.waits and now - wire.heard < every):
                continue
            silence, since = LATE_SILENCE if self._late() else SILENCE, wire.heard
            if rouses:
                silence, since = STOPPED, wire.asked if wire.asked > wire.heard else now
            if now - since > silence:
                wire.fail(f"nothing was heard for {silence:g} s")
            else:
                if wire.asked <= wire.heard:
                    wire.asked = now
                self._link.control(PING)
                self._flush()

    def bounded(self, limit: float | None) -> contextlib.AbstractAsyncContextManager[None]:
        """Bound a command's waits by its time limit, where the place answers and the guest does not.

        :raises Unreachable: the limit has passed
        """
        return contextlib.nullcontext() if limit is None else self._bounded(limit)

    @contextlib.asynccontextmanager
    async def _bounded(self, limit: float) -> AsyncIterator[None]:
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._bounds[scope] = time.monotonic() + limit + LATE
                yield
        except TimeoutError:
            if not scope.expired():
                raise
            raise Unreachable(
                f"the guest has not answered since {self._silent}, though its place does; the command's time "
                "limit has passed, and whether it was run is not known",
                reason=NO_GREETING,
                operation="run",
                hint="The guest may be stopped, or its machine out of memory: look there. Once it goes on, "
                "it ends the command, and this sandbox can be used again.",
            ) from None
        finally:
            self._bounds.pop(scope, None)

    def _late(self) -> list[asyncio.Timeout]:
        """Return what waits for an answer that should be here by now."""
        now = time.monotonic()
        return [scope for scope, due in self._bounds.items() if due < now]

    def give_up(self, reason: str) -> None:
        """Take the sandbox for gone: what came in the place of the guest that was known is not that."""
        self._error, self.unreachable = _gone(reason), False

    def _give_up(self, error: Callable[[], HermesError]) -> None:
        if self._error is None:
            self._error = error
            self.unreachable = isinstance(error(), Unreachable)
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream._fail(error())

    # --- frames

    def _handle(self, frame: Frame) -> None:
        message = self._link.receive(frame)
        if message is None:
            return
        kind, chan, ident, _seq, _ack, body = message
        if kind == REPLY:
            stream = self._streams.get(ident)
            if stream is not None:
                stream._answer(chan, body)
                del self._streams[ident]
        elif kind in (DATA, CREDIT, EOF):
            stream = self._streams.get(ident)
            if stream is not None:
                stream._receive(kind, chan, body)
        elif kind in (CALL, CANCEL, HELLO):
            raise ProtocolError(f"a guest does not send frames of kind {kind}")

    def _flush(self) -> None:
        out = self._link.out
        if out and self._wire is not None:
            self._wire.stream.write(b"".join(out) if len(out) > 1 else out[0])
            out.clear()

    async def _drain(self) -> None:
        if self._wire is not None:
            await self._wire.stream.drain()

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _gone(reason: str) -> Callable[[], HermesError]:
    return lambda: SandboxGone(
        f"the sandbox is gone: {reason}",
        reason=reason,
        hint="What ran in it was not run again. Open a new sandbox to go on.",
    )


def _broke(error: Exception) -> Callable[[], HermesError]:
    return lambda: Unreachable(
        f"the link was lost, and hermes failed to make it again: {error!r}",
        reason=repr(error),
        hint="This is a fault in hermes or in the backend. What runs in the sandbox goes on; open it again.",
    )


def _unreachable(since: str, reason: str) -> Callable[[], HermesError]:
    return lambda: Unreachable(
        f"the sandbox has been unreachable since {since}: {reason}",
        reason=reason,
        hint="What runs in it goes on. The next command looks whether it is there again.",
    )
