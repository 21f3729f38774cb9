"""A byte channel over the stdin and stdout of a process on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes.config import environment
from hermes.errors import BackendError

from ._stream import HIGH_WATER, Channel, in_thread
from .base import Encoding

_PIPE_SIZE = 1 << 20
_STDERR_TAIL = 8 * 1024


class ProcessChannel(Channel):
    """A channel over the stdin and stdout of a process on this machine, such as a transport's client program.

    The last 8 KiB of its stderr are kept, and stand in the reason for which the channel closed.

    :param argv: the program and its arguments; never a shell line
    :param encoding: what passes unharmed
    :param env: the process's whole environment, None for our own without the password for sudo
    :param pass_fds: further descriptors that the process inherits
    :param new_session: start it in a session of its own, out of reach of the terminal's Ctrl-C; without one
        it can ask for a password on the terminal
    :param on_stderr: gets what arrives on stderr as well
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        encoding: Encoding = "binary",
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        pass_fds: Sequence[int] = (),
        new_session: bool = True,
        on_stderr: Callable[[bytes], None] | None = None,
        grace: float = 1.0,
    ) -> None:
        super().__init__()
        self.encoding: Encoding = encoding
        self._argv = list(argv)
        self._popen: dict[str, Any] = {
            "env": environment() if env is None else dict(env),
            "cwd": cwd,
            "pass_fds": tuple(pass_fds),
            "start_new_session": new_session,
        }
        self._new_session = new_session
        self._on_stderr = on_stderr
        self._grace = grace
        self._process: subprocess.Popen[bytes] | None = None
        self._exited = asyncio.Event()
        self._pidfd: int | None = None
        self._open_ends: set[str] = set()
        self._readers: list[asyncio.ReadTransport] = []
        self._opening = False
        self._timer: asyncio.TimerHandle | None = None
        self._tail = bytearray()

    @property
    def pid(self) -> int | None:
        """The process id, None before the start."""
        return None if self._process is None else self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code once the process has ended, minus the signal's number when one killed it."""
        return None if self._process is None else self._process.returncode

    @property
    def stderr_tail(self) -> str:
        """The last of what the process wrote on stderr."""
        return self._tail.decode("utf-8", "replace").strip()

    async def _open(self) -> None:
        process = self._process = await in_thread(self._spawn, _discard)
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        loop = asyncio.get_running_loop()
        self._opening = True
        self._watch(process, loop)
        try:
            self._open_ends.update(("stdin", "stdout", "stderr"))
            out = _Reader(self, "stdout", self._deliver)
            self._readers.append((await loop.connect_read_pipe(lambda: out, process.stdout))[0])
            err = _Reader(self, "stderr", self._note_stderr)
            self._readers.append((await loop.connect_read_pipe(lambda: err, process.stderr))[0])
            writer, _ = await loop.connect_write_pipe(lambda: _Writer(self), process.stdin)
            writer.set_write_buffer_limits(high=HIGH_WATER)
            if "stdin" in self._open_ends:
                self._writer = writer
        except BaseException:
            self._opening = False
            self._kill(signal.SIGKILL)
            self._release()
            raise
        # What ended meanwhile, or was closed, is dealt with now that there is nothing half connected.
        self._opening = False
        if self._closed or self._closing is not None:
            self._kill(signal.SIGKILL)
            self._release()
        elif self._exited.is_set() or len(self._open_ends) < 3:
            self._ending()

    def _spawn(self) -> subprocess.Popen[bytes]:
        program = self._argv[0] if self._argv else ""
        try:
            process = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                **self._popen,
            )
        except (OSError, ValueError, IndexError) as error:
            # The arguments may hold secrets, so only the program is named.
            what = (error.strerror if isinstance(error, OSError) else str(error)) or repr(error)
            missing = isinstance(error, FileNotFoundError)
            raise BackendError(
                f"cannot start '{program}': {what}",
                code="backend_unavailable" if missing else None,
                hint="Is it installed, and on the PATH?" if missing else None,
                context={"program": program},
            ) from error
        # Larger pipes mean fewer turns of the loop for each megabyte; the system may not grant them.
        set_size = getattr(fcntl, "F_SETPIPE_SZ", None)
        if set_size is not None:
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    fcntl.fcntl(pipe, set_size, _PIPE_SIZE)  # type: ignore[arg-type]
        return process

    def _watch(self, process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> None:
        """Arrange for ``_reap`` to be called when the process has ended."""
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(process.pid)
                loop.add_reader(self._pidfd, self._reap)
                return

        def wait() -> None:
            process.wait()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
                loop.call_soon_threadsafe(self._reap)

        threading.Thread(target=wait, name="hermes-wait", daemon=True).start()

    def _reap(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            return
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._exited.set()
        self._ending()

    def _ending(self) -> None:
        """One part of the process has ended: so has the channel, once the rest followed or had its time
        to."""
        if self._closed or self._closing is not None or self._opening:
            return
        over = self._exited.is_set() and "stdout" not in self._open_ends
        if over and "stderr" not in self._open_ends:
            self._finish()
            return
        if over and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            # What the process left behind may hold its pipes open for ever. Last words get less time than
            # data.
            self._timer = asyncio.get_running_loop().call_later(0.1 if over else self._grace, self._finish)

    def _finish(self) -> None:
        self._abort(self._why())

    def _why(self) -> str:
        program = os.path.basename(self._argv[0])
        code = self.returncode
        if code is None:
            what = f"{program} closed its end of the channel"
        elif code < 0:
            what = f"{program} was killed by signal {-code}"
        else:
            what = f"{program} ended with exit code {code}"
        return f"{what}: {self.stderr_tail}" if self._tail else what

    def _abort(self, reason: str) -> None:
        self._ended(reason)
        self._kill(signal.SIGKILL)
        self._release()

    async def _close(self) -> None:
        process = self._process
        if self._timer is not None:
            self._timer.cancel()
        try:
            if process is not None:
                if self._writer is not None:
                    self._writer.close()  # what is queued still goes out, then the process reads the end
                for number, patience in ((None, self._grace), (signal.SIGTERM, 0.5), (signal.SIGKILL, 2.0)):
                    if number is not None:
                        self._kill(number)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(patience):
                            await self._exited.wait()
                            break
        finally:
            self._kill(signal.SIGKILL)
            self._ended(None)
            self._release()

    def _kill(self, number: int) -> None:
        # Only while the process is not reaped, so that the number cannot have passed to another one.
        if self._process is None or self._process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._new_session:
                os.killpg(self._process.pid, number)
            else:
                os.kill(self._process.pid, number)

    def _release(self) -> None:
        if self._opening:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        connected = len(self._readers) + (self._writer is not None or "stdin" not in self._open_ends)
        if self._writer is not None:
            # A close that is under way ends by itself, and asyncio stumbles over an abort on top; one that
            # waits for the process to read would not.
            if not self._writer.is_closing() or self._writer.get_write_buffer_size():
                self._writer.abort()
            self._writer = None
        for reader in self._readers:
            reader.close()
        self._readers = []
        if self._process is not None and connected < 3:
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def _note_stderr(self, data: bytes) -> None:
        self._tail += data
        if len(self._tail) > _STDERR_TAIL:
            del self._tail[:-_STDERR_TAIL]
        if self._on_stderr is not None:
            self._on_stderr(data)

    def _end_lost(self, name: str) -> None:
        self._open_ends.discard(name)
        if name != "stderr" or self._timer is not None:
            self._ending()


class _Reader(asyncio.Protocol):
    def __init__(self, channel: ProcessChannel, name: str, receive: Callable[[bytes], None]) -> None:
        self._channel, self._name = channel, name
        self._receive = receive

    def data_received(self, data: bytes) -> None:
        self._receive(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._channel._end_lost(self._name)


class _Writer(asyncio.BaseProtocol):
    def __init__(self, channel: ProcessChannel) -> None:
        self._channel = channel

    def pause_writing(self) -> None:
        self._channel._writable.clear()

    def resume_writing(self) -> None:
        self._channel._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._channel._writable.set()
        # asyncio's transport fails when it is aborted after its end.
        self._channel._writer = None
        self._channel._end_lost("stdin")


def _discard(process: subprocess.Popen[bytes]) -> None:
    """End a process that nobody waits for any more."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    threading.Thread(target=process.wait, name="hermes-wait", daemon=True).start()
