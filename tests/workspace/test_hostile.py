"""What a hostile sandbox may put into its workspace, and what a hostile guest may say of it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from guest.test_archive import END, entry, link
from hermes import Sandbox
from hermes.errors import HermesError, ProtocolError
from hermes.state import Store
from hermes.workspace import Workspace, _there
from hermes.workspace._facts import Manifest
from hermes.workspace._protect import Guard
from test_files import LyingChannel, LyingStream, Reply
from workspace.conftest import below, git, make
from workspace.test_changes import here, notes, short

PROTECTED = [
    ".hermes.yaml",
    ".HERMES.yaml",
    ".hermesignore",
    ".envrc",
    "sub/.envrc",
    ".env.",
    ".vscode/tasks.json",
    "sub/.VSCode/settings.json",
    ".bashrc",
    ".git/config",
    ".git/hooks/pre-commit",
    ".git/HOOKS/pre-commit",
    ".git/info/attributes",
    ".git/commondir",
    ".git/objects/info/alternates",
    ".git/modules/x/config",
    ".git/rebase-merge/git-rebase-todo",
    ".GIT/config",
    ".GIT/HEAD",
    "git~1/config",
    ".g\u200cit/config",
    "sub/.git",
    "sub/.git/config",
    ".husky/pre-push",
    ".claude/settings.json",
    ".mcp.json",
]
FREE = [
    "README.md",
    "src/git/config",
    "hooks/pre-commit",
    ".github/workflows/x.yml",
    ".gitignore",
    ".git/HEAD",
    ".git/refs/heads/main",
    ".git/packed-refs",
    ".git/objects/ab/" + "0" * 38,
    ".git/objects/pack/pack-" + "0" * 40 + ".pack",
    "envrc",
    "config",
]


@pytest.mark.parametrize("path", PROTECTED)
def test_what_is_held_back(path: str) -> None:
    assert Guard([path], []).held(path, None)


@pytest.mark.parametrize("path", FREE)
def test_what_is_not(path: str) -> None:
    assert Guard([path], []).held(path, None) == ""
    assert Guard([path], [path]).never(path, None) == ""


def test_what_git_takes_for_a_repository() -> None:
    there = [
        "x/HEAD",
        "x/objects/a",
        "x/refs/b",
        "x/config",
        "x/Hooks/h",
        "x/readme",
        "y/head",
        "y/CommonDir",
    ]
    guard = Guard(there, [])
    assert {path for path in there if guard.held(path, None)} == {"x/config", "x/Hooks/h", "y/CommonDir"}


@pytest.fixture
async def repo(project: Path) -> AsyncIterator[Sandbox]:
    await here(lambda: [git(project, "init"), git(project, "add", "."), git(project, "commit", "-qm", "one")])
    async with Sandbox("local-copy", workspace=str(project), approval="off") as box:
        yield box


async def test_protected_files_come_only_when_named(repo: Sandbox, project: Path) -> None:
    await repo.run(
        "echo evil >.git/hooks/post-checkout; chmod +x .git/hooks/post-checkout; echo '[core]' >>.git/config;"
        "echo 'sandbox: local' >.hermes.yaml; echo evil >.envrc; mkdir .vscode; echo e >.vscode/tasks.json;"
        "mkdir bare; cd bare; touch HEAD config; mkdir objects refs; touch objects/x refs/x; cd ..;"
        "echo ok >ok"
    )
    config = await here((project / ".git/config").read_text)
    names = {".git/hooks/post-checkout", ".git/config", ".hermes.yaml", ".envrc", ".vscode/tasks.json"}
    names |= {"bare/config"}
    status = await repo.workspace.status()
    assert names == {path for path, note in notes(status.inside).items() if note}
    done = await repo.workspace.pull()
    assert set(notes(done.held)) == names
    assert "ok" in notes(done.done) and done.failed == []
    assert await here((project / ".git/config").read_text) == config
    assert not any((project / name).exists() for name in names - {".git/config"})
    again = await repo.workspace.pull(".envrc", include_protected=True)
    assert short(again.done) == [("added", ".envrc")]
    assert (project / ".envrc").exists() and not (project / ".hermes.yaml").exists()


async def test_a_protected_file_is_not_deleted_either(repo: Sandbox, project: Path) -> None:
    make(project, {".envrc": "mine"})
    await repo.workspace.push()
    await repo.run("rm .envrc .git/config")
    done = await repo.workspace.pull()
    assert set(notes(done.held)) == {".envrc", ".git/config"}
    assert (project / ".envrc").exists() and (project / ".git/config").exists()


async def test_links(repo: Sandbox, project: Path) -> None:
    """Those that lead out, also by way of another one, and into what is protected."""
    await repo.run(
        "ln -s /etc/passwd abs; ln -s ../../out up; mkdir -p a/b; ln -s ../.. a/b/root;"
        "ln -s a/b/root/.. chain;"
        "ln -s README.md fine; ln -s ../README.md a/fine; ln -s .git/hooks hooks; ln -s ../../../x a/b/far;"
        "ln -s x .git/y; ln -s .envrc rc"
    )
    done = await repo.workspace.pull()
    assert set(notes(done.done)) == {"a/b/root", "fine", "a/fine"}
    assert set(notes(done.held)) == {"abs", "up", "chain", "hooks", "a/b/far", ".git/y", "rc"}
    forced = await repo.workspace.pull(include_protected=True)
    assert set(notes(forced.done)) == {"hooks", "rc"}
    assert set(notes(forced.held)) == {"abs", "up", "chain", "a/b/far", ".git/y"}


async def test_nothing_is_written_through_a_link(repo: Sandbox, project: Path, tmp_path: Path) -> None:
    """Neither through one that was pulled nor through one of the user's own."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / "mine").symlink_to(outside)
    await repo.run("ln -s src alias; mkdir mine; echo evil >mine/file; echo evil >README.md")
    await repo.workspace.pull("alias")
    await here((project / "README.md").unlink)
    await here((project / "README.md").symlink_to, outside / "readme")
    await repo.run("rm alias; mkdir alias; echo evil >alias/main.py")
    done = await repo.workspace.pull(force=True)
    assert os.listdir(outside) == []
    assert notes(done.failed) == {"mine/file": "a link or a file is in the way"}
    assert not (project / "README.md").is_symlink()
    assert await here((project / "src/main.py").read_text) == "print(1)\nprint(2)\nprint(3)\n"
    assert await here((project / "alias/main.py").read_text) == "evil\n"


async def test_devices_and_modes(repo: Sandbox, project: Path) -> None:
    await repo.run(
        "mkfifo pipe; rm README.md; mkfifo README.md; echo s >suid; chmod 6777 suid; echo p >p; chmod 600 p;"
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; mknod null c 1 3 || true"
    )
    status = await asyncio.wait_for(repo.workspace.diff(), 10)
    assert "README.md" in status
    done = await asyncio.wait_for(repo.workspace.pull(include_protected=True, force=True), 10)
    assert set(notes(done.held)) >= {"pipe", "README.md", "sock"}
    assert set(notes(done.done)) == {"suid", "p"}
    umask = os.umask(0o022)
    os.umask(umask)
    assert (project / "suid").stat().st_mode & 0o7777 == 0o777 & ~umask
    assert (project / "p").stat().st_mode & 0o7777 == 0o600
    assert await here((project / "README.md").read_text) == "hello\n"


async def test_names_that_clash(repo: Sandbox, project: Path) -> None:
    """On a file system that does not tell case one would be written over the other."""
    await repo.run(
        "echo evil >readme.MD; mkdir SRC; echo evil >SRC/x; echo 1 >Twice; echo 2 >twice; echo i >İ"
    )
    done = await repo.workspace.pull(include_protected=True, force=True)
    held = notes(done.held)
    assert {"readme.MD", "SRC/x"} < set(held)
    assert len({"Twice", "twice"} & set(held)) == 1
    assert "README.md in case" in held["readme.MD"]


async def test_a_directory_that_cannot_be_read(repo: Sandbox, project: Path, monkeypatch: Any) -> None:
    """What is in it is not taken for deleted."""

    async def shut(*args: Any) -> Any:
        found = await _there.scan(*args)
        for path in [path for path in found.files if path.startswith("src/")]:
            del found.files[path]
        found.shut.add("src")
        return found

    monkeypatch.setattr("hermes.workspace.scan", shut)
    done = await repo.workspace.pull()
    assert done.done == []
    assert set(notes(done.held)) == {"src/main.py", "src/deep/er/x.bin"}
    assert (project / "src/main.py").exists()


async def test_what_changes_after_it_was_looked_at(repo: Sandbox, project: Path) -> None:
    """Nothing comes that was not in the list that somebody agreed to."""
    await repo.run("echo harmless >a; echo harmless >b; echo harmless >c; echo harmless >d")
    inside = Path(repo.workspace.path)

    def swap(plan: Any) -> bool:
        (inside / "a").write_text("harmfull\n")  # as long as before
        (inside / "b").unlink()
        (project / "c").write_text("made here meanwhile")
        return True

    async def agree(plan: Any) -> bool:
        return await here(swap, plan)

    done = await repo.workspace.pull(agree=agree)
    assert notes(done.failed) == {
        "a": "it changed inside meanwhile",
        "b": "it is gone inside by now",
        "c": "it changed here meanwhile, or a directory is in the way",
    }
    assert [one.path for one in done.done] == ["d"]
    assert not (project / "a").exists()
    await repo.run("echo longer than before >a; echo e >e")

    async def grow(plan: Any) -> bool:
        await here((inside / "a").write_text, "it grew since somebody looked at it")
        return True

    done = await repo.workspace.pull("a", agree=grow)
    assert set(notes(done.failed)) == {"a"} and done.done == []
    assert not (project / "a").exists()
    assert not [name for name in await here(below, project) if ".hermes-" in name]


async def test_a_tree_too_big_for_the_disk(repo: Sandbox, project: Path) -> None:
    inside = Path(repo.workspace.path)
    await here(lambda: os.truncate(os.open(inside / "huge", os.O_CREAT | os.O_WRONLY), 1 << 30))

    class Usage:
        free = 1 << 20

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda path: Usage)
        with pytest.raises(HermesError, match="has room for") as caught:
            await repo.workspace.pull()
    assert caught.value.code == "no_space"
    assert not (project / "huge").exists()


async def test_text_that_would_take_long_to_compare(repo: Sandbox, project: Path) -> None:
    make(project, {"long": "".join(f"{n % 7}\n" for n in range(60_000))})
    await repo.workspace.push()
    await repo.files.write("long", "".join(f"{n % 5}\n" for n in range(60_000)))
    text = await asyncio.wait_for(repo.workspace.diff(), 20)
    assert text.startswith("--- a/long\n+++ b/long\n")


# --- a guest that lies


def line(name: Any, kind: Any = "file", size: Any = 1, mode: Any = 0o644, target: Any = None) -> bytes:
    return json.dumps([name, kind, size, mode, [1, 1], target]).encode() + b"\n"


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def lying(root: Path, scan: bytes, digest: bytes = b"", get: bytes = b"") -> Workspace:
    def stream(data: bytes) -> LyingStream:
        chunks = [data[at : at + 700] for at in range(0, len(data), 700)]
        return LyingStream(chunks, Reply({}, b""))

    channel = LyingChannel(scan=stream(scan), digest=stream(digest), get=stream(get))
    store = await here(Store)
    await here(store.put_manifest, "feed", Manifest(root=str(root)).encode())

    async def approve(path: str) -> None:
        pass

    return Workspace(channel, store, "feed", str(root), "/inside", approve)  # type: ignore[arg-type]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.mark.parametrize(
    "scan",
    [
        line("../evil"),
        line("/evil"),
        line("a/../../evil"),
        line("a//b"),
        line(""),
        line("."),
        line("a\0b"),
        line("x" * 300),
        line("y/" * 3000 + "y"),
        line("\ud800"),
        line(7),
        line("a", "door"),
        line("a", size=-1),
        line("a", size=True),
        line("a", size=1 << 70),
        line("a", mode="755"),
        line("a", "link"),
        line("a", "link", target=""),
        line("a", "link", target="\ud800"),
        line("a") + line("a"),
        line("a", "dir") + line("a"),
        b"[]\n",
        b"{}\n",
        b"[" * 100_000,
        b"\xff\n",
    ],
)
async def test_a_list_that_cannot_be(bare: Path, scan: bytes) -> None:
    with pytest.raises(ProtocolError):
        await (await lying(bare, scan)).pull()
    assert os.listdir(bare) == [] and os.listdir(bare.parent) == ["root"]


@pytest.mark.parametrize(
    "digest", [b"", b"null\nnull\n", b'"abc"\n', b"7\n", b'"' + b"G" * 64 + b'"\n', b"["]
)
async def test_hashes_that_cannot_be(bare: Path, digest: bytes) -> None:
    with pytest.raises(ProtocolError):
        await (await lying(bare, line("a"), digest)).pull()


@pytest.mark.parametrize(
    "get",
    [
        entry("../evil", b"1"),
        entry("b", b"1"),
        entry("a", b"2"),
        entry("a", b"12"),
        entry("a", b""),
        link("a", "/etc/passwd"),
        entry("a", b"1") + entry("a", b"1"),
        entry("a", b"1") + entry("../../evil", b"1"),
        b"",
        b"\xff" * 2000,
        b"\0" * 1024,
    ],
)
async def test_a_tree_that_was_not_asked_for(bare: Path, get: bytes) -> None:
    workspace = await lying(bare, line("a"), json.dumps(sha(b"1")).encode() + b"\n", get + END)
    done = await workspace.pull()
    assert len(done.done) + len(done.failed) == 1
    assert os.listdir(bare) in ([], ["a"])
    if os.listdir(bare):
        assert await here((bare / "a").read_bytes) == b"1"
    assert os.listdir(bare.parent) == ["root"]


async def test_an_honest_one_is_taken(bare: Path) -> None:
    digest = json.dumps(sha(b"1")).encode() + b"\n"
    done = await (await lying(bare, line("a"), digest, entry("a", b"1") + END)).pull()
    assert short(done.done) == [("added", "a")]
    assert await here((bare / "a").read_bytes) == b"1"


async def test_a_list_without_end(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.workspace._there.MAX_BYTES", 10_000)
    with pytest.raises(ProtocolError, match="more than"):
        await (await lying(bare, b"".join(line(str(n)) for n in range(1000)))).pull()
    monkeypatch.undo()
    monkeypatch.setattr("hermes.workspace._there.MAX_FILES", 100)
    with pytest.raises(ProtocolError, match="too many"):
        await (await lying(bare, b"".join(line(str(n)) for n in range(1000)))).pull()
