"""Commands that certainly change nothing of a session: after them nothing is saved, and nothing is lost."""

from __future__ import annotations

import subprocess

import pytest

from hermes import Sandbox
from hermes.guest.driver import programs

PLAIN = [
    (b"true", {b"true"}),
    (b"ls -la src tests/*.py", {b"ls"}),
    (b"  git status --short\n", {b"git"}),
    (b"./run --all && /bin/echo done || false; pwd", {b"./run", b"/bin/echo", b"false", b"pwd"}),
    (b"grep -rn 'a $b `c`' . | sort -u > out.txt 2>&1", {b"grep", b"sort"}),
    (b'echo "two words" ~/x >>log\nsed -n 1,5p log', {b"echo", b"sed"}),
    (b">new cat <old 2> /dev/null", {b"cat"}),
    (b"", set()),
]
CHANGING = [
    b"cd /",
    b"X=1",
    b"X=1 ls",
    b"a[0]=1",
    b"true; X=1",
    b"ls |\nread X",
    b"export X",
    b"echo $((x=5))",
    b'echo "$((x=5))"',
    b"echo ${x:=5}",
    b"echo $x",
    b"echo `true`",
    b"echo \\\nx",
    b"{ X=1; }",
    b"f() { X=1; }",
    b"f() (true)",
    b"(true)",
    b"exec {fd}>x",
    b"true {fd}>x",
    b"if true; then X=1; fi",
    b"! true",
    b"sleep 1 &",
    b"true && . ./env",
    b"printf -v X y",
    b"test -v 'a[x=1]'",
    b"[ -v 'a[x=1]' ]",
    b"[[ x -eq x=1 ]]",
    b"'cd' /",
    b"c'd' /",
    b'"source" x',
    b"ls > $((x=1))",
    b"cat <<E\nX=1\nE",
    b"cat <<<x",
    b"ls >",
    b"ls > ; cd /",
    b"ls > > x",
    b"ls # it's",
    b"time ls",
    b"builtin cd /",
    b"command cd /",
    b">x cd /",
    b"2>&1 cd /",
    b"umask 0",
    b"shopt -s nullglob",
    b"echo 'open",
    b'echo "open',
]


@pytest.mark.parametrize(("text", "names"), PLAIN)
def test_what_runs_only_programs(text: bytes, names: set[bytes]) -> None:
    assert programs(text) == names


@pytest.mark.parametrize("text", CHANGING)
def test_what_may_change_the_shell(text: bytes) -> None:
    assert programs(text) is None


def test_every_own_word_of_bash_is_known() -> None:
    """No builtin or keyword of this bash is taken for a program, but for the few that only print."""
    words = subprocess.run(["bash", "-c", "compgen -bk"], capture_output=True, check=True).stdout.split()
    assert len(words) > 70
    taken = {word for word in words if programs(word) is not None}
    assert taken == {b"echo", b"false", b"pwd", b"true"}


@pytest.mark.parametrize(
    "define",
    [
        "alias ls='X=2; true'",
        "ls() { X=2; }",
        "trap 'X=2' DEBUG",
        "set -E; trap 'X=2' ERR; ls() { return 1; }",
    ],
)
async def test_a_program_that_is_none_is_saved_after(define: str) -> None:
    async with Sandbox("local", approval="off") as box:
        await box.run("X=1")
        await box.run(define)
        for _ in range(3):
            await box.run("ls /nonexistent")
        await box.run("kill -9 $$")
        result = await box.run('echo "$X"')
        assert result.text == "2\n"


async def test_nothing_is_lost_when_the_shell_dies_after_programs() -> None:
    async with Sandbox("local", approval="off") as box:
        await box.run("X=1; f() { echo f; }; cd /tmp; set -- a b")
        for _ in range(20):
            assert (await box.run("true")).exit_code == 0
        assert (await box.run("false")).exit_code == 1
        await box.run(["bash", "-c", "kill -9 $PPID"])
        result = await box.run('echo "$X $PWD $1 $2"; f')
        assert result.text == "1 /tmp a b\nf\n"


async def test_the_code_and_the_mark_go_on_over_programs() -> None:
    async with Sandbox("local", approval="off") as box:
        await box.run("true")
        await box.run("false")
        assert (await box.run("echo $?")).text == "1\n"
        first = (await box.run("echo $HERMES_TASK")).text
        await box.run("true")
        await box.run("true")
        marks = [int(one.rsplit(".", 1)[1]) for one in (first, (await box.run("echo $HERMES_TASK")).text)]
        assert marks[1] == marks[0] + 3


async def test_programs_are_stopped_end_the_shell_and_are_missing_as_other_commands() -> None:
    """The first two of a kind take another way than those after them, which must not be seen."""
    async with Sandbox("local", approval="off") as box:
        codes = []
        for _ in range(4):
            late = await box.run("sleep 30", timeout=0.2)
            missing = await box.run("no-such-program x")
            codes.append((late.timed_out, late.exit_code, missing.exit_code, missing.stderr.splitlines()[1:]))
            assert missing.stderr.endswith(b"no-such-program: command not found\n")
            for _ in range(3):
                assert (await box.run("false")).exit_code == 1
        assert codes == [(True, 124, 127, [])] * 4
        await box.run("set -e")
        for _ in range(4):
            assert (await box.run("false")).exit_code == 1
            assert (await box.run("true")).exit_code == 0
        assert (await box.run("sh -c 'kill -9 $$'")).exit_code == 137


async def test_a_trace_is_the_same_for_all_commands() -> None:
    async with Sandbox("local", approval="off") as box:
        await box.run("set -x")
        said = {(await box.run(command)).stderr for command in ["echo a", ': "$((1))"; echo a'] * 4}
        assert {line for text in said for line in text.splitlines()} == {b"++ echo a", b"++ : 1"}
