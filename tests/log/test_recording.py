"""What a client does is recorded: commands, what was decided, output, exit codes, times, the place."""

from __future__ import annotations

import asyncio
import stat
import time
from pathlib import Path

import msgspec
import pytest

import hermes
import hermes.sync
from hermes.config import Config, load
from hermes.tools import TOOLS
from log._recorded import cast_of, everything, folder, lines, only, paths, recorded


def settings(**log: object) -> Config:
    return msgspec.convert({"approvals": {"mode": "off"}, "log": log}, Config)


async def test_commands_with_their_output_code_time_and_place(hermes_home: Path, tmp_path: Path) -> None:
    began = time.time()
    async with hermes.Sandbox("local", workspace=str(tmp_path)) as box:
        await box.run("echo out; echo err >&2; exit 3", session="build")
        await box.exec("cd /; pwd", cwd="/tmp")
        name, ident = box.name, box.id
    found = await recorded()
    assert found.facts["backend"] == "local"
    assert found.facts["sandbox"] == name and found.facts["sandbox_id"] == ident
    assert found.facts["isolation"] == "none" and found.facts["cwd"] == str(tmp_path)
    first, second = found.commands
    assert (first.kind, first.text, first.session) == ("run", "echo out; echo err >&2; exit 3", "build")
    assert (first.status, first.exit_code) == ("ok", 3)
    assert {one.stream: one.data for one in first.outputs} == {"stdout": b"out\n", "stderr": b"err\n"}
    assert first.end is not None and began <= first.time <= first.end <= time.time()
    assert first.duration is not None and 0 < first.duration < first.end - first.time + 0.1
    assert (second.kind, second.session, second.cwd) == ("exec", None, "/tmp")
    assert (second.exit_code, second.outputs[0].data) == (0, b"/\n")
    assert found.failed == 1


async def test_files_are_this_users_alone(hermes_home: Path, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path)) as box, await box.pty("echo hello") as pty:
        await pty.wait()
    assert stat.S_IMODE(folder(hermes_home).stat().st_mode) == 0o700
    files = list(folder(hermes_home).iterdir())
    assert {path.suffix for path in files} >= {".jsonl", ".cast"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


async def test_nothing_is_recorded_of_a_client_that_runs_nothing(hermes_home: Path, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path)) as box:
        await box.jobs()
        box.describe()
    assert not folder(hermes_home).exists()


async def test_it_can_be_switched_off(hermes_home: Path, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=settings(enabled=False)) as box:
        await box.run("true")
        await box.start("true")
    assert not folder(hermes_home).exists()


@pytest.mark.parametrize("live", [False, True])
async def test_of_a_long_output_head_and_tail(hermes_home: Path, tmp_path: Path, live: bool) -> None:
    config = settings(max_output=2000)
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=config) as box:
        await box.run("seq 100000", on_output=(lambda data: None) if live else None)
        whole = "".join(f"{n}\n" for n in range(1, 100001)).encode()
    [command] = (await recorded()).commands
    head, gap, tail = command.outputs
    assert head.data == whole[:1000] and tail.data == whole[-1000:]
    assert gap.omitted == len(whole) - 2000


async def test_an_output_that_just_fits_is_whole(hermes_home: Path, tmp_path: Path) -> None:
    config = settings(max_output=2000)
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=config) as box:
        for live in (None, lambda data: None):
            await box.run("printf %2000s x; printf %2001s y >&2", on_output=live)
    for command in (await recorded()).commands:
        sizes = {"stdout": [0, 0], "stderr": [0, 0]}
        for one in command.outputs:
            sizes[one.stream][0] += len(one.data)
            sizes[one.stream][1] += one.omitted
        assert sizes == {"stdout": [2000, 0], "stderr": [2000, 1]}


async def test_bytes_are_exact(hermes_home: Path, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path)) as box:
        await box.run(r"printf 'a\0b\xff\xfec'")
        parts: list[bytes] = []
        await box.run(
            r"printf 'gr\xc3'; sleep 0.2; printf '\xbc\xc3\x9f'; sleep 0.2; printf '\xe2\x82'",
            on_output=parts.append,
        )
    first, second = (await recorded()).commands
    assert b"".join(one.data for one in first.outputs) == b"a\0b\xff\xfec"
    assert b"".join(one.data for one in second.outputs) == b"gr\xc3\xbc\xc3\x9f\xe2\x82"
    # No character is cut in two: only what is none is not text.
    assert ["data" in one for one in await lines() if one["type"] == "output"] == [False, True, True, False]


async def test_output_has_the_times_at_which_it_came(hermes_home: Path, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path)) as box:
        await box.run("echo one; sleep 0.5; echo two", on_output=lambda data: None)
    one, two = (await recorded()).commands[0].outputs
    assert 0.4 < two.time - one.time < 5


async def test_how_it_ended(hermes_home: Path, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path)) as box:
        await box.run("sleep 9", timeout=0.2)
        task = asyncio.create_task(box.run("sleep 8"))
        await asyncio.sleep(0.2)
        task.cancel()
        await asyncio.wait({task})
        with pytest.raises(hermes.CommandError):
            await box.run("true", cwd="/nowhere/at/all")
        await box.run("echo $$; kill -9 $$")
    late, cancelled, wrong, killed = (await recorded()).commands
    assert (late.status, late.exit_code, late.failed) == ("timed_out", 124, True)
    assert (cancelled.status, cancelled.exit_code, cancelled.failed) == ("cancelled", None, True)
    assert wrong.status == "failed" and wrong.error is not None and wrong.error["code"] == "cwd_unusable"
    assert killed.exit_code == 137


async def test_what_was_decided(hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERMES_APPROVALS")
    (tmp_path / "d").mkdir()
    options = {"workspace": str(tmp_path), "approval": "ask"}
    async with hermes.Sandbox("local", on_approval=lambda request, decision: True, **options) as box:  # type: ignore[arg-type]
        await box.run("true")
        await box.run("rm -rf d")
        await box.files.write("a.txt", "x")
    plain, asked, change = (await recorded()).commands
    assert plain.decision == {"action": "allow"}
    assert asked.decision is not None and asked.decision["action"] == "ask" and asked.decision["rule"]
    assert (change.kind, change.text) == ("change", "a.txt")
    for path in folder(hermes_home).iterdir():
        path.unlink()
    async with hermes.Sandbox("local", **options) as box:  # type: ignore[arg-type]
        (tmp_path / "d").mkdir()
        with pytest.raises(hermes.Refused):
            await box.run("rm -rf d")
    [refused] = (await recorded()).commands
    assert refused.decision is not None and refused.decision["action"] == "refuse"
    assert refused.decision["rule"] == asked.decision["rule"] and refused.decision["reason"]
    assert (refused.status, refused.exit_code, refused.failed) == ("refused", None, True)
    # Who was asked, and answered what, is in the audit log of the same client, and not stored twice.
    audit = (hermes_home / "audit.jsonl").read_text().splitlines()
    assert all("how" not in (one.get("decision") or {}) for one in await lines()) and len(audit) == 2
    assert f'"client": "{(await recorded()).facts["client"]}"' in audit[1]


async def test_jobs_with_what_was_seen_of_them_once(hermes_home: Path, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path), name="jobs") as box:
        job = await box.start("echo one; sleep 0.3; echo two; exit 4")
        async for data in job.follow():
            assert data
        assert await job.output() == b"one\ntwo\n"
        await job.wait()
        ident = job.id
    [command] = (await recorded()).commands
    assert (command.kind, command.job, command.exit_code) == ("start", ident, 4)
    assert b"".join(one.data for one in command.outputs) == b"one\ntwo\n"
    # Another client's look at a job is in its own recording.
    for path in await paths():
        path.unlink()
    async with hermes.Sandbox("local", workspace=str(tmp_path), name="jobs") as box:
        job = await box.start("echo three; sleep 60")
        name = job.id
        await asyncio.sleep(0.2)
        await box.close()
    for path in await paths():
        path.unlink()
    async with hermes.Sandbox("local", workspace=str(tmp_path), name="jobs") as box:
        assert await (await box.job(name)).output() == b"three\n"
        await box.destroy()
    [command] = (await recorded()).commands
    assert (command.kind, command.job, command.text) == ("attach", name, "echo three; sleep 60")
    assert command.outputs[0].data == b"three\n" and command.exit_code is None


async def test_a_terminal_is_a_file_for_asciinema(hermes_home: Path, tmp_path: Path) -> None:
    text = "printf 'gr\\303\\274n \\033[32mgreen\\033[0m\\n'"
    async with hermes.Sandbox("local", workspace=str(tmp_path)) as box:
        pty = await box.pty(text, rows=30, cols=100)
        await pty.wait()
    [command] = (await recorded()).commands
    assert command.kind == "pty" and command.exit_code == 0 and not command.outputs
    head, shown = cast_of(hermes_home, command.number)
    assert (head["version"], head["width"], head["height"]) == (2, 100, 30)
    assert shown == "grün \x1b[32mgreen\x1b[0m\r\n"
    assert command.terminal == f"{(await recorded()).id}.{command.number}.cast"


async def test_what_is_typed_is_not_recorded(hermes_home: Path, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path)) as box:
        async with await box.pty("stty -echo; echo ready; read -r x; echo got ${#x}") as pty:
            while b"ready" not in await pty.read(10):
                pass
            await pty.write("Tr0ub4dor&3 is typed\r")
            await pty.wait()
        await box.run("cat >/dev/null", stdin=b"given by stdin")
    assert b"got 20" in everything(hermes_home)
    assert b"Tr0ub4dor" not in everything(hermes_home)
    assert b"given by stdin" not in everything(hermes_home)


async def test_a_new_size_of_a_terminal(hermes_home: Path, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path)) as box:
        pty = await box.pty("echo ready; read -r x; stty size")
        while b"ready" not in await pty.read(10):
            pass
        await pty.resize(11, 33)
        await pty.write("\r")
        await pty.wait()
    [path] = folder(hermes_home).glob("*.cast")
    assert '"r","33x11"]' in path.read_text()


async def test_a_program_that_an_interpreter_reads_is_the_command(hermes_home: Path, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path)) as box:
        await box.run(["python3", "-"], stdin="print(6 * 7)\n")
    [command] = (await recorded()).commands
    assert (command.text, command.program) == ("python3 -", "print(6 * 7)\n")


def test_the_blocking_api_is_recorded(hermes_home: Path, tmp_path: Path) -> None:
    with hermes.sync.Sandbox("local", workspace=str(tmp_path)) as box:
        box.run("echo hi")
    assert [one.text for one in only().commands] == ["echo hi"]


async def test_sessions_side_by_side_are_told_apart(hermes_home: Path, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path)) as box:
        shells = [await box.shell(f"s{n}") for n in range(8)]
        await asyncio.gather(
            *(
                one.run(f"for i in 1 2 3; do echo {one.name}; sleep 0.02; done", on_output=print)
                for one in shells
            )
        )
    found = (await recorded()).commands
    assert len(found) == 8
    for command in found:
        assert b"".join(one.data for one in command.outputs) == f"{command.session}\n".encode() * 3


async def test_each_client_has_its_own(hermes_home: Path, tmp_path: Path) -> None:
    for _ in range(2):
        async with hermes.Sandbox("local", workspace=str(tmp_path), name="x") as box:
            await box.run("true")
    await (await hermes.Sandbox("local", name="x").open()).destroy()
    assert len(await paths()) == 2


async def test_it_is_on_the_disk_while_it_goes_on(hermes_home: Path, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path)) as box:
        await box.run("echo early")
        task = asyncio.create_task(box.run("echo late; sleep 30", on_output=lambda data: None))
        async with asyncio.timeout(10):
            while not folder(hermes_home).exists() or b"late\\n" not in everything(hermes_home):
                await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait({task})


def test_defaults() -> None:
    log = load().log
    assert (log.enabled, log.keep, log.max_size, log.max_output) == (True, 30 * 86400, 256 << 20, 64 << 10)


async def test_what_a_model_does(hermes_home: Path, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=settings()) as box:
        await TOOLS["terminal"].call(box, {"command": "echo by a tool"})
        await TOOLS["execute_code"].call(box, {"code": "print('by a program')"})
        await TOOLS["write_file"].call(box, {"path": "made.txt", "content": "its content"})
        await TOOLS["terminal"].call(box, {"command": "echo on a terminal", "pty": True})
        await TOOLS["terminal"].call(
            box, {"command": "sleep 0.5; echo in the background", "background": True}
        )
    found = (await recorded()).commands
    assert [(one.kind, one.text) for one in found] == [
        ("run", "echo by a tool"),
        ("run", "python3 -"),
        ("change", "made.txt"),
        ("start", "echo on a terminal"),
        ("start", "sleep 0.5; echo in the background"),
    ]
    assert found[1].program == "print('by a program')"
    assert found[1].outputs[0].data == b"by a program\n"
    assert cast_of(hermes_home, found[3].number)[1] == "on a terminal\r\n"
    assert b"its content" not in everything(hermes_home)


async def test_a_terminal_that_nobody_looked_at(hermes_home: Path, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=settings(max_output=200)) as box:
        job = await box.start("seq 1000", pty=(24, 80))
        await job.wait()
    [command] = (await recorded()).commands
    shown = cast_of(hermes_home, command.number)[1]
    whole = "".join(f"{n}\r\n" for n in range(1, 1001))
    note = f"\r\n[... {len(whole) - 200} bytes were not recorded ...]\r\n"
    assert shown == whole[:100] + note + whole[-100:]
