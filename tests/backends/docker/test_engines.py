"""Other engines than this machine's own, and other runtimes: chosen, kept to, and what holds in them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hermes
from _containers import asked, container, containers, inspect, python, sandbox, text
from hermes.backends._leftovers import home_mark as _home_mark
from hermes.config import load
from hermes.errors import BackendError, SandboxDiffers, UnsupportedError
from hermes.places import remove
from hermes.state import Store

pytestmark = [pytest.mark.docker_engine, pytest.mark.root_only]

MIB = 1 << 20
CHOICES = ("DOCKER_HOST", "DOCKER_CONTEXT", "docker.context", "docker context use")
NOWHERE = "unix:///nonexistent/docker.sock"


def address(engine: str) -> str:
    """Where the engine listens that the part `engines` has started."""
    found = os.environ.get(f"PARTS_DOCKER_{engine.upper()}")
    return found or pytest.skip(f"the part 'engines' is not here: no {engine}")


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A configuration of docker's client of the test's own, in which no engine is chosen."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))


def left_on(host: str) -> list[str]:
    """Everything on an engine that belongs to this test's home of hermes. Blocks."""
    ours = ("--quiet", "--filter", f"label=hermes.home={_home_mark()}")
    kinds = (("ps", "--all"), ("volume", "ls"), ("network", "ls"))
    return [one for kind in kinds for one in asked("docker", "--host", host, *kind, *ours).split()]


@pytest.fixture
def remap(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The engine that numbers users otherwise. It is chosen, and nothing may be left on it."""
    yield from chosen("remap", monkeypatch)


@pytest.fixture
def runsc(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The engine that has gVisor, and takes it by default. It is chosen, and nothing may be left on it."""
    yield from chosen("runsc", monkeypatch)


def chosen(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    host = address(name)
    monkeypatch.setenv("DOCKER_HOST", host)
    yield host
    assert left_on(host) == []


def choose(how: str, host: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Choose an engine in one of the ways, and return the options that this takes. Blocks."""
    if how == "DOCKER_HOST":
        monkeypatch.setenv(how, host)
        return {}
    asked("docker", "context", "create", "other", "--docker", f"host={host}")
    if how == "DOCKER_CONTEXT":
        monkeypatch.setenv(how, "other")
    elif how == "docker context use":
        asked("docker", "context", "use", "other")
    else:
        return {"context": "other"}
    return {}


# Which engine it is


@pytest.mark.parametrize("how", CHOICES)
async def test_the_chosen_engine_is_used(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host = address("remap")
    options = await asyncio.to_thread(choose, how, host, monkeypatch)
    async with sandbox("docker", **options) as box:
        assert (await text(box, "cat /proc/self/uid_map")).split()[:2] != ["0", "0"]
        shown = await asyncio.to_thread(
            asked,
            "docker",
            "--host",
            host,
            "ps",
            "--quiet",
            "--no-trunc",
            "--filter",
            f"label=hermes.id={box.id}",
        )
        assert shown == container(box)
        assert (await box.run("echo here >~/a; cat ~/a")).text == "here\n"
    assert await asyncio.to_thread(left_on, host) == []


@pytest.mark.parametrize("how", CHOICES)
async def test_one_that_does_not_answer_is_never_replaced(
    how: str, monkeypatch: pytest.MonkeyPatch, hermes_home: Path
) -> None:
    options = await asyncio.to_thread(choose, how, NOWHERE, monkeypatch)
    with pytest.raises(BackendError, match=r"does not answer.*nothing was started") as caught:
        await sandbox("docker", **options).open()
    assert caught.value.code == "backend_unavailable"
    assert await asyncio.to_thread(lambda: Store().all()) == []
    assert not (hermes_home / "sandboxes").exists()


@pytest.mark.parametrize("how", ["DOCKER_CONTEXT", "docker.context"])
async def test_a_context_that_does_not_exist(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"context": "none"} if how == "docker.context" else {}
    if not options:
        monkeypatch.setenv(how, "none")
    with pytest.raises(BackendError, match=r"context.*nothing was started") as caught:
        await sandbox("docker", **options).open()
    assert caught.value.code == "backend_unavailable"


@pytest.mark.parametrize("how", CHOICES)
async def test_a_sandbox_stays_with_its_engine(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another choice is noticed, and does not make a second container of the same name elsewhere."""
    host = address("remap")
    with monkeypatch.context() as patch:
        options = await asyncio.to_thread(choose, how, host, patch)
        async with sandbox("docker", name="stays", **options) as box:
            await box.run("echo kept >~/a")
        async with sandbox("docker", name="stays", **options) as again:
            assert (await again.run("cat ~/a")).text == "kept\n"
    if how == "docker context use":
        await asyncio.to_thread(asked, "docker", "context", "use", "default")
    with pytest.raises(SandboxDiffers, match=r"docker.context: .*, now null"):
        await sandbox("docker", name="stays").open()
    monkeypatch.setenv("DOCKER_HOST", address("runsc"))
    with pytest.raises(SandboxDiffers, match=r"docker.context: .*, now unix://.*runsc"):
        await sandbox("docker", name="stays").open()
    assert await containers("docker", box.id) == []
    # And it is removed where it is.
    record = (await asyncio.to_thread(lambda: Store().all()))[0]
    await remove(record, *await asyncio.to_thread(lambda: (load(), Store())))
    assert await asyncio.to_thread(left_on, host) == []


async def test_one_on_this_machines_engine_stays_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with sandbox("docker", name="mine") as box:
        pass
    with monkeypatch.context() as patch:
        patch.setenv("DOCKER_HOST", address("remap"))
        with pytest.raises(SandboxDiffers, match=r"docker.context: null, now unix://"):
            await sandbox("docker", name="mine").open()
    assert await containers("docker", box.id) == [container(box)]
    async with sandbox("docker", name="mine") as again:
        await again.destroy()


async def test_a_context_that_was_removed_is_no_sandbox_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    host = address("remap")
    options = await asyncio.to_thread(choose, "docker.context", host, monkeypatch)
    async with sandbox("docker", name="lost", **options) as box:
        await box.run("echo kept >~/a")
    await asyncio.to_thread(asked, "docker", "context", "rm", "other")
    with pytest.raises(hermes.HermesError, match="does not answer") as caught:
        await sandbox("docker", name="lost", **options).open()
    assert caught.value.code == "unreachable"
    await asyncio.to_thread(choose, "docker.context", host, monkeypatch)
    async with sandbox("docker", name="lost", **options) as again:
        assert (again.id, (await again.run("cat ~/a")).text) == (box.id, "kept\n")
        await again.destroy()
    assert await asyncio.to_thread(left_on, host) == []


# Users that are others outside


async def test_remapped_users_have_volumes_and_a_relay(remap: str, hermes_home: Path) -> None:
    hermes_home.mkdir(0o700)
    (hermes_home / "skills" / "one").mkdir(parents=True)
    (hermes_home / "skills" / "one" / "SKILL.md").write_text("first\n")
    async with sandbox("docker", name="volumes") as box:
        assert box.describe()["channel"] == "relay"
        seen = await inspect(box)
        kinds = {mount["Destination"]: mount["Type"] for mount in seen["Mounts"]}
        assert kinds == {"/workspace": "volume", "/home/hermes": "volume"}
        # Root inside is nobody in particular outside.
        status = Path(f"/proc/{seen['State']['Pid']}/status").read_text()
        assert int(status.partition("Uid:")[2].split()[0]) >= 100000
        assert (
            await text(box, "id -u; cat ~/.hermes/skills/one/SKILL.md; stat -c %u ~/.hermes") == "0\nfirst\n0"
        )
        await box.run("echo a >/workspace/a; echo b >~/b; echo mine >~/.hermes/skills/one/SKILL.md")
        before = container(box)
    assert not (hermes_home / "sandboxes").exists()
    async with sandbox("docker", name="volumes", network="off", recreate=True) as again:
        assert container(again) != before
        assert await text(again, "cat /workspace/a ~/b ~/.hermes/skills/one/SKILL.md") == "a\nb\nmine"
        await again.suspend()
        await again.resume()
        assert await text(again, "cat /workspace/a") == "a"
        assert len(await asyncio.to_thread(left_on, remap)) == 3
        await again.destroy()
    assert await asyncio.to_thread(left_on, remap) == []


async def test_remapped_users_that_are_not_root(remap: str) -> None:
    async with sandbox("docker", user="1234:5") as box:
        assert await text(box, "touch ~/a /workspace/a && id -u && stat -c %u:%g ~ ~/a /workspace") == (
            "1234\n1234:5\n1234:5\n1234:5"
        )
        assert box.describe()["channel"] == "relay"


async def test_a_mounted_workspace_is_refused_where_its_files_would_be_anothers(
    remap: str, tmp_path: Path, hermes_home: Path
) -> None:
    for workspace in (str(tmp_path), "here"):
        with pytest.raises(UnsupportedError, match=r"userns-remap.*nothing was started"):
            await sandbox("docker", workspace=workspace).open()
    assert await asyncio.to_thread(lambda: Store().all()) == []
    assert not (hermes_home / "sandboxes").exists()


async def test_without_the_remapping_a_workspace_is_mounted(remap: str, tmp_path: Path) -> None:
    async with sandbox("docker", workspace=str(tmp_path), args=["--userns=host"]) as box:
        assert "it has the users of this machine" in box.describe()["reaches_host"]
        assert box.describe()["channel"] == "direct"
        await text(box, "echo mine >a")
    assert (tmp_path / "a").stat().st_uid == os.geteuid()


# gVisor


@pytest.mark.parametrize("runtime", ["runsc", None], ids=["named", "by default"])
async def test_gvisor_is_another_kernel(runsc: str, runtime: str | None, hermes_home: Path) -> None:
    async with sandbox("docker", name="kernel", runtime=runtime) as box:
        assert box.describe()["channel"] == "relay"
        assert "Starting gVisor" in await text(box, "dmesg")
        assert await text(box, "uname -r") != os.uname().release
        await box.run("echo a >/workspace/a; echo b >~/b; x=5")
        assert (await box.run("echo $x; pwd")).text == "5\n/workspace\n"
        # Directories of this machine, as everywhere: what is written in them is ours.
        made = hermes_home / "sandboxes" / f"docker-{box.id}" / "workspace" / "a"
        assert (made.read_text(), made.stat().st_uid) == ("a\n", os.geteuid())
        await box.suspend()
        await box.resume()
        assert await text(box, "cat /workspace/a ~/b") == "a\nb"
        await box.destroy()


async def test_gvisor_is_as_narrow_inside(runsc: str) -> None:
    async with sandbox("docker") as box:
        for path in ("/x", "/usr/x", "/etc/x", "/root/x"):
            result = await box.run(["touch", path])
            assert result.exit_code == 1 and b"Read-only" in result.stderr, (path, result)
        found = dict(line.split() for line in (await text(box, "grep Cap /proc/self/status")).splitlines())
        assert int(found["CapEff:"], 16) == int(found["CapBnd:"], 16) == 0b1011
        for point in ("/tmp", "/run", "/dev/shm"):
            result = await box.run(
                f"cp /bin/true {point}/t && {point}/t; code=$?; rm -f {point}/t; exit $code"
            )
            assert result.exit_code == 126, (point, result)
        assert await text(box, "cp /bin/echo $TMPDIR/e && $TMPDIR/e runs") == "runs"


async def test_runc_on_the_same_engine_is_reached_directly(runsc: str) -> None:
    async with sandbox("docker", runtime="runc") as box:
        assert box.describe()["channel"] == "direct"
        assert await text(box, "uname -r") == os.uname().release


# What is ended in this way may hold its client's pipes until nothing was heard from it for 45 s.
@pytest.mark.timeout(180)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "bomb", "said"),
    [
        ({"memory": 256 * MIB}, "bytearray(600 << 20)", "its container ran out of memory and was killed"),
        ({"pids": 200}, "[os.fork() or time.sleep(9) for _ in range(1000)]", "its container ended"),
    ],
    ids=["memory", "pids"],
)
async def test_a_limit_of_gvisor_holds_and_ends_all_of_it(
    runsc: str, limits: dict[str, Any], bomb: str, said: str
) -> None:
    """They are limits of gVisor itself: it ends, where elsewhere only the command does. The files stay."""
    async with sandbox("docker", name="bomb", limits=limits, network="off") as box:
        await box.run("echo kept >~/a")
        with pytest.raises(hermes.SandboxGone, match=said):
            await box.run(["python3", "-c", f"import os, time; {bomb}"], timeout=30)
    async with sandbox("docker", name="bomb", limits=limits, network="off") as again:
        assert await text(again, "cat ~/a") == "kept"
        await again.destroy()


async def test_gvisor_limits_cores(runsc: str) -> None:
    async with sandbox("docker", limits={"cpus": 0.5}) as box:
        spent = await python(box, "import time\nt = time.monotonic()\nwhile time.monotonic() < t + 2: pass\n")
        assert spent == ""
        seen = await inspect(box)
        assert seen["HostConfig"]["NanoCpus"] == 500_000_000


async def test_gvisor_timeout_leaves_no_process(runsc: str) -> None:
    async with sandbox("docker") as box:
        await box.run("true")
        looking = (
            "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done | grep -c 'sleep 9[0-9]' || true"
        )
        for command in (
            "sleep 91",
            "sleep 92 & sleep 93",
            "(sleep 94; true) | sleep 95",
            "trap '' TERM INT; sleep 96",
        ):
            result = await box.run(command, timeout=1)
            assert result.timed_out, command
        assert await text(box, looking) == "0"
        result = await box.run("yes | head -c 1000000 | wc -c")
        assert result.text.strip() == "1000000"


NETWORKS = {"off": ["lo"], "on": ["eth0", "lo"], "internal": ["eth0", "lo"]}


@pytest.mark.parametrize("network", NETWORKS)
async def test_gvisor_networks(runsc: str, network: str) -> None:
    async with sandbox("docker", network=network) as box:
        found = await text(box, "tail -n +3 /proc/net/dev | cut -d : -f 1")
        assert sorted(found.split()) == NETWORKS[network]


METADATA = """
import socket
for address in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "172.17.0.1"):
    try:
        socket.create_connection((address, {port}), 2).close()
        print(address)
    except OSError:
        pass
"""
SERVER = """
import socket, sys
with socket.create_server(("", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        server.accept()[0].close()
"""


@pytest.fixture
def metadata(request: pytest.FixtureRequest) -> Iterator[str]:
    """A service on the addresses of clouds' metadata, as containers see it; and Python that tries them.

    The addresses stay: they are in the engine's own network, and another run may be using them.
    """
    host = request.getfixturevalue(request.param).removeprefix("unix://")
    pid = (Path(host).parent / "docker.pid").read_text()
    inside = ("nsenter", f"--net=/proc/{pid}/ns/net")
    for one in ("169.254.169.254/32", "169.254.170.2/32", "100.100.100.200/32"):
        subprocess.run([*inside, "ip", "address", "replace", one, "dev", "docker0"], check=True)
    server = subprocess.Popen([*inside, sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    yield METADATA.format(port=int(server.stdout.readline()))
    server.kill()
    server.communicate()


@pytest.mark.parametrize("metadata", ["runsc", "remap"], indirect=True, ids=["gvisor", "remapped"])
async def test_the_metadata_service_is_out_of_reach(metadata: str) -> None:
    async with sandbox("docker", metadata="allowed") as box:
        assert len((await python(box, metadata)).split()) == 4
    async with sandbox("docker", name="metadata") as box:
        assert (await python(box, metadata)).split() == ["172.17.0.1"]
        await box.suspend()
        await box.resume()
        assert (await python(box, metadata)).split() == ["172.17.0.1"]
        await box.destroy()


@pytest.mark.parametrize("engine", ["runsc", "own"])
async def test_an_unknown_runtime_is_said(engine: str, request: pytest.FixtureRequest) -> None:
    if engine == "runsc":
        request.getfixturevalue("runsc")
    with pytest.raises(BackendError, match=r"has no runtime 'kata'.*nothing was started") as caught:
        await sandbox("docker", runtime="kata").open()
    assert caught.value.code == "backend_unavailable"
    assert "runc" in str(caught.value.hint)
    assert await asyncio.to_thread(lambda: Store().all()) == []
