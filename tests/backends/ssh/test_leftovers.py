"""Nothing is left on the machine: after a sandbox, a start that failed, a client that was killed, a prune."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import hermes
from _ssh import Client, Host, Machine, command_lines, records, until
from hermes.backends.ssh import SshBackend
from hermes.backends.ssh._channel import SshChannel
from hermes.channel.boot import payload
from hermes.cli._records import prune_all
from hermes.config import Lifetime
from hermes.errors import SandboxGone
from hermes.state import Store
from hermes.testing.tools import stopwatch, unique

from .conftest import Open

pytestmark = [pytest.mark.root_only, pytest.mark.timeout(120)]


@pytest_asyncio.fixture
async def clean(own: Machine) -> AsyncIterator[Machine]:
    """The machine, with nothing on it before; the next test finds it so whatever became of this one."""
    yield own
    own.link.reset(0)
    for pid in own.strangers():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await until(lambda: not own.strangers())
    inside = Path(f"/proc/{own.first}/root")
    for path in sorted(own.files(), reverse=True):
        whole = inside / path.lstrip("/")
        if whole.is_dir() and not whole.is_symlink():
            shutil.rmtree(whole, ignore_errors=True)
        else:
            whole.unlink(missing_ok=True)


async def nothing_left(machine: Machine, seconds: float = 20.0) -> None:
    """Fail unless no process and no file of hermes is there within so long."""
    try:
        await until(lambda: not machine.strangers() and not machine.files(), seconds)
    except AssertionError:
        assert (machine.strangers(), machine.files()) == ({}, set())


async def fill(box: hermes.Sandbox) -> None:
    """Leave all that a sandbox can have: sessions, jobs, strays, files, spilled output, a locked folder."""
    await box.run("mkdir -p deep/er; echo x >deep/er/file; chmod 500 deep/er; touch 'odd \n name'")
    await box.run("head -c 3000000 /dev/zero; (setsid sleep 1000 &) ; sleep 1000 &", session="other")
    await box.start("trap '' TERM; sleep 1000")
    await box.pty("sleep 1000")


@pytest.mark.parametrize("named", [False, True])
async def test_destroying_leaves_nothing(clean: Machine, hermes_home: Path, named: bool) -> None:
    box = await clean.host.sandbox(**({"name": "one"} if named else {})).open()
    await fill(box)
    assert len(clean.strangers()) > 5
    assert clean.files()
    with stopwatch(5):
        await box.destroy()
    assert clean.left() == {}
    assert clean.files() == set()
    assert await asyncio.to_thread(records) == []


async def test_what_is_the_users_is_not_touched(clean: Machine, open_on: Open) -> None:
    """Sessions that begin at home, or where `workdir` says, work on the user's own files."""
    await asyncio.to_thread(clean.host.run, "mkdir -p project; echo mine >project/file")
    before = clean.files()
    for workdir in (None, "project", "~/project"):
        async with clean.host.sandbox(workspace=None, workdir=workdir) as box:
            await box.run("echo more >new")
        assert clean.files() > before
        assert clean.left() == {}
        await asyncio.to_thread(clean.host.run, "rm -f new project/new")
        assert clean.files() == before


async def test_leaving_a_named_one_keeps_its_files_and_what_runs(clean: Machine, open_on: Open) -> None:
    box = await open_on(clean.host, name="kept")
    await box.files.write("note", b"kept")
    await box.start("sleep 1000")
    await box.close()
    await asyncio.sleep(0.5)
    assert any("sleep 1000" in line for line in clean.strangers().values())
    again = await open_on(clean.host, name="kept")
    assert await again.files.read("note") == b"kept"
    await again.destroy()
    await nothing_left(clean)


async def test_giving_up_in_the_middle_of_a_start(clean: Machine) -> None:
    for delay in (0.1, 0.4, 0.7, 0.9, 1.1, 1.3, 1.5):
        box = clean.host.sandbox()
        opening = asyncio.create_task(box.open())
        await asyncio.sleep(delay)
        opening.cancel()
        try:
            await opening
        except asyncio.CancelledError:
            continue
        await box.destroy()
    await nothing_left(clean, 15)
    assert await asyncio.to_thread(records) == []


async def test_a_start_during_which_the_connection_ends(clean: Machine) -> None:
    """An error or a sandbox that works; nothing is left of either."""
    for delay in (0.3, 0.6, 0.8, 1.0, 1.2):
        box = clean.host.sandbox()
        opening = asyncio.create_task(box.open())
        await asyncio.sleep(delay)
        clean.hang_up()
        try:
            await opening
        except hermes.HermesError:
            continue
        with contextlib.suppress(SandboxGone):  # greeted, before all of the guest was there; it ran nothing
            assert (await box.run("echo on")).text == "on\n"
        await box.destroy()
    await nothing_left(clean, 15)


@pytest.mark.parametrize("files", [False, True])
async def test_a_client_that_leaves_before_all_of_the_guest_was_sent(
    clean: Machine, monkeypatch: pytest.MonkeyPatch, files: bool
) -> None:
    """And that cannot remove anything any more: what this start made goes, what was there before stays."""
    if files:
        box = await clean.host.sandbox(name="left", lifetime=Lifetime(idle_guest=0.1)).open()
        await box.files.write("note", b"kept")
        await box.close()
        await until(lambda: not clean.strangers())
    rest, write = (await asyncio.to_thread(payload, {})).rest, SshChannel.write

    def cut(channel: SshChannel, data: bytes) -> None:
        write(channel, data.removesuffix(rest))
        if data.endswith(rest):
            asyncio.get_running_loop().call_later(1.0, channel._kill, signal.SIGKILL)

    async def dead(*_: object, **__: object) -> None:
        pass

    with monkeypatch.context() as patch:
        patch.setattr(SshChannel, "write", cut)
        patch.setattr(SshBackend, "destroy", dead)
        box = clean.host.sandbox(name="left", reconnect_for=5)
        with pytest.raises(SandboxGone):  # the guest has greeted by then, and done nothing
            await box.open()
            await box.run("true")
        await box.close()
    if files:
        await until(lambda: not clean.strangers())
        box = await clean.host.sandbox(name="left").open()
        assert await box.files.read("note") == b"kept"
        await box.destroy()
    await nothing_left(clean)


async def test_destroying_by_another_process_or_later(clean: Machine, open_on: Open) -> None:
    """The one that destroys has never been connected to the guest."""
    box = await clean.host.sandbox(name="later").open()
    await fill(box)
    await box.close()
    other = await clean.host.sandbox(name="later").open(create=False)
    await other.destroy()
    await nothing_left(clean)
    with pytest.raises(SandboxGone):
        await clean.host.sandbox(name="later").open(create=False)


async def test_destroying_while_the_link_is_cut_says_so(clean: Machine) -> None:
    """It cannot be told what is left there; the record stays, and later it can be done."""
    box = await clean.host.sandbox(name="cut", reconnect_for=2, connect_timeout=2, keepalive=1).open()
    await box.run("true")
    clean.link.set(cut=True)
    with stopwatch(30), pytest.raises(hermes.Unreachable):
        await box.destroy()
    clean.link.set(cut=False)
    assert await asyncio.to_thread(records) == ["cut"]
    again = await clean.host.sandbox(name="cut").open()
    await again.destroy()
    await nothing_left(clean)


async def test_a_guest_that_was_killed(clean: Machine, open_on: Open) -> None:
    """The sandbox is gone and said to be; what ran under it has ended too."""
    box = await open_on(clean.host, name="killed")
    await fill(box)
    run = asyncio.create_task(box.run("sleep 1000", session="mine"))
    await asyncio.sleep(0.3)
    for pid in clean.strangers():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with pytest.raises(SandboxGone):
        await run
    await box.close()
    await until(lambda: not clean.strangers())
    again = await open_on(clean.host, name="killed")
    assert (await again.run("echo on")).text == "on\n"
    await again.destroy()
    await nothing_left(clean)


# What reads the configuration on the way is the command line's own, which has nothing else to do.
BLOCKS = pytest.mark.blocking_ok


async def prune() -> list[str]:
    """Do as `hermes sandbox prune` does."""
    done, failures = await prune_all("ssh", dry_run=False)
    if failures:
        raise failures[0]
    return [f"{what}: {why}" for what, why in done]


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was made just now counts as old enough to be looked at."""
    monkeypatch.setattr("hermes.backends.ssh._prune.GRACE", 0.0)


def forget() -> None:
    """Lose the state store's records, as when it is thrown away."""
    for record in Store().all():
        Store().remove(record)


def configured(host: Host, home: Path) -> None:
    home.mkdir(0o700, exist_ok=True)
    values = {**host.options(), "config_file": host.config}
    del values["workspace"]
    lines = "".join(f"  {key}: {value}\n" for key, value in values.items())
    (home / "config.yaml").write_text(f"ssh:\n{lines}")
    (home / "config.yaml").chmod(0o600)


@BLOCKS
@pytest.mark.parametrize("named", [False, True])
async def test_prune_removes_what_a_killed_client_left(
    clean: Machine, hermes_home: Path, no_grace: None, named: bool
) -> None:
    """Without a name nobody can want it any more. With one it stays until its record is gone."""
    configured(clean.host, hermes_home)
    name = "wanted" if named else None
    with Client(clean.host, "echo begun; sleep 1000", name=name) as client:
        while "data" not in await asyncio.to_thread(client.said):
            pass
        ours = set(client.family())
    await until(lambda: not ours & set(command_lines()), 10)
    assert any("sleep 1000" in line for line in clean.strangers().values())
    if named:
        assert await prune() == []
        assert any("sleep 1000" in line for line in clean.strangers().values())
        await asyncio.to_thread(forget)
    said = await prune()
    assert len(said) == 1
    assert clean.host.address in said[0] or not named  # without a name the record tells
    await nothing_left(clean)
    assert await prune() == []
    assert await asyncio.to_thread(records) == []


@BLOCKS
async def test_prune_leaves_what_is_somebodys(
    clean: Machine, hermes_home: Path, no_grace: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Living ones, and those of another home of hermes; files that only look like ours."""
    configured(clean.host, hermes_home)
    box = await clean.host.sandbox().open()
    named = await clean.host.sandbox(name="named").open()
    await named.close()
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "other"))
    theirs = await clean.host.sandbox(name="theirs").open()
    await theirs.close()
    monkeypatch.setenv("HERMES_HOME", str(hermes_home))
    await asyncio.to_thread(clean.host.run, "mkdir -p .hermes-sandboxes/notes; touch .hermes-sandboxes/file")
    before = clean.files()
    assert await prune() == []
    assert clean.files() == before
    assert (await box.run("echo on")).text == "on\n"
    await box.destroy()
    again = await clean.host.sandbox(name="named").open(create=False)
    await again.destroy()
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "other"))
    await (await clean.host.sandbox(name="theirs").open(create=False)).destroy()
    assert clean.left() == {}
    assert all("notes" in path or path.endswith(("/file", "/.hermes-sandboxes")) for path in clean.files())


@BLOCKS
async def test_prune_of_a_machine_that_does_not_answer(
    clean: Machine, hermes_home: Path, no_grace: None
) -> None:
    """It is said, and the sandbox's record stays."""
    configured(clean.host, hermes_home)
    with (hermes_home / "config.yaml").open("a") as file:
        file.write("  connect_timeout: 2\n")
    box = await clean.host.sandbox(name="away").open()
    await box.close()
    clean.link.set(cut=True)
    with stopwatch(20), pytest.raises(hermes.Unreachable):
        await prune()
    clean.link.set(cut=False)
    assert await asyncio.to_thread(records) == ["away"]
    await (await clean.host.sandbox(name="away").open(create=False)).destroy()
    await nothing_left(clean)


@pytest.mark.slow
async def test_without_a_client_all_ends_by_itself(clean: Machine) -> None:
    """The command has its time, the guest its idle time; then only a named sandbox's files are there."""
    life = Lifetime(idle_guest=1, detached=2)
    options = f"lifetime=hermes.config.Lifetime(idle_guest={life.idle_guest}, detached={life.detached})"
    for name in (None, unique("ends")):
        code = Client.CODE.replace("name=name,", f"name=name, {options},")
        with Client(clean.host, "echo begun; sleep 1000", name=name, code=code) as client:
            while "data" not in await asyncio.to_thread(client.said):
                pass
        await until(lambda: not clean.strangers(), 15)
    await until(lambda: not clean.sessions(), 10)


async def test_a_socket_directory_of_somebody_else_is_not_used(clean: Machine, open_on: Open) -> None:
    """Anyone there may make directories in /tmp and /dev/shm: whoever did must get nothing."""
    uid = (await asyncio.to_thread(clean.host.run, "id -u")).strip()
    trap = (
        f"for top in /dev/shm /tmp /var/tmp; do mkdir -m 777 $top/hermes-{uid} $top/hermes-{uid}-files; done"
    )
    other = clean.host.as_user("hermes-dash")
    await asyncio.to_thread(other.run, trap)
    before = clean.files()
    try:
        box = await clean.host.sandbox().open()
    except hermes.BackendError as error:
        assert "/dev/shm" in str(error)
    else:
        assert (await box.run("echo in")).text == "in\n"
        await box.destroy()
    assert clean.files() == before
    assert clean.left() == {}
