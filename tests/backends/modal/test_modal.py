"""The modal backend on an emulated Modal: its life cycle, what goes wrong, and what killed clients leave."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hermes
from _emulators import Emulated, emulated
from hermes.backends._cloud import _limiter
from hermes.config import load
from hermes.errors import BackendError, ConfigError, SandboxGone, Unreachable, UnsupportedError

pytest.importorskip("modal")

TOKENS = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")


@pytest.fixture(scope="module")
def server() -> Iterator[Emulated]:
    """One emulator for all tests here."""
    with emulated("modal") as running:
        yield running


@pytest.fixture
def cloud(server: Emulated, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulated]:
    """The emulator, which this process uses, with nothing wrong and nothing running afterwards."""
    server.use(monkeypatch)
    yield server
    server.ask("/faults", method="DELETE")
    server.line(cut=0, delay=0)
    server.advance(25 * 3600)


def box(name: str | None = None, **options: Any) -> hermes.Sandbox:
    return hermes.Sandbox("modal", name=name, approval="off", workspace="private", **options)


def running(cloud: Emulated) -> list[dict[str, Any]]:
    return [one for one in cloud.sandboxes() if one["state"] == "running"]


def snapshots(cloud: Emulated) -> int:
    return sum(bool(one.get("snapshot")) for one in cloud.sandboxes())


async def ask(work: Any, *args: Any, **more: Any) -> Any:
    """Ask the control port without blocking the loop."""
    return await asyncio.to_thread(work, *args, **more)


async def test_files_survive_sleep_and_nothing_is_billed_meanwhile(cloud: Emulated) -> None:
    one = box("sleeper")
    async with one:
        await one.run("echo kept > ~/file; echo here > file")
        await one.suspend()
    assert await ask(running, cloud) == []
    assert await ask(snapshots, cloud) == 1
    async with box("sleeper") as again:
        assert (await again.run("cat ~/file file")).text == "kept\nhere\n"
        assert len(await ask(running, cloud)) == 1
        await again.destroy()
    assert await ask(running, cloud) == []
    assert await ask(snapshots, cloud) == 0


async def test_it_falls_asleep_when_idle_and_the_next_command_wakes_it(cloud: Emulated) -> None:
    async with box(idle=2.5) as one:
        await one.run("echo kept > ~/file")
        for _ in range(100):
            if not await ask(running, cloud):
                break
            await asyncio.sleep(0.2)
        assert await ask(running, cloud) == []
        with pytest.warns(UserWarning, match=r"woken in \d+\.\d s"):
            assert (await one.run("cat ~/file")).text == "kept\n"


async def test_a_snapshot_that_expired_is_told_of(cloud: Emulated) -> None:
    async with box("lost", lifetime=hermes.Lifetime(ttl=3600)) as one:
        await one.run("echo kept > ~/file")
        await one.suspend()
    await ask(cloud.advance, 3700)
    for why in (r"snapshot has expired.*files are lost", r"files are lost.*nothing was started"):
        with pytest.raises(SandboxGone, match=why):
            await box("lost").open()
    assert not await ask(running, cloud)
    async with box("lost", recreate=True) as again:
        assert (await again.run("ls ~/file")).exit_code != 0
        await again.destroy()


async def test_files_are_kept_before_the_lifetime_ends(cloud: Emulated) -> None:
    config = await asyncio.to_thread(load, {"modal.lifetime": 8})
    async with box("short", config=config) as one:
        await one.run("echo kept > ~/file")
        for _ in range(100):
            if await ask(snapshots, cloud):
                break
            await asyncio.sleep(0.1)
        await ask(cloud.advance, 10)
        with pytest.raises(SandboxGone, match="lifetime"):
            await one.run("sleep 20")
    async with box("short") as again:
        assert (await again.run("cat ~/file")).text == "kept\n"
        await again.destroy()


async def test_leaving_a_persistent_one_keeps_its_files(cloud: Emulated) -> None:
    async with box("home", persistent=True) as one:
        await one.run("echo kept > ~/file")
    await ask(cloud.advance, 2 * 3600)  # nobody is there, and Modal ends what is idle
    assert await ask(running, cloud) == []
    async with box("home", persistent=True) as again:
        assert (await again.run("cat ~/file")).text == "kept\n"
        await again.destroy()


async def test_what_runs_without_a_client_is_not_idle(cloud: Emulated) -> None:
    async with box("worker") as one:
        await one.start("sleep 1000")
        await asyncio.sleep(3)
    await asyncio.sleep(1)
    await ask(cloud.advance, 3600)
    assert len(await ask(running, cloud)) == 1
    async with box("worker") as again:
        assert [job.state for job in await again.jobs()] == ["running"]
        await again.destroy()


async def test_what_was_asked_for_is_what_is_made(cloud: Emulated) -> None:
    limits = {"cpus": 2.0, "memory": 512 << 20}
    async with box(gpu="A100", region="us-east", limits=limits, network="off") as one:
        (made,) = await ask(running, cloud)
        assert (made["gpu"], made["regions"], made["network"]) == ("A100", ["us-east"], 2)
        assert made["idle_timeout"] == 300 and made["timeout"] == 24 * 3600
        assert made["labels"]["hermes-id"] == one.id
        assert (await one.run("cat /proc/net/route | wc -l")).text.strip() in ("0", "1")
    async with box(allow_domains=["example.com"]):
        (made,) = await ask(running, cloud)
        assert made["domains"] == ["example.com"]


async def test_what_it_cannot_is_refused_before_anything_is_made(cloud: Emulated) -> None:
    before = len(await ask(cloud.sandboxes))
    for options, kind in (
        ({"network": "internal"}, UnsupportedError),
        ({"limits": {"pids": 5}}, UnsupportedError),
        ({"gpus": 2}, ConfigError),
        ({"network": "off", "allow_domains": ["x.org"]}, ConfigError),
    ):
        with pytest.raises(kind, match="nothing was started"):
            await box(**options).open()
    assert len(await ask(cloud.sandboxes)) == before


async def test_missing_tokens_are_named_with_the_page(
    cloud: Emulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in TOKENS:
        monkeypatch.delenv(name)
    with pytest.raises(BackendError, match="MODAL_TOKEN_ID and MODAL_TOKEN_SECRET") as caught:
        await box().open()
    assert "https://modal.com/settings/tokens" in str(caught.value)


async def test_wrong_tokens_are_told(cloud: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODAL_TOKEN_ID", "ak-wrong")
    with pytest.raises(BackendError, match="does not let us in") as caught:
        await box().open()
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("fault", ["snapshot_slow", "snapshot_fails"])
async def test_a_snapshot_that_is_not_taken_is_told_and_the_sandbox_goes_on(
    cloud: Emulated, fault: str
) -> None:
    config = await ask(hermes.config.load, {"modal.snapshot_timeout": 2})
    async with box(config=config) as one:
        await one.run("echo kept > file")
        await ask(lambda: cloud.fault(fault, times=50))  # the SDK tries again
        with pytest.raises(Unreachable, match=r"within 2 s.*modal\.snapshot_timeout"):
            await one.snapshot()
        assert (await one.run("cat file")).text == "kept\n"


async def test_too_many_creations_wait_their_turn(cloud: Emulated) -> None:
    await ask(cloud.fault, "exhausted")
    async with box() as one:
        assert (await one.run("echo ok")).text == "ok\n"


async def test_a_turn_is_counted_over_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import asyncio; from hermes.backends._cloud._limiter import turn; "
        "asyncio.run(turn('me', 2, 1.5)); asyncio.run(turn('me', 2, 1.5))"
    )
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], check=True)
    began = time.monotonic()
    await _limiter.turn("another", 2, 1.5)
    assert time.monotonic() - began < 0.5
    await _limiter.turn("me", 2, 1.5)
    assert time.monotonic() - began > 0.3


async def test_a_creation_that_is_never_answered_leaves_nothing(
    cloud: Emulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.backends.modal.CREATE_SECONDS", 3.0)
    await ask(cloud.fault, "create_hangs")
    with pytest.raises(hermes.HermesError, match="within 3 s"):
        await box().open()
    assert await ask(running, cloud) == []


async def test_a_sandbox_that_ends_in_mid_command_is_gone(cloud: Emulated) -> None:
    async with box() as one:
        await one.run("echo warm")
        await ask(cloud.fault, "stopped_in_command")
        with pytest.raises(SandboxGone, match="ended"):
            await one.run("sleep 5")


async def test_an_image_that_cannot_be_had_is_told(cloud: Emulated) -> None:
    await ask(cloud.fault, "image_fails")
    with pytest.raises(BackendError, match="build the image nobody/nothing"):
        await box(image="nobody/nothing").open()


KILLED = """
import asyncio, os, signal, sys
import hermes
async def main():
    one = hermes.Sandbox("modal", name="victim", approval="off", workspace="private")
    if sys.argv[1] == "create":
        asyncio.get_running_loop().call_later(0.4, os.kill, os.getpid(), signal.SIGKILL)
    await one.open()
    await one.run("echo kept > ~/file")
    if sys.argv[1] == "run":
        asyncio.get_running_loop().call_later(1, os.kill, os.getpid(), signal.SIGKILL)
        await one.run("sleep 2; echo done > ~/file2; sleep 100")
    asyncio.get_running_loop().call_later(0.15, os.kill, os.getpid(), signal.SIGKILL)
    await getattr(one, sys.argv[1])()
    await asyncio.sleep(5)
asyncio.run(main())
"""


@pytest.mark.parametrize("moment", ["create", "run", "snapshot", "suspend", "destroy"])
async def test_a_client_that_is_killed_loses_nothing_and_leaves_nothing(cloud: Emulated, moment: str) -> None:
    await ask(cloud.line, delay=0.03)
    if moment == "snapshot":
        await ask(cloud.fault, "snapshot_slow", seconds=600)
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", KILLED, moment], check=False)
    assert done.returncode == -signal.SIGKILL
    await ask(cloud.line, delay=0)
    if moment == "snapshot":
        assert await ask(snapshots, cloud) == 0  # it was in the middle of it
        await ask(cloud.advance, 600)
    async with box("victim") as again:
        assert len(await ask(running, cloud)) == 1
        if moment in ("run", "snapshot", "suspend"):
            assert (await again.run("cat ~/file", session="another")).text == "kept\n"
        if moment == "run":  # it goes on, as it was promised
            assert (await again.run("sleep 2; cat ~/file2", session="another")).text == "done\n"
        await again.destroy()
    assert await ask(running, cloud) == []


async def test_prune_ends_what_has_no_record(cloud: Emulated, tmp_path: Path) -> None:
    from hermes.backends.modal import ModalBackend
    from hermes.state import Store

    one = await box("orphan").open()
    record = one._record
    assert record is not None
    await one.close()
    store = await asyncio.to_thread(Store)
    await asyncio.to_thread(store.remove, record)
    mine = await box("mine").open()
    gone = await ModalBackend.prune(await asyncio.to_thread(load), store)
    assert len(gone) == 1 and "no sandbox has it" in gone[0]
    assert [made["labels"]["hermes-id"] for made in await ask(running, cloud)] == [mine.id]
    await mine.destroy()


@pytest.mark.parametrize("place", ["local", "ssh"])
def test_other_places_do_not_import_the_sdk(place: str) -> None:
    code = (
        "import sys, hermes, hermes.backends as b; b.load(sys.argv[1]); b.load('modal'); "
        "import hermes.config; print([m for m in ('modal', 'grpclib', 'aiohttp') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, place], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_the_sdk_the_command_to_install_it_is_named() -> None:
    code = "import sys; sys.modules['modal'] = None\nimport hermes.backends as b; b.load('modal')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'hermes-places[modal]'" in done.stderr


def test_snapshots_are_kept_through_a_crash_in_mid_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hermes.backends.modal import _snapshots

    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    _snapshots.keep("a" * 16, _snapshots.Kept(snapshot="im-1", image="x"))
    (tmp_path / "modal_snapshots.new").write_text('{"half')
    assert _snapshots.keep("a" * 16, _snapshots.Kept(snapshot="im-2", image="x")).snapshot == "im-1"  # type: ignore[union-attr]
    assert _snapshots.known()["a" * 16].snapshot == "im-2"
    assert os.stat(tmp_path / "modal_snapshots.json").st_mode & 0o077 == 0
    (tmp_path / "modal_snapshots.json").write_text("{")
    with pytest.raises(hermes.HermesError, match="cannot be read"):
        _snapshots.forget("a" * 16)
    assert (tmp_path / "modal_snapshots.json").read_text() == "{"


def command(cloud: Emulated, *args: str) -> subprocess.CompletedProcess[str]:
    """Run the command line on the emulator."""
    return subprocess.run(
        [sys.executable, "-m", "hermes", "--sandbox", "modal", "exec", *args],
        env={**os.environ, **cloud.settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_single_command_leaves_nothing_that_costs_money(cloud: Emulated) -> None:
    done = command(cloud, "echo out; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert "was ended with its files" in done.stderr
    assert not running(cloud)


def test_a_single_command_that_is_persistent_leaves_it_asleep(cloud: Emulated) -> None:
    assert command(cloud, "-q", "--set", "persistent=true", "echo kept > file").returncode == 0
    assert not running(cloud)
    done = command(cloud, "-q", "--set", "persistent=true", "cat file")
    assert done.stdout == "kept\n", done
    assert not running(cloud)


def test_a_sandbox_for_each_command_and_one_for_each_session(cloud: Emulated) -> None:
    alone = ("-q", "--set", "modal.reuse=command")
    assert command(cloud, *alone, "--gpu", "A100", "echo kept > ~/file").returncode == 0
    assert [one["gpu"] for one in cloud.sandboxes() if one["state"] == "ended"][-1] == "A100"
    assert command(cloud, *alone, "cat ~/file").returncode == 1
    assert not running(cloud)
    for session in ("one", "two"):
        done = command(
            cloud, "-q", "--set", "modal.reuse=session", "--session", session, "ls ~/one; touch ~/one"
        )
        assert done.returncode == 0, done.stderr
        assert "No such file" in done.stderr
    assert len(running(cloud)) == 2


@pytest.mark.parametrize(
    "args",
    [
        ["--name", "mine", "true"],
        ["--session", "work", "true"],
        ["--set", "keep=true", "true"],
        ["sleep 300 &"],
    ],
    ids=["name", "session", "keep", "background"],
)
def test_what_is_to_go_on_goes_on(cloud: Emulated, args: list[str]) -> None:
    done = command(cloud, *args)
    assert done.returncode == 0, done
    assert len(running(cloud)) == 1
    assert ("goes on and costs money" in done.stderr) == (args == ["sleep 300 &"])


PRICE = {
    "dated": "2026-01-01",
    "currency": "USD",
    "places": {"modal": {"core_hour": 28_800.0}},
}  # 1 USD a second


def write_prices(home: Path, listed: dict[str, Any]) -> None:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "prices.json").write_text(json.dumps(listed))
    (home / "prices.json").chmod(0o600)


@pytest.fixture
def dear(hermes_home: Path) -> None:
    """Prices by which the smallest sandbox costs a dollar each second."""
    write_prices(hermes_home, PRICE)


async def test_a_budget_warns_and_then_suspends(cloud: Emulated, dear: None) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        async with box("spender", budget="4usd") as spender:
            await spender.files.write("kept", b"file")
            async with asyncio.timeout(20):
                while await ask(running, cloud):
                    await asyncio.sleep(0.2)
            with pytest.raises(SandboxGone, match="the budget of 4 USD for 'spender' is spent"):
                await spender.run("echo not run")
    texts = [str(one.message) for one in said]
    assert any("of its budget of 4 USD" in text for text in texts)
    assert any("the budget of 4 USD is spent, about: 'spender' is suspended" in text for text in texts)
    again = await box("spender").open()
    try:
        assert (await again.run("cat kept")).text == "file"
    finally:
        await again.destroy()


@pytest.mark.parametrize(
    ("amount", "why"), [("0", "is no budget"), ("5eur", "such as 5 or 5usd"), ("much", "is no budget")]
)
async def test_what_is_no_budget(cloud: Emulated, amount: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        await box("nothing", budget=amount).open()
    assert why in f"{caught.value} {caught.value.hint}"
    assert not await ask(running, cloud)


async def test_a_budget_needs_a_price_and_something_to_pay(cloud: Emulated, hermes_home: Path) -> None:
    with pytest.raises(ConfigError, match="nothing is paid for there"):
        await hermes.Sandbox("local", budget=5).open()
    await ask(write_prices, hermes_home, PRICE | {"places": {}})
    with pytest.raises(ConfigError, match="the prices have none"):
        await box("nothing", budget=5).open()
    assert not await ask(running, cloud)


def test_the_budget_of_a_command(cloud: Emulated, dear: None) -> None:
    done = command(cloud, "--name", "spender", "--budget", "2usd", "echo begun; sleep 60")
    assert done.returncode == 123, done
    assert done.stdout == "begun\n"
    assert "the budget of 2 USD is spent" in done.stderr
    assert "error: the budget of 2 USD for 'spender' is spent: it was suspended" in done.stderr
    assert "Its files are kept." in done.stderr
    assert not running(cloud)


def test_a_budget_that_opening_has_spent(cloud: Emulated, dear: None) -> None:
    done = command(cloud, "--name", "spender", "--budget", "0.000001usd", "sleep 60")
    assert done.returncode == 123, done
    assert "USD for 'spender' is spent: it was suspended" in done.stderr
    assert not running(cloud)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulated]:
    """An emulator that nothing was asked of yet."""
    with emulated("modal") as running:
        running.use(monkeypatch)
        yield running


async def test_nothing_but_the_sdks_own_calls_stand_before_the_first_command(fresh: Emulated) -> None:
    """Creating and waking take what the SDK takes for them; the first command one message more."""

    async def calls_of(box: hermes.Sandbox) -> list[str]:
        before = len(await asyncio.to_thread(fresh.calls))
        await box.open()
        await box.run("true")
        calls = (await asyncio.to_thread(fresh.calls))[before:]
        return calls[: calls.index("TaskExecStdinWrite") + 1]

    one = hermes.Sandbox("modal", name="one", approval="off", workspace="private")
    # Nothing waits for the first two; the last one the SDK asks once in a process.
    beside = {"SandboxTagsGetV2", "TaskExecStdioRead", "EnvironmentGetOrCreate"}
    made = await calls_of(one)
    assert sorted(set(made) - beside) == sorted(
        [
            *("AppGetOrCreate", "ImageGetOrCreate", "AuthTokenGet"),
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


async def test_cuts_in_the_middle_of_much_input_are_nobodys_business(
    cloud: Emulated, caplog: pytest.LogCaptureFixture
) -> None:
    data = await asyncio.to_thread(os.urandom, 6 << 20)
    async with box() as one:
        await ask(cloud.line, cut=0.4)
        for _ in range(3):
            await one.files.write("file", data)
        await ask(cloud.line, cut=0)
        assert await one.files.read("file") == data
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
