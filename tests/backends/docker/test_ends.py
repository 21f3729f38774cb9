"""A container that ends under a running command: said with its reason, never run again, files kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import hermes
from _containers import ONE_ENGINE, ROOT, container, containers, engine, sandbox, text, until

MIB = 1 << 20


async def removed(box: hermes.Sandbox) -> None:
    await engine(box.backend, "rm", "--force", container(box))


async def killed(box: hermes.Sandbox) -> None:
    await engine(box.backend, "kill", container(box))


async def stopped(box: hermes.Sandbox) -> None:
    await engine(box.backend, "stop", "--time", "5", container(box))


async def out_of_memory(box: hermes.Sandbox) -> None:
    """The first process is made the one that the kernel takes first, and then all memory is used."""
    await box.exec("echo 1000 >/proc/1/oom_score_adj")
    asyncio.get_running_loop().create_task(_swallow(box, "python3 -c 'x = bytearray(400 << 20)'"))


async def _swallow(box: hermes.Sandbox, command: str) -> None:
    with contextlib.suppress(hermes.SandboxGone):
        await box.exec(command)


WAYS = {
    "removed": (removed, "its container was removed"),
    "killed": (killed, "its container was killed"),
    "stopped": (stopped, "its container was stopped"),
    "out of memory": (out_of_memory, "its container ran out of memory and was killed"),
}


@pytest.mark.parametrize(("act", "reason"), WAYS.values(), ids=WAYS)
async def test_the_reason_is_said_and_nothing_runs_twice(
    place: str,
    hermes_home: Path,
    act: Callable[[hermes.Sandbox], Awaitable[None]],
    reason: str,
) -> None:
    limits = {"memory": 128 * MIB} if act is out_of_memory else {}
    if act is out_of_memory and not ROOT:
        return  # no limits without root here
    box = await sandbox(place, name="ends", limits=limits).open()
    ran = hermes_home / "sandboxes" / f"docker-{box.id}" / "workspace" / "ran"
    command = asyncio.create_task(
        box.run("echo once >>/workspace/ran; echo mine >~/mine; sleep 50; echo end")
    )
    assert await until(lambda: ran.exists() and (ran.parent.parent / "home" / "mine").exists())
    await act(box)
    with pytest.raises(hermes.SandboxGone, match="was not run again") as caught:
        await asyncio.wait_for(command, 20)
    assert type(caught.value) is hermes.SandboxGone
    if act is out_of_memory and place == "podman":
        reason = caught.value.reason  # what podman tells of it differs by version
        assert reason in ("its container was killed", WAYS["out of memory"][1])
    assert caught.value.reason == reason
    with pytest.raises(hermes.SandboxGone, match=reason):
        await box.run("echo again >>/workspace/ran")
    await box.close()
    async with sandbox(place, name="ends", limits=limits) as again:
        assert again.id == box.id
        assert (await again.run("cat /workspace/ran ~/mine")).text == "once\nmine\n"
        await again.destroy()
    assert await containers(place, box.id) == []


async def test_a_command_that_ran_out_of_memory_is_told_from_one_that_was_killed(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what watches over podman's container leaves no file where hermes was started."""
    monkeypatch.chdir(tmp_path)
    if not ROOT:
        return
    async with sandbox(place, limits={"memory": 128 * MIB}) as box:
        result = await box.run("python3 -c 'x = bytearray(400 << 20)'")
        assert (result.exit_code, result.out_of_memory) == (137, True)
        result = await box.run("sh -c 'kill -9 $$'")
        assert (result.exit_code, result.out_of_memory) == (137, False)
    assert not await asyncio.to_thread(os.listdir, tmp_path)


async def test_a_restart_is_said(place: str, hermes_home: Path) -> None:
    box = await sandbox(place, name="again").open()
    await box.run("echo kept >/workspace/a")
    begun = hermes_home / "sandboxes" / f"docker-{box.id}" / "workspace" / "begun"
    command = asyncio.create_task(box.run("touch /workspace/begun; sleep 50"))
    assert await until(begun.exists)
    await engine(place, "restart", "--time", "0", container(box))
    with pytest.raises(hermes.SandboxGone) as caught:
        await asyncio.wait_for(command, 20)
    assert caught.value.reason == "its container was restarted"
    await box.close()
    async with sandbox(place, name="again") as again:
        assert await text(again, "cat /workspace/a") == "kept"
        await again.destroy()


async def test_a_guest_that_was_killed_for_want_of_memory(place: str) -> None:
    if not ROOT:
        return  # no limits without root here
    box = await sandbox(place, limits={"memory": 128 * MIB}).open()
    pid = box._channel.guest["pid"]
    # The kernel takes it first.
    command = f"echo 1000 >/proc/{pid}/oom_score_adj; python3 -c 'x = bytearray(400 << 20)'; sleep 5"
    with pytest.raises(hermes.SandboxGone, match="killed processes there for want of memory"):
        await asyncio.wait_for(box.run(command), 30)
    await box.destroy()


@ONE_ENGINE
async def test_a_paused_container_is_not_gone(place: str) -> None:
    if not ROOT:
        return  # a rootless engine cannot pause without cgroup v2
    async with sandbox(place) as box:
        await box.run("true")
        await engine(place, "pause", container(box))
        waiting = asyncio.create_task(box.run("echo after"))
        await asyncio.sleep(1)
        assert not waiting.done()
        await engine(place, "unpause", container(box))
        assert (await asyncio.wait_for(waiting, 10)).text == "after\n"


async def test_a_guest_that_was_killed_is_told_from_its_container(place: str) -> None:
    async with sandbox(place, name="guestless") as box:
        await text(box, "echo kept >/workspace/a")
        with pytest.raises(hermes.SandboxGone, match="its guest process has ended"):
            await box.run(f"kill -9 {box._channel.guest['pid']}; sleep 5")
        await box.close()
    async with sandbox(place, name="guestless") as again:
        assert await text(again, "cat /workspace/a") == "kept"
        assert await containers(place, box.id) == [container(again)]
        await again.destroy()
