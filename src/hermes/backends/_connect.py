"""Connecting to a guest's socket in a directory that the hostile side can write to."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import sys
from collections.abc import Callable

from hermes.errors import BackendError, HermesError, SandboxGone, Unreachable

CONNECT_SECONDS = 5


def connect_guest(
    run_dir: str, name: str, uid: int, met: Callable[[int], None] | None = None
) -> socket.socket:
    """Return a non-blocking socket that is connected to ``name`` in ``run_dir``. Blocks, for a few seconds
    at most.

    The directory must be one, not a link to one, of that user and with mode 0700; the socket must be one,
    not a link to one, and of that user; so must the process that serves it. Where the system allows, the
    connection is made to the very file that was looked at, so that swapping it meanwhile achieves nothing.
    The path may have any length.

    :param met: told the number of the process that serves it
    :raises SandboxGone: nobody serves a socket there
    :raises Unreachable: there is a socket, but its server does not accept
    :raises BackendError: code ``unsafe_socket``; one of these checks failed, and nothing was sent
    """
    if "/" in name or name in ("", ".", ".."):
        raise ValueError(f"{name!r} is not a file name")
    where = os.path.join(run_dir, name)
    try:
        directory = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise _gone(where) from error
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _unsafe(run_dir, "it is not a directory") from error
        raise _failed(where, error) from error
    try:
        facts = os.fstat(directory)
        if facts.st_uid != uid:
            raise _unsafe(run_dir, f"it belongs to user {facts.st_uid}, not {uid}")
        if facts.st_mode & 0o777 != 0o700:
            raise _unsafe(run_dir, f"its mode is {facts.st_mode & 0o777:04o}, not 0700")
        sock = _connect(directory, where, name, uid)
    finally:
        os.close(directory)
    try:
        peer = _peer(sock)
        if peer is not None and peer[1] != uid:
            raise _unsafe(where, f"user {peer[1]} serves it, not {uid}")
        if peer is not None and met is not None:
            met(peer[0])
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _connect(directory: int, where: str, name: str, uid: int) -> socket.socket:
    held: int | None = None
    try:
        if hasattr(os, "O_PATH") and os.path.isdir("/proc/self/fd"):
            held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
            facts = os.fstat(held)
            address = f"/proc/self/fd/{held}"
        else:
            facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
            address = where
        if not stat.S_ISSOCK(facts.st_mode):
            raise _unsafe(where, "it is not a socket")
        if facts.st_uid != uid:
            raise _unsafe(where, f"it belongs to user {facts.st_uid}, not {uid}")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # A blocking connect with a limit in the kernel: a non-blocking one fails at once when the
            # backlog is full.
            _limit(sock, CONNECT_SECONDS)
            sock.connect(address)
            _limit(sock, 0)
        except BaseException:
            sock.close()
            raise
        return sock
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ECONNREFUSED):
            raise _gone(where) from error
        if error.errno in (errno.EAGAIN, errno.ETIMEDOUT):
            raise Unreachable(
                f"the guest at {where} did not accept a connection within {CONNECT_SECONDS} s",
                reason="the guest does not answer",
                operation="attach",
            ) from error
        raise _failed(where, error) from error
    finally:
        if held is not None:
            os.close(held)


def _limit(sock: socket.socket, seconds: int) -> None:
    if sys.platform == "linux":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", seconds, 0))


def _peer(sock: socket.socket) -> tuple[int, int] | None:
    """Return process and user that listen at the other end, or None where the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    pid, uid, _ = struct.unpack("iIi", sock.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("iIi")))
    return pid, uid


def _gone(where: str) -> SandboxGone:
    return SandboxGone(
        f"no guest is listening at {where}", reason="the guest is not running", operation="attach"
    )


def _unsafe(path: str, why: str) -> HermesError:
    return BackendError(
        f"refused to connect to the guest: {path} cannot be trusted: {why}",
        code="unsafe_socket",
        operation="attach",
        hint="Something inside the sandbox may have put it there: look at it, or destroy the sandbox.",
        context={"path": path},
    )


def _failed(where: str, error: OSError) -> HermesError:
    return BackendError(
        f"cannot connect to the guest at {where}: {error.strerror or error}", operation="attach"
    )
