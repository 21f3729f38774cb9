"""What goes wrong with the log is no error of a command, and said once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import msgspec
import pytest

import hermes
from cli._tool import Cli
from hermes.config import Config
from log._recorded import everything, folder, only, recorded


async def test_a_log_that_cannot_be_written_is_told_of_once(hermes_home: Path, tmp_path: Path) -> None:
    hermes_home.mkdir(mode=0o700)
    folder(hermes_home).write_text("not a directory")
    folder(hermes_home).chmod(0o600)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        async with hermes.Sandbox("local", workspace=str(tmp_path)) as box:
            for n in range(3):
                assert (await box.run(f"echo {n}")).stdout == f"{n}\n".encode()
                await asyncio.sleep(0.25)
    [one] = [str(one.message) for one in told]
    assert "is not recorded" in one and str(folder(hermes_home)) in one


def test_a_full_disk(cli: Cli) -> None:
    # What is written past the limit fails, as on a disk that is full.
    script = """
        $H exec true && $H config set log.max_output 1m || exit 99
        ulimit -f 256
        $H exec -q 'seq 100000 | head -c 500000; exit 7'
    """
    done = cli.sh(script)
    assert done.returncode == 7 and len(done.stdout) == 500000
    told = [line for line in done.stderr.decode().splitlines() if "recorded" in line]
    assert len(told) == 1 and "File too large" in told[0] and "not recorded" in told[0]


def test_the_command_line_says_it_in_one_line(cli: Cli) -> None:
    cli.home.mkdir(mode=0o700)
    (cli.home / "log").write_text("")
    (cli.home / "log").chmod(0o600)
    done = cli("exec", "-q", "echo fine")
    assert (done.returncode, done.stdout) == (0, b"fine\n")
    assert done.stderr.decode().count("hermes:") == 1 and b"Traceback" not in done.stderr


async def test_a_disk_that_does_not_answer_is_not_waited_for(
    hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A FIFO in the place of the file that says when it was pruned: to open it waits for ever.
    folder(hermes_home).mkdir(parents=True, mode=0o700)
    hermes_home.chmod(0o700)
    os.mkfifo(folder(hermes_home) / ".pruned", 0o600)
    os.utime(folder(hermes_home) / ".pruned", (0, 0))
    monkeypatch.setattr("hermes._watch.CLOSE_SECONDS", 0.3)
    with pytest.warns(UserWarning, match="is not recorded: the disk does not take it"):
        async with hermes.Sandbox("local", workspace=str(tmp_path)) as box:
            assert (await box.run("echo on")).stdout == b"on\n"
            await asyncio.sleep(0.3)
            assert (await box.run("echo and on")).stdout == b"and on\n"
    reader = os.open(folder(hermes_home) / ".pruned", os.O_RDONLY | os.O_NONBLOCK)  # lets the thread go
    await asyncio.sleep(0.1)
    os.close(reader)


def test_nor_does_a_program_wait_for_it_at_its_end(cli: Cli) -> None:
    cli("config", "set", "log.keep", "7d")
    (cli.home / "log").mkdir(mode=0o700)
    os.mkfifo(cli.home / "log" / ".pruned", 0o600)
    os.utime(cli.home / "log" / ".pruned", (0, 0))
    done = cli("exec", "-q", "echo fine; exit 3", timeout=25)
    assert (done.returncode, done.stdout) == (3, b"fine\n")
    assert b"not recorded: the disk does not take it" in done.stderr


def test_one_that_is_killed_leaves_what_it_had_written(hermes_home: Path, tmp_path: Path) -> None:
    code = (
        "import asyncio, hermes, os, signal\n"
        "async def main():\n"
        "    box = await hermes.Sandbox('local', workspace='.', name='k').open()\n"
        "    await box.run('echo before')\n"
        "    await asyncio.sleep(1)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL
    one = only()
    assert [command.text for command in one.commands] == ["echo before"]
    # A line that is not whole is left out.
    with open(one.path, "ab") as file:
        file.write(b'{"type":"command","n":2,"ti')
    assert len(only().commands) == 1
    asyncio.run(_destroyed("k"))


async def _destroyed(name: str) -> None:
    await (await hermes.Sandbox("local", name=name).open(create=False)).destroy()


async def test_a_session_has_a_bound(hermes_home: Path, tmp_path: Path) -> None:
    config = msgspec.convert({"approvals": {"mode": "off"}, "log": {"max_size": 80000}}, Config)
    with pytest.warns(UserWarning, match=r"log\.max_size"):
        async with hermes.Sandbox("local", workspace=str(tmp_path), config=config) as box:
            for _ in range(200):
                await box.run("printf %1000s x; : " + "y" * 200)
                await asyncio.sleep(0.005)
    assert len(everything(hermes_home)) < 80000
    commands = (await recorded()).commands
    assert commands[0].outputs and not commands[-1].outputs  # the last of it is commands alone


async def test_more_than_a_disk_takes_is_not_kept_in_memory(
    hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes._watch.HELD", 1000)
    config = msgspec.convert({"approvals": {"mode": "off"}, "log": {"max_output": 1 << 20}}, Config)
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=config) as box:
        await box.run("head -c 400000 /dev/zero", on_output=lambda data: None)
        await box.run("echo then")
    first, then = (await recorded()).commands
    assert sum(len(one.data) for one in first.outputs) <= 1000
    assert first.exit_code == 0 and then.outputs[0].data == b"then\n"


async def test_nothing_is_written_through_a_link(hermes_home: Path, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path)) as box:
        await box.run("true")
    files = [path.name for path in folder(hermes_home).iterdir()]
    assert all(not (folder(hermes_home) / name).is_symlink() for name in files)
    header = json.loads((await recorded()).path.read_bytes().splitlines()[0])
    assert header["version"] == 1 and header["type"] == "session"
