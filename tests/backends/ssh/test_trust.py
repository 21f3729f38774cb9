"""Which machines are trusted and which keys are shown to them; what is said when there is no way in."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import hermes
from _ssh import Host
from hermes.testing.tools import stopwatch

from .conftest import Open

# Fewer than what a person would be asked after.
PROMPT = 10


def new_key(path: Path, passphrase: str = "") -> Path:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", path], check=True, timeout=20
    )
    return path


def add_key(path: Path) -> None:
    subprocess.run(["ssh-add", "-q", path], check=True, capture_output=True, timeout=20)


def lenient(host: Host, folder: Path, known: str, more: str = "") -> Host:
    """Return the host for a user who says nothing of host keys, and knows *known*."""
    path = folder / "known"
    path.write_text(known)
    changed = host.with_config(folder, more, known_hosts=str(path))
    config = Path(changed.config)
    config.write_text(
        config.read_text().replace("StrictHostKeyChecking yes", "").replace("BatchMode yes", "")
    )
    return changed


async def refusal(host: Host, **options: object) -> hermes.BackendError:
    """Return the error with which a sandbox does not open, within the time in which nobody was asked."""
    with stopwatch(PROMPT), pytest.raises(hermes.BackendError) as caught:
        await host.sandbox(**options).open()
    return caught.value


async def test_a_changed_host_key_is_refused(host: Host, tmp_path: Path) -> None:
    kind, key = new_key(tmp_path / "other").with_suffix(".pub").read_text().split()[:2]
    known = f"[{host.address}]:{host.port} {kind} {key}\n"
    changed = lenient(host, tmp_path, known)
    error = await refusal(changed)
    assert error.code == "host_key_changed"
    assert "host key" in str(error)
    assert not error.retryable
    assert f"ssh-keygen -R '[{host.address}]:{host.port}' -f {tmp_path}/known" in str(error.hint)
    assert "in line 1 there" in str(error.hint)
    assert (tmp_path / "known").read_text() == known


async def test_the_advice_after_a_changed_key_works(host: Host, open_on: Open, tmp_path: Path) -> None:
    """Under the alias of the user's own configuration, in the line and file that ssh names."""
    kind, key = new_key(tmp_path / "other").with_suffix(".pub").read_text().split()[:2]
    known = f"# mine\nother.example {kind} {key}\nthat-one {kind} {key}\n"
    changed = lenient(host, tmp_path, known, "HostKeyAlias that-one")
    error = await refusal(changed)
    assert error.code == "host_key_changed"
    command, said = str(error.hint).partition("Only then: ")[2].split(" -- ")
    assert said == "the old key is in line 3 there"
    assert command == f"ssh-keygen -R that-one -f {tmp_path}/known"
    await asyncio.to_thread(subprocess.run, shlex.split(command), check=True, timeout=20)
    box = await open_on(changed)
    assert (await box.run("echo in")).text == "in\n"


async def test_a_new_host_is_accepted_once(open_on: Open, host: Host, tmp_path: Path) -> None:
    new = lenient(host, tmp_path, "")
    box = await open_on(new)
    assert (await box.run("echo in")).text == "in\n"
    name, _, _ = (tmp_path / "known").read_text().split()
    # From now on it counts.
    kind, key = new_key(tmp_path / "other").with_suffix(".pub").read_text().split()[:2]
    (tmp_path / "known").write_text(f"{name} {kind} {key}\n")
    assert (await refusal(new)).code == "host_key_changed"


async def test_who_wants_no_new_hosts_gets_none(host: Host, tmp_path: Path) -> None:
    """The user's own StrictHostKeyChecking is not loosened."""
    empty = tmp_path / "known"
    empty.write_text("")
    strict = host.with_config(tmp_path, "", known_hosts=str(empty))
    error = await refusal(strict)
    assert error.code == "host_key_unknown"
    assert empty.read_text() == ""


async def test_a_wrong_key_is_refused_and_no_password_asked(host: Host, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"UserKnownHostsFile {host.known_hosts}\nPreferredAuthentications publickey,password\n")
    other = replace(host, config=str(config), key=str(new_key(tmp_path / "key")))
    error = await refusal(other)
    assert error.code == "login_refused"
    assert "ermission denied" in str(error)
    assert "(publickey)" in str(error)
    by_hand = str(error.hint).partition("work: ")[2].partition(" -- ")[0]
    assert shlex.split(by_hand) == [
        *("ssh", "-o", "BatchMode=yes", "-F", str(config), "-i", other.key, "-p", str(host.port)),
        *("-l", host.user, host.address, "true"),
    ]


async def test_a_key_that_is_locked_is_no_way_in(host: Host, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"UserKnownHostsFile {host.known_hosts}\n")
    locked = new_key(tmp_path / "locked", "secret words")
    error = await refusal(replace(host, config=str(config), key=str(locked)))
    assert error.code == "login_refused"
    assert "secret words" not in repr(error)


async def test_an_account_that_is_not_there(host: Host) -> None:
    error = await refusal(host.as_user("nobody-of-this-name"))
    assert error.code == "login_refused"
    assert "nobody-of-this-name@" in str(error)


async def unreachable(host: Host, **options: object) -> hermes.Unreachable:
    with stopwatch(PROMPT), pytest.raises(hermes.Unreachable) as caught:
        await host.sandbox(**options).open()
    assert caught.value.retryable
    return caught.value


async def test_a_closed_port(host: Host) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        error = await unreachable(replace(host, port=port))
    assert "refused" in str(error)
    assert str(port) in str(error)


async def test_a_name_that_nobody_has(host: Host) -> None:
    error = await unreachable(replace(host, address="a..b"))  # asks no server for it
    assert "resolve" in str(error)
    assert "a..b" in str(error)


@pytest.fixture
def silent() -> Iterator[int]:
    """A port where connections are taken and nothing is said."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_a_port_that_says_nothing(host: Host, silent: int) -> None:
    with stopwatch(5):
        await unreachable(replace(host, port=silent), connect_timeout=2)


async def test_a_port_where_something_else_is(host: Host) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with stopwatch(PROMPT), pytest.raises(hermes.HermesError) as caught:
            await replace(host, port=port).sandbox(connect_timeout=3).open()
    assert isinstance(caught.value, hermes.BackendError | hermes.Unreachable)


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An ssh agent of the test's own."""
    path = str(tmp_path / "agent")
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    while not os.path.exists(path):
        time.sleep(0.01)
    monkeypatch.setenv("SSH_AUTH_SOCK", path)
    yield path
    process.terminate()
    process.wait(10)


async def test_the_agent_opens_doors_but_is_not_taken_along(
    open_on: Open, host: Host, agent: str, tmp_path: Path
) -> None:
    """Whatever the user's configuration says: commands there must not use the keys of this machine."""
    key = tmp_path / "key"
    key.write_text(await asyncio.to_thread(Path(host.key).read_text))
    key.chmod(0o600)
    await asyncio.to_thread(add_key, key)
    config = tmp_path / "config"
    config.write_text(f"ForwardAgent yes\nForwardX11 yes\nUserKnownHostsFile {host.known_hosts}\n")
    by_agent = replace(host, config=str(config))
    options = by_agent.options(approval="off")
    del options["key"]
    async with hermes.Sandbox("ssh", **options) as box:
        said = await box.run("echo ${SSH_AUTH_SOCK-none} ${DISPLAY-none}")
        assert said.text == "none none\n"
        assert (await box.exec("echo ${SSH_AUTH_SOCK-none} ${DISPLAY-none}")).text == "none none\n"


async def test_the_agent_is_taken_along_when_that_is_wished(
    open_on: Open, host: Host, agent: str, tmp_path: Path
) -> None:
    box = await open_on(host, forward_agent=True)
    assert (await box.run("ssh-add -l 2>&1")).text == "The agent has no identities.\n"
