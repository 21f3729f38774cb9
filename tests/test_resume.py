"""Copies of big files that were cut and go on."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from _transports import known
from hermes import Sandbox
from hermes.errors import FileError
from hermes.testing.tools import eventually

MIB = 1 << 20
SIZE = 24 * MIB


@pytest.fixture(params=["local", "local-relay", "local-text"])
async def box(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sandbox]:
    (tmp_path / "in").mkdir()
    with known():
        async with Sandbox(
            request.param, cwd=str(tmp_path / "in"), workspace="private", approval="off"
        ) as box:
            yield box


@pytest.fixture
def big(tmp_path: Path) -> Path:
    path = tmp_path / "big"
    path.write_bytes(os.urandom(SIZE))
    path.chmod(0o750)
    return path


def parts(folder: Path) -> list[Path]:
    return sorted(folder.glob(".hermes-*"))


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Cut(Exception):
    pass


def cutting(at: int) -> Any:
    """A progress callback that breaks the copy off."""

    def show(done: int, total: int | None, path: str) -> None:
        if done >= at:
            raise Cut

    return show


async def in_thread(function: Any, *args: Any) -> Any:
    return await asyncio.to_thread(function, *args)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes._transfer.REPORT_EVERY", 0.0)


async def test_put_goes_on(box: Sandbox, big: Path, tmp_path: Path) -> None:
    with pytest.raises(Cut):
        await box.files.put(big, "copy", on_progress=cutting(SIZE // 2), resume=True)
    await asyncio.sleep(0.2)
    (part,) = await in_thread(parts, tmp_path / "in")
    held = part.stat().st_size
    assert held > SIZE // 4
    assert not (tmp_path / "in/copy").exists()
    told: list[int] = []
    stats = await box.files.put(big, "copy", on_progress=lambda done, *_: told.append(done), resume=True)
    assert told[0] >= held and told[-1] == SIZE
    assert (stats.files, stats.bytes) == (1, SIZE)
    assert await in_thread(sha, tmp_path / "in/copy") == await in_thread(sha, big)
    assert (tmp_path / "in/copy").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "in/copy").stat().st_mtime_ns == big.stat().st_mtime_ns
    assert await in_thread(parts, tmp_path / "in") == []


async def test_get_goes_on(box: Sandbox, big: Path, tmp_path: Path) -> None:
    await box.files.put(big, "source")
    out = tmp_path / "out"
    with pytest.raises(Cut):
        await box.files.get("source", out / "copy", on_progress=cutting(SIZE // 2), resume=True)
    (part,) = await in_thread(parts, out)
    held = part.stat().st_size
    assert held > SIZE // 4
    told: list[int] = []
    stats = await box.files.get("source", out / "copy", on_progress=lambda d, *_: told.append(d), resume=True)
    assert told[0] >= held and told[-1] == SIZE
    assert stats.bytes == SIZE
    assert await in_thread(sha, out / "copy") == await in_thread(sha, big)
    assert (out / "copy").stat().st_mode & 0o777 == 0o750
    assert os.listdir(out) == ["copy"]


@pytest.mark.parametrize("harm", ["other", "longer", "empty"])
async def test_a_part_that_is_something_else_is_not_gone_on_with(
    box: Sandbox, big: Path, tmp_path: Path, harm: str
) -> None:
    """Also one that is longer than the whole."""
    bad = {"other": b"x" * MIB, "longer": bytes(SIZE + 1), "empty": b""}[harm]
    with pytest.raises(Cut):
        await box.files.put(big, "copy", on_progress=cutting(MIB), resume=True)
    await asyncio.sleep(0.2)
    (part,) = await in_thread(parts, tmp_path / "in")
    await in_thread(part.write_bytes, bad)
    await box.files.put(big, "copy", resume=True)
    assert await in_thread(sha, tmp_path / "in/copy") == await in_thread(sha, big)
    with pytest.raises(Cut):
        await box.files.get("copy", tmp_path / "back", on_progress=cutting(MIB), resume=True)
    (part,) = await in_thread(parts, tmp_path)
    await in_thread(part.write_bytes, bad)
    await box.files.get("copy", tmp_path / "back", resume=True)
    assert await in_thread(sha, tmp_path / "back") == await in_thread(sha, big)


async def test_a_source_that_changed_is_copied_anew(box: Sandbox, big: Path, tmp_path: Path) -> None:
    with pytest.raises(Cut):
        await box.files.put(big, "copy", on_progress=cutting(MIB), resume=True)
    await in_thread(big.write_bytes, os.urandom(SIZE))
    await box.files.put(big, "copy", resume=True)
    assert await in_thread(sha, tmp_path / "in/copy") == await in_thread(sha, big)


async def test_a_file_that_changes_meanwhile_is_not_taken(box: Sandbox, big: Path, tmp_path: Path) -> None:
    """A mixture of old and new must not get the name."""
    await box.files.put(big, "source")
    (tmp_path / "out").mkdir()

    def write() -> None:
        with (tmp_path / "in/source").open("r+b") as file:
            file.write(b"changed")

    def change(done: int, *_: Any) -> None:
        if done < SIZE // 2:
            threading.Thread(target=write).start()

    with pytest.raises(FileError, match="changed while it was copied"):
        await box.files.get("source", tmp_path / "out/copy", on_progress=change, resume=True)
    assert os.listdir(tmp_path / "out") == []


async def test_without_resume_nothing_is_kept(box: Sandbox, big: Path, tmp_path: Path) -> None:
    with pytest.raises(Cut):
        await box.files.put(big, "copy", on_progress=cutting(MIB))
    await asyncio.sleep(0.2)
    assert await in_thread(os.listdir, tmp_path / "in") == []


async def test_the_part_of_another_client_is_taken_over(box: Sandbox, big: Path, tmp_path: Path) -> None:
    """Its call, which may wait for a link that never comes back, ends, and writes no more."""
    reached = asyncio.Event()

    def stall(done: int, *_: Any) -> None:
        reached.set()

    first = asyncio.create_task(box.files.put(big, "copy", on_progress=stall, resume=True))
    await reached.wait()
    await box.files.put(big, "copy", resume=True)
    try:
        await first
    except FileError as error:
        assert error.code in ("exists", "io", "not_found")
    assert await in_thread(sha, tmp_path / "in/copy") == await in_thread(sha, big)


async def test_two_copies_out_to_one_place(box: Sandbox, big: Path, tmp_path: Path) -> None:
    await box.files.put(big, "source")
    copies = [box.files.get("source", tmp_path / "out/copy", resume=True) for _ in range(2)]
    found = await asyncio.gather(*copies, return_exceptions=True)
    assert [type(one).__name__ for one in found if isinstance(one, BaseException)] in ([], ["FileError"])
    assert await in_thread(sha, tmp_path / "out/copy") == await in_thread(sha, big)


async def test_a_planted_link_is_no_part(box: Sandbox, big: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    await in_thread(victim.write_bytes, b"mine")
    with pytest.raises(Cut):
        await box.files.put(big, "copy", on_progress=cutting(MIB), resume=True)
    await asyncio.sleep(0.2)
    (part,) = await in_thread(parts, tmp_path / "in")
    await in_thread(part.unlink)
    await in_thread(part.symlink_to, victim)
    with pytest.raises(FileError):
        await box.files.put(big, "copy", resume=True)
    assert victim.read_bytes() == b"mine"


async def test_a_full_disk_keeps_no_part(box: Sandbox, tmp_path: Path, big: Path) -> None:
    from guest._driver import small_disk

    with small_disk(tmp_path) as disk:
        with pytest.raises(FileError) as caught:
            await box.files.put(big, f"{disk}/copy", resume=True)
        assert caught.value.code == "no_space"
        await box.files.put(big, "source")
        with pytest.raises(FileError) as caught:
            await box.files.get("source", disk / "copy", resume=True)
        assert caught.value.code == "no_space"
        assert await in_thread(os.listdir, disk) == []


async def test_a_killed_client(tmp_path: Path, big: Path, hermes_home: Path) -> None:
    """What a client had sent when it was killed is not sent again."""
    code = (
        "import asyncio, hermes, sys, time\n"
        "def show(done, total, path):\n"
        "    print(done, flush=True); time.sleep(0.05)\n"
        "async def main():\n"
        "    box = await hermes.Sandbox('local', name='kept', workspace=sys.argv[2]).open()\n"
        "    await box.files.put(sys.argv[1], 'copy', on_progress=show, resume=True)\n"
        "asyncio.run(main())\n"
    )
    code = "import hermes._transfer as t; t.REPORT_EVERY = 0\n" + code
    folder = tmp_path / "in"
    folder.mkdir()
    command = [sys.executable, "-c", code, str(big), str(folder)]
    client = await in_thread(lambda: subprocess.Popen(command, stdout=subprocess.PIPE))
    assert client.stdout is not None
    try:
        while int(await in_thread(client.stdout.readline)) < SIZE // 3:
            pass
    finally:
        client.send_signal(signal.SIGKILL)
        await in_thread(client.wait)
        client.stdout.close()
    box = await Sandbox("local", name="kept", workspace=str(folder), approval="off").open()
    try:
        told: list[int] = []
        await box.files.put(big, "copy", on_progress=lambda done, *_: told.append(done), resume=True)
        assert told[0] > SIZE // 8
        assert await in_thread(sha, folder / "copy") == await in_thread(sha, big)

        async def clean() -> bool:
            return not await in_thread(parts, folder)

        await eventually(clean)
    finally:
        await box.destroy()
