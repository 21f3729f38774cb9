"""Hermes's home is its user's alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import hermes
from hermes.credentials._home import mend

from .conftest import declared


def modes(path: Path) -> dict[str, str]:
    found = {".": path, **{one.relative_to(path).as_posix(): one for one in path.rglob("*")}}
    return {name: f"{one.stat().st_mode & 0o777:o}" for name, one in found.items()}


def test_it_is_made_private(hermes_home: Path) -> None:
    assert mend() == []
    assert modes(hermes_home) == {".": "700"}


def test_it_is_mended_with_a_message(own: Path) -> None:
    own.chmod(0o755)
    for name, mode in ((".env", 0o644), ("config.yaml", 0o600), ("credentials/a", 0o664), ("run", 0o755)):
        (own / name).write_text("")
        (own / name).chmod(mode)
    (own / "credentials" / "d").mkdir(0o755)
    said = mend()
    assert modes(own) == {
        ".": "700",
        ".env": "600",
        "config.yaml": "600",
        "credentials": "700",
        "credentials/a": "600",
        "credentials/d": "700",
        "run": "700",
    }
    assert f"{own} was open to other users of this machine (mode 0755); it is 0700 now" in said
    assert len(said) == 5
    assert mend() == []


async def test_every_start_looks_at_it(own: Path) -> None:
    own.chmod(0o750)
    with pytest.warns(UserWarning, match=r"mode 0750\); it is 0700 now"):
        async with hermes.Sandbox("local", config=declared()):
            pass
    assert own.stat().st_mode & 0o777 == 0o700


def test_a_link_is_looked_at_where_it_leads(own: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").write_text("")
    (tmp_path / "dotfiles").chmod(0o644)
    (own / "config.yaml").symlink_to(tmp_path / "dotfiles")
    assert mend() == []
    assert (tmp_path / "dotfiles").stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["", ".env", "credentials/a"])
def test_what_belongs_to_another_user_is_refused(own: Path, what: str) -> None:
    (own / ".env").write_text("")
    (own / "credentials" / "a").write_text("")
    os.chown(own / what, 12345, 12345)
    with pytest.raises(hermes.ConfigError, match=r"belongs to user 12345.*nothing was started"):
        mend()


@pytest.mark.root_only
async def test_root_is_warned_once(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERMES_ALLOW_ROOT")
    with pytest.warns(UserWarning, match=r"hermes runs as root: .*this is said once"):
        async with hermes.Sandbox("local", config=declared()):
            pass
    async with hermes.Sandbox("local", config=declared()):  # where a warning is an error
        pass
    assert (own / "state" / "root-told").stat().st_mode & 0o777 == 0o600


@pytest.mark.root_only
async def test_root_may_be_meant(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_ALLOW_ROOT", "1")
    async with hermes.Sandbox("local", config=declared()):
        pass
    assert not (own / "state" / "root-told").exists()
