"""Files: read, write, list, move, remove; whole or not at all; whatever they are called."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator

import pytest

from hermes import HermesError, Sandbox

from .._harness import case
from ..tools import cut, eventually, fails, out, stopwatch

ODD_NAMES = [
    "a b",
    "new\nline",
    "q'u\"o",
    "ünï€",
    "-n",
    "*",
    "$HOME",
    "back\\slash",
    ".hidden",
    "~",
    " ",
    "x" * 255,
]
MB = 1 << 20


@case
async def test_write_and_read(box: Sandbox, folder: str) -> None:
    data = bytes(range(256)) * 10
    await box.files.write(f"{folder}/a", data)
    assert await box.files.read(f"{folder}/a") == data
    assert (await box.run(["cat", f"{folder}/a"])).stdout == data
    await box.files.write(f"{folder}/a", "grün")
    assert await box.files.read_text(f"{folder}/a") == "grün"
    await box.files.write(f"{folder}/a", b"")
    assert await box.files.read(f"{folder}/a") == b""


@case
async def test_read_a_part(box: Sandbox, folder: str) -> None:
    data = random.Random(5).randbytes(700_000)
    await box.files.write(f"{folder}/a", data)
    assert await box.files.read(f"{folder}/a", offset=300_001, n=17) == data[300_001:300_018]
    assert await box.files.read(f"{folder}/a", offset=600_000) == data[600_000:]
    assert await box.files.read(f"{folder}/a", offset=800_000) == b""
    assert await box.files.read(f"{folder}/a", n=0) == b""


@case
async def test_large_file(box: Sandbox, folder: str) -> None:
    data = random.Random(6).randbytes(20 * MB)
    await box.files.write(f"{folder}/big", data)
    assert await box.files.read(f"{folder}/big") == data


@case
async def test_streamed_write(box: Sandbox, folder: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for n in range(100):
            yield bytes([n]) * 30_000
            await asyncio.sleep(0)

    await box.files.write(f"{folder}/a", pieces())
    assert await box.files.read(f"{folder}/a") == b"".join(bytes([n]) * 30_000 for n in range(100))


@case
async def test_write_is_all_or_nothing(box: Sandbox, folder: str) -> None:
    """A write whose source fails leaves the old content, and nothing beside it."""

    async def broken() -> AsyncIterator[bytes]:
        yield bytes(MB)
        raise ZeroDivisionError

    await box.files.write(f"{folder}/a", b"old")
    with pytest.raises(ZeroDivisionError):
        await box.files.write(f"{folder}/a", broken())
    assert await box.files.read(f"{folder}/a") == b"old"

    async def alone() -> bool:
        return [one.name for one in await box.files.list(folder)] == ["a"]

    await eventually(alone)


@case
async def test_readers_never_see_half_a_file(box: Sandbox, folder: str) -> None:
    await box.files.write(f"{folder}/a", b"0" * 300_000)
    job = await box.start(
        f"while :; do tr -d '\\n' <{folder}/a | fold -w1 | sort -u | tr -d '\\n'; echo; done"
    )
    for n in range(1, 8):
        await box.files.write(f"{folder}/a", b"%d" % n * 300_000)
        await asyncio.sleep(0.05)
    await job.kill()
    lines = (await job.output()).split(b"\n")[:-1]
    assert set(map(len, lines)) <= {1}


@case
async def test_write_makes_directories(box: Sandbox, folder: str) -> None:
    await box.files.write(f"{folder}/x/y/z", b"1")
    assert await box.files.read(f"{folder}/x/y/z") == b"1"
    with fails("not_found"):
        await box.files.write(f"{folder}/p/q", b"1", parents=False)
    assert not await box.files.exists(f"{folder}/p")


@case
async def test_mode_of_a_written_file(box: Sandbox, folder: str) -> None:
    await box.files.write(f"{folder}/run", "#!/bin/sh\necho ran\n", mode=0o755)
    assert await out(box, f"{folder}/run") == "ran"
    await box.files.write(f"{folder}/run", "#!/bin/sh\necho again\n")
    assert (await box.files.stat(f"{folder}/run")).mode == 0o755
    await box.files.write(f"{folder}/secret", b"", mode=0o600)
    assert (await box.files.stat(f"{folder}/secret")).mode == 0o600


@case
async def test_write_through_a_link(box: Sandbox, folder: str) -> None:
    await box.run(f"cd {folder}; echo old >real; ln -s real link")
    await box.files.write(f"{folder}/link", b"new")
    assert (await box.files.stat(f"{folder}/link")).type == "link"
    assert await box.files.read(f"{folder}/real") == b"new"


@case
async def test_append(box: Sandbox, folder: str) -> None:
    for part in ("one\n", b"two\n", "three\n"):
        await box.files.append(f"{folder}/sub/log", part)
    assert await box.files.read(f"{folder}/sub/log") == b"one\ntwo\nthree\n"


@case
async def test_appends_side_by_side(box: Sandbox, folder: str) -> None:
    await asyncio.gather(*(box.files.append(f"{folder}/log", f"line {n:03}\n") for n in range(50)))
    assert sorted((await box.files.read_text(f"{folder}/log")).splitlines()) == [
        f"line {n:03}" for n in range(50)
    ]


@case
async def test_stat(box: Sandbox, folder: str) -> None:
    await box.run(
        f"cd {folder}; printf 12345 >f; chmod 640 f; mkdir d; ln -s f l; mkfifo p; touch -d @1000000000.5 f"
    )
    found = {name: await box.files.stat(f"{folder}/{name}") for name in "fdlp"}
    assert [found[name].type for name in "fdlp"] == ["file", "dir", "link", "other"]
    assert (found["f"].size, found["f"].mode, found["f"].mtime) == (5, 0o640, 1000000000.5)
    assert found["l"].target == "f"
    assert (await box.files.stat(f"{folder}/l", follow=True)).type == "file"


@case
async def test_exists(box: Sandbox, folder: str) -> None:
    await box.run(f"cd {folder}; touch f; ln -s nowhere broken")
    assert await box.files.exists(f"{folder}/f")
    assert await box.files.exists(folder)
    assert not await box.files.exists(f"{folder}/g")
    assert not await box.files.exists(f"{folder}/f/g")
    assert not await box.files.exists(f"{folder}/broken")


@case
async def test_list(box: Sandbox, folder: str) -> None:
    await box.run(f"cd {folder}; mkdir sub; printf abc >b; ln -s b a; touch .dot")
    found = await box.files.list(folder)
    assert [(one.name, one.type) for one in found] == [
        (".dot", "file"),
        ("a", "link"),
        ("b", "file"),
        ("sub", "dir"),
    ]
    assert [one.size for one in found if one.name == "b"] == [3]
    assert await box.files.list(f"{folder}/sub") == []


@case
async def test_list_of_many(box: Sandbox, folder: str) -> None:
    await box.run(f"cd {folder}; touch f{{1..2000}}")
    assert len(await box.files.list(folder)) == 2000


@case
async def test_glob(box: Sandbox, folder: str) -> None:
    await box.run(
        f"cd {folder}; mkdir -p a/b .h; touch x.py a/y.py a/b/z.py a/b/z.txt .h/h.py .d.py; ln -s .. a/b/up"
    )
    glob = box.files.glob
    assert await glob("*.py", root=folder) == ["x.py"]
    assert await glob("**/*.py", root=folder) == ["a/b/z.py", "a/y.py", "x.py"]
    assert await glob("a/*/z.*", root=folder) == ["a/b/z.py", "a/b/z.txt"]
    assert await glob("[ax]*", root=folder) == ["a", "x.py"]
    assert await glob("*.none", root=folder) == []
    assert await glob(f"{folder}/*.py") == [f"{folder}/x.py"]


@case
async def test_mkdir(box: Sandbox, folder: str) -> None:
    await box.files.mkdir(f"{folder}/a/b/c")
    await box.files.mkdir(f"{folder}/a/b/c")
    assert (await box.files.stat(f"{folder}/a/b/c")).type == "dir"
    with fails("not_found"):
        await box.files.mkdir(f"{folder}/p/q", parents=False)
    with fails("exists"):
        await box.files.mkdir(f"{folder}/a", parents=False)


@case
async def test_remove(box: Sandbox, folder: str) -> None:
    await box.run(f"cd {folder}; mkdir -p d/e keep; touch f d/e/g keep/k; ln -s ../keep d/link; ln -s keep l")
    await box.files.remove(f"{folder}/f")
    await box.files.remove(f"{folder}/l")
    with pytest.raises(Exception, match="empty"):
        await box.files.remove(f"{folder}/d")
    await box.files.remove(f"{folder}/d", recursive=True)
    assert [one.name for one in await box.files.list(folder)] == ["keep"]
    assert await box.files.exists(f"{folder}/keep/k")
    with fails("not_found"):
        await box.files.remove(f"{folder}/f")


@pytest.mark.parametrize("path", ["/", ".", "..", "/..", "~"])
@case
async def test_remove_of_what_must_stay(box: Sandbox, path: str) -> None:
    """No slip of a path removes everything: the guest forbids it, and approval where it applies."""
    if path == "~":
        path = await out(box, "echo ~")
    with pytest.raises(HermesError) as caught:
        await box.files.remove(path, recursive=True)
    assert caught.value.code in ("unsafe_path", "refused")
    assert await box.files.exists(box.cwd)


@case
async def test_move(box: Sandbox, folder: str) -> None:
    await box.run(f"cd {folder}; echo 1 >a; echo 2 >b; mkdir d; mkdir tree; echo 3 >tree/t")
    await box.files.move(f"{folder}/a", f"{folder}/b")
    assert await box.files.read(f"{folder}/b") == b"1\n"
    await box.files.move(f"{folder}/b", f"{folder}/d")
    await box.files.move(f"{folder}/tree", f"{folder}/moved")
    assert await out(box, f"cd {folder}; find . -type f | sort") == "./d/b\n./moved/t"


@pytest.mark.parametrize("name", ODD_NAMES)
@case
async def test_odd_file_names(box: Sandbox, folder: str, name: str) -> None:
    path = f"{folder}/{name}"
    await box.files.write(path, b"it")
    assert await box.files.read(path) == b"it"
    assert [one.name for one in await box.files.list(folder)] == [name]
    assert (await box.run(["cat", path])).stdout == b"it"
    await box.files.move(path, f"{folder}/plain")
    await box.files.move(f"{folder}/plain", path)
    await box.files.remove(path)
    assert await box.files.list(folder) == []


@case
async def test_names_that_are_no_text(box: Sandbox, folder: str) -> None:
    name = b"a\xff\xfe".decode("utf-8", "surrogateescape")
    await box.run(f"cd {folder}; printf 1 >$'a\\xff\\xfe'")
    assert [one.name for one in await box.files.list(folder)] == [name]
    assert await box.files.read(f"{folder}/{name}") == b"1"
    assert await box.files.glob("a*", root=folder) == [name]


@case
async def test_relative_paths(box: Sandbox) -> None:
    """They begin at the sandbox's directory, wherever a session is."""
    await box.run("cd /etc")
    await box.files.write("here.txt", b"1")
    assert await box.files.read(f"{box.cwd}/here.txt") == b"1"
    await box.files.remove("here.txt")


@case
async def test_errors_of_files(box: Sandbox, folder: str) -> None:
    """Each says what is wrong by its code, and names the path."""
    await box.run(f"cd {folder}; touch f; mkdir d; mkfifo p")
    files = box.files
    with fails("not_found") as caught:
        await files.read(f"{folder}/none")
    assert getattr(caught.error, "path", None) == f"{folder}/none"
    with fails("is_a_directory"):
        await files.read(f"{folder}/d")
    with fails("is_a_directory"):
        await files.write(f"{folder}/d", b"")
    with fails("not_a_directory"):
        await files.read(f"{folder}/f/x")
    with fails("not_a_directory"):
        await files.list(f"{folder}/f")
    with fails("not_found"):
        await files.list(f"{folder}/none")
    with fails("not_found"):
        await files.stat("")
    with fails("unsafe_path"):
        await files.read("a\0b")
    with fails("io"), stopwatch(3):
        await files.read(f"{folder}/p")
    with fails("not_found"):
        await files.move(f"{folder}/none", f"{folder}/x")


@case
async def test_permissions(box: Sandbox, folder: str) -> None:
    if await out(box, "id -u") == "0":
        with fails("permission"):  # what even root may not
            await box.files.append("/proc/sys/kernel/ostype", b"x")
        return
    await box.run(f"cd {folder}; touch f; chmod 0 f; mkdir d; chmod 0 d")
    with fails("permission"):
        await box.files.read(f"{folder}/f")
    with fails("permission"):
        await box.files.write(f"{folder}/d/x", b"")


@case
async def test_files_beside_a_running_command(box: Sandbox, folder: str) -> None:
    """Neither waits for the other."""
    run = asyncio.create_task(box.run("sleep 1.5; echo done"))
    began = time.monotonic()
    await box.files.write(f"{folder}/a", bytes(MB))
    assert len(await box.files.read(f"{folder}/a")) == MB
    assert time.monotonic() - began < 1
    assert (await run).stdout == b"done\n"


@case
async def test_files_over_a_lost_link(fresh_box: Sandbox) -> None:
    data = random.Random(7).randbytes(8 * MB)
    write = asyncio.create_task(fresh_box.files.write("a", data))
    await asyncio.sleep(0.01)
    cut(fresh_box)
    await asyncio.wait_for(write, 20)
    read = asyncio.create_task(fresh_box.files.read("a"))
    await eventually(lambda: fresh_box._channel._wire is not None)
    await asyncio.sleep(0.01)
    cut(fresh_box)
    assert await asyncio.wait_for(read, 20) == data
