"""A directory is copied into a place that mounts nothing: once, whole, and without what is ignored."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from hermes import Sandbox
from hermes.errors import ConfigError, FileError, HermesError, SandboxDiffers, UnsupportedError
from hermes.state import Store
from hermes.testing.tools import out
from workspace.conftest import below, make

FILES = [".gitignore", "README.md", "link", "run.sh", "src/deep/er/x.bin", "src/main.py"]
KINDS = ["local-copy", "local-copy-relay", "local-copy-text"]


def inside(box: Sandbox) -> Path:
    return Path(box.workspace.path)


@pytest.mark.parametrize("box", KINDS, indirect=True)
async def test_what_is_copied(box: Sandbox, project: Path) -> None:
    assert await asyncio.to_thread(below, inside(box)) == FILES
    assert inside(box) != project
    assert await out(box, "pwd; cat link; stat -c %a run.sh; ls -d empty") == (
        f"{inside(box)}\nprint(1)\nprint(2)\nprint(3)\n755\nempty"
    )
    assert (inside(box) / "README.md").stat().st_mtime_ns == (project / "README.md").stat().st_mtime_ns
    assert box.describe()["copies"] is True
    assert box.workspace.root == str(project)


async def test_nothing_comes_back_by_itself(box: Sandbox, project: Path) -> None:
    await box.run("echo changed >README.md; rm run.sh; echo new >new")
    assert await asyncio.to_thread((project / "README.md").read_text) == "hello\n"
    assert (project / "run.sh").exists() and not (project / "new").exists()


async def test_opened_again_it_is_not_copied_again(project: Path) -> None:
    box = await Sandbox("local-copy", name="x", workspace=str(project), approval="off").open()
    try:
        await box.run("echo changed >README.md")
        await box.close()
        await asyncio.to_thread((project / "later").write_text, "later")
        again = await Sandbox("local-copy", name="x", workspace=str(project), approval="off").open()
        assert await out(again, "cat README.md; ls later 2>/dev/null; true") == "changed"
        await again.close()
    finally:
        await box.destroy()
    assert await asyncio.to_thread(lambda: Store().manifest(box.id)) is None


async def test_made_anew_with_its_files_it_keeps_them(project: Path, hermes_home: Path) -> None:
    """A place that is gone is made anew: what was done in its workspace stays."""
    box = await Sandbox("local-copy", name="x", workspace=str(project), approval="off").open()
    try:
        await box.run("echo changed >README.md")
        await box._channel.call("shutdown")
        await box.close()
        again = await Sandbox("local-copy", name="x", workspace=str(project), approval="off").open()
        assert await out(again, "cat README.md") == "changed"
        assert [one.path for one in (await again.workspace.status()).inside] == ["README.md"]
        # without its files it is copied once more
        folder = inside(again)
        await again._channel.call("shutdown")
        await again.close()
        await asyncio.to_thread(lambda: [os.system(f"rm -rf {folder}/..?* {folder}/.[!.]* {folder}/*")])
        third = await Sandbox("local-copy", name="x", workspace=str(project), approval="off").open()
        assert await out(third, "cat README.md") == "hello"
        await third.close()
    finally:
        await box.destroy()


@pytest.mark.parametrize("box", KINDS, indirect=True)
async def test_private_is_no_copy(project: Path, box: Sandbox) -> None:
    async with Sandbox(box.backend, workspace="private", approval="off") as private:
        assert await private.files.list() == []
        with pytest.raises(UnsupportedError, match="no copy"):
            await private.workspace.status()


async def test_a_mounted_one_is_no_copy(project: Path) -> None:
    async with Sandbox("local", workspace=str(project), approval="off") as box:
        with pytest.raises(UnsupportedError, match="no copy"):
            await box.workspace.pull()


async def test_here_is_the_current_directory(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    async with Sandbox("local-copy", workspace="here", approval="off") as box:
        assert await asyncio.to_thread(below, inside(box)) == FILES


@pytest.mark.parametrize("what", ["/", "~", "hermes", "missing", "/etc"])
async def test_what_may_not_be_copied(what: str, hermes_home: Path, tmp_path: Path) -> None:
    """The whole machine, a home, hermes's own files; nothing is started and nothing is left."""
    hermes_home.mkdir(0o700, exist_ok=True)
    path = {"~": os.path.expanduser("~"), "hermes": str(hermes_home), "missing": str(tmp_path / "no")}.get(
        what, what
    )
    with pytest.raises(ConfigError, match="nothing was started"):
        await Sandbox("local-copy", workspace=path, approval="off").open()
    assert await asyncio.to_thread(lambda: Store().all()) == []


async def test_another_directory_is_no_reason_to_mix(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    make(other, {"a": "1"})
    box = await Sandbox("local-copy", name="x", workspace=str(project), approval="off").open()
    try:
        await box.close()
        for recreate in (False, True):
            with pytest.raises(SandboxDiffers, match="workspace"):
                await Sandbox(
                    "local-copy", name="x", workspace=str(other), recreate=recreate, approval="off"
                ).open()
    finally:
        await box.destroy()


class Cut(Exception):
    pass


async def test_a_copy_that_was_cut_goes_on(
    project: Path, monkeypatch: pytest.MonkeyPatch, hermes_home: Path
) -> None:
    """What is half there is neither trusted nor sent again."""
    big = os.urandom(6 << 20)
    make(project, {"big": big, **{f"many/{n}": f"{n}\n" for n in range(300)}})
    monkeypatch.setattr("hermes.workspace._send.BATCH_FILES", 100)
    sent: list[list[str]] = []
    from hermes.guest import archive

    pack = archive.pack

    def watched(top: bytes, write: Any, stats: Any, names: Any = None) -> None:
        sent.append([os.fsdecode(name) for name in names])
        if len(sent) == 3:
            raise OSError(5, "cut")
        pack(top, write, stats, names)

    monkeypatch.setattr(archive, "pack", watched)
    box = Sandbox("local-copy", name="x", workspace=str(project), approval="off")
    with pytest.raises(FileError):
        await box.open()
    assert box._open_channel is None
    with pytest.raises(HermesError):
        await box.run("true")
    (record,) = await asyncio.to_thread(lambda: Store().all())
    assert not record.copied
    folder = hermes_home / "sandboxes" / f"local-{record.id}" / "workspace"
    first = await asyncio.to_thread(below, folder)
    assert len(first) >= 200
    # what was damaged meanwhile is found
    victim = next(name for name in first if name.startswith("many/"))
    content = (folder / victim).read_bytes()
    times = (folder / victim).stat()
    await asyncio.to_thread((folder / victim).write_bytes, b"x" * len(content))
    os.utime(folder / victim, ns=(times.st_atime_ns, times.st_mtime_ns))
    sent.clear()

    def noted(top: bytes, write: Any, stats: Any, names: Any = None) -> None:
        sent.append([os.fsdecode(name) for name in names])
        pack(top, write, stats, names)

    monkeypatch.setattr(archive, "pack", noted)
    again = await Sandbox("local-copy", name="x", workspace=str(project), approval="off").open()
    try:
        assert await asyncio.to_thread(below, folder) == await asyncio.to_thread(
            lambda: sorted(set(below(project)) - {"build/out.o", ".env"})
        )
        names = {name for batch in sent for name in batch}
        assert victim in names
        assert len(names) <= 310 - len(first)
        assert (folder / victim).read_bytes() == content
        assert (folder / "big").read_bytes() == big
        assert (await again.workspace.status()).inside == []
    finally:
        await again.destroy()


async def test_a_file_that_never_rests(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hermes.guest import archive

    pack, turns = archive.pack, []

    def growing(*args: Any) -> None:
        turns.append(1)
        pack(*args)
        (project / "log").write_text("x" * len(turns))

    await asyncio.to_thread((project / "log").write_text, "")
    monkeypatch.setattr(archive, "pack", growing)
    with pytest.raises(FileError, match=r"log never stays the same"):
        await Sandbox("local-copy", workspace=str(project), approval="off").open()
    assert await asyncio.to_thread(lambda: Store().all()) == []


async def test_progress_and_what_is_left_out(project: Path) -> None:
    await asyncio.to_thread(os.mkfifo, project / "fifo")
    lines: list[str] = []
    async with Sandbox("local-copy", workspace=str(project), approval="off", on_progress=lines.append) as box:
        assert not (inside(box) / "fifo").exists()
    assert any(line.startswith(f"copying {project}") and "MiB" in line for line in lines)
    assert "1 of the files here were left out, such as fifo: no file, directory or link" in lines


async def test_odd_names(project: Path) -> None:
    odd = ["new\nline", "ü", " space ", "-dash", "quote'\"", "a" * 250, "x\udcffy", "deep/" * 40 + "end"]
    await asyncio.to_thread(make, project, dict.fromkeys(odd, "1"))
    async with Sandbox("local-copy", workspace=str(project), approval="off") as box:
        assert set(odd) <= set(await asyncio.to_thread(below, inside(box)))
        await box.run("echo 2 >'new\nline'")
        done = await box.workspace.pull()
        assert [one.path for one in done.done] == ["new\nline"]
        assert await asyncio.to_thread((project / "new\nline").read_text) == "2\n"
