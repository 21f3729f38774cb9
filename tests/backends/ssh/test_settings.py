"""Where the host, the user, the port and the key come from, and what is said when one is missing."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hermes
from _ssh import Host, machine
from hermes.backends.base import Spec
from hermes.backends.ssh import SshBackend
from hermes.backends.ssh._target import target_for
from hermes.config import Config, Ssh

from .conftest import Open

VARIABLES = {"host": "TERMINAL_SSH_HOST", "user": "TERMINAL_SSH_USER"}


def settled(monkeypatch: pytest.MonkeyPatch, home: Path, how: str, values: dict[str, Any]) -> None:
    """Give settings by the environment or by the configuration file."""
    if how == "environment":
        for key, value in values.items():
            monkeypatch.setenv(f"TERMINAL_SSH_{key.upper()}", str(value))
        return
    home.mkdir(0o700, exist_ok=True)
    lines = "".join(f"  {key}: {value}\n" for key, value in values.items())
    (home / "config.yaml").write_text(f"ssh:\n{lines}")
    (home / "config.yaml").chmod(0o600)


@pytest.mark.parametrize("how", ["environment", "file", "options"])
@pytest.mark.parametrize(
    ("given", "missing"),
    [({}, ["host", "user"]), ({"host": "h"}, ["user"]), ({"user": "u"}, ["host"])],
    ids=["both", "user", "host"],
)
async def test_what_is_missing_is_named_and_nothing_else(
    hermes_home: Path, monkeypatch: pytest.MonkeyPatch, how: str, given: dict[str, str], missing: list[str]
) -> None:
    options: dict[str, Any] = dict(given) if how == "options" else {}
    if how != "options":
        settled(monkeypatch, hermes_home, how, given)
    with pytest.raises(hermes.ConfigError) as caught:
        await hermes.Sandbox("ssh", **options).open()
    said = str(caught.value)
    for key, variable in VARIABLES.items():
        assert (variable in said) is (key in missing), said
    assert "TERMINAL_SSH_PORT" not in said
    assert "TERMINAL_SSH_KEY" not in said


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"host": "@near", "user": "u"}, ["'@near'", "no user before the '@'"]),
        ({"host": "u@"}, ["'u@'", "no host after the '@'"]),
        ({"host": "me@there", "user": "you"}, ["'me'", "'you'", "ssh.user"]),
        ({"host": "my host", "user": "u"}, ["ssh.host is 'my host'", "has a blank"]),
        ({"host": "there ", "user": "u"}, ["ssh.host is 'there '", "has a blank"]),
        ({"host": "-oProxyCommand=x", "user": "u"}, ["ssh.host", "begins with '-'"]),
        ({"host": "there", "user": "a b"}, ["ssh.user is 'a b'", "has a blank"]),
    ],
)
@pytest.mark.parametrize("how", ["environment", "file"])
async def test_what_cannot_be_a_machine_is_said_why(
    hermes_home: Path, monkeypatch: pytest.MonkeyPatch, how: str, values: dict[str, str], words: list[str]
) -> None:
    settled(
        monkeypatch,
        hermes_home,
        how,
        {key: repr(text) if how == "file" else text for key, text in values.items()},
    )
    with pytest.raises(hermes.ConfigError, match="nothing was tried") as caught:
        await hermes.Sandbox("ssh").open()
    assert [word for word in words if word not in str(caught.value)] == []
    assert caught.value.hint


def test_a_user_before_the_host() -> None:
    def reached(options: dict[str, Any], **config: Any) -> str:
        return str(target_for(options, Ssh(**config)))

    assert reached({}, host="me@there") == "me@there"
    assert reached({}, host="me@there", user="me") == "me@there"
    assert reached({}, host="me@corp.example@there") == "me@corp.example@there"
    # Said for this one machine it counts, whatever holds for all.
    assert reached({"host": "me@there"}, user="you") == "me@there"
    assert reached({"host": "gpu"}, user="you", hosts={"gpu": {"host": "me@there"}}) == "me@there"
    for options, config in (
        ({"host": "me@there", "user": "you"}, {}),
        ({"host": "gpu"}, {"hosts": {"gpu": {"host": "me@there", "user": "you"}}}),
        ({"user": "you"}, {"host": "me@there"}),
    ):
        with pytest.raises(hermes.ConfigError, match=r"ssh\.user says 'you'"):
            reached(options, **config)


@pytest.mark.parametrize("how", ["environment", "file"])
async def test_all_four_come_from_outside(
    host: Host, hermes_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    bare = tmp_path / "config"
    bare.write_text(f"UserKnownHostsFile {host.known_hosts}\n")  # no port and no key in it
    values = {"host": host.address, "user": host.user, "port": host.port, "key": host.key}
    settled(monkeypatch, hermes_home, how, values)
    async with hermes.Sandbox("ssh", config_file=str(bare), workspace="private", approval="off") as box:
        assert (await box.run("id -un")).text == f"{host.user}\n"


async def test_options_win_over_the_environment_and_that_over_the_file(
    host: Host, hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(
        monkeypatch, hermes_home, "file", {"host": "198.18.255.1", "user": "nobody-in-the-file", "port": 9}
    )
    settled(
        monkeypatch, hermes_home, "environment", {"host": host.address, "user": "nobody-at-all", "port": 1}
    )
    options = host.options()
    del options["host"]
    async with hermes.Sandbox("ssh", approval="off", **options) as box:
        assert (await box.run("id -un")).text == f"{host.user}\n"


async def test_the_host_may_stand_behind_the_backend(host: Host) -> None:
    options = host.options()
    del options["host"]
    async with hermes.Sandbox(f"ssh:{host.address}", approval="off", **options) as box:
        assert (await box.run("echo here")).text == "here\n"


async def test_names_of_the_ssh_configuration_are_known(host: Host) -> None:
    """Address, port and key come from there."""
    reached = {"host": host.alias, "user": host.user, "config_file": host.config}
    options: dict[str, Any] = {**reached, "workspace": "private"}
    async with hermes.Sandbox("ssh", approval="off", **options) as box:
        assert (await box.run("echo here")).text == "here\n"


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "-oProxyCommand=touch owned"},
        {"user": "-oProxyCommand=touch owned"},
        {"jump": "-oProxyCommand=touch owned"},
        {"host": "a b"},
        {"host": "a\nb"},
        {"port": 0},
        {"port": 65536},
        {"port": "ssh"},
        {"connect_timeout": -1},
        {"hots": "a"},
        {"host": ""},
    ],
    ids=str,
)
async def test_what_cannot_be_is_refused_at_once(
    host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(hermes.ConfigError) as caught:
        await hermes.Sandbox("ssh", **host.options(**wrong)).open()
    assert next(iter(wrong)) in f"{caught.value} {caught.value.hint}"
    assert not list(tmp_path.iterdir())


async def test_limits_and_networks_are_refused_before_anything_is_tried() -> None:
    for wish in ({"limits": {"memory": 1 << 30}}, {"network": "off"}, {"image": "debian"}):
        with pytest.raises(hermes.UnsupportedError):
            await hermes.Sandbox("ssh", host="198.18.255.1", user="nobody", **wish).open()


async def test_the_directory_that_sessions_begin_in(open_on: Open, host: Host, tmp_path: Path) -> None:
    options = {"workspace": None, "workdir": "/usr/share"}
    box = await open_on(host, **options)
    assert (await box.run("pwd")).text == "/usr/share\n"
    with pytest.raises(hermes.BackendError, match="workdir"):
        await open_on(host, workspace=None, workdir="/nowhere/at/all")


async def test_what_it_says_of_itself(open_on: Open, host: Host) -> None:
    box = await open_on(host)
    facts = box.describe()
    assert facts["isolation"] == "remote"
    assert facts["judge"] is not None  # it is the user's own account there: no sandbox
    assert facts["channel"] == "relay"
    assert facts["limits"] == []


@pytest.mark.root_only
async def test_hosts_on_the_way(open_on: Open) -> None:
    """An address that only the host in between can reach; the configuration knows that one by a name."""
    with machine(sshd="ListenAddress 127.0.0.1:26899", delay=0) as own:
        known = Path(own.host.known_hosts)
        key = known.read_text().split(" ", 1)[1]
        known.write_text(f"{known.read_text()}[127.0.0.1]:26899 {key}")
        inner = replace(own.host, address="127.0.0.1", port=26899)
        with pytest.raises(hermes.Unreachable):
            await inner.sandbox().open()
        box = await open_on(inner, jump=own.host.alias)
        assert (await box.run("uname -n")).text == "own\n"
        await box.destroy()
        assert own.left() == {}


async def test_several_machines_by_name(host: Host, hermes_home: Path) -> None:
    """Each has its own; what one does not say is as in the section for all."""
    hermes_home.mkdir(0o700)
    (hermes_home / "config.yaml").write_text(
        f"""
ssh:
  user: {host.user}
  key: {host.key}
  config_file: {host.config}
  hosts:
    one:
      host: {host.address}
      port: {host.port}
    two:
      host: near
      user: hermes-dash
"""
    )
    (hermes_home / "config.yaml").chmod(0o600)
    options: dict[str, Any] = {"workspace": "private", "approval": "off"}
    async with hermes.Sandbox("ssh:one", **options) as one, hermes.Sandbox("ssh:two", **options) as two:
        assert (await one.run("id -un")).text == f"{host.user}\n"
        assert (await two.run("id -un")).text == "hermes-dash\n"
        assert one.id != two.id
    with pytest.raises(hermes.HermesError):
        await hermes.Sandbox("ssh:a..b", connect_timeout=2, **options).open()


async def test_what_it_can_do_is_told_without_a_host() -> None:
    """The table of exceptions and `hermes doctor` ask for it where nothing is configured."""
    can = SshBackend(Spec(name="any", id="0" * 16), Config()).capabilities
    assert can.isolation == "remote"
    assert not can.suspend


@pytest.mark.parametrize("what", ["key", "config_file"])
async def test_a_file_that_is_not_there_is_said(host: Host, tmp_path: Path, what: str) -> None:
    with pytest.raises(hermes.BackendError, match=f"ssh.{what} is .*, which is no file; nothing was tried"):
        await hermes.Sandbox("ssh", **host.options(**{what: str(tmp_path / "none")})).open()


async def test_a_key_may_have_any_name(host: Host, tmp_path: Path) -> None:
    odd = tmp_path / "a key of %h"
    shutil.copy(host.key, odd)
    async with hermes.Sandbox("ssh", **host.options(key=str(odd))) as box:
        assert (await box.run("id -un")).text == f"{host.user}\n"
