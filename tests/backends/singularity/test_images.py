"""Images that are converted: once, whole or not at all, and never twice at a time."""

from __future__ import annotations

import asyncio
import os
import shutil
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from hermes.backends.singularity._client import Client, client_for
from hermes.backends.singularity._image import cache_dir, ensure, parse_image
from hermes.errors import BackendError
from hermes.testing.tools import out

from .conftest import Open

STUB = """#!/bin/sh
# stands for the client: says what it does, takes its time, and leaves what it is told to
case "$*" in *--help*) exit 0;; esac
for last; do :; done
while [ $# -gt 2 ]; do shift; done
echo run >>{log}
echo "INFO:    Starting build..." >&2
printf half >"$1"
sleep {sleep}
[ {code} = 0 ] && printf whole >"$1"
[ {code} = 0 ] || echo "FATAL:   While performing build: no such image" >&2
exit {code}
"""


def stub(tmp_path: Path, *, sleep: float = 0.3, code: int = 0) -> tuple[Client, Path]:
    log, program = tmp_path / "log", tmp_path / "apptainer"
    program.write_text(STUB.format(log=log, sleep=sleep, code=code))
    program.chmod(0o755)
    return Client(str(program)), log


def kept(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.exists() else []


async def test_two_at_a_time_convert_once(tmp_path: Path) -> None:
    client, log = stub(tmp_path)
    lines: list[str] = []
    image = parse_image("docker://debian:stable", None)
    paths = await asyncio.gather(*(ensure(client, image, tmp_path / "work", lines.append) for _ in range(3)))
    assert len(set(paths)) == 1
    assert Path(paths[0]).read_text() == "whole"
    assert log.read_text() == "run\n"
    assert lines == ["converting docker://debian:stable; this is done once", "Starting build..."]
    assert kept(tmp_path / "work" / "images") == [Path(paths[0]).name]


async def test_a_failure_leaves_nothing_and_says_what_the_client_said(tmp_path: Path) -> None:
    client, _ = stub(tmp_path, code=1)
    with pytest.raises(BackendError, match="no such image; nothing was started") as caught:
        await ensure(client, parse_image("docker://none", None), tmp_path / "work", lambda line: None)
    assert caught.value.code == "image_missing"
    assert "apptainer build image.sif docker://none" in str(caught.value)
    assert kept(tmp_path / "work" / "images") == []


async def test_a_cancelled_conversion_leaves_nothing(tmp_path: Path) -> None:
    client, log = stub(tmp_path, sleep=30)
    work = ensure(client, parse_image("docker://debian", None), tmp_path / "work", lambda line: None)
    task = asyncio.create_task(work)
    while not await asyncio.to_thread(log.exists):
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kept(tmp_path / "work" / "images") == []


async def test_what_a_killed_conversion_left_is_not_used(tmp_path: Path) -> None:
    client, _ = stub(tmp_path)
    image = parse_image("docker://debian", None)
    path = Path(await ensure(client, image, tmp_path / "work", lambda line: None))
    path.rename(path.with_suffix(".new"))
    path.with_suffix(".tmp").mkdir()
    assert await ensure(client, image, tmp_path / "work", lambda line: None) == str(path)
    assert kept(path.parent) == [path.name]


def test_where_converted_images_are_kept(hermes_home: Path, tmp_path: Path) -> None:
    assert cache_dir(hermes_home / "sandboxes" / "singularity") == hermes_home / "cache" / "images"
    assert cache_dir(tmp_path) == tmp_path / "images"


async def test_another_archive_of_the_same_name_is_another_image(tmp_path: Path) -> None:
    client, log = stub(tmp_path, sleep=0)
    found = []
    for content in ("one", "two", "two"):
        (tmp_path / "manifest.json").write_text(f'[{{"Config": "{content}"}}]')
        with tarfile.open(tmp_path / "image.tar", "w") as archive:
            archive.add(tmp_path / "manifest.json", "manifest.json")
        image = await asyncio.to_thread(parse_image, f"docker-archive:{tmp_path}/image.tar", None)
        found.append(await ensure(client, image, tmp_path / "work", lambda line: None))
    assert len(set(found)) == 2
    assert log.read_text() == "run\nrun\n"


# --- the real client


@pytest.mark.slow
async def test_an_image_of_a_registry_that_cannot_be_reached(image: str, tmp_path: Path) -> None:
    client = await client_for("auto")
    wanted = parse_image("docker://127.0.0.1:1/none:latest", None)
    with pytest.raises(BackendError, match=r"docker://127\.0\.0\.1:1/none.*nothing was started") as caught:
        await ensure(client, wanted, tmp_path, lambda line: None)
    assert caught.value.code == "image_missing"
    assert kept(tmp_path / "images") == []


@pytest_asyncio.fixture
async def small(image: str, tmp_path: Path) -> AsyncIterator[str]:
    """A small image in docker's engine."""
    root = tmp_path / "root"
    for name in ("bin/bash", "bin/sh", "usr/bin/python3"):
        path = Path(image, name)
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(shutil.copy2, path, root / name)
    tag = f"hermes-test-small:{os.getpid()}"
    script = f"tar -C {root} -c . | docker import - {tag} >/dev/null"
    process = await asyncio.create_subprocess_exec("sh", "-c", script)
    assert await process.wait() == 0
    yield tag
    process = await asyncio.create_subprocess_exec("docker", "rmi", tag, stdout=asyncio.subprocess.DEVNULL)
    assert await process.wait() == 0


@pytest.mark.slow
@pytest.mark.root_only
async def test_an_image_of_dockers_engine(small: str, tmp_path: Path) -> None:
    """And the same one from an archive of it."""
    client, lines = await client_for("auto"), list[str]()
    path = await ensure(client, parse_image(f"docker-daemon:{small}", None), tmp_path, lines.append)
    assert lines[0] == f"converting docker-daemon:{small}; this is done once"
    assert len(lines) > 2
    process = await asyncio.create_subprocess_exec("docker", "save", "-o", f"{tmp_path}/image.tar", small)
    assert await process.wait() == 0
    archive = await asyncio.to_thread(parse_image, f"docker-archive:{tmp_path}/image.tar", None)
    other = await ensure(client, archive, tmp_path, lines.append)
    for made in (path, other):
        done = await client.call("inspect", made)
        assert done.code == 0, done.said
    assert kept(tmp_path / "images") == sorted(Path(made).name for made in (path, other))


@pytest.mark.slow
@pytest.mark.root_only
@pytest.mark.timeout(300)
async def test_a_sandbox_from_dockers_engine(open_box: Open) -> None:
    lines: list[str] = []
    box = await open_box(image="docker-daemon:hermes-test:bookworm", on_progress=lines.append)
    assert await out(box, "python3 -c 'print(1)'; pwd") == "1\n/workspace"
    assert lines[0].startswith("converting docker-daemon:hermes-test:bookworm")
    count = len(lines)
    await open_box(image="docker-daemon:hermes-test:bookworm", on_progress=lines.append)
    assert len(lines) == count


async def test_an_image_that_dockers_engine_does_not_have(image: str, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"no-such-image|cannot be looked up") as caught:
        wanted = parse_image("docker-daemon:no-such-image:1", None)
        await ensure(await client_for("auto"), wanted, tmp_path, lambda line: None)
    assert caught.value.code == "image_missing"
