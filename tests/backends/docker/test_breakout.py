"""Attempts to get out of a container, or to harm the host from in it: all fail, and the host is unharmed."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

import hermes
from _breakout import ATTEMPTS, system_call
from _containers import ONE_ENGINE, ROOT, container, engine, sandbox, text
from hermes.testing._harness import hermes_home as in_home

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "canary-3f9a1c"  # spelled apart inside, so that no search finds itself


@pytest.fixture(scope="module")
def canaries(shared_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """Files of the host that nothing may see or change, and a secret in the host's environment."""
    (shared_home / "skills").mkdir(parents=True, exist_ok=True)
    outside = tmp_path_factory.mktemp("outside")
    files = [
        Path.home() / f".hermes-test-canary-{os.getpid()}",
        shared_home / ".env",
        shared_home / "config.yaml.canary",
        outside / "file",
    ]
    for one in files:
        one.touch(0o600)
        one.write_text(f"SECRET={SECRET}\n")
    os.environ["CANARY_TOKEN"] = SECRET
    yield files
    del os.environ["CANARY_TOKEN"]
    files[0].unlink()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(place: str, shared_home: Path, canaries: list[Path]) -> AsyncIterator[hermes.Sandbox]:
    """The sandbox from which all is tried, with as much right inside as hermes gives."""
    async with sandbox(place, user="root" if ROOT else "host") as found:
        yield found


@pytest.fixture(autouse=True)
def unharmed(canaries: list[Path]) -> Iterator[None]:
    """Look at the host before and after each attempt."""

    def seen() -> dict[str, object]:
        kernel = [Path("/proc/sys/kernel", name) for name in ("core_pattern", "hostname")]
        facts: dict[str, object] = {str(path): path.read_bytes() for path in [*canaries, *kernel]}
        facts["/etc"] = [os.stat(f"/etc/{name}").st_mtime_ns for name in ("passwd", "group", "hosts")]
        facts["/usr"] = [os.stat(f"/usr/{name}").st_ino for name in ("bin", "lib")]
        return facts

    before = seen()
    yield
    assert seen() == before


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)
async def test_fails(box: hermes.Sandbox, attempt: str) -> None:
    result = await box.exec(attempt, timeout=20)
    assert result.exit_code != 0, result
    assert not result.timed_out
    assert result.exit_code != 2 or b"syntax" not in result.stderr


@pytest.mark.root_only
async def test_the_kernels_keys_of_the_host_are_not_read(box: hermes.Sandbox) -> None:
    """They belong to a user's number: root inside would have those of root here."""
    libc = ctypes.CDLL(None, use_errno=True)
    call = [
        ctypes.c_long(248),
        b"user",
        b"hermes-canary",
        SECRET.encode(),
        ctypes.c_long(10),
        ctypes.c_long(-4),
    ]
    key = libc.syscall(*call)
    if key < 0:
        pytest.skip("this machine has no keys of users")
    try:
        find = "call(250, 8, -4, -3); call(250, 10, -4, b'user', b'hermes-canary', 0)"
        result = await box.exec(system_call(find))
        assert result.exit_code != 0, result
    finally:
        libc.syscall(ctypes.c_long(250), ctypes.c_long(9), ctypes.c_long(key), ctypes.c_long(-4))


async def test_no_process_of_the_host_is_seen(box: hermes.Sandbox) -> None:
    said = await text(box, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "pytest" not in said
    assert str(os.getpid()) not in (await text(box, "cd /proc; echo [0-9]*")).split()
    found = int(await text(box, "ls -d /proc/[0-9]* | wc -l"))
    assert found < 20
    result = await box.exec(f"kill -0 {os.getpid()}")
    assert result.exit_code != 0


async def test_secrets_of_the_host_are_nowhere(box: hermes.Sandbox, canaries: list[Path]) -> None:
    """Not in any environment, file or argument that can be read inside; nor do their names lead anywhere."""
    half, rest = SECRET[:7], SECRET[7:]
    folders = "/workspace /home /run /tmp /var/tmp /scratch /dev/shm /root /etc /mnt /srv /opt"
    result = await box.exec(
        f"say() {{ printf %s {half}; echo {rest}; }}; "
        "say | grep -laF -f - /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null; "
        f"say | grep -rlaF -f - {folders} 2>/dev/null",
        timeout=40,
    )
    assert result.text == ""
    for path in (*canaries, Path.home() / ".ssh", Path.home() / ".hermes"):
        assert (await box.exec(["ls", str(path)])).exit_code != 0, path
    homes = (await text(box, "ls -A /home /root 2>/dev/null || true")).split()
    assert "hermes" in homes
    assert not any("canary" in name or name == "hermes-tester" for name in homes)


async def test_another_sandbox_is_not_seen(place: str, box: hermes.Sandbox, shared_home: Path) -> None:
    with in_home(shared_home):
        async with sandbox(place) as other:
            await other.exec(
                f"echo {SECRET} >/workspace/theirs; echo {SECRET} >~/theirs; touch /scratch/theirs"
            )
            found = await box.exec("find / -name theirs -not -path '/proc/*' 2>/dev/null; ls /run/hermes")
            assert "theirs" not in found.text
            assert found.text.split() == ["boot.py", "guest"]
            pid = await text(other, "cut -d' ' -f4 /proc/self/stat")
            assert await text(box, f"cat /proc/{pid}/environ 2>/dev/null | grep -ac theirs || true") == "0"
            mounts = await text(box, "cat /proc/self/mountinfo")
            assert other.id not in mounts


async def test_the_metadata_service_is_out_of_reach_at_once(place: str, shared_home: Path) -> None:
    """Before the first command, and after a suspend too."""
    code = (
        "import socket, time\nt = time.monotonic()\n"
        "for address in ('169.254.169.254', '169.254.170.2', '100.100.100.200', '168.63.129.16'):\n"
        "    try: socket.create_connection((address, 80), 3); print('connected')\n"
        "    except OSError as error: print(error.errno)\n"
        "print(time.monotonic() - t < 1.5)"
    )
    with in_home(shared_home):
        async with sandbox(place, name="metadata") as box:
            for _ in range(2):
                said = (await text(box, "python3 -", stdin=code.encode())).split()
                assert set(said[:-1]) <= {"113", "101"}  # no route, no network
                assert said[-1] == "True"
                await box.suspend()
                await box.resume()
            await box.destroy()


@pytest.mark.root_only
@pytest.mark.slow
async def test_deleting_everything_destroys_only_the_containers_view(
    place: str, shared_home: Path, tmp_path: Path
) -> None:
    """Also where root inside may write its own root. What is mounted read-only stays."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("precious")
    with in_home(shared_home):
        for options in ({}, {"writable_root": True}) if place == "docker" else ({},):
            async with sandbox(
                place, name="wiped", user="root", mounts=[f"{tmp_path}/kept:/mnt/kept:ro"], **options
            ) as box:
                await box.exec("echo x >/workspace/mine")
                result = await box.exec("rm -rf / --no-preserve-root 2>/dev/null; echo survived", timeout=40)
                assert result.text.strip() in ("survived", "")
                assert (tmp_path / "kept" / "file").read_text() == "precious"
                base = shared_home / "sandboxes" / f"docker-{box.id}"
                assert not (base / "workspace" / "mine").exists()
                await box.destroy()
            assert not base.exists()


@ONE_ENGINE
async def test_filling_what_is_in_memory_leaves_the_hosts_alone(place: str, shared_home: Path) -> None:
    """The host's own ``/dev/shm`` and ``/tmp`` are others."""
    with in_home(shared_home):
        async with sandbox(place, tmp_size=4 << 20, scratch_size=4 << 20, shm_size=4 << 20) as box:
            before = os.statvfs("/dev/shm").f_bavail
            for point in ("/tmp", "/var/tmp", "/dev/shm", "/scratch"):
                result = await box.exec(f"head -c 50M /dev/zero >{point}/fill")
                assert result.exit_code != 0
            assert before - os.statvfs("/dev/shm").f_bavail < 4096
            assert await text(box, "echo alive") == "alive"


async def test_a_server_of_the_hosts_loopback_is_not_reached(box: hermes.Sandbox) -> None:
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    started = time.monotonic()
    result = await box.exec(
        f"for a in 127.0.0.1 localhost 10.0.2.2 $(hostname -i) host.docker.internal; "
        f"do curl -s -m 1 http://$a:{port}/; [ $? -eq 52 ] && echo reached $a; done; true"
    )
    assert "reached" not in result.text
    assert time.monotonic() - started < 15
    server.close()
    await server.wait_closed()


async def test_the_address_of_an_abstract_socket_is_the_containers_own(box: hermes.Sandbox) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0hermes-canary")
        server.listen()
        result = await box.exec(
            "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('\\\\0hermes-canary')\""
        )
        assert result.exit_code == 1
        assert b"refused" in result.stderr


async def test_the_engine_allows_no_way_round_by_exec(box: hermes.Sandbox) -> None:
    """What is started for debugging is held like everything else."""
    said = await engine(
        box.backend, "exec", container(box), "grep", "-E", "CapEff|NoNewPrivs|Seccomp:", "/proc/self/status"
    )
    facts = dict(line.split(":\t") for line in said.splitlines())
    assert facts["NoNewPrivs"] == "1" or box.backend == "podman"
    assert facts["Seccomp"] == "2"
    assert int(facts["CapEff"], 16) & ~0xB == 0
