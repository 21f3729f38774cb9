"""The way in: what the command of ssh holds, what is sent when, and what a greeting tells."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import zlib
from pathlib import Path

import pytest

from _ssh import Host
from hermes.backends import ssh
from hermes.backends.ssh._bootstrap import LONGEST, WORD, command_for
from hermes.backends.ssh._channel import SshChannel
from hermes.testing.tools import unique

from .conftest import Open


def unpacked(command: str) -> str:
    """Return the program that a command holds."""
    return zlib.decompress(base64.b64decode("".join(command.rpartition("' ")[2].split()[1:]))).decode()


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the commands that ssh is given."""
    found: list[str] = []

    def watched(python: str | None, program: str) -> str | None:
        command = command_for(python, program)
        found.append(command or "")
        return command

    monkeypatch.setattr(ssh, "command_for", watched)
    return found


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Collect what is written to the stdin of ssh."""
    found: list[bytes] = []
    write = SshChannel.write

    def watched(channel: SshChannel, data: bytes) -> None:
        found.append(data)
        write(channel, data)

    monkeypatch.setattr(SshChannel, "write", watched)
    return found


@pytest.mark.parametrize("python", [None, "python3.11", "/opt/python-3.9/bin/python3"])
def test_the_command_is_of_words_that_every_shell_reads_alike(python: str | None) -> None:
    program = (
        "print('it\\'s', \"$HOME\", '!!')\n" + "".join(map(chr, range(32, 127))) * 5 + os.urandom(900).hex()
    )
    command = command_for(python, program)
    assert command is not None
    before, script, words = command.split("'")
    assert before == "exec /bin/sh -c "
    assert not set(script) & set("'!\n")
    assert "\\" not in script.replace('\\"', "")
    assert re.fullmatch(r"[A-Za-z0-9+/=._ -]+", words)
    assert max(map(len, words.split())) <= WORD
    assert words.split()[0] == (python or "python3")
    assert unpacked(command) == program


def test_what_not_every_shell_takes_is_not_made_a_command() -> None:
    assert command_for("/opt/my python/bin/python3", "pass") is None
    assert command_for("python3;x", "pass") is None
    assert command_for(None, os.urandom(LONGEST).hex()) is None


async def test_a_python_of_a_name_with_blanks(open_on: Open, host: Host, tmp_path: Path) -> None:
    folder = tmp_path / "it's a \\path"
    folder.mkdir()
    for one in (*tmp_path.parents, tmp_path, folder):
        if one.stat().st_uid == os.geteuid() and one.is_relative_to("/tmp") and one != Path("/tmp"):
            one.chmod(0o755)
    (folder / "python").symlink_to("/usr/bin/python3")
    box = await open_on(host, python=str(folder / "python"))
    assert (await box.run("echo in")).text == "in\n"


async def test_no_secret_is_in_the_command(open_on: Open, host: Host, commands: list[str]) -> None:
    """It is packed, so a look at the list of processes would not find one."""
    box = await open_on(host, env={"TOKEN": "s3cret-of-the-sandbox"})
    await box.run("true", env={"MORE": "s3cret-of-the-command"}, stdin="s3cret-on-stdin")
    await box.destroy()
    assert len(commands) == 1
    assert "s3cret" not in unpacked(commands[0])
    assert box.id in unpacked(commands[0])


async def test_where_a_guest_runs_its_program_is_not_sent(
    open_on: Open, host: Host, written: list[bytes]
) -> None:
    name = unique("sent")
    first = await open_on(host, name=name)
    assert sum(map(len, written)) > 30_000
    del written[:]
    again = await open_on(host, name=name)
    assert (await again.run("echo on")).text == "on\n"
    assert sum(map(len, written)) < 2_000
    await again.close()
    # One that is gone is started anew, by who finds it so.
    guest = first._channel.guest["pid"]
    await asyncio.to_thread(host.run, f"kill -9 {guest}")
    await first.close()
    del written[:]
    anew = await open_on(host, name=name)
    assert (await anew.run("echo anew")).text == "anew\n"
    assert sum(map(len, written)) > 30_000


async def test_what_the_greeting_told_of_the_session_may_be_outdated(open_on: Open, host: Host) -> None:
    """A command is judged, and run, where the session is by then."""
    name = unique("told")
    one = await open_on(host, name=name)
    two = await open_on(host, name=name)
    for box in (one, two):
        assert box._channel.guest["session"]["known"] is False
    await one.run("cd /usr; f() { echo from one; }")
    assert (await two.run("pwd; f")).text == "/usr\nfrom one\n"
    three = await open_on(host, name=name)
    told = three._channel.guest["session"]
    assert (told["known"], told["cwd"]) == (True, "/usr")
    assert "from one" in told["script"]
    assert (await three.run("pwd; f")).text == "/usr\nfrom one\n"
    assert "session" not in three._channel.guest


async def test_what_is_read_and_written_may_be_compressed(
    open_on: Open, host: Host, written: list[bytes]
) -> None:
    box = await open_on(host)
    data = b"".join(b"line %d of a file\n" % number for number in range(500))
    del written[:]
    await box.files.write("file", data)
    assert await box.files.read("file") == data
    assert sum(map(len, written)) < len(data) // 2
