"""Jails without namespaces: what Landlock and the filter of system calls hold, what is said of the rest."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest

import hermes
from _breakout import system_call
from hermes.backends.jail import _fence
from hermes.errors import BackendError, UnsupportedError
from hermes.testing.tools import out, tag

from .conftest import Open
from .test_place import none_has, processes

pytestmark = pytest.mark.skipif(_fence.abi() < 6, reason="this kernel has no Landlock of version 6")

HOME = Path.home()
ATTEMPTS = {
    "read a home": f"cat {HOME}/.bashrc || ls {HOME}",
    "write a home": f"echo evil >>{HOME}/.bashrc",
    "write /tmp": "echo x >/tmp/hermes-landlock-evil",
    "write memory that others see": "echo x >/dev/shm/hermes-landlock-evil",
    "read another sandbox": "ls /dev/shm/hermes-*/",
    "write /etc": "echo evil >/etc/profile.d/evil.sh",
    "write /usr": "cp /bin/true /usr/local/bin/evil",
    "hashed passwords": "cat /etc/shadow",
    "keys of the host": "cat /etc/ssh/ssh_host_*_key",
    "kernel settings": "echo x >/proc/sys/kernel/core_pattern",
    "environment of a process of the host": f"cat /proc/{os.getpid()}/environ",
    "root of a process of the host": f"ls /proc/{os.getpid()}/root/",
    "descriptors of a process of the host": f"ls -l /proc/{os.getpid()}/fd/",
    "memory of a process of the host": f"head -c 1 /proc/{os.getpid()}/mem",
    "trace a process of the host": system_call(f"call(101, 16, {os.getpid()}, 0, 0)"),
    "signal a process of the host": f"kill -CONT {os.getpid()}",
    "signal everything": "kill -CONT 1",
    "link out": f"ln -s {HOME} link && ls link/",
    "hard link in": "ln /etc/hosts.allow here || ln /usr/bin/id here",
    "rename out": "touch f; mv f /var/tmp/evil",
    "mount": "mount -t tmpfs none .",
    "a user namespace": "unshare -U true",
    "become another user": "python3 -c 'import os; os.setuid(4321)'",
    "keyctl": system_call("call(250, 0, -3, 0)"),
    "io_uring": system_call("call(425, 8, bytes(120))"),
    "a socket of the internet": "python3 -c 'import socket; socket.socket()'",
    "one without connections": "python3 -c 'import socket; socket.socket(type=socket.SOCK_DGRAM)'",
    "a device": "mknod disk b 254 0",
    "loosen the fence": system_call("call(446, 0, 0)"),
}


def by_landlock(**options: Any) -> dict[str, Any]:
    return {"program": "landlock", **options}


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)
async def test_fails(open_box: Open, attempt: str) -> None:
    box = await open_box(**by_landlock())
    result = await box.exec(attempt, timeout=20)
    assert result.exit_code != 0, result
    assert result.exit_code != 2 or b"syntax" not in result.stderr


async def test_what_it_is(open_box: Open, hermes_home: Path) -> None:
    box = await open_box(**by_landlock())
    assert (await out(box, "pwd")).startswith(f"{hermes_home}/sandboxes/jail-")
    await out(
        box, "echo x >file && echo x >~/file && f=$(mktemp) && cat <(cat file) >$f && python3 -c 'import ssl'"
    )
    facts = box.describe()
    assert facts["isolation"] == "none"
    assert facts["judge"] is not None
    assert "Landlock alone" in facts["reaches_host"][0]
    status = await out(box, "grep -E '^(Cap(Eff|Bnd)|NoNewPrivs|Seccomp):' /proc/self/status")
    assert set(status.split()) & {"CapEff:", "0000000000000000", "1", "2"} == {"CapEff:", "0" * 16, "1", "2"}


async def test_an_abstract_socket_of_the_host_is_not_reached(open_box: Open) -> None:
    box = await open_box(**by_landlock())
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0hermes-landlock-canary")
        server.listen()
        code = "import socket; socket.socket(socket.AF_UNIX).connect('\\0hermes-landlock-canary')"
        assert b"PermissionError" in (await box.exec(["python3", "-c", code])).stderr


async def test_destroying_ends_everything(open_box: Open, hermes_home: Path) -> None:
    box, word = await open_box(**by_landlock()), tag()
    await box.exec(f"setsid sleep {word} >/dev/null 2>&1 & sleep 0.2")
    await box.exec(["rm", "-rf", os.path.dirname(box._the_place().guest_dirs().run_dir)])
    assert await asyncio.to_thread(processes, word)
    await box.destroy()
    await none_has(word)
    assert not list((hermes_home / "sandboxes").glob("jail-*"))


@pytest.mark.parametrize(
    ("options", "says"),
    [({"network": "on"}, "network: on by Landlock"), ({"workspace": "here"}, "workspace: here")],
)
async def test_what_it_cannot_do_is_refused(
    open_box: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsupportedError, match=says):
        await open_box(**by_landlock(**options))


async def test_a_kernel_without_it(open_box: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fence, "abi", lambda: 0)
    with pytest.raises(BackendError, match="the kernel has no Landlock") as caught:
        await open_box(**by_landlock())
    assert caught.value.code == "backend_unavailable"


async def test_it_is_never_taken_by_itself(open_box: Open, tmp_path: Path) -> None:
    fails = tmp_path / "bwrap"
    fails.write_text("#!/bin/sh\nexit 1\n")
    fails.chmod(0o755)
    with pytest.raises(hermes.BackendError, match="cannot make namespaces here") as caught:
        await open_box(program=str(fails))
    assert "jail.program landlock" in (caught.value.hint or "")
