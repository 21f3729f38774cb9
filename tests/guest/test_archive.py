"""The tar streams of trees: what is written is a tar, and nothing read from one leads outside."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guest._driver import small_disk
from hermes.guest import archive
from hermes.guest.archive import Stats, TreeError, header, pack, unpack

END = bytes(1024)


def packed(top: Path) -> bytes:
    out = io.BytesIO()
    pack(os.fsencode(top), out.write, Stats())
    return out.getvalue()


def unpacked(data: bytes, root: Path, *, piece: int = 1 << 18) -> Stats:
    stats = Stats()
    source = io.BytesIO(data)
    unpack(lambda: source.read(piece), os.fsencode(root), stats)
    return stats


def entry(name: str, content: bytes = b"", mode: int = 0o644) -> bytes:
    return header(name.encode(), b"0", mode, len(content), 0) + archive.padded(content)


def link(name: str, target: str) -> bytes:
    return header(name.encode(), b"2", 0o777, 0, 0, target.encode())


def folder(name: str, mode: int = 0o755) -> bytes:
    return header(name.encode(), b"5", mode, 0, 0)


def everything(root: Path) -> dict[str, tuple[object, ...]]:
    """What is below a directory, with all that a copy keeps."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(root.rglob("*")):
        info = path.lstat()
        what: object = None
        if path.is_symlink():
            what = os.readlink(path)
        elif path.is_file():
            what = path.read_bytes()
        found[str(path.relative_to(root))] = (info.st_mode, info.st_mtime_ns, what)
    return found


def make_tree(root: Path) -> None:
    root.mkdir()
    (root / "a").write_bytes(b"a" * 1000)
    (root / "empty").write_bytes(b"")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    deep = root / "sub" / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True)
    (deep / ("f" * 200)).write_bytes(os.urandom(300_000))
    (root / "sub" / "ü€\udcff").write_bytes(b"odd")
    (root / "rel").symlink_to("sub/a")
    (root / "abs").symlink_to("/etc/passwd")
    (root / "long").symlink_to("x/" * 90)
    (root / "closed").mkdir()
    (root / "closed" / "in").write_text("x")
    os.utime(root / "a", ns=(1, 1_234_567_890_123_456_789))
    os.utime(root / "sub", ns=(1, 1_000_000_000_000_000_001))
    (root / "closed").chmod(0o500)


@pytest.mark.parametrize("piece", [1, 511, 1 << 18])
def test_a_tree_comes_back_as_it_was(tmp_path: Path, piece: int) -> None:
    make_tree(tmp_path / "tree")
    os.mkfifo(tmp_path / "tree/fifo")
    data = packed(tmp_path / "tree")
    stats = unpacked(data, tmp_path / "copy", piece=piece)
    (tmp_path / "tree/fifo").unlink()
    tree, copy = everything(tmp_path / "tree"), everything(tmp_path / "copy")
    assert list(tree) == list(copy)
    assert tree == copy
    assert stats.counts() == {
        "files": 6,
        "folders": 5,
        "links": 3,
        "bytes": 1000 + 10 + 300_000 + 3 + 1,
        "outside": 1,
        "skipped": 0,
        "changed": 0,
    }


def test_other_programs_read_what_is_written(tmp_path: Path) -> None:
    make_tree(tmp_path / "tree")
    data = packed(tmp_path / "tree")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        names = {os.path.normpath(one.name) for one in tar}
    assert names == {".", *everything(tmp_path / "tree")}
    (tmp_path / "copy").mkdir()
    subprocess.run(["tar", "-xpf-", "-C", tmp_path / "copy"], input=data, check=True)
    tree, copy = everything(tmp_path / "tree"), everything(tmp_path / "copy")
    seconds = {
        name: (mode, int(str(mtime)) // 10**9, what)
        for name, (mode, mtime, what) in tree.items()
        if not name.startswith(("rel", "abs", "long"))
    }
    for name, wanted in seconds.items():
        mode, mtime, what = copy[name]
        assert (mode, int(str(mtime)) // 10**9, what) == wanted, name


@pytest.mark.parametrize("size", [(1 << 33) - 1, 1 << 33, 1 << 40])
def test_sizes_of_many_gigabytes_are_announced(size: int) -> None:
    data = header(b"big", b"0", 0o644, size, -5)
    source = archive.Source(io.BytesIO(data).read)
    found = next(archive.entries(source))
    assert found == (b"big", b"0", 0o644, size, 0, b"")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r|") as tar:
        member = tar.next()
        assert member is not None
        assert member.size == size


@pytest.mark.parametrize("length", [99, 100, 101, 155, 156, 255, 256, 257, 300, 5000])
def test_names_of_every_length(length: int) -> None:
    for name in ("n" * length, ("d/" * length)[: length - 1] + "e", "a" * 60 + "/" + "n" * (length - 61)):
        data = header(name.encode(), b"2", 0o777, 0, 10**18 + 7, name.encode()) + END
        found = list(archive.entries(archive.Source(io.BytesIO(data).read)))
        assert found == [(name.encode(), b"2", 0o777, 0, 10**18 + 7, name.encode())]
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            member = tar.getmembers()[0]
        assert (member.name, member.linkname) == (name, name)


def test_a_file_that_shrinks_is_filled_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a").write_bytes(b"x" * 700_000)
    reads = iter([b"x" * 100_000])
    monkeypatch.setattr("os.read", lambda fd, size: next(reads, b""))
    out = io.BytesIO()
    stats = Stats()
    pack(os.fsencode(tmp_path / "tree"), out.write, stats)
    monkeypatch.undo()
    assert stats.changed == 1
    unpacked(out.getvalue(), tmp_path / "copy")
    assert (tmp_path / "copy/a").read_bytes() == b"x" * 100_000 + bytes(600_000)


HOSTILE = {
    "absolute": entry("/outside/evil"),
    "dots": entry("../outside/evil"),
    "dots inside": folder("a") + entry("a/../../outside/evil"),
    "dot": entry("./a"),
    "empty part": folder("a") + entry("a//b"),
    "no name": entry(""),
    "the root as a file": entry("."),
    "the root as a link": link(".", "outside"),
    "trailing slash": entry("a/"),
    "through a link": link("a", "../outside") + entry("a/evil"),
    "through an absolute link": link("a", "OUTSIDE") + entry("a/evil"),
    "through a link to a link": link("b", "../outside") + link("a", "b") + entry("a/evil"),
    "through a link deep inside": folder("x") + link("x/a", "../../outside") + folder("x/a/evil"),
    "a link that becomes a directory": link("a", "../outside") + folder("a") + entry("a/evil"),
    "through a file": entry("a", b"x") + entry("a/evil"),
    "no parent": entry("a/evil"),
    "a hard link": header(b"evil", b"1", 0o644, 0, 0, b"../outside/kept"),
    "a device": header(b"evil", b"3", 0o644, 0, 0),
    "a fifo": header(b"evil", b"6", 0o644, 0, 0),
    "a sparse file": header(b"evil", b"S", 0o644, 1 << 60, 0),
    "a GNU long name": header(b"././@LongLink", b"L", 0o644, 5, 0) + archive.padded(b"evil\0"),
    "a link with content": header(b"evil", b"2", 0o644, 512, 0, b"x") + bytes(512),
    "a directory with content": header(b"evil", b"5", 0o644, 512, 0) + bytes(512),
    "a link without a target": link("evil", ""),
    "NUL in a long name": header(b"././@PaxHeader", b"x", 0, 18, 0)
    + archive.padded(b"18 path=ab\0evilxx\n")
    + entry("x"),
    "a huge extended header": header(b"x", b"x", 0, 1 << 40, 0),
    "two extended headers": 2 * (header(b"x", b"x", 0, 11, 0) + archive.padded(b"11 path=ab\n")) + entry("x"),
    "an odd extended header": header(b"x", b"x", 0, 11, 0) + archive.padded(b"99 path=ab\n") + entry("x"),
    "a negative length": header(b"x", b"x", 0, 11, 0) + archive.padded(b"-1 path=ab\n") + entry("x"),
    "a length of nothing": header(b"x", b"x", 0, 11, 0) + archive.padded(b"0 path=abc\n") + entry("x"),
    "a negative size": header(b"x", b"x", 0, 12, 0) + archive.padded(b"12 size=-10\n") + entry("x"),
    "a size beyond all files": header(b"x", b"x", 0, 33, 0)
    + archive.padded(b"33 size=" + b"9" * 24 + b"\n")
    + entry("x"),
    "a wrong checksum": entry("evil").replace(b"evil", b"evim", 1),
    "noise": b"\xff" * 2048,
    "data after the end": entry("a") + END + entry("evil"),
    "no end": entry("a"),
    "cut in a file": entry("a", b"x" * 2000)[:-700],
    "a name too long": header(b"x/" * 9000 + b"x", b"0", 0o644, 0, 0),
    "a file where a directory is": folder("a") + entry("a", b"x"),
    "a link where a directory is": folder("a") + link("a", "../outside"),
    "a directory where a file is": entry("a", b"x") + folder("a"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_stream_is_refused(tmp_path: Path, case: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    data = HOSTILE[case].replace(b"OUTSIDE", os.fsencode(outside)[:7]) + END
    if case == "through an absolute link":
        data = link("a", str(outside)) + entry("a/evil") + END
    if case in ("no end", "cut in a file"):
        data = HOSTILE[case]
    fds = len(os.listdir("/proc/self/fd"))
    with pytest.raises((TreeError, OSError)):
        unpacked(data, tmp_path / "root")
    assert len(os.listdir("/proc/self/fd")) == fds
    assert everything(outside) == {
        "kept": ((outside / "kept").lstat().st_mode, (outside / "kept").lstat().st_mtime_ns, b"kept")
    }
    assert sorted(os.listdir(tmp_path)) == ["outside", "root"]
    left = [path for path in (tmp_path / "root").rglob("*") if "evil" in path.name or "hermes" in path.name]
    assert left == []


def test_links_that_were_there_before_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    root = tmp_path / "root"
    root.mkdir()
    (root / "dir").symlink_to(outside)
    (root / "file").symlink_to(outside / "file")
    unpacked(entry("file", b"new") + END, root)
    assert not (root / "file").is_symlink()
    assert (outside / "file").read_text() == "kept"
    with pytest.raises(TreeError) as caught:
        unpacked(folder("dir") + END, root)
    assert caught.value.code == "not_a_directory"
    with pytest.raises(TreeError) as caught:
        unpacked(entry("dir/evil", b"new") + END, root)
    assert caught.value.code == "unsafe_path"
    assert os.listdir(outside) == ["file"]


def test_what_is_there_is_replaced_or_merged(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub").chmod(0o711)
    (root / "a").write_text("old")
    (root / "sub/kept").write_text("kept")
    (root / "b").symlink_to("old")
    stats = unpacked(
        folder(".", 0o700)
        + entry("a", b"new")
        + folder("sub", 0o700)
        + entry("sub/x", b"1")
        + link("b", "new")
        + END,
        root,
    )
    assert (root / "a").read_text() == "new"
    assert os.readlink(root / "b") == "new"
    assert sorted(os.listdir(root / "sub")) == ["kept", "x"]
    assert (root / "sub").stat().st_mode & 0o777 == 0o711
    assert sorted(os.listdir(root)) == ["a", "b", "sub"]
    assert (stats.files, stats.folders, stats.links) == (2, 2, 1)


def test_special_bits_are_dropped(tmp_path: Path) -> None:
    unpacked(folder(".") + entry("a", b"", 0o6755) + folder("b", 0o7777) + END, tmp_path / "root")
    assert (tmp_path / "root/a").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "root/b").stat().st_mode & 0o7777 == 0o777
    (tmp_path / "root/a").chmod(0o4755)
    assert b"0004755" not in packed(tmp_path / "root")


def test_a_full_disk_removes_the_part_of_a_file(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        (disk / "old").write_text("old")
        stats = Stats()
        source = io.BytesIO(entry("a", b"x" * 200_000) + entry("old", b"x" * 2_000_000) + END)
        with pytest.raises(OSError, match="No space") as caught:
            unpack(lambda: source.read(1 << 18), os.fsencode(disk), stats)
        code, text = archive.explain(caught.value, stats)
        assert code == "no_space"
        assert "at old, after 1 files" in text
        assert sorted(os.listdir(disk)) == ["a", "old"]
        assert (disk / "old").read_text() == "old"


def test_deep_trees_do_not_use_up_descriptors(tmp_path: Path) -> None:
    name, data = "d", folder(".")
    for _ in range(300):
        data += folder(name)
        name += "/d"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, hard))
    try:
        stats = unpacked(data + END, tmp_path / "root")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert stats.folders == 301


NAMES = st.sampled_from(["a", "b", "a/b", "a/b/c", "..", "../x", "/x", ".", "a/../b", "", "a/", "x" * 300])
ENTRIES = st.one_of(
    st.builds(entry, NAMES, st.binary(max_size=2000), st.integers(0, 0o7777)),
    st.builds(link, NAMES, st.sampled_from(["..", "../outside", "/", "a", "b", "."])),
    st.builds(folder, NAMES),
    st.binary(max_size=600),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("place")


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(ENTRIES, max_size=8), st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=3)
)
def test_no_stream_writes_outside(place: Path, parts: list[bytes], flips: list[tuple[int, int]]) -> None:
    subprocess.run(["rm", "-rf", place / "root", place / "outside"], check=True)
    (place / "outside").mkdir()
    data = bytearray(b"".join(parts) + END)
    for at, value in flips:
        data[at % len(data)] = value
    before = sorted(os.listdir(place.parent))
    with contextlib.suppress(TreeError, OSError):
        unpacked(bytes(data), place / "root", piece=700)
    assert os.listdir(place / "outside") == []
    assert set(os.listdir(place)) <= {"outside", "root"}
    assert sorted(os.listdir(place.parent)) == before
