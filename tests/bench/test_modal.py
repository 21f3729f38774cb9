"""Round trips to an emulated Modal that is 100 ms away: what is ours is compared with the SDK's own calls."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator

import pytest

import hermes
from _emulators import Emulated, emulated
from bench._report import goal, report

pytest.importorskip("modal")

TRIP = 0.1


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulated]:
    """An emulated Modal, every byte of which is 50 ms on its way."""
    with emulated("modal", "--delay", str(TRIP / 2)) as running:
        for name, value in running.settings.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.mark.bench
async def test_a_command_costs_one_round_trip(far: Emulated) -> None:
    async with hermes.Sandbox("modal", approval="off", workspace="private") as box:
        await box.run("true")
        took = []
        for _ in range(15):
            began = time.monotonic()
            await box.run("true")
            took.append(time.monotonic() - began)
        shells = [await box.shell(f"s{number}") for number in range(20)]
        for shell in shells:
            await shell.run("true")
        began = time.monotonic()
        await asyncio.gather(*(shell.run("sleep 0.2") for shell in shells))
        together = time.monotonic() - began
    trips = statistics.median(took) / TRIP
    best = min(took) / TRIP
    report(
        "modal_100_ms_away",
        [],
        round_trips=f"{trips:.3f}, at best {best:.3f}",
        twenty_at_once=f"{together:.3f} s",
        goals=[
            goal(trips <= 1.15, "at most 1.15 round trips for a command"),
            goal(together <= 0.6, "20 of 0.2 s at once within 0.6 s"),
        ],
    )
    assert best < 2  # one round trip, not two


async def test_nothing_but_the_sdks_own_calls_stand_before_the_first_command(far: Emulated) -> None:
    """Creating and waking take what the SDK takes for them; the first command one message more."""

    async def calls_of(box: hermes.Sandbox) -> list[str]:
        before = len(await asyncio.to_thread(far.calls))
        await box.open()
        await box.run("true")
        calls = (await asyncio.to_thread(far.calls))[before:]
        return calls[: calls.index("TaskExecStdinWrite") + 1]

    one = hermes.Sandbox("modal", name="one", approval="off", workspace="private")
    beside = {"SandboxTagsGetV2", "TaskExecStdioRead"}  # nothing waits for these
    made = await calls_of(one)
    assert sorted(set(made) - beside) == sorted(
        [
            *("AppGetOrCreate", "EnvironmentGetOrCreate", "ImageGetOrCreate", "AuthTokenGet"),
            *("SandboxCreateV2", "TaskExecStart", "TaskExecStdinWrite"),
        ]
    )
    await one.suspend()
    again = hermes.Sandbox("modal", name="one", approval="off", workspace="private")
    woken = await calls_of(again)
    looks = [name for name in woken if name.startswith("SandboxGetFromName")]
    assert looks == ["SandboxGetFromNameV2", "SandboxGetFromName"]  # the SDK asks both backends
    assert sorted(set(woken) - {*beside, *looks}) == sorted(
        [
            *("ImageFromId", "SandboxCreateV2"),
            *("TaskExecStart", "TaskExecStdinWrite"),
        ]
    )
    await again.destroy()
