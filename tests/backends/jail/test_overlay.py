"""A project that a jail changes beside it only: the commands of a user, and what is tried from inside."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hermes
from cli._tool import HERMES, Cli
from hermes import survey
from hermes.backends.jail import _overlay
from hermes.config import Config, Jail
from hermes.errors import BackendError, SandboxDiffers, UnsupportedError
from hermes.testing.tools import out
from hermes.workspace._layer import ELSEWHERE, OPAQUE
from workspace.conftest import below, git, make

from .conftest import Open

FILES: dict[str, str | bytes] = {
    "a": "1\n",
    "keep": "k\n",
    "src/x": "x\n",
    ".envrc": "mine\n",
    ".gitignore": "*.o\n",
    ".hermes.yaml": "timeout: 60\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q")
    make(root, FILES)
    git(root, "add", "--all")
    git(root, "commit", "-qm", "first")
    return root


@pytest.fixture
def cli(hermes_home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    monkeypatch.setenv("HERMES_SANDBOX", "jail")
    tool = Cli(hermes_home)
    tool.cwd = project
    assert tool("config", "set", "jail.overlay", "true").returncode == 0
    yield tool
    tool("sandbox", "rm", "--all", "--yes", "--force")


def here(root: Path) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in below(root)}


def run(cli: Cli, command: str) -> str:
    return cli.out("exec", "-q", "--here", command)


# --- the whole way


def test_an_agent_is_let_loose_and_looked_at_before_anything_lands(cli: Cli, project: Path) -> None:
    before = here(project)
    run(
        cli,
        "echo 2 >a; rm -r src; mkdir src; echo y >src/y; echo o >x.o; echo evil >.git/hooks/pre-commit; "
        "echo evil >.envrc; echo evil >>.git/config",
    )
    assert here(project) == before
    assert cli.out("diff", "--name-only").split() == [
        *(".envrc", ".git/config", ".git/hooks/pre-commit"),
        *("a", "src/x", "src/y"),
    ]
    assert "-1\n+2\n" in cli.out("diff", "a")
    found = cli.json("diff", "--json")
    assert found["root"] == str(project)
    assert (found["ignored"], found["changes"][3]["what"]) == (1, "changed")
    assert found["changes"][3]["diff"].endswith("-1\n+2\n")
    assert "programs here read it by themselves" in cli.out("diff", "--stat")

    nobody = cli("apply", "--all")
    assert (nobody.returncode, b"nobody to ask" in nobody.stderr) == (125, True)
    assert here(project) == before

    assert b"was stopped" in cli("apply", "a", "--yes").stderr
    assert (project / "a").read_text() == "2\n"
    assert run(cli, "cat a src/y; ls src") == "2\ny\ny\n"
    (project / "a").write_text("3\n")  # it is no change of the jail's any more
    assert run(cli, "cat a") == "3\n"

    assert cli("discard", "src/y", "--yes").returncode == 0
    applied = json.loads(cli.out("apply", "--all", "--yes", "--json"))
    assert [one["path"] for one in applied["done"]] == ["src/x"]
    assert [one["path"] for one in applied["held"]] == [".envrc", ".git/config", ".git/hooks/pre-commit"]
    assert {**before, "a": b"3\n"} == {**here(project), "src/x": b"x\n"}

    assert cli("apply", ".envrc", "--yes", "--include-protected").returncode == 0
    assert (project / ".envrc").read_text() == "evil\n"
    assert cli("discard", "--all", "--yes").returncode == 0
    assert cli.out("diff", "--ignored") == ""
    assert run(cli, "cat .git/config; ls .git/hooks") == (project / ".git/config").read_text() + "".join(
        f"{name}\n" for name in sorted(os.listdir(project / ".git/hooks"))
    )


def test_commits_that_are_made_inside(cli: Cli, project: Path) -> None:
    run(cli, "echo 2 >a; git -c user.name=j -c user.email=j@localhost commit -qam inside")
    assert git(project, "log", "--format=%s").split() == ["first"]
    assert cli("apply", "--all", "--yes").returncode == 0
    assert git(project, "log", "--format=%s").split() == ["inside", "first"]
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "fsck", "--strict") == ""


def test_changes_outlive_the_jail_s_processes(cli: Cli, project: Path) -> None:
    run(cli, "echo 2 >a; rm keep")
    assert cli("discard", "keep", "--yes").returncode == 0
    assert run(cli, "cat a keep") == "2\nk\n"
    assert cli("exec", "-q", "--here", "--recreate", "--network", "off", "cat a").stdout == b"2\n"


def test_it_is_removed_with_force_alone_while_there_are_changes(
    cli: Cli, project: Path, hermes_home: Path
) -> None:
    run(cli, "echo 2 >a; echo o >x.o")
    refused = cli("sandbox", "rm", "--all", "--yes")
    assert (refused.returncode, b"1 file changed in" in refused.stderr) == (125, True)
    assert cli("discard", "a", "--yes").returncode == 0
    assert cli("sandbox", "rm", "--all", "--yes").returncode == 0
    run(cli, "echo 2 >a")
    assert cli("sandbox", "rm", "--all", "--yes", "--force").returncode == 0
    assert not list((hermes_home / "sandboxes").glob("*"))
    assert (project / "a").read_text() == "1\n"


def test_one_that_nobody_used_keeps_its_changes(cli: Cli) -> None:
    run(cli, "echo 2 >a")
    cli.out("config", "set", "lifetime.ttl", "1s")
    time.sleep(1.2)
    pruned = cli("sandbox", "prune")
    assert (pruned.returncode, b"would be lost" in pruned.stderr) == (125, True)
    assert cli.out("diff", "--name-only") == "a\n"


def test_a_jail_in_which_something_runs_is_not_stopped(cli: Cli, project: Path) -> None:
    run(cli, "echo 2 >a")
    cli.out("jobs", "start", "--here", "sleep 60")
    busy = cli("apply", "a", "--yes")
    assert (busy.returncode, b"is busy (1 command)" in busy.stderr) == (125, True)
    assert (project / "a").read_text() == "1\n"
    assert cli("apply", "a", "--yes", "--stop").returncode == 0
    assert (project / "a").read_text() == "2\n"


@pytest.mark.parametrize(("typed", "lands"), [(b"n\n", False), (b"\n", False), (b"y\n", True)])
def test_a_person_is_asked(cli: Cli, project: Path, typed: bytes, lands: bool) -> None:
    run(cli, "echo 2 >a; printf x >$'n\\e[31m'")
    master, slave = pty.openpty()
    with subprocess.Popen(
        [*HERMES, "apply", "--all"], cwd=project, stdin=slave, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        said = b""
        while b"[y/N]" not in said:
            said += os.read(master, 4096)
        os.write(master, typed)
        code = process.wait(30)
    os.close(master)
    assert b"changed   a" in said
    assert rb"n\x1b[31m" in said
    assert b"\x1b[31m" not in said
    assert (code, (project / "a").read_text()) == ((0, "2\n") if lands else (125, "1\n"))


def test_from_below_and_with_a_name(cli: Cli, project: Path) -> None:
    run(cli, "echo 2 >a; echo 2 >src/x")
    assert cli.out("diff", "--name-only", "x", cwd=project / "src") == "src/x\n"
    assert cli.out("diff", "--name-only", cwd=project / "src") == "a\nsrc/x\n"
    name = cli.json("sandbox", "ls", "--json")[0]["name"]
    assert cli.out("diff", "--name-only", "--name", name, cwd=project.parent) == "a\nsrc/x\n"
    for wrong in (("diff", "/etc"), ("diff", "--name", "nobody"), ("apply",), ("apply", "--all", "a")):
        done = cli(*wrong)
        assert done.returncode not in (0, 1)
        assert b"Traceback" not in done.stderr


def test_a_jail_without_an_overlay_has_no_changes(cli: Cli, project: Path) -> None:
    assert cli("exec", "-q", "--yes", "--name", "private", "true").returncode == 0
    done = cli("diff", "--name", "private")
    assert (done.returncode, b"keeps no changes" in done.stderr) == (125, True)


def test_a_project_that_is_gone(cli: Cli, project: Path) -> None:
    run(cli, "echo 2 >a")
    name = cli.json("sandbox", "ls", "--json")[0]["name"]
    project.rename(project.parent / "moved")
    done = cli("diff", "--name", name, cwd=project.parent)
    assert (done.returncode, b"cannot be looked at" in done.stderr) == (125, True)
    os.symlink("moved", project)
    assert cli("apply", "--all", "--yes", "--name", name, cwd=project.parent).returncode == 125
    assert (project / "a").read_text() == "1\n"


# --- the place


async def test_it_is_not_judged_and_one_without_it_is(open_box: Open, project: Path) -> None:
    options: dict[str, Any] = {"workspace": str(project), "network": "off", "approval": "ask"}
    box = await open_box(**options, overlay=True)
    assert box.describe()["approval"] is None
    assert await out(box, "rm -rf src .envrc; ls -A") == ".git\n.gitignore\n.hermes.yaml\na\nkeep"
    assert (project / "src/x").exists()
    judged = await open_box(**options)
    assert judged.describe()["approval"] == "ask"
    with pytest.raises(hermes.Refused):
        await judged.run("rm -rf src")


async def test_one_that_was_made_with_it_never_goes_on_without_it(open_box: Open, project: Path) -> None:
    options: dict[str, Any] = {"workspace": str(project), "network": "off", "name": "box"}
    box = await open_box(**options, overlay=True)
    await box.suspend()
    await box.close()
    with pytest.raises(SandboxDiffers, match=r"jail\.overlay"):
        await open_box(**options)


async def test_changes_of_another_directory_are_not_taken_for_those_of_this_one(
    open_box: Open, project: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    make(other, {"a": "other"})
    options: dict[str, Any] = {"network": "off", "name": "box", "overlay": True}
    box = await open_box(**options, workspace=str(project))
    await box.run("echo 2 >a")
    await box.close()
    with pytest.raises(BackendError, match="has changes of"):
        await open_box(**options, workspace=str(other), recreate=True)
    assert (other / "a").read_text() == "other"
    await (await open_box(**options, workspace=str(project), recreate=True)).close()


async def test_a_private_workspace_needs_none(open_box: Open) -> None:
    box = await open_box(overlay=True, network="off")
    assert await out(box, "grep -c overlay /proc/self/mountinfo || true") == "0"


async def test_landlock_alone_has_none(open_box: Open, project: Path) -> None:
    with pytest.raises(UnsupportedError):
        await open_box(overlay=True, program="landlock", workspace=str(project), network="off")


@pytest.mark.parametrize("gone", ["unshare", "mount"])
async def test_without_the_programs_it_is_refused(
    open_box: Open, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    for name in {"unshare", "mount", "stat"} - {gone}:
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setattr(_overlay, "_PATH", str(tmp_path))
    with pytest.raises(BackendError, match=f"missing here: {gone}"):
        await open_box(overlay=True, workspace=str(project), network="off")


async def test_where_it_cannot_be_mounted_nothing_is_run(
    open_box: Open, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never the project itself instead."""
    for name in ("unshare", "stat"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setattr(_overlay, "_MOUNT", _overlay._MOUNT.replace("userxattr,", "nonsense,"))
    with pytest.raises(BackendError, match="cannot be mounted here") as caught:
        await open_box(overlay=True, workspace=str(project), network="off")
    assert caught.value.code == "overlay_unavailable"
    assert (project / "a").read_text() == "1\n"


def test_doctor_tries_one(cli: Cli, hermes_home: Path) -> None:
    assert "  overlay: can be mounted\n" in cli.out("doctor", "--sandbox", "jail")
    cli.out("config", "set", "jail.overlay", "false")
    assert "overlay" not in cli.out("doctor", "--sandbox", "jail")
    assert list((hermes_home / "sandboxes").iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "becomes", "says"),
    [
        ("userxattr,", "nonsense,", "cannot be mounted here"),
        ('mount -i -t overlay -o "userxattr,', ': "', "is not kept beside the directory"),
        ("cd --", "sleep 60; cd --", ""),
    ],
)
async def test_doctor_says_where_there_can_be_none(
    hermes_home: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, becomes: str, says: str
) -> None:
    """And leaves nothing, also where nobody waits for the answer."""
    config = Config(jail=Jail(overlay=True))
    monkeypatch.setattr(_overlay, "_MOUNT", _overlay._MOUNT.replace(wrong, becomes))
    found = await survey.look("jail", config, patience=5.0 if says else 0.5)
    assert found.works is (False if says else None)
    assert not says or (says in found.missing and "Linux 5.11" in found.remedy)
    assert await asyncio.to_thread(lambda: list((hermes_home / "sandboxes").iterdir())) == []


async def test_a_home_whose_name_would_be_taken_apart(project: Path) -> None:
    with pytest.raises(BackendError, match="taken apart"):
        await asyncio.to_thread(_overlay.enter, project.parent / "a,b", str(project), "1:1")


async def test_a_project_that_is_swapped_while_it_is_mounted(
    open_box: Open, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    make(secret, {"key": "s"})
    swap = f"mv {project} {project}.away; ln -s {secret} {project}; "
    monkeypatch.setattr(_overlay, "_MOUNT", swap + _overlay._MOUNT)
    with pytest.raises(BackendError, match="changed while it was mounted") as caught:
        await open_box(overlay=True, workspace=str(project), network="off")
    assert caught.value.code == "workspace_changed"


# --- from inside

ATTEMPTS = {
    "mount over it": "mount -o remount,lowerdir=/ /workspace || umount /workspace",
    "a device": "mknod null c 1 3",
    "a whiteout of its own": "mknod gone c 0 0",
    "the layer itself": "ls /proc/self/root/../overlay || ls ../overlay/upper",
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
async def test_what_is_tried_from_inside_fails(open_box: Open, project: Path, attempt: str) -> None:
    before = await asyncio.to_thread(here, project)
    box = await open_box(overlay=True, workspace=str(project), network="off")
    result = await box.run(ATTEMPTS[attempt])
    assert result.exit_code != 0, result.text
    assert await asyncio.to_thread(here, project) == before


async def test_no_mark_made_inside_is_one_for_the_kernel(
    open_box: Open, project: Path, hermes_home: Path
) -> None:
    box = await open_box(overlay=True, workspace=str(project), network="off")
    for mark in (*ELSEWHERE, OPAQUE):
        name = mark.rpartition(".")[2]
        set_it = f"import os; os.mkdir('{name}'); os.setxattr('{name}', '{mark}', b'y')"
        await box.run(f'python3 -c "{set_it}"')
    (upper,) = (hermes_home / "sandboxes").glob("jail-*/overlay/upper")
    folders = await asyncio.to_thread(lambda: list(upper.iterdir()))
    assert len(folders) == 4
    for folder in folders:
        assert not {*ELSEWHERE} & {*os.listxattr(folder)}
    await box.run("rm -r src; mkdir src")
    assert os.getxattr(upper / "src", OPAQUE) == b"y"  # the kernel's own


async def test_no_link_made_inside_leads_what_is_applied_elsewhere(
    open_box: Open, project: Path, tmp_path: Path, hermes_home: Path
) -> None:
    target = tmp_path / "target"
    await asyncio.to_thread(make, target, {"file": "safe"})
    box = await open_box(overlay=True, workspace=str(project), network="off", name="box")
    await out(
        box, f"rm -r src; ln -s {target} src; ln -s {target}/file link; ln a hard; mkdir -p d; echo e >d/f"
    )
    await box.close()
    done = await asyncio.to_thread(
        subprocess.run,
        [*HERMES, "apply", "--all", "--yes", "--force", "--name", "box", "--json"],
        cwd=project,
        capture_output=True,
        check=False,
    )
    found = json.loads(done.stdout)
    assert [one["path"] for one in found["held"]] == ["link", "src"]
    assert [one["path"] for one in found["done"]] == ["d/f", "hard", "src/x"]
    assert await asyncio.to_thread(here, target) == {"file": b"safe"}
    assert not (project / "src").exists()
