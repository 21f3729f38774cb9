"""Sandboxes at an emulated Daytona: what they are made with, how they sleep, and what is left of them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import hermes
from _emulators import Emulated
from hermes.backends.base import Spec
from hermes.backends.daytona import DaytonaBackend
from hermes.config import Config, Lifetime, load
from hermes.errors import BackendError, ConfigError, SandboxDiffers, SandboxGone, UnsupportedError
from hermes.state import Store

HOUR = 3600.0


def box(**more: Any) -> hermes.Sandbox:
    return hermes.Sandbox("daytona", approval="off", **more)


async def pruned() -> list[str]:
    store = await asyncio.to_thread(Store)
    return await DaytonaBackend.prune(await asyncio.to_thread(load), store)


def states(there: Emulated) -> list[str]:
    return [one["state"] for one in there.sandboxes()]


async def gone(there: Emulated) -> None:
    """Wait until nothing is there any more."""
    for _ in range(200):
        if not await asyncio.to_thread(there.sandboxes):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(there.sandboxes())


async def test_it_is_labelled_and_its_ends_are_set_at_create(there: Emulated) -> None:
    from hermes.backends.daytona._plan import parameters, plan_for

    life = Lifetime(idle_stop=600, ttl=2 * 3600)
    spec = Spec(name="one", id="0123456789abcdef", named=True, lifetime=life, network="off")
    made = await asyncio.to_thread(lambda: parameters(plan_for(spec, Config()), spec))
    assert (made.auto_stop_interval, made.auto_delete_interval) == (10, 120)
    assert made.name == "hermes-one-01234567" and made.network_block_all
    assert made.labels is not None and made.labels["hermes.id"] == spec.id
    kept = Spec(name="one", id="0123456789abcdef", named=True, keep=True)
    assert (
        await asyncio.to_thread(lambda: parameters(plan_for(kept, Config()), kept))
    ).auto_delete_interval == -1


async def test_what_it_cannot_do_is_refused_before_anything_is_made(there: Emulated) -> None:
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"limits": {"pids": 5}}, "pids"),
        ({"limits": {"cpus": 1.5}}, "whole cores"),
        ({"limits": {"memory": 1 << 29}}, "limits.memory is 512m, but Daytona has whole GiB"),
        ({"network": "internal"}, "internal"),
        ({"snapshot": "s", "limits": {"cpus": 1}}, "no limits"),
    )
    for wrong, words in refused:
        with pytest.raises(UnsupportedError, match=words):
            await box(**wrong).open()
    contradictions: tuple[tuple[dict[str, Any], str], ...] = (
        ({"snapshot": "s", "image": "debian:12"}, "both an image"),
        ({"network": "off", "allow_domains": ["example.com"]}, "network: off"),
        ({"nonsense": 1}, "nonsense"),
    )
    for wrong, words in contradictions:
        with pytest.raises(ConfigError, match=words):
            await box(**wrong).open()
    assert states(there) == []


async def test_limits_and_an_image_are_passed_on(there: Emulated) -> None:
    async with box(image="debian:12", limits={"cpus": 2, "memory": 2 << 30}) as one:
        record = one._record
        assert record is not None
        assert (record.locator["cpus"], record.locator["memory"]) == (2, 2 << 30)
    await gone(there)


async def test_no_credentials_is_one_error_that_says_what_to_do(
    there: Emulated, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DAYTONA_API_KEY")
    (tmp_path / ".env").write_text("DAYTONA_API_KEY=stolen\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BackendError) as raised:
        await box().open()
    assert raised.value.code == "backend_unavailable"
    assert "DAYTONA_API_KEY" in str(raised.value) and "dashboard/keys" in str(raised.value)


async def test_a_file_in_the_working_directory_steers_nothing(
    there: Emulated, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text(
        "DAYTONA_TARGET=elsewhere\nDAYTONA_API_URL=http://127.0.0.1:1\nDAYTONA_USE_DEPRECATED_POLLING=true\n"
    )
    monkeypatch.chdir(tmp_path)
    async with box() as one:
        assert (await one.run("echo ok")).text == "ok\n"
        place = one._the_place()
        assert isinstance(place, DaytonaBackend) and place._known is not None
        assert place._known[1].target == "emulated"


async def test_a_key_that_is_not_accepted(there: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAYTONA_API_KEY", "dtn_something_else")
    with pytest.raises(BackendError) as raised:
        await box().open()
    assert raised.value.code == "login_refused"
    assert "dtn_something" not in str(raised.value)
    assert raised.value.__cause__ is not None


async def test_asleep_for_being_idle_and_awake_with_the_next_command(there: Emulated) -> None:
    async with box(name="sleeper", lifetime=Lifetime(idle_stop=1.0)) as one:
        await one.run("echo kept > kept")
        for _ in range(300):
            if states(there) == ["stopped"]:
                break
            await asyncio.sleep(0.05)
        assert states(there) == ["stopped"]
        with pytest.warns(UserWarning, match="sessions begin anew"):
            assert (await one.run("cat kept")).text == "kept\n"
        await one.destroy()
    await gone(there)


async def test_the_provider_s_own_stop_is_slept_through(there: Emulated) -> None:
    async with box(name="long") as one:
        await one.run("echo kept > kept")
    there.advance(HOUR)
    assert states(there) == ["stopped"]
    told: list[str] = []
    async with box(name="long", on_progress=told.append) as one:
        assert (await one.run("cat kept")).text == "kept\n"
        await one.destroy()
    assert any("waking it took" in line for line in told)


async def test_archived_and_back(there: Emulated) -> None:
    async with box(name="old", archive_after=HOUR) as one:
        await one.run("echo kept > kept")
    there.advance(3 * HOUR)
    assert states(there) == ["archived"]
    async with box(name="old", archive_after=HOUR) as one:
        assert (await one.run("cat kept")).text == "kept\n"
        await one.destroy()


async def test_a_client_that_is_there_keeps_it_awake(there: Emulated) -> None:
    async with box(lifetime=Lifetime(idle_stop=60.0)) as one:
        place = one._the_place()
        assert isinstance(place, DaytonaBackend) and place._known is not None
        for _ in range(3):
            there.advance(40)
            await place._keep_awake(place._known[1])
        assert states(there) == ["started"]
        assert there.calls().count("POST /api/sandbox/{box}/last-activity") >= 3


async def test_stopped_by_somebody_in_the_middle_of_a_command(there: Emulated) -> None:
    async with box(name="mine") as one:
        running = asyncio.create_task(one.run("echo kept > kept; sleep 60"))
        while (await one.exec("cat kept")).text != "kept\n":
            await asyncio.sleep(0.05)
        there.advance(HOUR)
        with pytest.raises(SandboxGone, match="stopped at Daytona") as raised:
            await running
        assert "files are kept" in raised.value.reason
    async with box(name="mine") as one:
        assert (await one.run("cat kept")).text == "kept\n"
        await one.destroy()


async def test_a_snapshot_is_the_beginning_of_another(there: Emulated) -> None:
    async with box() as one:
        await one.run("echo kept > ~/kept")
        name = await one.snapshot()
        await one.run("echo changed > ~/kept")
    async with box(snapshot=name) as other:
        assert (await other.run("cat ~/kept")).text == "kept\n"


async def test_a_snapshot_that_takes_too_long_is_said(there: Emulated) -> None:
    config = await asyncio.to_thread(load, {"daytona.snapshot_timeout": 1})
    async with box(config=config) as one:
        there.fault("slow", seconds=100)
        with pytest.raises(SandboxGone, match="snapshot"):
            await one.snapshot()
        there.advance(100)
        assert (await one.run("echo on")).text == "on\n"


async def test_to_be_made_anew_is_refused_since_its_files_would_go(there: Emulated) -> None:
    async with box(name="mine") as one:
        await one.run("echo kept > kept")
    with pytest.raises(SandboxDiffers):
        await box(name="mine", network="off").open()
    with pytest.raises(UnsupportedError, match="nothing was removed"):
        await box(name="mine", network="off", recreate=True).open()
    async with box(name="mine") as one:
        assert (await one.run("cat kept")).text == "kept\n"
        await one.destroy()


async def test_removed_by_somebody_it_is_made_anew_only_when_asked_to(there: Emulated) -> None:
    from daytona import AsyncDaytona, DaytonaConfig

    settings = there.settings
    async with box(name="mine"):
        pass
    config = DaytonaConfig(api_key=settings["DAYTONA_API_KEY"], api_url=settings["DAYTONA_API_URL"])

    async def remove() -> None:
        async with AsyncDaytona(config) as sdk:
            async for one in sdk.list():
                await one.delete(wait=True)

    await asyncio.to_thread(lambda: asyncio.run(remove()))
    with pytest.raises(SandboxGone, match=r"deleted at Daytona.*nothing was started"):
        await box(name="mine").open()
    async with box(name="mine", recreate=True) as one:
        assert (await one.run("echo new")).text == "new\n"
        await one.destroy()


# --- faults


async def test_a_rate_limit_is_waited_for_as_told(there: Emulated) -> None:
    there.fault("rate_limited", seconds=1.5)
    began = time.monotonic()
    async with box():
        assert time.monotonic() - began > 1.5


async def test_a_create_whose_answer_is_lost_is_not_made_twice(there: Emulated) -> None:
    there.fault("create_lost")
    async with box() as one:
        assert len(states(there)) == 1
        assert (await one.run("echo ok")).text == "ok\n"
    await gone(there)


@pytest.mark.parametrize("fault", ["create_fails", "build_fails", "disk_quota", "create_hangs"])
async def test_a_create_that_fails_leaves_nothing(there: Emulated, fault: str) -> None:
    there.fault(fault)
    config = await asyncio.to_thread(load, {"daytona.create_timeout": 2, "limits.cpus": 1})
    with pytest.raises((BackendError, SandboxGone)) as raised:
        await box(config=config).open()
    if fault == "disk_quota":
        assert raised.value.code == "quota" and "archived" in str(raised.value)
    await gone(there)


async def test_there_but_broken_is_not_replaced_by_an_empty_one(there: Emulated) -> None:
    async with box(name="full"):
        pass
    there.advance(HOUR)
    there.fault("start_fails")
    with pytest.raises(BackendError, match="no space left"):
        await box(name="full").open()
    with pytest.raises(BackendError) as raised:
        await box(name="full").open()
    assert raised.value.code == "place_broken"
    assert states(there) == ["error"]
    there.ask("/faults", method="DELETE")


async def test_bad_gateways_while_its_state_changes_are_outlived(there: Emulated) -> None:
    async with box() as one:
        there.fault("bad_gateway", times=3)
        there.line(now=True)
        assert (await one.run("echo on")).text == "on\n"


async def test_nothing_but_the_sdks_own_calls_stand_before_the_first_command(there: Emulated) -> None:
    """Its own: make, look until it is up, open a terminal; look, start, look, open a terminal to wake one."""
    look, terminal = "GET /api/sandbox/{box}", "GET /toolbox/{box}/process/pty/create-connect"

    async def calls_of(one: hermes.Sandbox) -> list[str]:
        before = len(await asyncio.to_thread(there.calls))
        await one.open()
        await one.run("true")
        calls = (await asyncio.to_thread(there.calls))[before:]
        return [name for name in calls if name != "events connect"]  # nothing waits for it

    one = box(name="one")
    made = await calls_of(one)
    assert (made[0], made[-1], set(made[1:-1])) == ("POST /api/sandbox", terminal, {look})
    await one.suspend()
    again = box(name="one")
    woken = await calls_of(again)
    assert [name for name in woken if name != look] == ["POST /api/sandbox/{box}/start", terminal]
    assert woken.index("POST /api/sandbox/{box}/start") <= 1 + 1  # after it, the SDK looks until it is up
    await again.destroy()
    await gone(there)


async def test_the_providers_own_ways_in(there: Emulated) -> None:
    def hermes_says(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hermes", "sandbox", *args],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    async with box(name="reached") as one:
        link = await asyncio.to_thread(hermes_says, "forward", "--link", "reached", "3000", "8080")
        assert link.stdout == "http://127.0.0.1:3000\nhttp://127.0.0.1:8080\n", link.stderr
        ssh = await asyncio.to_thread(hermes_says, "enter", "--ssh", "reached")
        assert ssh.stdout == "ssh emulated@127.0.0.1\n"
        await one.suspend()
        asleep = await asyncio.to_thread(hermes_says, "enter", "--ssh", "reached")
        assert (asleep.returncode, asleep.stdout) == (123, "")
        assert "'reached' does not run" in asleep.stderr
        assert states(there) == ["stopped"]  # it was not woken
        await one.destroy()
    async with hermes.Sandbox("local", name="here", approval="off"):
        refused = await asyncio.to_thread(hermes_says, "enter", "--ssh", "here")
    assert "the local backend cannot do access by ssh" in refused.stderr


# --- what a client that is killed leaves

CLIENT = """
import asyncio, sys, hermes
async def main():
    box = await hermes.Sandbox("daytona", approval="off", name="victim").open()
    print("open", flush=True)
    if sys.argv[1] == "run":
        await box.run("sleep 2; echo done > ~/done; sleep 100")
    await getattr(box, sys.argv[1])()
asyncio.run(main())
"""


def killed(verb: str, *, at_open: bool, after: float) -> None:
    """Start a client and kill it in the middle of what it does."""
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, verb], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert client.stdout is not None
    if at_open:
        assert client.stdout.readline() == "open\n"
    time.sleep(after)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    client.stdout.close()


async def test_killed_while_it_is_made(there: Emulated) -> None:
    there.fault("slow", seconds=30)

    def kill_in_create() -> None:
        client = subprocess.Popen([sys.executable, "-c", CLIENT, "close"], stderr=subprocess.DEVNULL)
        while not there.sandboxes():
            time.sleep(0.05)
        os.kill(client.pid, signal.SIGKILL)
        client.wait()

    await asyncio.to_thread(kill_in_create)
    there.advance(30)
    async with box(name="victim") as one:  # its record was written before, and has no locator
        assert (await one.run("echo here")).text == "here\n"
        await one.destroy()
    await pruned()
    await gone(there)


async def test_killed_while_a_command_runs(there: Emulated) -> None:
    await asyncio.to_thread(lambda: killed("run", at_open=True, after=0.5))
    async with box(name="victim") as one:
        for _ in range(100):
            if (await one.exec("cat ~/done")).text == "done\n":
                break
            await asyncio.sleep(0.1)
        assert any("sleep 2" in job.command for job in await one.jobs())
        await one.destroy()
    await gone(there)


@pytest.mark.parametrize("verb", ["snapshot", "suspend"])
async def test_killed_while_it_is_kept_or_put_to_sleep(there: Emulated, verb: str) -> None:
    there.fault("slow", seconds=2, after=1)
    await asyncio.to_thread(lambda: killed(verb, at_open=True, after=0.7))
    async with box(name="victim") as one:
        assert (await one.run("echo there")).text == "there\n"
        await one.destroy()
    await gone(there)


async def test_killed_while_it_is_destroyed(there: Emulated) -> None:
    await asyncio.to_thread(lambda: killed("destroy", at_open=True, after=0.05))
    async with box(name="victim") as one:
        assert (await one.run("echo again")).text == "again\n"
        await one.destroy()
    await pruned()
    await gone(there)


async def test_prune_removes_what_nobody_has_and_nothing_else(there: Emulated) -> None:
    async with box(name="known"):
        orphan = await box(name="orphan").open()
        await orphan.close()
        assert orphan._record is not None
        await asyncio.to_thread(orphan._store.remove, orphan._record)
        removed = await pruned()
        assert len(removed) == 1 and "orphan" in removed[0]
    one = await box(name="known").open()
    await one.destroy()
    await gone(there)


def test_nothing_else_imports_the_sdk() -> None:
    code = (
        "import sys, hermes, hermes.backends as b; b.load('local'); b.load('ssh'); b.load('docker');"
        "print([n for n in sys.modules if n.partition('.')[0] in ('daytona', 'daytona_api_client_async')])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


async def test_a_token_needs_its_organization_and_says_so(
    there: Emulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAYTONA_API_KEY")
    monkeypatch.delenv("DAYTONA_ORGANIZATION_ID", raising=False)
    monkeypatch.setenv("DAYTONA_JWT_TOKEN", "eyJ.secret.x")
    with pytest.raises(BackendError) as raised:
        await box().open()
    assert raised.value.code == "backend_unavailable"
    assert "DAYTONA_JWT_TOKEN is set" in str(raised.value)
    assert "DAYTONA_ORGANIZATION_ID" in str(raised.value) and "secret" not in str(raised.value)


async def test_a_snapshot_that_is_not_there_is_told_as_such(there: Emulated) -> None:
    with pytest.raises(BackendError, match="has no snapshot none-such") as raised:
        await box(snapshot="none-such").open()
    assert raised.value.code == "snapshot_gone"


async def test_an_api_that_is_unavailable_is_what_is_told(there: Emulated) -> None:
    there.fault("api_unavailable", times=1)
    with pytest.raises(BackendError) as raised:
        await box().open()
    assert raised.value.code == "backend_unavailable"
    assert "make a sandbox" in str(raised.value) and "api_url" in str(raised.value)
