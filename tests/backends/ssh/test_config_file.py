"""The user's own ssh configuration: what it says of the way counts, what would spoil the channel does not."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import hermes
from _ssh import Host
from hermes.testing.tools import stopwatch

from .conftest import Open


async def works(box: hermes.Sandbox) -> None:
    """The channel carries every byte, and a command's input and exit code are its own."""
    data = bytes(range(256)) * 300
    assert (await box.exec("cat", stdin=data)).stdout == data
    result = await box.run("echo out; echo err >&2; exit 9")
    assert (result.exit_code, result.stdout, result.stderr) == (9, b"out\n", b"err\n")


@pytest.mark.parametrize(
    "said",
    [
        "RemoteCommand echo this instead; sleep 100",
        "RequestTTY force",
        "RemoteCommand bash -l\n    RequestTTY yes",
        "SessionType none",
        "SessionType subsystem",
        "StdinNull yes",
        "ForkAfterAuthentication yes",
        "LogLevel DEBUG3",
        "LogLevel QUIET",
        "VisualHostKey yes",
        "EscapeChar ~",
        "Compression yes",
        "PermitLocalCommand yes\n    LocalCommand echo noise; cat",
        "SendEnv *\n    SetEnv LC_NOISE=1",
        "Tunnel no\n    AddressFamily inet\n    TCPKeepAlive no",
        "ServerAliveInterval 0\n    ConnectTimeout 0\n    ConnectionAttempts 1",
        "KbdInteractiveAuthentication yes\n    NumberOfPasswordPrompts 3",
    ],
    ids=lambda said: said.split("\n")[0].replace(" ", "-"),
)
async def test_what_would_spoil_the_channel_does_not(
    open_on: Open, host: Host, tmp_path: Path, said: str
) -> None:
    user = host.with_config(tmp_path, f"Host *\n    {said}\nMatch all")
    with stopwatch(20):
        await works(await open_on(user))


@pytest.mark.parametrize("kind", ["LocalForward", "RemoteForward", "DynamicForward"])
async def test_forwards_of_the_user_are_not_made(
    open_on: Open, host: Host, tmp_path: Path, kind: str
) -> None:
    """Their port may be in use, by the user's own session for one, and that must not end ours."""
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ports = (taken.getsockname()[1], free.getsockname()[1])
        free.close()
        to = "" if kind == "DynamicForward" else " 127.0.0.1:9"
        lines = "".join(f"    {kind} 127.0.0.1:{port}{to}\n" for port in ports)
        user = host.with_config(tmp_path, f"Host *\n    ExitOnForwardFailure yes\n{lines}Match all")
        await works(await open_on(user))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", ports[1]), timeout=2)


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with a short name, for sockets."""
    path = Path(tempfile.mkdtemp(prefix="h-"))
    yield path
    shutil.rmtree(path)


def master(host: Host, path: Path) -> subprocess.Popen[bytes]:
    """Return a connection of the user's that further sessions may share."""
    process = subprocess.Popen(
        [*host.argv("")[:-1], "-M", "-S", str(path), "-N"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 10
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return process


async def test_a_connection_that_the_user_shares_is_left_alone(
    open_on: Open, host: Host, tmp_path: Path, short: Path
) -> None:
    """It is neither used nor closed, and no new one appears."""
    shared, new = short / "shared", short / "new"
    process = await asyncio.to_thread(master, host, shared)
    try:
        for path in (shared, new):
            said = f"Host *\n    ControlMaster auto\n    ControlPath {path}\n    ControlPersist 60\nMatch all"
            user = host.with_config(tmp_path, said)
            before = sessions_of(process.pid)
            box = await user.sandbox().open()
            await works(box)
            assert sessions_of(process.pid) == before
            await box.destroy()
        assert not new.exists()
        assert process.poll() is None
        check = [*host.argv("")[:-1], "-S", str(shared), "-O", "check"]
        done = await asyncio.to_thread(subprocess.run, check, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 10)


def sessions_of(pid: int) -> int:
    """Return how many descriptors a master has open: three more for each session."""
    return len(os.listdir(f"/proc/{pid}/fd"))


async def test_other_sessions_of_the_same_user_go_on(open_on: Open, host: Host) -> None:
    argv = host.argv("echo begun; sleep 3; echo ended")
    other = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    assert other.stdout is not None
    assert await other.stdout.readline() == b"begun\n"
    neighbour = await open_on(host)
    box = await open_on(host)
    await box.run("sleep 1000 &")
    await box.destroy()
    assert (await neighbour.run("echo still here")).text == "still here\n"
    assert await other.stdout.read() == b"ended\n"
    assert await other.wait() == 0


async def test_a_home_of_hermes_with_a_long_name(
    open_on: Open, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than a socket's may be, and with what a configuration file takes for more than a name."""
    home = tmp_path / 'a #home% of\tmany "words"' / ("long" * 30)
    monkeypatch.setenv("HERMES_HOME", str(home))
    await works(await open_on(host))


async def test_names_of_files_are_taken_as_they_are(open_on: Open, host: Host, tmp_path: Path) -> None:
    folder = tmp_path / "with space and [brackets] and %h"
    folder.mkdir()
    await works(await open_on(host.with_config(folder, "Host *\n    Compression yes\nMatch all")))


async def test_a_configuration_that_is_not_there_or_wrong(host: Host, tmp_path: Path) -> None:
    options = host.options(config_file=str(tmp_path / "none"))
    with pytest.raises(hermes.HermesError, match="none"):
        await hermes.Sandbox("ssh", **options).open()
    wrong = host.with_config(tmp_path, "ThereIsNoSuchOption yes")
    with stopwatch(10), pytest.raises(hermes.HermesError, match=r"(?i)ThereIsNoSuchOption"):
        await wrong.sandbox().open()


async def test_lines_after_ours_still_count(open_on: Open, host: Host, tmp_path: Path) -> None:
    """What the configuration says for the host by name: its address, port, and key."""
    text = f"Host my.name\n    HostName {host.address}\n    Port {host.port}\nMatch all"
    user = host.with_config(tmp_path, text)
    options = user.options(approval="off", host="my.name")
    del options["port"], options["key"]
    async with hermes.Sandbox("ssh", **options) as box:
        await works(box)
