"""Timeouts and interrupts: everything the command started is gone, whatever it did to stay."""

from __future__ import annotations

import asyncio

import pytest

from hermes import Sandbox

from .._harness import case
from ..tools import eventually, gone, out, pids, stopwatch, tag

# What a command may start; @ stands for the time that its sleeps take and are found by.
TREES = {
    "plain": "sleep @",
    "list": "true; sleep @; touch late",
    "pipeline": "sleep @ | cat | sleep @",
    "subshell": "(sleep @; sleep @)",
    "group in background": "{ sleep @; sleep @; } & wait",
    "nested shells": "bash -c 'bash -c \"sleep @; true\"; true'",
    "function": "f() { sleep @; }; g() { f; f; }; g",
    "loop": "while :; do sleep @; done",
    "command substitution": "x=$(sleep @; echo no)",
    "process substitution": "cat <(sleep @) > >(cat)",
    "here document": "cat <<EOF\n$(sleep @)\nEOF",
    "ignores TERM": "bash -c \"trap '' TERM INT HUP QUIT; sleep @; sleep @\"",
    "traps TERM": "bash -c 'trap \"sleep @\" TERM INT HUP; sleep @'",
    "nohup": "nohup sleep @ >/dev/null 2>&1 & wait",
    "setsid": "setsid sleep @ & wait",
    "setsid and wait": "setsid -w sleep @",
    "double fork": "(sleep @ & sleep @ &) ; sleep @",
    "daemon": "setsid bash -c 'trap \"\" TERM HUP; sleep @ & sleep @ & disown -a' >&/dev/null & sleep @",
    "daemon with no environment": "env -i setsid bash -c '(sleep @ &); (setsid sleep @ &); sleep @' & wait",
    "fifty children": "for i in {1..50}; do sleep @ & done; wait",
    "keeps forking": "f() { while :; do (sleep @ & sleep 0.01) & sleep 0.005; done; }; f",
    "stopped child": "bash -c 'kill -STOP $$; sleep @' & sleep @",
    "coprocess": "coproc sleep @; sleep @",
    "xargs": "seq 4 | xargs -P4 -I{} sleep @",
    "timeout command": "timeout 3000 sleep @",
    "sourced file": "echo 'sleep @' >sourced; . ./sourced",
    "eval": "eval 'eval \"sleep @\"'",
    "reads its input": "cat; sleep @",
}

# What keeps the shell itself busy, with no child to kill.
BUSY = {
    "busy loop": "while :; do :; done",
    "busy arithmetic": "for ((;;)); do ((n++)); done",
    "busy function": "f() { while true; do n=1; done; }; f",
    "read from a fifo": "rm -f p; mkfifo p; exec 9<>p; read -r x <&9",
    "open of a fifo": "rm -f q; mkfifo q; read -r x <q",
    "wait for nothing": "sleep 3600 & wait",
    "until loop": "until false; do echo x >/dev/null; done",
    "busy subshell": "(while :; do :; done)",
    "busy substitution": "x=$(while :; do :; done)",
    "ignores everything": "trap '' TERM INT HUP QUIT USR1 USR2 ALRM PIPE; while :; do :; done",
    "busy trap": "trap 'while :; do :; done' USR1; kill -USR1 $$",
    "read with a terminal's name": "while read -t 3600 x </dev/zero; do :; done",
    "nested loops": "while :; do for i in 1 2 3; do until false; do :; done; done; done",
    "stopped shell": "kill -STOP $$",
}


async def still_usable(box: Sandbox) -> None:
    with stopwatch(2):
        assert await out(box, "echo $before; still; pwd") == f"kept\nalso\n{box.cwd}"


async def prepare(box: Sandbox) -> None:
    await box.run("before=kept; still() { echo also; }; rm -f late")


@pytest.mark.parametrize("name", TREES)
@case
async def test_timeout_ends_the_tree(box: Sandbox, name: str) -> None:
    mark = tag()
    await prepare(box)
    command = TREES[name].replace("@", mark)
    with stopwatch(1.5):
        result = await box.run(f"echo started; {command}\necho later; touch late", timeout=0.5)
    assert (result.status, result.timed_out, result.exit_code) == ("timed_out", True, 124), result
    assert result.stdout.startswith(b"started\n")
    assert b"later" not in result.stdout
    await gone(box, mark)
    await still_usable(box)
    assert (await box.run("test -e late")).exit_code == 1, "what came later in the command was run"


@pytest.mark.parametrize("name", BUSY)
@case
async def test_timeout_ends_the_shell_builtin(box: Sandbox, name: str) -> None:
    await prepare(box)
    with stopwatch(2.5):
        result = await box.run(f"echo started; {BUSY[name]}\necho later; touch late", timeout=0.4)
    assert (result.status, result.exit_code, result.stdout) == ("timed_out", 124, b"started\n"), result
    with stopwatch(2):
        assert await out(box, "echo $before; pwd") == f"kept\n{box.cwd}"
    assert (await box.run("test -e late")).exit_code == 1, "what came later in the command was run"


@case
async def test_builtin_loops_end_promptly(box: Sandbox) -> None:
    """A second after its timeout at the latest, and without losing what the command had set."""
    with stopwatch(1.3):
        await box.run("n=5; while :; do :; done", timeout=0.3)
    assert await out(box, "echo $n") == "5"


@case
async def test_variables_set_before_the_stop_are_kept(box: Sandbox) -> None:
    await box.run("a=1")
    await box.run("b=2; cd /etc; sleep 3600; c=3", timeout=0.3)
    assert await out(box, "echo $a$b${c-}; pwd") == "12\n/etc"


@case
async def test_partial_output_is_returned(box: Sandbox) -> None:
    result = await box.run("for i in {1..2000}; do echo line $i; done; echo e >&2; sleep 3600", timeout=0.5)
    assert result.stdout == b"".join(b"line %d\n" % i for i in range(1, 2001))
    assert result.stderr == b"e\n"


@case
async def test_what_the_shell_says_of_the_killed_is_not_the_commands(box: Sandbox) -> None:
    heard: list[bytes] = []
    for command, stderr in (
        ("sleep 3600 | cat | sleep 3600", b""),
        ("f() { printf end >&2; sleep 3600; }; f", b"end"),
        ("cat <<EOF | sleep 3600\nline\nother\nEOF", b""),
        ("echo 'bash: line 1: 77 Killed sleep 1' >&2; sleep 3600", b"bash: line 1: 77 Killed sleep 1\n"),
    ):
        result = await box.run(command, timeout=0.5)
        assert (result.timed_out, result.stdout, result.stderr) == (True, b"", stderr), command
        await box.run(command, timeout=0.5, on_stderr=heard.append, on_output=heard.append)
        assert b"".join(heard) == stderr
        heard.clear()
    merged = await box.run("echo out; sleep 3600 & sleep 3600", timeout=0.5, merge_stderr=True)
    assert merged.stdout == b"out\n"
    # One that is killed by something else is told of as ever.
    assert b"Killed" in (await box.run("bash -c 'kill -9 $$'; :")).stderr


@case
async def test_partial_output_of_a_flood(box: Sandbox) -> None:
    result = await box.run("yes", timeout=0.3, max_output=10_000)
    assert result.timed_out
    assert result.truncated
    assert result.spill is not None
    assert result.stdout.startswith(b"y\ny\n")
    assert await result.spill.read(0, 100) == b"y\n" * 50


@case
async def test_timeout_of_zero(box: Sandbox) -> None:
    with stopwatch(2):
        result = await box.run("sleep 3600", timeout=0)
    assert result.timed_out
    assert await out(box, "echo on") == "on"


@case
async def test_in_time(box: Sandbox) -> None:
    """A timeout that is not reached changes nothing."""
    result = await box.run("echo ok; exit 3", timeout=60)
    assert (result.status, result.exit_code, result.timed_out) == ("ok", 3, False)
    assert await out(box, "trap -p DEBUG; shopt -q extdebug || echo off") == "off"


@case
async def test_options_are_as_before_after_a_stop(box: Sandbox) -> None:
    """What the shell needs to be unwound leaves no trace: no trap, no option."""
    before = await out(box, "set +o; shopt -p; trap -p; declare -F; alias")
    await box.run("while :; do sleep 0.01; done", timeout=0.2)
    assert await out(box, "set +o; shopt -p; trap -p; declare -F; alias") == before


@case
async def test_users_debug_trap_survives_a_stop(box: Sandbox) -> None:
    await box.run("n=0; trap 'n=$((n+1))' DEBUG")
    await box.run("while :; do sleep 0.01; done", timeout=0.2)
    first = int(await out(box, "echo $n"))
    assert int(await out(box, "true; true; echo $n")) > first


@case
async def test_stop_many_times(box: Sandbox) -> None:
    await prepare(box)
    for number in range(12):
        result = await box.run(f"echo {number}; sleep 3600; echo later", timeout=0.05)
        assert result.timed_out
        assert await out(box, f"echo after {number}") == f"after {number}"
    await still_usable(box)


@case
async def test_stop_just_at_the_end(box: Sandbox) -> None:
    """A command that ends as its time is up has one result or the other, never a mixture."""
    for delay in range(20):
        result = await box.run(f"sleep 0.{95 + delay // 4:03d}; echo done", timeout=0.1)
        if result.timed_out:
            assert result.exit_code == 124
        else:
            assert (result.exit_code, result.stdout) == (0, b"done\n")
        assert await out(box, "echo $((1+1))") == "2"


@case
async def test_interrupt(box: Sandbox) -> None:
    """An interrupted command is a result with exit code 130 and the output until then."""
    mark = tag()
    shell = await box.shell("one")
    await shell.run("x=1")
    run = asyncio.create_task(shell.run(f"echo begun; setsid sleep {mark} & sleep {mark}; echo later"))
    await eventually(lambda: pids(box, mark))
    with stopwatch(1):
        assert await shell.interrupt() is True
        result = await run
    assert (result.status, result.exit_code, result.stdout) == ("ok", 130, b"begun\n")
    await gone(box, mark)
    assert await out(shell, "echo $x") == "1"
    assert await shell.interrupt() is False


@case
async def test_cancelling_the_call_ends_the_command(box: Sandbox) -> None:
    mark = tag()
    await box.run("x=1; rm -f late")
    run = asyncio.create_task(box.run(f"(setsid sleep {mark} &); sleep {mark}; touch late"))
    await eventually(lambda: pids(box, mark))
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await gone(box, mark, within=1)
    with stopwatch(2):
        assert await out(box, "echo $x; [ ! -e late ] || echo late") == "1"


@case
async def test_cancelling_by_a_timeout_of_the_caller(box: Sandbox) -> None:
    mark = tag()
    with pytest.raises(TimeoutError), stopwatch(2):
        async with asyncio.timeout(0.3):
            await box.run(f"sleep {mark}", on_output=lambda data: None)
    await gone(box, mark, within=1)


@case
async def test_timeout_of_exec(box: Sandbox) -> None:
    mark = tag()
    with stopwatch(1.5):
        result = await box.exec(f"echo begun; (setsid sleep {mark} &); sleep {mark} | cat", timeout=0.4)
    assert (result.status, result.exit_code, result.stdout) == ("timed_out", 124, b"begun\n")
    await gone(box, mark)


@case
async def test_signal_from_outside_the_command(box: Sandbox) -> None:
    """A child that is killed by somebody else is an ordinary exit code."""
    mark = tag()
    run = asyncio.create_task(box.run(f"sleep {mark}; echo rc $?"))
    found = await eventually(lambda: pids(box, mark))
    await box.exec(f"kill -KILL {found[0]}")
    result = await run
    assert result.stdout == b"rc 137\n"
    assert result.exit_code == 0


@case
@pytest.mark.parametrize("trap", ["trap - URG", "trap '' URG", "trap 'true' URG"])
async def test_commands_cannot_disarm_the_next_stop(box: Sandbox, trap: str) -> None:
    """What a command does to the signal that stops commands does not outlive it."""
    await box.run(trap)
    result = await box.run("sleep 3600; echo later", timeout=0.3)
    assert (result.timed_out, result.stdout) == (True, b"")
    assert await out(box, "echo usable") == "usable"


@case
@pytest.mark.parametrize("trap", ["trap - URG", "trap '' URG"])
async def test_a_disarmed_command_runs_nothing_later(box: Sandbox, trap: str) -> None:
    """Without that signal the shell is ended, and its successor has the state before."""
    await box.run("x=before")
    result = await box.run(f"{trap}; x=within; sleep 3600; echo later", timeout=0.3)
    assert (result.timed_out, result.stdout) == (True, b"")
    assert await out(box, "echo $x") == "before"


@case
async def test_a_stop_keeps_shell_options(box: Sandbox) -> None:
    """Stopping uses extdebug and functrace, and leaves them as they were."""
    await box.run("shopt -s extdebug; set -T -E; sleep 3600", timeout=0.3)
    assert await out(box, "shopt -q extdebug && echo $-") == (await box.run("echo $-")).text.strip()
    assert "T" in (await box.run("echo $-")).text
    await box.run("shopt -u extdebug; set +T +E; sleep 3600", timeout=0.3)
    assert (
        await out(box, "shopt -q extdebug || echo off $-") == "off " + (await box.run("echo $-")).text.strip()
    )
    assert "T" not in (await box.run("echo $-")).text


@case
@pytest.mark.parametrize(
    "command",
    [
        "sleep 3600; echo later",
        "(sleep 3600); echo later",
        "sleep 3600 | cat; echo later",
        "while sleep 3600; do :; done; echo later",
    ],
)
async def test_a_stop_with_job_control(box: Sandbox, command: str) -> None:
    """A shell with job control does not take the stop of its child for the end of a job."""
    await box.run("set -m")
    result = await box.run(command, timeout=0.3)
    assert (result.timed_out, result.stdout) == (True, b"")
    assert await out(box, "echo usable") == "usable"
