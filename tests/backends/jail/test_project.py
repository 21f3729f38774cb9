"""A directory of this machine as the workspace: what git follows, what appears, what is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import warnings
from pathlib import Path

import pytest

import hermes
from hermes.testing.tools import eventually, out

from .conftest import Open
from .test_breakout import python

IDENTITY = {
    f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}


def git(folder: Path, *words: str) -> str:
    env = {**os.environ, **IDENTITY}
    done = subprocess.run(["git", *words], cwd=folder, env=env, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose settings lead to files of its own, some of which are not there."""
    path = tmp_path / "project"
    path.mkdir()
    git(path, "init", "-q", ".")
    for name in ("tools/hook", "tools/pager", "common/settings", "near/file"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text("# harmless\n")
    (path / ".git" / "hooks" / "post-commit").symlink_to("../../tools/hook")
    git(path, "config", "include.path", "../common/settings")
    git(path, "config", "--add", "include.path", "../not/yet")
    git(path, "config", "core.hooksPath", "own/hooks")
    git(path, "config", "alias.look", "!sh tools/pager --now")
    git(path, "init", "-q", "near")
    git(path / "near", "commit", "-qm", "empty", "--allow-empty")
    git(path, "init", "-q", "deep/below")
    git(path / "deep/below", "commit", "-qm", "empty", "--allow-empty")
    git(path, "add", ".")
    git(path, "commit", "-qm", "message", "--no-verify")
    return path


def files(path: Path) -> list[str]:
    return sorted(
        str(one.relative_to(path))
        for one in path.glob("**/*")
        if "/objects/" not in str(one) and "logs" not in str(one)
    )


def box_of(project: Path, **options: object) -> dict[str, object]:
    return {"workspace": str(project), "network": "off", **options}


def rename(path: str) -> str:
    """By itself: ``mv`` would copy what it cannot rename."""
    return python(f"import os\nos.rename({path!r}, 'other')")


ATTEMPTS = {
    "another common directory": "mkdir evil; echo ../evil >.git/commondir",
    "move one over": "echo ../evil >new; mv -f new .git/commondir",
    "remove and make": "rm -f .git/commondir; echo ../evil >.git/commondir; grep evil .git/commondir",
    "settings of the worktree": "echo evil >.git/config.worktree",
    "attributes": "echo '* filter=evil' >>.git/info/attributes",
    "included settings": "echo evil >>common/settings",
    "rename around included settings": rename("common"),
    "settings to be included": "mkdir -p not; echo evil >not/yet",
    "rename around these": rename("not"),
    "a hook where they are wanted": "mkdir -p own/hooks; echo evil >own/hooks/pre-commit",
    "rename around the hooks": rename("own"),
    "what a hook leads to": "echo evil >>tools/hook",
    "what a setting runs": "echo evil >>tools/pager",
    "a repository near the top": "echo evil >>near/.git/config",
    "its common directory": "echo evil >near/.git/commondir",
    "its hooks": "echo evil >near/.git/hooks/post-commit",
    "exchange it": rename("near/.git"),
    "exchange what is around it": rename("near"),
    "a repository that git looks into": "echo evil >>deep/below/.git/config",
    "a file in its place": rename("deep/below/.git"),
    "exchange above it": rename("deep"),
    "a link to the common directory": "ln -sf evil .git/commondir",
    "a directory in its place": python("import os\nos.unlink('.git/commondir'); os.mkdir('.git/commondir')"),
}


async def test_what_git_follows_stays(open_box: Open, project: Path) -> None:
    before = await asyncio.to_thread(files, project)
    box = await open_box(**box_of(project))
    during = await asyncio.to_thread(git, project, "status", "--short")
    held = {one: await asyncio.to_thread((project / one).read_bytes) for one in ("tools/hook", ".git/config")}
    for name, attempt in ATTEMPTS.items():
        result = await box.exec(f"{attempt}", timeout=20)
        assert result.exit_code != 0, (name, result)
        assert b"SyntaxError" not in result.stderr
    for one, content in held.items():
        assert await asyncio.to_thread((project / one).read_bytes) == content
    await box.exec("rm -rf new evil")
    assert during == await asyncio.to_thread(git, project, "status", "--short")
    await box.destroy()

    async def as_before() -> bool:
        try:
            return await asyncio.to_thread(files, project) == before
        except FileNotFoundError:  # it is being taken away at this moment
            return False

    await eventually(as_before, 5.0)


async def test_it_is_worked_with(open_box: Open, project: Path) -> None:
    """Inside, and here at the same time."""
    variables = " ".join(f"{name}={value}" for name, value in IDENTITY.items())
    box = await open_box(**box_of(project))
    await out(box, f"export {variables}; echo x >new && git add new && git commit -qm inside")
    await out(box, "git checkout -q -b side && git stash list && git worktree list && git fsck")
    await out(box, f"export {variables}; git checkout -q - && git merge -q side")
    await asyncio.to_thread(git, project, "commit", "-qm", "here", "--allow-empty", "--no-verify")
    assert (await out(box, "git log --format=%s")).split() == ["here", "inside", "message"]
    assert await asyncio.to_thread(git, project, "status", "--short", "-uno") == ""


async def test_jails_share_a_project(open_box: Open, project: Path) -> None:
    """What one has put there stays for the other."""
    one, other = await open_box(**box_of(project)), await open_box(**box_of(project))
    await one.destroy()
    await asyncio.sleep(0.5)
    assert (await other.exec("echo ../evil >.git/commondir")).exit_code != 0
    assert await asyncio.to_thread((project / ".git" / "commondir").exists)
    await other.destroy()

    async def gone() -> bool:
        return not await asyncio.to_thread((project / ".git" / "commondir").exists)

    await eventually(gone, 5.0)


async def test_no_repository_appears(open_box: Open, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    box = await open_box(**box_of(work))
    for attempt in ("git init .", "rmdir .git", "echo gitdir: evil >.git", "mv .git other"):
        assert (await box.exec(attempt)).exit_code != 0, attempt
    await out(box, "git init -q sub && rm -rf sub")
    await box.destroy()

    async def gone() -> bool:
        return not await asyncio.to_thread(os.listdir, work)

    await eventually(gone, 5.0)


async def test_a_start_that_fails_leaves_the_project_as_it_was(open_box: Open, project: Path) -> None:
    await asyncio.to_thread((project / ".envrc").symlink_to, "near")
    before = await asyncio.to_thread(files, project)
    with pytest.raises(hermes.ConfigError, match="is a link"):
        await open_box(**box_of(project))

    async def as_before() -> bool:
        with contextlib.suppress(FileNotFoundError):  # what was put there goes while we look
            return await asyncio.to_thread(files, project) == before
        return False

    await eventually(as_before, 5.0)


async def test_what_is_replaced_here_is_protected_anew(open_box: Open, project: Path) -> None:
    await asyncio.to_thread((project / ".envrc").write_text, "first\n")
    box = await open_box(**box_of(project, protect=["tools/pager"]))
    await out(box, "true")
    await asyncio.to_thread(git, project, "config", "user.name", "changed")
    for name in (".envrc", "tools/pager"):
        await asyncio.to_thread((project / "new").write_text, "second\n")
        await asyncio.to_thread(os.replace, project / "new", project / name)
    with pytest.warns(UserWarning) as caught:
        results = [await box.exec(f"echo evil >>{one}") for one in (".git/config", ".envrc", "tools/pager")]
    assert all(one.exit_code for one in results), results
    said = [str(one.message) for one in caught]
    for name in (".git/config", ".envrc", "tools/pager"):
        assert (
            f"{project}/{name} was replaced while a jail ran, could be written to from in it since, "
            in "\n".join(said)
        )
    assert "is read-only again; look at what it holds" in said[0]
    assert "changed" in await out(box, "git config user.name; cat .envrc")
    await asyncio.to_thread(os.unlink, project / ".envrc")
    with pytest.warns(UserWarning, match=r"\.envrc was removed on this machine"):
        await out(box, "true")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await out(box, "true")


async def test_what_appears_is_said(open_box: Open, project: Path) -> None:
    """Once; programs here heed it by themselves."""
    box = await open_box(**box_of(project))
    with pytest.warns(UserWarning, match=rf"{project}/\.envrc is new: programs on this machine read it"):
        await out(box, "echo x >.envrc")
    await out(box, "git init -q a/b/c")
    with pytest.warns(UserWarning, match=r"a/b/c/\.git is new: git on this machine runs what"):
        await out(
            box,
            "git -C a/b/c -c user.name=x -c user.email=x commit -qm x --allow-empty && git add a/b/c 2>&1",
        )
    await out(box, "echo y >file")


@pytest.mark.root_only
async def test_what_only_root_may_read_and_is_replaced(open_box: Open) -> None:
    path = Path(f"/etc/hermes-test-{os.getpid()}")
    fresh = path.with_suffix(".new")

    def put(where: Path) -> None:
        where.touch(0o600)
        where.write_text("secret\n")

    try:
        await asyncio.to_thread(put, path)
        box = await open_box(network="off")
        assert (await box.exec(f"grep secret {path}")).exit_code != 0
        await asyncio.to_thread(put, fresh)
        await asyncio.to_thread(fresh.replace, path)
        assert (await box.exec(f"grep secret {path}")).exit_code != 0
        await asyncio.to_thread(path.unlink)
        await asyncio.to_thread(put, path)
        assert (await box.exec(f"grep secret {path}")).exit_code != 0
    finally:
        path.unlink(missing_ok=True)
        fresh.unlink(missing_ok=True)
