"""What a sandbox made of its skills is only a claim: names, kinds and sizes that are not to come here."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import msgspec
import pytest

import hermes
from cli._tool import Cli
from hermes.config import Config
from hermes.travel import Travel

from .conftest import Open, keep

SIZE = 100_000


def settings(**more: object) -> Config:
    return msgspec.convert({"approvals": {"mode": "off"}, **more}, Config)


@pytest.fixture
def skill(hermes_home: Path) -> Path:
    """A skill of one file."""
    folder = hermes_home / "skills" / "one"
    folder.mkdir(parents=True)
    hermes_home.chmod(0o700)
    keep(folder / "SKILL.md", "first\n")
    return folder


async def made(box: hermes.Sandbox, command: str) -> Travel:
    """Let a command change the skill inside."""
    result = await box.run(f"cd ~/.hermes/skills/one && {command}")
    assert result.exit_code == 0, result
    return box.travel


def tree(folder: Path) -> list[str]:
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*"))


@pytest.mark.parametrize("place", ["docker", "jail"])
async def test_a_file_that_claims_to_be_huge_is_not_read(
    place: str, skill: Path, hermes_home: Path, open_in: Open
) -> None:
    """A sparse file has terabytes and costs nothing; its hash would take hours."""
    box = await open_in(place, config=settings())
    travel = await made(box, "truncate -s 4T huge SKILL.md; echo ok >good; sync")
    began = time.monotonic()
    found = {one.path: one async for one, _ in travel.diffs()}
    assert found["skills/one/huge"].size == 4 << 40
    assert found["skills/one/huge"].note == "it has more than 64 MiB (skills_max_file)"
    taken = await travel.pull(force=True)
    assert [one.path for one in taken.done] == ["skills/one/good"]
    assert {one.path for one in taken.held} == {"skills/one/huge", "skills/one/SKILL.md"}
    assert time.monotonic() - began < 20
    assert (skill / "SKILL.md").read_text() == "first\n"
    # What is sent before a command does not read it either, and leaves it as it is.
    await asyncio.to_thread(keep, skill / "SKILL.md", "second\n")
    box.travel._next = 0.0
    began = time.monotonic()
    with pytest.warns(UserWarning, match=r"SKILL.md was not brought inside.*: it changed there too"):
        await box.run("rm -f ~/.hermes/skills/one/huge")
    assert time.monotonic() - began < 20


async def test_all_together_are_bounded_and_what_is_named_counts_alone(skill: Path, open_in: Open) -> None:
    config = settings(skills_max_file=SIZE, skills_max_total=3 * SIZE)
    box = await open_in("docker", config=config)
    travel = await made(
        box, f"mkdir a b; for n in 1 2 3 4; do head -c {SIZE} /dev/zero >a/$n; done; echo ok >b/x"
    )
    taken = await travel.pull(dry_run=True)
    why = {one.path: one.note for one in taken.held}
    assert [path for path in why] == ["skills/one/a/3", "skills/one/a/4"]
    assert why["skills/one/a/3"] == f"with it there is more than {3 * SIZE} bytes (skills_max_total)"
    taken = await travel.pull("skills/one/a/4")
    assert [one.path for one in taken.done] == ["skills/one/a/4"] and not taken.held
    travel = await made(box, f"head -c {SIZE + 1} /dev/zero >b/x")
    taken = await travel.pull("skills/one/b")
    assert [(one.path, one.note) for one in taken.held] == [
        ("skills/one/b/x", f"it has more than {SIZE} bytes (skills_max_file)")
    ]


async def test_what_travels_there_keeps_to_the_same_limits(skill: Path, open_in: Open) -> None:
    keep(skill / "large", "x" * (SIZE + 1))
    with pytest.warns(UserWarning, match=r"large stays here: it has more than 100000 bytes"):
        box = await open_in("docker", config=settings(skills_max_file=SIZE))
    assert (await box.run("ls ~/.hermes/skills/one")).text == "SKILL.md\n"


@pytest.mark.parametrize("place", ["docker", "jail"])
async def test_strange_things_stay_there(
    place: str, skill: Path, hermes_home: Path, open_in: Open, tmp_path: Path
) -> None:
    box = await open_in(place, config=settings())
    travel = await made(
        box,
        r"""printf x >"$(printf 'line\nend')"; printf x >"$(printf 'esc\033[2Jape')"
        printf x >"$(printf 'bad\377')"; printf x >"$(printf 'turned\342\200\256txt.sh')"
        mkfifo fifo; mknod null c 1 3 2>/dev/null
        printf x >setuid; chmod 4755 setuid; printf x >setgid; chmod 2755 setgid; ln -s /etc/passwd out
        mkdir "$(printf 'dir\nend')"; printf x >"$(printf 'dir\nend')/inner"; ln -s . round
        printf x >good""",
    )
    before = tree(hermes_home / "skills")
    taken = await travel.pull(force=True)
    assert [one.path for one in taken.done] == ["skills/one/good"]
    assert not taken.failed and not taken.conflicts
    why = {one.path.removeprefix("skills/one/"): one.note for one in taken.held}
    strange = "its name has signs that cannot be shown"
    for name in ("line\nend", "esc\x1b[2Jape", "bad\udcff", "turned\u202etxt.sh", "dir\nend/inner"):
        assert why.pop(name) == strange
    for name in ("setuid", "setgid"):
        assert why.pop(name) == "it would run with another user's rights"
    for name in ("out", "round"):
        assert why.pop(name) == "it is a link"
    why.pop("null", None)  # not everybody may make one
    assert why == {"fifo": "it is no file, directory or link, cannot be read, or is too large to be compared"}
    assert tree(hermes_home / "skills") == sorted([*before, "one/good"])


async def test_nothing_is_written_through_a_link_that_is_here(
    skill: Path, open_in: Open, tmp_path: Path
) -> None:
    """A directory of this machine's own that lies in the skills by a link is not written to."""
    (tmp_path / "mine").mkdir()
    (skill / "sub").symlink_to(tmp_path / "mine")
    with pytest.warns(UserWarning, match="a link that leads out"):
        box = await open_in("docker", config=settings())
    travel = await made(box, "mkdir sub && echo evil >sub/x && echo ok >good")
    taken = await travel.pull()
    assert [one.path for one in taken.done] == ["skills/one/good"]
    assert [one.note for one in taken.failed] == ["a link or a file is in the way"]
    assert os.listdir(tmp_path / "mine") == []


def test_names_are_escaped_for_people_and_whole_for_programs(hermes_home: Path, skill: Path) -> None:
    keep(hermes_home / "config.yaml", "docker: {image: 'hermes-test:bookworm'}\nworkspace: private\n")
    with_tool = Cli(hermes_home)
    place = ("--sandbox", "docker")
    try:
        command = r"""printf x >~/.hermes/skills/one/"$(printf 'esc\033[31mape\ny')" """
        with_tool("exec", *place, command)
        done = with_tool("skills", "diff", *place, "--name-only")
        assert rb"esc\x1b[31mape\ny" in done.stdout and b"\x1b" not in done.stdout
        done = with_tool("skills", "diff", *place)
        assert rb'"b/skills/one/esc\033[31mape\012y"' in done.stdout
        done = with_tool("skills", "pull", *place, "--yes")
        assert rb"esc\x1b[31mape\ny: its name has signs that cannot be shown" in done.stdout
        assert b"\x1b" not in done.stdout + done.stderr
        assert tree(skill) == ["SKILL.md"]
        with_tool("sandbox", "rm", *place, "--yes")
    finally:
        with_tool.close()
