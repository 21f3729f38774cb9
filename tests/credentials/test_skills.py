"""Skills and dotfiles: copies in the home of each place, fresh as here, and back only by hand."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import hermes
from _containers import PLACES
from _emulators import emulated
from hermes.config import Config
from hermes.travel import Travel, lay_out, trees
from hermes.travel._here import look

from .conftest import Open

COPIED = (*PLACES, "singularity", "ssh", "jail")


def settings(**more: Any) -> Config:
    return msgspec.convert({"approvals": {"mode": "off"}, **more}, Config)


@pytest.fixture(params=COPIED)
def place(request: pytest.FixtureRequest) -> str:
    """A place whose home is another than this user's."""
    return str(request.param)


@pytest.fixture
def skill(hermes_home: Path) -> Iterator[str]:
    """The name of a skill that nobody else has: places may have one home for all their sandboxes."""
    name = f"s{secrets.token_hex(6)}"
    folder = hermes_home / "skills" / name
    folder.mkdir(parents=True)
    hermes_home.chmod(0o700)
    (folder / "SKILL.md").write_text("first\n")
    (folder / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (folder / "run.sh").chmod(0o755)
    (hermes_home / "dotfiles" / ".config" / name).mkdir(parents=True)
    (hermes_home / "dotfiles" / f".{name}").write_text("dot\n")
    (hermes_home / "dotfiles" / ".config" / name / "rc").write_text("deep\n")
    yield name


@pytest.fixture(autouse=True)
async def swept(open_in: Open, skill: str, request: pytest.FixtureRequest) -> Any:
    """On another machine copies stay: what a test made there goes with it."""
    yield
    if "ssh" in request.node.name:
        box = await open_in("ssh", config=settings(skills="off"))
        shutil.rmtree(Path(os.environ["HERMES_HOME"]) / "dotfiles", ignore_errors=True)
        await box.run(f"rm -rf ~/.hermes/skills/{skill} ~/.{skill} ~/.config/{skill} ~/.hermes/.sent-*.json")
        await box.run("rmdir ~/.hermes/skills ~/.hermes ~/.config 2>/dev/null")


async def text(box: hermes.Sandbox, command: str) -> str:
    result = await box.run(command)
    assert result.exit_code == 0, (command, result)
    return result.text.strip()


async def wrote(path: Path, content: str) -> None:
    await asyncio.to_thread(path.write_text, content)


async def looked(box: hermes.Sandbox) -> Travel:
    """Let the next command look whatever the time."""
    box.travel._next = 0.0
    return box.travel


async def test_they_are_there_writable_and_stay_fresh(
    place: str, skill: str, hermes_home: Path, open_in: Open
) -> None:
    box = await open_in(place, config=settings())
    folder, here = f"~/.hermes/skills/{skill}", hermes_home / "skills" / skill
    assert await text(box, f"cat {folder}/SKILL.md ~/.{skill} ~/.config/{skill}/rc") == "first\ndot\ndeep"
    assert await text(box, f"{folder}/run.sh") == "ran"
    assert (
        await text(box, f"echo mine >>{folder}/run.sh && echo more >{folder}/new && cat {folder}/new")
        == "more"
    )
    await wrote(here / "SKILL.md", "second\n")
    await wrote(here / "later", "later\n")
    await asyncio.to_thread((hermes_home / "dotfiles" / f".{skill}").unlink)
    await looked(box)
    assert await text(box, f"cat {folder}/SKILL.md {folder}/later") == "second\nlater"
    assert (
        await text(box, f"tail -1 {folder}/run.sh; ls ~/.{skill} 2>/dev/null; ls ~/.config/{skill}")
        == "mine\nrc"
    )
    assert (here / "run.sh").read_text().endswith("ran\n")
    assert not (here / "new").exists()
    await asyncio.to_thread(shutil.rmtree, here)
    await looked(box)
    assert await text(box, f"ls {folder}") == "new\nrun.sh"  # what was changed there stays


async def test_the_next_client_sends_nothing(
    place: str, skill: str, hermes_home: Path, open_in: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await open_in(place, name=skill, config=settings())
    await one.run("true")

    async def fail(*_: Any) -> None:
        raise AssertionError("something was sent, or asked for")

    with monkeypatch.context() as patch:
        patch.setattr("hermes.travel._push.push", fail)
        other = await open_in(place, name=skill, config=settings())
        assert await text(other, f"cat ~/.hermes/skills/{skill}/SKILL.md") == "first"
    # A guest that was started anew has no notes; what is there is compared, and nothing of it sent.
    await other._channel.call("note", {"key": other.travel.mark, "text": ""})
    other.travel.stamp = ""

    with monkeypatch.context() as patch:
        patch.setattr("hermes.travel._push._send", fail)
        await looked(other)
        assert await text(other, f"cat ~/.hermes/skills/{skill}/SKILL.md") == "first"
    assert other.travel.stamp


async def test_what_changed_on_both_sides_is_left_alone(skill: str, hermes_home: Path, open_in: Open) -> None:
    box = await open_in("docker", config=settings())
    path = f"~/.hermes/skills/{skill}/SKILL.md"
    await text(box, f"echo theirs >{path}")
    await wrote(hermes_home / "skills" / skill / "SKILL.md", "mine\n")
    await looked(box)
    with pytest.warns(UserWarning, match=r"SKILL.md was not brought inside.*: it changed there too"):
        assert await text(box, f"cat {path}") == "theirs"
    await looked(box)
    assert await text(box, f"cat {path}") == "theirs"  # told of once
    plan = await box.travel.pull(dry_run=True)
    assert [one.path for one in plan.conflicts] == [f"skills/{skill}/SKILL.md"]
    plan = await box.travel.pull(force=True)
    assert [one.path for one in plan.done] == [f"skills/{skill}/SKILL.md"]
    assert (hermes_home / "skills" / skill / "SKILL.md").read_text() == "theirs\n"


async def test_what_was_there_already_is_not_touched(skill: str, hermes_home: Path, open_in: Open) -> None:
    bare = await open_in("ssh", config=settings(skills="off"), name=skill)
    home = bare.travel.home
    await asyncio.to_thread(shutil.rmtree, hermes_home / "skills")
    # It went there with the opening: as if it were the machine's own, without a note.
    await bare.run(f"echo theirs >~/.{skill}; ln -sf /nowhere ~/.config/{skill}/rc; rm ~/.hermes/.sent-*")
    bare.travel.stamp = ""
    await looked(bare)
    with pytest.warns(
        UserWarning, match=rf"\.{skill} was not brought inside.*; so it is with 1 more|rc was not"
    ):
        assert await text(bare, f"cat {home}/.{skill}; readlink ~/.config/{skill}/rc") == "theirs\n/nowhere"


async def test_a_home_that_was_put_back_gets_what_it_lacks(
    skill: str, hermes_home: Path, open_in: Open
) -> None:
    """As after a snapshot that is older than the newest skill: the note is as old as the files."""
    box = await open_in("docker", config=settings())
    await text(box, "cp -a ~/.hermes /tmp/old")
    await wrote(hermes_home / "skills" / skill / "SKILL.md", "second\n")
    await wrote(hermes_home / "skills" / skill / "late", "late\n")
    await looked(box)
    assert await text(box, f"cat ~/.hermes/skills/{skill}/late") == "late"
    await text(box, "rm -rf ~/.hermes && cp -a /tmp/old ~/.hermes")
    box.travel.stamp = ""  # a guest that begins anew knows nothing
    await looked(box)
    assert await text(box, f"cd ~/.hermes/skills/{skill} && cat SKILL.md late") == "second\nlate"
    await text(box, "rm -rf ~/.hermes")
    box.travel.stamp = ""
    await looked(box)
    assert await text(box, f"cd ~/.hermes/skills/{skill} && cat SKILL.md late") == "second\nlate"


@pytest.mark.parametrize("trap", [".hermes", ".hermes/skills", "skill"])
async def test_nothing_is_written_through_a_link(
    skill: str, hermes_home: Path, open_in: Open, trap: str
) -> None:
    box = await open_in("docker", config=settings(skills="off"))
    at = f".hermes/skills/{skill}" if trap == "skill" else trap
    await text(box, f"rm -rf ~/.hermes; mkdir -p ~/$(dirname {at}) /tmp/canary && ln -s /tmp/canary ~/{at}")
    box._settled, box._travel = settings(), None
    with pytest.warns(UserWarning, match="brought inside"):
        await looked(box)
        await box.run("true")
    assert await text(box, "ls -A /tmp/canary") == ""


async def test_diff_and_pull(place: str, skill: str, hermes_home: Path, open_in: Open) -> None:
    box = await open_in(place, config=settings())
    here = hermes_home / "skills" / skill
    assert [one async for one in box.travel.diffs(f"skills/{skill}")] == []
    await text(
        box,
        f"cd ~/.hermes/skills/{skill} && echo better >SKILL.md && rm run.sh && mkdir sub && echo n >sub/new"
        f" && ln -s /etc/passwd link && echo changed >~/.{skill} && touch ~/.{skill}-other",
    )
    found = {change.path: (change.what, shown) async for change, shown in box.travel.diffs()}
    found = {path: one for path, one in found.items() if skill in path}
    assert {path: what for path, (what, _) in found.items()} == {
        f"skills/{skill}/SKILL.md": "changed",
        f"skills/{skill}/run.sh": "deleted",
        f"skills/{skill}/sub/new": "added",
        f"skills/{skill}/link": "added",
        f"dotfiles/.{skill}": "changed",
    }
    assert "-first\n+better\n" in found[f"skills/{skill}/SKILL.md"][1]
    assert (here / "SKILL.md").read_text() == "first\n"
    refused = await box.travel.pull(f"skills/{skill}", agree=lambda plan: False)
    assert len(refused.done) == 3 and (here / "SKILL.md").read_text() == "first\n"
    taken = await box.travel.pull(f"skills/{skill}", f"dotfiles/.{skill}")
    assert [one.path.rpartition("/")[2] for one in taken.held] == ["link"]
    assert not taken.failed and len(taken.done) == 4
    assert (here / "SKILL.md").read_text() == "better\n"
    assert (here / "sub" / "new").read_text() == "n\n"
    assert not (here / "run.sh").exists() and not os.path.lexists(here / "link")
    assert (hermes_home / "dotfiles" / f".{skill}").read_text() == "changed\n"
    await looked(box)
    assert await text(box, f"cat ~/.hermes/skills/{skill}/SKILL.md") == "better"
    assert [c.path async for c, _ in box.travel.diffs(f"skills/{skill}")] == [f"skills/{skill}/link"]


async def test_files_of_this_users_home_may_be_listed(
    tmp_path: Path, skill: str, open_in: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "elsewhere").write_text("[alias]\n")
    (tmp_path / ".gitconfig").symlink_to("elsewhere")
    (tmp_path / ".config" / "tool").mkdir(parents=True)
    (tmp_path / ".config" / "tool" / "rc").write_text("rc\n")
    box = await open_in("docker", config=settings(dotfiles=[".gitconfig", "~/.config/tool"]))
    assert await text(box, "cat ~/.gitconfig ~/.config/tool/rc") == "[alias]\nrc"
    assert await text(box, "ls -A ~ | grep -c elsewhere; true") == "0"
    await text(box, "echo worse >~/.gitconfig")
    plan = await box.travel.pull()
    assert [one.path for one in plan.held] == ["~/.gitconfig"] and plan.done == []


@pytest.mark.parametrize("path", ["/etc/passwd", "~", "..", ".", "a/../.."])
async def test_what_is_none_of_the_users_home_is_refused(
    path: str, open_in: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(hermes.ConfigError, match=r"is not a file or a directory of .*nothing was started"):
        await open_in("docker", config=settings(dotfiles=[path]))


async def test_shared_skills_are_refused_where_they_cannot_be_shown(open_in: Open) -> None:
    with pytest.raises(hermes.UnsupportedError, match="cannot do skills: shared"):
        await open_in("ssh", config=settings(skills="shared"))


async def test_local_sees_those_that_are_here(open_in: Open, skill: str, tmp_path: Path) -> None:
    box = await open_in("local", env={"HOME": str(tmp_path)}, config=settings())
    await text(box, "true")
    assert list(tmp_path.iterdir()) == []


async def test_too_many_are_not_brought(open_in: Open, skill: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.travel._here.MAX_FILES", 2)
    with pytest.warns(UserWarning, match="could not be brought inside: .* more than 2 files"):
        box = await open_in("docker", config=settings())
        assert await text(box, "ls -A ~/.hermes 2>/dev/null; true") == ""
    await looked(box)
    await box.run("true")  # told of once
    monkeypatch.undo()
    await looked(box)
    assert await text(box, f"cat ~/.hermes/skills/{skill}/SKILL.md") == "first"


def test_links_that_lead_out_stay_here(skill: str, hermes_home: Path, tmp_path: Path) -> None:
    folder = hermes_home / "skills" / skill
    (folder / "link").symlink_to("SKILL.md")
    (folder / "out").symlink_to("/etc/passwd")
    (hermes_home / ".env").write_text("secret")
    (hermes_home / "skills" / "env").symlink_to("../.env")
    (folder / "round").symlink_to(".")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("")
    os.mkfifo(folder / "fifo")
    some = trees(settings())[:2]
    found = look(some)
    paths = {tree.target(path) for tree, files in found.files.items() for path in files}
    expected = {
        *(f".hermes/skills/{skill}/{name}" for name in ("SKILL.md", "run.sh", "link")),
        *(f".{skill}", f".config/{skill}/rc"),
    }
    assert paths == expected
    assert {Path(path).name for path in found.left} == {"out", "env", "fifo"}
    lay_out(some, tmp_path / "home")
    copied = {
        str(one.relative_to(tmp_path / "home")) for one in (tmp_path / "home").rglob("*") if one.is_file()
    }
    assert copied == expected


def test_any_change_has_another_stamp(skill: str, hermes_home: Path) -> None:
    some = trees(settings())
    stamps = {look(some).stamp}
    path = hermes_home / "skills" / skill / "SKILL.md"
    path.write_text("other\n")
    stamps.add(look(some).stamp)
    path.chmod(0o755)
    stamps.add(look(some).stamp)
    path.rename(path.with_name("x"))
    stamps.add(look(some).stamp)
    assert len(stamps) == 4 and look(some).stamp in stamps


async def test_one_that_slept_gets_what_is_new(
    skill: str, hermes_home: Path, open_in: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place whose files are put back from a snapshot; credentials are in none."""
    pytest.importorskip("modal")
    (hermes_home / "credentials").mkdir(0o700)
    (hermes_home / "credentials" / "token").write_text("secret-of-the-sandbox")
    (hermes_home / "credentials" / "token").chmod(0o600)
    search = "grep -rl --exclude-dir=proc --exclude-dir=sys secret-of-the-sand''box ~ /tmp /var /run /dev/shm"
    with emulated("modal") as running:
        running.use(monkeypatch)
        config = settings(credentials={"redact": "off"})
        box = await open_in("modal", name=skill, workspace="private", config=config)
        path = f"~/.hermes/skills/{skill}"
        assert await text(box, f"cat {path}/SKILL.md ~/.{skill}") == "first\ndot"
        assert await text(box, "cat $HERMES_CREDENTIALS/token") == "secret-of-the-sandbox"
        await text(box, f"echo learned >{path}/learned")
        await box.suspend()
        await wrote(hermes_home / "skills" / skill / "SKILL.md", "second\n")
        await asyncio.to_thread((hermes_home / "credentials" / "token").unlink)
        await box.resume()
        assert await text(box, f"cat {path}/SKILL.md {path}/learned ~/.{skill}") == "second\nlearned\ndot"
        assert await text(box, f"{search} 2>/dev/null; true") == ""
        await box.destroy()
