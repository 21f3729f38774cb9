"""`hermes workspace` and `hermes files`, against a place that copies."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli._tool import HERMES, Cli, eventually
from workspace.conftest import below, make

PLACE = """
from typing import Any, ClassVar
import msgspec
from hermes.backends.local import LocalBackend


class CopyBackend(LocalBackend):
    name: ClassVar[str] = "copying"

    @property
    def capabilities(self):
        return msgspec.structs.replace(super().capabilities, copies=True)

    def _create(self):
        asked = self.spec
        self.spec = msgspec.structs.replace(asked, workspace="private")
        try:
            return super()._create()
        finally:
            self.spec = asked
"""


@pytest.fixture
def copying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Iterator[Cli]:
    """The command line, with a place of a third party that copies."""
    make(
        tmp_path / "plugin",
        {
            "copyplace.py": PLACE,
            "copyplace-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: copyplace\nVersion: 1\n",
            "copyplace-1.dist-info/entry_points.txt": "[hermes.backends]\ncopying = copyplace:CopyBackend\n",
        },
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "plugin"))
    monkeypatch.setenv("HERMES_SANDBOX", "copying")
    make(cli.cwd, {"a.txt": "one\ntwo\n", "sub/b.txt": "b\n", ".gitignore": "ignored\n", "ignored": "x"})
    assert cli.out("exec", "--here", "ls") == "a.txt\nsub\n"
    yield cli
    cli("sandbox", "rm", "--all", "--yes")  # while the place is known


def test_status_diff_pull(copying: Cli) -> None:
    cli = copying
    assert cli.out("workspace", "status") == "Inside: nothing changed.\nHere: nothing changed.\n"
    cli.out("exec", "--here", "sed -i s/two/2/ a.txt; echo new >sub/new; rm sub/b.txt; echo evil >.envrc")
    make(cli.cwd, {"mine": "m"})
    assert cli.out("workspace", "status") == (
        "Inside, since the copy:\n"
        "  added     .envrc: programs here read it by themselves\n"
        "  changed   a.txt\n"
        "  deleted   sub/b.txt\n"
        "  added     sub/new\n"
        "Here, since the copy:\n"
        "  added     mine\n"
    )
    assert [one["path"] for one in cli.json("workspace", "status", "--json", "sub")["inside"]] == [
        "sub/b.txt",
        "sub/new",
    ]
    assert cli.out("workspace", "diff", "a.txt") == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    )
    assert cli.out("workspace", "diff", "--name-only") == ".envrc\na.txt\nsub/b.txt\nsub/new\n"
    assert (
        cli.out("workspace", "diff", "--stat").splitlines()[-1] == "4 files, 3 lines added, 2 lines removed"
    )
    refused = cli("workspace", "pull")
    assert refused.returncode == 125
    assert b"there is nobody to ask: give --yes" in refused.stderr
    assert b"To be brought here:" in refused.stdout
    assert (cli.cwd / "a.txt").read_text() == "one\ntwo\n"
    planned = cli.out("workspace", "pull", "--dry-run")
    assert planned.startswith("To be brought here:\n  changed   a.txt\n")
    assert "Held back:\n  added     .envrc: programs here read it by themselves\n" in planned
    done = cli("workspace", "pull", "--yes")
    assert done.returncode == 0
    assert done.stderr == b"hermes: 3 files, 10 B, brought here.\n"
    assert below(cli.cwd) == [".gitignore", "a.txt", "ignored", "mine", "sub/new"]
    found = cli.json("workspace", "pull", "--yes", "--json", "--include-protected", ".envrc")
    assert [one["path"] for one in found["done"]] == [".envrc"]
    assert cli.out("workspace", "push", "--yes") == "Brought inside:\n  added     mine\n"
    assert cli.out("exec", "--here", "cat mine") == "m"
    assert cli.out("workspace", "pull", "--yes") == "Nothing was brought here.\n"


def test_paths_begin_at_the_current_directory(copying: Cli) -> None:
    cli = copying
    name = cli.json("sandbox", "ls", "--json")[0]["name"]
    cli.out("exec", "--here", "echo new >sub/new; echo new >new")
    args = ("workspace", "diff", "--name-only", "--name", name)
    assert cli.out(*args, "new", cwd=cli.cwd / "sub") == "sub/new\n"
    assert cli.out(*args, "../new", cwd=cli.cwd / "sub") == "new\n"
    assert cli.out(*args, "new", cwd=cli.cwd.parent) == "new\n"
    wrong = cli(*args, "../..", cwd=cli.cwd / "sub")
    assert wrong.returncode == 125 and b"is not in" in wrong.stderr


def test_conflicts_are_told_by_the_exit_code(copying: Cli) -> None:
    cli = copying
    cli.out("exec", "--here", "echo inside >a.txt; echo ok >ok")
    make(cli.cwd, {"a.txt": "here"})
    done = cli("workspace", "pull", "--yes")
    assert done.returncode == 125
    assert "Changed on both sides, left alone without --force:\n  changed   a.txt" in done.stdout.decode()
    assert (cli.cwd / "ok").exists() and (cli.cwd / "a.txt").read_text() == "here"
    assert cli("workspace", "pull", "--yes", "--force").returncode == 0
    assert (cli.cwd / "a.txt").read_text() == "inside\n"


def test_names_do_nothing_to_a_terminal(copying: Cli) -> None:
    cli = copying
    cli.out(
        "exec", "--here", "printf x >\"$(printf 'evil\\033]0;title\\007\\nname')\"; printf '\\033[2J' >esc"
    )
    out = cli.out("workspace", "status") + cli.out("workspace", "pull", "--dry-run")
    assert "\x1b" not in out and "evil\\x1b]0;title\\x07\\nname" in out
    master, slave = pty.openpty()
    shown = subprocess.run([*HERMES, "workspace", "diff"], cwd=cli.cwd, stdout=slave, timeout=30, check=True)
    os.close(slave)
    assert b"\x1b[2J" not in os.read(master, 65536)
    os.close(master)
    assert shown.returncode == 0


def test_somebody_is_asked(copying: Cli) -> None:
    cli = copying
    cli.out("exec", "--here", "echo new >new")
    for typed, code, there in ((b"n\n", 125, False), (b"\x04", 125, False), (b"y\n", 0, True)):
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [*HERMES, "workspace", "pull"], cwd=cli.cwd, stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)
        seen = b""
        while b"[y/N]" not in seen:
            seen += os.read(master, 4096)
        os.write(master, typed)
        assert process.wait(20) == code
        os.close(master)
        assert (cli.cwd / "new").exists() is there
        assert b"added     new" in seen


def test_where_nothing_was_copied(cli: Cli) -> None:
    cli.out("exec", "--sandbox", "local", "true")
    done = cli("workspace", "status", "--sandbox", "local")
    assert done.returncode == 125 and b"no copy" in done.stderr
    done = cli("workspace", "status", "--sandbox", "local", "--name", "none")
    assert done.returncode == 123


def test_files(copying: Cli) -> None:
    cli = copying
    make(cli.cwd.parent, {"up/x": "1", "up/deep/y": "22"})
    up = str(cli.cwd.parent / "up")
    done = cli("files", "put", up, "into")
    assert done.returncode == 0 and done.stderr == b"hermes: copied 2 files, 3 B, 2 directories.\n"
    assert cli("files", "get", "into/deep/y", "here", "--quiet").stderr == b""
    assert (cli.cwd / "here").read_text() == "22"
    lines = cli.out("files", "ls", "into").splitlines()
    assert lines[0].split() == ["TYPE", "MODE", "SIZE", "AGE", "NAME"]
    assert [line.split()[-1] for line in lines[1:]] == ["deep", "x"]
    assert [one["name"] for one in cli.json("files", "ls", "--json")] == [
        ".gitignore",
        "a.txt",
        "into",
        "sub",
    ]
    assert cli("files", "get", "none").returncode == 125


def test_a_copy_that_was_interrupted_goes_on(copying: Cli) -> None:
    cli = copying
    big = cli.cwd.parent / "big"
    with big.open("wb") as file:
        for _ in range(40):
            file.write(os.urandom(10 << 20))
    process = cli.start("files", "put", str(big), "big")
    (workspace,) = cli.home.glob("sandboxes/*/workspace")

    def grown() -> bool:
        return any(part.stat().st_size > 50 << 20 for part in workspace.glob(".hermes-*.part"))

    assert eventually(grown, 30)
    process.send_signal(2)
    assert process.wait(20) == 130
    assert process.stderr is not None
    assert b"the same command goes on with it" in process.stderr.read()
    time.sleep(0.2)
    (part,) = workspace.glob(".hermes-*.part")
    assert part.stat().st_size > 50 << 20
    done = cli("files", "put", str(big), "big", timeout=60)
    assert done.returncode == 0, done.stderr
    same = cli.out("exec", "--here", "cmp", str(big), "big")
    assert same == "" and not list(workspace.glob(".hermes-*"))
    assert json.loads(cli.out("files", "ls", "--json", "big"))[0]["size"] == 400 << 20
