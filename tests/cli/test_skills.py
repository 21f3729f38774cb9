"""`hermes skills`: what a sandbox changed, and taking it over by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from _containers import IMAGES
from cli._tool import Cli


@pytest.fixture
def cli(hermes_home: Path) -> Iterator[Cli]:
    folder = hermes_home / "skills" / "one"
    folder.mkdir(parents=True)
    hermes_home.chmod(0o700)
    (folder / "SKILL.md").write_text("first\n")
    config = hermes_home / "config.yaml"
    config.write_text(f"sandbox: docker\ndocker: {{image: '{IMAGES['docker']}'}}\n")
    config.chmod(0o600)
    tool = Cli(hermes_home)
    yield tool
    tool.close()


@pytest.mark.docker_engine
def test_diff_and_pull(cli: Cli, hermes_home: Path) -> None:
    skill = hermes_home / "skills" / "one"
    cli("exec", "true")
    assert "has changed nothing." in cli.out("skills", "diff")
    cli("exec", "cd ~/.hermes/skills/one && echo better >SKILL.md && echo x >new && ln -s /etc/passwd link")
    said = cli.out("skills", "diff")
    assert "--- a/skills/one/SKILL.md\n+++ b/skills/one/SKILL.md\n" in said and "-first\n+better\n" in said
    assert cli.out("skills", "diff", "--name-only", "skills/one/new").split() == ["added", "skills/one/new"]
    found = json.loads(cli.out("skills", "diff", "--json"))["changes"]
    assert [one["path"].rpartition("/")[2] for one in found] == ["SKILL.md", "link", "new"]
    assert "Held back:\n  added     skills/one/link: it is a link\n" in cli.out("skills", "pull", "--dry-run")
    refused = cli("skills", "pull")  # nobody can be asked
    assert refused.returncode == 125 and (skill / "SKILL.md").read_text() == "first\n"
    assert "Brought here:" in cli.out("skills", "pull", "--yes", "skills/one/new")
    assert (skill / "new").read_text() == "x\n" and (skill / "SKILL.md").read_text() == "first\n"
    (skill / "SKILL.md").write_text("mine\n")
    clash = cli("skills", "pull", "--yes")
    assert clash.returncode == 125 and b"Changed on both sides" in clash.stdout
    cli("skills", "pull", "--yes", "--force")
    assert (skill / "SKILL.md").read_text() == "better\n"
    assert not (skill / "link").is_symlink()


def test_local_has_no_copies(cli: Cli) -> None:
    cli("exec", "--sandbox", "local", "true")
    done = cli("skills", "diff", "--sandbox", "local")
    assert done.returncode == 125
    assert b"use the skills and dotfiles of this machine itself" in done.stderr
