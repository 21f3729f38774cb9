"""The password for sudo: where it is read, and what is refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import hermes
from hermes.config import environment, sudo_password


def dotenv(home: Path, text: str, mode: int = 0o600) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    path = home / ".env"
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("HERMES_SUDO_PASSWORD=plain", "plain"),
        ("  export HERMES_SUDO_PASSWORD = spaced out  # a comment", "spaced out"),
        ("HERMES_SUDO_PASSWORD=a#b$c", "a#b$c"),
        ("HERMES_SUDO_PASSWORD='a # b\\'c'", "a # b'c"),
        ('HERMES_SUDO_PASSWORD="a \\"b\\" $HOME" # c', 'a "b" $HOME'),
        ("HERMES_SUDO_PASSWORD=öäü", "öäü"),
        ("HERMES_SUDO_PASSWORD=", None),
        ("HERMES_SUDO_PASSWORD= # nothing", None),
        ("# HERMES_SUDO_PASSWORD=x", None),
        ("MY_HERMES_SUDO_PASSWORD=x\nSUDO_PASSWORD=y", None),
        ("HERMES_SUDO_PASSWORD=first\nOTHER=x\nHERMES_SUDO_PASSWORD=last", "last"),
    ],
)
def test_the_file(hermes_home: Path, line: str, value: str | None) -> None:
    dotenv(hermes_home, line + "\n")
    assert sudo_password() == value


def test_the_environment_comes_first(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sudo_password() is None
    dotenv(hermes_home, "HERMES_SUDO_PASSWORD=filed", 0o644)
    monkeypatch.setenv("HERMES_SUDO_PASSWORD", "given")
    assert sudo_password() == "given"
    monkeypatch.setenv("HERMES_SUDO_PASSWORD", "")
    with pytest.raises(hermes.ConfigError):
        sudo_password()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_file_for_others_is_refused(hermes_home: Path, mode: int) -> None:
    path = dotenv(hermes_home, "HERMES_SUDO_PASSWORD=s3cret-word\n", mode)
    with pytest.raises(hermes.ConfigError) as caught:
        sudo_password()
    assert caught.value.hint == f"chmod 600 {path}"
    assert "s3cret-word" not in f"{caught.value!r} {caught.value}"


def test_a_file_for_others_without_one_is_none_of_our_business(hermes_home: Path) -> None:
    dotenv(hermes_home, "OPENAI_API_KEY=x\n", 0o644)
    assert sudo_password() is None


@pytest.mark.parametrize("value", ["'s3cret", '"s3cret', "'s3cret' more", "'s3\rcret'", "s3cret" * 200])
def test_what_cannot_be_one_is_not_repeated(hermes_home: Path, value: str) -> None:
    dotenv(hermes_home, f"HERMES_SUDO_PASSWORD={value}")
    with pytest.raises(hermes.ConfigError) as caught:
        sudo_password()
    assert "s3" not in str(caught.value).replace(str(hermes_home), "")


async def test_a_sandbox_does_not_open(hermes_home: Path) -> None:
    dotenv(hermes_home, "HERMES_SUDO_PASSWORD=x", 0o644)
    with pytest.raises(hermes.ConfigError, match="not yours alone"):
        await hermes.Sandbox("local", workspace="private").open()


def test_programs_of_ours_do_not_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_SUDO_PASSWORD", "s3cret-word")
    assert {**environment(), "HERMES_SUDO_PASSWORD": "s3cret-word"} == dict(os.environ)


async def test_programs_that_were_started_do_not_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from hermes.backends._command import run_client

    monkeypatch.setenv("HERMES_SUDO_PASSWORD", "s3cret-word")
    done = await run_client([sys.executable, "-c", "import os; print(os.environ)"], timeout=20)
    assert "PATH" in done.out
    assert "s3cret-word" not in done.out
