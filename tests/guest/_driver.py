"""A guest in a process of its own, spoken to synchronously through the real frames: no host channel."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.guest import frames
from hermes.guest.link import Flow, Link

GUEST = Path(frames.__file__).parent

# The package is imported under another name and without its parent, which is not for old interpreters.
SERVE = """
import os, signal, socket, sys, types
package = types.ModuleType("guest_under_test")
package.__path__ = [sys.argv[1]]
sys.modules["guest_under_test"] = package
sys.dont_write_bytecode = True
from guest_under_test import files, glob, ports, tree
from guest_under_test.proc import reap
from guest_under_test.server import Guest
listener = socket.socket(fileno=int(sys.argv[2]))
guest = Guest({"run_dir": sys.argv[3], "state_dir": sys.argv[3], "cwd": sys.argv[4]})
if sys.argv[5] == "reaped":
    wake, wake_in = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_in, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_in)
    guest.loop.add_reader(wake, lambda: (os.read(wake, 4096), reap()))
guest.serve(listener)
"""


class OpFailed(Exception):
    """The guest answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: str = error["code"]
        self.message: str = error["message"]
        self.context: dict[str, Any] = error.get("context") or {}


class Driver:
    """One guest and one client of it.

    :param cwd: the guest's default directory
    :param python: interpreter of the guest
    :param codec: ``binary`` or ``text``
    :param reaped: whether the guest collects its children as the real one does
    """

    def __init__(
        self, cwd: Path, *, python: str = sys.executable, codec: str = "binary", reaped: bool = True
    ) -> None:
        self._dir = tempfile.TemporaryDirectory(prefix="guest-")
        self.path = str(Path(self._dir.name) / "sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(8)
        mode = "reaped" if reaped else "unreaped"
        argv = [python, "-c", SERVE, str(GUEST), str(listener.fileno()), self._dir.name, str(cwd), mode]
        self.process = subprocess.Popen(argv, pass_fds=[listener.fileno()])
        listener.close()
        self.client = uuid.uuid4().hex
        self.codec: Any = frames.Binary() if codec == "binary" else frames.Text()
        self.link = Link(self.codec.chunk)
        self.streams: dict[int, Stream] = {}
        self._next = 0
        self.connect()

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> dict[str, Any]:
        """Connect, or connect again; return the guest's greeting."""
        self.codec = type(self.codec)()
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self.path)
        self._greeting: dict[str, Any] | None = None
        hello = {"protocol": 1, "client": self.client, "seen": self.link.seen}
        self.sock.sendall(self.codec.encode(frames.HELLO, 0, 0, 0, 0, frames.pack(hello)))
        while self._greeting is None:
            self._receive()
        self.link.connect(self.codec, self._greeting["seen"])
        self._flush()
        return self._greeting

    def disconnect(self) -> None:
        self.sock.close()
        self.link.disconnect()

    def close(self) -> None:
        """End the guest and see that it ends by itself."""
        try:
            with contextlib.suppress(ConnectionError):
                self.call("shutdown")
            self.process.wait(10)
        finally:
            self.sock.close()
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self._dir.cleanup()

    def call(self, op: str, raw: bytes = b"", **args: Any) -> tuple[dict[str, Any], bytes]:
        """Make a call and return its answer's object and bytes.

        :raises OpFailed: the answer is an error
        """
        return self.open(op, raw, **args).reply()

    def open(self, op: str, raw: bytes = b"", **args: Any) -> Stream:
        """Make a call whose stream is used before its answer comes."""
        self._next += 1
        stream = self.streams[self._next] = Stream(self, self._next)
        self.link.send(frames.CALL, self._next, frames.pack({"op": op, **args}, raw))
        self._flush()
        return stream

    def collect(self, op: str, **args: Any) -> tuple[dict[str, Any], bytes]:
        """Make a call and return its answer with all bytes, streamed or not."""
        stream = self.open(op, **args)
        body, raw = stream.reply()
        return body, b"".join(data for _, data in stream.held) + raw

    def fds(self) -> list[str]:
        """Return what the guest's descriptors point at."""
        folder = f"/proc/{self.process.pid}/fd"
        return [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]

    def children(self) -> list[int]:
        """Return the guest's children, the dead ones too."""
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in text.split()]

    def rss(self, field: str = "VmRSS") -> int:
        """Return the guest's memory in bytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.partition(f"{field}:")[2].split()[0]) * 1024

    def step(self) -> None:
        """Take in what the guest sends next."""
        self._receive()
        self._flush()

    def _flush(self) -> None:
        out, self.link.out = self.link.out, []
        if out:
            self.sock.sendall(b"".join(out))

    def _receive(self) -> None:
        data = self.sock.recv(1 << 20)
        if not data:
            raise ConnectionError("the guest closed the connection")
        for frame in self.codec.feed(data):
            if frame[0] == frames.HELLO:
                self._greeting = frames.unpack(frame[5])[0]
                continue
            message = self.link.receive(frame)
            if message is None:
                continue
            kind, chan, ident, _, _, body = message
            stream = self.streams.get(ident)
            if stream is not None:
                stream.take(kind, chan, body)


class Stream:
    """The client's end of one call."""

    def __init__(self, driver: Driver, ident: int) -> None:
        self.driver = driver
        self.id = ident
        self.flow = Flow(driver.link, ident)
        self.held: deque[tuple[int, bytes]] = deque()
        self.ended = False
        self.answer: tuple[int, bytes] | None = None

    def take(self, kind: int, chan: int, body: bytes) -> None:
        if kind == frames.DATA:
            self.flow.received(len(body))
            self.held.append((chan, body))
        elif kind == frames.EOF:
            self.ended = True
        elif kind == frames.CREDIT:
            self.flow.granted(body)
        elif kind == frames.REPLY:
            self.answer = chan, body
            del self.driver.streams[self.id]

    def send(self, data: bytes, chan: int = 0) -> bool:
        """Send bytes as credit comes; False when the call was answered before all were sent."""
        view = memoryview(data)
        while view and self.answer is None:
            room = min(self.flow.credit, self.driver.link.chunk)
            if room:
                self.flow.send(bytes(view[:room]), chan)
                view = view[room:]
                self.driver._flush()
            else:
                self.driver.step()
        return not view

    def eof(self) -> None:
        self.driver.link.send(frames.EOF, self.id)
        self.driver._flush()

    def cancel(self) -> None:
        self.driver.link.send(frames.CANCEL, self.id)
        self.driver._flush()
        self.driver.streams.pop(self.id, None)

    def read(self) -> bytes | None:
        """Return the next bytes and give their credit back; None at the end."""
        while not self.held:
            if self.ended or self.answer is not None:
                return None
            self.driver.step()
        data = self.held.popleft()[1]
        self.flow.grant(len(data))
        self.driver._flush()
        return data

    def reply(self) -> tuple[dict[str, Any], bytes]:
        """Return the answer; data that comes before it is kept in *held*, with its credit given back.

        :raises OpFailed: the answer is an error
        """
        granted = len(self.held)
        while self.answer is None:
            self.driver.step()
            for _, data in list(self.held)[granted:]:
                self.flow.grant(len(data))
            granted = len(self.held)
            self.driver._flush()
        chan, body = self.answer
        answer, raw = frames.unpack(body)
        if chan:
            raise OpFailed(answer)
        return answer, raw


def wait_until(condition: Any, seconds: float = 20.0) -> None:
    """Wait until *condition* holds; an AssertionError when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.01)


@contextlib.contextmanager
def small_disk(tmp_path: Path, size: str = "1m") -> Iterator[Path]:
    """A file system of that size; the test is skipped where none can be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
