"""The vercel backend on the emulated one: life, sleep, snapshots, failures, what a killed client leaves."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from _emulators import Emulated, emulated
from hermes import Sandbox
from hermes.backends import load as load_backend
from hermes.config import Config, load
from hermes.errors import (
    BackendError,
    ConfigError,
    SandboxDiffers,
    SandboxGone,
    Unreachable,
    UnsupportedError,
)
from hermes.state import SandboxRecord, Store

pytest.importorskip("vercel.sandbox")
LOGS = "GET /v2/sandboxes/sessions/{session}/cmd/{command}/logs"


@pytest.fixture(scope="module")
def shared() -> Iterator[Emulated]:
    with emulated("vercel") as emulator:
        yield emulator


@pytest.fixture
def cloud(shared: Emulated, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulated]:
    """An emulator with nothing in it and nothing switched on, which is configured."""
    shared.use(monkeypatch)
    yield shared
    shared.ask("/faults", method="DELETE")
    shared.line(delay=0, cut=0)


@contextlib.asynccontextmanager
async def opened(name: str | None = None, **options: Any) -> AsyncIterator[Sandbox]:
    """A sandbox that is destroyed in the end."""
    box = Sandbox("vercel", name=name, approval="off", workspace="private", **options)
    try:
        yield await box.open()
    finally:
        await box.destroy()


async def there(cloud: Emulated, ident: str) -> dict[str, Any] | None:
    """Return what the emulator has under a sandbox's id."""
    for one in await asyncio.to_thread(cloud.sandboxes):
        if one["name"] == f"hermes-{ident}":
            return dict(one)
    return None


async def configured(**vercel: Any) -> Config:
    """Return a configuration with these settings of the backend."""
    return await asyncio.to_thread(load, {"vercel": vercel})


async def records() -> list[SandboxRecord]:
    return await asyncio.to_thread(lambda: Store().all())


async def text(box: Sandbox, command: str) -> str:
    return (await box.run(command)).text


# --- life


async def test_an_unnamed_one_is_gone_when_it_is_left(cloud: Emulated) -> None:
    async with Sandbox("vercel", approval="off") as box:
        found = await there(cloud, box.id)
        assert found is not None and not found["persistent"]
        assert found["limit"] == 1800
        assert found["tags"]["hermes-name"] == box.name
        assert box.describe()["verified"] == "emulator"
    assert await there(cloud, box.id) is None


async def test_a_named_one_is_found_again(cloud: Emulated) -> None:
    async with opened("again") as box:
        await box.run("echo kept > file; export A=1")
        await box.close()
        async with Sandbox("vercel", name="again", approval="off", workspace="private") as other:
            assert other.id == box.id
            assert await text(other, "cat file; echo $A") == "kept\n1\n"


async def test_the_network_can_be_off(cloud: Emulated) -> None:
    async with opened(network="off") as box:
        assert (await text(box, "tail -n +3 /proc/net/dev | cut -d: -f1")).split() == ["lo"]


async def test_settings_reach_the_provider(cloud: Emulated) -> None:
    async with opened(limits={"cpus": 4}, ports=[8080], domains=["example.com"], keep=True) as box:
        state = await there(cloud, box.id)
        assert state is not None and state["tags"]["hermes-keep"] == "1"
        assert (state["vcpus"], state["ports"]) == (4, [8080])
        assert state["policy"] == {"mode": "custom", "allowedDomains": ["example.com"]}


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ({"limits": {"memory": 1 << 30}}, UnsupportedError),
        ({"limits": {"cpus": 1.5}}, UnsupportedError),
        ({"network": "internal"}, UnsupportedError),
        ({"network": "host"}, UnsupportedError),
        ({"network": "off", "domains": ["example.com"]}, ConfigError),
        ({"ports": [1, 2, 3, 4, 5]}, ConfigError),
        ({"image": "mine", "snapshot": "snap_x"}, ConfigError),
        ({"image": "mine", "runtime": "node24"}, ConfigError),
        ({"runtime": "node24", "snapshot": "snap_x"}, ConfigError),
        ({"runtime": "node20"}, ConfigError),
        ({"vcpus": 2}, ConfigError),
    ],
)
async def test_what_it_cannot_do_is_refused_before_anything_is_started(
    cloud: Emulated, wish: dict[str, Any], error: type[Exception]
) -> None:
    before = len(await asyncio.to_thread(cloud.calls))
    with pytest.raises(error):
        await Sandbox("vercel", approval="off", **wish).open()
    assert len(await asyncio.to_thread(cloud.calls)) == before


# --- what it begins with


@pytest.mark.parametrize("runtime", ["node26", "node24", "node22", "python3.13"])
async def test_a_runtime_is_asked_for_as_the_provider_does(cloud: Emulated, runtime: str) -> None:
    before = len(await asyncio.to_thread(cloud.calls))
    async with opened(runtime=runtime) as box:
        state = await there(cloud, box.id)
        assert state is not None and (state["runtime"], state["image"]) == (runtime, None)
        assert box.describe()["settings"]["runtime"] == runtime
        assert await text(box, "echo works") == "works\n"
    calls = (await asyncio.to_thread(cloud.calls))[before:]
    assert "POST /v2/sandboxes" in calls and "POST /v3/sandboxes" not in calls


async def test_without_a_runtime_it_begins_with_an_image(cloud: Emulated) -> None:
    async with opened(image="repository:tag") as box:
        state = await there(cloud, box.id)
        assert state is not None and (state["runtime"], state["image"]) == (None, "repository:tag")


async def test_a_runtime_that_there_is_not_is_told_with_those_that_there_are(cloud: Emulated) -> None:
    with pytest.raises(ConfigError) as caught:
        await configured(runtime="node20")
    for name in ("node26", "node24", "node22", "python3.13"):
        assert name in str(caught.value)


async def test_a_sandbox_of_a_runtime_goes_on_from_its_snapshots(cloud: Emulated) -> None:
    async with opened("runtime", runtime="node22", persistent=True) as box:
        await box.run("echo kept > file")
        await box.suspend()
        await box.resume()
        taken = await box.snapshot()
        assert await text(box, "cat file") == "kept\n"
        async with opened(snapshot=taken) as other:
            assert await text(other, "cat file") == "kept\n"
        await box.close()
        async with opened(
            "runtime", runtime="node22", persistent=True, limits={"cpus": 4}, recreate=True
        ) as again:
            assert await text(again, "cat file") == "kept\n"


def linked(folder: Path, **settings: Any) -> str:
    (folder / ".vercel").mkdir(exist_ok=True)
    told = {"projectId": "prj_emulated", "orgId": "team_emulated", "settings": settings}
    (folder / ".vercel/project.json").write_text(json.dumps(told))
    return str(folder)


@pytest.mark.parametrize(
    ("settings", "options", "runtime"),
    [
        ({"framework": "nextjs", "nodeVersion": "22.x"}, {}, "node22"),
        ({"framework": None, "nodeVersion": "24.x"}, {}, "node24"),
        ({"framework": "fastapi", "nodeVersion": "24.x"}, {}, "python3.13"),
        ({"nodeVersion": "22.x"}, {"runtime": "node26"}, "node26"),
        ({"nodeVersion": "22.x"}, {"image": "mine"}, None),
        ({"nodeVersion": "20.x"}, {"image": "mine"}, None),
        ({}, {}, None),
    ],
)
async def test_a_linked_project_says_the_runtime_of_its_deployment(
    cloud: Emulated, tmp_path: Path, settings: dict[str, Any], options: dict[str, Any], runtime: str | None
) -> None:
    config = await configured(linked=linked(tmp_path, **settings))
    async with opened(config=config, **options) as box:
        state = await there(cloud, box.id)
        assert state is not None and state["runtime"] == runtime


async def test_a_deployment_like_which_there_is_no_runtime_is_told(cloud: Emulated, tmp_path: Path) -> None:
    config = await configured(linked=linked(tmp_path, nodeVersion="20.x"))
    before = len(await asyncio.to_thread(cloud.calls))
    with pytest.raises(ConfigError, match=r"deployed with Node\.js 20\.x.*vercel\.runtime: node26"):
        await Sandbox("vercel", approval="off", config=config).open()
    assert len(await asyncio.to_thread(cloud.calls)) == before


async def test_doctor_says_what_a_sandbox_begins_with(cloud: Emulated, tmp_path: Path) -> None:
    from hermes import survey

    for vercel, said in (
        ({}, "begins with the provider's own image"),
        ({"runtime": "node24"}, "begins with node24"),
        ({"linked": linked(tmp_path, nodeVersion="22.x")}, "begins with node22, as the linked project"),
    ):
        found = await survey.look("vercel", await configured(**vercel), None)
        assert found.works and said in found.facts


async def test_other_settings_are_told(cloud: Emulated) -> None:
    async with opened("differs"):
        with pytest.raises(SandboxDiffers, match="cpus: 2, now 4"):
            await Sandbox("vercel", name="differs", workspace="private", limits={"cpus": 4}).open()


async def test_made_anew_it_has_its_files(cloud: Emulated) -> None:
    async with opened("anew") as box:
        await box.run("echo kept > file")
        await box.close()
        async with opened("anew", limits={"cpus": 4}, recreate=True) as other:
            assert await text(other, "cat file") == "kept\n"
            assert (await there(cloud, other.id)) is not None


# --- sleep


async def test_only_a_persistent_one_sleeps(cloud: Emulated) -> None:
    async with opened() as box:
        assert not box.describe()["suspend"]
        with pytest.raises(UnsupportedError, match="suspend"):
            await box.suspend()
        assert (await box.run("true")).exit_code == 0


async def test_files_survive_a_sleep_and_processes_do_not(cloud: Emulated) -> None:
    lines: list[str] = []
    async with opened("sleeper", persistent=True, on_progress=lines.append) as box:
        await box.run("echo kept > file; sleep 1000 &")
        await box.suspend()
        state = await there(cloud, box.id)
        assert state is not None and state["status"] == "stopped"
        await box.resume()
        assert await text(box, "cat file; pgrep -f '[s]leep 1000'") == "kept\n"
        assert any("woke in" in line for line in lines)


async def test_the_next_command_wakes_it(cloud: Emulated) -> None:
    async with opened("woken", persistent=True) as box:
        await box.run("echo kept > file")
        await box.suspend()
        async with Sandbox(
            "vercel",
            name="woken",
            persistent=True,
            approval="off",
            workspace="private",
        ) as other:
            assert await text(other, "cat file") == "kept\n"


async def test_an_idle_one_falls_asleep_and_wakes_by_itself(
    cloud: Emulated, recwarn: pytest.WarningsRecorder
) -> None:
    life = msgspec.structs.replace((await configured()).lifetime, idle_stop=0.5)
    async with opened("idle", persistent=True, lifetime=life) as box:
        await box.run("echo kept > file")
        for _ in range(100):
            state = await there(cloud, box.id)
            if state is not None and state["status"] == "stopped":
                break
            await asyncio.sleep(0.1)
        assert state is not None and state["status"] == "stopped"
        assert await text(box, "cat file") == "kept\n"
    assert any("its sessions begin anew" in str(one.message) for one in recwarn)
    recwarn.clear()


async def test_one_snapshot_is_kept_however_often_it_sleeps(cloud: Emulated) -> None:
    async with opened("often", persistent=True) as box:
        for _ in range(3):
            await box.suspend()
            await box.resume()
        state = await there(cloud, box.id)
        assert state is not None and len(state["snapshots"]) == 1


async def test_the_time_limit_ends_it_and_the_files_are_there_again(cloud: Emulated) -> None:
    async with opened("limit", persistent=True) as box:
        await box.run("echo kept > file")
        await asyncio.to_thread(cloud.advance, 1801)
        with pytest.raises(SandboxGone, match="time limit"):
            await box.run("true")
        await box.close()
        async with Sandbox(
            "vercel", name="limit", persistent=True, approval="off", workspace="private"
        ) as other:
            assert await text(other, "cat file") == "kept\n"


async def test_without_persistence_the_end_says_that_the_files_are_gone(cloud: Emulated) -> None:
    async with opened("passing") as box:
        await asyncio.to_thread(cloud.advance, 1801)
        with pytest.raises(SandboxGone, match="its files are gone"):
            await box.run("true")


async def test_the_limit_is_extended_while_a_client_is_there(cloud: Emulated) -> None:
    config = await configured(lifetime=3)
    async with opened("extended", config=config) as box:
        await asyncio.sleep(5)
        assert (await box.run("true")).exit_code == 0
        state = await there(cloud, box.id)
        assert state is not None and state["limit"] > 5


async def test_an_expired_snapshot_is_told_and_nothing_is_made_in_its_place(cloud: Emulated) -> None:
    async with opened("expired", persistent=True) as box:
        await box.suspend()
        cloud_calls = len(await asyncio.to_thread(cloud.calls))
        await asyncio.to_thread(cloud.fault, "snapshot_expired")
        with pytest.raises(BackendError, match="gone with its snapshot") as caught:
            await Sandbox("vercel", name="expired", persistent=True, workspace="private").open()
        assert caught.value.code == "snapshot_gone"
        new = (await asyncio.to_thread(cloud.calls))[cloud_calls:]
        assert "POST /v3/sandboxes" not in new


# --- snapshots


async def test_a_snapshot_is_where_another_one_begins(cloud: Emulated) -> None:
    async with opened() as box:
        await box.run("echo kept > file")
        taken = await box.snapshot()
        assert await text(box, "cat file") == "kept\n"  # and this one goes on
    async with opened(snapshot=taken) as other:
        assert await text(other, "cat file") == "kept\n"


async def test_one_that_was_asked_for_outlives_its_sandbox(cloud: Emulated) -> None:
    async with opened("source", persistent=True) as box:
        await box.run("echo kept > file")
        taken = await box.snapshot()
        await box.suspend()
        await box.resume()
    async with opened(snapshot=taken) as other:
        assert await text(other, "cat file") == "kept\n"


async def test_a_slow_snapshot_is_not_known_to_have_been_taken(cloud: Emulated) -> None:
    config = await configured(snapshot_deadline=0.5)
    async with opened("slow", config=config) as box:
        await asyncio.to_thread(cloud.fault, "snapshot_slow", seconds=1)
        with pytest.raises(Unreachable, match="not known"):
            await box.snapshot()


# --- what goes wrong


def test_credentials_that_are_missing_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VERCEL_TOKEN", "VERCEL_TEAM_ID", "VERCEL_PROJECT_ID", "VERCEL_OIDC_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BackendError) as caught:
        asyncio.run(load_backend("vercel").check(load()))
    said = str(caught.value)
    for name in ("VERCEL_TOKEN", "VERCEL_TEAM_ID", "VERCEL_PROJECT_ID", "https://vercel.com/account"):
        assert name in said
    assert caught.value.code == "backend_unavailable"


def test_nothing_of_the_working_directory_is_picked_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".vercel").mkdir()
    (tmp_path / ".vercel/project.json").write_text('{"projectId": "prj_x", "orgId": "team_x"}')
    (tmp_path / ".env").write_text("VERCEL_TOKEN=x\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VERCEL_TOKEN", raising=False)
    with pytest.raises(BackendError, match=r"VERCEL_TOKEN.*VERCEL_TEAM_ID.*VERCEL_PROJECT_ID"):
        asyncio.run(load_backend("vercel").check(load()))
    monkeypatch.setenv("VERCEL_TOKEN", "t")
    asyncio.run(load_backend("vercel").check(load({"vercel": {"linked": str(tmp_path)}})))
    with pytest.raises(ConfigError, match=r"vercel\.linked"):
        asyncio.run(load_backend("vercel").check(load({"vercel": {"linked": str(tmp_path / "other")}})))


def token(**claims: Any) -> str:
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{part}.x"


def test_a_token_of_oidc_says_whose_it_is_and_when_it_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VERCEL_TOKEN", raising=False)
    claims = {"owner_id": "team_x", "project_id": "prj_x"}
    monkeypatch.setenv("VERCEL_OIDC_TOKEN", token(**claims, exp=time.time() + 600))
    asyncio.run(load_backend("vercel").check(load()))
    monkeypatch.setenv("VERCEL_OIDC_TOKEN", token(**claims, exp=time.time() - 600))
    with pytest.raises(BackendError, match="expired 10 minutes ago"):
        asyncio.run(load_backend("vercel").check(load()))
    monkeypatch.setenv("VERCEL_OIDC_TOKEN", "nonsense")
    for wrong in ("nonsense", "e30.e3.x", "e30.W10.x", f"{token(**claims)[:40]}"):
        monkeypatch.setenv("VERCEL_OIDC_TOKEN", wrong)
        with pytest.raises(BackendError, match="VERCEL_OIDC_TOKEN is no token") as caught:
            asyncio.run(load_backend("vercel").check(load({"vercel": {"team": "t", "project": "p"}})))
        assert caught.value.code == "backend_unavailable" and wrong not in str(caught.value)


async def test_a_snapshot_that_is_not_there_is_told_as_such(cloud: Emulated) -> None:
    with pytest.raises(BackendError, match="has no snapshot snap_none in this project") as caught:
        await Sandbox("vercel", approval="off", snapshot="snap_none").open()
    assert "vercel.snapshot" in str(caught.value) and not await records()


async def test_a_stream_that_is_cut_while_the_guest_starts_is_not_a_missing_python(
    cloud: Emulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.channel.channel.FIRST_PATIENCE", 0.0)
    await asyncio.to_thread(cloud.fault, "stream_closed", times=50)
    with pytest.raises(Unreachable) as caught:
        await Sandbox("vercel", approval="off").open()
    assert "Python" not in str(caught.value)


async def test_a_connection_that_breaks_while_the_guest_is_started(cloud: Emulated) -> None:
    """A process that began is told nothing, and so becomes no guest: another one does."""
    await asyncio.to_thread(cloud.fault, "start_cut", times=2)
    async with Sandbox("vercel", approval="off") as box:
        assert await text(box, "echo on") == "on\n"
    assert not await asyncio.to_thread(cloud.sandboxes)


async def test_a_token_that_is_refused(cloud: Emulated) -> None:
    await asyncio.to_thread(cloud.fault, "token_expired")
    with pytest.raises(BackendError, match="does not accept the credentials") as caught:
        await Sandbox("vercel", approval="off").open()
    assert caught.value.code == "login_refused" and caught.value.__cause__ is not None
    assert cloud.settings["VERCEL_TOKEN"] not in str(caught.value)


async def test_too_many_requests_are_waited_for_as_told(cloud: Emulated) -> None:
    await asyncio.to_thread(cloud.fault, "rate_limited", seconds=1)
    began = time.monotonic()
    async with opened() as box:
        assert (await box.run("true")).exit_code == 0
    assert time.monotonic() - began > 1


async def test_cores_are_begun_with_no_faster_than_a_team_may(
    cloud: Emulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.backends.vercel.ALLOCATION", (6, 4.0))
    began = time.monotonic()
    async with opened(limits={"cpus": 4}):
        first = time.monotonic() - began
        async with opened(limits={"cpus": 4}):  # two cores more than there may be now
            assert time.monotonic() - began > 4
    assert first < 4


async def test_quota(cloud: Emulated) -> None:
    await asyncio.to_thread(cloud.fault, "quota")
    with pytest.raises(BackendError, match="quota"):
        await Sandbox("vercel", approval="off").open()


async def test_a_create_that_hangs_leaves_nothing(cloud: Emulated) -> None:
    await asyncio.to_thread(cloud.fault, "create_hangs")
    with pytest.raises(BackendError, match="within 1 s when asked to make a sandbox") as caught:
        await Sandbox("vercel", approval="off", config=await configured(deadline=1)).open()
    assert caught.value.code == "backend_unavailable" and isinstance(caught.value.__cause__, Unreachable)
    assert not await records()


async def test_a_gateway_that_fails_while_a_state_changes(cloud: Emulated) -> None:
    async with opened("gateway", persistent=True) as box:
        await box.suspend()
        await asyncio.to_thread(cloud.fault, "bad_gateway", times=2)
        await box.resume()
        assert (await box.run("true")).exit_code == 0


async def test_a_session_that_stops_under_a_command(cloud: Emulated) -> None:
    async with opened() as box:
        running = asyncio.create_task(box.run("sleep 100"))
        await asyncio.sleep(0.3)
        state = await there(cloud, box.id)
        assert state is not None
        await asyncio.to_thread(cloud.advance, 1801)
        with pytest.raises(SandboxGone) as caught:
            await running
        assert not isinstance(caught.value, Unreachable)


async def test_a_stream_that_ends_early_is_not_the_end(cloud: Emulated) -> None:
    async with opened() as box:
        await box.run("A=1")
        await asyncio.to_thread(cloud.fault, "stream_without_end")
        assert await text(box, "echo $A; sleep 0.2; echo $A") == "1\n1\n"


async def test_output_goes_on_over_cuts_without_loss_or_repetition(cloud: Emulated) -> None:
    async with opened() as box:
        await asyncio.to_thread(lambda: cloud.line(cut=0.7))
        result = await box.run("for i in $(seq 40); do echo $i; sleep 0.1; done")
        assert result.stdout == b"".join(b"%d\n" % i for i in range(1, 41))


async def test_an_image_without_python_is_told(cloud: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = load_backend("vercel")
    monkeypatch.setattr(kind, "guest_python", lambda self: ["no-python-here"])
    with pytest.raises(BackendError, match="no-python-here"):
        await Sandbox("vercel", approval="off").open()


async def test_nothing_but_the_sdks_own_calls_stand_before_the_first_command(cloud: Emulated) -> None:
    """Its own: make or resume, start a process, follow its output. Waking one looks for it before."""
    resume, start = "GET /v2/sandboxes/{name}", "POST /v2/sandboxes/sessions/{session}/cmd"

    async def calls_of(box: Sandbox) -> list[str]:
        before = len(await asyncio.to_thread(cloud.calls))
        await box.open()
        await box.run("true")
        calls = (await asyncio.to_thread(cloud.calls))[before:]
        while calls[0].endswith("/stdin"):  # the last words of the client before
            calls.pop(0)
        return calls[: next(n for n, name in enumerate(calls) if name.endswith("/stdin"))]

    one = Sandbox("vercel", name="counted", approval="off", workspace="private", persistent=True)
    assert await calls_of(one) == ["POST /v3/sandboxes", start, LOGS]
    await one.suspend()
    again = Sandbox("vercel", name="counted", approval="off", workspace="private", persistent=True)
    assert await calls_of(again) == [resume, resume, start, LOGS]
    await again.destroy()


# --- a client that is killed


CLIENT = """
import asyncio, sys
from hermes import Sandbox

async def main():
    box = Sandbox("vercel", name={name!r}, approval="off", workspace="private", persistent=True)
    step = {step!r}
    if step == "create":
        print("now", flush=True)
    await box.open()
    await box.run("echo kept > file; sync")
    if step != "create":
        print("now", flush=True)
    if step == "run":
        await box.run("sleep 1; echo done > done; sleep 100")
    elif step == "snapshot":
        await box.snapshot()
    elif step == "suspend":
        await box.suspend()
    elif step == "destroy":
        await box.destroy()
    await asyncio.sleep(100)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("step", "after"),
    [
        ("create", 0.02),
        ("create", 0.3),
        ("run", 0.3),
        ("snapshot", 0.2),
        ("suspend", 0.02),
        ("destroy", 0.02),
    ],
)
async def test_a_killed_client_loses_nothing_and_leaves_nothing(
    cloud: Emulated, step: str, after: float
) -> None:
    name = f"killed-{step}-{int(after * 100)}"
    if step == "snapshot":
        await asyncio.to_thread(cloud.fault, "snapshot_slow", seconds=0.5)
    code = textwrap.dedent(CLIENT.format(name=name, step=step))
    client = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=subprocess.PIPE)
    assert client.stdout is not None
    assert await client.stdout.readline() == b"now\n"
    await asyncio.sleep(after)
    client.send_signal(signal.SIGKILL)
    await client.wait()
    found = [one for one in await records() if one.name == name]
    ident = found[0].id if found else None
    if step == "destroy" and ident is None:
        return
    async with opened(name, persistent=True) as box:
        if step in ("run", "snapshot", "suspend"):
            assert box.id == ident
            # In a session of its own: in the one of the client that was killed its command runs.
            assert (await box.exec("cat file")).text == "kept\n"
        if step == "run":
            for _ in range(50):
                if (await box.exec("cat done")).text == "done\n":
                    break
                await asyncio.sleep(0.1)
            else:
                raise AssertionError("the command did not go on")
    left = [one["tags"].get("hermes-name") for one in await asyncio.to_thread(cloud.sandboxes)]
    assert name not in left


async def test_what_nobody_has_a_record_of_is_pruned(cloud: Emulated) -> None:
    kind = load_backend("vercel")
    async with opened("known") as box, opened("orphan") as orphan:
        await orphan.close()
        assert orphan._record is not None
        config, store = await configured(), orphan._store
        await asyncio.to_thread(store.remove, orphan._record)
        assert await kind.prune(config, store) == []  # it may be about to get one
        from hermes.backends.vercel import _prune

        before, _prune.GRACE = _prune.GRACE, -1e9
        try:
            done = await kind.prune(config, store)
        finally:
            _prune.GRACE = before
        assert done == [f"sandbox hermes-{orphan.id} removed (no sandbox has it)"]
        assert await there(cloud, box.id) is not None


def test_another_backend_imports_no_sdk() -> None:
    code = (
        "import asyncio, sys, hermes\n"
        "async def main():\n"
        "    async with hermes.Sandbox('local', approval='off') as box: await box.run('true')\n"
        "asyncio.run(main())\n"
        "print([m for m in ('vercel', 'httpx2', 'pydantic', 'modal', 'daytona') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_the_sdk_the_install_command_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.partition(".")[0] == "vercel"]:
        monkeypatch.delitem(sys.modules, name)
    for name in [one for one in sys.modules if one.startswith("hermes.backends.vercel")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "vercel", None)
    with pytest.raises(ConfigError) as caught:
        load_backend("vercel")
    assert caught.value.code == "extra_missing"
    assert "pip install 'hermes-places[vercel]'" in str(caught.value)


async def test_doctor_says_what_answers(cloud: Emulated) -> None:
    from hermes import survey

    config = await configured()
    found = await survey.look("vercel", config, None)
    assert found.works and found.verified == "emulator"
    assert "accepts the token" in found.facts[0]
    await asyncio.to_thread(cloud.fault, "token_expired")
    found = await survey.look("vercel", config, None)
    assert not found.works and "credentials" in found.missing
