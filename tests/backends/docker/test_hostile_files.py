"""What a sandbox leaves in directories that the host sees too: nothing of it is followed there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import hermes
from _containers import ONE_ENGINE, ROOT, containers, python, sandbox, text
from hermes.errors import FileError, HermesError

MIB = 1 << 20


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A directory of the host with a file that nothing may read, change or remove."""
    folder = tmp_path / "canary"
    folder.mkdir(0o755)
    (folder / "file").write_text("precious")
    (folder / "file").chmod(0o644)
    return folder


def intact(canary: Path) -> None:
    assert sorted(os.listdir(canary)) == ["file"]
    assert (canary / "file").read_text() == "precious"
    for path, mode in ((canary, 0o755), (canary / "file", 0o644)):
        facts = path.stat()
        assert (facts.st_mode & 0o777, facts.st_uid) == (mode, os.geteuid())


@pytest_asyncio.fixture
async def box(place: str) -> AsyncIterator[hermes.Sandbox]:
    """A sandbox of its own for each test, which spoils it."""
    async with sandbox(place, name="hostile", reconnect_for=1) as found:
        yield found
        await found.destroy()


def base_of(box: hermes.Sandbox, home: Path) -> Path:
    return home / "sandboxes" / f"docker-{box.id}"


def run_of(box: hermes.Sandbox) -> Path:
    assert box._record is not None
    return Path(box._record.locator["host_run"])


TRAPS = {
    "directory is a link": "mv guest gone && ln -s {canary} guest",
    "directory is for all": "chmod 755 guest",
    "directory is gone": "mv guest gone",
    "directory is a file": "mv guest gone && touch guest",
    "socket is a link": "rm guest/guest.sock && ln -s {canary}/guest.sock guest/guest.sock",
    "socket is a file": "rm guest/guest.sock && touch guest/guest.sock",
    "socket is a pipe": "rm guest/guest.sock && mkfifo guest/guest.sock",
    "socket is a device": "rm guest/guest.sock && ln -s /dev/zero guest/guest.sock",
    "socket without a server": "rm guest/guest.sock && python3 -c "
    "'import socket; socket.socket(socket.AF_UNIX).bind(\"guest/guest.sock\")'",
}


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
@pytest.mark.parametrize("place", ["docker" if ROOT else "podman"])
async def test_a_run_directory_that_was_tampered_with_is_not_trusted(
    place: str, box: hermes.Sandbox, canary: Path, trap: str
) -> None:
    """The host refuses, or says that the guest is gone, and never connects elsewhere."""
    run = run_of(box)
    with socket.socket(socket.AF_UNIX) as decoy:
        decoy.bind(str(canary / "guest.sock"))
        decoy.listen()
        decoy.settimeout(0)
        await text(box, f"cd /run/hermes && {trap.format(canary=canary)}")
        await box.close()
        with pytest.raises(HermesError) as caught:
            again = sandbox(place, name="hostile", reconnect_for=1)
            await asyncio.wait_for(again.open(create=False), 20)
        assert caught.value.code in ("unsafe_socket", "gone", "unreachable"), caught.value
        with pytest.raises(BlockingIOError):
            decoy.accept()
    (canary / "guest.sock").unlink()
    await box.destroy()
    intact(canary)
    assert not run.exists()


async def test_a_socket_of_another_users_server_is_refused(place: str, hermes_home: Path) -> None:
    if not ROOT:
        pytest.skip("needs a second user inside")
    async with sandbox(place, name="other", user="root", writable_root=True, reconnect_for=1) as box:
        await python(
            box,
            "import os, socket, time\n"
            "os.chdir('/run/hermes/guest'); os.unlink('guest.sock')\n"
            "if os.fork() == 0:\n"
            "    os.setsid(); os.setgid(4321); \n"
            "    s = socket.socket(socket.AF_UNIX); s.bind('guest.sock')\n"
            "    os.chown('guest.sock', 4321, 4321)\n"
            "    s.listen()\n"
            "    [os.close(fd) for fd in (0, 1, 2)]\n"
            "    time.sleep(30); os._exit(0)\n"
            "time.sleep(0.5)",
        )
        await box.close()
        with pytest.raises(HermesError) as caught:
            await asyncio.wait_for(sandbox(place, name="other", reconnect_for=1).open(create=False), 20)
        assert caught.value.code == "unsafe_socket"
        await box.destroy()


async def test_what_starts_the_guest_is_not_written_through_a_link(box: hermes.Sandbox, canary: Path) -> None:
    """A resume writes that file anew, as the host's user, into a directory that the sandbox can change."""
    await text(box, f"cd /run/hermes && rm boot.py && ln -s {canary}/file boot.py && ln -s {canary} more")
    await box.suspend()
    await box.resume()
    intact(canary)
    assert (await box.run("ls /run/hermes")).text.split() == ["boot.py", "guest"]
    await text(box, f"cd /run/hermes && rm boot.py && mkdir -p boot.py/x && ln -s {canary} no-guest")
    await box.suspend()
    await box.resume()
    assert await text(box, "echo alive") == "alive"
    intact(canary)


async def test_skills_are_not_copied_through_a_link_when_made_anew(
    place: str, box: hermes.Sandbox, canary: Path, hermes_home: Path
) -> None:
    (hermes_home / "skills" / "one").mkdir(parents=True)
    (hermes_home / "skills" / "one" / "SKILL.md").write_text("evil")
    await text(box, f"rm -rf ~/.hermes && ln -s {canary} ~/.hermes")
    await box.close()
    again = sandbox(place, name="hostile", network="off", recreate=True)
    with pytest.warns(UserWarning, match="SKILL.md was not brought inside.*: a link or a file is in the way"):
        await again.open()
    async with again:
        assert await text(again, "readlink ~/.hermes") == str(canary)
        await again.destroy()
    intact(canary)


async def test_links_in_its_directories_are_not_followed_when_they_are_removed(
    box: hermes.Sandbox, canary: Path, hermes_home: Path
) -> None:
    await text(
        box,
        f"for d in /workspace ~ /run/hermes; do ln -s {canary} $d/link; ln -s {canary}/file $d/file; "
        f"ln -s .. $d/up; ln -s / $d/root; mkdir -p $d/deep/er; ln -s {canary} $d/deep/er/; done",
    )
    base = base_of(box, hermes_home)
    await box.destroy()
    intact(canary)
    assert not base.exists()


async def test_trees_that_resist_are_removed(box: hermes.Sandbox, hermes_home: Path) -> None:
    """Too deep for a path, forbidden, with names of every kind, with hard links, pipes and sockets."""
    await python(
        box,
        """
import os, socket
for top in ("/workspace", os.path.expanduser("~"), "/run/hermes"):
    os.chdir(top)
    os.mkdir("odd"); os.chdir("odd")
    for name in (b"\\xff\\xfe", b"a\\nb", b" ", b"-rf", b"x" * 255, "\\u202e".encode()):
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
        os.link(name, b"y" + name[:254])
    os.mkfifo("pipe"); socket.socket(socket.AF_UNIX).bind("sock")
    os.chmod(".", 0)
    os.chdir(top)
    os.makedirs("closed/inner/most"); os.chmod("closed/inner", 0); os.chmod("closed", 0o555)
    for _ in range(1500):
        os.mkdir("d" * 50); os.chdir("d" * 50)
for top in ("/workspace", os.path.expanduser("~"), "/run/hermes"):
    os.chmod(top, 0)
""",
    )
    base, run = base_of(box, hermes_home), run_of(box)
    await box.destroy()
    assert not base.exists()
    assert not run.exists()


async def test_no_file_of_the_host_is_read_or_written_by_copies(
    box: hermes.Sandbox, canary: Path, tmp_path: Path
) -> None:
    """A link inside means a file inside, whoever reads it; and what was copied out leads nowhere."""
    await text(
        box,
        f"mkdir tree && ln -s {canary}/file tree/file && ln -s {canary} tree/folder "
        f"&& ln -s {canary}/file one && ln -s {canary}/new written",
    )
    with pytest.raises(FileError):
        await box.files.read("one")
    with pytest.raises(FileError):
        await box.files.get("one", tmp_path / "one")
    for trick in ("tree/folder/file", "../../../../.." + str(canary / "file")):
        with pytest.raises(FileError):
            await box.files.read(trick)
    await box.files.write("written", b"evil")  # a file inside, where the host has its own
    out = tmp_path / "out"
    await box.files.get("tree", out)
    await box.files.put(out, "back")
    assert await text(box, "cat back/file back/folder/file 2>/dev/null || echo nothing") == "nothing"
    await text(
        box, "rm -r tree && mkdir -p tree/folder && echo evil >tree/file && echo evil >tree/folder/file"
    )
    with contextlib.suppress(FileError):
        await box.files.get("tree", out)
    intact(canary)


@ONE_ENGINE
async def test_a_workspace_of_the_users_is_left_as_it_is(place: str, tmp_path: Path, canary: Path) -> None:
    """Destroying the sandbox removes its home, not the directory that was mounted into it."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "mine").write_text("mine\n")
    async with sandbox(place, workspace=str(work)) as box:
        assert (await box.run("cat mine; echo new >made; pwd")).text == "mine\n/workspace\n"
        await box.run(f"ln -s {canary} link")
    assert (work / "mine").read_text() == "mine\n"
    assert (work / "made").read_text() == "new\n"
    assert (work / "made").stat().st_uid == os.geteuid()
    intact(canary)


@pytest.mark.root_only
async def test_filling_the_run_directory_costs_the_sandbox_only(place: str) -> None:
    """It is in the host's memory: what a sandbox puts there counts as its own, and goes with it."""
    before = os.statvfs("/dev/shm")
    async with sandbox(place, name="filler", limits={"memory": 128 * MIB}, reconnect_for=1) as box:
        try:
            await box.exec("head -c 400M /dev/zero >/run/hermes/fill", timeout=20)
            await box.exec("true", timeout=20)
        except hermes.SandboxGone:
            pass
        used = (before.f_bavail - os.statvfs("/dev/shm").f_bavail) * before.f_bsize
        assert used < 200 * MIB
        await box.destroy()
    assert (before.f_bavail - os.statvfs("/dev/shm").f_bavail) * before.f_bsize < 64 * MIB
    assert await containers(place, box.id) == []


async def test_a_stopped_first_process_does_not_hold_up_the_end(box: hermes.Sandbox) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(box.exec("kill -STOP -1; kill -STOP 1"), 2)
    started = asyncio.get_running_loop().time()
    await box.destroy()
    assert asyncio.get_running_loop().time() - started < 9
