"""Secrets are kept in .env, for nobody else to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.config import _secrets, sudo_password
from hermes.errors import ConfigError


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("HERMES_SUDO_PASSWORD", "HERMES_SUDO_PASSWORD"),
        ("OPENAI_API_KEY", "OPENAI_API_KEY"),
        ("MODAL_TOKEN_ID", "MODAL_TOKEN_ID"),
        ("daytona.api_key", "DAYTONA_API_KEY"),
        ("docker.image", None),
        ("sandbox", None),
    ],
)
def test_what_is_a_secret(key: str, name: str | None) -> None:
    assert _secrets.secret_name(key) == name


@pytest.mark.parametrize(
    ("key", "hint"), [("TERMINAL_SSH_KEY", "ssh.key"), ("HERMES_TIMEOUT", "timeout"), ("PATH", "shell")]
)
def test_what_is_none(key: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _secrets.secret_name(key)
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "HERMES_MODEL_KEY"),
        ("{name: 'anthropic:x'}", "ANTHROPIC_API_KEY"),
        ("{name: 'google:x'}", "GOOGLE_API_KEY"),
        ("{name: 'openai:x', base_url: 'http://y'}", "OPENAI_API_KEY"),
        ("{name: 'x', base_url: 'http://y'}", "HERMES_MODEL_KEY"),  # no provider's key goes to another server
        ("{name: 'some:x', base_url: 'http://y'}", "HERMES_MODEL_KEY"),
        ("{name: 'openai:x', key_env: MINE_KEY}", "MINE_KEY"),
    ],
)
def test_the_models_key_is_that_of_its_provider(hermes_home: Path, text: str, name: str) -> None:
    hermes_home.mkdir(mode=0o700)
    (hermes_home / "config.yaml").write_text(f"model: {text}\n" if text else "")
    assert _secrets.secret_name("model.api_key") == name


def test_the_rest_of_the_file_stays(hermes_home: Path) -> None:
    hermes_home.mkdir(mode=0o700)
    path = hermes_home / ".env"
    path.write_text("# mine\nexport A_TOKEN = old  # why\nB=1\n\nA_TOKEN=older\n")
    path.chmod(0o644)
    where, told = _secrets.write("A_TOKEN", "new")
    assert where == path
    assert "could be read by other users (mode 0644); it is 0600 now" in told
    assert path.read_text() == "# mine\nA_TOKEN=new\nB=1\n\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert _secrets.names() == {"A_TOKEN": True, "B": False}
    assert _secrets.write("A_TOKEN", None)[1] == ""
    assert path.read_text() == "# mine\nB=1\n\n"


@pytest.mark.parametrize("value", ["s3cret", "with space", "a'b\\c\"d", "#x", "$HOME", "ünï", "a=b"])
def test_what_is_written_is_read_again(hermes_home: Path, value: str) -> None:
    _secrets.write("HERMES_SUDO_PASSWORD", value)
    assert sudo_password() == value
    assert (hermes_home / ".env").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("value", ["", "a\nb", "a\0b", "x" * 70_000])
def test_what_cannot_be_kept(hermes_home: Path, value: str) -> None:
    with pytest.raises(ConfigError, match="nothing was written"):
        _secrets.write("A_TOKEN", value)
    assert not (hermes_home / ".env").exists()
