"""File operations of the guest, without a host."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guest._driver import Driver, OpFailed, small_disk, wait_until

SMALL = 1 << 17


def write(driver: Driver, path: str, data: bytes, *, op: str = "file.write", **args: Any) -> dict[str, Any]:
    """Write as a host does: small content in the call, more as a stream."""
    if len(data) <= SMALL:
        return driver.call(op, data, path=path, **args)[0]
    stream = driver.open(op, path=path, stream=True, **args)
    if stream.send(data):
        stream.eof()
    return stream.reply()[0]


def failing(driver: Driver, code: str, op: str, **args: Any) -> OpFailed:
    with pytest.raises(OpFailed) as caught:
        driver.collect(op, **args)
    assert caught.value.code == code, caught.value
    return caught.value


def names(driver: Driver, path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in driver.collect("file.list", path=path)[1].splitlines()]


def glob(driver: Driver, pattern: str, path: str = ".", **args: Any) -> list[str]:
    _, raw = driver.collect("file.glob", path=path, pattern=pattern, **args)
    return [json.loads(line) for line in raw.splitlines()]


def test_a_small_file_comes_back_in_one_message(driver: Driver, cwd: Path) -> None:
    content = bytes(range(256)) * 10
    assert write(driver, "a.bin", content) == {"bytes": len(content)}
    stream = driver.open("file.read", path="a.bin")
    assert stream.reply()[1] == content
    assert not stream.held
    assert (cwd / "a.bin").read_bytes() == content


@pytest.mark.parametrize("size", [0, 1, SMALL - 1, SMALL, SMALL + 1, (1 << 20) + 1, 5_000_000])
def test_every_size_survives_both_ways(driver: Driver, cwd: Path, size: int) -> None:
    content = os.urandom(size)
    assert write(driver, "a", content)["bytes"] == size
    assert (cwd / "a").read_bytes() == content
    assert driver.collect("file.read", path="a")[1] == content


def test_a_part_is_read(driver: Driver, cwd: Path) -> None:
    content = os.urandom(400_000)
    (cwd / "a").write_bytes(content)
    for offset, count in [(0, 10), (399_990, 100), (400_000, 5), (500_000, 5), (1, None), (100_000, 250_000)]:
        wanted = content[offset:] if count is None else content[offset : offset + count]
        assert driver.collect("file.read", path="a", offset=offset, n=count)[1] == wanted
    assert driver.collect("file.read", path="a", n=0)[1] == b""


def test_more_than_the_limit_is_refused_but_a_part_is_read(driver: Driver, cwd: Path) -> None:
    (cwd / "a").write_bytes(bytes(1000))
    error = failing(driver, "too_large", "file.read", path="a", limit=999)
    assert error.context == {"path": "a"}
    assert len(driver.collect("file.read", path="a", limit=999, n=1000)[1]) == 1000
    assert len(driver.collect("file.read", path="a", limit=999, offset=1)[1]) == 999


def test_a_file_without_a_size_is_read(driver: Driver) -> None:
    for path in ("/proc/self/status", "/proc/cpuinfo", "/proc/kallsyms"):
        if Path(path).read_bytes():
            assert driver.collect("file.read", path=path)[1]


def test_nothing_hangs_on_what_is_no_file(driver: Driver, cwd: Path) -> None:
    os.mkfifo(cwd / "fifo")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(cwd / "socket"))
    (cwd / "link").symlink_to("fifo")
    for path in ("fifo", "socket", "link", "/dev/zero", "/dev/tty"):
        for op in ("file.read", "file.write", "file.append"):
            error = failing(driver, "io", op, path=path)
            assert "not a regular file" in error.message
    server.close()
    assert not Path("/dev/zero").is_file()


@pytest.mark.parametrize("codec", ["binary", "text"])
def test_a_slow_reader_stops_the_guest(make_driver: Callable[..., Driver], cwd: Path, codec: str) -> None:
    driver = make_driver(codec=codec)
    content = os.urandom(20 << 20)
    (cwd / "a").write_bytes(content)
    stream = driver.open("file.read", path="a")
    first = stream.read()
    assert first is not None
    time.sleep(0.2)
    driver.call("ping")
    assert sum(len(data) for _, data in stream.held) <= 1 << 20
    digest = hashlib.sha256(first)
    while (data := stream.read()) is not None:
        digest.update(data)
    assert digest.digest() == hashlib.sha256(content).digest()
    assert stream.reply()[0]["size"] == len(content)


def test_other_calls_are_served_during_a_long_read(driver: Driver, cwd: Path) -> None:
    (cwd / "a").write_bytes(bytes(50 << 20))
    stream = driver.open("file.read", path="a")
    for _ in range(20):
        assert stream.read()
        assert "time" in driver.call("ping")[0]


def test_a_read_that_is_cancelled_closes_its_file(driver: Driver, cwd: Path) -> None:
    (cwd / "a").write_bytes(bytes(50 << 20))
    stream = driver.open("file.read", path="a")
    stream.read()
    assert str(cwd / "a") in driver.fds()
    stream.cancel()
    driver.call("ping")
    assert str(cwd / "a") not in driver.fds()


def test_a_read_goes_on_after_the_connection_broke(driver: Driver, cwd: Path) -> None:
    content = os.urandom(10 << 20)
    (cwd / "a").write_bytes(content)
    stream = driver.open("file.read", path="a")
    got = [stream.read() for _ in range(6)]
    driver.disconnect()
    time.sleep(0.1)
    assert driver.connect()["known"]
    while (data := stream.read()) is not None:
        got.append(data)
    assert b"".join(data for data in got if data) == content


def test_a_write_replaces_the_file_as_a_whole(driver: Driver, cwd: Path) -> None:
    (cwd / "a").write_text("old")
    stream = driver.open("file.write", path="a", stream=True)
    stream.send(b"x" * 1_000_000)
    driver.call("ping")
    assert (cwd / "a").read_text() == "old"
    stream.eof()
    assert stream.reply()[0] == {"bytes": 1_000_000}
    assert (cwd / "a").read_bytes() == b"x" * 1_000_000
    assert os.listdir(cwd) == ["a"]


@pytest.mark.parametrize("how", ["cancel", "lost"])
def test_a_write_that_does_not_end_leaves_the_old_file(
    make_driver: Callable[..., Driver], cwd: Path, how: str
) -> None:
    driver = make_driver()
    (cwd / "a").write_text("old")
    stream = driver.open("file.write", path="a", stream=True)
    stream.send(b"x" * 300_000)
    driver.call("ping")
    assert len(os.listdir(cwd)) == 2
    if how == "cancel":
        stream.cancel()
        driver.call("ping")
    else:
        from hermes.guest import frames

        driver.link.control(frames.BYE)
        driver._flush()
        driver.disconnect()
        wait_until(lambda: os.listdir(cwd) == ["a"])
        driver.client += "2"
        driver.link = type(driver.link)(driver.codec.chunk)
        driver.connect()
    assert os.listdir(cwd) == ["a"]
    assert (cwd / "a").read_text() == "old"


def test_a_mode_is_given_kept_or_the_default(driver: Driver, cwd: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    write(driver, "a", b"1")
    assert (cwd / "a").stat().st_mode & 0o7777 == 0o666 & ~umask
    (cwd / "a").chmod(0o751)
    write(driver, "a", b"2")
    assert (cwd / "a").stat().st_mode & 0o7777 == 0o751
    write(driver, "a", b"3", mode=0o600)
    assert (cwd / "a").stat().st_mode & 0o7777 == 0o600
    write(driver, "b", b"4", mode=0o755, mtime_ns=1_500_000_000_123_456_789)
    assert (cwd / "b").stat().st_mtime_ns == 1_500_000_000_123_456_789


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_an_owner_is_kept(driver: Driver, cwd: Path) -> None:
    (cwd / "a").write_text("old")
    os.chown(cwd / "a", 1234, 2345)
    write(driver, "a", b"new")
    info = (cwd / "a").stat()
    assert (info.st_uid, info.st_gid, (cwd / "a").read_text()) == (1234, 2345, "new")


def test_a_write_goes_through_a_link_to_its_target(driver: Driver, cwd: Path) -> None:
    (cwd / "dir").mkdir()
    (cwd / "dir/target").write_text("old")
    (cwd / "link").symlink_to("dir/target")
    write(driver, "link", b"new")
    assert (cwd / "link").is_symlink()
    assert (cwd / "dir/target").read_text() == "new"
    assert os.listdir(cwd / "dir") == ["target"]
    (cwd / "dangling").symlink_to("dir/other")
    write(driver, "dangling", b"made")
    assert (cwd / "dir/other").read_text() == "made"
    (cwd / "loop").symlink_to("loop")
    failing(driver, "io", "file.write", path="loop")
    failing(driver, "io", "file.read", path="loop")


def test_missing_parents_are_made_when_asked(driver: Driver, cwd: Path) -> None:
    failing(driver, "not_found", "file.write", path="x/y/a")
    write(driver, "x/y/a", b"1", parents=True)
    assert (cwd / "x/y/a").read_text() == "1"
    failing(driver, "not_a_directory", "file.write", path="x/y/a/b")
    error = failing(driver, "exists", "file.write", path="x/y/a/b", parents=True)
    assert "x/y/a/b" in error.message


def test_a_write_into_a_directory_takes_the_name(driver: Driver, cwd: Path) -> None:
    (cwd / "dir").mkdir()
    write(driver, "dir", b"1", into="a")
    write(driver, "new/", b"2", into="a", parents=True)
    write(driver, "other", b"3", into="a")
    assert [(cwd / name).read_text() for name in ("dir/a", "new/a", "other")] == ["1", "2", "3"]
    failing(driver, "is_a_directory", "file.write", path="dir")
    failing(driver, "is_a_directory", "file.write", path="nothing/")


def test_appending(driver: Driver, cwd: Path) -> None:
    write(driver, "log", b"one\n", op="file.append")
    write(driver, "log", b"two\n", op="file.append")
    big = os.urandom(700_000)
    write(driver, "log", big, op="file.append")
    assert (cwd / "log").read_bytes() == b"one\ntwo\n" + big
    (cwd / "link").symlink_to("log")
    write(driver, "link", b"end", op="file.append")
    assert (cwd / "log").read_bytes().endswith(b"end")
    failing(driver, "is_a_directory", "file.append", path=".")


def test_a_full_disk_leaves_the_old_file_and_says_so(driver: Driver, tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        (disk / "a").write_text("old")
        for size in (100_000, 3_000_000):
            (disk / "fill").write_bytes(bytes(1_000_000))
            with pytest.raises(OpFailed) as caught:
                write(driver, str(disk / "a"), os.urandom(size))
            assert caught.value.code == "no_space"
            assert str(disk / "a") in caught.value.message
            (disk / "fill").unlink()
            assert (disk / "a").read_text() == "old"
            assert os.listdir(disk) == ["a"]
        with pytest.raises(OpFailed, match="no_space"):
            write(driver, str(disk / "log"), os.urandom(3_000_000), op="file.append")


def test_stat(driver: Driver, cwd: Path) -> None:
    (cwd / "a").write_text("12345")
    (cwd / "a").chmod(0o640)
    (cwd / "link").symlink_to("a")
    os.mkfifo(cwd / "fifo")
    found, _ = driver.call("file.stat", path="a")
    wanted = {"name": "a", "type": "file", "size": 5, "mode": 0o640, "target": None}
    assert found == {**wanted, "mtime_ns": (cwd / "a").stat().st_mtime_ns}
    found, _ = driver.call("file.stat", path="link")
    assert (found["type"], found["target"]) == ("link", "a")
    assert driver.call("file.stat", path="link", follow=True)[0]["type"] == "file"
    assert driver.call("file.stat", path="fifo")[0]["type"] == "other"
    assert driver.call("file.stat", path=".")[0]["type"] == "dir"
    error = failing(driver, "not_found", "file.stat", path="no\u00e9")
    assert "no\u00e9" in error.message
    assert error.context == {"path": "no\u00e9"}
    failing(driver, "not_a_directory", "file.stat", path="a/b")


def test_list(driver: Driver, cwd: Path) -> None:
    for name in ("b", "a", ".hidden"):
        (cwd / name).write_text(name)
    (cwd / "dir").mkdir()
    (cwd / "dangling").symlink_to("nothing")
    found = names(driver, ".")
    assert [(one["name"], one["type"]) for one in found] == [
        (".hidden", "file"),
        ("a", "file"),
        ("b", "file"),
        ("dangling", "link"),
        ("dir", "dir"),
    ]
    assert names(driver, "dir") == []
    failing(driver, "not_found", "file.list", path="none")
    failing(driver, "not_a_directory", "file.list", path="a")


def test_a_big_directory_is_listed_while_others_are_served(driver: Driver, cwd: Path) -> None:
    for number in range(30_000):
        os.close(os.open(cwd / f"file-{number:06}", os.O_CREAT | os.O_WRONLY))
    stream = driver.open("file.list", path=".")
    start = time.monotonic()
    driver.call("ping")
    waited = time.monotonic() - start
    body, raw = stream.reply()
    lines = (b"".join(data for _, data in stream.held) + raw).splitlines()
    assert body == {}
    assert [json.loads(line)["name"] for line in lines] == [f"file-{number:06}" for number in range(30_000)]
    assert waited < 0.2
    assert len(glob(driver, "*7")) == 3000
    body, raw = driver.collect("file.glob", path=".", pattern="*", limit=100)
    assert body == {"truncated": True}
    assert len(raw.splitlines()) == 100


def test_names_that_are_no_text_survive(driver: Driver, cwd: Path) -> None:
    odd = [b"caf\xe9", b"\xff\xfe", "ü€😀".encode(), b"new\nline", b"quote'\"\\", b"-dash", b" "]
    for name in odd:
        with open(os.path.join(os.fsencode(cwd), name), "wb") as file:
            file.write(name)
    listed = [one["name"] for one in names(driver, ".")]
    assert sorted(name.encode("utf-8", "surrogateescape") for name in listed) == sorted(odd)
    assert sorted(glob(driver, "*")) == sorted(listed)
    for name in listed:
        assert driver.call("file.read", path=name)[1] == name.encode("utf-8", "surrogateescape")
        assert driver.call("file.stat", path=name)[0]["name"] == name
        driver.call("file.move", path=name, to=name + "é")
        driver.call("file.remove", path=name + "é")
    assert names(driver, ".") == []


@pytest.mark.parametrize("path", ["a\0b", "\ud800", 7, None, ["a"]])
def test_what_is_no_path_is_refused(driver: Driver, path: Any) -> None:
    for op in ("file.read", "file.write", "file.list", "file.remove", "file.mkdir", "tree.get", "tree.put"):
        failing(driver, "unsafe_path", op, path=path)
    failing(driver, "not_found", "file.read", path="")
    failing(driver, "not_found", "file.remove", path="")
    failing(driver, "bad_request", "file.read")


def make_tree(root: Path) -> None:
    for name in (
        "a.py",
        "b.txt",
        ".hidden.py",
        "src/a.py",
        "src/deep/er/b.py",
        "src/deep/c.txt",
        ".git/x.py",
        "src/.cache/y.py",
        "x/src/z.py",
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (root / "loop").symlink_to(".")
    (root / "link").symlink_to("src/deep")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["a.py"]),
        ("**/*.py", ["a.py", "src/a.py", "src/deep/er/b.py", "x/src/z.py"]),
        ("src/**/*.py", ["src/a.py", "src/deep/er/b.py"]),
        ("src/**", ["src/a.py", "src/deep", "src/deep/c.txt", "src/deep/er", "src/deep/er/b.py"]),
        ("**/src/**/*.py", ["src/a.py", "src/deep/er/b.py", "x/src/z.py"]),
        ("**/", ["link", "loop", "src", "src/deep", "src/deep/er", "x", "x/src"]),
        ("s*/", ["src"]),
        ("s*/?.py", ["src/a.py"]),
        ("s*/deep/[a-c].*", ["src/deep/c.txt"]),
        (".*.py", [".hidden.py"]),
        (".git/*", [".git/x.py"]),
        ("link/*", ["link/c.txt", "link/er"]),
        ("l*/*.txt", []),
        ("*/deep/er/*", ["src/deep/er/b.py"]),
        ("[s]*/../link/*", []),
        ("src", ["src"]),
        ("./src/", ["src"]),
        ("none", []),
        ("none/*", []),
        ("a.py/*", []),
        ("a.py/", []),
        ("[", []),
        ("[z-a]*", []),
        ("**/**/z.py", ["x/src/z.py"]),
        ("*/**/z.py", ["x/src/z.py"]),
    ],
)
def test_glob(driver: Driver, cwd: Path, pattern: str, found: list[str]) -> None:
    make_tree(cwd)
    assert glob(driver, pattern) == found


def test_glob_from_elsewhere(driver: Driver, cwd: Path) -> None:
    make_tree(cwd / "tree")
    assert glob(driver, "*.py", "tree/src") == ["a.py"]
    assert glob(driver, f"{cwd}/tree/s*/*.py") == [f"{cwd}/tree/src/a.py"]
    assert glob(driver, "../*/a.py", "tree/x") == ["../src/a.py"]
    failing(driver, "not_found", "file.glob", path="none", pattern="*")


def test_mkdir(driver: Driver, cwd: Path) -> None:
    driver.call("file.mkdir", path="a/b/c", parents=True)
    driver.call("file.mkdir", path="a/b/c", parents=True)
    assert (cwd / "a/b/c").is_dir()
    failing(driver, "exists", "file.mkdir", path="a")
    failing(driver, "not_found", "file.mkdir", path="x/y")
    (cwd / "file").write_text("")
    failing(driver, "exists", "file.mkdir", path="file", parents=True)


def test_remove_takes_links_not_their_targets(driver: Driver, cwd: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("")
    (cwd / "link").symlink_to(kept)
    driver.call("file.remove", path="link/")
    (cwd / "link").symlink_to(kept)
    driver.call("file.remove", path="link", recursive=True)
    (cwd / "tree").mkdir()
    (cwd / "tree/link").symlink_to(kept)
    (cwd / "tree/file").write_text("")
    error = failing(driver, "exists", "file.remove", path="tree")
    assert "not empty" in error.message
    driver.call("file.remove", path="tree", recursive=True)
    assert os.listdir(cwd) == []
    assert (kept / "file").exists()
    failing(driver, "not_found", "file.remove", path="tree")
    (cwd / "empty").mkdir()
    driver.call("file.remove", path="empty")
    assert os.listdir(cwd) == []


def test_what_the_sandbox_stands_on_is_never_removed(driver: Driver, cwd: Path) -> None:
    (cwd / "a").mkdir()
    (cwd / "up").symlink_to("..")
    paths = [
        "/",
        "//",
        ".",
        "./",
        "..",
        "a/..",
        "/..",
        str(cwd),
        str(cwd.parent),
        os.path.expanduser("~"),
    ]
    for path in [*paths, f"up/{cwd.name}", f"a/../../{cwd.name}"]:
        failing(driver, "unsafe_path", "file.remove", path=path, recursive=True)
        failing(driver, "unsafe_path", "file.move", path=path, to="/tmp/x")
    assert (cwd / "a").is_dir()


def test_move(driver: Driver, cwd: Path) -> None:
    (cwd / "a").write_text("1")
    driver.call("file.move", path="a", to="b")
    (cwd / "dir").mkdir()
    driver.call("file.move", path="b", to="dir")
    assert (cwd / "dir/b").read_text() == "1"
    (cwd / "c").write_text("2")
    driver.call("file.move", path="c", to="dir/b")
    assert (cwd / "dir/b").read_text() == "2"
    (cwd / "link").symlink_to("dir")
    driver.call("file.move", path="link", to="moved")
    assert (cwd / "moved").is_symlink()
    driver.call("file.move", path="dir", to="other")
    assert (cwd / "other/b").exists()
    failing(driver, "not_found", "file.move", path="none", to="x")
    error = failing(driver, "io", "file.move", path="other", to="other/c")
    assert "other to other/c" in error.message
    (cwd / "x").mkdir()
    (cwd / "x/other").mkdir()
    (cwd / "x/other/full").write_text("")
    failing(driver, "exists", "file.move", path="other", to="x")


def test_move_to_another_file_system(driver: Driver, cwd: Path) -> None:
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK) or shm.stat().st_dev == cwd.stat().st_dev:
        pytest.skip("there is no second file system")
    make_tree(cwd / "tree")
    target = shm / f"hermes-test-{os.getpid()}"
    try:
        driver.call("file.move", path="tree", to=str(target))
        assert not (cwd / "tree").exists()
        assert (target / "src/deep/er/b.py").exists()
        assert (target / "loop").is_symlink()
        driver.call("file.move", path=str(target), to="back")
        assert (cwd / "back/src/a.py").exists()
    finally:
        import shutil

        shutil.rmtree(target, ignore_errors=True)


def test_what_is_not_allowed_is_said(driver: Driver, tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        (disk / "a").write_text("")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for op in ("file.write", "file.append", "file.remove"):
            failing(driver, "permission", op, path=str(disk / "a"))
        failing(driver, "permission", "file.mkdir", path=str(disk / "b"))


def test_a_big_tree_is_removed_while_others_are_served(driver: Driver, cwd: Path) -> None:
    for folder in range(100):
        (cwd / f"tree/{folder}").mkdir(parents=True)
        for number in range(100):
            (cwd / f"tree/{folder}/{number}").write_text("")
    stream = driver.open("file.remove", path="tree", recursive=True)
    start = time.monotonic()
    driver.call("ping")
    assert time.monotonic() - start < 0.2
    stream.reply()
    assert os.listdir(cwd) == []
    wait_until(lambda: driver.children() == [])


def test_no_descriptor_and_no_process_is_left(driver: Driver, cwd: Path) -> None:
    def everything() -> None:
        write(driver, "a/b", os.urandom(300_000), parents=True)
        driver.collect("file.read", path="a/b")
        driver.collect("file.list", path="a")
        driver.collect("file.glob", path=".", pattern="**/*")
        for op in ("file.read", "file.list", "file.stat"):
            failing(driver, "not_found", op, path="none")
        failing(driver, "is_a_directory", "file.read", path="a")
        failing(driver, "is_a_directory", "file.write", path="a")
        driver.call("file.remove", path="a", recursive=True)

    everything()
    before = sorted(driver.fds())
    for _ in range(20):
        everything()
    wait_until(lambda: driver.children() == [])
    assert sorted(driver.fds()) == before


@pytest.mark.parametrize("args", [{"mode": "644"}, {"mtime_ns": 1 << 100}, {"mtime_ns": "now"}])
def test_a_write_with_nonsense_leaves_nothing(driver: Driver, cwd: Path, args: dict[str, Any]) -> None:
    for size in (10, 300_000):
        with pytest.raises(OpFailed) as caught:
            write(driver, "a", bytes(size), **args)
        assert caught.value.code == "bad_request"
    assert os.listdir(cwd) == []
    assert not [target for target in driver.fds() if str(cwd) in target]


def test_in_a_locale_without_unicode(cwd: Path, make_driver: Callable[..., Driver], monkeypatch: Any) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PYTHONCOERCECLOCALE", "0")
    monkeypatch.setenv("PYTHONUTF8", "0")
    from _plugins.pythons import pythons

    driver = make_driver(python=next(iter(pythons().values())))
    write(driver, "ü/é", b"1", parents=True)
    assert os.listdir(cwd) == ["ü"]
    assert [one["name"] for one in names(driver, "ü")] == ["é"]
    assert glob(driver, "**/é") == ["ü/é"]
    failing(driver, "not_found", "file.read", path="ß")
    driver.call("file.remove", path="ü", recursive=True)
    assert os.listdir(cwd) == []


def test_every_operation_on_every_python(
    cwd: Path, make_driver: Callable[..., Driver], guest_python: str
) -> None:
    for codec in ("binary", "text"):
        driver = make_driver(python=guest_python, codec=codec)
        content = os.urandom(1 << 19)
        write(driver, "a/b", content, parents=True)
        write(driver, "a/b", b"!", op="file.append")
        assert driver.collect("file.read", path="a/b")[1] == content + b"!"
        assert [one["size"] for one in names(driver, "a")] == [len(content) + 1]
        assert glob(driver, "**/b") == ["a/b"]
        driver.call("file.move", path="a", to="c")
        driver.call("file.mkdir", path="c/d")
        driver.call("file.remove", path="c", recursive=True)
        assert os.listdir(cwd) == []
