"""A lock between processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from pathlib import Path
from types import TracebackType

from .errors import HermesError


class Lock:
    """A lock that one process holds at a time, and that the system frees when the process dies.

    ``release`` may be called from any thread, while ``acquire`` still waits in another one too: the lock is
    then not held afterwards, whichever of the two came first.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._fd: int | None = None
        self._given_up = False
        self._mutex = threading.Lock()

    def acquire(self) -> None:
        """Wait for the lock.

        :raises HermesError: code ``state_busy``; another process kept it for the whole timeout
        """
        deadline = time.monotonic() + self._timeout
        pause = 0.002
        while True:
            with self._mutex:
                if self._given_up:
                    return
                try:
                    if self._try():
                        return
                except OSError as error:
                    raise HermesError(
                        f"cannot lock {self._path}: {error.strerror or error}; nothing was changed",
                        code="state_unwritable",
                        context={"path": str(self._path)},
                    ) from error
            if time.monotonic() >= deadline:
                raise HermesError(
                    f"another hermes process has held {self._path} for {self._timeout:g} s; nothing changed",
                    code="state_busy",
                    retryable=True,
                    hint="Wait for it to finish, or end it.",
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)

    def _try(self) -> bool:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The holder before us removes the file as it leaves: a lock on a removed file keeps nobody out.
            ours, there = os.fstat(fd), os.stat(self._path, follow_symlinks=False)
            if (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino):
                self._fd = fd
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        return False

    def release(self) -> None:
        """Free the lock, or give up waiting for it. Does nothing the second time."""
        with self._mutex:
            self._given_up = True
            if self._fd is not None:
                with contextlib.suppress(OSError):
                    os.unlink(self._path)
                os.close(self._fd)
                self._fd = None

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
