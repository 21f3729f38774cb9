"""The process between a client and the guest. It is loaded first: where a guest runs, no more is needed."""

import json
import os
import select
import socket
import stat
import struct
import sys
from typing import Any, Dict, List, Optional

from .dirs import SOCKET, is_private, own_dirs, run_dirs

MARKER = b"HERMES-GUEST "
NOTHING_LEFT = 57  # exit code of a relay whose guest has removed itself and all that was the sandbox's


def attach(options: Dict[str, Any], skip: int) -> bool:
    """Relay to the guest that runs already, until either end closes; False when none does.

    *skip* bytes of the client's are for whoever starts a guest. A client that was not sure whether one runs
    sends them when it is told so.
    """
    places: List[str] = []
    if options.get("relay", True):
        places = run_dirs(options["id"]) if options.get("host") else [options.get("run_dir") or ""]
    for run_dir in places:
        path = "%s/%s" % (run_dir, SOCKET)
        if len(path) > 100:  # a socket's path may have 107 bytes only
            continue
        peer = socket.socket(socket.AF_UNIX)
        try:
            if not (is_private(os.path.dirname(run_dir)) and is_private(run_dir)):
                raise PermissionError(run_dir)
            peer.connect(path)
        except OSError:
            peer.close()
            continue
        serve(dict(options, run_dir=run_dir), peer, 0 if options.get("asks") else skip)
        return True
    if options.get("asks"):
        tell({"starts": True})
    return False


def serve(options: Dict[str, Any], peer: socket.socket, size: int, late: Optional[int] = None) -> None:
    """Announce the guest and relay to it; on a host, say by the exit code when it has left nothing.

    The client's first *size* bytes are no frames: they are written to *late*, where it is given.
    """
    if not options.get("relay", True):
        while late is not None and size:
            data = os.read(0, min(size, 1 << 16))
            if not data:
                break
            size = _write_late(late, data, size)
        announce(options)
        return
    hands = bool(options.get("host")) and all(map(is_stream, (0, 1)))
    if hands:
        announce(options)  # before the guest can write there
        hand_over(peer, 1)
    try:
        peer.sendall(options.get("greeting", "").encode("latin-1"))
    except OSError:
        pass  # which is found out below
    if not hands:
        announce(options)
    by_guest = relay(peer, size, late, hands)
    if by_guest and options.get("host") and not any(map(os.path.lexists, own_dirs(options["id"]))):
        os._exit(NOTHING_LEFT)


def announce(options: Dict[str, Any]) -> None:
    """Tell the client that the guest is there, one line after the marker."""
    tell({"run_dir": options["run_dir"], "python": sys.version.split()[0], "boot": boot_id()})


def boot_id() -> str:
    """Return what tells this start of the machine from every other one, empty where the system does not."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def tell(answer: Dict[str, Any]) -> None:
    os.write(1, MARKER + json.dumps(answer).encode() + b"\n")


def _write_late(late: int, data: Any, size: int) -> int:
    """Write what is left of *size* bytes or a part of that, and return how many are missing then."""
    size -= len(data)
    while data:
        data = data[os.write(late, data) :]
    if not size:
        os.close(late)
    return size


def is_stream(fd: int) -> bool:
    """Return whether it is a pipe or a socket: no terminal and no file, which are others' too."""
    kind = os.fstat(fd).st_mode
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)


def hand_over(peer: socket.socket, fd: int) -> None:
    """Have the guest itself read our stdin from here on, or write our stdout: a hop less for each command."""
    right = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))
    try:
        peer.sendmsg([b"%d" % fd], [right])
    except OSError:
        pass  # it has gone, which is found out where it is read from


def relay(peer: socket.socket, size: int, late: Optional[int], hands: bool = False) -> bool:
    """Copy bytes between our stdio and the guest until either end closes; whether it was the guest's.

    With *hands* it has our stdout already, and gets our stdin after the first *size* bytes.
    """
    there = peer.fileno()
    waiting = {0: there, there: 1}  # from: to
    poll = select.poll()
    for fd in waiting:
        poll.register(fd, select.POLLIN)
    while True:
        if hands and not size:
            hands = False
            poll.unregister(0)
            hand_over(peer, 0)
        for fd, _ in poll.poll():
            try:
                data = os.read(fd, 1 << 18)
                view = memoryview(data)
                if size and fd == 0:
                    first, view = view[:size], view[size:]
                    size = size - len(first) if late is None else _write_late(late, first, size)
                while view:
                    view = view[os.write(waiting[fd], view) :]
            except BlockingIOError:  # the guest's doing, where stdin and stdout are one socket
                continue
            except OSError:
                data = b""
            if not data:
                return fd == there
