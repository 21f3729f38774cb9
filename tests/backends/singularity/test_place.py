"""What a sandbox is, seen from inside and from this machine; its life, its end, and what it leaves."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

import hermes
from hermes.backends.singularity import SingularityBackend, workdir
from hermes.backends.singularity._client import client_for
from hermes.config import Lifetime, load
from hermes.errors import BackendError, ConfigError, SandboxDiffers, SandboxGone
from hermes.state import Store
from hermes.testing.tools import eventually, out

from .conftest import Open

SECRET = "not-for-the-inside"


async def instances() -> dict[str, int]:
    """The instances of this test, and not of others that run at the same time: told by what is mounted."""
    found = await (await client_for("auto")).instances("hermes-*")
    own = [os.environ["HERMES_HOME"], os.environ.get("TERMINAL_SCRATCH_DIR") or "no such thing"]

    def is_ours(pid: int) -> bool:
        try:
            mounts = Path(f"/proc/{pid}/mountinfo").read_text()
        except OSError:
            return False
        return any(path in mounts for path in own)

    return {name: pid for name, pid in found.items() if await asyncio.to_thread(is_ours, pid)}


def place_of(box: hermes.Sandbox) -> SingularityBackend:
    place = box._the_place()
    assert isinstance(place, SingularityBackend)
    return place


async def started(box: hermes.Sandbox) -> bool:
    files = place_of(box)._files
    assert files is not None
    return await asyncio.to_thread((files.base / "workspace" / "started").exists)


async def none_left() -> bool:
    return await instances() == {}


async def prune() -> list[str]:
    return await SingularityBackend.prune(await asyncio.to_thread(load), await asyncio.to_thread(Store))


async def first_process(box: hermes.Sandbox) -> int:
    return (await instances())[f"hermes-{box.id}"]


# --- what is seen inside


async def test_nothing_of_this_machine_shows(
    open_box: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SOME_SECRET", SECRET)
    monkeypatch.setenv("APPTAINERENV_SOME_SECRET", SECRET)
    monkeypatch.setenv("APPTAINER_BIND", f"{tmp_path}:/given")
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / f"in-{SECRET}").mkdir()
    monkeypatch.chdir(tmp_path / f"in-{SECRET}")
    home = Path.home()
    box = await open_box()
    seen = await out(
        box,
        "env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; ls -A /home ~; "
        "ls -d /given 2>/dev/null; true",
    )
    assert SECRET not in seen
    assert "APPTAINER_" not in await out(box, "env")
    assert await out(box, "echo $HOME $TMPDIR; ls -A /home") == "/home/hermes /scratch\nhermes"
    for path in (
        home / ".hermes",
        home / ".ssh",
        tmp_path / "secret",
        Path(os.environ["HERMES_HOME"]),
        "/given",
    ):
        assert await out(box, f"test -e '{path}' || echo no") == "no", path
    # Nobody else's processes.
    assert int(await out(box, "ls -d /proc/[0-9]* | wc -l")) < 12


async def test_what_can_be_written(open_box: Open) -> None:
    box = await open_box()
    for folder in ("/workspace", "/home/hermes", "/scratch", "/tmp", "/var/tmp"):
        made = f"{folder}/program"
        command = f"printf '#!/bin/sh\\necho ran' >{made}; chmod +x {made}; {made}"
        assert await out(box, command) == "ran", folder
    assert await out(box, "cd $(mktemp -d) && pwd | cut -d/ -f2") == "scratch"


@pytest.mark.root_only
async def test_root_inside_has_three_capabilities(open_box: Open) -> None:
    box = await open_box()
    status = await out(box, "grep -E '^(Cap|NoNewPrivs)' /proc/self/status")
    assert {line.split()[1] for line in status.splitlines() if line.startswith("Cap")} == {"000000000000000b"}
    assert re.search(r"NoNewPrivs:\s1", status)
    assert await out(box, "touch /workspace/f && chown 12 /workspace/f && stat -c %u /workspace/f") == "12"


ATTEMPTS = [
    "echo x >/proc/sys/kernel/core_pattern",
    "echo 1 >/proc/sys/vm/drop_caches",
    "echo h >/proc/sysrq-trigger",
    "mount -t tmpfs none /mnt",
    "mount -o remount,rw /proc/sys",
    "umount /proc/sys",
    "unshare -m true",
    "unshare -Urm sh -c 'mount -o remount,rw /proc/sys'",
    "unshare -Urm sh -c 'umount /proc/sys'",
    "mknod /scratch/disk b 254 0 && head -c 1 /scratch/disk",
    "head -c 1 /dev/kmsg",
    "chroot / true",
    "hostname elsewhere",
    "sysctl -w kernel.hostname=elsewhere",
    "find /sys -name release_agent -writable 2>/dev/null | grep .",
    "find /sys/fs/cgroup -type f -writable 2>/dev/null | grep .",
    "for f in $(find /sys -maxdepth 3 -perm -200 -type f | head -50); do echo 0 >$f && exit 0; done; exit 1",
    "echo 1 >/proc/1/oom_score_adj && false",
    "nsenter -t 1 -m -p -n -i true && test -e /root/.hermes",
    "cat /proc/kcore | head -c 1 | grep .",
    "ls /dev | grep -E '^(vd|sd|nvme|loop|fuse|kvm|mem)'",
    "date -s '2001-01-01'",
    "modprobe loop",
    "kill -9 -- -1 && false",
    # the keys that the kernel keeps for this user: keyctl(GET_KEYRING_ID, SESSION)
    "python3 -c 'import ctypes; exit(ctypes.CDLL(None).syscall(250, 0, -3, 1) == -1)'",
]


async def test_system_calls_are_filtered(open_box: Open) -> None:
    box = await open_box()
    assert await out(box, "grep '^Seccomp:' /proc/self/status") == "Seccomp:\t2"
    assert not box.describe()["reaches_host"]
    open_wide = await open_box(seccomp=False)
    assert open_wide.describe()["reaches_host"] == ["its system calls are not filtered"]
    assert open_wide.describe()["isolation"] == "none"


@pytest.mark.parametrize("attempt", ATTEMPTS)
async def test_breaking_out(open_box: Open, attempt: str) -> None:
    before = {
        path: Path(path).read_bytes()
        for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname")
    }
    box = await open_box()
    result = await box.exec(["sh", "-c", attempt], timeout=20)
    assert result.exit_code != 0, result
    assert {path: Path(path).read_bytes() for path in before} == before


async def test_the_network_is_off_when_asked(open_box: Open) -> None:
    box = await open_box(network="off")
    assert await out(box, "grep -c : /proc/net/dev; cat /proc/net/route | wc -l") == "1\n1"
    assert box.describe()["network_off"]
    assert not box.describe()["shares_network"]


async def test_the_network_is_this_machines_own(open_box: Open) -> None:
    """So is what listens on its loopback alone, and the metadata address of its cloud."""
    box = await open_box()
    assert await out(box, "readlink /proc/self/ns/net") == os.readlink("/proc/self/ns/net")
    assert box.describe()["shares_network"]


async def test_the_workspace_may_be_a_directory_of_this_machine(open_box: Open, tmp_path: Path) -> None:
    work = tmp_path / "a,b c"
    work.mkdir()
    (work / "in").write_text("from here")
    box = await open_box(workspace=str(work))
    assert await out(box, "pwd; cat in; echo back >out") == "/workspace\nfrom here"
    assert (work / "out").read_text() == "back\n"
    assert (work / "out").stat().st_uid == os.geteuid()
    await box.destroy()
    assert (work / "in").exists()


async def test_binds(open_box: Open, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("data")
    box = await open_box(binds=[f"{tmp_path}:/data:ro"])
    assert await out(box, "cat /data/data; touch /data/x 2>/dev/null || echo no") == "datano"
    assert not box.describe()["reaches_host"]


async def test_what_reaches_the_host_is_said(open_box: Open) -> None:
    box = await open_box(binds=["/:/host:ro"])
    facts = box.describe()
    assert facts["isolation"] == "none"
    assert facts["reaches_host"] == ["/ is bound: it is the whole file system"]
    assert facts["judge"] is not None


async def test_an_image_file(open_box: Open, sif: str) -> None:
    box = await open_box(image=sif)
    assert (
        await out(box, "touch /usr/new 2>/dev/null; echo $LD_LIBRARY_PATH; pwd")
        == "/.singularity.d/libs\n/workspace"
    )


@pytest.mark.user_only
async def test_fakeroot(open_box: Open, sif: str) -> None:
    box = await open_box(image=sif, fakeroot=True, persistent=True)
    assert await out(box, "id -u; touch /usr/new && stat -c %u /usr/new") == "0\n0"
    assert box.describe()["channel"] == "direct"
    assert await out(box, "touch f; chown 33 f; stat -c %u f") == "33"


# --- limits


FORKS = """
import os, signal, sys, time
made = []
try:
    while len(made) < 200:
        made.append(os.fork())
        if not made[-1]: time.sleep(20); os._exit(0)
except OSError: pass
print(len(made))
for pid in made: os.kill(pid, signal.SIGKILL)
"""


@pytest.mark.root_only
async def test_limits_hold(open_box: Open) -> None:
    box = await open_box(limits={"memory": 200 << 20, "pids": 60, "cpus": 0.5})
    hog = await box.run("python3 -c 'x = bytearray(500 << 20)'", timeout=30)
    assert (hog.exit_code, hog.out_of_memory) == (137, True)
    killed = await box.run("python3 -c 'import os; os.kill(os.getpid(), 9)'")
    assert (killed.exit_code, killed.out_of_memory) == (137, False)
    assert await out(box, "echo on") == "on"
    assert int(await out(box, f"python3 -c '{FORKS}'")) < 60


@pytest.mark.root_only
async def test_other_limits_are_said_in_units(open_box: Open) -> None:
    box = await open_box(name="held", limits={"memory": 1536 << 20, "pids": 1000000})
    await box.close()
    with pytest.raises(SandboxDiffers, match="limits: memory 1536m pids 1000000, now memory 2g"):
        await open_box(name="held", limits={"memory": 2 << 30})


@pytest.mark.root_only
async def test_a_guest_that_was_killed_for_want_of_memory(open_box: Open) -> None:
    box = await open_box(limits={"memory": 200 << 20})
    assert box._channel is not None
    pid = box._channel.guest["pid"]
    # The kernel takes it first.
    command = f"echo 1000 >/proc/{pid}/oom_score_adj; python3 -c 'x = bytearray(500 << 20)'; sleep 5"
    with pytest.raises(SandboxGone) as caught:
        await asyncio.wait_for(box.run(command), 30)
    assert "killed processes there for want of memory" in caught.value.reason
    assert len(await instances()) == 1


async def test_a_guest_that_was_killed(open_box: Open) -> None:
    box = await open_box()
    assert box._channel is not None
    with pytest.raises(SandboxGone, match="its guest process has ended") as caught:
        await box.run(f"kill -9 {box._channel.guest['pid']}; sleep 5")
    assert "memory" not in caught.value.reason


# --- life


async def test_files_outlive_a_stop(open_box: Open) -> None:
    box = await open_box(name="stopped")
    await box.run("echo w >/workspace/f; echo h >~/f; echo s >/scratch/f; touch /usr/lib/gone 2>/dev/null")
    await box.suspend()
    assert await instances() == {}
    await box.resume()
    assert await out(box, "cat /workspace/f ~/f /scratch/f; ls /usr/lib/gone 2>/dev/null; true") == "w\nh\ns"


async def test_all_files_outlive_a_stop_when_persistent(open_box: Open) -> None:
    box = await open_box(name="kept", persistent=True)
    await box.run("mkdir /new && echo here >/new/file")
    await box.close()
    os.kill(await first_process(box), signal.SIGKILL)
    await eventually(none_left)
    again = await open_box(name="kept", persistent=True)
    assert again.id == box.id
    assert await out(again, "cat /new/file") == "here"


async def test_it_is_found_by_another_client_without_the_program(
    open_box: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = await open_box(name="found")
    await box.run("x=1")
    await box.close()
    monkeypatch.setattr(
        "hermes.backends.singularity._client.Client.call", None
    )  # not needed on the fast path
    again = await open_box(name="found")
    assert await out(again, "echo $x") == "1"
    monkeypatch.undo()


async def test_other_settings_are_noticed(open_box: Open) -> None:
    box = await open_box(name="same")
    await box.run("echo kept >f")
    await box.close()
    with pytest.raises(SandboxDiffers, match="network: on, now off"):
        await open_box(name="same", network="off")
    again = await open_box(name="same", network="off", recreate=True)
    assert await out(again, "cat f") == "kept"


async def test_killed_from_outside(open_box: Open) -> None:
    box = await open_box()
    running = asyncio.create_task(box.run("touch started; sleep 60"))
    await eventually(lambda: started(box))
    os.kill(await first_process(box), signal.SIGKILL)
    with pytest.raises(SandboxGone) as caught:
        await running
    assert "stopped or killed from outside" in caught.value.reason


async def test_stopped_by_the_client_program(open_box: Open) -> None:
    box = await open_box()
    client = await client_for("auto")
    await client.call("instance", "stop", f"hermes-{box.id}")
    with pytest.raises(SandboxGone, match="stopped or killed from outside"):
        await box.run("true")


async def test_its_files_removed_from_outside(open_box: Open) -> None:
    box = await open_box()
    files = place_of(box)._files
    assert files is not None
    await asyncio.to_thread(shutil.rmtree, files.base)
    os.kill(await first_process(box), signal.SIGKILL)
    with pytest.raises(SandboxGone, match="files were removed"):
        await box.run("true")


@pytest.mark.slow
async def test_it_ends_by_itself_and_says_so(open_box: Open) -> None:
    lifetime = Lifetime(idle_guest=0.5, idle_stop=2.5)
    box = await open_box(name="idle", lifetime=lifetime)
    await box.run("echo kept >f")
    await box.close()

    await eventually(none_left, 15)
    place = place_of(box)
    assert await place.find(place._made) == "stopped"
    assert "nothing ran in it" in await place.diagnose("x")
    again = await open_box(name="idle")
    assert await out(again, "cat f") == "kept"


@pytest.mark.slow
async def test_work_keeps_it(open_box: Open) -> None:
    box = await open_box(name="busy", lifetime=Lifetime(idle_guest=0.5, idle_stop=1.5))
    await box.run("setsid sleep 8 >/dev/null 2>&1 &")
    await box.close()
    await asyncio.sleep(5)
    assert len(await instances()) == 1


async def test_nothing_is_left(open_box: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_SCRATCH_DIR", str(tmp_path / "scratch"))
    box = await open_box(name="left", persistent=True)
    files = place_of(box)._files
    assert files is not None
    assert files.base.parent == tmp_path / "scratch"
    await box.run("mkdir locked; touch locked/f; chmod 0 locked; touch /new")
    name = f"hermes-{box.id}"
    await box.destroy()
    assert os.listdir(tmp_path / "scratch") == []
    assert not os.path.exists(files.host_run)
    assert name not in await instances()
    logs = Path.home() / ".apptainer" / "instances"
    assert not await asyncio.to_thread(lambda: list(logs.rglob(f"{name}*")))
    assert name not in Path("/proc/mounts").read_text()


async def test_the_directory_of_its_socket_removed_from_outside(open_box: Open) -> None:
    box = await open_box(name="cut")
    await box.run("echo kept >f")
    await box.close()
    files = place_of(box)._files
    assert files is not None
    await asyncio.to_thread(shutil.rmtree, files.host_run)
    again = await open_box(name="cut")
    assert await out(again, "cat f") == "kept"
    assert len(await instances()) == 1


async def test_nothing_is_written_through_links_that_it_left(open_box: Open, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text("sings")
    box = await open_box(name="links")
    for path in ("/run/hermes/boot.py", "/run/hermes/ended", "/run/hermes/no-guest"):
        await box.run(f"rm -rf {path}; ln -s {canary} {path}")
    await box.run("rm -rf ~/.hermes; ln -s /etc ~/.hermes")
    await box.suspend()
    await box.resume()
    assert await out(box, "echo on") == "on"
    await box.destroy()
    assert canary.read_text() == "sings"


async def test_destroying_what_is_gone(open_box: Open) -> None:
    box = await open_box()
    place = place_of(box)
    os.kill(await first_process(box), signal.SIGKILL)
    await box.destroy()
    await place.destroy()


async def test_an_image_that_does_not_start(open_box: Open, tmp_path: Path) -> None:
    (tmp_path / "image.sif").write_text("nonsense")
    with pytest.raises(BackendError, match="the instance could not be started") as caught:
        await open_box(image=f"{tmp_path}/image.sif")
    assert f"exec {tmp_path}/image.sif true' work in a shell" in str(caught.value.hint)
    work, _ = await asyncio.to_thread(workdir.choose)
    assert os.listdir(work) == []
    assert await asyncio.to_thread(lambda: Store().all()) == []


async def test_where_instances_do_not_work(open_box: Open, tmp_path: Path) -> None:
    """As under administrators who allow nothing that outlives a command."""
    program = tmp_path / "apptainer"
    real = (await client_for("auto")).path
    program.write_text(f'#!/bin/sh\ncase " $* " in *" instance "*) exit 255; esac\nexec {real} "$@"\n')
    program.chmod(0o700)
    with pytest.raises(BackendError, match="could not be started: apptainer ended with 255") as caught:
        await open_box(program=str(program))
    assert "'apptainer instance list' fails too" in str(caught.value.hint)
    assert "singularity.slurm" in str(caught.value.hint)
    assert await asyncio.to_thread(lambda: Store().all()) == []
    work, _ = await asyncio.to_thread(workdir.choose)
    assert os.listdir(work) == []


async def test_an_image_without_python(open_box: Open, tmp_path: Path, image: str) -> None:
    with pytest.raises(BackendError):
        await open_box(image=f"{image}/var")
    assert await instances() == {}


async def test_a_cancelled_start_leaves_nothing(image: str) -> None:
    for delay in (0.02, 0.08, 0.15, 0.3):
        box = hermes.Sandbox("singularity", image=image)
        opening = asyncio.create_task(box.open())
        await asyncio.sleep(delay)
        opening.cancel()
        try:
            await opening
        except asyncio.CancelledError:
            pass
        else:  # it was open by then, on a quick machine
            assert delay > 0.1
            await box.destroy()
        assert await instances() == {}
        work, _ = await asyncio.to_thread(workdir.choose)
        assert os.listdir(work) == []


# --- prune


async def test_prune_removes_what_no_record_has(open_box: Open) -> None:
    box, kept = await open_box(name="lost"), await open_box(name="kept")
    record = box._record
    assert record is not None
    await asyncio.to_thread(lambda: Store().remove(record))
    gone = await prune()
    assert [line.split(" removed")[0] for line in gone] == [f"instance hermes-{box.id}"]
    assert list(await instances()) == [f"hermes-{kept.id}"]


async def test_prune_leaves_those_of_another_home(
    open_box: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERMINAL_SCRATCH_DIR", str(tmp_path / "scratch"))
    box = await open_box(name="theirs")
    with monkeypatch.context() as patch:
        patch.setenv("HERMES_HOME", str(tmp_path / "other"))
        assert await prune() == []
    assert await out(box, "echo on") == "on"


async def test_it_is_refused_without_the_program(monkeypatch: pytest.MonkeyPatch, image: str) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(BackendError, match="there is no apptainer and no singularity on the PATH") as caught:
        await hermes.Sandbox("singularity", image=image).open()
    assert caught.value.code == "backend_unavailable"


async def test_the_other_name(image: str) -> None:
    async with hermes.Sandbox("apptainer", image=image, approval="off") as box:
        assert box.backend == "singularity"
        assert await out(box, "echo on") == "on"
    with pytest.raises(ConfigError, match="there is no backend 'aptainer'"):
        await hermes.Sandbox("aptainer").open()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_fifty_leave_nothing(open_box: Open, image: str) -> None:
    idents: list[str] = []
    for _ in range(10):
        boxes = [hermes.Sandbox("singularity", image=image, approval="off") for _ in range(5)]
        await asyncio.gather(*(box.open() for box in boxes))
        idents += [box.id for box in boxes]
        results = await asyncio.gather(*(box.run("echo $$") for box in boxes))
        assert [result.exit_code for result in results] == [0] * 5
        await asyncio.gather(*(box.destroy() for box in boxes))
    assert await instances() == {}
    mounts = Path("/proc/mounts").read_text().splitlines()
    assert not [line for line in mounts if os.environ["HERMES_HOME"] in line or "/apptainer/mnt" in line]
    work, _ = await asyncio.to_thread(workdir.choose)
    assert os.listdir(work) == []
    assert not [name for name in os.listdir(Path.home() / ".apptainer/instances/logs") if "hermes-" in name]
    ours = [f"[hermes-{ident}]".encode() for ident in idents]
    lines = [_read(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not [line for line in lines if any(mark in line for mark in ours)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
