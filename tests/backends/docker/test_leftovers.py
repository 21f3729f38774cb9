"""Nothing is left: after many sandboxes, after one that was given up half made, after a prune."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hermes
from _containers import IMAGES, ONE_ENGINE, ROOT, asked, container, containers, engine, sandbox
from _state import content, store_content
from hermes import backends
from hermes.backends._leftovers import home_mark as _home_mark
from hermes.config import Config, Docker, load
from hermes.places import remove
from hermes.state import SandboxRecord, Store


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the sockets of a test's sandboxes are: apart from others', but for a rootless podman."""
    if ROOT:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield Path(os.environ.get("XDG_RUNTIME_DIR", "/dev/shm"), f"hermes-{os.geteuid()}")


def left(place: str, home: Path, runtime: Path) -> dict[str, list[str]]:
    """Return everything of this hermes home that there is still. Blocks."""
    mark = f"label=hermes.home={_home_mark()}"
    found = {
        "containers": asked(place, "ps", "--all", "--quiet", "--filter", mark).split(),
        "networks": asked(place, "network", "ls", "--quiet", "--filter", mark).split(),
        "volumes": asked(place, "volume", "ls", "--quiet", "--filter", mark).split(),
        "records": [one.name for one in Store().all()],
        "directories": [str(path) for path in (home / "sandboxes").glob("*")],
        "mounts": [line for line in Path("/proc/mounts").read_text().splitlines() if str(home) in line],
    }
    if ROOT:
        found["sockets"] = [str(path) for path in runtime.glob("*/**/*")]
    return {what: names for what, names in found.items() if names}


async def nothing_left(place: str, home: Path, runtime: Path, seconds: float = 20) -> dict[str, list[str]]:
    """Return what is still there after at most so long."""
    for _ in range(int(seconds / 0.25)):
        found = await asyncio.to_thread(left, place, home, runtime)
        if not found:
            break
        await asyncio.sleep(0.25)
    return found


@pytest.mark.parametrize("place", ["docker"] if ROOT else ["podman"])
@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_fifty_sandboxes_leave_nothing(place: str, hermes_home: Path, runtime: Path) -> None:
    few = asyncio.Semaphore(4)

    async def one(number: int) -> None:
        options: dict[str, Any] = {"name": f"one-{number}"} if number % 3 == 0 else {}
        if number % 10 == 0:
            options["network"] = "internal" if ROOT else "off"
        async with few, sandbox(place, **options) as box:
            assert (await box.run(f"echo {number}; (sleep 100 &)")).text == f"{number}\n"
            if box.named:
                await box.destroy()

    await asyncio.gather(*(one(number) for number in range(50)))
    assert await nothing_left(place, hermes_home, runtime) == {}


@pytest.mark.parametrize("network", ["on", "internal"])
@pytest.mark.slow
async def test_giving_up_in_the_middle_of_a_start_leaves_nothing(
    place: str, hermes_home: Path, runtime: Path, network: str
) -> None:
    if network == "internal" and not ROOT:
        return
    made = 0
    for delay in (0.02, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8) if network == "on" else (0.15, 0.35, 0.6):
        box = sandbox(place, name="halfway", network=network)
        opening = asyncio.create_task(box.open())
        await asyncio.sleep(delay)
        opening.cancel()
        try:
            await opening
        except asyncio.CancelledError:
            continue
        made += 1
        await box.destroy()
    assert made < 7
    await asyncio.sleep(1)
    assert await nothing_left(place, hermes_home, runtime) == {}


@pytest.mark.parametrize("number", [1, 2])
async def test_giving_up_while_the_record_is_written_leaves_nothing(
    place: str, hermes_home: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Before the container is made, and after."""
    writing, put, calls = threading.Event(), Store.put, []

    def slow(store: Store, record: SandboxRecord) -> None:
        calls.append(record)
        if len(calls) == number:
            writing.set()
            time.sleep(0.5)
        put(store, record)

    monkeypatch.setattr(Store, "put", slow)
    opening = asyncio.create_task(sandbox(place, name="halfway").open())
    assert await asyncio.to_thread(writing.wait, 30)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert await nothing_left(place, hermes_home, runtime) == {}


@ONE_ENGINE
async def test_a_start_that_fails_leaves_nothing(place: str, hermes_home: Path, runtime: Path) -> None:
    for options in ({"image": "localhost:1/none:1"}, {"runtime": "none"}, {"args": ["--ulimit", "nofile=x"]}):
        with pytest.raises(hermes.HermesError):
            await sandbox(place, **options).open()
    assert await nothing_left(place, hermes_home, runtime) == {}


async def prune(place: str, **config: Any) -> str:
    kind = await asyncio.to_thread(backends.load, place)
    store = await asyncio.to_thread(Store)
    return "\n".join(await kind.prune(Config(**config), store))


async def forget(box: hermes.Sandbox) -> None:
    """Lose the record of a sandbox, as with a state that was thrown away."""
    await box.close()
    assert box._record is not None
    record = box._record
    await asyncio.to_thread(lambda: Store().remove(record))


async def test_prune_removes_what_nobody_has(place: str, hermes_home: Path, runtime: Path) -> None:
    box = await sandbox(place, name="lost", network="internal" if ROOT else "on").open()
    mark = ("--label", f"hermes.home={await asyncio.to_thread(_home_mark)}")
    await engine(place, "volume", "create", *mark, f"hermes-{secrets.token_hex(8)}-home")
    if ROOT:
        await engine(place, "network", "create", "--internal", *mark, f"hermes-lost-{secrets.token_hex(4)}")
    await forget(box)
    said = await prune(place)
    assert "container hermes-lost-" in said
    assert "(no sandbox has it)" in said
    assert await nothing_left(place, hermes_home, runtime) == {}
    assert await prune(place) == ""


@pytest.mark.slow
async def test_prune_leaves_what_is_somebodys(place: str, hermes_home: Path, runtime: Path) -> None:
    """Living sandboxes, sleeping ones with their network, kept ones, other homes' and other people's."""
    box = await sandbox(place, name="alive").open()
    asleep = await sandbox(place, name="asleep", network="internal" if ROOT else "on").open()
    await asleep.suspend()
    kept = await sandbox(place, name="kept", keep=True).open()
    await kept.run("echo precious >/workspace/a")
    await forget(kept)
    others = []
    for labels in (
        [],
        ["hermes.home=0123456789abcdef", "hermes.id=00ff00ff00ff00ff"],
        ["other.home=1"],
    ):
        marks = [part for one in labels for part in ("--label", one)]
        run = ("run", "--detach", "--rm", "--network", "none", *marks, IMAGES[place], "sleep", "50")
        others.append(await engine(place, *run))
    try:
        assert await prune(place) == ""
        assert (await box.run("echo alive")).text == "alive\n"
        assert len(await containers(place, kept.id)) == 1
        file = hermes_home / "sandboxes" / f"docker-{kept.id}" / "workspace" / "a"
        assert file.read_text() == "precious\n"
        await asleep.resume()
        assert (await asleep.run("echo awake")).text == "awake\n"
        running = (await engine(place, "ps", "--quiet", "--no-trunc")).split()
        assert set(others) <= set(running)
    finally:
        await engine(place, "kill", *others)
        for one in (box, asleep, kept):
            await one.destroy()
    assert await nothing_left(place, hermes_home, runtime) == {}


async def test_two_backends_on_one_engine_leave_each_other_alone(hermes_home: Path) -> None:
    async with sandbox("podman", name="theirs") as box:
        assert await prune("docker", docker=Docker(program="podman")) == ""
        assert (await box.run("echo alive")).text == "alive\n"
        await box.destroy()


@ONE_ENGINE
async def test_prune_removes_nothing_while_a_record_cannot_be_read(place: str, hermes_home: Path) -> None:
    async with sandbox(place, name="unread") as box:
        kept = await asyncio.to_thread(content, hermes_home, place, "unread")
        await asyncio.to_thread(store_content, hermes_home, place, "unread", "{")
        with pytest.raises(hermes.HermesError, match="nothing was removed"):
            await prune(place)
        await asyncio.to_thread(store_content, hermes_home, place, "unread", kept)
        assert (await box.run("echo alive")).text == "alive\n"
        await box.destroy()


@ONE_ENGINE
async def test_the_socket_is_removed_where_it_was_made(
    place: str, hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a hermes that runs in another session of the user."""
    if not ROOT:
        return
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    box = await sandbox(place, name="moved").open()
    await box.close()
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert list(tmp_path.glob("*/*"))
    records: list[SandboxRecord] = await asyncio.to_thread(lambda: Store().all())
    await remove(records[0], *await asyncio.to_thread(lambda: (load(), Store())))
    assert list(tmp_path.glob("*/*")) == []
    assert await containers(place, box.id) == []


@ONE_ENGINE
async def test_the_engines_client_is_not_left_running(place: str, hermes_home: Path) -> None:
    async with sandbox(place) as box:
        await box.run("true")
        done = await asyncio.to_thread(
            subprocess.run, ["pgrep", "-f", container(box)], capture_output=True, text=True, check=False
        )
        clients = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in done.stdout.split()]
        assert not [one for one in clients if one.startswith((b"docker\0", b"podman\0"))]


@pytest.mark.root_only
@ONE_ENGINE
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_benchmark_that_is_ended_takes_its_container_along(
    place: str, hermes_home: Path, number: signal.Signals
) -> None:
    """Neither signal leaves a container that has no name."""
    argv = ("-m", "hermes", "bench", "--sandbox", place, "--set", f"docker.image={IMAGES[place]}")
    store = Store()
    with subprocess.Popen([sys.executable, *argv], stdin=subprocess.DEVNULL) as process:
        try:
            while not (made := [one for one in store.all() if one.locator]):
                assert process.poll() is None
                time.sleep(0.05)
            process.send_signal(number)
            assert process.wait(30) == 128 + number
        finally:
            process.kill()
    for one in made:
        assert asked(place, "ps", "--all", "--quiet", "--filter", f"label=hermes.id={one.id}") == ""
    assert store.all() == []
