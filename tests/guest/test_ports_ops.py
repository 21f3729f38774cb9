"""TCP connections out of the guest."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from guest._driver import Driver, OpFailed, wait_until


@contextlib.contextmanager
def server(
    handle: Callable[[socket.socket], None], *, host: str = "127.0.0.1", backlog: int = 300
) -> Iterator[int]:
    """Serve each connection in a thread of its own."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.bind((host, 0))
    listener.listen(backlog)

    def run(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            handle(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=run, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def echo(connection: socket.socket) -> None:
    while data := connection.recv(65536):
        connection.sendall(data)


def after_the_end(connection: socket.socket) -> None:
    """Answer only when the other side has ended its half."""
    data = b""
    while piece := connection.recv(65536):
        data += piece
    connection.sendall(data[::-1])


def test_bytes_go_both_ways_and_each_way_ends_by_itself(driver: Driver) -> None:
    with server(after_the_end) as port:
        stream = driver.open("port.open", port=port)
        stream.send(b"abc" * 100)
        stream.eof()
        assert stream.read() == b"cba" * 100
        assert stream.read() is None
        assert stream.reply() == ({}, b"")


def test_the_other_side_may_end_first(driver: Driver) -> None:
    got: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        connection.sendall(b"bye")
        connection.shutdown(socket.SHUT_WR)
        while data := connection.recv(65536):
            got.append(data)

    with server(handle) as port:
        stream = driver.open("port.open", port=port)
        assert stream.read() == b"bye"
        assert stream.read() is None
        assert stream.answer is None
        stream.send(b"still here")
        stream.eof()
        stream.reply()
        wait_until(lambda: b"".join(got) == b"still here")


def test_ipv6_is_tried_when_nothing_listens_on_ipv4(driver: Driver) -> None:
    try:
        with server(echo, host="::1") as port:
            for host in ("127.0.0.1", "localhost", "::1"):
                stream = driver.open("port.open", port=port, host=host)
                stream.send(b"x")
                assert stream.read() == b"x"
                stream.eof()
                stream.reply()
    except OSError:
        pytest.skip("there is no IPv6 here")


def test_a_name_is_resolved(driver: Driver) -> None:
    with server(echo) as port:
        stream = driver.open("port.open", port=port, host=socket.gethostname())
        try:
            stream.send(b"x")
            if stream.read() is None:
                stream.reply()
        except OpFailed as error:
            assert error.code == "port_refused"
    with pytest.raises(OpFailed, match="cannot resolve") as caught:
        driver.call("port.open", port=port, host="no.such.host.invalid")
    assert caught.value.code == "port_refused"
    assert driver.children() == []


@pytest.mark.parametrize("port", [0, 65536, -1, "x", None])
def test_what_is_no_port_is_refused(driver: Driver, port: object) -> None:
    with pytest.raises(OpFailed) as caught:
        driver.call("port.open", port=port)
    assert caught.value.code in ("port_refused", "bad_request")


def test_nothing_listens(driver: Driver) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(OpFailed, match="refused") as caught:
            driver.call("port.open", port=port)
    assert caught.value.code == "port_refused"
    assert caught.value.context == {"port": port, "hint": "Nothing listens on that port in the sandbox."}


def test_a_reset_is_an_error(driver: Driver) -> None:
    def reset(connection: socket.socket) -> None:
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    with server(reset) as port:
        stream = driver.open("port.open", port=port)
        stream.send(b"xx")
        with pytest.raises(OpFailed, match="broke"):
            stream.reply()


def test_many_bytes_both_ways(driver: Driver) -> None:
    content = os.urandom(8 << 20)
    with server(echo) as port:
        stream = driver.open("port.open", port=port)
        got = bytearray()
        at = 0
        while len(got) < len(content):
            while at < len(content) and stream.flow.credit >= 65536:
                stream.send(content[at : at + 65536])
                at += 65536
            got += stream.read() or b""
        assert bytes(got) == content
        stream.eof()
        stream.reply()


def test_a_slow_side_stops_the_other(driver: Driver) -> None:
    sent = [0]
    gate = threading.Event()

    def flood(connection: socket.socket) -> None:
        while not gate.is_set():
            sent[0] += connection.send(bytes(65536))

    with server(flood) as port:
        stream = driver.open("port.open", port=port)
        assert stream.read()
        time.sleep(0.3)
        driver.call("ping")
        held = sum(len(data) for _, data in stream.held)
        before = sent[0]
        time.sleep(0.2)
        assert sent[0] == before
        assert held <= 1 << 20
        stream.cancel()
        gate.set()

    def stall(connection: socket.socket) -> None:
        gate.wait(10)

    gate.clear()
    with server(stall) as port:
        stream = driver.open("port.open", port=port)
        while stream.flow.credit:
            stream.send(bytes(min(stream.flow.credit, 65536)))
            driver.call("ping")
            if sent[0] > 20 << 20:
                break
            sent[0] += 65536
        driver.call("ping")
        assert driver.rss() < 64 << 20
        gate.set()


def test_many_connections_at_once(driver: Driver) -> None:
    before = len(driver.fds())
    with server(echo) as port:
        streams = [driver.open("port.open", port=port) for _ in range(200)]
        for number, stream in enumerate(streams):
            stream.send(b"%d" % number)
        for number, stream in enumerate(streams):
            assert stream.read() == b"%d" % number
        assert len(driver.fds()) == before + 200
        for stream in streams[:100]:
            stream.eof()
            stream.reply()
        for stream in streams[100:]:
            stream.cancel()
        driver.call("ping")
        assert len(driver.fds()) == before


def test_on_every_python(make_driver: Callable[..., Driver], guest_python: str) -> None:
    driver = make_driver(python=guest_python, codec="text")
    with server(after_the_end) as port:
        stream = driver.open("port.open", port=port, host="localhost")
        stream.send(b"abc" * 100_000)
        stream.eof()
        got = b""
        while (data := stream.read()) is not None:
            got += data
        assert got == b"cba" * 100_000
        stream.reply()
