"""Every fault that an emulator has, at every step of a sandbox's life: outlived, or told; no file is lost."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import hermes
from _emulators import Emulated, emulated
from hermes.emulators import _control
from hermes.errors import BackendError, HermesError, SandboxGone
from hermes.state import Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    # How leaving says that its own errand did not go well.
    pytest.mark.filterwarnings("ignore:'mine' was left, but not all was kept:UserWarning"),
]

CLOUDS = ("modal", "daytona", "vercel")
FAULTS = [
    (cloud, fault)
    for cloud in CLOUDS
    if sys.platform == "linux"
    for fault in sorted(_control.load(cloud).faults_known)
]
SHORT = {
    "modal": {"modal.snapshot_timeout": 5},
    "daytona": {"daytona.create_timeout": 4, "daytona.wake_timeout": 10, "daytona.snapshot_timeout": 5},
    "vercel": {"vercel.deadline": 4, "vercel.snapshot_deadline": 5},
}
# Emulated, it is broken for good.
BROKEN = {("daytona", "start_fails")}
# What ends a sandbox at Modal, or takes its snapshot away, takes the files: that is told, and nothing else.
TAKES_FILES = {("modal", "stopped"), ("modal", "stopped_in_command"), ("modal", "snapshot_expired")}


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Emulated]]:
    with contextlib.ExitStack() as stack:
        yield {cloud: stack.enter_context(emulated(cloud)) for cloud in CLOUDS}


def alive(server: Emulated) -> list[dict[str, Any]]:
    states = ("running", "started", "pending", "creating")
    return [one for one in server.sandboxes() if (one.get("state") or one.get("status")) in states]


@pytest.mark.parametrize(("cloud", "fault"), FAULTS)
async def test_a_fault_is_outlived_or_told(
    servers: dict[str, Emulated], monkeypatch: pytest.MonkeyPatch, cloud: str, fault: str
) -> None:
    server = servers[cloud]
    server.use(monkeypatch)
    monkeypatch.setattr("hermes.backends.modal.CREATE_SECONDS", 4.0)
    config = await asyncio.to_thread(hermes.config.load, SHORT[cloud])
    told: list[HermesError] = []

    @contextlib.asynccontextmanager
    async def trouble() -> AsyncIterator[None]:
        """Let the fault happen once in what is done now; it may end with an error of ours, and no other."""
        more = {"seconds": 2} if fault in ("slow", "rate_limited") else {"delay": 0}
        await asyncio.to_thread(lambda: server.fault(fault, **more))
        try:
            yield
        except HermesError as error:
            assert error.message and "Traceback" not in str(error)
            told.append(error)
        finally:
            await asyncio.to_thread(server.ask, "/faults", None, "DELETE")

    def one() -> hermes.Sandbox:
        return hermes.Sandbox(
            cloud, name="mine", approval="off", workspace="private", persistent=True, config=config
        )

    async with trouble(), one() as box:
        assert (await box.run("echo made")).text == "made\n"
    async with one() as box:
        assert (await box.run("echo kept > file; cat file")).text == "kept\n"
    async with one() as box:
        await box.run("true")
        async with trouble():
            await asyncio.to_thread(lambda: server.line(now=True))
            assert (await box.run("echo a; sleep 0.3; echo b")).text == "a\nb\n"
        async with trouble():
            await box.suspend()
    async with trouble(), one() as box:
        assert (await box.run("cat file")).text == "kept\n"
    try:
        async with one() as box:
            assert (await box.run("cat file")).text == "kept\n"
    except SandboxGone as error:
        assert (cloud, fault) in TAKES_FILES, error
        assert "files" in str(error)
    except BackendError as error:
        assert error.code == "place_broken" and (cloud, fault) in BROKEN, error
        store = await asyncio.to_thread(Store)
        (record,) = await asyncio.to_thread(store.all)
        await hermes.places.remove(record, config, store)
        return
    async with hermes.Sandbox(
        cloud, name="mine", approval="off", workspace="private", persistent=True, recreate=True, config=config
    ) as box:
        await box.destroy()
    assert not await asyncio.to_thread(alive, server)
    assert not await asyncio.to_thread(lambda: Store().all())


@pytest.mark.parametrize(
    ("cloud", "fault"), [("modal", "stopped"), ("daytona", "stopped"), ("vercel", "stopped_mid_command")]
)
async def test_a_place_that_ends_while_the_guest_is_started_is_no_missing_python(
    servers: dict[str, Emulated], monkeypatch: pytest.MonkeyPatch, cloud: str, fault: str
) -> None:
    server = servers[cloud]
    server.use(monkeypatch)
    await asyncio.to_thread(lambda: server.fault(fault, delay=0))
    try:
        async with hermes.Sandbox(cloud, approval="off") as box:
            assert cloud == "daytona"  # which wakes it
            assert (await box.run("echo on")).text == "on\n"
    except SandboxGone as error:
        assert "Python" not in str(error)
    await asyncio.to_thread(server.ask, "/faults", None, "DELETE")
    assert not await asyncio.to_thread(alive, server)
