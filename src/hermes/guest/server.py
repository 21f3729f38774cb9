"""The guest: it serves a unix socket, keeps its clients' links over reconnections, dispatches calls.

It outlives every client. With nobody attached and nothing running it ends by itself.
"""

import collections
import os
import platform
import socket
import struct
import sys
import time
import traceback
from typing import Any, Callable, Deque, Dict, List, Optional, Set, Tuple

from .dirs import SOCKET
from .frames import (
    ACK,
    BYE,
    CALL,
    CANCEL,
    CREDIT,
    DATA,
    EOF,
    HELLO,
    MAGIC,
    NUMBERED,
    PING,
    PONG,
    PROTOCOL,
    REPLY,
    Binary,
    Frame,
    ProtocolError,
    Text,
    pack,
    unpack,
)
from .link import Flow, Link
from .loop import Loop, Timer
from .memory import Kills
from .proc import no_room
from .relay import is_stream

SILENCE = 90.0  # seconds without a byte after which a connection counts as dead; clients ping more often
READ_SIZE = 1 << 18
ONE_RIGHT = socket.CMSG_LEN(4)  # bytes of what sends one descriptor along
CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
FINISHED_KEPT = 100

OPS: Dict[str, Callable[[Any, Any], None]] = {}


def op(name: str) -> Callable[[Callable[[Any, Any], None]], Callable[[Any, Any], None]]:
    """Register the function that serves the operation *name*."""

    def register(function: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        OPS[name] = function
        return function

    return register


class OpError(Exception):
    """An operation cannot be done; the client gets *code* and the message."""

    def __init__(self, code: str, message: str, **context: Any) -> None:
        Exception.__init__(self, message)
        self.code = code
        self.context = context


class Call:
    """One request of a client, with a stream of bytes each way until it is answered."""

    def __init__(self, client: "Client", ident: int, args: Dict[str, Any], raw: bytes) -> None:
        self.client = client
        self.id = ident
        self.args = args
        self.raw = raw
        self.flow = Flow(client.link, ident)
        self.on_data: Optional[Callable[[bytes, int], None]] = None
        self.on_eof: Optional[Callable[[], None]] = None
        self.on_cancel: Optional[Callable[[], None]] = None
        self.on_detach: Optional[Callable[[], None]] = None
        self.on_writable: Optional[Callable[[], None]] = None
        self.task: Any = None

    @property
    def connected(self) -> bool:
        """Whether the client is there to read now."""
        return self.client.connection is not None

    def writable(self) -> int:
        """Return how many bytes :meth:`send` takes now."""
        return min(self.flow.credit, self.client.link.chunk) if self.connected else 0

    def send(self, data: bytes, chan: int = 1) -> None:
        self.flow.send(data, chan)

    def grant(self, size: int) -> None:
        """Say that *size* bytes of the client's data are dealt with."""
        if self.id in self.client.calls:
            self.flow.grant(size)

    def send_eof(self) -> None:
        self.client.link.send(EOF, self.id)

    def reply(self, obj: Optional[Dict[str, Any]] = None, raw: bytes = b"") -> None:
        """Give the final answer. A call that was cancelled or answered takes none."""
        if self.client.calls.pop(self.id, None) is not None:
            self.client.link.send(REPLY, self.id, pack(obj or {}, raw))

    def fail(self, code: str, message: str, **context: Any) -> None:
        """Give an error as the final answer."""
        if self.client.calls.pop(self.id, None) is not None:
            error = {"code": code, "message": message, "context": context}
            self.client.link.send(REPLY, self.id, pack(error), chan=1)


class Client:
    """One hermes process outside: its link and its open calls, whether it is connected or not."""

    def __init__(self, guest: "Guest", ident: str, chunk: int) -> None:
        self.guest = guest
        self.id = ident
        self.link = Link(chunk)
        self.link.on_output = self._dirty
        self.calls: Dict[int, Call] = {}
        self.connection: Optional[Connection] = None
        self.told: Deque[Tuple[int, Any]] = collections.deque()  # tasks whose result is in that frame
        self.left = 0.0  # when the last connection broke (monotonic)

    def _dirty(self) -> None:
        self.guest.dirty.add(self)

    def handle(self, frame: Frame) -> None:
        message = self.link.receive(frame)
        if self.told and self.told[0][0] <= self.link.acked:
            while self.told and self.told[0][0] <= self.link.acked:
                self.guest.release_task(self.told.popleft()[1])
        if message is None:
            return
        if self.guest.waits and message[0] in NUMBERED:
            self.guest.held.append((self, message))
            return
        self.dispatch(message)

    def dispatch(self, message: Frame) -> None:
        kind, chan, stream, _seq, _ack, body = message
        if kind == CALL:
            self._call(stream, body)
        elif kind == PING:
            self.link.control(PONG, body)
        elif kind == BYE:
            self.guest.drop_client(self)
        elif kind in (ACK, PONG):
            pass
        else:
            call = self.calls.get(stream)
            if call is not None:
                self._to_call(call, kind, chan, body)

    def _call(self, stream: int, body: bytes) -> None:
        args, raw = unpack(body)
        call = self.calls[stream] = Call(self, stream, args, raw)
        self.serve(call)

    def serve(self, call: Call) -> None:
        """Do what a call asks for; what goes wrong is its answer."""
        args = call.args
        function = OPS.get(str(args.get("op")))
        if function is None and self.guest.load_now():
            function = OPS.get(str(args.get("op")))
        if function is None:
            call.fail("unknown_op", "this guest does not know the operation %r" % args.get("op"))
            return
        try:
            function(self.guest, call)
        except OpError as error:
            call.fail(error.code, str(error), **error.context)
        except (KeyError, TypeError, ValueError) as error:
            call.fail("bad_request", "%s: %s" % (type(error).__name__, error))
        except BlockingIOError:  # a fork that failed
            call.fail("no_room", no_room())
        except OSError as error:
            call.fail("os_error", str(error), errno=error.errno)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            call.fail("guest_error", "%s: %s" % (type(error).__name__, error))

    def _to_call(self, call: Call, kind: int, chan: int, body: bytes) -> None:
        try:
            self._deliver(call, kind, chan, body)
        except ProtocolError:
            raise
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            call.fail("guest_error", "%s: %s" % (type(error).__name__, error))

    def _deliver(self, call: Call, kind: int, chan: int, body: bytes) -> None:
        if kind == DATA:
            call.flow.received(len(body))
            if call.on_data is not None:
                call.on_data(body, chan)
            else:
                call.grant(len(body))
        elif kind == EOF:
            if call.on_eof is not None:
                call.on_eof()
        elif kind == CREDIT:
            call.flow.granted(body)
            if call.on_writable is not None:
                call.on_writable()
        elif kind == CANCEL:
            del self.calls[call.id]
            if call.on_cancel is not None:
                call.on_cancel()


class Connection:
    """One accepted socket. The first frame names the client.

    A relay may send its stdin and its stdout through it, which are read and written then in its place.
    """

    def __init__(self, guest: "Guest", sock: socket.socket) -> None:
        self.guest = guest
        self.sock = sock
        self.source = self.sink = sock.fileno()
        self._relayed = True  # maybe: it is said at once
        self.client: Optional[Client] = None
        self.codec: Any = None
        self.heard = time.monotonic()
        self._blocked = False
        sock.setblocking(False)
        guest.connections.add(self)
        guest.loop.add_reader(self.source, self._readable)

    def _readable(self) -> None:
        rights: List[Any] = []
        try:
            if self._relayed:
                data, rights, _, _ = self.sock.recvmsg(READ_SIZE, ONE_RIGHT, CLOSE_ON_EXEC)
                self._relayed = bool(rights) or self.sink != self.sock.fileno()
            else:
                data = self.sock.recv(READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not rights:
            self._received(data)
            return
        if data[:-1]:  # what was sent before
            self._received(data[:-1])
        self._take(data[-1:], struct.unpack("i", rights[0][2])[0])

    def _take(self, which: bytes, fd: int) -> None:
        """Read from, or write to, what a relay sent along."""
        own = self.sock.fileno()
        if own == -1 or not is_stream(fd) or (self.sink if which == b"1" else self.source) != own:
            os.close(fd)
            return
        os.set_blocking(fd, False)
        if which == b"1":
            self.sink = fd
        else:
            self.source = fd
            self.guest.loop.add_reader(fd, self._given)

    def _given(self) -> None:
        try:
            data = os.read(self.source, READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        self._received(data)

    def _received(self, data: bytes) -> None:
        if not data:
            self.close()
            return
        self.heard = time.monotonic()
        try:
            if self.codec is None:
                self.codec = Binary() if data[0] == MAGIC else Text()
            for frame in self.codec.feed(data):
                if self.client is None:
                    self._hello(frame)
                else:
                    self.client.handle(frame)
        except ProtocolError as error:
            print("dropping a connection: %s" % error, file=sys.stderr)
            self.close()

    def _hello(self, frame: Frame) -> None:
        if frame[0] != HELLO:
            raise ProtocolError("no greeting")
        hello, _ = unpack(frame[5])
        ident, seen = hello.get("client"), hello.get("seen")
        if hello.get("protocol") != PROTOCOL or not isinstance(ident, str) or not isinstance(seen, int):
            raise ProtocolError("a greeting of protocol %r" % hello.get("protocol"))
        guest = self.guest
        client = guest.clients.get(ident)
        known = client is not None
        if client is None:
            client = guest.clients[ident] = Client(guest, ident, self.codec.chunk)
        elif client.connection is not None:
            client.connection.close()
        link = client.link
        answer = dict(guest.describe(), protocol=PROTOCOL, known=known, seen=link.seen)
        if isinstance(hello.get("session"), str):
            answer["session"] = guest.look(hello["session"])
        link.deflates = hello.get("deflates") is True
        link.out = [self.codec.encode(HELLO, 0, 0, 0, 0, pack(answer))]
        self.client, client.connection = client, self
        if known or not seen:
            link.connect(self.codec, seen)
        guest.configure(hello.get("options") or {})
        guest.seen()
        guest.dirty.add(client)
        if guest.load is not None:
            guest.loop.call_later(0.0, guest.load_now)  # while the answer is on its way
        for call in list(client.calls.values()):
            if call.on_writable is not None:
                guest.loop.call_soon(call.on_writable)

    def flush(self) -> None:
        """Send what the link has; the rest when the socket takes it."""
        if self.client is None:
            return
        out: List[Any] = self.client.link.out
        try:
            while out:
                size = os.writev(self.sink, out[:16])
                while size:
                    if size < len(out[0]):
                        out[0] = memoryview(out[0])[size:]
                        break
                    size -= len(out.pop(0))
        except (BlockingIOError, InterruptedError):
            if not self._blocked:
                self._blocked = True
                self.guest.loop.add_writer(self.sink, self.flush)
            return
        except OSError:
            # The client does not read any more, but what it sent before it left is still to be read.
            del out[:]
        if self._blocked:
            self._blocked = False
            self.guest.loop.remove_writer(self.sink)

    def close(self) -> None:
        if self not in self.guest.connections:
            return
        self.guest.connections.discard(self)
        own = self.sock.fileno()
        for fd in {own, self.source, self.sink}:
            self.guest.loop.remove_reader(fd)
            self.guest.loop.remove_writer(fd)
            if fd != own:
                os.close(fd)
        self.sock.close()
        client = self.client
        if client is not None and client.connection is self:
            client.connection = None
            client.left = time.monotonic()
            self.guest.seen()
            client.link.disconnect()
            for call in list(client.calls.values()):
                if call.on_writable is not None:  # nobody reads now: what waited for credit need not wait
                    self.guest.loop.call_soon(call.on_writable)


class Guest:
    """Everything of one sandbox: clients, and whatever the operations keep."""

    def __init__(self, options: Dict[str, Any]) -> None:
        self.id = os.urandom(4).hex()
        self.loop = Loop()
        self.loop.before_wait = self.flush
        self.run_dir: str = options["run_dir"]
        self.state_dir: str = options["state_dir"]
        self.cwd: str = options["cwd"]
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("HERMES_")}
        self.idle = 600.0
        self.detached = 86400.0
        self.linger = 600.0  # how long a lost client may come back for its answers
        self.quota = 1 << 30
        self.clients: Dict[str, Client] = {}
        self.connections: Set[Connection] = set()
        self.dirty: Set[Client] = set()
        self.on_exit: Callable[[], None] = lambda: None
        self.load: Optional[Callable[[Guest], None]] = None  # imports the operations
        self.waits = 0  # for so many things what clients ask waits: operations, the environment
        self.held: List[Tuple[Client, Frame]] = []
        self.label = ""  # a file whose time says when somebody was last connected
        self.remove = False  # at the end, remove the sandbox's own files too
        self.tasks: Dict[int, Any] = {}
        self.next_task = 0
        self.sessions: Dict[str, Any] = {}
        self.closed_shells: Set[Any] = set()
        self.next_shell = 0
        self.next_mark = 0
        self.spills: List[List[str]] = []
        self.sudo: Any = None  # gives passwords, once a client has one
        self.credentials: Any = None  # files that commands may know, once a client has sent some
        self.notes: Dict[str, str] = {}  # of clients, to themselves and each other
        self.busy: Callable[[], bool] = lambda: False
        self.look: Callable[[str], Any] = self.no_session
        self.on_deserted: Callable[[], None] = lambda: None
        self.memory = Kills() if options.get("limited") else None
        self._alone_since = time.monotonic()
        self._idle_since = time.monotonic()
        self._timer: Optional[Timer] = None
        self._listener: Optional[socket.socket] = None
        self._address = os.path.join(self.run_dir, SOCKET)
        self.configure(options)

    def configure(self, options: Dict[str, Any]) -> None:
        """Take lifetimes (seconds) and quotas (bytes); the last client's word holds."""
        for key in ("idle", "detached", "linger", "quota"):
            value = options.get(key)
            if isinstance(value, (int, float)) and value >= 0:
                setattr(self, key, value)
        if self._timer is not None:  # it was set by the lifetimes before
            self._timer.cancel()
            self._watch_later()

    def describe(self) -> Dict[str, Any]:
        return {
            "guest": self.id,
            "pid": os.getpid(),
            "python": platform.python_version(),
            "cwd": self.cwd,
            "home": os.path.expanduser("~"),
            "run_dir": self.run_dir,
            "state_dir": self.state_dir,
            "credentials": self.credentials.state if self.credentials is not None else "",
            "notes": self.notes,
        }

    def no_session(self, name: str) -> Dict[str, Any]:
        """Return what there is to know of a session that is not there."""
        return {"session": name, "known": False, "turn": 0, "busy": False, "whole": True, "cwd": self.cwd}

    def serve(self, listener: socket.socket) -> None:
        """Run until told to stop or idle for too long, then end everything."""
        self._listener = listener
        listener.setblocking(False)
        self.loop.add_reader(listener.fileno(), self._accept)
        self._watch_later()
        try:
            self.loop.run()
        finally:
            self.on_exit()

    def load_now(self) -> bool:
        """Import the operations, if that was put off; whether it was."""
        load, self.load = self.load, None
        if load is not None:
            load(self)
        return load is not None

    def release(self) -> None:
        """Go on with what waited, if this was the last that it waited for."""
        self.waits -= 1
        if self.waits:
            return
        held, self.held = self.held, []
        for client, message in held:
            client.dispatch(message)

    def seen(self) -> None:
        """Note that somebody is, or was just now, connected."""
        if self.label:
            try:
                os.utime(self.label)
            except OSError:
                pass

    def forget_tasks(self) -> None:
        """Release ended tasks that nobody will ask for; of the others keep the last hundred."""
        ended = [task for task in self.tasks.values() if task.over]
        wanted = [task for task in ended if task.wanted]
        for task in [task for task in ended if not task.wanted] + wanted[:-FINISHED_KEPT]:
            self.release_task(task)

    def release_task(self, task: Any) -> None:
        """Note that nobody will ask for a task, and release it if it is over."""
        task.wanted = False
        if task.over and self.tasks.pop(task.id, None) is not None:
            task.close()

    def drop_client(self, client: Client) -> None:
        """Forget a client: what it only watched goes on, what it drove is cancelled."""
        self.clients.pop(client.id, None)
        self.dirty.discard(client)
        calls, client.calls = list(client.calls.values()), {}
        if client.connection is not None:
            client.connection.close()
        for call in calls:
            leave = call.on_detach or call.on_cancel
            if leave is not None:
                leave()

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        Connection(self, sock)

    def flush(self) -> None:
        """Send what waits to be sent."""
        while self.dirty:
            client = self.dirty.pop()
            if client.connection is not None:
                client.connection.flush()

    def _watch(self) -> None:
        now = time.monotonic()
        for connection in list(self.connections):
            if now - connection.heard > SILENCE:
                connection.close()
        for client in list(self.clients.values()):
            if client.connection is None and now - client.left > self.linger:
                self.drop_client(client)
        if self.connections:
            self._alone_since = self._idle_since = now
        elif not os.path.exists(self._address):  # removed from outside: nobody can come back
            self.loop.stop()
            return
        elif self.busy():
            self._idle_since = now
            if now - self._alone_since > self.detached:
                self.on_deserted()
        elif now - self._idle_since > self.idle:
            self.loop.stop()
            return
        self._watch_later()

    def _watch_later(self) -> None:
        pause = max(0.05, min(5.0, self.idle / 4, self.detached / 4))
        self._timer = self.loop.call_later(pause, self._watch)


@op("ping")
def ping(guest: Guest, call: Call) -> None:
    call.reply({"time": time.time()})


@op("shutdown")
def shutdown(guest: Guest, call: Call) -> None:
    """Answer, then end everything that runs here."""
    guest.remove = bool(call.args.get("remove"))
    call.reply({})
    guest.flush()
    guest.loop.stop()
