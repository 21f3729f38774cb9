"""Commands are those of a real shell: exit codes, control flow, traps; nothing can fake or wedge it."""

from __future__ import annotations

import pytest

from hermes import Sandbox

from .._harness import case
from ..tools import out, stopwatch

EXIT_CODES = [
    ("true", 0),
    ("false", 1),
    ("exit 7", 7),
    ("exit 256", 0),
    ("(exit 9)", 9),
    ("return 5", 5),
    ("false; true", 0),
    ("true; false", 1),
    ("true | false", 1),
    ("no-such-command-anywhere", 127),
    ("/etc", 126),
    ("kill -9 $$", 137),
    ("kill -TERM $$", 143),
    ("kill -HUP $$", 129),
    ("bash -c 'kill -9 $$'", 137),
    ("bash -c 'exit 200'", 200),
    ("exec true", 0),
    ("exec false", 1),
    ("exec bash -c 'exit 42'", 42),
    ("exec no-such-command-anywhere", 127),
    ("set -e; false; echo not reached", 1),
    ("set -o pipefail; (exit 3) | true", 3),
    ("f() { exit 11; }; f", 11),
    ("f() { return 12; }; f", 12),
    ("trap 'exit 13' EXIT; true", 0),
]


@pytest.mark.parametrize(("command", "code"), EXIT_CODES)
@case
async def test_exit_code(box: Sandbox, command: str, code: int) -> None:
    """Whatever it does to the shell: the exit code is the command's own and the session goes on."""
    await box.run("kept=1")
    result = await box.run(command)
    assert (result.status, result.exit_code) == ("ok", code), result
    assert await out(box, "echo $kept; pwd") == f"1\n{box.cwd}"


@case
async def test_exit_codes_as_bash(box: Sandbox) -> None:
    """Every exit status from 0 to 255 comes back as it is."""
    for code in (*range(0, 256, 5), 124, 125, 126, 127, 128, 130, 254):
        assert (await box.run(f"(exit {code})")).exit_code == code


@case
async def test_exec_takes_over_output(box: Sandbox) -> None:
    """What `exec` starts writes to the command's own output."""
    result = await box.run("echo before; exec bash -c 'echo after; echo err >&2; exit 4'")
    assert (result.exit_code, result.stdout, result.stderr) == (4, b"before\nafter\n", b"err\n")


@case
async def test_errexit_persists(box: Sandbox) -> None:
    await box.run("set -e; x=1; false; x=2")
    assert (await box.run("echo $x; false; echo no")).stdout == b"1\n"
    assert await out(box, "set +e; false; echo $x") == "1"


@case
async def test_status_of_last_command(box: Sandbox) -> None:
    """`$?` in a command is what the one before ended with."""
    await box.run("(exit 42)")
    assert await out(box, "echo $?") == "42"
    await box.run("exit 9")
    assert await out(box, "echo $?; true") == "9"
    assert await out(box, "echo $?") == "0"


@case
async def test_exit_trap(box: Sandbox) -> None:
    """The user's own EXIT trap runs when a command ends the shell, and writes to that command's output."""
    await box.run("trap 'echo bye $?' EXIT")
    assert await out(box, "echo still here") == "still here"
    result = await box.run("echo leaving; exit 3")
    assert (result.exit_code, result.stdout) == (3, b"leaving\nbye 3\n")


@case
async def test_exit_trap_that_exits(box: Sandbox) -> None:
    result = await box.run("trap 'exit 8' EXIT; exit 3")
    assert result.exit_code == 8
    assert await out(box, "trap - EXIT; echo on") == "on"


@case
async def test_debug_trap(box: Sandbox) -> None:
    await box.run("n=0; trap 'n=$((n+1))' DEBUG")
    await box.run("true; true; true")
    assert int(await out(box, "trap - DEBUG; echo $n")) >= 3


@case
async def test_err_trap(box: Sandbox) -> None:
    await box.run("trap 'echo failed with $?' ERR")
    assert (await box.run("(exit 6); true")).stdout == b"failed with 6\n"
    assert await out(box, "true; echo fine") == "fine"


@case
async def test_signal_trap(box: Sandbox) -> None:
    await box.run("trap 'echo got it' USR1")
    assert await out(box, "kill -USR1 $$; echo then") == "got it\nthen"


@case
async def test_ignored_signal(box: Sandbox) -> None:
    await box.run("trap '' TERM")
    assert await out(box, "kill -TERM $$; echo survived") == "survived"


@case
async def test_stray_control_flow(box: Sandbox) -> None:
    """`break`, `continue` and `return` outside of what they belong to harm nobody."""
    await box.run("break")
    await box.run("continue")
    await box.run("return")
    assert await out(box, "for i in 1 2 3; do [ $i = 2 ] && break; echo $i; done; echo end") == "1\nend"


@case
async def test_output_cannot_fake_control(box: Sandbox) -> None:
    """Whatever a command prints or writes to its descriptors, it cannot fake a result or move the cwd."""
    fakes = r"R1\0000\0\0/etc\0 __HERMES_DONE__ exit=99 \x1e[3,0,1,1,1,\"\"]\n HERMES-GUEST {}\n"
    result = await box.run(f"printf '%b' '{fakes}'; printf '%b' '{fakes}' >&2; exit 5")
    assert result.exit_code == 5
    assert result.stdout == result.stderr
    assert b"HERMES-GUEST {}\n" in result.stdout
    assert await out(box, "pwd") == box.cwd


@case
async def test_no_descriptor_leaks_in(box: Sandbox) -> None:
    """A command has its three streams and nothing of ours to write to."""
    result = await box.run("for f in 3 4 5 6 7 8 9; do echo x >&$f && echo open $f; done 2>/dev/null; true")
    assert result.stdout == b""


@case
async def test_functions_named_as_builtins(box: Sandbox) -> None:
    """A user who shadows what a shell driver might use gets what bash would give, and the session goes on."""
    names = (
        "cd",
        "echo",
        "printf",
        "pwd",
        "trap",
        "jobs",
        "declare",
        "set",
        "return",
        "source",
        "read",
        "test",
        "kill",
    )
    await box.run(" ".join(f"{name}() {{ command printf 'mine '; }};" for name in names))
    assert (await box.run("cd /; echo hi")).stdout == b"mine mine "
    assert (await box.run("command pwd")).stdout.decode() == box.cwd + "\n"
    await box.run("unset -f " + " ".join(names))
    assert await out(box, "cd / && pwd") == "/"


@case
async def test_aliases_of_odd_names(box: Sandbox) -> None:
    await box.run("alias ..='cd ..' builtin='echo no' command='echo no'")
    await box.run("mkdir -p sub; cd sub")
    await box.run("..")
    assert (await box.run("\\pwd")).stdout.decode() == box.cwd + "\n"


@case
async def test_alias_of_dot(box: Sandbox) -> None:
    """An alias of `.`, with which files are sourced, applies to the user's commands only."""
    await box.run("alias .='echo dotted'")
    assert await out(box, ". hello") == "dotted hello"
    assert await out(box, "unalias .; echo fine") == "fine"


@case
async def test_xtrace_shows_only_the_command(box: Sandbox) -> None:
    await box.run("set -x")
    result = await box.run("echo a")
    assert (result.stdout, result.stderr.lstrip(b"+")) == (b"a\n", b" echo a\n")
    result = await box.run("set +x")
    assert result.stderr.lstrip(b"+") == b" set +x\n"
    assert (await box.run("echo b")).stderr == b""


@case
async def test_empty_path(box: Sandbox) -> None:
    """A session without PATH still runs builtins and reports."""
    result = await box.run("PATH=; ls")
    assert result.exit_code == 127
    assert await out(box, "echo on; PATH=/usr/bin:/bin; ls /etc/passwd") == "on\n/etc/passwd"


@pytest.mark.parametrize(
    "setting",
    [
        "IFS=x0123456789",
        "set -f",
        "set -u",
        "set -o posix",
        "shopt -s failglob nullglob dotglob extglob",
        "set -a",
        "set -k",
    ],
)
@case
async def test_odd_settings(box: Sandbox, setting: str) -> None:
    """No option of the shell breaks the session."""
    await box.run(setting)
    await box.run("cd /; v='a b'")
    assert (await box.run("exit 3")).exit_code == 3
    assert await out(box, 'echo "$v"; pwd') == "a b\n/"


@pytest.mark.parametrize("setting", ["set -n", "set -r"])
@case
async def test_settings_that_end_a_shell(box: Sandbox, setting: str) -> None:
    """A shell that may not execute or redirect any more is replaced: its session goes on."""
    await box.run("x=1")
    with stopwatch(8):
        await box.run(f"{setting}; echo perhaps")
        assert await out(box, "echo $x") == "1"


@case
async def test_redirecting_exec_ends_with_its_command(box: Sandbox) -> None:
    result = await box.run("exec >/dev/null 2>&1; echo lost")
    assert result.stdout == b""
    assert await out(box, "echo heard") == "heard"
    await box.run("exec <&- >&- 2>&-")
    assert await out(box, "echo heard again") == "heard again"


@case
async def test_subshell_keeps_its_changes(box: Sandbox) -> None:
    await box.run("x=1; (x=2; cd /; exit 3)")
    assert await out(box, "echo $x; pwd") == f"1\n{box.cwd}"


@case
async def test_exec_is_a_shell_of_its_own(box: Sandbox) -> None:
    """`Sandbox.exec` neither sees nor changes a session."""
    await box.run("x=1; cd /")
    result = await box.exec("echo [$x]; pwd; x=2; exit 6")
    assert (result.exit_code, result.text) == (6, f"[]\n{box.cwd}\n")
    assert await out(box, "echo $x") == "1"


@case
async def test_argv_is_quoted(box: Sandbox) -> None:
    """A command given as a list reaches the program word by word, whatever is in it."""
    words = ["a b", "", "$HOME", "*", "'", '"', "\\", "`id`", "new\nline", "-n", "ü€", "!x", "~", "#", ";"]
    result = await box.run(["printf", "[%s]", *words])
    assert result.stdout.decode() == "".join(f"[{word}]" for word in words)


@case
async def test_many_commands(box: Sandbox) -> None:
    """Hundreds of commands in one session leave no process behind in it."""
    for number in range(300):
        assert (await box.run(f"n={number}; true")).exit_code == 0
    assert await out(box, "echo $n; jobs") == "299"
    assert [job for job in await box.jobs() if job.state == "running"] == []
