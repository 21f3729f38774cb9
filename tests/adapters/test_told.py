"""What every adapter makes its sandbox of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.adapters import settings, told
from hermes.errors import ConfigError


@pytest.fixture(autouse=True)
def unasked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody has configured anything."""
    monkeypatch.delenv("HERMES_APPROVALS")
    monkeypatch.chdir(tmp_path)


def mode(found: dict[str, Any]) -> str:
    """The mode of approval that a sandbox with these options has."""
    return str(found.get("approval") or found["config"].approvals.mode)


def test_nothing_is_asked_unless_somebody_said_so(
    hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mode(told()) == "off"
    assert mode(told(approval="ask")) == "ask"
    file = tmp_path / "its.yaml"
    file.write_text("sandbox: docker\n")
    assert mode(told(settings(file))) == "off"
    file.write_text("approvals:\n  mode: strict\n")
    assert mode(told(settings(file))) == "strict"
    monkeypatch.setenv("HERMES_APPROVALS", "ask")
    assert mode(told()) == "ask"
    assert mode(told(settings(file))) == "strict"
    monkeypatch.delenv("HERMES_APPROVALS")
    hermes_home.mkdir(mode=0o700)
    (hermes_home / "config.yaml").write_text("approvals:\n  mode: ask\n")  # also when that is the default
    assert mode(told()) == "ask"


def test_a_file_counts_over_all_others(
    hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_SANDBOX", "local")
    monkeypatch.setenv("HERMES_TIMEOUT", "7")
    file = tmp_path / "its.yaml"
    file.write_text("sandbox: docker\ndocker:\n  image: mine\n")
    config = told(settings(file))["config"]
    assert (config.sandbox, config.docker.image, config.timeout) == ("docker", "mine", 7)


def test_a_file_that_is_wrong_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "its.yaml"
    with pytest.raises(ConfigError, match=f"there is no file {file}"):
        settings(file)
    file.write_text("sandbox: docker\nlimits:\n  memory: much\n")
    with pytest.raises(ConfigError, match=f"{file}:3: limits.memory"):
        told(settings(file))
