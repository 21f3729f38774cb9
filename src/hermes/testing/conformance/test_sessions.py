"""Sessions: side by side, each with its own state, its commands in order; and directories that vanish."""

from __future__ import annotations

import asyncio

import pytest

from hermes import Sandbox

from .._harness import case
from ..tools import eventually, fails, gone, out, pids, stopwatch, tag, unique, up


@case
async def test_sessions_do_not_share_state(box: Sandbox) -> None:
    one, two = await box.shell("one"), await box.shell("two")
    await one.run("x=1; cd /; f() { echo one; }; alias a='echo one'; umask 077")
    await two.run("x=2; cd /etc")
    assert await out(one, "echo $x; pwd; f; a; umask") == "1\n/\none\none\n0077"
    assert await out(two, "echo $x; pwd; type f a >/dev/null 2>&1 || echo none") == "2\n/etc\nnone"
    assert await out(box, "echo ${x-unset}; pwd") == f"unset\n{box.cwd}"


@case
async def test_sessions_run_side_by_side(box: Sandbox) -> None:
    shells = [await box.shell(f"s{n}") for n in range(10)]
    with stopwatch(2.5):
        results = await asyncio.gather(*(shell.run(f"sleep 0.5; echo {n}") for n, shell in enumerate(shells)))
    assert [result.stdout for result in results] == [b"%d\n" % n for n in range(10)]


@case
async def test_commands_of_one_session_queue_in_order(box: Sandbox) -> None:
    runs = [asyncio.create_task(box.run(f"sleep 0.0{n % 3}; echo {n}; echo {n} >>order")) for n in range(20)]
    assert [(await run).stdout for run in runs] == [b"%d\n" % n for n in range(20)]
    assert await out(box, "tr '\\n' ' ' <order; rm order") == " ".join(map(str, range(20))) + " "


@case
async def test_a_session_is_found_by_its_name(box: Sandbox) -> None:
    await (await box.shell("work")).run("x=kept")
    assert await out(await box.shell("work"), "echo $x") == "kept"
    assert (await box.run("echo $x", session="work")).stdout == b"kept\n"


@case
async def test_anonymous_sessions_are_new(box: Sandbox) -> None:
    one, two = await box.shell(), await box.shell()
    assert one.name != two.name
    await one.run("x=1")
    assert await out(two, "echo [$x]") == "[]"


@case
async def test_default_session(box: Sandbox) -> None:
    """`run` without a session uses one and the same."""
    await box.run("x=1")
    assert await out(box, "echo $x") == "1"
    assert await out(await box.shell("default"), "echo $x") == "1"


@case
async def test_where_a_session_begins(box: Sandbox) -> None:
    shell = await box.shell("there", cwd="/etc", env={"EXTRA": "it's"})
    assert await out(shell, "pwd; echo $EXTRA; bash -c 'echo $EXTRA'") == "/etc\nit's\nit's"
    with fails("cwd_unusable"):
        await box.shell("nowhere", cwd="/no/such/place")


@case
async def test_closing_a_session(box: Sandbox) -> None:
    """Its state is gone and its shell too; under its name a new one begins."""
    shell = await box.shell("brief")
    await shell.run("x=1; cd /")
    pid = await out(shell, "echo $$")
    await shell.close()
    await eventually(lambda: _ended(box, pid))
    assert await out(await box.shell("brief"), "echo [$x]; pwd") == f"[]\n{box.cwd}"


async def _ended(box: Sandbox, pid: str) -> bool:
    return (await box.exec(f"kill -0 {pid} 2>/dev/null")).exit_code != 0


@case
async def test_closing_a_busy_session(box: Sandbox) -> None:
    """The running command is ended and has a result; so have those that wait."""
    shell = await box.shell("busy")
    mark = tag()
    running = asyncio.create_task(shell.run(f"echo begun; sleep {mark}"))
    await eventually(lambda: pids(box, mark))
    queued = asyncio.create_task(shell.run("touch never"))

    async def waits() -> bool:
        return any(one.name == "busy" and one.queued for one in await box.sessions())

    await eventually(waits)
    with stopwatch(3):
        await shell.close()
        first, second = await running, await queued
    assert (first.exit_code, first.stdout) == (130, b"begun\n")
    assert (second.exit_code, second.stdout) == (130, b"")
    await gone(box, mark)
    assert (await box.run("test -e never")).exit_code == 1


@case
async def test_background_process_outlives_its_session(box: Sandbox) -> None:
    mark = tag()
    shell = await box.shell("starter")
    await shell.run(f"sleep {mark} &")
    await shell.close()
    await up(box, mark, 1)
    assert [job.kind for job in await box.jobs() if mark in job.command] == ["stray"]


@case
async def test_list_of_sessions(box: Sandbox) -> None:
    shell = await box.shell("listed")
    await shell.run("cd /etc")
    running = asyncio.create_task(shell.run("sleep 0.6; true"))
    waiting = asyncio.create_task(shell.run("true"))
    await asyncio.sleep(0.2)
    (found,) = [one for one in await box.sessions() if one.name == "listed"]
    assert (found.cwd, found.running, found.queued) == ("/etc", "sleep 0.6; true", 1)
    await running
    await waiting


@pytest.mark.parametrize("name", ["a b", "ü/€", "'quoted'", "$(touch x)", "..", "-n", "x" * 200, "new\nline"])
@case
async def test_odd_session_names(box: Sandbox, name: str) -> None:
    shell = await box.shell(name)
    await shell.run("x=1")
    await shell.run("kill -9 $$")
    assert await out(await box.shell(name), "echo $x; [ ! -e x ] || echo touched") == "1"


@case
async def test_deleted_directory(box: Sandbox) -> None:
    """A session whose directory was deleted says what a shell says, and can leave it."""
    await box.run("x=1; mkdir gone; cd gone")
    await box.run("rmdir ../gone")
    with stopwatch(5):
        assert (await box.run("echo here")).stdout == b"here\n"
        assert (await box.run("ls .. >/dev/null; true", timeout=3)).exit_code == 0
    assert await out(box, "cd /; pwd; echo $x") == "/\n1"


@case
async def test_deleted_directory_and_dead_shell(box: Sandbox) -> None:
    """Also when the shell has to be started again there: it begins at the nearest that is left."""
    await box.run("x=1; mkdir -p up/gone; cd up/gone")
    await box.run("rmdir ../gone; kill -9 $$")
    result = await box.run("pwd; echo $x; cd ..; rmdir up 2>/dev/null; true", timeout=5)
    assert result.exit_code == 0
    assert b"1\n" in result.stdout


@case
async def test_deleted_directory_of_a_command(box: Sandbox) -> None:
    await box.run("mkdir gone")
    await box.run("cd gone; rmdir ../gone")
    result = await box.run("cd /; echo left", cwd="/etc")
    assert result.stdout == b"left\n"


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "quo'te\"d",
        "$HOME",
        "*",
        "new\nline",
        "ünï¢ode",
        "-n",
        "~",
        "back\\slash",
        "trail ",
        "`id`",
        ";;",
    ],
)
@case
async def test_odd_directory_names(box: Sandbox, folder: str, name: str) -> None:
    path = f"{folder}/{name}"
    await box.run(["mkdir", path])
    await box.run("cd -- " + _quoted(path))
    result = await box.run('printf %s "$PWD"; x=1; kill -9 $$')
    assert result.stdout.decode() == path
    assert (await box.run("printf '%s' \"$PWD$x\"")).stdout.decode() == path
    assert (await box.run('printf %s "$PWD"')).cwd == path
    assert (await box.run('cd /; printf %s "$OLDPWD"', cwd=path)).stdout.decode() == path


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


@case
async def test_directory_for_one_command(box: Sandbox) -> None:
    await box.run("cd /")
    result = await box.run("pwd; cd /tmp", cwd="/etc")
    assert result.stdout == b"/etc\n"
    assert await out(box, "pwd") == "/"


@case
async def test_relative_directory_for_one_command(box: Sandbox) -> None:
    """It is relative to where the session is, and is resolved once."""
    await box.run("mkdir -p r/r/r; cd r")
    assert (await box.run("pwd", cwd="r")).stdout.decode() == f"{box.cwd}/r/r\n"
    assert await out(box, "pwd") == f"{box.cwd}/r"
    assert (await box.exec("pwd", cwd="r")).stdout.decode() == f"{box.cwd}/r\n"


@pytest.mark.parametrize("where", ["/no/such/place", "/etc/passwd", "missing"])
@case
async def test_unusable_directory(box: Sandbox, where: str) -> None:
    """One clear error; nothing is run; the session goes on."""
    await box.run("x=1")
    with fails("cwd_unusable") as caught:
        await box.run("touch ran", cwd=where)
    assert where in str(caught.error)
    with fails("cwd_unusable"):
        await box.exec("touch ran", cwd=where)
    with fails("cwd_unusable"):
        await box.start("touch ran", cwd=where)
    assert await out(box, "echo $x; ls ran 2>/dev/null || echo not run") == "1\nnot run"


@case
async def test_long_directory_name(box: Sandbox, folder: str) -> None:
    """Deeper than the system's limit for one path name."""
    await box.run(f"cd {folder}; for i in {{1..25}}; do mkdir {'d' * 180}; cd {'d' * 180}; done")
    assert len((await box.run("pwd")).stdout) > 4096
    assert await out(box, "echo alive") == "alive"
    assert await out(box, "cd /; pwd") == "/"


@case
async def test_unique_names_do_not_collide(box: Sandbox) -> None:
    names = {(await box.shell()).name for _ in range(20)} | {unique("n")}
    assert len(names) == 21
