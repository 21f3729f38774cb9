"""What changed inside and here since the copy: told, shown as text, taken over by hand."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from _state import sql
from hermes import Change, Outcome, Sandbox
from hermes.errors import FileError, HermesError, Refused
from workspace.conftest import below, git, make

KINDS = ["local-copy", "local-copy-relay", "local-copy-text"]
here = asyncio.to_thread


def short(changes: list[Change]) -> list[tuple[str, str]]:
    return [(one.what, one.path) for one in changes]


def notes(changes: list[Change]) -> dict[str, str]:
    return {one.path: one.note for one in changes}


WORK = """
echo more >>README.md; sed -i 's/print(2)/print(22)/' src/main.py; rm run.sh; mkdir -p new/deep
echo n >new/deep/file; chmod +x README.md; ln -sf README.md link; echo o >build.o; mkdir build
echo i >build/x
"""


@pytest.mark.parametrize("box", KINDS, indirect=True)
async def test_there_and_back(box: Sandbox, project: Path) -> None:
    assert await box.workspace.status() == await box.workspace.status("src")
    await box.run(WORK)
    status = await box.workspace.status()
    assert short(status.inside) == [
        ("changed", "README.md"),
        ("added", "build.o"),
        ("changed", "link"),
        ("added", "new/deep/file"),
        ("deleted", "run.sh"),
        ("changed", "src/main.py"),
    ]
    assert status.here == []
    done = await box.workspace.pull()
    assert sorted(short(done.done)) == sorted(short(status.inside))
    assert (done.conflicts, done.held, done.failed) == ([], [], [])

    def check() -> None:
        assert (project / "README.md").read_text() == "hello\nmore\n"
        assert (project / "README.md").stat().st_mode & 0o777 == 0o755
        assert "print(22)" in (project / "src/main.py").read_text()
        assert os.readlink(project / "link") == "README.md"
        assert not (project / "run.sh").exists()
        assert (project / "new/deep/file").read_text() == "n\n"
        assert (project / "build/out.o").read_text() == "ignored" and not (project / "build/x").exists()
        assert (project / ".env").exists()
        assert not [name for name in below(project) if ".hermes-" in name]

    await here(check)
    after = await box.workspace.status()
    assert (after.inside, after.here) == ([], [])
    assert await box.workspace.diff() == ""


async def test_some_paths(box: Sandbox, project: Path) -> None:
    await box.run(WORK)
    assert short((await box.workspace.status("src", "new/deep")).inside) == [
        ("added", "new/deep/file"),
        ("changed", "src/main.py"),
    ]
    done = await box.workspace.pull(str(project / "src"), "./new/../run.sh")
    assert sorted(short(done.done)) == [("changed", "src/main.py"), ("deleted", "run.sh")]
    assert await here((project / "README.md").read_text) == "hello\n"
    for path in ("..", "../x", "/etc", f"{project}2"):
        with pytest.raises(FileError, match="is not in"):
            await box.workspace.pull(path)


async def test_dry_run_and_a_no(box: Sandbox, project: Path) -> None:
    await box.run(WORK)
    before = await here(below, project)
    plan = await box.workspace.pull(dry_run=True)
    asked: list[Outcome] = []

    async def refuse(outcome: Outcome) -> bool:
        asked.append(outcome)
        return False

    again = await box.workspace.pull(agree=refuse)
    assert short(plan.done) == short(again.done) == short(asked[0].done)
    assert len(plan.done) == 6 and plan.bytes > 0
    assert await here(below, project) == before
    truthy: Callable[[Outcome], Any] = lambda outcome: "yes"  # noqa: E731
    await box.workspace.pull(agree=truthy)
    assert await here(below, project) == before, "only True is a yes"


@pytest.mark.parametrize("box", KINDS, indirect=True)
async def test_conflicts(box: Sandbox, project: Path) -> None:
    """What changed on both sides is left as it is on either, unless forced."""
    await box.run("echo inside >README.md; rm src/main.py; echo inside >both; rm run.sh; echo alike >alike")
    make(project, {"README.md": "here\n", "src/main.py": "here\n", "both": "here\n", "alike": "alike\n"})
    await here((project / "run.sh").unlink)
    status = await box.workspace.status()
    assert notes(status.inside) == {
        "README.md": "it changed here too",
        "alike": "",
        "both": "it changed here too",
        "run.sh": "",
        "src/main.py": "it changed here too",
    }
    done = await box.workspace.pull()
    assert sorted(short(done.conflicts)) == [
        ("changed", "README.md"),
        ("changed", "both"),
        ("deleted", "src/main.py"),
    ]
    assert done.done == []
    assert await here((project / "README.md").read_text) == "here\n"
    text = await box.workspace.diff("README.md")
    assert text.startswith("the file here changed too") and "-here\n+inside\n" in text
    pushed = await box.workspace.push()
    assert sorted(notes(pushed.conflicts)) == ["README.md", "both", "src/main.py"]
    assert pushed.done == []
    forced = await box.workspace.pull(force=True)
    assert len(forced.done) == 3
    assert await here((project / "README.md").read_text) == "inside\n"
    assert not (project / "src/main.py").exists()
    assert (await box.workspace.status()).inside == []


@pytest.mark.parametrize("box", KINDS, indirect=True)
async def test_push(box: Sandbox, project: Path) -> None:
    def work() -> None:
        make(
            project, {"README.md": "new\n", "x/y/z": "z", "big": b"b" * (5 << 20), "build/more.o": "ignored"}
        )
        (project / "src/main.py").unlink()
        (project / "run.sh").chmod(0o644)
        (project / "l2").symlink_to("x/y")

    await here(work)
    status = await box.workspace.status()
    assert short(status.here) == [
        ("changed", "README.md"),
        ("added", "big"),
        ("added", "l2"),
        ("changed", "run.sh"),
        ("deleted", "src/main.py"),
        ("added", "x/y/z"),
    ]
    assert short((await box.workspace.push(dry_run=True)).done) == short(status.here)
    lines: list[str] = []
    done = await box.workspace.push(on_progress=lines.append)
    assert short(done.done) == short(status.here) and done.failed == []
    assert lines
    result = await box.run("cat README.md l2/z; stat -c %a run.sh; ls src build; wc -c <big")
    assert "new\nz644\n" in result.text and str(5 << 20) in result.text
    assert "main.py" not in result.text and "more.o" not in result.text
    after = await box.workspace.status()
    assert (after.inside, after.here) == ([], [])


async def test_diff_is_one_that_patch_takes(box: Sandbox, project: Path, tmp_path: Path) -> None:
    lines = [f"line {n}\n" for n in range(200)]
    make(project, {"long": "".join(lines), "tail": "no newline", "gone": "bye\n", "nl": "a\x0bb\nc\r\nd\n"})
    await box.workspace.push()
    lines[3:5] = ["three\n"]
    lines[100] = "hundred\n"
    lines[104] = "near\n"
    lines.append("end\n")
    await box.files.write("long", "".join(lines))
    await box.files.write("tail", "no newline, still")
    await box.files.write("fresh", "one\ntwo\n")
    await box.files.write("nl", "a\x0bB\nc\r\nd\n")
    await box.run("rm gone; printf '\\0' >>src/deep/er/x.bin; chmod +x README.md; ln -sf nowhere link; >void")
    text = await box.workspace.diff()
    assert "Binary files a/src/deep/er/x.bin and b/src/deep/er/x.bin differ (3000 bytes, now 3001)" in text
    assert "diff a/README.md b/README.md\nold mode 100644\nnew mode 100755\n" in text
    assert "-src/main.py" in text and "+nowhere" in text
    copy = tmp_path / "copy"
    plain = await box.workspace.diff("long", "tail", "gone", "fresh", "nl")

    def check() -> None:
        copy.mkdir()
        for name in ("long", "tail", "gone", "nl"):
            (copy / name).write_bytes((project / name).read_bytes())
        subprocess.run(["git", "apply", "-"], cwd=copy, input=plain.encode(), check=True)
        inside = Path(box.workspace.path)
        assert sorted(os.listdir(copy)) == ["fresh", "long", "nl", "tail"]
        for name in os.listdir(copy):
            assert (copy / name).read_bytes() == (inside / name).read_bytes(), name

    await here(check)


async def test_a_name_cannot_be_taken_for_a_line_of_the_diff(box: Sandbox, tmp_path: Path) -> None:
    await box.workspace.push()
    names = ("x\n--- /dev/null\n+++ b/victim", "e\x1b[2Jsc", 'a"b\\', "ä")
    for name in names:
        await box.files.write(name, "evil\n")
    text = await box.workspace.diff()
    assert "\x1b" not in text
    (tmp_path / "copy").mkdir()

    def check() -> None:
        subprocess.run(["git", "apply", "-"], cwd=tmp_path / "copy", input=text.encode(), check=True)
        found = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*")}
        assert "victim" not in found
        assert set(names) <= found

    await here(check)


async def test_pull_of_much(box: Sandbox, project: Path) -> None:
    await box.run(
        "mkdir many; for n in $(seq 1200); do echo $n >many/$n; done; head -c 9000000 /dev/urandom >b"
    )
    told: list[tuple[int, int | None]] = []
    done = await box.workspace.pull(on_progress=lambda n, total, _: told.append((n, total)))
    assert len(done.done) == 1201 and not done.failed
    assert told[-1][0] == told[-1][1] == done.bytes
    assert await here((project / "many/1200").read_text) == "1200\n"
    assert await here((project / "b").read_bytes) == await here((Path(box.workspace.path) / "b").read_bytes)


async def test_files_and_directories_change_places(box: Sandbox, project: Path) -> None:
    await box.run("rm README.md; mkdir README.md; echo x >README.md/in; rm -r src; echo file >src")
    done = await box.workspace.pull()
    assert done.failed == []
    assert await here((project / "README.md/in").read_text) == "x\n"
    assert await here((project / "src").read_text) == "file\n"
    assert (await box.workspace.status()).inside == []


async def test_a_directory_with_files_of_ours_is_kept(box: Sandbox, project: Path) -> None:
    make(project, {"build/src": "", "src/keep.me": "mine"})
    await box.run("rm -r src; echo file >src")
    done = await box.workspace.pull()
    assert notes(done.failed) == {"src": "it changed here meanwhile, or a directory is in the way"}
    assert await here((project / "src/keep.me").read_text) == "mine"


async def test_commits_come_back(project: Path) -> None:
    await here(lambda: [git(project, "init"), git(project, "add", "."), git(project, "commit", "-qm", "one")])
    async with Sandbox("local-copy", workspace=str(project), approval="off") as box:
        assert (await box.run("git status --porcelain")).text == ""
        await box.run(
            "echo more >>README.md; git -c user.name=a -c user.email=a@b commit -qam two; git gc -q;"
            "git config core.pager evil; echo evil >.git/hooks/post-checkout; git branch topic"
        )
        text = await box.workspace.diff()
        assert "git's own data: " in text and "+more" in text and ".git/" not in text
        done = await box.workspace.pull()
        assert done.failed == []
        held = notes(done.held)
        assert {".git/config", ".git/hooks/post-checkout"} <= set(held)
        log = await here(git, project, "log", "--format=%s", "--all")
        assert log == "two\none\n"
        assert "topic" in await here(git, project, "branch")
        assert await here(git, project, "status", "--porcelain") == ""
        assert await here(git, project, "fsck") == ""


async def test_what_was_copied_is_forgotten(box: Sandbox, hermes_home: Path) -> None:
    await here(sql, hermes_home, "DELETE FROM manifests")
    with pytest.raises(HermesError, match="not known any more"):
        await box.workspace.pull()


async def test_approval_is_asked_for_a_push(project: Path) -> None:
    from hermes import Decision, Request

    class Strict:
        name = "strict"

        def judge(self, request: Request, state: object = None) -> Decision:
            return Decision(action="block" if request.kind == "write" else "allow", reason="no")

    async with Sandbox("local-copy", workspace=str(project), judge=Strict()) as box:
        make(project, {"README.md": "new"})
        with pytest.raises(Refused):
            await box.workspace.push()
        assert await box.files.read("README.md") == b"hello\n"


@pytest.mark.parametrize("box", ["local-copy"], indirect=True)
async def test_files_with_holes_are_not_read_for_hours(box: Sandbox, project: Path) -> None:
    """On either side: what is larger than can be compared is told, and the rest is compared all the same."""

    def holes(path: Path) -> None:
        with open(path, "wb") as file:
            file.truncate(4 << 40)

    await box.run("truncate -s 4T README.md; truncate -s 4T new; truncate -s 4T both; echo x >>src/main.py")
    await here(holes, project / "both")
    await here(holes, project / "own")
    async with asyncio.timeout(20):
        found = await box.workspace.status()
        assert ("changed", "README.md") in short(found.inside)
        assert ("changed", "src/main.py") in short(found.inside)
        outcome = await box.workspace.pull()
        texts = [text async for _, text in box.workspace.diffs("src", "README.md")]
    assert short(outcome.done) == [("changed", "src/main.py")]
    told = {**notes(outcome.failed), **notes(outcome.held), **notes(outcome.conflicts)}
    assert "too large to be compared" in told["README.md"]
    assert "too large to be compared" in told["new"]
    assert any("main.py" in text for text in texts) or outcome.done
    async with asyncio.timeout(20):
        await box.workspace.push()
        async with Sandbox("local-copy", workspace=str(project), approval="off") as other:
            assert not await other.files.exists("own")
