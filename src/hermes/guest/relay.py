"""The process between a client and the guest. It is loaded first: where a guest runs, no more is needed."""

import json
import os
import select
import socket
import sys
from typing import Any, Dict

from .dirs import SOCKET, is_private

MARKER = b"HERMES-GUEST "


def attach(options: Dict[str, Any]) -> bool:
    """Relay to the guest that runs already, until either end closes; False when none does."""
    run_dir = options.get("run_dir") or ""
    path = "%s/%s" % (run_dir, SOCKET)
    if not options.get("relay", True) or len(path) > 100:  # a socket's path may have 107 bytes only
        return False
    peer = socket.socket(socket.AF_UNIX)
    try:
        if not (is_private(os.path.dirname(run_dir)) and is_private(run_dir)):
            raise PermissionError(run_dir)
        peer.connect(path)
    except OSError:
        peer.close()
        return False
    announce(options)
    relay(peer)
    return True


def announce(options: Dict[str, Any]) -> None:
    """Tell the client that the guest is there, one line after the marker."""
    tell({"run_dir": options["run_dir"], "python": sys.version.split()[0]})


def tell(answer: Dict[str, Any]) -> None:
    os.write(1, MARKER + json.dumps(answer).encode() + b"\n")


def relay(peer: socket.socket) -> None:
    """Copy bytes between our stdio and the guest until either end closes."""
    there = peer.fileno()
    waiting = {0: there, there: 1}  # from: to
    poll = select.poll()
    for fd in waiting:
        poll.register(fd, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            try:
                data = os.read(fd, 1 << 18)
                view = memoryview(data)
                while view:
                    view = view[os.write(waiting[fd], view) :]
            except OSError:
                data = b""
            if not data:
                return
