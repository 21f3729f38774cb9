"""Machines that are reached by ssh: those of the parts, and a test's own behind a link that it may spoil.

All on this kernel: what runs on one is seen in /proc here, under other process ids.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import hermes
from hermes.state import Store

TESTS = Path(__file__).resolve().parent
ROOT = os.geteuid() == 0


@dataclass(frozen=True)
class Host:
    """How a machine is reached. ``alias`` is its name in the file ``config``."""

    alias: str
    address: str
    port: int
    user: str
    key: str
    config: str
    known_hosts: str

    def options(self, **more: Any) -> dict[str, Any]:
        """Return the options of a sandbox there."""
        reached = {"host": self.address, "user": self.user, "port": self.port, "key": self.key}
        return {**reached, "config_file": self.config, "workspace": "private", **more}

    def sandbox(self, **more: Any) -> hermes.Sandbox:
        """Return a sandbox there that is not open yet and asks nobody."""
        return hermes.Sandbox("ssh", **self.options(**{"approval": "off", **more}))

    def argv(self, command: str, *options: str) -> list[str]:
        """Return the argv of a bare ``ssh`` with a connection of its own."""
        return ["ssh", "-F", self.config, *options, "-l", self.user, self.alias, command]

    def run(self, command: str) -> str:
        """Run a command there by a bare ``ssh`` and return what it printed. Blocks."""
        done = subprocess.run(
            self.argv(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert done.returncode == 0, (command, done.returncode, done.stderr)
        return done.stdout

    def as_user(self, user: str) -> Host:
        """Return the same machine for another account."""
        return replace(self, user=user)

    def with_config(self, folder: Path, text: str, *, known_hosts: str | None = None) -> Host:
        """Return the same machine with a configuration file that says *text* first."""
        config = folder / "ssh_config"
        theirs = Path(self.config).read_text("utf-8")
        if known_hosts is not None:
            theirs = theirs.replace(self.known_hosts, known_hosts)
        config.write_text(f"{text}\n{theirs}", "utf-8")
        return replace(self, config=str(config), known_hosts=known_hosts or self.known_hosts)


def _of_part(prefix: str, alias: str, part: str) -> Host:
    def given(name: str) -> str:
        value = os.environ.get(f"PARTS_{prefix}_{name}")
        if not value:
            pytest.skip(f"no machine to reach by ssh: scripts/parts start {part}")
        return value

    return Host(
        alias=alias,
        address=given("HOST"),
        port=int(given("PORT")),
        user=given("USER"),
        key=given("KEY"),
        config=given("CONFIG"),
        known_hosts=given("KNOWN_HOSTS"),
    )


def near() -> Host:
    """Return this machine, over loopback; skip the test where its sshd is not there."""
    return _of_part("SSH", "near", "sshd")


def far() -> Host:
    """Return the machine that is 50 ms away, which tests share; skip the test where it is not there."""
    return _of_part("FAR", "far", "farhost")


class Link:
    """The link to a machine of a test's own."""

    def __init__(self, control: Path) -> None:
        self._control = control

    def set(self, **wishes: float | bool) -> dict[str, Any]:
        """Change ``delay`` and ``jitter`` (ms, one way), ``loss`` (0 to 1), ``rate`` (kbit/s), ``cut``."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(str(self._control))
            client.sendall(json.dumps(wishes).encode() + b"\n")
            said: dict[str, Any] = json.loads(client.makefile().readline())
        assert "error" not in said, said
        return said

    def reset(self, delay: float) -> None:
        """Make it a good link again."""
        self.set(delay=delay, jitter=0, loss=0, rate=0, cut=False)

    def bytes(self) -> tuple[int, int]:
        """Return how many bytes have been sent to the machine and received from it, with all headers."""
        said = self.set()
        return int(said["sent"]), int(said["received"])


class Machine:
    """A machine of a test's own, with namespaces, homes, an sshd, and a link to it. Needs root."""

    DELAY = 25.0

    def __init__(self, folder: Path, *, sshd: str = "", delay: float = DELAY) -> None:
        self.folder = folder
        self.link = Link(folder / "control")
        self.home = folder / "home"
        self._sshd = sshd
        self._delay = delay
        self._net = ""
        self._parts = near()
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "host_key"], check=True, timeout=20
        )

    @property
    def host(self) -> Host:
        """How it is reached."""
        config, known = (str(self.folder / name) for name in ("config", "known_hosts"))
        there = f"{self._net}.2"
        return replace(self._parts, alias="own", address=there, port=22, config=config, known_hosts=known)

    def start(self) -> None:
        """Switch it on. Blocks until its sshd answers."""
        for _ in range(20):
            # Somebody else's machine may have the number.
            net = self._net or f"198.18.{random.randrange(100, 250)}"
            self.process = self._boot(net)
            if self._comes(lambda: b"ready" in (self.folder / "link.log").read_bytes()):
                break
            self.stop()
        self._net = net
        kind, key = (self.folder / "host_key.pub").read_text().split()[:2]
        (self.folder / "known_hosts").write_text(f"{net}.2 {kind} {key}\n")
        old, new = self._parts, self.host
        text = Path(old.config).read_text()
        for was, now in (
            (f"Host {old.alias}", f"Host {new.alias}"),
            (f"HostName {old.address}", f"HostName {new.address}"),
            (f"Port {old.port}", f"Port {new.port}"),
            (old.known_hosts, new.known_hosts),
        ):
            text = text.replace(was, now)
        (self.folder / "config").write_text(text)
        if not self._comes(lambda: _listens(new.address)):
            raise AssertionError(f"the machine did not come up: {self.log()}")

    def _boot(self, net: str) -> subprocess.Popen[bytes]:
        own = {"ListenAddress": f"{net}.2:22", "HostKey": str(self.folder / "host_key"), "PidFile": "none"}
        theirs = Path(self._parts.config).with_name("sshd_config").read_text().splitlines()
        lines = [f"{word} {own[word]}" if (word := line.split(" ")[0]) in own else line for line in theirs]
        (self.folder / "sshd_config").write_text("\n".join([self._sshd, *lines]) + "\n")
        with (self.folder / "link.log").open("wb") as log:
            return subprocess.Popen(
                [
                    *(sys.executable, TESTS / "_netlag.py", "--here", f"{net}.1", "--there", f"{net}.2"),
                    *("--control", self.folder / "control", "--delay", str(self._delay)),
                    *("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"),
                    *("sh", TESTS / "_machine.sh", self.folder, "own", self.folder / "sshd_config"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _comes(self, true: Callable[[], bool]) -> bool:
        end = time.monotonic() + 10
        while time.monotonic() < end and self.process.poll() is None:
            if true():
                return True
            time.sleep(0.02)
        return False

    def stop(self) -> None:
        """Switch it off, with all that runs on it. Its disks stay."""
        self.process.terminate()
        self.process.wait(20)

    def log(self) -> str:
        """Return what its sshd has logged."""
        return (self.folder / "sshd.log").read_text("utf-8", "replace")

    def processes(self) -> dict[int, str]:
        """Return the command lines of all that runs there, by their ids here."""
        inside = self.first
        space = os.readlink(f"/proc/{inside}/ns/pid")
        found = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{entry}/ns/pid") != space or _state(int(entry)) in "ZX":
                    continue
                line = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ")
                if line:  # one that is about to end has none any more
                    found[int(entry)] = line.decode(errors="replace").strip()
        return found

    def strangers(self) -> dict[int, str]:
        """Return what runs there besides its sshd and the sessions of that."""
        return {
            pid: line
            for pid, line in self.processes().items()
            if not line.startswith(("sshd", "/usr/sbin/sshd"))
        }

    def left(self) -> dict[int, str]:
        """Return what still runs there when it had five seconds to end."""
        end = time.monotonic() + 5
        while (found := self.strangers()) and time.monotonic() < end:
            pass
        return found

    def sessions(self) -> list[int]:
        """Return the processes of the connections that its sshd serves."""
        first = self.first
        return [pid for pid, line in self.processes().items() if line.startswith("sshd") and pid != first]

    def hang_up(self) -> None:
        """Kill the processes that serve connections; new ones are accepted."""
        for pid in self.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def files(self) -> set[str]:
        """Return all that lies in its homes and among its temporary files."""
        root = f"/proc/{self.first}/root"
        found: set[str] = set()
        for top in (f"/home/{self.host.user}", "/root", "/tmp", "/var/tmp", "/dev/shm"):
            for folder, folders, files in os.walk(root + top):
                found.update(os.path.join(folder, name).removeprefix(root) for name in (*folders, *files))
        return found

    @property
    def first(self) -> int:
        """The id here of its first process, the sshd that listens."""
        (unshare,) = _children(self.process.pid)
        (first,) = _children(unshare)
        return first


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0]


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]


@contextlib.contextmanager
def machine(*, prepare: str = "", sshd: str = "", delay: float = Machine.DELAY) -> Iterator[Machine]:
    """Bring up a machine; it is gone afterwards, with all that runs on it. Blocks.

    :param prepare: shell text that root runs there first, to mount or hide something
    :param sshd: more lines for its sshd, which win
    """
    # Not among temporary files: the machine has its own.
    folder = Path(tempfile.mkdtemp(prefix="hermes-machine-", dir="/run"))
    folder.chmod(0o755)
    (folder / "prepare").write_text(prepare)
    made = Machine(folder, sshd=sshd, delay=delay)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        # The mounts went with the namespace.
        shutil.rmtree(folder, ignore_errors=True)


def _listens(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=2) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


class Client:
    """A hermes process of its own, to be killed or stopped: it runs one command and says what comes of it."""

    CODE = """
import asyncio, json, sys
import hermes

async def main(options, name, command):
    say = lambda **what: print(json.dumps(what), flush=True)
    box = await hermes.Sandbox("ssh", name=name, **options).open()
    say(open=True)
    result = await box.run(command, session="mine", on_output=lambda data: say(data=data.decode()))
    say(exit_code=result.exit_code, text=result.text, status=result.status)
    await box.close()

asyncio.run(main(json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]))
"""

    def __init__(self, host: Host, command: str, *, name: str | None, code: str = CODE, **more: Any) -> None:
        options = json.dumps(host.options(approval="off", **more))
        argv = [sys.executable, "-c", code, options, json.dumps(name), command]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def said(self) -> dict[str, Any]:
        """Return the next thing it says; an empty one at the end. Blocks."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return dict(json.loads(line)) if line else {}

    def rest(self) -> list[dict[str, Any]]:
        """Return all that it still says."""
        found = []
        while said := self.said():
            found.append(said)
        return found

    def family(self) -> list[int]:
        """Return it and all that it started."""
        found = [self.process.pid]
        for pid in found:
            with contextlib.suppress(OSError):
                found += _children(pid)
        return found

    def kill(self) -> None:
        """Kill it, and its ssh with it, as at a loss of power."""
        for pid in self.family():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(10)
        if self.process.stdout is not None:
            self.process.stdout.close()


async def until(true: Callable[[], Any], seconds: float = 20.0) -> None:
    """Wait until something holds that may block while it is found out; fail when it does not in time."""
    end = time.monotonic() + seconds
    while not await asyncio.to_thread(true):
        assert time.monotonic() < end, f"this did not become true within {seconds:g} s"
        await asyncio.sleep(0.02)


def records() -> list[str]:
    """Return the names of the sandboxes that the state store knows. Blocks."""
    return [record.name for record in Store().all()]


def command_lines() -> Mapping[int, list[str]]:
    """Return the argv of every process that is seen from here."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            found[int(entry)] = (
                Path(f"/proc/{entry}/cmdline").read_bytes().decode(errors="replace").split("\0")
            )
    return found
