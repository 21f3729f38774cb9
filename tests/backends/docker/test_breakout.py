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
from _containers import ONE_ENGINE, ROOT, container, engine, sandbox, text
from hermes.testing._harness import hermes_home as in_home

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "canary-3f9a1c"  # spelled apart inside, so that no search finds itself
SYSCALL = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    ctypes.set_errno(0)
    held = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) for a in args]
    result = libc.syscall(ctypes.c_long(number), *held)
    if result < 0:
        print(errno.errorcode[ctypes.get_errno()])
        sys.exit(1)
    print("done", result)
"""


def system_call(code: str) -> str:
    """Return shell text that makes a system call (x86-64) and fails as it does."""
    return f"python3 - <<'CODE'\n{SYSCALL}{code}\nCODE"


# What fails has an exit code other than 0 and says nothing of use.
ATTEMPTS: dict[str, str] = {
    "write /usr": "cp /bin/true /usr/bin/evil",
    "write /etc/passwd": "echo evil::0:0::/:/bin/sh >>/etc/passwd",
    "write /etc/ld.so.preload": "echo /scratch/evil.so >/etc/ld.so.preload",
    "write another's run directory": "mkdir /run/hermes/../../var/run/../../usr/x",
    "remount the root writable": "mount -o remount,rw /",
    "mount memory": "mount -t tmpfs none /mnt",
    "mount a fresh proc": "mkdir -p /scratch/p; mount -t proc proc /scratch/p",
    "mount the host's disk": "mkdir -p /scratch/d; mount /dev/vda /scratch/d || mount /dev/sda1 /scratch/d",
    "bind over a system file": "touch /scratch/f; mount --bind /scratch/f /etc/passwd",
    "unmount what hides": "umount /proc/keys || umount /proc/sys || umount /sys/firmware",
    "the new mount calls": system_call("call(430, b'tmpfs', 0)"),
    "move a mount": system_call("call(428, -100, b'/', 1)"),
    "make a disk's device": "mknod /scratch/disk b 254 0 && head -c 512 /scratch/disk >/dev/null",
    "make the kernel's memory": "mknod /scratch/mem c 1 1 && head -c 1 /scratch/mem",
    "read a disk that is there": "cat /dev/vda /dev/sda /dev/nvme0n1 /dev/mem /dev/kmsg /dev/fuse",
    "read the kernel's memory": "head -c 1 /proc/kcore; test -s /proc/kcore",
    "trace a process of the host": system_call(f"call(101, 16, {os.getpid()}, 0, 0)"),
    "memory of a process of the host": f"head -c 1 /proc/{os.getpid()}/mem",
    "memory of the host's by call": system_call(f"call(310, {os.getpid()}, 0, 0, 0, 0, 0)"),
    "a setuid program": "cp /usr/bin/id /scratch/id; chmod u+s /scratch/id; "
    "setpriv --reuid 4321 --regid 4321 --clear-groups /scratch/id -u | grep -qx 0",
    "su": "echo | su -c id nobody",
    "sudo": "sudo -n id",
    "become another user": "python3 -c 'import os; os.setuid(4321); os.setgid(4321)'",
    "raise capabilities": "setpriv --inh-caps +sys_admin --ambient-caps +sys_admin true",
    "chroot": "chroot / true",
    "pivot the root": system_call("call(155, b'/', b'/')"),
    "a user namespace": "unshare -U true",
    "a user namespace by clone": system_call("call(56, 0x10000011, 0, 0, 0, 0)"),
    "a mount namespace": "unshare -m true",
    "a network namespace": "unshare -n true",
    "a process namespace": "unshare -fp true",
    "join a namespace": "nsenter -t 1 -m true",
    "open by handle": system_call("call(304, 3, 0, 0)"),
    "write /proc/sys": "echo 1 >/proc/sys/kernel/randomize_va_space",
    "core_pattern": "echo '|/scratch/evil' >/proc/sys/kernel/core_pattern",
    "modprobe path": "echo /scratch/evil >/proc/sys/kernel/modprobe",
    "binfmt": "echo evil >/proc/sys/fs/binfmt_misc/register",
    "sysrq": "echo b >/proc/sysrq-trigger",
    "interrupts": "echo 1 >/proc/irq/default_smp_affinity",
    "write /sys": "echo 0 >/sys/kernel/mm/transparent_hugepage/enabled",
    "uevent helper": "echo /scratch/evil >/sys/kernel/uevent_helper",
    "release_agent": "echo /scratch/evil >/sys/fs/cgroup/memory/release_agent",
    "a release_agent of its own": "mkdir -p /scratch/cg; mount -t cgroup -o memory cgroup /scratch/cg",
    "lift its own limit": "cd /sys/fs/cgroup; for f in memory/memory.limit_in_bytes memory.max; do "
    "[ -e $f ] && echo -1 >$f && exit 0; done; false",
    "allow itself devices": "echo a >/sys/fs/cgroup/devices/devices.allow",
    "leave its control group": "mkdir /sys/fs/cgroup/pids/out",
    "load a module": system_call("call(175, b'', 0, b'')"),
    "load a module by file": system_call("call(313, 0, b'', 0)"),
    "kexec": system_call("call(246, 0, 0, 0, 0)"),
    "reboot": system_call("call(169, 0xfee1dead, 672274793, 0, 0)"),
    "bpf": system_call("call(321, 0, 0, 0)"),
    "perf_event_open": system_call("call(298, 0, 0, -1, -1, 0)"),
    "keyctl": system_call("call(250, 0, -3, 0)"),
    "add_key": system_call("call(248, b'user', b'a', b'b', 1, -3)"),
    "userfaultfd": system_call("call(323, 0)"),
    "the kernel's log": "dmesg",
    "change the clock": "date -s 2001-01-01",
    "change the host's name": "hostname evil",
    "swap": system_call("call(167, b'/scratch/f', 0)"),
    "a raw socket": "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)'",
    "forge ARP": "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x806)'",
    "change routes": 'python3 -c "import socket, struct; s = socket.socket(16, 3, 0); '
    "s.send(struct.pack('IHHII8BI', 28, 25, 5, 1, 0, 2, 16, 0, 0, 254, 3, 0, 7, 0) + "
    "struct.pack('HH4B', 8, 1, 169, 254, 0, 0)); "
    "code = struct.unpack('i', s.recv(4096)[16:20])[0]; raise SystemExit(code != 0)\"",
    "the metadata service": "curl -s -m 2 http://169.254.169.254/",
    "the engine's socket": "find / -xdev -type s 2>/dev/null | grep -v ^/run/hermes/ || "
    "ls /var/run/docker.sock /run/podman /run/containerd",
    "ulimits above the host's": "ulimit -Hn 99999999",
}


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
