"""The measurements of ``hermes bench``."""

from __future__ import annotations

import asyncio
import functools
import secrets
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermes.errors import HermesError
from hermes.sandbox import Sandbox

from . import _output
from ._model import Report, Row, load, machine

if TYPE_CHECKING:
    from hermes.backends.base import Backend

Progress = Callable[[str], None]
Plain = Callable[[str], list[str]]

WARM_UP = 20
AT_ONCE = 20
OUTPUT = 100_000_000
IN_A_ROW = 25
SHORT = (
    ("true", "true", "true", IN_A_ROW),
    ("/bin/true", "/bin/true", "/bin/true", IN_A_ROW),
    # with another process before each run, nothing is warm
    ("true_alone", "true", "true, one at a time", 1),
)


async def run_bench(
    backend: str | None = None,
    *,
    runs: int = 500,
    progress: Progress | None = None,
    options: Mapping[str, Any] | None = None,
) -> Report:
    """Measure in sandboxes of its own, which are gone afterwards; the machine should be quiet.

    :param backend: the place's name, None for the configured one
    :param runs: repetitions of each short command; what takes longer is repeated less
    :param progress: called with the name of each part when it begins
    :param options: the sandbox's further options, such as its image
    :raises HermesError: a command did not do what it must, or the place failed
    """
    say = progress or (lambda text: None)
    more = dict(options or {})
    few = max(3, min(10, runs // 50))
    before = machine()
    rows: list[Row] = []
    async with Sandbox(backend, **more) as box:
        plain = plain_way(box._place)
        backend = box.backend
        for key, command, label, block in SHORT:
            say(f"{label}, {runs} times")
            ours, theirs = await time_turns(box, command, plain, runs, block=block)
            rows.append(Row.of(key, label, ours, theirs))
        say(f"{AT_ONCE} commands at once")
        rows.append(await _at_once(box, plain, few))
    say("cold start")
    rows.insert(0, await _cold(backend, more, plain if backend == "local" else None, few))
    say("attach")
    rows.insert(1, await _attach(backend, more, plain, few))
    say(f"{OUTPUT // 1_000_000} MB of output")
    rows += await asyncio.to_thread(_long_output, backend, more, plain)
    return Report(
        backend=backend,
        plain=_shown(plain),
        taken=round(time.time(), 3),
        machine=before,
        load_after=load(),
        rows=rows,
    )


def plain_way(place: Backend | None) -> Plain | None:
    """Return what makes the argv of a process that runs a command in an open place; None when not known."""
    if place is None or place.plain_argv("true") is None:
        return None
    return lambda command: list(place.plain_argv(command) or ())


def _shown(plain: Plain | None) -> str:
    return " ".join(plain("COMMAND")) if plain is not None else ""


async def time_turns(
    box: Sandbox, command: str, plain: Plain | None, runs: int, *, block: int, session: str | None = None
) -> tuple[list[float], list[float]]:
    """Time a command in a session and the plain way, in turns of *block* runs; return the seconds of each."""
    # In turns and not one whole after the other: what disturbs the machine disturbs both alike.
    ours: list[float] = []
    theirs: list[float] = []
    argv = plain(command) if plain is not None else None

    async def take_ours() -> None:
        start = time.perf_counter()
        result = await box.run(command, session=session)
        ours.append(time.perf_counter() - start)
        _must(result.exit_code == 0, command, result.exit_code)

    for _ in range(WARM_UP):
        await take_ours()
    ours.clear()
    while len(ours) < runs:
        turn = min(block, runs - len(ours))
        for _ in range(turn):
            await take_ours()
        if argv is not None:
            theirs += [_once(argv) for _ in range(turn)]
    return ours, theirs


def _once(argv: Sequence[str]) -> float:
    # It blocks the loop on purpose: a hop to a thread and back would be measured with it.
    start = time.perf_counter()
    done = subprocess.run(argv)
    took = time.perf_counter() - start
    _must(done.returncode == 0, " ".join(argv), done.returncode)
    return took


def _must(held: bool, command: str, code: object) -> None:
    if not held:
        raise HermesError(
            f"'{command}' ended with {code} while it was measured",
            code="bench_failed",
            operation="bench",
            hint="Nothing is known about the place's speed: see first why that command fails there.",
        )


async def _cold(backend: str, options: Mapping[str, Any], plain: Plain | None, runs: int) -> Row:
    ours, theirs = [], []
    for _ in range(runs):
        start = time.perf_counter()
        async with Sandbox(backend, **options) as box:
            await box.run("true")
            ours.append(time.perf_counter() - start)
        if plain is not None:
            theirs.append(_once(plain("true")))
    return Row.of("cold_start", "cold start to first result", ours, theirs)


async def _attach(backend: str, options: Mapping[str, Any], plain: Plain | None, runs: int) -> Row:
    ours, theirs = [], []
    name = f"bench-{secrets.token_hex(4)}"
    first = await Sandbox(backend, name=name, **options).open()
    try:
        await first.run("true")
        for _ in range(runs):
            start = time.perf_counter()
            async with Sandbox(backend, name=name, **options) as box:
                await box.run("true")
                ours.append(time.perf_counter() - start)
            if plain is not None:
                theirs.append(_once(plain("true")))
    finally:
        await first.destroy()
    return Row.of("attach", "attach to first result", ours, theirs)


async def _at_once(box: Sandbox, plain: Plain | None, runs: int) -> Row:
    ours, theirs = [], []
    shells = [await box.shell() for _ in range(AT_ONCE)]
    for turn in range(-1, runs):
        start = time.perf_counter()
        results = await asyncio.gather(*(shell.run("true") for shell in shells))
        took = time.perf_counter() - start
        _must(all(not result.exit_code for result in results), "true", "another code than 0")
        if turn >= 0:
            ours.append(took)
            if plain is not None:
                theirs.append(_many(plain("true")))
    for shell in shells:
        await shell.close()
    return Row.of("at_once", f"{AT_ONCE} at once, all results", ours, theirs)


def _many(argv: Sequence[str]) -> float:
    start = time.perf_counter()
    running = [subprocess.Popen(argv) for _ in range(AT_ONCE)]
    codes = [process.wait() for process in running]
    took = time.perf_counter() - start
    _must(not any(codes), " ".join(argv), codes)
    return took


def _long_output(backend: str, options: Mapping[str, Any], plain: Plain | None, runs: int = 3) -> list[Row]:
    ours, theirs = [], []
    request = functools.partial(_output.Request, size=OUTPUT)
    for _ in range(runs):
        ours.append(_output.measure(request(backend=backend, options=dict(options))))
        if plain is not None:
            theirs.append(_output.measure(request(argv=plain(_output.command(OUTPUT)))))
    size = f"{OUTPUT // 1_000_000} MB"
    peaks = [one.guest_peak for one in ours if one.guest_peak is not None]
    rises = [one.guest_extra for one in ours if one.guest_extra is not None]
    rows = [
        Row.of(
            "output",
            f"{size} of output",
            [one.seconds for one in ours],
            [one.seconds for one in theirs],
            complete=all(one.complete for one in ours),
            bytes_kept=min(one.bytes for one in ours),
        ),
        Row.of(
            "rate",
            "its rate (more is better)",
            [OUTPUT / statistics.median(one.seconds for one in ours)],
            [OUTPUT / statistics.median(one.seconds for one in theirs)] if theirs else None,
            unit="B/s",
        ),
        Row.of(
            "host_memory",
            "its extra memory, host",
            [float(one.host_extra) for one in ours],
            [float(one.host_extra) for one in theirs],
            unit="B",
        ),
    ]
    if peaks and rises:
        rows.append(
            Row.of(
                "guest_memory",
                "its extra memory, guest",
                [float(one) for one in rises],
                unit="B",
                peak_in_bytes=max(peaks),
            )
        )
    return rows
