"""Files of a real sandbox, and what becomes of a guest that lies."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import resource
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from guest._driver import small_disk
from guest.test_archive import END, entry, everything, folder, link, make_tree
from hermes import Sandbox
from hermes.errors import FileError, HermesError, ProtocolError, Refused, SandboxGone
from hermes.files import Files, FileStat, TransferStats

MIB = 1 << 20


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "cwd"
    folder.mkdir()
    return folder


@pytest.fixture
async def box(cwd: Path) -> AsyncIterator[Sandbox]:
    async with Sandbox("local", cwd=str(cwd)) as box:
        yield box


@pytest.fixture
def files(box: Sandbox) -> Files:
    return box.files


async def failing(code: str, work: Any) -> FileError:
    with pytest.raises(FileError) as caught:
        await work
    assert caught.value.code == code, caught.value
    return caught.value


def sparse(path: Path, size: int) -> None:
    with open(path, "wb") as file:
        file.truncate(size)


def below(root: Path) -> list[str]:
    """The files below a directory."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("the condition did not come true")


# --- single files


@pytest.mark.parametrize("size", [0, 1, 100_000, 200_000, 3 * MIB + 1])
async def test_content_survives_both_ways(files: Files, cwd: Path, size: int) -> None:
    content = os.urandom(size)
    await files.write("x/y/a", content)
    assert (cwd / "x/y/a").read_bytes() == content
    assert await files.read("x/y/a") == content
    assert await files.read("x/y/a", offset=size // 2, n=1000) == content[size // 2 :][:1000]


async def test_text_and_streams_are_written(files: Files, cwd: Path) -> None:
    await files.write("a", "grün\n", mode=0o600)
    assert await files.read_text("a") == "grün\n"
    assert (cwd / "a").stat().st_mode & 0o777 == 0o600
    await files.append("a", "more")
    assert await files.read_text("a") == "grün\nmore"

    async def source() -> AsyncIterator[bytes]:
        for number in range(50):
            await asyncio.sleep(0)
            yield b"%d" % number * 20_000

    await files.write("b", source())
    assert (cwd / "b").read_bytes() == b"".join(b"%d" % number * 20_000 for number in range(50))
    await files.append("new/log", source(), parents=True)
    (cwd / "bad").write_bytes(b"\xff")
    assert await files.read_text("bad") == "\ufffd"


async def test_a_source_that_fails_leaves_the_old_file(files: Files, cwd: Path) -> None:
    await files.write("a", "old")

    async def source() -> AsyncIterator[bytes]:
        yield bytes(300_000)
        raise RuntimeError("the source is broken")

    with pytest.raises(RuntimeError, match="the source is broken"):
        await files.write("a", source())
    await files.list()
    assert os.listdir(cwd) == ["a"]
    assert (cwd / "a").read_text() == "old"


async def test_a_cancelled_write_leaves_the_old_file(files: Files, cwd: Path) -> None:
    await files.write("a", "old")
    started = asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        yield bytes(300_000)
        started.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(files.write("a", source()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await files.list()
    assert os.listdir(cwd) == ["a"]


async def test_an_endless_source_ends_when_the_write_has_failed(files: Files, tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:

        async def source() -> AsyncIterator[bytes]:
            yield bytes(2 * MIB)
            await asyncio.sleep(3600)

        error = await failing("no_space", files.write(str(disk / "a"), source()))
        assert error.path == str(disk / "a")
        assert os.listdir(disk) == []


async def test_facts_about_paths(files: Files, cwd: Path) -> None:
    (cwd / "a").write_text("12345")
    (cwd / "a").chmod(0o640)
    os.utime(cwd / "a", (1_700_000_000.5, 1_700_000_000.5))
    (cwd / "dir").mkdir()
    (cwd / "link").symlink_to("a")
    (cwd / "dangling").symlink_to("nothing")
    found = await files.stat("a")
    assert found == FileStat(name="a", type="file", size=5, mode=0o640, mtime=1_700_000_000.5)
    assert (await files.stat("link")).target == "a"
    assert (await files.stat("link", follow=True)).type == "file"
    assert [(one.name, one.type) for one in await files.list()] == [
        ("a", "file"),
        ("dangling", "link"),
        ("dir", "dir"),
        ("link", "link"),
    ]
    assert [await files.exists(name) for name in ("a", "dir", "link", "dangling", "no", "a/b")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
    error = await failing("not_found", files.stat("no"))
    assert error.path == "no"
    assert error.operation == "file.stat"
    assert str(error) == "No such file or directory: no"


async def test_directories_are_made_moved_and_removed(files: Files, cwd: Path) -> None:
    await files.mkdir("a/b")
    await files.mkdir("a/b")
    await failing("exists", files.mkdir("a", parents=False))
    await files.write("a/b/file", "x")
    await files.move("a/b", "c")
    await failing("exists", files.remove("c"))
    await files.remove("c", recursive=True)
    await files.remove("a")
    assert os.listdir(cwd) == []
    await failing("unsafe_path", files.remove(cwd, recursive=True))
    with pytest.raises(Refused):  # by the judge, before the guest would
        await files.remove("/", recursive=True)
    await failing("not_found", files.remove(""))


async def test_paths_are_found_by_pattern(files: Files, cwd: Path) -> None:
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/deep/d.txt"):
        await files.write(name, "")
    assert await files.glob("**/*.py") == ["a.py", "src/b.py", "src/deep/c.py"]
    assert await files.glob("*", root="src") == ["b.py", "deep"]
    error = await failing("too_large", files.glob("**", limit=3))
    assert "Narrow the pattern" in str(error)
    (cwd / "many").mkdir()
    for number in range(5000):
        os.close(os.open(cwd / f"many/file-{number:05}", os.O_CREAT))
    assert len(await files.glob("many/*")) == 5000
    assert [one.name for one in await files.list("many")] == [f"file-{number:05}" for number in range(5000)]


async def test_what_is_too_large_to_read_at_once_says_what_to_do(files: Files, cwd: Path) -> None:
    sparse(cwd / "a", (256 << 20) + 1)
    error = await failing("too_large", files.read("a"))
    assert "get()" in str(error)
    assert await files.read("a", offset=256 << 20) == b"\0"
    with pytest.raises(ValueError, match="0 or more"):
        await files.read("a", offset=-1)


async def test_odd_names_go_through(files: Files, cwd: Path, tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff ") + "\n'ü€"
    await files.write(name, "x")
    assert [one.name for one in await files.list()] == [name]
    assert await files.glob("*") == [name]
    await files.get(name, tmp_path / "out/")
    assert (tmp_path / "out").read_text() == "x"
    await files.put(tmp_path / "out", name + "2")
    assert (cwd / (name + "2")).read_text() == "x"


async def test_many_calls_at_once(files: Files) -> None:
    async def one(number: int) -> None:
        content = os.urandom(number * 5000)
        await files.write(f"f{number}", content)
        assert await files.read(f"f{number}") == content

    await asyncio.gather(*(one(number) for number in range(60)))


async def test_every_change_is_approved_first(cwd: Path) -> None:
    asked: list[str] = []

    async def refuse(path: str) -> None:
        asked.append(path)
        raise Refused("no")

    async with Sandbox("local", cwd=str(cwd)) as box:
        files = Files(box._channel, approve=refuse)
        (cwd / "old").write_text("old")
        for work in (
            files.write("a", "x"),
            files.append("b", "x"),
            files.mkdir("c"),
            files.remove("old"),
            files.move("old", "d"),
            files.put(cwd / "old", "e"),
        ):
            with pytest.raises(Refused):
                await work
        assert await files.read("old") == b"old"
    assert asked == ["a", "b", "c", "old", "old", "e"]
    assert os.listdir(cwd) == ["old"]


async def test_a_closed_sandbox_says_so(cwd: Path) -> None:
    async with Sandbox("local", cwd=str(cwd)) as box:
        files = box.files
    with pytest.raises(SandboxGone):
        await files.read("a")


# --- copies


async def test_a_tree_goes_in_and_out_as_it_is(files: Files, cwd: Path, tmp_path: Path) -> None:
    make_tree(tmp_path / "tree")
    done: list[tuple[int, int | None, str]] = []
    stats = await files.put(tmp_path / "tree", "there", on_progress=lambda *facts: done.append(facts))
    assert everything(cwd / "there") == everything(tmp_path / "tree")
    assert stats == TransferStats(files=6, bytes=301_014, folders=5, links=3, outside=1)
    assert done[-1][:2] == (301_014, 301_014)
    stats = await files.get("there", tmp_path / "back", on_progress=lambda *facts: done.append(facts))
    assert everything(tmp_path / "back") == everything(tmp_path / "tree")
    assert stats == TransferStats(files=6, bytes=301_014, folders=5, links=3, outside=1)
    assert done[-1][0] == 301_014


async def test_where_a_copy_goes(files: Files, cwd: Path, tmp_path: Path) -> None:
    """As with ``cp -r``, and a slash behind the source means what is in it."""
    local = tmp_path / "local"
    (local / "dir/sub").mkdir(parents=True)
    (local / "dir/sub/f").write_text("1")
    (local / "file").write_text("2")
    (cwd / "is").mkdir()

    await files.put(local / "dir", "new")  # becomes it
    await files.put(local / "dir", "new")  # goes inside
    await files.put(f"{local}/dir/", "is")  # the content
    await files.put(f"{local}/dir/.", "is2/deep")
    await files.put(local / "dir", "made/")
    await files.put(local / "file", "is")
    await files.put(local / "file", "x/y/name")
    await files.put(local / "file", "made/")
    wanted = ["is/file", "is/sub/f", "is2/deep/sub/f", "made/dir/sub/f", "made/file"]
    wanted += ["new/dir/sub/f", "new/sub/f", "x/y/name"]
    assert below(cwd) == wanted

    out = tmp_path / "out"
    out.mkdir()
    await files.get("new/sub", out / "a")
    await files.get("new/sub", out / "a")
    await files.get("new/sub/", out / "b")
    await files.get("new/sub/", out / "b")
    await files.get(".", out / "all")
    await files.get("is/file", out)
    await files.get("is/file", f"{out}/c/d/")
    await files.get("is/file", out / "e/f")
    assert set(below(out)) == {
        "a/f",
        "a/sub/f",
        "b/f",
        "file",
        "c/d/file",
        "e/f",
        *(f"all/{name}" for name in wanted),
    }


async def test_a_file_keeps_its_mode_and_time(files: Files, cwd: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(os.urandom(2 * MIB))
    (tmp_path / "a").chmod(0o4751)
    os.utime(tmp_path / "a", ns=(1, 1_600_000_000_123_456_789))
    stats = await files.put(tmp_path / "a", "a")
    await files.get("a", tmp_path / "b")
    for path in (cwd / "a", tmp_path / "b"):
        info = path.stat()
        assert (stat.S_IMODE(info.st_mode), info.st_mtime_ns) == (0o751, 1_600_000_000_123_456_789)
        assert path.read_bytes() == (tmp_path / "a").read_bytes()
    assert stats == TransferStats(files=1, bytes=2 * MIB)


async def test_links_named_on_the_command_are_followed(files: Files, cwd: Path, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to("real")
    await files.put(tmp_path / "link", "a")
    assert not (cwd / "a").is_symlink()
    (cwd / "dirlink").symlink_to(tmp_path)
    await files.get("dirlink", tmp_path / "out")
    assert (tmp_path / "out/real").read_text() == "x"


async def test_a_file_from_the_sandbox_is_never_written_through_a_link(
    files: Files, cwd: Path, tmp_path: Path
) -> None:
    (tmp_path / "precious").write_text("precious")
    out = tmp_path / "out"
    out.mkdir()
    (out / "a").symlink_to("../precious")
    (cwd / "a").write_text("from the sandbox")
    await files.get("a", out)
    assert (tmp_path / "precious").read_text() == "precious"
    assert (out / "a").read_text() == "from the sandbox"


async def test_files_without_a_size_are_fetched(files: Files, tmp_path: Path) -> None:
    await files.get("/proc/cpuinfo", tmp_path / "cpuinfo")
    assert b"processor" in (tmp_path / "cpuinfo").read_bytes()


async def test_what_cannot_be_copied_says_why(files: Files, cwd: Path, tmp_path: Path) -> None:
    error = await failing("not_found", files.put(tmp_path / "none", "a"))
    assert str(tmp_path / "none") in str(error)
    assert error.path == str(tmp_path / "none")
    await failing("not_found", files.get("none", tmp_path / "x"))
    os.mkfifo(tmp_path / "fifo")
    await failing("io", files.put(tmp_path / "fifo", "a"))
    os.mkfifo(cwd / "fifo")
    await failing("io", files.get("fifo", tmp_path / "x"))
    (tmp_path / "file").write_text("")
    (tmp_path / "dir/file").mkdir(parents=True)
    (cwd / "file").write_text("")
    (cwd / "dir").mkdir()
    await failing("is_a_directory", files.get("file", tmp_path / "dir"))
    await failing("exists", files.get("file", tmp_path / "file/x"))
    await failing("not_a_directory", files.get("dir/", tmp_path / "file"))
    await failing("io", files.put("a\0b", "x"))
    assert not (tmp_path / "x").exists()


async def test_a_full_disk_on_either_side(files: Files, cwd: Path, tmp_path: Path) -> None:
    (cwd / "tree").mkdir()
    (cwd / "tree/a").write_bytes(bytes(1000))
    (cwd / "tree/b").write_bytes(bytes(30 * MIB))
    with small_disk(tmp_path) as disk:
        error = await failing("no_space", files.get("tree", disk / "t"))
        assert error.context["files"] == 1
        assert "after 1 files" in str(error)
        assert os.listdir(disk / "t") == ["a"]
        error = await failing("no_space", files.get("tree/b", disk))
        assert error.path == str(disk / "b")
        assert os.listdir(disk) == ["t"]
        error = await failing("no_space", files.put(cwd / "tree", str(disk / "in")))
        assert error.context["files"] == 1
        assert os.listdir(disk / "in") == ["a"]
        await failing("no_space", files.put(cwd / "tree/b", str(disk)))
        assert sorted(os.listdir(disk)) == ["in", "t"]
    assert await files.read("tree/a") == bytes(1000)


async def test_a_cancelled_copy_leaves_nothing_half_written(files: Files, cwd: Path, tmp_path: Path) -> None:
    (cwd / "tree").mkdir()
    sparse(cwd / "tree/a", 2 << 30)

    async def cancelled(work: Any, begun: Callable[[], bool]) -> None:
        task = asyncio.create_task(work)
        await until(begun)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    await cancelled(files.get("tree", tmp_path / "out"), lambda: (tmp_path / "out/a").exists())
    assert os.listdir(tmp_path / "out") == []
    await cancelled(files.get("tree/a", tmp_path / "one/a"), lambda: bool(os.path.isdir(tmp_path / "one")))
    assert os.listdir(tmp_path / "one") == []
    await cancelled(files.put(cwd / "tree", "in"), lambda: (cwd / "in/a").exists())
    await until(lambda: os.listdir(cwd / "in") == [])


async def test_a_progress_callback_that_fails_ends_the_copy(files: Files, cwd: Path, tmp_path: Path) -> None:
    sparse(cwd / "a", 1 << 30)

    def fail(*_: object) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        await files.get("a", tmp_path / "out/a", on_progress=fail)
    with pytest.raises(RuntimeError, match="enough"):
        await files.put(cwd / "a", "out/a", on_progress=fail)
    assert os.listdir(tmp_path / "out") == []


async def test_copies_go_on_after_the_link_broke(box: Sandbox, cwd: Path, tmp_path: Path) -> None:
    content = os.urandom(30 * MIB)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a").write_bytes(content)

    async def broken(work: Any) -> None:
        task = asyncio.create_task(work)
        for _ in range(3):
            await asyncio.sleep(0.03)
            wire = box._channel._wire
            if wire is not None:
                wire.fail("a test broke it")
        await task

    await broken(box.files.put(tmp_path / "tree", "tree"))
    await broken(box.files.get("tree", tmp_path / "back"))
    await broken(box.files.get("tree/a", tmp_path / "one"))
    await broken(box.files.put(tmp_path / "one", "one"))
    assert (tmp_path / "back/a").read_bytes() == content
    assert (cwd / "one").read_bytes() == content


async def test_the_process_of_a_copy_is_no_job(box: Sandbox, cwd: Path, tmp_path: Path) -> None:
    (cwd / "tree").mkdir()
    sparse(cwd / "tree/a", 300 * MIB)
    copy = asyncio.create_task(box.files.get("tree", tmp_path / "back"))
    await until((tmp_path / "back/a").exists)
    assert await box.jobs() == []
    await copy


async def test_commands_are_quick_while_a_copy_runs(box: Sandbox, cwd: Path, tmp_path: Path) -> None:
    sparse(cwd / "a", 1 << 30)
    copy = asyncio.create_task(box.files.get("a", tmp_path / "a"))
    waits = []
    loop = asyncio.get_running_loop()
    while not copy.done():
        start = loop.time()
        await box.files.exists("a")
        waits.append(loop.time() - start)
    await copy
    assert len(waits) > 10
    assert sorted(waits)[len(waits) // 2] < 0.1


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_gigabytes_in_flat_memory(box: Sandbox, cwd: Path, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    sparse(tmp_path / "tree/a", 2 << 30)
    guest = int(box._channel.guest["pid"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await box.files.put(tmp_path / "tree", "tree")
    await box.files.get("tree", tmp_path / "back")
    await box.files.get("tree/a", tmp_path / "one")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (tmp_path / "back/a").stat().st_size == (tmp_path / "one").stat().st_size == 2 << 30
    status = await asyncio.to_thread(Path(f"/proc/{guest}/status").read_text)
    assert int(status.partition("VmHWM:")[2].split()[0]) < 64 << 10
    assert after - before < 64 << 10


@pytest.mark.slow
async def test_many_small_files(files: Files, cwd: Path, tmp_path: Path) -> None:
    def make() -> None:
        for number in range(5_000):
            path = tmp_path / f"tree/{number % 100}"
            path.mkdir(parents=True, exist_ok=True)
            (path / f"file{number}").write_text(str(number))

    await asyncio.to_thread(make)
    stats = await files.put(tmp_path / "tree", "tree")
    assert (stats.files, stats.folders) == (5_000, 101)
    await files.get("tree", tmp_path / "back")
    found, wanted = [await asyncio.to_thread(everything, tmp_path / name) for name in ("back", "tree")]
    assert found == wanted


# --- a guest that lies


class Reply(NamedTuple):
    body: dict[str, Any]
    raw: bytes


class LyingStream:
    """Gives what a test wants to the one who asks."""

    def __init__(self, chunks: list[bytes], answer: Reply | Exception) -> None:
        self.chunks = chunks
        self.answer = answer
        self.cancelled = False

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        for chunk in self.chunks:
            await asyncio.sleep(0)
            yield 1, chunk

    async def reply(self) -> Reply:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def cancel(self) -> None:
        self.cancelled = True


class LyingChannel:
    def __init__(self, **streams: LyingStream) -> None:
        self.streams = streams

    def open(self, operation: str, args: object = None, raw: bytes = b"") -> LyingStream:
        return self.streams[operation.rpartition(".")[2]]

    async def call(self, operation: str, args: object = None, raw: bytes = b"") -> Reply:
        return await self.open(operation).reply()


def lies(**streams: tuple[list[bytes], dict[str, Any] | Exception]) -> Files:
    made = {
        name: LyingStream(chunks, answer if isinstance(answer, Exception) else Reply(answer, b""))
        for name, (chunks, answer) in streams.items()
    }
    return Files(LyingChannel(**made))  # type: ignore[arg-type]


DIR = {"name": "x", "type": "dir", "size": 0, "mode": 0o755, "mtime_ns": 0, "target": None}
FILE = {**DIR, "type": "file", "size": 10}
DONE = {"skipped": 0, "changed": 0}


@pytest.mark.parametrize(
    "data",
    [
        link("a", "../outside") + entry("a/evil") + END,
        entry("../outside/evil") + END,
        entry("/outside/evil") + END,
        entry("a", bytes(3000))[:1000],
        b"\0" * 1024 + b"x" * 1024,
        b"\xff" * 5000,
        b"",
    ],
)
async def test_a_hostile_tree_writes_nothing_outside(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "outside").mkdir()
    chunks = [data[at : at + 100] for at in range(0, len(data), 100)]
    with pytest.raises(FileError):
        await lies(stat=([], DIR), get=(chunks, DONE)).get("x", tmp_path / "out")
    assert os.listdir(tmp_path / "outside") == []
    assert set(os.listdir(tmp_path)) <= {"outside", "out"}
    assert [name for name in below(tmp_path) if "evil" in name] == []


async def test_an_error_of_the_guest_is_the_error_of_the_copy(tmp_path: Path) -> None:
    chunks = [folder(".") + entry("a", b"1") + entry("b", bytes(3000))[:1000]]
    files = lies(stat=([], DIR), get=(chunks, FileError("it broke", code="io")))
    with pytest.raises(FileError, match="it broke"):
        await files.get("x", tmp_path / "out")
    assert os.listdir(tmp_path / "out") == ["a"]
    gone = lies(stat=([], FILE), read=([b"12"], SandboxGone("gone")))
    with pytest.raises(SandboxGone):
        await gone.get("x", tmp_path / "one/x")
    assert os.listdir(tmp_path / "one") == []


async def test_data_without_end_is_cut_off(tmp_path: Path) -> None:
    endless = [bytes(MIB)] * 300
    with pytest.raises(ProtocolError, match="more than"):
        await lies(read=(endless, {})).read("x")
    with pytest.raises(ProtocolError, match="more than 5 bytes"):
        await lies(read=([b"123456"], {})).read("x", n=5)
    with pytest.raises(ProtocolError, match="more than"):
        await lies(list=(endless, {})).list()
    with pytest.raises(FileError, match="more than the 10 bytes it announced"):
        await lies(stat=([], FILE), read=([bytes(11)], {})).get("x", tmp_path / "one/x")
    assert os.listdir(tmp_path / "one") == []


@pytest.mark.parametrize(
    "change",
    [
        {"size": "1"},
        {"size": True},
        {"size": 1 << 70},
        {"mode": None},
        {"mtime_ns": 1.5},
        {"type": "door"},
        {"name": 7},
        {"target": []},
    ],
)
async def test_nonsense_about_a_file_is_a_broken_protocol(change: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ProtocolError):
        await lies(stat=([], {**FILE, **change})).stat("x")
    with contextlib.suppress(HermesError):
        await lies(stat=([], {**FILE, **change}), read=([], {})).get("x", tmp_path / "x")


@pytest.mark.parametrize("line", [b"{", b"[]", b"7", b'"\\ud800"x', b"[" * 100_000, b"{}", b"\xff"])
async def test_nonsense_in_a_list_is_a_broken_protocol(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        await lies(list=([line + b"\n"], {})).list()
    with pytest.raises(ProtocolError):
        await lies(glob=([line + b"\n"], {})).glob("*")


async def test_a_big_copy_has_the_same_bytes(files: Files, cwd: Path, tmp_path: Path) -> None:
    content = os.urandom(20 * MIB)
    (tmp_path / "a").write_bytes(content)
    await files.put(tmp_path / "a", "a")
    await files.get("a", tmp_path / "b")
    assert hashlib.sha256((tmp_path / "b").read_bytes()).digest() == hashlib.sha256(content).digest()
