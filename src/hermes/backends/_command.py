"""Running a client program of a place to its end: docker, apptainer, sbatch."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Literal

from hermes.config import environment
from hermes.errors import BackendError, Unreachable

from ._stream import in_thread

__all__ = ["Done", "run_client"]

_ESCAPES = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Done:
    """How a client program ended. *code* is minus the signal's number when one killed it."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """What it printed, on one line that fits an error text: stderr, else stdout."""
        text = " ".join((self.err.strip() or self.out.strip()).split())
        return text if len(text) <= 600 else f"{text[:290]} ... {text[-290:]}"


async def run_client(
    argv: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    on_line: Callable[[str], None] | None = None,
    terminal: Literal["out", "err"] | None = None,
    cwd: str | None = None,
) -> Done:
    """Run a program and return how it ended. It is killed, with what it started, when nobody waits any more.

    :param argv: the program and its arguments; never a secret
    :param timeout: seconds
    :param on_line: gets each line that it prints, on either stream, as it comes
    :param terminal: the stream that is a terminal for it, so that it tells how far it is; needs *on_line*
    :raises BackendError: code ``backend_unavailable``; there is no such program, or it cannot be started
    :raises Unreachable: it did not end in time; what it was asked to do may have happened
    """
    program = os.path.basename(argv[0])
    try:
        process = await in_thread(lambda: _start(argv, env, terminal, cwd), _abandon)
    except OSError as error:
        raise BackendError(
            f"cannot start '{program}': {error.strerror or error}",
            code="backend_unavailable",
            hint="Is it installed, and on the PATH?",
            context={"program": program},
        ) from error
    loop = asyncio.get_running_loop()
    told = None if on_line is None else lambda line: loop.call_soon_threadsafe(on_line, line)
    try:
        async with asyncio.timeout(timeout):
            return await in_thread(lambda: _wait(process, stdin, told), lambda _: None)
    except TimeoutError:
        raise Unreachable(
            f"'{program} {argv[1] if len(argv) > 1 else ''}' did not answer within {timeout:g} s",
            reason=f"{program} does not answer",
            context={"program": program},
        ) from None
    finally:
        if process.returncode is None:
            _kill(process)


def _start(
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    terminal: Literal["out", "err"] | None,
    cwd: str | None,
) -> subprocess.Popen[bytes]:
    ours, theirs = pty.openpty() if terminal else (-1, subprocess.PIPE)
    try:
        if terminal:
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=theirs if terminal == "out" else subprocess.PIPE,
            stderr=theirs if terminal == "err" else subprocess.PIPE,
            env=environment() if env is None else dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except BaseException:
        if terminal:
            os.close(ours)
        raise
    finally:
        if terminal:
            os.close(theirs)
    if terminal == "out":
        process.stdout = open(ours, "rb", buffering=0)  # noqa: SIM115
    elif terminal == "err":
        process.stderr = open(ours, "rb", buffering=0)  # noqa: SIM115
    return process


def _wait(
    process: subprocess.Popen[bytes], stdin: bytes | None, told: Callable[[str], object] | None
) -> Done:
    if told is None:
        out, err = process.communicate(stdin)
        return Done(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdin.close()
    lines: dict[str, list[str]] = {"out": [], "err": []}

    def follow(name: str, stream: Iterable[bytes]) -> None:
        for raw in stream:
            line = raw.decode("utf-8", "replace")
            lines[name].append(line)
            told(line.rstrip())

    other = threading.Thread(target=follow, args=("err", _lines(process.stderr)), daemon=True)
    other.start()
    follow("out", _lines(process.stdout))
    other.join()
    code = process.wait()
    process.stdout.close()
    process.stderr.close()
    return Done(code, "".join(lines["out"]), "".join(lines["err"]))


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a pipe. From a terminal each state of a line that is written over counts as one."""
    if not stream.isatty():
        yield from stream
        return
    rest = b""
    while True:
        try:
            data = os.read(stream.fileno(), 65536)
        except OSError:  # nobody has the other end any more
            data = b""
        *whole, rest = re.split(rb"[\r\n]+", _ESCAPES.sub(b"", rest + data))
        yield from (line + b"\n" for line in (whole if data else [*whole, rest]) if line)
        if not data:
            return


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the program and its children; the thread that reads from it then comes to its end."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    threading.Thread(target=process.wait, name="hermes-wait", daemon=True).start()


def _abandon(process: subprocess.Popen[bytes]) -> None:
    """End a program that nobody has begun to read from."""
    _kill(process)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
