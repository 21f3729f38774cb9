"""No secret that hermes knows, or that looks like one, reaches the disk."""

from __future__ import annotations

import base64
import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

import hermes
from hermes.approval.redact import plain, redact
from hermes.config import Config
from log._recorded import everything, recorded

VALUE = "cobalt-Heron-7731-quartz"
TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


def settings(redact: str = "all", **credentials: Any) -> Config:
    found = {"env": ["MY_VALUE"], "redact": redact, **credentials}
    return msgspec.convert({"approvals": {"mode": "off"}, "credentials": found}, Config)


@pytest.fixture
def value(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MY_VALUE", VALUE)
    return VALUE


def absent(home: Path, *secrets: str) -> None:
    data = everything(home)
    for secret in secrets:
        assert secret.encode() not in data
        assert base64.b64encode(secret.encode())[:-4] not in data
        for part in (secret[:10], secret[-10:]):
            assert part.encode() not in data


@pytest.mark.parametrize("mode", ["all", "declared", "off"])
@pytest.mark.parametrize("live", [False, True])
async def test_whatever_is_redacted_elsewhere(
    hermes_home: Path, tmp_path: Path, value: str, mode: str, live: bool
) -> None:
    config = settings(mode)
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=config) as box:
        options: dict[str, Any] = {"on_output": lambda data: None} if live else {}
        result = await box.run(f'echo "it is $MY_VALUE, {TOKEN}."; echo "$MY_VALUE" >&2', **options)
        assert (VALUE.encode() in result.stdout) == (mode == "off")
    absent(hermes_home, VALUE, TOKEN)
    said = b"".join(one.data for one in (await recorded()).commands[0].outputs)
    assert said == b"it is [redacted], [redacted].\n[redacted]\n"


async def test_in_the_command_itself(hermes_home: Path, tmp_path: Path, value: str) -> None:
    commands = [
        f"echo {VALUE}",
        f"curl -u me:hunter2hunter2 https://example.org -H 'Authorization: Bearer {TOKEN}'",
        "export DB_PASSWORD=swordfish99",
        "echo trustno1trustno1 | su -c true",
    ]
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=settings()) as box:
        for command in commands:
            with contextlib.suppress(hermes.Refused):  # a command that was refused is recorded too
                await box.run(f": {command}" if "curl" in command else f"true || {command}")
        await box.run(["python3", "-"], stdin=f"x = '{VALUE}'")
        await box.start(f"true {VALUE}")
    absent(hermes_home, VALUE, TOKEN, "hunter2hunter2", "swordfish99", "trustno1trustno1")
    assert (await recorded()).commands[0].text == "true || echo [redacted]"


async def test_split_over_pieces_on_a_terminal(hermes_home: Path, tmp_path: Path, value: str) -> None:
    slowly = (
        'for ((i=0; i<${#MY_VALUE}; i++)); do printf %s "${MY_VALUE:i:1}"; sleep 0.06; done; echo; echo over'
    )
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=settings()) as box:
        async with await box.pty(slowly, redact=False) as pty:
            shown = b"".join([data async for data in pty])
            assert VALUE.encode() in shown
        await box.run(slowly, on_output=lambda data: None)
    data = everything(hermes_home)
    for size in range(4, len(VALUE)):
        assert VALUE[:size].encode() not in data and VALUE[-size:].encode() not in data
    assert data.count(b"[redacted]") == 2


@pytest.mark.parametrize("live", [False, True])
async def test_cut_in_two_where_the_middle_is_left_out(
    hermes_home: Path, tmp_path: Path, value: str, live: bool
) -> None:
    config = settings("off")
    config = msgspec.structs.replace(config, log=msgspec.structs.replace(config.log, max_output=2000))
    options: dict[str, Any] = {"on_output": lambda data: None} if live else {}
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=config) as box:
        for at in (3, 12, 20):  # so many of its characters are in the head, and in the tail
            pad, mine = f"%{1000 - at}s", '"$MY_VALUE"'
            script = f"printf '{pad}%s' '' {mine}; seq 5000; printf '%s{pad}' {mine} ''"
            await box.run(script, **options)
    data = everything(hermes_home)
    assert data.count(b'"omitted"') == 3
    for size in range(4, len(VALUE)):
        assert VALUE[:size].encode() not in data and VALUE[-size:].encode() not in data


async def test_one_that_is_renewed(
    hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = hermes_home / "credentials"
    hermes_home.mkdir(mode=0o700)
    folder.mkdir(mode=0o700)
    (folder / "key").write_text("first-value-of-the-key-1234")
    (folder / "key").chmod(0o600)
    config = msgspec.convert({"approvals": {"mode": "off"}}, Config)
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=config) as box:
        await box.run('cat "$HERMES_CREDENTIALS/key"')
        (folder / "key").write_text("second-value-of-the-key-5678")
        await box.run('cat "$HERMES_CREDENTIALS/key"; echo first-value-of-the-key-1234')
    absent(hermes_home, "first-value-of-the-key-1234", "second-value-of-the-key-5678")
    assert [one.outputs[0].data for one in (await recorded()).commands] == [
        b"[redacted]",
        b"[redacted][redacted]\n",
    ]


async def test_what_no_sandbox_may_know(
    hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hermes_home.mkdir(mode=0o700, parents=True)
    (hermes_home / ".env").write_text("DAYTONA_API_KEY=zanzibar-4711-key\nPLAIN=visible-words\n")
    (hermes_home / ".env").chmod(0o600)
    monkeypatch.setenv("SOME_API_KEY", "pelican-0815-key")
    config = msgspec.convert({"approvals": {"mode": "off"}}, Config)
    own = {"X": "pelican-0815-key"}
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=config, env=own) as box:
        await box.run(f"cat {hermes_home}/.env; echo $X")
    absent(hermes_home, "zanzibar-4711-key", "pelican-0815-key")
    assert b"visible-words" in everything(hermes_home)


async def test_in_errors_names_and_paths(hermes_home: Path, tmp_path: Path, value: str) -> None:
    (tmp_path / VALUE).mkdir()
    async with hermes.Sandbox("local", workspace=str(tmp_path), config=settings(), name="n") as box:
        await box.run("true", cwd=VALUE, session=f"s-{VALUE}")
        with pytest.raises(hermes.CommandError):
            await box.run("true", cwd=f"/nowhere/{VALUE}")
        await box.files.write(f"{VALUE}.txt", "x")
        await box.destroy()
    absent(hermes_home, VALUE)


TEXTS = [
    "curl -u admin:hunter2hunter2 https://x", "mysql -pgeheim -u x", "psql postgres://u:geheim@h/db",
    "sshpass -p geheim ssh x", "redis-cli -a geheim", "ldapsearch -w geheim", "zip -P geheim a b",
    "htpasswd -b f u geheim", "docker login -p geheim", "openssl enc -pass pass:geheim",
    "echo geheim | sudo -S x", "printf geheim | su - x", "su x <<< geheim", "kinit x <<EOF\ngeheim\nEOF",
    "sudo -S x < <(echo geheim)", "send -- \"geheim\"", "MY_TOKEN=geheim x", "--API-KEY geheim",
    "AUTHORIZATION: Basic geheim", "x --client-secret geheim", "bearer geheim",
    "pa\u017f\u017fword=geheim", "to\u212aen: geheim",
    "helm login -p geheim", "curl --proxy-user a:geheim x", "CREDENTIAL=geheim", "--private-key geheim",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_the_quick_look_misses_nothing(text: str) -> None:
    assert redact(text) != text
    assert not plain(text)


@pytest.mark.parametrize("text", ["ls -l", "make test", "git status", "cd src && grep -rn foo .", "true"])
def test_the_quick_look_is_worth_it(text: str) -> None:
    assert plain(text)


async def test_no_variable_that_a_command_gets_is_written(hermes_home: Path, tmp_path: Path) -> None:
    async with hermes.Sandbox("local", workspace=str(tmp_path), env={"A": "of-the-sandbox"}) as box:
        await box.run("true", env={"B": "of-the-command"})
    assert b"of-the-" not in everything(hermes_home)
    assert os.environ["HERMES_HOME"].encode() not in everything(hermes_home)
