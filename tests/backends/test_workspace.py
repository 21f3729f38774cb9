"""The files of this machine that a sandbox gets: made, and removed whatever was done to them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermes.backends._workspace import remove_trees


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A directory outside that nothing may touch."""
    folder = tmp_path / "canary"
    folder.mkdir()
    (folder / "file").write_text("alive")
    folder.chmod(0o755)
    return folder


def deep(top: Path, levels: int) -> None:
    """Make a tree whose paths no system call takes, with directories that nobody may enter."""
    top.mkdir()
    fd = os.open(top, os.O_RDONLY)
    for level in range(levels):
        os.mkdir("a" * 200, dir_fd=fd)
        inner = os.open("a" * 200, os.O_RDONLY, dir_fd=fd)
        if level % 50 == 0:
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=inner))
            os.mkdir("sibling", dir_fd=inner)
            os.mkdir("below", dir_fd=fd)
            os.fchmod(fd, 0)
        os.close(fd)
        fd = inner
    os.close(fd)


def test_a_tree_may_be_deeper_than_a_path_or_a_stack(tmp_path: Path) -> None:
    deep(tmp_path / "tree", 2500)
    assert remove_trees([tmp_path / "tree"]) == []
    assert not (tmp_path / "tree").exists()


def test_rights_that_were_taken_away_do_not_help(tmp_path: Path) -> None:
    top = tmp_path / "tree"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "file").touch()
    for path in (top / "a" / "b", top / "a", top):
        path.chmod(0)
    assert remove_trees([top, tmp_path / "none"]) == []
    assert not os.path.lexists(top)


def test_no_link_is_followed(tmp_path: Path, canary: Path) -> None:
    deep(tmp_path / "tree", 1200)
    (tmp_path / "tree").chmod(0o700)
    (tmp_path / "tree" / "link").symlink_to(canary)
    (tmp_path / "tree" / ("b" * 250)).symlink_to(canary / "file")
    assert remove_trees([tmp_path / "tree"]) == []
    assert (canary / "file").read_text() == "alive"
    assert canary.stat().st_mode & 0o777 == 0o755
