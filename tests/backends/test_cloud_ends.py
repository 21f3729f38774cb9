"""What the three clouds do alike: sandboxes that have ended there, empty lists, what a command leaves."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

import hermes
from _emulators import Emulated, emulated
from hermes.errors import ConfigError, SandboxGone, Unreachable, exit_code
from hermes.state import SandboxRecord, Store

CLOUDS = ("modal", "daytona", "vercel")
LISTS = [
    ("modal", "allow_domains"),
    ("modal", "allow_cidrs"),
    ("daytona", "allow_networks"),
    ("daytona", "allow_domains"),
    ("vercel", "domains"),
]
DAY = 24 * 3600.0


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Emulated]]:
    """The emulators that were asked for so far."""
    import contextlib

    with contextlib.ExitStack() as stack:

        class Started(dict[str, Emulated]):
            def __missing__(self, name: str) -> Emulated:
                found = self[name] = stack.enter_context(emulated(name))
                return found

        yield Started()


@pytest.fixture
def cloud(
    request: pytest.FixtureRequest, servers: dict[str, Emulated], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Emulated]]:
    """A cloud, as its name and its emulator, which this process uses; with nothing alive afterwards."""
    name: str = request.param
    pytest.importorskip({"vercel": "vercel.sandbox"}.get(name, name))
    emulator = servers[name]
    for key, value in emulator.settings.items():
        monkeypatch.setenv(key, value)
    yield name, emulator
    emulator.ask("/faults", method="DELETE")
    emulator.advance(40 * DAY)


each = pytest.mark.parametrize("cloud", CLOUDS, indirect=True)
Cloud = tuple[str, Emulated]


def box(name: str, given: str | None = None, **options: Any) -> hermes.Sandbox:
    return hermes.Sandbox(name, name=given, approval="off", workspace="private", **options)


def command(cloud: Cloud, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command line on the emulator."""
    return subprocess.run(
        [sys.executable, "-m", "hermes", *args],
        env={**os.environ, **cloud[1].settings, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def alive(cloud: Cloud) -> list[dict[str, Any]]:
    """Return what runs at the provider."""
    states = ("running", "started", "pending", "creating")
    return [one for one in cloud[1].sandboxes() if (one.get("state") or one.get("status")) in states]


async def ask(work: Any, *args: Any) -> Any:
    return await asyncio.to_thread(work, *args)


async def records() -> list[SandboxRecord]:
    return await asyncio.to_thread(lambda: Store().all())


@each
async def test_one_with_a_name_that_has_ended_is_not_replaced_by_an_empty_one(cloud: Cloud) -> None:
    async with box(cloud[0], "mine") as one:
        await one.run("echo kept > file")
        await ask(cloud[1].advance, 40 * DAY)
        for _ in range(2):  # and not in the middle of things either
            with pytest.raises(SandboxGone, match="not run again") as caught:
                await one.run("touch ran")
            assert not isinstance(caught.value, Unreachable)
    for _ in range(2):
        with pytest.raises(SandboxGone, match=r"files are lost.*nothing was started") as caught:
            await box(cloud[0], "mine").open()
        assert exit_code(caught.value) == 123
        assert "--recreate" in str(caught.value) and "hermes sandbox rm mine" in str(caught.value)
    assert not await ask(alive, cloud)
    async with box(cloud[0], "mine", recreate=True) as one:
        assert (await one.run("ls")).text == ""
    async with box(cloud[0], "mine") as again:
        assert again.id == one.id
        await again.destroy()


@each
async def test_one_whose_removal_was_cut_short_is_not_missed(cloud: Cloud) -> None:
    one = await box(cloud[0], "mine").open()
    place, record = one._the_place(), one._record
    assert record is not None
    await hermes.places.end(place, record, one._store)  # and killed before its record went
    await one.close()
    assert [other.name for other in await records()] == ["mine"]
    async with box(cloud[0], "mine") as again:
        assert (await again.run("echo new")).text == "new\n"
        await again.destroy()


@each
def test_prune_removes_the_records_of_those_that_have_ended(cloud: Cloud) -> None:
    assert command(cloud, "--sandbox", cloud[0], "exec", "--name", "mine", "true").returncode == 0
    cloud[1].advance(40 * DAY)
    assert " gone " in command(cloud, "sandbox", "ls").stdout
    done = command(cloud, "sandbox", "prune", "--yes")
    assert done.stdout == "mine: removed (it is gone)\n", done
    assert command(cloud, "sandbox", "ls").stdout == "No sandboxes.\n"


@pytest.mark.parametrize(("cloud", "key"), LISTS, indirect=["cloud"], ids=lambda one: str(one))
async def test_an_empty_list_of_what_may_be_reached_is_nothing(cloud: Cloud, key: str) -> None:
    empty: dict[str, Any] = {key: []}
    async with box(cloud[0], **empty) as one:
        # The emulators put a sandbox that may reach nothing into a network of its own.
        devices = await one.run("tail -n +3 /proc/net/dev | cut -d: -f1")
        assert devices.text.split() == ["lo"]
        assert one._record is not None and one._record.settings["network"] == "off"


@each
def test_a_single_command_leaves_nothing_that_costs_money(cloud: Cloud) -> None:
    done = command(cloud, "--sandbox", cloud[0], "exec", "echo out; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n"), done
    assert "was ended with its files" in done.stderr
    assert not alive(cloud)
    done = command(cloud, "--sandbox", cloud[0], "exec", "--keep", "touch there")
    assert done.returncode == 0 and "was ended" not in done.stderr and len(alive(cloud)) == 1
    done = command(cloud, "--sandbox", cloud[0], "exec", "ls")
    assert (done.stdout, alive(cloud)) == ("there\n", [])
    done = command(cloud, "--sandbox", cloud[0], "exec", "--name", "mine", "true")
    assert done.returncode == 0 and len(alive(cloud)) == 1
    # Daytona's sleeps, with its files.
    assert ("ends with its files" in done.stderr) == (cloud[0] != "daytona"), done
    for more in ((), ("--set", "persistent=true", "--name", "other")):
        args = ("exec", "--name", "mine", *more, "true")
        assert "ends with its files" not in command(cloud, "--sandbox", cloud[0], *args).stderr


@each
def test_ctrl_c_ends_the_command_and_what_costs_money(cloud: Cloud) -> None:
    """The SDKs take no signal over: Daytona's did."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hermes", "--sandbox", cloud[0], "exec", "echo begun; sleep 100; echo never"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), said
    assert "was ended with its files" in said and "Traceback" not in said
    assert not alive(cloud)


@each
async def test_an_empty_name_of_an_image_is_refused(cloud: Cloud) -> None:
    with pytest.raises(ConfigError, match="is empty; nothing was started"):
        await box(cloud[0], image="").open()
    with pytest.raises(ConfigError, match=r"is empty; nothing was started|expected the name of an image"):
        await box(cloud[0], config=await ask(hermes.config.load, {f"{cloud[0]}.image": ""})).open()
    assert not await ask(alive, cloud)


@pytest.mark.parametrize("cloud", ["modal"], indirect=True)
async def test_an_idle_time_of_nothing_is_refused(cloud: Cloud) -> None:
    with pytest.raises(ConfigError, match=r"modal\.idle.*a second at the least"):
        await box("modal", idle=0).open()


def test_a_wrong_list_is_told_what_it_is_a_list_of() -> None:
    with pytest.raises(ConfigError, match="expected a list of whole numbers above 0 of at most 65535"):
        hermes.config.load({"vercel": {"ports": "web"}})


@pytest.fixture
def nowhere(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a service that is down (refuses), or that takes connections and says nothing."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if request.param == "refuses":
            server.close()
        yield f"http://127.0.0.1:{port}"


down = pytest.mark.parametrize("nowhere", ["refuses", "silent"], indirect=True)
ADDRESSES = {"modal": "MODAL_SERVER_URL", "daytona": "DAYTONA_API_URL", "vercel": "HERMES_VERCEL_API_URL"}
KEYS = {"modal": "modal.server_url", "daytona": "daytona.api_url", "vercel": "vercel.api_url"}


@each
@pytest.mark.parametrize("nowhere", ["refuses"], indirect=True)
def test_a_service_that_is_down_is_no_sandbox_that_is_gone(cloud: Cloud, nowhere: str) -> None:
    done = command(cloud, "--sandbox", cloud[0], "exec", "true", **{ADDRESSES[cloud[0]]: nowhere})
    assert done.returncode == 125, done
    assert KEYS[cloud[0]] in done.stderr and "status page" in done.stderr and "network" in done.stderr
    assert "Traceback" not in done.stderr


@each
@down
def test_removing_from_a_service_that_is_down_is_bounded_and_not_mute(cloud: Cloud, nowhere: str) -> None:
    assert command(cloud, "--sandbox", cloud[0], "exec", "--name", "mine", "true").returncode == 0
    away = {ADDRESSES[cloud[0]]: nowhere}
    for args, said in (
        (("rm", "mine"), "'mine' was not removed"),
        (("prune", "--sandbox", cloud[0]), "neither looked for"),
    ):
        began = time.monotonic()
        done = command(cloud, "sandbox", *args, **away)
        assert time.monotonic() - began < 20, (args, done)
        assert done.returncode in (123, 125), done
        assert said in done.stderr, (args, done)
    assert command(cloud, "sandbox", "rm", "mine").stdout == "mine: removed\n"


@each
async def test_after_suspend_the_next_command_wakes_it(cloud: Cloud) -> None:
    async with box(cloud[0], persistent=True) as one:
        await one.run("echo kept > file")
        await one.suspend()
        assert not await ask(alive, cloud)
        with pytest.raises(SandboxGone, match=r"is suspended.*resume\(\)"):
            _ = one.files
        assert (await one.run("cat file")).text == "kept\n"
        assert len(await ask(alive, cloud)) == 1


@each
def test_what_runs_without_a_record_is_listed(cloud: Cloud) -> None:
    assert command(cloud, "--sandbox", cloud[0], "exec", "--name", "mine", "true").returncode == 0
    listed = json.loads(command(cloud, "sandbox", "ls", "--json").stdout)
    assert [(one["name"], one["state"]) for one in listed] == [("mine", "running")]
    store = Store()
    (record,) = store.all()
    store.remove(record)
    (one,) = json.loads(command(cloud, "sandbox", "ls", "--json").stdout)
    assert (one["backend"], one["state"], one["id"]) == (cloud[0], "stray", record.id)
    # By our clock where it is told by a mark of ours, else by the provider's, as other tests left that.
    ahead = 0.0 if cloud[0] == "modal" else cloud[1].ask("/")["time"] - time.time()
    assert one["cost"]["estimate"] > 0 and abs(one["created"] - ahead - record.created) < 60
    shown = command(cloud, "sandbox", "ls", "--sandbox", cloud[0])
    assert " stray " in shown.stdout and "hermes sandbox prune" in shown.stderr, shown
    assert command(cloud, "sandbox", "ls", "--sandbox", "local").stdout == "No sandboxes on local.\n"
    cloud[1].advance(40 * DAY)
    assert " stray " not in command(cloud, "sandbox", "ls").stdout


@each
def test_a_command_that_wakes_one_says_how_long_that_took(cloud: Cloud) -> None:
    mine = ("--sandbox", cloud[0], "exec", "--set", "persistent=true", "--name", "mine")
    assert command(cloud, *mine, "echo kept > file").returncode == 0
    assert command(cloud, "sandbox", "suspend", "mine").stdout == "mine: suspended\n"
    assert not alive(cloud)
    done = command(cloud, *mine, "cat file")
    assert done.stdout == "kept\n", done
    assert re.search(r"(woke in|waking it took) \d+\.\d s", done.stderr), done
    assert command(cloud, "sandbox", "rm", "mine").returncode == 0


@each
async def test_what_a_client_left_that_was_killed_while_it_made_one(cloud: Cloud) -> None:
    """Its record has no locator: what is there of it is found by its name or labels."""
    one = await box(cloud[0], "mine").open()
    record = one._record
    assert record is not None
    await one.close()
    record.locator = {}
    record.owner_pid = 4_000_000  # as there is none
    await ask(one._store.put, record)
    assert len(await ask(alive, cloud)) == 1
    done = await ask(command, cloud, "sandbox", "prune", "--yes")
    assert done.stdout.startswith("mine: removed (its hermes ended while it was made)"), done
    assert not await ask(alive, cloud)
    assert not await records()


@each
async def test_sessions_have_the_language_and_the_time_zone_of_here(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "C.utf8")
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    monkeypatch.setenv("LC_ALL", "C.utf8")
    monkeypatch.setenv("LC_TIME", "C.utf8")
    shown = 'echo "$LANG $TZ ${LC_ALL-none} ${LC_TIME-none}"'
    async with box(cloud[0]) as one:
        assert (await one.run(shown)).text == "C.utf8 Pacific/Auckland none none\n"
        assert (await one.exec(shown)).text == "C.utf8 Pacific/Auckland none none\n"
    monkeypatch.setenv("LANG", "xx_XX.UTF-8")  # which is not known there
    monkeypatch.setenv("TZ", "")
    async with box(cloud[0], env={"TZ": "UTC"}) as one:
        assert (await one.run('echo "$LANG $TZ"')).text in ("C.UTF-8 UTC\n", " UTC\n")


@each
async def test_the_idle_time_counts_from_the_last_use(cloud: Cloud) -> None:
    async with box(cloud[0], "mine") as one:
        record = one._record
        assert record is not None
        record.last_used -= 30
        await one.run("true")
        assert time.time() - record.last_used < 20
        await asyncio.sleep(1.1)
    (found,) = await records()
    assert found.last_used - found.created > 1  # it was in use until now
    async with box(cloud[0], "mine") as one:
        await one.destroy()


@each
async def test_it_is_told_that_it_is_an_emulator(cloud: Cloud) -> None:
    async with box(cloud[0]) as one:
        facts = one.describe()
        assert facts["emulated"] and facts["service"] in cloud[1].settings.values()
    done = await ask(command, cloud, "doctor", "--sandbox", cloud[0])
    assert done.returncode == 0 and "an emulator on this machine, not" in done.stdout, done


@pytest.mark.parametrize("address", ["https://app.daytona.io/api", "https://a.b,https://x", "", None])
def test_a_provider_is_not_taken_for_an_emulator(address: str | None) -> None:
    from hermes.backends._cloud._account import is_here

    assert not is_here(address)
    assert is_here("http://127.0.0.1:1/api") and is_here("http://[::1]:1") and is_here("http://localhost:1")
