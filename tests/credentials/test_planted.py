"""Planted secrets are searched for everywhere, after a session with crashes in its middle.

They may be where they were declared to be: in the environment and the memory of the sandbox's own commands,
in its directory of credentials, and where they were planted. Anywhere else is a leak.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hermes
from _containers import IMAGES

from .conftest import CLOUDS, Cloud, Open, declared, keep, options, plain

VARIABLE = "PLANTED_VARIABLE"
IN_VARIABLE = "planted-in-the-variable-" + os.urandom(8).hex()
IN_FILE = "planted-in-the-file-" + os.urandom(8).hex()
UNDECLARED = "planted-undeclared-" + os.urandom(8).hex()
ALL = (IN_VARIABLE, IN_FILE, UNDECLARED)
PATTERN = re.compile("|".join(ALL).encode())
# What a command finds in its whole place, but for the kernel's directories and what came with the system. No
# file has the search itself, which is not written as it is searched for.
EVERYWHERE = "grep -rlas --devices=skip --exclude-dir={proc,sys,usr,opt} " + " ".join(
    f"-e {one[:8]}''{one[8:]}" for one in ALL
)


def in_files(*folders: str | Path, besides: tuple[str, ...] = ()) -> list[str]:
    """Return the files that have one, but for those below some paths. Blocks."""
    found = []
    for folder in folders:
        for inner, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(inner, name)
                if path.startswith(besides) or not os.path.isfile(path):
                    continue
                with contextlib.suppress(OSError), open(path, "rb") as file:
                    if PATTERN.search(file.read()):
                        found.append(path)
    return found


CLIENT = """
import asyncio, json, sys, msgspec, hermes
from hermes.config import Config
place, options, name, settings = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
config = msgspec.convert(settings, Config)

async def main():
    async with hermes.Sandbox(place, name="planted", config=config, **options) as box:
        show = lambda data: print(data.decode(), end="", flush=True)
        await box.run(f"echo ${name}; sleep 60", on_output=show)

asyncio.run(main())
"""


def in_processes(marks: tuple[str, ...], *clients: int) -> list[str]:
    """Return the processes that have one in their arguments, or without a part in it in their environment.

    What was not declared is in the environment of this machine's own programs, as it was before.
    """
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            arguments = Path("/proc", pid, "cmdline").read_bytes()
            environment = Path("/proc", pid, "environ").read_bytes()
            if PATTERN.search(arguments):
                found.append(f"the arguments of {pid}: {arguments[:200]!r}")
            ours = int(pid) in (os.getpid(), *clients) or any(mark.encode() in environment for mark in marks)
            if re.search(f"{IN_VARIABLE}|{IN_FILE}".encode(), environment) and not ours:
                found.append(f"the environment of {pid}: {arguments[:200]!r}")
    return found


def told_by_engine(place: str) -> list[str]:
    """Return what an engine tells of all that it has. Blocks."""
    if place not in IMAGES:
        return []
    every = "; ".join(
        f"{place} {listed} | sort -u | xargs -r -n1 {place} {shown}"
        for listed, shown in (
            ("ps -aq", "inspect"),
            ("ps -aq", "logs"),
            ("images -q", "image inspect"),
            ("images -q", "history"),
            ("volume ls -q", "volume inspect"),
        )
    )
    text = subprocess.run(["sh", "-c", every], capture_output=True, check=False, timeout=50)
    return [f"{place}: {one.decode()}" for one in PATTERN.findall(text.stdout + text.stderr)]


async def inside(box: hermes.Sandbox, *but: str) -> list[str]:
    """Return the files of the whole place that have one, but for those that are declared to."""
    found = (await box.exec(f"{EVERYWHERE} /")).text.splitlines()
    return [f"inside: {path}" for path in found if not path.startswith(but)]


def in_cloud(cloud: Cloud | None) -> list[str]:
    """Return where one is in what a cloud was told, and in its files: roots and snapshots. Blocks."""
    return in_files(cloud.record.parent, cloud.folder) if cloud is not None else []


@pytest.mark.timeout(120)
async def test_it_is_nowhere_else(
    place: str,
    cloud: Cloud | None,
    own: Path,
    open_in: Open,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(VARIABLE, IN_VARIABLE)
    monkeypatch.setenv("PLANTED_ELSE", UNDECLARED)
    planted = await asyncio.to_thread(keep, own / "credentials" / "planted", IN_FILE)
    config = declared(env=[VARIABLE])
    box = await open_in(place, name="planted", config=config)
    leaks: list[str] = []
    guest = dict(box._channel.guest)
    marks = ("HERMES_TASK",)  # the sandbox's own commands have it

    # A full session: results, jobs, sessions that die, a command that is stopped, a long output, errors.
    texts = []
    for command in (
        f"echo ${VARIABLE} $(cat $HERMES_CREDENTIALS/planted)",
        f": ${VARIABLE}; exit 3",
        "kill -9 $$",
        f"cat $HERMES_CREDENTIALS/planted >&2; echo ${VARIABLE} | base64; false",
        "cd /tmp; sh -c 'kill -SEGV $$'",
        "unterminated '",
    ):
        result = await box.run(command)
        texts.append(result.stdout + result.stderr)
    texts.append((await box.run("sleep 60", timeout=0.3)).stdout)
    long = await box.run("seq 300000", max_output=1000)
    assert long.spill is not None
    await box.start("sleep 60")
    with pytest.raises(hermes.CommandError) as caught:
        await box.run("true", cwd="/none")
    texts.append(f"{caught.value!r} {caught.value} {box.describe()!r} {box!r} {box._supply!r}".encode())
    texts.append("".join(f"{one}" for one in await box.jobs()).encode())
    leaks += [f"a text: {text!r}" for text in texts if PATTERN.search(text)]

    # A client that is killed in the middle of a command, and another that goes on.
    await box.close()
    crashing = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CLIENT, place, json.dumps(options(place)), VARIABLE),
        json.dumps(plain({"env": [VARIABLE]})),
        stdout=subprocess.PIPE,
    )
    assert crashing.stdout is not None
    assert await crashing.stdout.readline() == b"[redacted]\n"
    leaks += await asyncio.to_thread(in_processes, marks, crashing.pid)
    crashing.kill()
    await crashing.wait()
    box = await open_in(place, name="planted", config=config)
    # The default session is still busy with what the other client left.
    assert "[redacted]" in (await box.exec(f"echo ${VARIABLE}")).text

    there = (await box.exec("echo $HERMES_CREDENTIALS")).text.strip()
    leaks += await asyncio.to_thread(in_processes, marks)
    leaks += await asyncio.to_thread(told_by_engine, place)
    leaks += await asyncio.to_thread(in_files, own, besides=(str(planted),))
    leaks += await asyncio.to_thread(in_cloud, cloud)
    if place not in ("local", "ssh"):
        assert (await box.exec("cat $HERMES_CREDENTIALS/planted >/tmp/copied")).exit_code == 0
        found = await inside(box, there)
        assert "inside: /tmp/copied" in found, "the search does not work"
        leaks += [one for one in found if not one.endswith("/tmp/copied")]
        await box.exec("rm /tmp/copied")
    if place in ("local", "ssh"):  # the same machine, so all that the guest has can be looked at
        leaks += await asyncio.to_thread(
            in_files, guest["run_dir"], guest["state_dir"], besides=(os.path.join(there, ""),)
        )
    if box.describe()["suspend"] and place not in ("local", "ssh"):
        await box.suspend()
        leaks += await asyncio.to_thread(told_by_engine, place)
        leaks += await asyncio.to_thread(in_cloud, cloud)
        leaks += await asyncio.to_thread(in_files, *glob.glob("/dev/shm/hermes-*"))
        await box.resume()
        assert "[redacted]" in (await box.exec("cat $HERMES_CREDENTIALS/planted")).text
    await box.destroy()

    # Afterwards only where they were planted.
    leaks += await asyncio.to_thread(in_processes, ())
    leaks += await asyncio.to_thread(told_by_engine, place)
    left: list[str | Path] = [own]
    for pattern in ("/dev/shm/hermes-*", "/tmp/hermes-[0-9]*", "/tmp/core*"):
        left += glob.glob(pattern)
    home = os.path.expanduser(f"~{options(place).get('user', '')}")
    left += glob.glob(f"{home}/.hermes-sandboxes") + glob.glob("/var/tmp/hermes-*")
    leaks += await asyncio.to_thread(in_files, *left, besides=(str(planted),))
    leaks += await asyncio.to_thread(in_cloud, cloud)
    said = capfd.readouterr()
    leaks += [f"printed: {text}" for text in said if PATTERN.search(text.encode())]
    assert leaks == []


@pytest.mark.parametrize("place", CLOUDS, indirect=True)
async def test_what_a_provider_keeps_by_itself(
    place: str, cloud: Cloud, own: Path, open_in: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox that is left with all in it is put to sleep by its provider, and its files are kept."""
    monkeypatch.setenv(VARIABLE, IN_VARIABLE)
    await asyncio.to_thread(keep, own / "credentials" / "planted", IN_FILE)
    more = {"persistent": True} if place != "daytona" else {}
    box = await open_in(place, name="kept", config=declared(env=[VARIABLE]), **more)
    mark = os.urandom(8).hex()
    result = await box.run(f"echo {mark} >~/mark; sync; echo ${VARIABLE}; cat $HERMES_CREDENTIALS/planted")
    assert result.redacted == 2
    await box.start("sleep 1000")
    await box.close()
    cloud.emulator.advance(3 * 3600)
    await asyncio.sleep(1)
    kept = await asyncio.to_thread(glob.glob, f"{cloud.folder}/**/mark", recursive=True)
    assert [one for one in kept if await asyncio.to_thread(Path(one).read_text) == f"{mark}\n"], (
        "nothing was kept"
    )
    assert await asyncio.to_thread(in_cloud, cloud) == []
    assert box.id.encode() in await asyncio.to_thread(cloud.record.read_bytes)
    again = await open_in(place, name="kept", config=declared(env=[VARIABLE]), **more)
    assert (await again.run("cat ~/mark; cat $HERMES_CREDENTIALS/planted")).text == f"{mark}\n[redacted]"
