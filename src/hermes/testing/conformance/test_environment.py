"""Variables: of the sandbox, of a session, of one command."""

from __future__ import annotations

import pytest

from hermes import Sandbox

from .._harness import case
from ..plugin import OpenBox
from ..tools import fails, out, stopwatch

ODD = {
    "NEWLINE": "a\nb\n",
    "QUOTES": 'it\'s "quoted" `x` $HOME \\',
    "UNICODE": "grün €",
    "EMPTY": "",
    "SPACES": "  two  ",
    "GLOB": "* ?",
    "CONTROL": "\x01\x1b[31m\x7f",
    "LONG": "x" * 50_000,
    "_under_1": "=",
}


async def printed(box: Sandbox, names: list[str], env: dict[str, str], how: str = "run") -> dict[str, str]:
    command = "printf '%s\\0' " + " ".join(f'"${{{name}-unset}}"' for name in names)
    result = await getattr(box, how)(command, env=env)
    return dict(zip(names, result.stdout.decode().split("\0"), strict=False))


@pytest.mark.parametrize("how", ["run", "exec"])
@case
async def test_odd_values_of_variables(box: Sandbox, how: str) -> None:
    assert await printed(box, list(ODD), ODD, how) == ODD


@case
async def test_variables_are_exported_to_the_command(box: Sandbox) -> None:
    result = await box.run("bash -c 'echo $SHARED'", env={"SHARED": "yes"})
    assert result.stdout == b"yes\n"


@case
async def test_variables_of_one_command_do_not_persist(box: Sandbox) -> None:
    await box.run("true", env={"BRIEF": "1"})
    assert await out(box, "echo ${BRIEF-gone}; env | grep -c ^BRIEF; true") == "gone\n0"


@case
async def test_previous_values_come_back(box: Sandbox) -> None:
    await box.run("export A=old; B=plain")
    assert (await box.run("echo $A $B", env={"A": "new", "B": "new"})).stdout == b"new new\n"
    assert await out(box, "echo $A $B; bash -c 'echo $A $B'") == "old plain\nold"


@case
async def test_variables_do_not_outlive_a_stop(box: Sandbox) -> None:
    await box.run("export A=old")
    await box.run("sleep 3600", env={"A": "new", "C": "new"}, timeout=0.2)
    assert await out(box, "echo $A ${C-none}") == "old none"


@case
async def test_variables_do_not_outlive_the_shell(box: Sandbox) -> None:
    await box.run("export A=old")
    await box.run("exit 3", env={"A": "new", "C": "new"})
    assert await out(box, "echo $A ${C-none}") == "old none"


@case
async def test_the_command_may_change_them(box: Sandbox) -> None:
    assert (await box.run("A=within; echo $A; B=stays", env={"A": "given"})).stdout == b"within\n"
    assert await out(box, "echo ${A-none} $B") == "none stays"


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A=B", "É", "A\n", "$(x)", "a[0]", "A\0"])
@case
async def test_bad_names(box: Sandbox, name: str) -> None:
    for run in (box.run, box.exec, box.start):
        with fails("env_invalid"):
            await run("touch ran", env={name: "1"})
    assert (await box.run("test -e ran")).exit_code == 1


@case
async def test_nul_in_a_value(box: Sandbox) -> None:
    with fails("env_invalid"):
        await box.run("true", env={"A": "b\0c"})


@case
async def test_path_of_one_command(box: Sandbox) -> None:
    result = await box.run("echo $PATH; no-such-thing-here", env={"PATH": "/nowhere"})
    assert (result.exit_code, result.stdout) == (127, b"/nowhere\n")
    assert (await box.run("ls /")).exit_code == 0


@case
async def test_nothing_of_hermes_shows(box: Sandbox) -> None:
    """No secret of ours, and no more than one mark, is in a command's environment."""
    names = (await out(box, "compgen -e | grep -i hermes || true")).split()
    assert "HERMES_SUDO_PASSWORD" not in names
    assert await out(box, "echo ${BASH_ENV-none} ${PROMPT_COMMAND-none}") == "none none"


@case
async def test_variables_of_the_sandbox(open_box: OpenBox) -> None:
    """They are in every session, one-off command, job and terminal."""
    box = await open_box(env={"EVERYWHERE": "it's\nthere"})
    command = 'printf %s "$EVERYWHERE"'
    expected = b"it's\nthere"
    assert (await box.run(command)).stdout == expected
    assert (await (await box.shell()).run(command)).stdout == expected
    assert (await box.exec(command)).stdout == expected
    assert (await (await box.start(command)).wait(10)).stdout == expected
    pty = await box.pty(command)
    assert b"".join([data async for data in pty]) == b"it's\r\nthere"


@case
async def test_where_the_sandbox_begins(open_box: OpenBox) -> None:
    box = await open_box(cwd="/etc")
    assert await out(box, "pwd") == "/etc"
    assert (await box.exec("pwd")).stdout == b"/etc\n"
    assert (await (await box.start("pwd")).wait(10)).stdout == b"/etc\n"
    assert await out(await box.shell(), "pwd") == "/etc"


@case
async def test_startup_files(box: Sandbox, folder: str) -> None:
    """Whatever a start-up file prints, sets or changes, commands and their output are not disturbed."""
    noise = "echo noise; echo noise >&2; PS1='$(echo noise)'; PROMPT_COMMAND='echo noise'; set -u; cd /; x=rc"
    await box.files.write(f"{folder}/rc", noise + "\n")
    env = {"BASH_ENV": f"{folder}/rc", "ENV": f"{folder}/rc", "PS4": "noise", "PROMPT_COMMAND": "echo noise"}
    shell = await box.shell("with-rc", env=env)
    with stopwatch(5):
        result = await shell.run("echo one; exit 3")
        assert (result.exit_code, result.stdout, result.stderr) == (3, b"one\n", b"")
        assert await out(shell, "echo two") == "two"
    quiet = await box.shell("without-rc")
    assert await out(quiet, "echo [$x]; pwd") == f"[]\n{box.cwd}"
