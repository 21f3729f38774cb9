"""From the first start to the end: found again, suspended, made anew, and nothing left."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hermes
from _containers import (
    IMAGES,
    ONE_ENGINE,
    asked,
    container,
    containers,
    engine,
    inspect,
    sandbox,
    text,
    until,
)
from hermes.backends._leftovers import home_mark as _home_mark
from hermes.config import Lifetime, load
from hermes.errors import BackendError, SandboxDiffers
from hermes.places import remove
from hermes.state import Store

CLIENT = """
import asyncio, sys
import hermes

async def main():
    async with hermes.Sandbox({place!r}, name={name!r}, image={image!r}, workspace="private") as box:
        result = await box.run({command!r})
        print(box.id, box._record.locator["container"], result.text.strip(), flush=True)

asyncio.run(main())
"""


def client(place: str, name: str, command: str) -> subprocess.Popen[str]:
    """Start another process that opens a sandbox by its name and runs one command."""
    code = CLIENT.format(place=place, name=name, command=command, image=IMAGES[place])
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def files_of(home: Path, box: hermes.Sandbox, name: str = "workspace") -> Path:
    return home / "sandboxes" / f"docker-{box.id}" / name


async def test_a_new_process_finds_the_container_again(place: str) -> None:
    box = await sandbox(place, name="again").open()
    try:
        await box.run("echo kept >/workspace/a; echo kept >~/b; x=5")
        one = await asyncio.to_thread(client, place, "again", "cat /workspace/a ~/b; echo x=$x")
        said, _ = await asyncio.to_thread(one.communicate)
        assert one.returncode == 0
        ident, found, *rest = said.split()
        assert (ident, found) == (box.id, container(box))
        assert rest == ["kept", "kept", "x=5"]
        assert await containers(place, box.id) == [found]
        assert (await box.run("cat /workspace/a")).text == "kept\n"
    finally:
        await box.destroy()
    assert await containers(place, ident) == []


@ONE_ENGINE
async def test_two_processes_that_open_a_name_at_once_make_one_container(place: str) -> None:
    both = [await asyncio.to_thread(client, place, "race", "true") for _ in range(2)]
    said = [(await asyncio.to_thread(one.communicate))[0].split() for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert said[0] == said[1]
    assert await containers(place, said[0][0]) == [said[0][1]]
    box = await sandbox(place, name="race").open(create=False)
    await box.destroy()
    assert await containers(place, said[0][0]) == []


@ONE_ENGINE
async def test_the_container_says_whose_it_is(place: str) -> None:
    async with sandbox(place, name="label", keep=True) as box:
        labels = (await inspect(box))["Config"]["Labels"]
        assert labels["hermes.id"] == box.id
        assert labels["hermes.name"] == "label"
        assert labels["hermes.named"] == labels["hermes.keep"] == "yes"
        assert labels["hermes.ttl"] == str(7 * 24 * 3600)
        assert labels["hermes.owner"].startswith(f"{os.geteuid()}@")
        assert labels["hermes.home"] == await asyncio.to_thread(_home_mark)
        await box.destroy()
    async with sandbox(place) as box:
        seen = await inspect(box)
        assert seen["HostConfig"]["AutoRemove"] is True
        assert seen["Config"]["Labels"]["hermes.named"] == "no"


@ONE_ENGINE
async def test_no_secret_is_in_what_the_engine_tells(place: str) -> None:
    async with sandbox(place, env={"TOKEN": "s3cr3t-canary"}) as box:
        assert await text(box, "echo $TOKEN") == "s3cr3t-canary"
        assert "s3cr3t-canary" not in json.dumps(await inspect(box))
        assert "s3cr3t-canary" not in await text(box, "tr '\\0' '\\n' </proc/1/environ")


async def test_suspend_and_resume_keep_the_files(place: str) -> None:
    async with sandbox(place, name="sleeper", env={"OURS": "1"}) as box:
        await box.run("cd /tmp; echo a >/workspace/a; echo b >~/b; echo c >/tmp/c; echo d >$TMPDIR/d; x=5")
        await box.suspend()
        assert (await inspect(box))["State"]["Running"] is False
        with pytest.raises(hermes.SandboxGone, match=r"resume\(\)"):
            await box.files.read("/workspace/a")
        assert (await inspect(box))["State"]["Running"] is False
        await box.resume()
        assert (await box.run("cat /workspace/a ~/b; pwd; echo $OURS$x")).text == "a\nb\n/workspace\n1\n"
        assert (await box.run("ls -A /tmp $TMPDIR /run/hermes")).text.split() == [
            *("/run/hermes:", "boot.py", "guest", "/scratch:", "/tmp:")
        ]
        assert "noexec" in await text(box, "grep ' /tmp ' /proc/mounts")
        await box.resume()
        assert (await box.run("echo $OURS")).text == "1\n"
        await box.suspend()
        await box.close()
    async with sandbox(place, name="sleeper") as box:
        assert (await box.run("cat /workspace/a ~/b")).text == "a\nb\n"
        await box.destroy()


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "image": ({"image": "hermes-test:other"}, "image: .*hermes-test:bookworm, now hermes-test:other"),
    "mounts": ({"mounts": ["/usr/share:/mnt/share:ro"]}, r"mounts: .*now \[\"/usr/share:/mnt/share:ro\"\]"),
    "limits": ({"limits": {"pids": 77}}, "limits: none, now pids 77"),
    "network": ({"network": "off"}, "network: on, now off"),
    "user": ({"user": "1234"}, "docker.user: host, now 1234"),
    "tmp_size": ({"tmp_size": 1 << 20}, "docker.tmp_size: 1073741824, now 1048576"),
    "tmp_exec": ({"tmp_exec": True}, "docker.tmp_exec: null, now true"),
    "writable_root": ({"writable_root": True}, "docker.writable_root: false, now true"),
}


async def test_other_settings_are_never_silently_left_out(place: str, hermes_home: Path) -> None:
    box = await sandbox(place, name="differs").open()
    try:
        before = container(box)
        for options, said in OTHERS.values():
            with pytest.raises(SandboxDiffers, match=said) as caught:
                await sandbox(place, name="differs", **options).open()
            assert len(caught.value.context["differences"]) == (2 if "writable_root" in options else 1)
        assert await containers(place, box.id) == [before]
        await box.run("echo a >/workspace/a; echo b >~/b; echo c >/tmp/c")
        again = await sandbox(place, name="differs", network="off", recreate=True).open()
        assert again.id == box.id
        assert await containers(place, box.id) == [container(again)] != [before]
        assert (await again.run("cat /workspace/a ~/b; ls /tmp")).text == "a\nb\n"
        assert (await again.run("cat /proc/net/dev | grep -c :")).text == "1\n"
        with pytest.raises(hermes.SandboxGone):
            await box.run("true")
        await again.close()
    finally:
        last = await sandbox(place, name="differs", network="off").open()
        await last.destroy()
    assert not files_of(hermes_home, last, "").exists()


@ONE_ENGINE
async def test_making_it_anew_in_vain_loses_no_files(place: str, hermes_home: Path) -> None:
    """An image that cannot be had must not cost what was in the sandbox before."""
    async with sandbox(place, name="vain") as box:
        await box.run("echo precious >/workspace/a; echo mine >~/b")
    missing = "localhost:1/hermes/none:1"
    with pytest.raises(BackendError) as caught:
        await sandbox(place, name="vain", image=missing, recreate=True).open()
    assert caught.value.code == "image_missing"
    assert (files_of(hermes_home, box) / "a").read_text() == "precious\n"
    async with sandbox(place, name="vain") as again:
        assert (await again.run("cat /workspace/a ~/b")).text == "precious\nmine\n"
        await again.destroy()


@ONE_ENGINE
@pytest.mark.slow
async def test_a_sandbox_that_cannot_be_attached_to_loses_no_files(place: str, hermes_home: Path) -> None:
    """What runs inside can break its own guest; that must not cost the files when it is made anew."""
    async with sandbox(place, name="broken") as box:
        await box.run("echo precious >/workspace/a; rm -rf ~/.local; echo no directory >~/.local")
    await engine(place, "rm", "--force", container(box))
    with pytest.raises(hermes.HermesError):
        await sandbox(place, name="broken", reconnect_for=1).open()
    assert (files_of(hermes_home, box) / "a").read_text() == "precious\n"
    await asyncio.to_thread((files_of(hermes_home, box, "home") / ".local").unlink)
    async with sandbox(place, name="broken") as again:
        assert (await again.run("cat /workspace/a")).text == "precious\n"
        await again.destroy()


async def test_a_timeout_leaves_no_process(place: str) -> None:
    def running() -> list[str]:
        return asked(place, "top", container(box), "-eo", "pid,args").splitlines()[1:]

    async with sandbox(place) as box:
        await box.run("true")
        before = len(await asyncio.to_thread(running))
        result = await box.run(
            "trap '' TERM; (setsid sleep 71 &); sleep 72 & sh -c 'trap \"\" TERM HUP; sleep 73' | sleep 74",
            timeout=0.5,
        )
        assert result.timed_out
        assert await until(lambda: len(running()) == before, 3), running()
        assert not any("sleep 7" in line for line in running())


@pytest.mark.slow
async def test_a_container_nobody_uses_ends_by_itself(place: str) -> None:
    life = Lifetime(idle_guest=0.5, idle_stop=2)
    async with sandbox(place, name="idle", lifetime=life) as box:
        await box.run("echo kept >~/a")
        await asyncio.sleep(4)
        assert (await box.run("cat ~/a")).text == "kept\n", "somebody is there"
        await box.run("(sleep 4 &)")

    def state() -> str:
        return asked(place, "inspect", "--format", "{{.State.Status}}", container(box))

    await asyncio.sleep(3)
    assert await asyncio.to_thread(state) == "running", "something runs"
    assert await until(lambda: state() == "exited", 15)
    async with sandbox(place, name="idle") as again:
        assert (await again.run("cat ~/a")).text == "kept\n"
        await again.destroy()


@ONE_ENGINE
async def test_an_unnamed_one_whose_client_was_killed_ends_and_is_removed(place: str) -> None:
    code = (
        "import asyncio, hermes\n"
        "from hermes.config import Lifetime\n"
        "async def main():\n"
        f"    box = hermes.Sandbox({place!r}, image={IMAGES[place]!r}, workspace='private',\n"
        "        lifetime=Lifetime(idle_guest=0.5, idle_stop=2))\n"
        "    await box.open()\n"
        "    print(box.id, flush=True)\n"
        "    await box.run('sleep 1; echo x')\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    one = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-c", code], stdout=-1, text=True)
    assert one.stdout is not None
    ident = (await asyncio.to_thread(one.stdout.readline)).strip()
    assert len(await containers(place, ident)) == 1
    one.kill()
    await asyncio.to_thread(one.communicate)
    mark = ("ps", "--all", "--quiet", "--filter", f"label=hermes.id={ident}")
    assert await until(lambda: asked(place, *mark) == "", 15)
    record = (await asyncio.to_thread(lambda: Store().all()))[0]
    assert record.id == ident
    await remove(record, *await asyncio.to_thread(lambda: (load(), Store())))


@pytest.mark.docker_engine
async def test_an_engine_that_is_down_is_said_and_no_other_place_is_taken(
    monkeypatch: pytest.MonkeyPatch, hermes_home: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    for options in ({}, {"program": "docker"}):
        with pytest.raises(BackendError, match=r"does not answer.*nothing was started") as caught:
            await sandbox("docker", **options).open()
        assert caught.value.code == "backend_unavailable"
    assert await asyncio.to_thread(lambda: Store().all()) == []
    assert not (hermes_home / "sandboxes").exists()


@pytest.mark.user_only  # what root inside gives away belongs to root's other users
async def test_files_given_to_other_users_inside_go_too(hermes_home: Path) -> None:
    async with sandbox("podman", user="root") as box:
        await text(box, "mkdir -p a/b && touch a/b/c && chown -R 5:5 a && chmod 700 a/b a")
    assert os.listdir(hermes_home / "sandboxes") == []


async def test_a_session_has_the_language_and_the_time_zone_of_here(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "C.utf8")
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    monkeypatch.setenv("LC_ALL", "C.utf8")
    async with sandbox(place) as box:
        assert (await box.run('echo "$LANG $TZ ${LC_ALL-none}"')).text == "C.utf8 Pacific/Auckland none\n"
    monkeypatch.setenv("LANG", "xx_XX.UTF-8")  # of which no image knows anything
    async with sandbox(place, env={"TZ": "UTC"}) as box:
        assert (await box.run('echo "${LANG-none} $TZ"')).text in ("none UTC\n", "C.UTF-8 UTC\n")


async def test_one_whose_container_was_removed_is_made_anew_and_says_so(place: str) -> None:
    told: list[str] = []
    async with sandbox(place, name="removed") as box:
        await box.run("echo kept >/workspace/a")
        assert box._record is not None
        made = str(box._record.locator["container"])
    await asyncio.to_thread(asked, place, "rm", "--force", made)
    again = await sandbox(place, name="removed", on_progress=told.append).open()
    try:
        assert (await again.run("cat /workspace/a")).text == "kept\n"
        assert "'removed' was gone, and is made anew; its files are kept" in told
    finally:
        await again.destroy()


FAILS_ONCE = """#!/bin/sh
case " $* " in *" run --detach "*) again=$0.failed ;; *) again=$0 ;; esac
[ ! -e "$again" ] || exec {real} "$@"
: >"$0.failed"
for word; do [ "$last" != --name ] || name=$word; last=$word; done
{real} create --name "$name" {image} true >/dev/null
echo "{says}" >&2
exit 127
"""


@pytest.mark.parametrize(
    "says",
    [
        "Error response from daemon: failed to create shim task: OCI runtime create failed: stat /bin/sh",
        "Error: OCI runtime error: runc: runc create failed: unable to start container process: can't get "
        "final child's PID from pipe: EOF",
    ],
    ids=["docker", "podman"],
)
async def test_an_engine_that_could_not_begin_a_container_is_asked_once_more(
    place: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first container is left behind half made, with its name, as engines leave it."""
    wrapper = tmp_path / place
    wrapper.write_text(FAILS_ONCE.format(real=shutil.which(place), image=IMAGES[place], says=says))
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    async with sandbox(place) as box:
        assert (await box.run("echo here")).text == "here\n"
    assert (tmp_path / f"{place}.failed").exists()
