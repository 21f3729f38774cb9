"""The files of this machine that a sandbox gets: made, and removed whatever was done to them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermes.backends._workspace import copy_skills, remove_trees


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


@pytest.fixture
def skills(hermes_home: Path) -> Path:
    """Skills of the user, with links in and out."""
    folder = hermes_home / "skills"
    (folder / "one").mkdir(parents=True)
    (folder / "one" / "SKILL.md").write_text("one")
    (folder / "one" / "link").symlink_to("SKILL.md")
    (folder / "one" / "out").symlink_to("/etc/passwd")
    (hermes_home / ".env").write_text("secret")
    (folder / "env").symlink_to("../.env")
    return folder


def test_skills_are_copied_without_what_links_lead_to_elsewhere(skills: Path, tmp_path: Path) -> None:
    copy_skills(tmp_path / ".hermes" / "skills", os.geteuid(), os.getegid())
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir()}
    assert found == {".hermes/skills/one/SKILL.md", ".hermes/skills/one/link"}


def test_a_home_keeps_the_skills_it_has(skills: Path, tmp_path: Path) -> None:
    for _ in range(2):
        copy_skills(tmp_path / ".hermes" / "skills", os.geteuid(), os.getegid())
        (tmp_path / ".hermes" / "skills" / "one" / "SKILL.md").write_text("mine")
    assert (tmp_path / ".hermes" / "skills" / "one" / "SKILL.md").read_text() == "mine"


@pytest.mark.parametrize("trap", ["folder", "skills", "below", "file"])
def test_skills_are_not_copied_through_what_a_sandbox_left(
    skills: Path, tmp_path: Path, canary: Path, trap: str
) -> None:
    hostile = tmp_path / "home"
    hostile.mkdir()
    if trap == "folder":
        (hostile / ".hermes").symlink_to(canary)
    elif trap == "file":
        (hostile / ".hermes").write_text("")
    elif trap == "skills":
        (hostile / ".hermes").mkdir()
        (hostile / ".hermes" / "skills").symlink_to(canary)
    else:
        (hostile / ".hermes" / "skills").mkdir(parents=True)
        (hostile / ".hermes" / "skills" / "one").symlink_to(canary)
    copy_skills(hostile / ".hermes" / "skills", os.geteuid(), os.getegid())
    assert sorted(path.name for path in canary.iterdir()) == ["file"]
