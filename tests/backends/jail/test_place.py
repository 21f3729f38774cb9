"""What a jail is, seen from inside and from this machine; its life, its end, and what it leaves."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hermes
from hermes.backends._connect import connect_guest
from hermes.backends.jail import JailBackend, _fence
from hermes.backends.jail import _bwrap as bwrap_module
from hermes.backends.jail._files import Files
from hermes.backends.jail._limits import TOP, enforceable
from hermes.config import load
from hermes.errors import BackendError, ConfigError, SandboxDiffers, SandboxGone, UnsupportedError
from hermes.guest.dirs import SOCKET
from hermes.places import place_of as place_of_record
from hermes.state import Store
from hermes.testing.tools import eventually, out, tag

from .conftest import Open

FORKS = """python3 - <<'CODE'
import os, time
count = 0
try:
    while count < 200:
        if os.fork() == 0:
            time.sleep(1)
            os._exit(0)
        count += 1
except OSError:
    pass
print(count)
CODE"""


def place_of(box: hermes.Sandbox) -> JailBackend:
    place = box._the_place()
    assert isinstance(place, JailBackend)
    return place


def processes(word: str) -> list[int]:
    """The processes of this machine whose command line has a word. Blocks."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if word.encode() in Path("/proc", entry, "cmdline").read_bytes():
                found.append(int(entry))
        except OSError:
            continue
    return found


async def none_has(word: str) -> None:
    async def none() -> bool:
        return not await asyncio.to_thread(processes, word)

    await eventually(none, 5.0)


def has_policies() -> bool:
    """Whether this kernel can hold back what names its device with each packet."""
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 6).close()
    except OSError:
        return False
    return True


def left(home: Path) -> list[str]:
    return [one.name for one in (home / "sandboxes").glob("jail-*")]


# --- what is inside


async def test_what_is_there(open_box: Open) -> None:
    box = await open_box()
    assert await out(box, "pwd; echo $HOME; hostname; ls -A /workspace; ls -A /home") == (
        "/workspace\n/home/hermes\nhermes\nhermes"
    )
    assert await out(box, "id -u; id -g") == f"{os.geteuid()}\n{os.getegid()}"
    assert await out(box, "whoami") == ("root" if os.geteuid() == 0 else "hermes")
    for folder in ("/workspace", "~", "/tmp", "/var/tmp", "/dev/shm"):
        await out(box, f"echo x >{folder}/file && cat {folder}/file")
    for folder in ("/", "/usr", "/etc", "/dev", "/run", "/var", "/home", "/proc/sys/kernel"):
        assert (await box.exec(f"touch {folder}/file")).exit_code != 0, folder
    await out(box, "python3 --version && git --version && env LC_ALL=C.UTF-8 true")


async def test_what_it_says_of_itself(open_box: Open, tmp_path: Path) -> None:
    private = (await open_box()).describe()
    assert (private["isolation"], private["judge"], private["verified"]) == ("container", None, "real")
    here = (await open_box(workspace=str(tmp_path))).describe()
    assert here["judge"] is not None


async def test_a_directory_of_this_machine(open_box: Open, tmp_path: Path) -> None:
    work = tmp_path / "a,b c"
    work.mkdir()
    (work / "in").write_text("from here")
    box = await open_box(workspace=str(work))
    assert await out(box, "pwd; cat in; echo back >out") == "/workspace\nfrom here"
    assert (work / "out").read_text() == "back\n"
    await box.destroy()
    assert (work / "in").exists()


async def test_it_is_found_and_removed_from_anywhere(
    open_box: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "project"
    work.mkdir()
    monkeypatch.chdir(work)
    box = await open_box(workspace="here", name="project")
    await box.close()
    monkeypatch.chdir("/")
    record = await asyncio.to_thread(lambda: Store().get("jail", "project"))
    assert record is not None
    place = await asyncio.to_thread(lambda: place_of_record(record, load()))
    assert await place.find(record.locator) == "running"
    await place.destroy()
    assert await place.find(record.locator) == "gone"


@pytest.mark.parametrize("path", ["/", "/etc", "~", "~/.ssh", "/var/run", "/tmp", "/var/tmp", "/dev/shm"])
async def test_what_would_give_away_the_host_is_refused(open_box: Open, path: str) -> None:
    with pytest.raises(ConfigError, match="nothing was started"):
        await open_box(workspace=path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"image": "debian"}, "an image"),
        ({"network": "internal"}, "network: internal"),
        ({"limits": {"disk": 1 << 30}}, "the limit 'disk'"),
    ],
)
async def test_what_it_cannot_do_is_refused(open_box: Open, options: dict[str, object], says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        await open_box(**options)


@pytest.mark.parametrize("network", ["off", "on"])
async def test_a_workspace_that_is_changed_while_it_is_mounted(
    open_box: Open, tmp_path: Path, network: str
) -> None:
    """Another jail that writes there could lead a mount elsewhere, between the look and the mount."""
    here, other = tmp_path / "project", tmp_path / "other"
    for folder in (here, other):
        (folder / ".git" / "hooks").mkdir(parents=True)
    real = await asyncio.to_thread(bwrap_module._found, "auto")
    swapping = tmp_path / "bwrap"
    swapping.write_text(
        f"""#!/bin/sh
[ "$1" != --args ] || {{ mv {here}/.git {here}/away; mv {other}/.git {here}/.git; }}
exec {real} "$@"
"""
    )
    swapping.chmod(0o755)
    with pytest.raises(BackendError, match="changed while it was mounted") as caught:
        await open_box(workspace=str(here), program=str(swapping), network=network)
    assert caught.value.code == "workspace_changed"


@pytest.mark.parametrize(
    "options", [{"nonsense": 1}, {"protect": ["/etc"]}, {"protect": ["../x"]}, {"protect": ["a\nb"]}]
)
async def test_options_that_make_no_sense(open_box: Open, options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        await open_box(**options)


async def test_without_bubblewrap(open_box: Open) -> None:
    with pytest.raises(BackendError, match="there is no bubblewrap 'no-such-program' here") as caught:
        await open_box(program="no-such-program")
    assert caught.value.code == "backend_unavailable"


async def test_where_namespaces_are_not_allowed(open_box: Open, tmp_path: Path) -> None:
    fails = tmp_path / "bwrap"
    fails.write_text("#!/bin/sh\necho 'setting up uid map: Permission denied' >&2; exit 1\n")
    fails.chmod(0o755)
    with pytest.raises(BackendError, match="cannot make namespaces here: setting up uid map") as caught:
        await open_box(program=str(fails))
    assert "user.max_user_namespaces" in (caught.value.hint or "")


async def test_an_interpreter_in_a_home_is_shown(open_box: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has none."""
    own = os.path.realpath(sys.executable)
    monkeypatch.setattr(bwrap_module, "guest_python", lambda: own)
    monkeypatch.setattr("hermes.backends.jail.guest_python", lambda: own)
    monkeypatch.setattr(bwrap_module, "_is_shown", lambda python: False)
    box = await open_box()
    assert await out(box, "python3 -c 'import sys; print(sys.version_info[0])'") == "3"


# --- network


async def test_off(open_box: Open) -> None:
    box = await open_box(network="off")
    assert await out(box, "grep -c : /proc/net/dev; wc -l </proc/net/route") == "1\n1"
    assert box.describe()["network_off"]


@pytest.mark.parametrize("tool", ["slirp4netns", "pasta"])
async def test_on(open_box: Open, monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    path = shutil.which(tool)
    if path is None:
        pytest.skip(f"no {tool}: scripts/parts start bwrap")
    monkeypatch.setattr("hermes.backends.jail.program", lambda: path)
    monkeypatch.setattr("hermes.backends.jail._channel.program", lambda: path)
    box = await open_box(network="on")
    routes = [line.split() for line in (await out(box, "cat /proc/net/route")).splitlines()[1:]]
    assert any(route[1] == "00000000" for route in routes)
    assert await out(box, "cat /etc/resolv.conf") == "nameserver 10.0.2.3"
    for address in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16"):
        code = f"import socket; socket.create_connection(({address!r}, 80), 3)"
        failed = await box.exec(["python3", "-c", code])
        assert b"unreachable" in failed.stderr or b"No route" in failed.stderr, failed
    # What names a device goes past the routes: with pasta, to wherever this machine gets.
    device = await out(box, "sed -n 's/: .*//p' /proc/net/dev | tr -d ' ' | grep -v ^lo$")
    for option in (f"25, b'{device}'", f"62, socket.if_nametoindex({device!r})"):
        code = (
            f"import socket; s = socket.socket(); s.setsockopt(1, {option}); s.settimeout(3); "
            "s.connect(('169.254.169.254', 80))"
        )
        failed = await box.exec(["python3", "-c", code])
        assert b"not permitted" in failed.stderr, failed
    if has_policies():
        code = (
            f"import socket, struct; s = socket.socket(type=socket.SOCK_DGRAM); "
            f"device = struct.pack('iII', socket.if_nametoindex({device!r}), 0, 0); "
            "s.sendmsg([b'x'], [(0, 8, device)], 0, ('169.254.169.254', 53))"
        )
        failed = await box.exec(["python3", "-c", code])
        assert b"not permitted" in failed.stderr, failed
    pid = next(iter((place_of(box)._files.base / "processes").iterdir())).name.partition("-")[0]
    assert await asyncio.to_thread(processes, f"/proc/{pid}/ns/net")
    await box.destroy()
    await none_has(f"/proc/{pid}/ns/net")


@pytest.mark.root_only
@pytest.mark.parametrize("tool", ["slirp4netns", "pasta"])
async def test_what_is_mounted_on_the_machine_stays(
    open_box: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tool: str
) -> None:
    """A program that leaves the files of the machine behind may take down what others mounted there."""
    path = shutil.which(tool)
    if path is None:
        pytest.skip(f"no {tool}: scripts/parts start bwrap")
    monkeypatch.setattr("hermes.backends.jail.program", lambda: path)
    monkeypatch.setattr("hermes.backends.jail._channel.program", lambda: path)
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "below").touch()
    await mount("--bind", str(shared), str(shared))
    try:
        await mount("--make-shared", str(shared))
        await mount("--bind", "/dev/null", str(shared / "below"))
        box = await open_box(network="on")
        assert (await box.run("true")).exit_code == 0
        await box.destroy()
        assert await asyncio.to_thread(os.path.ismount, shared / "below")
    finally:
        await mount("--recursive", str(shared), program="umount")


async def mount(*args: str, program: str = "mount") -> None:
    process = await asyncio.create_subprocess_exec(program, *args)
    assert await process.wait() == 0


async def test_a_server_here_is_reached_over_the_network(
    open_box: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shutil.which("slirp4netns")  # with pasta the jail has this machine's address itself
    if path is None:
        pytest.skip("no slirp4netns: scripts/parts start bwrap")
    monkeypatch.setattr("hermes.backends.jail.program", lambda: path)
    monkeypatch.setattr("hermes.backends.jail._channel.program", lambda: path)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no network")
        address = probe.getsockname()[0]

    def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(greet, address, 0)
    port = server.sockets[0].getsockname()[1]
    box = await open_box()
    code = f"import socket; print(socket.create_connection(({address!r}, {port}), 5).recv(9))"
    assert await out(box, f'python3 -c "{code}"') == "b'hello'"
    server.close()
    await server.wait_closed()


async def test_that_of_the_host_is_no_isolation(open_box: Open) -> None:
    box = await open_box(network="host")
    assert await out(box, "readlink /proc/self/ns/net") == os.readlink("/proc/self/ns/net")
    facts = box.describe()
    assert (facts["isolation"], facts["reaches_host"]) == ("none", ["it uses the network of this machine"])
    assert facts["judge"] is not None


@pytest.mark.parametrize("script", ["exit 3", "exec sleep 60"])
async def test_one_that_does_not_come_up_is_an_error_and_no_jail_stays(
    open_box: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str
) -> None:
    """Neither a new one nor one that had a network before: its guest must not serve without."""
    box = await open_box(name="has")
    await box.run("echo kept >file")
    place = place_of(box)
    await box.close()
    await place.suspend()
    tool = tmp_path / "slirp4netns"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr("hermes.backends.jail.program", lambda: str(tool))
        patch.setattr("hermes.backends.jail._channel.program", lambda: str(tool))
        patch.setattr("hermes.backends.jail._network.READY_SECONDS", 1.0)
        for name in (None, "has"):
            with pytest.raises(BackendError, match="got no network"):
                await open_box(**({"name": name} if name else {}))
    deadline = time.monotonic() + 5
    while await asyncio.to_thread(place._files.guest_answers) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    assert not await asyncio.to_thread(place._files.guest_answers)
    again = await open_box(name="has")
    assert await out(again, "cat file; tail -n +2 /proc/net/route | wc -l | tr 1-9 +") == "kept\n+"


@pytest.mark.parametrize("moment", [0.0, 0.1, 0.3])
async def test_a_client_that_dies_before_it_is_up_leaves_no_guest_without(
    hermes_home: Path, tmp_path: Path, moment: float
) -> None:
    tool = tmp_path / "slirp4netns"
    tool.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun; exec sleep 60\n")
    tool.chmod(0o755)
    code = "import asyncio, hermes; asyncio.run(hermes.Sandbox('jail', name='dies', approval='off').open())"
    path = f"{tmp_path}:{os.environ['PATH']}"
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, env={**os.environ, "PATH": path}, stderr=asyncio.subprocess.DEVNULL
    )
    while not await asyncio.to_thread((tmp_path / "begun").exists):
        await asyncio.sleep(0.01)
    await asyncio.sleep(moment)
    client.kill()
    await client.wait()
    (record,) = await asyncio.to_thread(lambda: Store().all())
    files = await asyncio.to_thread(Files, record.id)
    deadline = time.monotonic() + 5
    while await asyncio.to_thread(_lives, files) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    assert not await asyncio.to_thread(_lives, files)
    async with hermes.Sandbox("jail", name="dies", approval="off") as box:
        assert (await box.run("echo on")).text == "on\n"
        await box.destroy()


def _lives(files: Files) -> bool:
    known = [path.name.partition("-") for path in (files.base / "processes").glob("*-*")]
    return any(os.path.exists(f"/proc/{pid}") for pid, _, _ in known)


async def test_without_a_tool_it_is_off_and_said(open_box: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.backends.jail.program", lambda: None)
    said: list[str] = []
    box = await open_box(on_progress=said.append)
    assert said == ["the network is off: neither slirp4netns nor pasta is installed"]
    assert await out(box, "wc -l </proc/net/route") == "1"
    with pytest.raises(UnsupportedError, match="neither slirp4netns nor pasta"):
        await open_box(network="on")


# --- limits


async def test_the_number_of_processes(open_box: Open) -> None:
    box = await open_box(limits={"pids": 40})
    other = await open_box(limits={"pids": 40})
    counts = await asyncio.gather(out(box, FORKS), out(other, FORKS))
    assert all(20 < int(count) < 40 for count in counts), counts


@pytest.mark.root_only
async def test_a_guest_that_was_killed_for_want_of_memory(open_box: Open) -> None:
    box = await open_box(limits={"memory": 200 << 20})
    assert box._channel is not None
    pid = box._channel.guest["pid"]
    # The kernel takes it first.
    command = f"echo 1000 >/proc/{pid}/oom_score_adj; python3 -c 'x = bytearray(500 << 20)'; sleep 5"
    with pytest.raises(SandboxGone) as caught:
        await asyncio.wait_for(box.run(command), 30)
    assert "by the system for want of memory" in caught.value.reason


@pytest.mark.root_only
async def test_memory_and_cores(open_box: Open) -> None:
    box = await open_box(limits={"memory": 200 << 20, "cpus": 0.5})
    result = await box.exec("python3 -c 'bytearray(400 << 20)'")
    assert result.exit_code == 137
    assert result.out_of_memory
    used = await out(
        box,
        "python3 -c 'import time; end = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass\n"
        "print(time.process_time())'",
    )
    assert float(used) < 1.2
    await box.destroy()
    assert not list(TOP.glob(f"**/hermes-jail-{box.id}"))


@pytest.mark.parametrize(
    ("files", "can"),
    [
        ({}, True),  # the machine's own top
        ({"cgroup.type": "domain", "cgroup.procs": "1\n"}, False),  # a container's, with its processes
        ({"cgroup.type": "domain", "cgroup.procs": ""}, True),
        ({"cgroup.type": "domain", "cgroup.procs": "1\n", "cgroup.subtree_control": "memory pids"}, True),
    ],
)
def test_groups_of_version_2_that_cannot_be_made_are_not_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], can: bool
) -> None:
    """By files alone: there is no machine with these here."""
    monkeypatch.setattr("hermes.backends.jail._limits.TOP", tmp_path)
    for name, text in {
        "cgroup.controllers": "cpu memory pids",
        "cgroup.subtree_control": "",
        **files,
    }.items():
        (tmp_path / name).write_text(text)
    assert ("memory" in enforceable(counted=False)) is can


@pytest.mark.user_only
async def test_what_only_root_can_limit_is_refused(open_box: Open) -> None:
    with pytest.raises(UnsupportedError, match="the limit 'memory' for this user"):
        await open_box(limits={"memory": 1 << 30})


# --- life and end


async def test_its_files_outlive_it(open_box: Open) -> None:
    box = await open_box(name="lasting")
    await out(box, "echo work >/workspace/file; echo home >~/file; echo tmp >/tmp/file")
    await box.suspend()
    assert await asyncio.to_thread(place_of(box)._files.guest_answers) is False
    await box.resume()
    assert await out(box, "cat /workspace/file ~/file; ls /tmp/file 2>&1 | grep -c cannot") == "work\nhome\n1"


async def test_a_guest_that_was_killed_is_a_sandbox_that_is_gone(open_box: Open) -> None:
    box = await open_box()
    with pytest.raises(SandboxGone):
        await box.run("kill -9 $(ps -o pid= -C python3)", timeout=10)
        await box.run("true", timeout=10)


@pytest.mark.parametrize("kill", ["kill -STOP -1", "/bin/kill -STOP -1"])
async def test_a_guest_that_a_command_stopped_goes_on(open_box: Open, kill: str) -> None:
    """It cannot be kept from it: they are of one user. Connecting anew lets it go on."""
    box = await open_box()
    async with asyncio.timeout(12):
        assert (await box.exec(f"{kill}; echo on")).text == "on\n"
        assert (await box.exec("true")).exit_code == 0


@pytest.mark.skipif(_fence.abi() < 6, reason="this kernel has no Landlock of version 6, which holds signals")
async def test_a_guest_without_namespaces_that_a_command_stopped_goes_on(open_box: Open) -> None:
    box = await open_box(program="landlock")
    async with asyncio.timeout(12):
        stop = "import os; os.kill(int('-1'), 19); print('on')"
        assert (await box.exec(["python3", "-c", stop])).text == "on\n"
        assert (await box.exec("true")).exit_code == 0


async def test_a_client_finds_a_guest_that_was_stopped(open_box: Open) -> None:
    """When it comes, and not only after the time that a greeting may take."""
    box = await open_box(name="stopped")
    met: list[int] = []
    run = place_of(box)._files.host_run
    (await asyncio.to_thread(connect_guest, f"{run}/guest", SOCKET, os.geteuid(), met.append)).close()
    os.kill(met[0], signal.SIGSTOP)

    async def stopped() -> bool:
        return ") T " in await asyncio.to_thread(Path(f"/proc/{met[0]}/stat").read_text)

    await eventually(stopped, 5.0)
    async with asyncio.timeout(8):
        other = await open_box(name="stopped")
        await other.exec("true")
    assert box.id == other.id


async def test_destroying_ends_everything(open_box: Open, hermes_home: Path) -> None:
    """Whatever was done inside to be overlooked."""
    box, word = await open_box(), tag()
    await box.exec(f"setsid sh -c 'trap \"\" TERM HUP; sleep {word}' >/dev/null 2>&1 & sleep 0.2")
    await box.exec("rm -rf /run/hermes/guest; ln -s / /run/hermes/guest")
    assert await asyncio.to_thread(processes, word)
    await box.destroy()
    await none_has(word)
    assert not left(hermes_home)
    assert not [one for one in Path("/dev/shm").glob("hermes-*/*") if box.id in one.name]


async def test_what_a_killed_client_left_is_removed(hermes_home: Path) -> None:
    word = tag()
    code = (
        "import asyncio, os, hermes\nasync def main():\n"
        "    box = await hermes.Sandbox('jail', approval='off').open()\n"
        f"    await box.start('sleep {word}')\n    os.kill(os.getpid(), 9)\nasyncio.run(main())"
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], stderr=subprocess.PIPE)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert left(hermes_home)
    removed = await JailBackend.prune(await asyncio.to_thread(load), await asyncio.to_thread(Store))
    assert len(removed) == 1 and "its hermes has ended" in removed[0]
    await none_has(word)
    assert not left(hermes_home)


async def test_a_process_for_a_jail_whose_files_are_gone(open_box: Open) -> None:
    """As a client may ask for that still seeks one which another has destroyed."""
    for options in ({}, {"program": "landlock"}):
        place = place_of(await open_box(**options))
        channel = await place.exec_channel(["/bin/true"])
        await asyncio.to_thread(shutil.rmtree, place._files.base)
        with pytest.raises(SandboxGone, match="no jail"):
            await channel.start(lambda data: None, lambda why: None)
        with pytest.raises(SandboxGone, match="no jail"):
            await place.exec_channel(["/bin/true"])


async def test_other_settings_are_another_jail(open_box: Open) -> None:
    await open_box(name="one", network="off")
    with pytest.raises(SandboxDiffers, match="network: off, now on"):
        await open_box(name="one")


async def test_it_is_found_by_another_client(open_box: Open) -> None:
    box = await open_box(name="shared")
    sh = await box.shell("s")
    await sh.run("x=5")
    other = await open_box(name="shared")
    assert (await (await other.shell("s")).run("echo $x")).text == "5\n"
    assert box.describe()["channel"] == "direct"


async def test_a_link_in_the_place_of_the_socket_is_not_followed(open_box: Open, tmp_path: Path) -> None:
    box = await open_box(name="liar")
    await box.exec(f"mv /run/hermes/guest /run/hermes/away; ln -s {tmp_path} /run/hermes/guest")
    with pytest.raises(hermes.HermesError):
        await hermes.Sandbox("jail", name="liar", approval="off").open(create=False)
    assert not list(tmp_path.iterdir())


async def test_a_start_that_fails_leaves_nothing(
    open_box: Open, monkeypatch: pytest.MonkeyPatch, hermes_home: Path
) -> None:
    monkeypatch.setattr(bwrap_module, "SHOWN", ("/opt",))
    monkeypatch.setattr("hermes.backends.jail._bwrap._MERGED", ())  # no loader: nothing can be executed
    with pytest.raises(BackendError):
        await open_box()
    assert not left(hermes_home)
