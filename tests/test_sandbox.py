"""What a sandbox is as a whole: made, found again, judged, described, ended."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import hermes
from hermes.approval import Decision, Request
from hermes.config import Lifetime, load
from hermes.errors import SandboxGone, exit_code
from hermes.state import SandboxRecord, Store
from hermes.testing.tools import eventually


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


async def records() -> list[SandboxRecord]:
    return await asyncio.to_thread(lambda: Store().all())


async def gone(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True


async def test_an_unnamed_sandbox_leaves_nothing(hermes_home: Path) -> None:
    async with hermes.Sandbox("local") as box:
        await box.run("sleep 100 &")
        await box.start("sleep 100")
        pid, run_dir = box._channel.guest["pid"], Path(box._channel.guest["run_dir"])
        assert [record.id for record in await records()] == [box.id]
        assert run_dir.is_dir()
    assert await gone(pid, 5)
    assert not run_dir.exists()
    assert await records() == []
    # What was done in it is told by its recording.
    kept = [
        path for path in hermes_home.rglob("*") if path.is_file() and path.parent.name not in ("cache", "log")
    ]
    assert kept == [hermes_home / "state" / "state.db"]


async def test_a_named_sandbox_is_found_again_with_its_options() -> None:
    async with hermes.Sandbox("local", approval="off", name="home", workspace="private") as box:
        where = box.cwd
        assert box.describe()["cwd"] == where
        await box.run("touch here; x=1")
    async with hermes.Sandbox("local", approval="off", name="home") as box:
        assert box.cwd == where
        assert (await box.run("ls; echo $x")).text == "here\n1\n"
        await box.destroy()
    assert not Path(where).exists()


async def test_opening_the_same_name_twice_at_once_makes_one() -> None:
    boxes = [hermes.Sandbox("local", name="race") for _ in range(6)]
    await asyncio.gather(*(box.open() for box in boxes))
    assert len({box.id for box in boxes}) == 1
    assert len({box._channel.guest["pid"] for box in boxes}) == 1
    await asyncio.gather(*(box.close() for box in boxes[1:]))
    await boxes[0].destroy()


async def test_a_sandbox_whose_guest_ended_is_made_anew() -> None:
    async with hermes.Sandbox("local", approval="off", name="again", workspace="private") as box:
        first = box._channel.guest["guest"]
        await box.run("echo kept >file; x=1")
        os.kill(int(box._channel.guest["pid"]), 9)
        with pytest.raises(hermes.SandboxGone):
            await box.run("true")
    with pytest.raises(hermes.SandboxGone, match="the local sandbox 'again' does not run"):
        await hermes.Sandbox("local", approval="off", name="again").open(create=False)
    async with hermes.Sandbox("local", approval="off", name="again", workspace="private") as box:
        assert box._channel.guest["guest"] != first
        assert (await box.run("cat file; echo [$x]")).text == "kept\n[]\n"
        await box.destroy()


async def test_a_guest_with_nothing_to_do_ends() -> None:
    box = hermes.Sandbox("local", name="idle", lifetime=Lifetime(idle_guest=0.3))
    await box.open()
    pid, run_dir = box._channel.guest["pid"], Path(box._channel.guest["run_dir"])
    await asyncio.sleep(0.8)
    assert alive(pid), "a client is attached"
    await box.run("sleep 1.2 &")
    await box.close()
    await asyncio.sleep(0.7)
    assert alive(pid), "a process still runs"
    assert await gone(pid, 5)
    assert not run_dir.exists()


async def test_what_nobody_comes_back_for_is_ended() -> None:
    lifetime = Lifetime(idle_guest=0.3, detached=0.6)
    box = hermes.Sandbox("local", name="deserted", lifetime=lifetime)
    await box.open()
    pid = box._channel.guest["pid"]
    job = await box.start("sleep 100")
    await asyncio.sleep(0.1)
    child = (await job.info()).pid
    await box.close()
    assert await gone(child, 5)
    assert await gone(pid, 5)


async def test_a_command_whose_client_was_killed_can_be_picked_up(tmp_path: Path) -> None:
    # It goes on when we say so, however long the machine takes to kill its client.
    seen = tmp_path / "seen"
    command = f"seq 5; until [ -e {seen} ]; do sleep 0.05; done; seq 6 20; exit 9"
    script = tmp_path / "client.py"
    script.write_text(
        "import asyncio, os, hermes\n"
        "async def main():\n"
        "    async with hermes.Sandbox('local', name='lost') as box:\n"
        f"        await box.run('{command}', on_output=lambda data: os.write(1, data))\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, script, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(5):
        await process.stdout.readline()
    process.kill()
    await process.wait()
    async with hermes.Sandbox("local", name="lost") as box:
        (info,) = [one for one in await box.jobs() if one.kind == "run"]
        assert info.state == "running"
        job = await box.job(info.id)
        await asyncio.to_thread(seen.touch)
        output = b"".join([data async for data in job.follow()])
        assert output.decode() == "".join(f"{i}\n" for i in range(1, 21))
        assert (await job.wait()).exit_code == 9
        await box.destroy()


async def test_errors_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(hermes.ConfigError, match="Did you mean 'local'") as raised:
        await hermes.Sandbox("locl").open()
    assert raised.value.code == "backend_unknown"
    with pytest.raises(hermes.ConfigError, match="no option colour"):
        await hermes.Sandbox("local", colour="red").open()
    for options in ({"network": "off"}, {"limits": {"memory": 1 << 30}}, {"image": "debian"}):
        with pytest.raises(hermes.UnsupportedError, match="nothing was started"):
            await hermes.Sandbox("local", **options).open()
    with pytest.raises(hermes.BackendError, match="is not a directory; nothing was started"):
        await hermes.Sandbox("local", workspace=str(tmp_path / "missing")).open()
    with pytest.raises(hermes.ConfigError, match="cannot be a sandbox name"):
        await hermes.Sandbox("local", name="../up").open()
    for wrong in (
        {"timeout": "soon"},
        {"timeout": -1},
        {"reconnect_for": "5 furlongs"},
        {"reconnect_for": -1},
    ):
        with pytest.raises(hermes.ConfigError, match=next(iter(wrong))):
            hermes.Sandbox("local", **wrong)
    assert await records() == []
    with pytest.raises(hermes.SandboxGone, match="not open here"):
        await hermes.Sandbox("local").run("true")


class Careful:
    """A judge that asks about rm and denies sudo."""

    name = "careful"

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def judge(self, request: Request, state: object = None) -> Decision:
        self.seen.append((request.kind, request.text))
        if "sudo" in request.text:
            return Decision(action="block", reason="no sudo", rule="sudo")
        return Decision(action="ask" if "rm" in request.text else "allow", reason="it removes")


async def test_everything_that_acts_is_judged(tmp_path: Path) -> None:
    judge = Careful()
    async with hermes.Sandbox("local", judge=judge, cwd=str(tmp_path)) as box:
        assert box.describe()["judge"] == "careful"
        await box.run("echo 1")
        await box.exec("echo 2")
        shell = await box.shell()
        await shell.run(["echo", "3 4"])
        job = await box.start("cat")
        await job.write("typed")
        await job.kill()
        async with await box.pty("cat") as terminal:
            await terminal.write("keys")
        await box.files.write("f", b"")
        kinds = [
            ("run", "echo 1"),
            ("run", "echo 2"),
            ("run", "echo '3 4'"),
            ("start", "cat"),
            ("input", "typed"),
        ]
        assert judge.seen == [*kinds, ("pty", "cat"), ("input", "keys"), ("write", "f")]
        for denied in (
            box.run("sudo ls"),
            box.run("rm x"),
            box.exec("rm x"),
            box.start("rm x"),
            box.pty("rm x"),
            box.files.write("rm", b""),
        ):
            with pytest.raises(hermes.Refused):
                await denied
        assert not (tmp_path / "rm").exists()


async def test_the_answer_decides() -> None:
    asked: list[str] = []

    async def answer(request: Request, decision: Decision) -> bool:
        asked.append(request.text)
        return "yes" in request.text

    async with hermes.Sandbox("local", judge=Careful(), on_approval=answer) as box:
        assert (await box.run("echo rm yes")).text == "rm yes\n"
        with pytest.raises(hermes.Refused):
            await box.run("echo rm no")
    assert asked == ["echo rm yes", "echo rm no"]
    async with hermes.Sandbox("local", judge=Careful(), approval="off") as box:
        assert (await box.run("echo rm")).exit_code == 0
        with pytest.raises(hermes.Refused, match="no sudo"):
            await box.run("sudo true")


async def test_the_environment_is_the_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_SEEN", "first")
    monkeypatch.setenv("UNSEEN", "x")
    monkeypatch.setenv("HERMES_SUDO_PASSWORD", "secret")
    async with hermes.Sandbox("local", approval="off", name="env", env={"EXTRA": "1"}) as box:
        result = await box.exec("echo $LC_SEEN $EXTRA [$UNSEEN$HERMES_SUDO_PASSWORD]")
        assert result.text == "first 1 []\n"
        monkeypatch.setenv("LC_SEEN", "second")
    async with hermes.Sandbox("local", approval="off", name="env") as box:
        assert (await box.exec("echo $LC_SEEN [$EXTRA]")).text == "second []\n"
        assert (await box.run("echo $LC_SEEN")).text == "second\n"
        await box.destroy()


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


async def test_a_guest_does_not_work_while_a_command_sleeps() -> None:
    async with hermes.Sandbox("local") as box:
        await box.run("true")
        await asyncio.sleep(0.2)
        pid = box._channel.guest["pid"]
        before = cpu_ticks(pid)
        await box.run("sleep 2")
        await asyncio.sleep(1)
        assert cpu_ticks(pid) - before <= 3


async def test_a_session_whose_files_were_removed_goes_on() -> None:
    async with hermes.Sandbox("local", approval="off") as box:
        await box.run("x=1")
        await box.run('rm -rf "$__h_d"', timeout=10)
        assert (await box.run("echo $x", timeout=10)).text == "1\n"


async def test_a_shell_that_is_being_replaced_is_no_stray() -> None:
    async with hermes.Sandbox("local", approval="off") as box:
        for _ in range(10):
            await box.run("kill -9 $$")
            assert await box.jobs() == []


async def test_what_a_command_does_to_its_input_ends_with_it() -> None:
    async with hermes.Sandbox("local") as box:
        for change in (
            "exec </etc/passwd; read line",
            "exec <&-",
            "exec 0>/dev/full",
            "exec <&- 3</etc/passwd",
        ):
            await box.run(change)
            assert (await box.run("readlink /proc/self/fd/0; cat")).text == "/dev/null\n"
        await box.run("trap 'cat; echo bye' EXIT")
        assert (await box.run("exit 6", stdin=b"rest,")).text == "rest,bye\n"  # the trap still has it


async def test_a_guest_that_nobody_can_find_ends() -> None:
    async with hermes.Sandbox("local", name="lost-socket", lifetime=Lifetime(idle_guest=4)) as box:
        await box.run("sleep 300 &")
        pid, run_dir = box._channel.guest["pid"], Path(box._channel.guest["run_dir"])
    (run_dir / "guest.sock").unlink()
    assert await gone(pid, 8)


async def test_missing_output_of_a_job_is_said_in_its_place() -> None:
    config = await asyncio.to_thread(load, {"output.spill_quota": 2 << 20})
    async with hermes.Sandbox("local", config=config) as box:
        job = await box.start("seq 600000")
        await job.wait()
        for output in (await job.output(), b"".join([data async for data in job.follow()])):
            head, said, tail = output.partition(b"bytes were not kept")
            assert head.startswith(b"1\n2\n") and said and tail.endswith(b"600000\n")


@pytest.mark.parametrize("network", ["off", "internal"])
async def test_a_network_that_a_place_cannot_close_is_refused(network: str) -> None:
    with pytest.raises(hermes.UnsupportedError, match=f"network: {network}; nothing was started"):
        await hermes.Sandbox("local", network=network).open()


@pytest.mark.parametrize(
    "wish", [{"network": "off"}, {"network": "internal"}, {"limits": {"memory": 1 << 20}}, {"image": "x"}]
)
async def test_what_a_place_cannot_do_is_refused_also_where_it_runs_already(wish: dict[str, Any]) -> None:
    async with hermes.Sandbox("local", name="there") as box:
        assert (await box.run("true")).exit_code == 0
        with pytest.raises(hermes.UnsupportedError, match="nothing was started"):
            await hermes.Sandbox("local", name="there", **wish).open()
        assert (await box.run("echo on")).text == "on\n"
        await box.destroy()


async def test_commands_keep_their_order_when_the_use_of_the_sandbox_is_noted() -> None:
    async with hermes.Sandbox("local") as box:
        assert box._record is not None
        for _ in range(5):
            box._record.last_used = 0.0
            runs = [asyncio.create_task(box.run(f"echo {n} >>order")) for n in range(10)]
            await asyncio.gather(*runs)
            assert (await box.run("tr '\\n' ' ' <order; rm order")).text == "0 1 2 3 4 5 6 7 8 9 "
        assert box._record.last_used > 0.0


def ended(pid: int) -> bool:
    """Whether a process has let go of all it had open."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: asyncio.to_thread(ended, pid))


async def test_one_whose_directory_was_removed_is_gone_and_says_what_is_lost() -> None:
    """It is not made anew in silence, as if there had been nothing in it."""
    box = await hermes.Sandbox("local", name="lost", workspace="private", approval="off").open()
    await box.run("echo kept >file")
    workspace = Path(box._the_place().workspace())
    pid = int(str(box._channel.guest["pid"]))
    await box.close()
    await kill(pid)
    again = await hermes.Sandbox("local", name="lost", workspace="private", approval="off").open()
    assert (await again.run("cat file")).text == "kept\n"
    pid = int(str(again._channel.guest["pid"]))
    await again.close()
    await kill(pid)
    await asyncio.to_thread(shutil.rmtree, workspace)
    with pytest.raises(
        SandboxGone, match=r"its files are lost: its directory, .*workspace, was removed"
    ) as caught:
        await hermes.Sandbox("local", name="lost", workspace="private", approval="off").open()
    assert exit_code(caught.value) == 123
    assert "--recreate" in str(caught.value.hint)
    new = hermes.Sandbox("local", name="lost", workspace="private", approval="off", recreate=True)
    await new.open()
    assert (await new.run("ls")).text == ""
    await new.destroy()
