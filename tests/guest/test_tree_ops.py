"""Whole trees out of the guest and into it."""

from __future__ import annotations

import io
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guest._driver import Driver, OpFailed, small_disk, wait_until
from guest.test_archive import END, entry, everything, folder, link, make_tree, packed, unpacked


def get(driver: Driver, path: str) -> tuple[dict[str, Any], bytes]:
    return driver.collect("tree.get", path=path)


def put(driver: Driver, data: bytes, path: str, **args: Any) -> dict[str, Any]:
    stream = driver.open("tree.put", path=path, **args)
    if stream.send(data):
        stream.eof()
    return stream.reply()[0]


@pytest.mark.parametrize("codec", ["binary", "text"])
def test_there_and_back(
    make_driver: Callable[..., Driver], cwd: Path, tmp_path: Path, codec: str, guest_python: str
) -> None:
    driver = make_driver(codec=codec, python=guest_python)
    make_tree(tmp_path / "tree")
    stats = put(driver, packed(tmp_path / "tree"), "here")
    assert everything(cwd / "here") == everything(tmp_path / "tree")
    back, data = get(driver, "here")
    unpacked(data, tmp_path / "back")
    assert everything(tmp_path / "back") == everything(tmp_path / "tree")
    assert stats["files"] == back["files"] == 6
    assert stats["bytes"] == back["bytes"]
    assert stats["outside"] == 1


def test_what_cannot_be_copied_is_counted(driver: Driver, cwd: Path) -> None:
    (cwd / "tree").mkdir()
    os.mkfifo(cwd / "tree/fifo")
    (cwd / "tree/a").write_text("a")
    stats, _ = get(driver, "tree")
    assert (stats["files"], stats["skipped"]) == (1, 1)


def test_the_destination_is_as_with_cp(driver: Driver, cwd: Path) -> None:
    data = folder(".") + entry("a", b"1") + END
    put(driver, data, "new", into="name")
    put(driver, data, "new", into="name")
    put(driver, data, "other/", into="name")
    put(driver, data, "x/y/z", into="name")
    put(driver, data, "plain")
    put(driver, data, "plain")
    for path in ("new/a", "new/name/a", "other/name/a", "x/y/z/a", "plain/a"):
        assert (cwd / path).read_text() == "1"
    assert os.listdir(cwd / "plain") == ["a"]


def test_what_is_missing_or_in_the_way_is_said(driver: Driver, cwd: Path) -> None:
    (cwd / "file").write_text("x")
    calls: dict[str, Callable[[], object]] = {
        "not_found": lambda: get(driver, "none"),
        "not_a_directory": lambda: get(driver, "file"),
        "exists": lambda: put(driver, folder(".") + END, "file/x"),
        "unsafe_path": lambda: put(driver, folder(".") + link("a", "..") + entry("a/b") + END, "tree"),
        "io": lambda: put(driver, b"nonsense" * 1000, "tree"),
    }
    for code, call in calls.items():
        with pytest.raises(OpFailed) as caught:
            call()
        assert caught.value.code == code, caught.value
    with pytest.raises(OpFailed, match="file"):
        put(driver, folder(".") + entry("a") + END, "file")
    assert (cwd / "file").read_text() == "x"


def test_a_full_disk_ends_a_transfer_and_says_how_far_it_came(driver: Driver, tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        data = entry("a", bytes(500_000)) + entry("b", bytes(50_000_000)) + END
        with pytest.raises(OpFailed, match="after 1 files and") as caught:
            put(driver, data, str(disk / "tree"))
        assert caught.value.code == "no_space"
        assert caught.value.context["files"] == 1
        assert os.listdir(disk / "tree") == ["a"]
    wait_until(lambda: driver.children() == [])


def test_a_cancelled_put_removes_the_part_of_a_file(driver: Driver, cwd: Path) -> None:
    stream = driver.open("tree.put", path="tree")
    stream.send(folder(".") + entry("a", bytes(900_000))[:-300_000])
    wait_until(lambda: (cwd / "tree/a").exists())
    stream.cancel()
    driver.call("ping")
    wait_until(lambda: os.listdir(cwd / "tree") == [])
    wait_until(lambda: driver.children() == [])


def test_a_cancelled_get_ends_its_process(driver: Driver, cwd: Path) -> None:
    (cwd / "tree").mkdir()
    (cwd / "tree/a").write_bytes(bytes(30 << 20))
    before = sorted(driver.fds())
    stream = driver.open("tree.get", path="tree")
    assert stream.read()
    assert len(driver.children()) == 1
    stream.cancel()
    driver.call("ping")
    wait_until(lambda: driver.children() == [])
    assert sorted(driver.fds()) == before


def test_a_killed_child_is_an_error(driver: Driver, cwd: Path) -> None:
    (cwd / "tree").mkdir()
    (cwd / "tree/a").write_bytes(bytes(30 << 20))
    stream = driver.open("tree.get", path="tree")
    assert stream.read()
    os.kill(driver.children()[0], signal.SIGKILL)
    with pytest.raises(OpFailed, match="was killed"):
        stream.reply()
    stream = driver.open("tree.put", path="there")
    stream.send(folder(".") + entry("a", bytes(900_000))[:-300_000])
    os.kill(driver.children()[0], signal.SIGKILL)
    with pytest.raises(OpFailed, match="was killed"):
        stream.reply()


def test_a_guest_that_nobody_reaps_for_works_too(make_driver: Callable[..., Driver], cwd: Path) -> None:
    driver = make_driver(reaped=False)
    for _ in range(5):
        put(driver, folder(".") + entry("a", b"1") + END, "tree")
        get(driver, "tree")
    assert driver.children() == []


def test_a_slow_client_stops_the_child(driver: Driver, cwd: Path) -> None:
    (cwd / "tree").mkdir()
    (cwd / "tree/a").write_bytes(bytes(30 << 20))
    stream = driver.open("tree.get", path="tree")
    assert stream.read()
    time.sleep(0.3)
    driver.call("ping")
    assert sum(len(data) for _, data in stream.held) <= 1 << 20
    data = io.BytesIO()
    while (piece := stream.read()) is not None:
        data.write(piece)
    assert stream.reply()[0]["bytes"] == 30 << 20


def test_a_transfer_goes_on_after_the_connection_broke(driver: Driver, cwd: Path, tmp_path: Path) -> None:
    (cwd / "tree").mkdir()
    content = os.urandom(5 << 20)
    (cwd / "tree/a").write_bytes(content)
    stream = driver.open("tree.get", path="tree")
    got = [stream.read() or b""]
    driver.disconnect()
    driver.connect()
    while (piece := stream.read()) is not None:
        got.append(piece)
    stream.reply()
    unpacked(b"".join(got), tmp_path / "copy")
    assert (tmp_path / "copy/a").read_bytes() == content


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_gigabytes_in_flat_memory(make_driver: Callable[..., Driver], cwd: Path) -> None:
    driver = make_driver()
    (cwd / "tree").mkdir()
    with open(cwd / "tree/big", "wb") as file:
        file.truncate(2 << 30)
    driver.call("ping")
    stream = driver.open("tree.get", path="tree")
    size = 0
    while (piece := stream.read()) is not None:
        size += len(piece)
    assert stream.reply()[0]["bytes"] == 2 << 30
    assert size > 2 << 30
    assert driver.rss("VmHWM") < 64 << 20
