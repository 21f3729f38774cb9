"""A token that is renewed all the time is never old by more than one command, and never half-written."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import pytest

from .conftest import Open, declared, keep

COMMANDS = 500
EVERY = 0.05
SIZE = 4096  # of a token, so that half of one would be seen


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_it_is_fresh_at_each_command(place: str, own: Path, open_in: Open) -> None:
    path = own / "credentials" / "token"
    written = 0

    def write() -> None:
        nonlocal written
        keep(path, f"{written + 1:08d}" * (SIZE // 8))
        written += 1

    async def rotate() -> None:
        while True:
            await asyncio.to_thread(write)
            await asyncio.sleep(EVERY)

    await asyncio.to_thread(write)
    rotating = asyncio.create_task(rotate())
    box = await open_in(place, config=declared(redact="off"))
    seen, before = [], 0
    began = time.monotonic()
    for _ in range(COMMANDS):
        least = written
        content = (await box.run("cat $HERMES_CREDENTIALS/token")).text
        most = written + 1
        assert len(content) == SIZE and content == content[:8] * (SIZE // 8), "half of one"
        number = int(content[:8])
        assert before <= number <= most, (before, number, most)
        assert number >= least, f"{number} was seen, and {least} was there before the command"
        seen.append(number)
        before = number
    rotating.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await rotating
    assert len(set(seen)) > 10
    print(f"{place}: {COMMANDS} commands, {written} tokens, {time.monotonic() - began:.1f} s")
