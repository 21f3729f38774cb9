"""A network link with delay, loss, a rate and cuts, made in user space: kernels without netem have no other.

usage: python3 tests/_netlag.py --here ADDRESS --there ADDRESS --control SOCKET [--delay MS] COMMAND...

Runs COMMAND in a network namespace of its own, and joins that with this one by two TUN devices: packets
between them pass through this process. The link ends with COMMAND, and COMMAND with the link. Needs root;
prints "ready".

A line of JSON on the socket changes the link, `{}` changes nothing; the answer is how it is, and what passed.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
CLONE_NEWNET, PR_SET_PDEATHSIG = 0x40000000, 1
MTU = 1500
BURST = 256
libc = ctypes.CDLL(None, use_errno=True)


class Link:
    """Both directions of a link. A packet that gets through arrives in the order of sending."""

    def __init__(self, here: int, there: int, delay: float) -> None:
        self.state: dict[str, float | bool] = {
            "delay": delay,  # milliseconds, one way
            "jitter": 0.0,  # at most so many more or fewer
            "loss": 0.0,  # of each packet, 0 to 1
            "rate": 0.0,  # kilobits a second for each direction; 0 is no limit
            "cut": False,
        }
        self.counts = {"sent": 0, "received": 0, "packets": 0, "lost": 0}
        self._ways = {here: (there, "sent"), there: (here, "received")}
        self._random = random.Random(1)
        self._queue: list[tuple[float, int, int, bytes]] = []
        self._number = 0
        # When the sender's line is free again, and when the last packet arrives, for each way.
        self._free = dict.fromkeys(self._ways, 0.0)
        self._last = dict.fromkeys(self._ways, 0.0)

    @property
    def ends(self) -> list[int]:
        return list(self._ways)

    def set(self, wishes: dict[str, float | bool]) -> None:
        if unknown := wishes.keys() - self.state.keys():
            raise ValueError(f"a link has no {', '.join(sorted(unknown))}")
        self.state.update(wishes)

    def take(self, end: int) -> None:
        """Take what one end sends. Bytes are counted as sent, also those of packets that get lost."""
        out, word = self._ways[end]
        for _ in range(BURST):
            try:
                packet = os.read(end, 65536)
            except BlockingIOError:
                return
            self.counts[word] += len(packet)
            self.counts["packets"] += 1
            if self.state["cut"] or self._random.random() < self.state["loss"]:
                self.counts["lost"] += 1
                continue
            self._queue_up(out, packet)

    def _queue_up(self, out: int, packet: bytes) -> None:
        now = due = time.monotonic()
        if self.state["rate"]:
            due = self._free[out] = max(self._free[out], now) + len(packet) * 8 / (self.state["rate"] * 1000)
        jitter = self._random.uniform(-1, 1) * self.state["jitter"]
        due = self._last[out] = max(self._last[out], due + (self.state["delay"] + jitter) / 1000)
        self._number += 1
        heapq.heappush(self._queue, (due, self._number, out, packet))

    def deliver(self) -> float | None:
        """Hand over what has arrived, and return how long the next takes; None when nothing is on its way."""
        while self._queue:
            wait = self._queue[0][0] - time.monotonic()
            if wait > 0:
                return wait
            _, _, out, packet = heapq.heappop(self._queue)
            with contextlib.suppress(OSError):  # a full queue loses packets, as in any router
                os.write(out, packet)
        return None


def namespace(descriptor: int) -> None:
    """Enter a network namespace."""
    if libc.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def device(name: str, address: str, peer: str) -> int:
    """Make a TUN device in the namespace that this process is in."""
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    for command in (
        f"address add {address} peer {peer} dev {name}",
        f"link set {name} mtu {MTU} txqueuelen 2000 up",
    ):
        subprocess.run(["ip", *command.split()], check=True)
    return end


def _end_with_parent() -> None:
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def listen(path: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(8)
    return server


def answer(server: socket.socket, link: Link) -> None:
    """Serve one client, which must not keep packets waiting."""
    client, _ = server.accept()
    with client, contextlib.suppress(OSError):
        client.settimeout(0.2)
        try:
            link.set(json.loads(client.makefile().readline()))
            said = json.dumps({**link.state, **link.counts})
        except ValueError as error:
            said = json.dumps({"error": str(error)})
        client.sendall(said.encode() + b"\n")


def relay(link: Link, server: socket.socket, ended: Callable[[], bool]) -> None:
    wait: float | None = None
    while not ended():
        watched = [*link.ends, server.fileno()]
        ready, _, _ = select.select(watched, [], [], 1.0 if wait is None else min(wait, 1.0))
        for one in ready:
            if one == server.fileno():
                answer(server, link)
            else:
                link.take(one)
        wait = link.deliver()


def main() -> None:
    parser = argparse.ArgumentParser()
    for option in ("--here", "--there", "--control"):
        parser.add_argument(option, required=True)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()

    ours = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    there = device("lag0", given.there, given.here)
    # Nothing else runs in this process yet: the child stays in the namespace that its parent leaves.
    command = subprocess.Popen(given.command, preexec_fn=_end_with_parent)
    namespace(ours)
    here = device(f"lag{socket.inet_aton(given.here).hex()}", given.here, given.there)

    signal.signal(signal.SIGTERM, lambda number, frame: command.kill())
    server = listen(given.control)
    print("ready", flush=True)
    try:
        relay(Link(here, there, given.delay), server, lambda: command.poll() is not None)
    finally:
        command.kill()
        command.wait()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(given.control)


if __name__ == "__main__":
    main()
