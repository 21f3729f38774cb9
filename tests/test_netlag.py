"""The link that tests spoil does what it says."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from _ssh import ROOT, TESTS, Link

pytestmark = pytest.mark.skipif(not ROOT, reason="a network device is root's to make")

# Answers each line with its number and what it got.
ECHO = """
import socket, sys
server = socket.create_server((sys.argv[1], 7))
while True:
    client, _ = server.accept()
    with client, client.makefile("rwb", 0) as stream:
        for number, line in enumerate(stream):
            stream.write(b"%d %s" % (number, line))
"""
HERE, THERE = "198.18.251.1", "198.18.251.2"


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Link]:
    control = tmp_path / "control"
    netlag = [sys.executable, str(TESTS / "_netlag.py"), "--here", HERE, "--there", THERE]
    echo = [sys.executable, "-c", ECHO, THERE]
    with subprocess.Popen(
        [*netlag, "--control", str(control), "--delay", "20", *echo], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield Link(control)
        process.terminate()
        assert process.wait(10) == 0
    assert not control.exists()


def connected() -> socket.socket:
    for _ in range(100):
        try:
            return socket.create_connection((THERE, 7), timeout=20)
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise AssertionError("nothing listens")


def round_trip(connection: socket.socket, text: bytes) -> tuple[bytes, float]:
    start = time.perf_counter()
    connection.sendall(text + b"\n")
    got = b""
    while not got.endswith(b"\n"):
        got += connection.recv(65536)
    return got, time.perf_counter() - start


def test_it_delays_counts_and_is_cut(link: Link) -> None:
    with connected() as connection:
        times = [round_trip(connection, b"a") for _ in range(5)]
        assert [got for got, _ in times] == [b"%d a\n" % number for number in range(5)]
        assert 0.04 <= min(took for _, took in times) < 0.06

        link.set(delay=0)
        assert min(round_trip(connection, b"b")[1] for _ in range(5)) < 0.02

        sent, received = link.bytes()
        round_trip(connection, b"c" * 10_000)
        after = link.bytes()
        assert 10_000 < after[0] - sent < 12_000
        assert 10_000 < after[1] - received < 12_000

        link.set(cut=True)
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            round_trip(connection, b"d")
        link.set(cut=False)
        connection.settimeout(20)
        assert connection.recv(100) == b"11 d\n"


def test_it_loses_and_slows_down(link: Link) -> None:
    with connected() as connection:
        link.set(delay=1, loss=0.25)
        for number in range(15):
            assert round_trip(connection, b"x")[0] == b"%d x\n" % number
        assert link.set()["lost"] > 3
        link.set(loss=0, rate=8000)  # a megabyte a second
        _, took = round_trip(connection, b"y" * 200_000)
        assert 0.2 < took < 2


def test_what_it_has_not_is_refused(link: Link) -> None:
    with pytest.raises(AssertionError, match="a link has no colour"):
        link.set(colour=1)
