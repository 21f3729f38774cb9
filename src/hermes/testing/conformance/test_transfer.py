"""Copies of files and trees to and from this machine: complete, in flat memory, and never outside."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes import Sandbox

from .._harness import case
from ..tools import fails, out

MB = 1 << 20

# What a case does with this machine's files happens in a thread: the event loop is not to be blocked.
local = asyncio.to_thread


def make_tree(root: Path) -> None:
    (root / "sub/deep").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "a.txt").write_bytes(b"hello")
    (root / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "sub/zero").write_bytes(b"")
    (root / "sub/deep/data").write_bytes(random.Random(8).randbytes(700_000))
    (root / "new\nline ü").write_bytes(b"odd")
    (root / "sub/link").symlink_to("../a.txt")
    (root / "sub/nowhere").symlink_to("/no/such/thing")
    (root / "dirlink").symlink_to("sub")
    os.utime(root / "a.txt", (1_000_000_000, 1_000_000_000))


def facts(root: Path) -> dict[str, Any]:
    """Everything of a tree that a copy has to keep."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        info = path.lstat()
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("dir", stat.S_IMODE(info.st_mode))
        else:
            found[name] = ("file", stat.S_IMODE(info.st_mode), int(info.st_mtime), path.read_bytes())
    return found


@case
async def test_file_there_and_back(box: Sandbox, folder: str, tmp_path: Path) -> None:
    data = random.Random(9).randbytes(3 * MB)
    await local((tmp_path / "a").write_bytes, data)
    sent = await box.files.put(tmp_path / "a", f"{folder}/b")
    assert (sent.files, sent.bytes) == (1, len(data))
    got = await box.files.get(f"{folder}/b", tmp_path / "c")
    assert (got.files, got.bytes) == (1, len(data))
    assert await local((tmp_path / "c").read_bytes) == data


@case
async def test_file_into_a_directory(box: Sandbox, folder: str, tmp_path: Path) -> None:
    """As with `cp`: into a directory that is there, or is meant by a slash."""
    await local((tmp_path / "a").write_bytes, b"1")
    await box.files.put(tmp_path / "a", folder)
    await box.files.put(tmp_path / "a", f"{folder}/new/")
    await box.files.put(tmp_path / "a", f"{folder}/named")
    assert await out(box, f"cd {folder}; find . -type f | sort") == "./a\n./named\n./new/a"


@case
async def test_tree_there_and_back(box: Sandbox, folder: str, tmp_path: Path) -> None:
    """Modes, times, links, empty directories and odd names are kept."""
    await local(make_tree, tmp_path / "tree")
    sent = await box.files.put(tmp_path / "tree", f"{folder}/copy")
    assert sent.files == 5
    assert sent.bytes == 700_013 + 5
    assert (
        await out(box, f"cd {folder}/copy; stat -c %a run.sh; readlink sub/link; cat dirlink/link")
        == "755\n../a.txt\nhello"
    )
    got = await box.files.get(f"{folder}/copy", tmp_path / "back")
    assert (got.files, got.bytes) == (sent.files, sent.bytes)
    assert await local(facts, tmp_path / "back") == await local(facts, tmp_path / "tree")


@case
async def test_content_of_a_directory(box: Sandbox, folder: str, tmp_path: Path) -> None:
    """A slash at the end means what is in it; it is merged into what is there."""
    await local(make_tree, tmp_path / "tree")
    await box.files.write(f"{folder}/copy/mine", b"stays")
    await box.files.put(f"{tmp_path}/tree/", f"{folder}/copy")
    assert await box.files.read(f"{folder}/copy/mine") == b"stays"
    assert await box.files.read(f"{folder}/copy/a.txt") == b"hello"
    await box.files.put(tmp_path / "tree", f"{folder}/copy")
    assert await box.files.read(f"{folder}/copy/tree/a.txt") == b"hello"


@case
async def test_put_again_replaces(box: Sandbox, folder: str, tmp_path: Path) -> None:
    await local((tmp_path / "a").write_bytes, b"long content")
    await box.files.put(tmp_path / "a", f"{folder}/a")
    await local((tmp_path / "a").write_bytes, b"short")
    await box.files.put(tmp_path / "a", f"{folder}/a")
    assert await box.files.read(f"{folder}/a") == b"short"


@case
async def test_many_small_files(box: Sandbox, folder: str, tmp_path: Path) -> None:
    def make() -> None:
        (tmp_path / "many").mkdir()
        for n in range(800):
            (tmp_path / f"many/{n}").write_text(str(n))

    await local(make)
    assert (await box.files.put(tmp_path / "many", f"{folder}/many")).files == 800
    assert (await box.files.get(f"{folder}/many", tmp_path / "back")).files == 800
    assert await local((tmp_path / "back/799").read_text) == "799"


@pytest.mark.slow
@case
async def test_large_copy(box: Sandbox, folder: str, tmp_path: Path) -> None:
    block = random.Random(10).randbytes(MB)

    def make() -> str:
        digest = hashlib.sha256()
        with (tmp_path / "big").open("wb") as file:
            for n in range(150):
                piece = block[n:] + block[:n]
                digest.update(piece)
                file.write(piece)
        return digest.hexdigest()

    digest = await local(make)
    await box.files.put(tmp_path / "big", f"{folder}/big")
    assert (await box.run(["sha256sum", f"{folder}/big"])).text.split()[0] == digest
    await box.files.get(f"{folder}/big", tmp_path / "back")
    assert await local(lambda: hashlib.sha256((tmp_path / "back").read_bytes()).hexdigest()) == digest


@case
async def test_progress(box: Sandbox, folder: str, tmp_path: Path) -> None:
    """It is told the bytes so far, and at the end all of them."""
    await local((tmp_path / "a").write_bytes, bytes(6 * MB))
    told: list[tuple[int, int | None, str]] = []
    await box.files.put(tmp_path / "a", f"{folder}/a", on_progress=lambda *facts: told.append(facts))
    assert told[-1][:2] == (6 * MB, 6 * MB)
    assert [done for done, *_ in told] == sorted(done for done, *_ in told)
    told.clear()
    await box.files.get(f"{folder}/a", tmp_path / "b", on_progress=lambda *facts: told.append(facts))
    assert told[-1][:2] == (6 * MB, 6 * MB)


@case
async def test_missing_on_either_side(box: Sandbox, folder: str, tmp_path: Path) -> None:
    with fails("not_found"):
        await box.files.put(tmp_path / "none", folder)
    with fails("not_found"):
        await box.files.get(f"{folder}/none", tmp_path)
    assert await local(lambda: list(tmp_path.iterdir())) == []


@case
async def test_get_writes_through_no_link(box: Sandbox, folder: str, tmp_path: Path) -> None:
    """A tree that plants a link and then writes below it writes nothing elsewhere on this machine."""
    outside, target = tmp_path / "outside", tmp_path / "target"

    def make() -> None:
        outside.mkdir()
        target.mkdir()
        (target / "sub").symlink_to(outside)

    await local(make)
    await box.run(f"mkdir -p {folder}/t/sub; echo evil >{folder}/t/sub/x")
    try:
        await box.files.get(f"{folder}/t/", target)
    except Exception as error:
        assert type(error).__name__ == "FileError"
    assert await local(lambda: list(outside.iterdir())) == []


@case
async def test_put_writes_through_no_link(box: Sandbox, folder: str, tmp_path: Path) -> None:
    await local(make_tree, tmp_path / "tree")
    await box.run(f"cd {folder}; mkdir outside copy; ln -s ../outside copy/sub")
    try:
        await box.files.put(f"{tmp_path}/tree/", f"{folder}/copy")
    except Exception as error:
        assert type(error).__name__ == "FileError"
    assert await box.files.list(f"{folder}/outside") == []


@case
async def test_links_are_copied_not_followed(box: Sandbox, folder: str, tmp_path: Path) -> None:
    """What a link leads to outside of the tree does not travel."""
    await box.run(f"cd {folder}; mkdir t; ln -s /etc/passwd t/p; ln -s /etc t/e; ln -s t t/loop")
    stats = await box.files.get(f"{folder}/t", tmp_path / "t")
    assert (stats.files, stats.bytes) == (0, 0)
    assert await local(os.readlink, tmp_path / "t/p") == "/etc/passwd"
    assert await local(lambda: sorted(path.name for path in (tmp_path / "t").iterdir())) == ["e", "loop", "p"]


@case
async def test_special_files_are_skipped(box: Sandbox, folder: str, tmp_path: Path) -> None:
    await box.run(f"mkdir {folder}/t; cd {folder}/t; mkfifo p; echo 1 >f")
    stats = await asyncio.wait_for(box.files.get(f"{folder}/t", tmp_path / "t"), 10)
    assert (stats.files, stats.skipped) == (1, 1)
    await local(os.mkfifo, tmp_path / "t/q")
    stats = await asyncio.wait_for(box.files.put(tmp_path / "t", f"{folder}/u"), 10)
    assert (stats.files, stats.skipped) == (1, 1)


@case
async def test_special_bits_do_not_travel(box: Sandbox, folder: str, tmp_path: Path) -> None:
    await box.run(f"mkdir {folder}/t; cd {folder}/t; echo 1 >f; chmod 6755 f; chmod 1777 .")
    await box.files.get(f"{folder}/t", tmp_path / "t")
    mode: Callable[[Path], int] = lambda path: stat.S_IMODE(path.stat().st_mode)  # noqa: E731
    assert await local(mode, tmp_path / "t/f") == 0o755


@case
async def test_cancelled_copy(box: Sandbox, folder: str, tmp_path: Path) -> None:
    """It leaves neither a half file nor anything that runs."""
    await local((tmp_path / "a").write_bytes, bytes(100 * MB))
    copy = asyncio.create_task(box.files.put(tmp_path / "a", f"{folder}/a"))
    await asyncio.sleep(0.05)
    copy.cancel()
    with pytest.raises(asyncio.CancelledError):
        await copy
    await asyncio.sleep(0.2)
    assert await box.files.list(folder) == []
    assert await out(box, "echo on", timeout=5) == "on"


@case
async def test_copies_side_by_side(box: Sandbox, folder: str, tmp_path: Path) -> None:
    """Copies and commands share the channel fairly."""
    await local((tmp_path / "a").write_bytes, bytes(20 * MB))
    copies = [asyncio.create_task(box.files.put(tmp_path / "a", f"{folder}/{n}")) for n in range(4)]
    for _ in range(5):
        assert await out(box, "echo quick", timeout=5) == "quick"
    assert [(await copy).bytes for copy in copies] == [20 * MB] * 4
