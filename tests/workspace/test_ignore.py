"""What stays here: the rules of git, as git understands them, and .hermesignore above them."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from hermes.workspace._here import look
from hermes.workspace._ignore import Rules
from workspace.conftest import git, make


def copied(root: Path) -> set[str]:
    return set(look(str(root), Rules(str(root)), {}).files)


def of_git(root: Path) -> set[str]:
    names = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return {name for name in names if name and (root / name).exists()}


PATTERNS = [
    *("*.o", "build/", "/top", "a/**/z", "!keep.o", "doc/*.txt", "**/tmp", "foo", "foo/", "!foo/bar"),
    *("*", "!*/", "!*.c", "b?r", "[abc].x", "sub/deep/", "/sub/*", "!/sub/deep", "\\#odd", "# comment", ""),
    *("trail ", "trail\\ ", "**/", "a/**", "/**/c", "\\!bang", "dir/file.o", "[!a]b", "x/"),
]
NAMES = ["a", "b", "c", "foo", "bar", "z", "x", "sub", "deep", "build", "tmp", "doc", "top", "dir"]
ENDS = [
    "m.o",
    "keep.o",
    "a.c",
    "n.txt",
    "foo",
    "bar",
    "a.x",
    "#odd",
    "!bang",
    "trail",
    "trail ",
    "file.o",
    "ab",
]


@pytest.mark.parametrize("seed", range(25))
def test_as_git_does(tmp_path: Path, seed: int) -> None:
    """Nested files, negations, anchors, excludes of the repository: the same files as git lists."""
    chance = random.Random(seed)
    files: dict[str, str | bytes] = {}
    for _ in range(60):
        path = "/".join([*chance.choices(NAMES, k=chance.randrange(4)), chance.choice(ENDS)])
        if not any(other.startswith(path + "/") or path.startswith(other + "/") for other in files):
            files[path] = "1"
    folders = sorted({os.path.dirname(path) for path in files})
    for folder in {"", *chance.sample(folders, min(3, len(folders)))}:
        lines = chance.sample(PATTERNS, chance.randrange(1, 6))
        files[os.path.join(folder, ".gitignore")] = "\n".join(lines) + "\n"
    make(tmp_path, files)
    git(tmp_path, "init")
    (tmp_path / ".git/info/exclude").write_text("\n".join(chance.sample(PATTERNS, 2)))
    ours = {path for path in copied(tmp_path) if not path.startswith(".git/")}
    assert ours == of_git(tmp_path), files


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, {".gitignore": "*.o\n", "a.o": "", "b": "", "sub/.gitignore": "!*.o\n", "sub/c.o": ""})
    monkeypatch.setenv("PATH", "/nonexistent")
    assert copied(tmp_path) == {".gitignore", "b", "sub/.gitignore", "sub/c.o"}


def test_what_git_tracks_comes_along(tmp_path: Path) -> None:
    make(tmp_path, {"gen/x": "", "gen/y": "", ".gitignore": "gen/\n"})
    git(tmp_path, "init")
    git(tmp_path, "add", "-f", "gen/x")
    assert {path for path in copied(tmp_path) if not path.startswith(".git/")} == {"gen/x", ".gitignore"}


def test_git_itself_comes_along(tmp_path: Path) -> None:
    make(tmp_path, {"a": "1", ".gitignore": "*\n"})
    git(tmp_path, "init")
    found = copied(tmp_path)
    assert ".git/HEAD" in found and ".git/config" in found
    (tmp_path / ".hermesignore").write_text(".git\n")
    assert not any(path.startswith(".git/") for path in copied(tmp_path))


def test_hermesignore_is_above(tmp_path: Path) -> None:
    """It leaves out what git tracks, and brings along what git ignores."""
    make(
        tmp_path,
        {
            "kept": "",
            "secret": "",
            ".gitignore": "dist/\nlog\n",
            "dist/a": "",
            "log": "",
            ".hermesignore": "secret\n!dist/\n",
            "sub/.hermesignore": "here\n",
            "sub/here": "",
            "here": "",
        },
    )
    git(tmp_path, "init")
    git(tmp_path, "add", "-f", "secret", "kept")
    assert {path for path in copied(tmp_path) if not path.startswith(".git/")} == {
        *("kept", ".gitignore", "dist/a", ".hermesignore", "sub/.hermesignore", "here")
    }


def test_rules_that_are_no_files_are_none(tmp_path: Path) -> None:
    make(tmp_path, {"a": "", "rules": "a\n", "sub/.gitignore/x": ""})
    (tmp_path / ".gitignore").symlink_to("rules")
    os.mkfifo(tmp_path / ".hermesignore")
    assert {"a", "rules"} <= copied(tmp_path)


def test_settings_of_the_repository_run_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    root = tmp_path / "root"
    make(root, {"a": "1"})
    git(root, "init")
    git(root, "add", "a")
    script = root / ".git/fsmonitor"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    git(root, "config", "core.fsmonitor", str(script))
    copied(root)
    assert not mark.exists()


def test_our_own_parts_stay_here(tmp_path: Path) -> None:
    make(tmp_path, {"a": "", ".hermes-0123.part": "", "sub/.hermes-00~": ""})
    assert copied(tmp_path) == {"a"}


def test_patterns_cost_little(tmp_path: Path) -> None:
    """A pattern that would keep a regular expression busy for ever."""
    started = time.process_time()
    name = "a" * 200
    make(
        tmp_path, {name: "", ".gitignore": "*a" * 60 + "b\n" + "**/a*/" * 30 + "b\n", "/".join("a" * 60): ""}
    )
    assert name in copied(tmp_path)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("pattern", ["[", "[a", "a\\", "[[:foo:]]", "", "/", "!", "//", "[]", "[!]", "\\"])
def test_odd_patterns_as_git_does(tmp_path: Path, pattern: str) -> None:
    make(tmp_path, {".gitignore": pattern + "\n", "a": "", "[": "", "[a": "", "sub/a": "", "]": "", "!": ""})
    git(tmp_path, "init")
    assert {path for path in copied(tmp_path) if not path.startswith(".git/")} == of_git(tmp_path)


@pytest.mark.parametrize(
    "pattern",
    ["[[:alpha:]]", "[!a-c]", "[^a-c]x", "[]a]", "[a-]", "[\\]]", "[a\\-c]", "?", "??", "a[/]b", "[a-c-e]"],
)
def test_classes_as_git_does(tmp_path: Path, pattern: str) -> None:
    names = ["a", "b", "c", "d", "e", "-", "]", "\\", "1", "ü", "ax", "dx", "sub/a/b", "^x"]
    make(tmp_path, {".gitignore": pattern + "\n", **dict.fromkeys(names, "")})
    git(tmp_path, "init")
    assert {path for path in copied(tmp_path) if not path.startswith(".git/")} == of_git(tmp_path)
