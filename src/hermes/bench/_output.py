"""Long output, measured in a process of its own, so that its peak memory is that of the output alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from hermes.config import Config
from hermes.sandbox import Sandbox

CHILD = "from hermes.bench import _output; _output.main()"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Write ``size`` bytes in a sandbox or, with ``argv``, in a process whose output is kept in memory."""

    size: int
    backend: str | None = None
    options: dict[str, Any] = {}
    argv: list[str] | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What it took. Memory in bytes: what the host's and the guest's peaks rose by, and the guest's peak."""

    seconds: float
    bytes: int
    complete: bool
    host_extra: int
    guest_extra: int | None = None
    guest_peak: int | None = None


def command(size: int) -> str:
    """Return the command that writes so many bytes."""
    return f"head -c {size} /dev/zero"


def measure(request: Request) -> Outcome:
    """Measure in a fresh process; blocking."""
    argv = [sys.executable, "-c", CHILD, msgspec.json.encode(request).decode()]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Outcome)


def _reset_peak() -> None:
    # 5 resets the high-water mark of the resident set (proc(5)).
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", "ascii")


def _peak() -> int:
    """Return the most memory that this process has had, in bytes."""
    # Not ru_maxrss where it can be helped: across fork and exec it keeps the parent's peak.
    try:
        status = Path("/proc/self/status").read_text("utf-8")
    except OSError:
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return used if sys.platform == "darwin" else used * 1024
    return peak_of(status) or 0


def peak_of(status: str) -> int | None:
    """Return the peak that the text of a /proc/PID/status names, in bytes."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.M)
    return int(found.group(1)) * 1024 if found else None


def _plain(request: Request) -> Outcome:
    assert request.argv is not None
    _reset_peak()
    before, start = _peak(), time.perf_counter()
    done = subprocess.run(request.argv, capture_output=True, check=True)
    seconds = time.perf_counter() - start
    size = len(done.stdout)
    return Outcome(seconds=seconds, bytes=size, complete=size == request.size, host_extra=_peak() - before)


async def _hermes(request: Request) -> Outcome:
    options = dict(request.options)
    if "config" in options:
        options["config"] = msgspec.convert(options["config"], Config)
    async with Sandbox(request.backend, **options) as box:
        pid = int(box._channel.guest["pid"])

        async def guest_peak() -> int | None:
            return peak_of((await box.run(f"cat /proc/{pid}/status")).text)

        guest_before = await guest_peak()
        _reset_peak()
        before, start = _peak(), time.perf_counter()
        result = await box.run(command(request.size))
        seconds = time.perf_counter() - start
        extra = _peak() - before
        guest_after = await guest_peak()
        kept = 0
        if result.spill is not None:
            # Counted by another program, inside: what the guest says of its own file is no proof.
            kept = int((await box.run(["wc", "-c", result.spill.path])).text.split()[0])
        else:
            kept = len(result.stdout)
        return Outcome(
            seconds=seconds,
            bytes=kept,
            complete=result.exit_code == 0 and kept == request.size,
            host_extra=extra,
            guest_extra=guest_after - guest_before if guest_after and guest_before else None,
            guest_peak=guest_after,
        )


def main() -> None:
    """Take the request from the last argument and write the outcome to stdout, both as JSON."""
    request = msgspec.json.decode(sys.argv[1], type=Request)
    outcome = _plain(request) if request.argv is not None else asyncio.run(_hermes(request))
    json.dump(msgspec.to_builtins(outcome), sys.stdout)
