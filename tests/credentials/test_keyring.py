"""The keyring as the store: the library itself, with a keyring of ours that its configuration names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli._tool import Cli

from .conftest import keep

TOKEN = "A_DECLARED_TOKEN"
VALUE = "s3cr3t-in-the-keyring-0123"


@pytest.fixture
def cli(hermes_home: Path, own: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cli]:
    """The command line, with keyring's own configuration file and nothing that overrules it."""
    for name in ("PYTHON_KEYRING_BACKEND", "DBUS_SESSION_BUS_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    config = tmp_path / "xdg" / "python_keyring"
    config.mkdir(parents=True)
    folder = Path(__file__).parent / "_keyring"
    (config / "keyringrc.cfg").write_text(
        f"[backend]\ndefault-keyring=file_keyring.FileKeyring\nkeyring-path={folder}\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("FILE_KEYRING", str(tmp_path / "passwords"))
    keep(
        own / "config.yaml",
        f"sandbox: local\ncredentials: {{env: [{TOKEN}], store: keyring, redact: 'off'}}\n",
    )
    tool = Cli(hermes_home)
    yield tool
    tool.close()


def put(value: str) -> None:
    """Keep a value as a user does, with the program that keyring brings."""
    argv = [sys.executable, "-m", "keyring", "set", "hermes", TOKEN]
    done = subprocess.run(argv, input=value, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done


def test_values_come_from_it(cli: Cli, own: Path) -> None:
    put(VALUE)
    keep(own / ".env", f"{TOKEN}=the-one-of-env\n")  # which is not the store then
    assert cli.out("exec", f"echo ${TOKEN}") == f"{VALUE}\n"
    said = cli.out("credentials", "ls")
    assert f"{TOKEN}: variable from the keyring" in said and VALUE not in said
    assert f"ok     {TOKEN}: variable: there, and as it is here" in cli.out("credentials", "check")
    assert cli.out("exec", f"echo ${TOKEN}", env={**os.environ, TOKEN: "mine"}) == "mine\n"


def test_hermes_puts_declared_ones_there(cli: Cli, own: Path, tmp_path: Path) -> None:
    done = cli("config", "set", TOKEN, input=f"{VALUE}\n".encode())
    assert done.stderr.decode() == f"hermes: {TOKEN} is set, in the keyring\n"
    assert not (own / ".env").exists()
    assert json.loads((tmp_path / "passwords").read_text()) == {f"hermes/{TOKEN}": VALUE}
    assert cli.out("config", "get", TOKEN, "--explain") == "set   (the keyring)\n"
    assert cli.out("exec", f"echo ${TOKEN}") == f"{VALUE}\n"
    cli("config", "set", "OTHER_API_KEY", input=b"of .env")  # which is not declared, and looked up there
    assert "OTHER_API_KEY" in (own / ".env").read_text()
    assert b"was removed from the keyring" in cli("config", "unset", TOKEN).stderr
    assert cli.out("config", "get", TOKEN) == "not set\n"
    again = cli("config", "unset", TOKEN)
    assert (
        again.returncode == 125
        and b"did not take it: PasswordDeleteError; nothing was changed" in again.stderr
    )


def test_what_comes_back_is_redacted(cli: Cli) -> None:
    put(VALUE)
    assert cli.out("exec", "-q", "--set", "credentials.redact=all", f"echo ${TOKEN}") == "[redacted]\n"


def test_one_that_it_has_not(cli: Cli) -> None:
    put(VALUE)
    done = cli("exec", "--set", "credentials.env=[ANOTHER_TOKEN]", "true")
    assert done.returncode == 125
    assert (
        b"the variable ANOTHER_TOKEN (in the environment, or in the keyring); nothing was started"
        in done.stderr
    )


def test_a_keyring_that_fails(cli: Cli) -> None:
    """It is locked, as one of a desktop is before anybody logged in."""
    done = cli("exec", "true")
    assert done.returncode == 125 and done.stdout == b""
    assert b"the keyring could not be asked: KeyringLocked; nothing was started" in done.stderr
    assert b"s3cr3t" not in done.stderr and b"Traceback" not in done.stderr


def test_no_keyring_at_all(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "xdg" / "python_keyring" / "keyringrc.cfg").write_text(
        "[backend]\ndefault-keyring=keyring.backends.fail.Keyring\n"
    )
    done = cli("exec", "true")
    assert done.returncode == 125
    assert b"the keyring could not be asked: NoKeyringError" in done.stderr


def test_without_the_library(cli: Cli, tmp_path: Path) -> None:
    """As where the extra was not asked for: an import of it finds nothing."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['keyring'] = None\n")
    done = cli("exec", "true", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 125
    assert b"the library for it is not installed; nothing was started" in done.stderr
    assert b"pip install 'hermes-places[keyring]'" in done.stderr


def test_it_is_not_loaded_where_the_environment_has_all(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['keyring'] = None\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), TOKEN: "mine"}
    assert cli.out("exec", f"echo ${TOKEN}", env=env) == "mine\n"
