"""Attempts to get out of a jail, or to harm the host from in it: all fail, and the host is unharmed."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import hermes
from _breakout import ATTEMPTS, system_call
from hermes.testing._harness import hermes_home as in_home
from hermes.testing.tools import out

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "canary-7d20be"  # spelled apart inside, so that no search finds itself
HOME = Path.home()


def python(code: str) -> str:
    return f"python3 - <<'CODE'\n{code}\nCODE"


OWN: dict[str, str] = {
    "type into a terminal": python(
        "import fcntl, os, termios\nm, s = os.openpty()\nfcntl.ioctl(s, termios.TIOCSTI, b'x')"
    ),
    "paste into a console": python("import fcntl, os\nm, s = os.openpty()\nfcntl.ioctl(s, 0x541c, b'\\2')"),
    "open the terminal of the client": "exec 3<>/dev/tty",
    "the root of a process of the host": f"ls /proc/{os.getpid()}/root/",
    "the directory of a process of the host": f"ls /proc/{os.getppid()}/cwd/",
    "the root of the first process": f"ls /proc/1/root{HOME}/.ssh || ls /proc/1/root{HOME}/.bashrc",
    "an inherited directory": "for f in /proc/[0-9]*/fd/*; do case $(readlink $f) in "
    "/proc/*|/dev/*|/run/hermes/*|/home/hermes/*|/tmp*|/workspace*) ;; "
    "pipe:*|socket:*|anon_inode:*|/memfd:*|'') ;; "
    "*) readlink $f; exit 0;; esac; done; exit 1",
    "signal a process of the host": f"kill -TERM {os.getpid()}",
    "the session's bus": "ls /run/user/*/bus || ls /run/dbus/system_bus_socket",
    "the session's bus by its address": 'test -n "$DBUS_SESSION_BUS_ADDRESS$XDG_RUNTIME_DIR"',
    "systemd": "systemd-run --user true || systemd-run true || ls /run/systemd/private",
    "the screen": 'ls /tmp/.X11-unix || test -n "$DISPLAY$WAYLAND_DISPLAY$XAUTHORITY"',
    "the screen by an abstract socket": python(
        "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0/tmp/.X11-unix/X0')"
    ),
    "the agent of ssh": 'ssh-add -l || test -n "$SSH_AUTH_SOCK"',
    "the agent of gpg": f'ls {HOME}/.gnupg /run/user/*/gnupg || test -n "$GPG_AGENT_INFO"',
    "keys of ssh": f"ls {HOME}/.ssh /root/.ssh ~/.ssh",
    "keys of clouds": f"ls {HOME}/.aws {HOME}/.config /root/.aws ~/.aws",
    "browser profiles": f"ls -d {HOME}/.mozilla {HOME}/.config/google-chrome",
    "other users": "ls -d /home/* | grep -v ^/home/hermes$ || getent passwd hermes-tester",
    "hashed passwords": "grep . /etc/shadow /etc/gshadow",
    "keys of the host": "grep -l PRIVATE /etc/ssh/ssh_host_*_key || ls /etc/ssl/private/*",
    "who may use sudo": "grep -r . /etc/sudoers /etc/sudoers.d",
    "files of the system's services": "ls /var/lib /var/log /var/spool /srv /mnt /media /boot",
    "an entry of cron": "echo '* * * * * root x' >/etc/cron.d/evil || echo x >/var/spool/cron/crontabs/root",
    "a unit": "echo '[Service]' >/etc/systemd/system/evil.service",
    "start-up files of all shells": "echo evil >>/etc/profile || echo evil >/etc/profile.d/evil.sh",
    "start-up files of this user": f"echo evil >>{HOME}/.bashrc || echo evil >>{HOME}/.profile",
    "a library for the host's commands": "echo LD_PRELOAD=/tmp/evil.so >>/etc/environment",
    "a program that comes first": "cp /bin/true /usr/local/bin/ls || cp /bin/true /usr/local/sbin/ls",
    "a hard link to the system": "ln /etc/hosts.allow /tmp/link || ln /usr/bin/id /tmp/link",
    "mount over a file": "touch /tmp/f; mount --bind /tmp/f /workspace",
    "a device in a mount": "mknod /workspace/disk b 254 0 && head -c 1 /workspace/disk",
    "a setuid program without a file": python(
        "import os, subprocess\nfd = os.memfd_create('x', 0)\n"
        "os.write(fd, open('/usr/bin/id', 'rb').read())\nos.fchmod(fd, 0o6755)\nuid = os.getuid()\n"
        "print(subprocess.run(['/proc/self/fd/%d' % fd, '-u'], pass_fds=[fd], capture_output=True).stdout)\n"
        "status = open('/proc/self/status').read()\nraise SystemExit('CapEff:\\t0000000000000000' in status)"
    ),
    "io_uring": system_call("call(425, 8, bytes(120))"),
    "packets past the routes, by the device's name": python(
        "import socket\nsocket.socket().setsockopt(socket.SOL_SOCKET, 25, b'lo')"
    ),
    "packets past the routes, by its number": python(
        "import socket\nsocket.socket().setsockopt(socket.SOL_SOCKET, 62, 1)"
    ),
    "packets past the routes, without connections": python(
        "import socket\nsocket.socket(type=socket.SOCK_DGRAM).setsockopt(0, 50, b'\\0\\0\\0\\1')"
    ),
    "packets past the routes, of version 6": python(
        "import socket\ns = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n"
        "s.setsockopt(41, 76, b'\\0\\0\\0\\1')"
    ),
    "clone3": system_call("call(435, bytes(88), 88)"),
    "a call by its other number": system_call("call(0x40000000 | 39)"),
    "namespaces by setns": python(
        "import ctypes, os\nfd = os.open('/proc/1/ns/user', os.O_RDONLY)\n"
        "raise SystemExit(ctypes.CDLL(None).setns(fd, 0) != 0)"
    ),
    "the host of a virtual machine": python(
        "import socket\nsocket.socket(socket.AF_VSOCK).connect((2, 1024))"
    ),
    "the kernel's ciphers": python("import socket\nsocket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)"),
    "listen to the kernel": python(
        "import socket\ns = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)\ns.bind((0, 1))"
    ),
    "priorities": "nice -n -5 true 2>&1 | grep -q denied && exit 1",
    "a real-time priority": "chrt -f 50 true",
    "out-of-memory score of others": "echo -1000 >/proc/self/oom_score_adj",
    "hermes's own files": "find / -name hermes.json -not -path '/proc/*' 2>/dev/null | grep . || "
    f"ls {HOME}/.hermes",
    "what bubblewrap was told": "tr '\\0' '\\n' </proc/1/cmdline | grep -e --bind",
}


@pytest.fixture(scope="module")
def canaries(shared_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """Files of the host that nothing may see or change, and a secret in the host's environment."""
    (shared_home / "skills").mkdir(parents=True, exist_ok=True)
    files = [
        HOME / f".hermes-test-canary-{os.getpid()}",
        shared_home / ".env",
        tmp_path_factory.mktemp("outside") / "file",
    ]
    for one in files:
        one.write_text(f"SECRET={SECRET}\n")
        one.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        for name in (
            "CANARY_TOKEN",
            "SSH_AUTH_SOCK",
            "DBUS_SESSION_BUS_ADDRESS",
            "DISPLAY",
            "GPG_AGENT_INFO",
        ):
            patch.setenv(name, SECRET)
        yield files
    files[0].unlink()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["private", "overlay"])
async def box(
    shared_home: Path,
    canaries: list[Path],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[hermes.Sandbox]:
    """The jail from which all is tried: one with files of its own, and one in a second user namespace."""
    options: dict[str, Any] = {"overlay": True, "workspace": str(tmp_path_factory.mktemp("project"))}
    async with hermes.Sandbox(
        "jail", approval="off", **options if request.param == "overlay" else {}
    ) as found:
        yield found


@pytest.fixture(autouse=True)
def unharmed(canaries: list[Path]) -> Iterator[None]:
    """Look at the host before and after each attempt."""

    def seen() -> dict[str, object]:
        kernel = [Path("/proc/sys/kernel", name) for name in ("core_pattern", "hostname", "modprobe")]
        facts: dict[str, object] = {
            str(path): path.read_bytes() for path in [*canaries, *kernel] if path.exists()
        }
        names = (
            "passwd",
            "group",
            "hosts",
            "profile",
            "environment",
            "cron.d",
            "systemd/system",
            "profile.d",
        )
        facts["/etc"] = [
            os.stat(f"/etc/{name}").st_mtime_ns for name in names if os.path.exists(f"/etc/{name}")
        ]
        facts["/usr"] = [os.stat(f"/usr/{name}").st_mtime_ns for name in ("bin", "lib", "local/bin")]
        return facts

    before = seen()
    yield
    assert seen() == before


@pytest.mark.parametrize(
    "attempt",
    [*(one.replace("/scratch", "/tmp") for one in ATTEMPTS.values()), *OWN.values()],
    ids=[*ATTEMPTS, *OWN],
)
async def test_fails(box: hermes.Sandbox, attempt: str) -> None:
    result = await box.exec(attempt, timeout=20)
    assert result.exit_code != 0, result
    assert not result.timed_out
    assert result.exit_code != 2 or b"syntax" not in result.stderr
    assert b"SyntaxError" not in result.stderr


async def test_what_holds_it(box: hermes.Sandbox) -> None:
    status = dict(
        line.split(":\t", 1)
        for line in (await out(box, "cat /proc/self/status")).splitlines()
        if ":\t" in line
    )
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    kinds = ("user", "pid", "net", "ipc", "uts", "mnt")
    inside = (await out(box, "readlink " + " ".join(f"/proc/self/ns/{kind}" for kind in kinds))).split()
    assert not set(inside) & {os.readlink(f"/proc/self/ns/{kind}") for kind in kinds}


@pytest.mark.parametrize("number", [467, 468, 470, 500])
async def test_a_call_that_is_newer_than_the_filter(box: hermes.Sandbox, number: int) -> None:
    """As ``open_tree_attr`` is, another way to mount: the kernel may have it, and commands do not."""
    result = await box.exec(system_call(f"call({number}, -100, b'/usr', 1, bytes(32), 32)"))
    assert result.text.strip() == "ENOSYS"


@pytest.mark.root_only
async def test_the_kernels_keys_of_the_host_are_not_read(box: hermes.Sandbox) -> None:
    """They belong to a user's number: root inside would have those of root here."""
    libc = ctypes.CDLL(None, use_errno=True)
    key = libc.syscall(
        ctypes.c_long(248), b"user", b"hermes-jail", SECRET.encode(), ctypes.c_long(10), ctypes.c_long(-4)
    )
    if key < 0:
        pytest.skip("this machine has no keys of users")
    try:
        find = "call(250, 8, -4, -3); call(250, 10, -4, b'user', b'hermes-jail', 0)"
        assert (await box.exec(system_call(find))).exit_code != 0
        assert "hermes-jail" not in (await box.exec("cat /proc/keys")).text
    finally:
        libc.syscall(ctypes.c_long(250), ctypes.c_long(9), ctypes.c_long(key), ctypes.c_long(-4))


async def test_secrets_of_the_host_are_nowhere(box: hermes.Sandbox, canaries: list[Path]) -> None:
    half, rest = SECRET[:7], SECRET[7:]
    folders = "/workspace /home /run /tmp /var /dev/shm /etc"
    result = await box.exec(
        f"say() {{ printf %s {half}; echo {rest}; }}; "
        "say | grep -laF -f - /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null; "
        f"say | grep -rlaF -f - {folders} 2>/dev/null",
        timeout=40,
    )
    assert result.text == ""
    for path in (*canaries, HOME / ".ssh", HOME / ".hermes", HOME):
        assert (await box.exec(["ls", str(path)])).exit_code != 0, path


async def test_no_process_of_the_host_is_seen(box: hermes.Sandbox) -> None:
    seen = await out(box, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; cd /proc; echo; ls -d [0-9]* | wc -l")
    assert "pytest" not in seen
    assert int(seen.split()[-1]) < 20


async def test_an_abstract_socket_of_the_host_is_not_reached(box: hermes.Sandbox) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0hermes-jail-canary")
        server.listen()
        code = "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0hermes-jail-canary')"
        result = await box.exec(python(code))
        assert result.exit_code == 1
        assert b"refused" in result.stderr


async def test_a_socket_file_of_the_host_is_not_reached(box: hermes.Sandbox, tmp_path: Path) -> None:
    """As those of the engine, of ssh's agent, of a bus are: by a path that everybody may use."""
    path = tmp_path / "agent"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o777)
        server.listen()
        result = await box.exec(
            python(f"import socket\nsocket.socket(socket.AF_UNIX).connect({str(path)!r})")
        )
        assert b"FileNotFoundError" in result.stderr


async def test_a_server_of_the_hosts_loopback_is_not_reached(box: hermes.Sandbox) -> None:
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    result = await box.exec(
        f"for a in 127.0.0.1 localhost 10.0.2.2; do curl -s -m 2 http://$a:{port}/; "
        "[ $? -eq 52 ] && echo reached $a; done; true",
        timeout=20,
    )
    assert "reached" not in result.text
    server.close()
    await server.wait_closed()


async def test_another_sandbox_is_not_seen(box: hermes.Sandbox, shared_home: Path) -> None:
    with in_home(shared_home):
        async with hermes.Sandbox("jail", approval="off") as other:
            await other.exec(f"echo {SECRET} >/workspace/theirs; touch ~/theirs /tmp/theirs /dev/shm/theirs")
            result = await box.exec("find / -name theirs -not -path '/proc/*' 2>/dev/null")
            assert result.text == ""


async def test_deleting_everything_deletes_only_its_own(shared_home: Path, canaries: list[Path]) -> None:
    with in_home(shared_home):
        async with hermes.Sandbox("jail", name="wiped", approval="off") as box:
            await box.exec("echo x >/workspace/mine; rm -rf / --no-preserve-root 2>/dev/null", timeout=40)
            await box.destroy()
    assert Path("/usr/bin/env").exists()


# --- a directory of this machine as the workspace

PROTECTED: dict[str, str] = {
    "append": "echo evil >>.git/config",
    "truncate": ": >.git/config",
    "git itself": "git config core.fsmonitor /tmp/evil",
    "edit in place": "sed -i s/bare/evil/ .git/config",
    "remove": "rm -f .git/config",
    "rename away": "mv .git/config .git/other",
    "rename over": "echo evil >.git/new; mv -f .git/new .git/config",
    "rename over from outside": "echo evil >/tmp/new; mv -f /tmp/new .git/config",
    "exchange": "echo evil >.git/new; "
    + system_call("call(316, -100, b'.git/new', -100, b'.git/config', 2)"),
    "remove and copy": "echo evil >/tmp/new; cp --remove-destination /tmp/new .git/config",
    "rename the directory": "mv .git .moved",
    "rename the directory, make another": "mv .git .moved && mkdir .git && echo evil >.git/config",
    "remove the directory": "rm -rf .git; test ! -e .git/config",
    "a hook": "echo evil >.git/hooks/post-commit",
    "rename the hooks": "mv .git/hooks .git/other",
    "a link in the hooks' place": "rmdir .git/hooks && ln -s /tmp .git/hooks",
    "a link over the hooks": "ln -sfT /tmp .git/hooks",
    "a hard link to write through": "ln .git/config mine && echo evil >>mine",
    "a hard link over": "echo evil >mine; ln -f mine .git/config",
    "a descriptor opened again": python(
        "import os\nfd = os.open('.git/config', os.O_RDONLY)\nos.open('/proc/self/fd/%d' % fd, os.O_WRONLY)"
    ),
    "mount over": "echo evil >/tmp/evil; mount --bind /tmp/evil .git/config",
    "unmount": "umount .git/config",
    "remount": "mount -o remount,rw,bind .git/config",
    "change the mode": "chmod 777 .git/config",
    "change the times": "touch -d 2001-01-01 .git/config",
    "the project's settings": "echo 'sandbox: local' >.hermes.yaml",
    "replace the project's settings": "echo 'sandbox: local' >new; mv -f new .hermes.yaml",
    "a task of the editor": "echo '{}' >.vscode/tasks.json",
    "rename the editor's": "mv .vscode .elsewhere",
    "what direnv runs": "echo evil >>.envrc",
    "start-up files": "echo evil >>.bashrc",
    "what was asked for": "echo evil >>deploy/run.sh",
    "rename around what was asked for": "mv deploy other",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with what may be dangerous to change, on a path of its own."""
    path = tmp_path / "pro ject"
    path.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=path, check=True)
    for file in (path / ".git" / "hooks").iterdir():
        file.unlink()
    (path / ".hermes.yaml").write_text("timeout: 60\n")
    for name in (".vscode/settings.json", ".envrc", ".bashrc", "deploy/run.sh", "code.py"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text("harmless\n")
    return path


def tree(path: Path) -> dict[str, tuple[str, int, int]]:
    """Return what is protected: what it holds, its mode, and when it was changed."""
    names = (".git/config", ".git/hooks", ".hermes.yaml", ".envrc", ".vscode", ".vscode/settings.json")
    found = {}
    for name in (*names, ".bashrc", "deploy/run.sh"):
        one, facts = path / name, os.lstat(path / name)
        held = one.read_text() if one.is_file() else str(sorted(one.iterdir()))
        found[name] = (held, facts.st_mode, facts.st_mtime_ns)
    return found


@pytest.mark.parametrize("attempt", PROTECTED.values(), ids=PROTECTED)
async def test_what_is_protected_stays(shared_home: Path, project: Path, attempt: str) -> None:
    before = tree(project)
    with in_home(shared_home):
        async with hermes.Sandbox(
            "jail", workspace=str(project), protect=["deploy/run.sh"], network="off", approval="off"
        ) as box:
            result = await box.exec(attempt, timeout=20)
            assert result.exit_code != 0, result
            assert b"SyntaxError" not in result.stderr
            assert tree(project) == before


async def test_what_is_not_protected_is_worked_with(shared_home: Path, project: Path) -> None:
    commit = "git -c user.name=x -c user.email=x@example.org commit -qm message"
    with in_home(shared_home):
        async with hermes.Sandbox("jail", workspace=str(project), network="off", approval="off") as box:
            await out(box, f"echo more >>code.py && git add code.py && {commit} && mkdir sub && mv sub other")
    assert (project / "code.py").read_text() == "harmless\nmore\n"
    assert (project / "other").stat().st_uid == os.geteuid()


async def test_a_link_that_cannot_be_protected_is_refused(shared_home: Path, project: Path) -> None:
    (project / ".envrc").unlink()
    (project / ".envrc").symlink_to("code.py")
    with in_home(shared_home), pytest.raises(hermes.ConfigError, match=r"\.envrc is a link"):
        await hermes.Sandbox("jail", workspace=str(project), approval="off").open()
