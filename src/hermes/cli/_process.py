"""What is around every command: standard descriptors, signals, and how a failure is reported."""

from __future__ import annotations

import io
import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

from hermes.errors import HermesError, exit_code

from ._report import FAILED, report, say


class Globals:
    """What was said before the command: ``hermes --sandbox B --debug COMMAND``."""

    def __init__(self, *, closed_stdin: bool = False) -> None:
        self.sandbox: str | None = None
        self.debug = False
        self.closed_stdin = closed_stdin


def whole(work: Callable[[Globals], Any], *, ends: bool) -> int:
    """Run what a command line asks for and return its exit code.

    :param work: returns the code, or anything else for 0
    :param ends: it is that of this process, which then ends here: a thread that waits for a reader of our
        output must not keep it
    """
    if ends:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.showwarning = _warned
    settings = Globals(closed_stdin=_occupy())
    if ends and isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # what a terminal of old cannot show
    try:
        code = _flush(_done(work, settings))
        if "hermes.telemetry" in sys.modules:
            sys.modules["hermes.telemetry"].flush()
    except KeyboardInterrupt:  # while the outcome of it was told
        code = 130
    if ends:
        os._exit(code)
    return code


def _done(work: Callable[[Globals], Any], settings: Globals) -> int:
    """Do the work, say what went wrong, and return the exit code."""
    code = FAILED
    try:
        result = work(settings)
        code = result if isinstance(result, int) else 0
    except HermesError as error:
        report(error, debug=settings.debug)
        code = exit_code(error)
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = 141
    except SystemExit as error:
        # click's own answer to a reader that has gone is 1, which says nothing.
        gone = isinstance(error.__context__, BrokenPipeError)
        code = 141 if gone else error.code if isinstance(error.code, int) else 0
    except OSError as error:
        report(_unwritten(error), debug=settings.debug)
    except Exception as error:
        report(error, debug=settings.debug)
    return code


def _warned(message: Warning | str, *where: Any, **more: Any) -> None:
    say(f"{message}.")


def _occupy() -> bool:
    """Open /dev/null on each standard descriptor that is closed; return whether stdin was.

    The next file or socket would get its number otherwise, and what is meant for a reader of ours would be
    written into it.
    """
    closed = []
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR if fd else os.O_RDONLY)
            closed.append(fd)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    return 0 in closed


def _flush(code: int) -> int:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            # The interpreter would complain at its end as well.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if isinstance(error, BrokenPipeError):
                code = code or 141
            elif not code:
                code = FAILED
                report(_unwritten(error), debug=False)
    return code


def _unwritten(error: OSError) -> HermesError:
    what = str(error.filename or "the output could not be written")
    return HermesError(f"{what}: {error.strerror or error}")
