"""The same command in plain bash and through hermes: the same bytes and exit code, or what is different.

Nothing is normalised. Two plain runs say what varies by itself (times, pids, names of temporary files): lines
that are not the same in both are not compared. What remains different is tried again with a further plain
run, since two runs may agree by chance in what varies; only a difference that stays through all tries counts.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes import Result, Sandbox

TRIES = 4
LIMIT = 32 << 20


@dataclass(frozen=True)
class Outcome:
    """What came of a command. ``files`` are the contents of those that were asked for."""

    code: int
    stdout: bytes
    stderr: bytes
    files: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Case:
    """A command, where it runs, what prepares the directory before each run, and the files that it makes."""

    command: str
    cwd: Path
    prepare: Callable[[], None] = lambda: None
    files: Sequence[str] = ()
    timeout: float = 60.0

    def gathered(self, code: int, stdout: bytes, stderr: bytes) -> Outcome:
        made = tuple((self.cwd / name).read_bytes() for name in self.files if (self.cwd / name).exists())
        return Outcome(code, stdout, stderr, made)


def _plain(case: Case) -> Outcome:
    case.prepare()
    done = subprocess.run(
        ["bash", "-c", case.command],
        cwd=case.cwd,
        env=dict(os.environ, PWD=str(case.cwd)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        timeout=case.timeout,
    )
    return case.gathered(
        done.returncode if done.returncode >= 0 else 128 - done.returncode, done.stdout, done.stderr
    )


@dataclass(frozen=True)
class Comparison:
    """What the ways did otherwise, in words; what a plain run did; how many tries it took in all."""

    differences: list[str]
    plain: Outcome
    tries: int


Way = Callable[[Sandbox, Case], Awaitable[Result]]


async def in_shell_of_its_own(box: Sandbox, case: Case) -> Result:
    return await box.exec(case.command, cwd=str(case.cwd), timeout=case.timeout, max_output=LIMIT)


async def in_new_session(box: Sandbox, case: Case) -> Result:
    shell = await box.shell(cwd=str(case.cwd))
    try:
        result = await shell.run(case.command, timeout=case.timeout, max_output=LIMIT)
        # Whatever it did to the shell, the session goes on.
        assert (await shell.run("builtin true", timeout=10)).exit_code == 0
        return result
    finally:
        await shell.close()


async def compared(box: Sandbox, case: Case, *ways: Way) -> Comparison:
    """Run the case plainly and in each of the ways."""
    plain = [await asyncio.to_thread(_plain, case) for _ in range(2)]
    found, tries = [], 0
    for way in ways:
        for attempt in range(TRIES):
            tries += 1
            if attempt:
                plain.append(await asyncio.to_thread(_plain, case))
            await asyncio.to_thread(case.prepare)
            result = await way(box, case)
            assert not result.truncated
            ours = await asyncio.to_thread(case.gathered, result.exit_code, result.stdout, result.stderr)
            what = compare(plain, ours)
            if not what:
                break
        found += [f"{way.__name__.replace('_', ' ')}: {line}" for line in what]
    return Comparison(found, plain[0], tries)


def compare(plain: Sequence[Outcome], ours: Outcome) -> list[str]:
    """Return how an outcome differs from those of plain runs, beyond what differs among these."""
    found = []
    codes = {one.code for one in plain}
    if ours.code not in codes:
        found.append(f"exit code {ours.code}, plain {sorted(codes)}")
    for name in ("stdout", "stderr"):
        found += _lines(name, [getattr(one, name) for one in plain], getattr(ours, name))
    if len(ours.files) not in {len(one.files) for one in plain}:
        found.append(f"{len(ours.files)} files made, plain {len(plain[0].files)}")
    for number, content in enumerate(ours.files):
        theirs = [one.files[number] for one in plain if number < len(one.files)]
        if len(set(theirs)) == 1 and content != theirs[0]:
            found.append(f"file {number} has other content ({len(content)} bytes, plain {len(theirs[0])})")
    return found


def _lines(name: str, plain: Sequence[bytes], ours: bytes) -> list[str]:
    if ours in plain:
        return []
    table = [one.split(b"\n") for one in plain]
    mine = ours.split(b"\n")
    if {len(lines) for lines in table} == {len(mine)}:
        held = all(
            line == seen[0] or len(set(seen)) > 1
            for line, seen in zip(mine, zip(*table, strict=True), strict=True)
        )
        if held:
            return []
    shown = difflib.unified_diff(
        plain[-1].decode("utf-8", "backslashreplace").splitlines(),
        ours.decode("utf-8", "backslashreplace").splitlines(),
        "plain", "hermes", lineterm="", n=0,
    )  # fmt: skip
    return [f"{name} differs:", *list(shown)[:40]]
