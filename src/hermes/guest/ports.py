"""TCP connections from inside the sandbox, each the stream of one call."""

import errno
import os
import socket
from typing import Any, Callable, Dict, List, Optional, Tuple

from .child import Child
from .server import OpError, op

READ_SIZE = 1 << 16
LOOPBACK = ("127.0.0.1", "::1")


def _addresses(host: str, port: int, flags: int) -> List[Tuple[int, Any]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in found]


class Lookup(Child):
    """Asks the resolver in a child, because it may take seconds."""

    def __init__(
        self, guest: Any, call: Any, host: str, port: int, then: Callable[[List[Tuple[int, Any]]], None]
    ) -> None:
        self._then = then
        Child.__init__(self, guest, call, lambda: {"addresses": _addresses(host, port, 0)})

    def ended(self, answer: Optional[Dict[str, Any]]) -> None:
        self.close()
        found = (answer or {}).get("addresses")
        if found:
            self._then([(family, tuple(address)) for family, address in found])
        else:
            self.call.fail(
                "port_refused", "the sandbox cannot resolve this host: %s" % (answer or {}).get("message")
            )


@op("port.open")
def port_open(guest: Any, call: Any) -> None:
    """Connect to *port* on *host*; the call's stream is the connection, each way with its own end."""
    host, port = call.args.get("host", "127.0.0.1"), int(call.args["port"])
    if not 0 < port < 65536:
        raise OpError("port_refused", "not a port: %d" % port)
    tunnel = Tunnel(guest, call)
    try:
        if host in ("localhost", "127.0.0.1"):
            tunnel.connect([(socket.AF_INET, (LOOPBACK[0], port)), (socket.AF_INET6, (LOOPBACK[1], port))])
        else:
            tunnel.connect(_addresses(host, port, socket.AI_NUMERICHOST))
    except socket.gaierror:
        Lookup(guest, call, host, port, tunnel.connect)


class Tunnel:
    """One connection and its call."""

    def __init__(self, guest: Any, call: Any) -> None:
        self._loop = guest.loop
        self._call = call
        self._sock: Any = None
        self._todo: List[Tuple[int, Any]] = []
        self._first = 0  # the error of the first address
        self._waiting: List[Any] = []
        self._connected = self._read_end = self._write_end = False
        call.on_data = self._take
        call.on_eof = self._take_end

    def connect(self, addresses: List[Tuple[int, Any]]) -> None:
        self._call.on_cancel = self._close
        self._todo = addresses
        self._next()

    def _next(self) -> None:
        family, address = self._todo.pop(0)
        number = errno.EAFNOSUPPORT
        try:
            self._sock = socket.socket(family, socket.SOCK_STREAM)
            self._sock.setblocking(False)
            number = self._sock.connect_ex(address)
        except OSError as error:
            number = error.errno or number
        if number in (0, errno.EINPROGRESS):
            self._loop.add_writer(self._sock.fileno(), self._writable)
        else:
            self._failed(number)

    def _failed(self, number: int) -> None:
        self._close()
        self._first = self._first or number
        if self._todo:
            self._next()
        else:
            context = {"port": self._call.args["port"]}
            if self._first == errno.ECONNREFUSED:
                context["hint"] = "Nothing listens on that port in the sandbox."
            message = "port %s in the sandbox: %s" % (context["port"], os.strerror(self._first))
            self._call.fail("port_refused", message, **context)

    def _close(self) -> None:
        if self._sock is not None:
            self._loop.remove_reader(self._sock.fileno())
            self._loop.remove_writer(self._sock.fileno())
            self._sock.close()
            self._sock = None

    def _take(self, data: bytes, _chan: int) -> None:
        self._waiting.append(data)
        if self._connected:
            self._writable()

    def _take_end(self) -> None:
        self._write_end = True
        if self._connected:
            self._writable()

    def _writable(self) -> None:
        if self._sock is None:
            return
        if not self._connected:
            number = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number:
                self._failed(number)
                return
            self._connected = True
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._call.on_writable = self._watch
            self._watch()
        try:
            while self._waiting:
                data = self._waiting[0]
                size = self._sock.send(data)
                self._call.grant(size)
                if size < len(data):
                    self._waiting[0] = memoryview(data)[size:]
                else:
                    self._waiting.pop(0)
            self._loop.remove_writer(self._sock.fileno())
            if self._write_end:
                self._sock.shutdown(socket.SHUT_WR)
                self._finish()
        except BlockingIOError:
            self._loop.add_writer(self._sock.fileno(), self._writable)
        except OSError as error:
            self._broken(error)

    def _watch(self) -> None:
        """Read from the socket only while the client has room."""
        if self._sock is not None and not self._read_end:
            if self._call.writable() > 0:
                self._loop.add_reader(self._sock.fileno(), self._readable)
            else:
                self._loop.remove_reader(self._sock.fileno())

    def _readable(self) -> None:
        room = self._call.writable()
        if room:
            try:
                data = self._sock.recv(min(room, READ_SIZE))
            except BlockingIOError:
                return
            except OSError as error:
                self._broken(error)
                return
            if data:
                self._call.send(data)
            else:
                self._read_end = True
                self._loop.remove_reader(self._sock.fileno())
                self._call.send_eof()
                self._finish()
                return
        self._watch()

    def _finish(self) -> None:
        if self._read_end and self._write_end and not self._waiting:
            self._close()
            self._call.reply({})

    def _broken(self, error: OSError) -> None:
        self._close()
        self._call.fail(
            "port_error", "the connection in the sandbox broke: %s" % os.strerror(error.errno or 0)
        )
