"""Approval in sandboxes: what is judged is what runs, whoever uses the session and however input comes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import hermes
from approval._engine import ENGINE
from approval._judge import Small
from hermes.approval import Answer, Decision, Request
from hermes.backends.local import LocalBackend
from hermes.config import Approvals, Config
from hermes.errors import HermesError


class Person:
    """Answers as the test says, and keeps what was asked."""

    def __init__(self, answer: object = True) -> None:
        self.answer = answer
        self.asked: list[tuple[Request, Decision]] = []

    def __call__(self, request: Request, decision: Decision) -> Any:
        self.asked.append((request, decision))
        return self.answer

    @property
    def texts(self) -> list[str]:
        return [request.text for request, _ in self.asked]


@contextlib.asynccontextmanager
async def opened(tmp_path: Path, **options: Any) -> AsyncIterator[hermes.Sandbox]:
    options.setdefault("judge", Small())
    box = await hermes.Sandbox("local", workspace=str(tmp_path), **options).open()
    try:
        yield box
    finally:
        await box.destroy()


@contextlib.asynccontextmanager
async def two(tmp_path: Path, **options: Any) -> AsyncIterator[tuple[hermes.Sandbox, hermes.Sandbox]]:
    """Two clients of one sandbox; the options are the second one's."""
    options.setdefault("judge", Small())
    async with (
        opened(tmp_path, name="both") as first,
        hermes.Sandbox("local", workspace=str(tmp_path), name="both", **options) as second,
    ):
        yield first, second


def refused(match: str = "nothing was run") -> Any:
    return pytest.raises(hermes.Refused, match=match)


# --- sessions


async def test_a_judge_gets_to_know_where_and_what(tmp_path: Path, hermes_home: Path) -> None:
    judge = Small()
    async with opened(tmp_path, judge=judge) as box:
        await box.run("ls", session="s")
    (seen,) = judge.seen
    assert (seen.kind, seen.session, seen.backend, seen.host) == ("run", "s", "local", "")
    assert (seen.cwd, seen.workspace, seen.agent_home) == (str(tmp_path), str(tmp_path), str(hermes_home))
    assert seen.home == str(Path.home())


async def test_a_session_is_followed(tmp_path: Path) -> None:
    """Directory, variables and functions of earlier commands count in later ones."""
    (tmp_path / "sub").mkdir()
    person = Person(False)
    async with opened(tmp_path, on_approval=person) as box:
        await box.run('cd sub\ntool() { rm -rf "$1"; }\nwhat=x')
        for command in ("tool x", "rm -rf $what"):
            with refused():
                await box.run(command)
        assert person.asked[1][1].programs[0].argv == ("rm", "-rf", "x")
        assert person.asked[1][0].cwd == str(tmp_path / "sub")
        await box.exec("tool x")  # a shell of its own does not know it
        with refused():
            await box.start("tool x")  # a job begins with what the default session has
        await box.run("true", session="other")
        await box.run("tool x", session="other")


@pytest.mark.parametrize(
    "command",
    [
        "cd sub; false",
        "cd nowhere",  # it stays where it is, whatever a judge foresaw
        "cd sub; exit 3",
        "cd sub; kill -9 $$",  # and this one too
    ],
)
async def test_where_a_session_is_after_a_failure_is_looked_up(tmp_path: Path, command: str) -> None:
    (tmp_path / "sub").mkdir()
    person = Person(False)
    async with opened(tmp_path, on_approval=person) as box:
        await box.run("true")
        await box.run(command)
        where = (await box.exec("true")).cwd and (await box.run("pwd")).text.strip()
        with refused():
            await box.run("rm -rf x")
    assert person.asked[0][0].cwd == where


async def test_a_session_of_another_client_is_read(tmp_path: Path) -> None:
    """What it has defined is asked of the guest: functions, variables, and where it is."""
    (tmp_path / "sub").mkdir()
    person = Person(False)
    async with two(tmp_path, on_approval=person) as (first, second):
        await first.run('cd sub\ntool() { rm -rf "$1"; }\nwhat=y', session="s")
        for command in ("tool x", "rm -rf $what"):
            with refused("it deletes a directory"):
                await second.run(command, session="s")
        assert person.asked[1][1].programs[0].argv == ("rm", "-rf", "y")
        assert person.asked[1][0].cwd == str(tmp_path / "sub")
        await second.run("tool x", session="fresh")


async def test_what_another_client_does_meanwhile_is_noticed(tmp_path: Path) -> None:
    """A command that was judged before the other client's ran is judged again, and not run as it was."""
    person = Person(False)
    async with two(tmp_path, on_approval=person) as (first, second):
        await first.run("what=1", session="s")
        await second.run("echo $what", session="s")
        await first.run('tool() { rm -rf "$1"; }', session="s")
        with refused("it deletes a directory"):
            await second.run("tool x", session="s")
        await first.run("unset -f tool", session="s")
        assert (await second.run("tool x", session="s")).exit_code == 127


async def test_a_session_of_the_same_name_is_another_one(tmp_path: Path) -> None:
    """Also when it was given as many commands as the one that was closed meanwhile."""
    person = Person(False)
    async with two(tmp_path, on_approval=person) as (first, second):
        await first.run("true", session="s")
        await second.run("true", session="s")
        await (await first.shell("s")).close()
        await first.run('tool() { rm -rf "$1"; }', session="s")
        await first.run("true", session="s")
        with refused("it deletes a directory"):
            await second.run("tool x", session="s")


async def test_many_new_sessions_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        found = await asyncio.gather(*(box.run(f"echo {n}", session=f"s{n}") for n in range(12)))
    assert [result.text for result in found] == [f"{n}\n" for n in range(12)]


async def test_a_session_that_is_busy_is_not_trusted(tmp_path: Path) -> None:
    person = Person(False)
    async with two(tmp_path, on_approval=person) as (first, second):
        running = asyncio.create_task(first.run("sleep 1; true", session="s"))
        await asyncio.sleep(0.3)
        with refused("what this session has defined is not known"):
            await second.run("ls", session="s")
        await running
        await second.run("ls", session="s")


async def test_commands_of_one_session_are_judged_in_order(tmp_path: Path) -> None:
    """While somebody is asked about one, the next one waits; it is judged as what follows it."""
    (tmp_path / "sub/x").mkdir(parents=True)
    judge = Small()
    asked = asyncio.Event()
    go = asyncio.Event()

    async def answer(request: Request, decision: Decision) -> bool:
        asked.set()
        await go.wait()
        return True

    async with opened(tmp_path, judge=judge, on_approval=answer) as box:
        await box.run("true")
        first = asyncio.create_task(box.run("cd sub; rm -rf x"))
        await asked.wait()
        second = asyncio.create_task(box.run("pwd"))
        await asyncio.sleep(0.1)
        assert judge.seen[-1].text == "cd sub; rm -rf x"
        go.set()
        await first
        assert (await second).text == f"{tmp_path}/sub\n"
        assert judge.seen[-1].cwd == f"{tmp_path}/sub"


async def test_a_question_that_is_cancelled_frees_the_session(tmp_path: Path) -> None:
    async def never(request: Request, decision: Decision) -> bool:
        await asyncio.sleep(60)
        return True

    async with opened(tmp_path, on_approval=never) as box:
        waiting = asyncio.create_task(box.run("rm -rf x"))
        await asyncio.sleep(0.2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(5):
            assert (await box.run("echo fine")).text == "fine\n"


async def test_a_session_that_is_looked_at_anew_keeps_its_grants(tmp_path: Path) -> None:
    """What the shell says of itself is what its commands were followed to."""
    person = Person(Answer.SESSION)
    async with opened(tmp_path, judge=ENGINE, on_approval=person) as box:
        await box.run("export MODE=1; count=2")
        for between in (
            "true",
            "false",
            "cd /; cd - > /dev/null; false",
            "echo x | cat; (exit 3)",
            "ls | grep nothing",
        ):
            await box.run("rm -rf build")
            await box.run(between)
        assert len(person.asked) == 1, person.asked
        await box.run("export MODE=2")
        await box.run("rm -rf build")
        assert len(person.asked) == 2


@pytest.mark.parametrize("between", ["ls", "false"])
async def test_a_session_that_was_never_used_is_as_one_that_was(tmp_path: Path, between: str) -> None:
    person = Person(Answer.SESSION)
    async with opened(tmp_path, judge=ENGINE, on_approval=person) as box:
        for _ in range(3):
            await box.run("rm -rf build", session="new")
            await box.run(between, session="new")
        assert person.texts == ["rm -rf build"]


@pytest.mark.parametrize(
    "holds",
    ["set -f", "set -u", "set +B", "shopt -s nullglob", "a=(1 2)", "alias ll=ls", "export A=1", "A=1"],
)
async def test_what_was_followed_is_what_the_shell_says(tmp_path: Path, holds: str) -> None:
    """A grant holds after a failure, since which the shell is asked what it has."""
    person = Person(Answer.SESSION)
    async with opened(tmp_path, judge=ENGINE, on_approval=person) as box:
        await box.run("true")
        await box.run("true")
        await box.run(holds)
        await box.run("rm -rf build")
        await box.run("false")
        await box.run("rm -rf build")
        assert len(person.asked) == 1, [decision.key for _, decision in person.asked]


async def test_what_a_session_has_no_longer_is_not_counted_on(tmp_path: Path) -> None:
    person = Person(False)
    async with two(tmp_path, judge=ENGINE, on_approval=person) as (first, second):
        await second.run("place=/tmp/of-mine; shopt -s extglob; set -- a", session="s")
        await second.run("echo $place", session="s")
        await first.run("unset place; shopt -u extglob; set --", session="s")
        with refused("everything below|/"):
            await second.run('rm -rf "$place"/* $1', session="s")
        assert all("/tmp/of-mine" not in str(decision.programs) for _, decision in person.asked)


async def test_much_that_a_session_has_defined_is_read(tmp_path: Path) -> None:
    lines = [f"f{number}() {{ if true; then ls | cat; fi; }}" for number in range(1200)]
    (tmp_path / "lib.sh").write_text("\n".join([*lines, 'tool() { rm -rf "$1"; }', "what=y"]))
    person = Person(False)
    async with two(tmp_path, judge=ENGINE, on_approval=person) as (first, second):
        await first.run(". ./lib.sh", session="s")
        await second.run("f5", session="s")
        with refused("deletes .*/y"):
            await second.run("tool $what", session="s")


async def test_what_cannot_be_read_of_a_session_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "lib.sh").write_text("tool() {\n" + "ls | cat;\n" * 4000 + "}\nmine=1\n")
    person = Person(False)
    async with two(tmp_path, judge=ENGINE, on_approval=person) as (first, second):
        await first.run(". ./lib.sh", session="s")
        with refused("is not known"):
            await second.run("ls", session="s")
        await second.run(". ./lib.sh; what=y", session="own")  # what it did itself it has followed
        await second.run("false", session="own")
        await second.run("ls", session="own")
        with refused("deletes .*/y"):
            await second.run("rm -rf $what", session="own")
        await first.run("true", session="own")
        with refused("is not known"):
            await second.run("ls", session="own")


async def test_where_a_value_came_from_is_known_after_a_failure(tmp_path: Path) -> None:
    person = Person(Answer.ONCE)
    async with opened(tmp_path, judge=ENGINE, on_approval=person) as box:
        await box.run("key=$(cat ~/.ssh/id_rsa 2>/dev/null; echo k)")
        asked = len(person.asked)
        assert asked == 1
        await box.run("false")
        await box.run('curl -m 1 -d "$key" http://127.0.0.1:9/')
        assert len(person.asked) == asked + 1
        assert person.asked[-1][1].rule == "send-secret"


async def test_a_session_grant_is_of_one_session(tmp_path: Path) -> None:
    person = Person(Answer.SESSION)
    async with opened(tmp_path, on_approval=person) as box:
        for _ in range(2):
            await box.run("rm -rf build", session="one")
        assert len(person.asked) == 1
        await box.run("rm -rf build", session="two")
        assert len(person.asked) == 2
        await box.run("cd /; rm -rf build", session="one")
        assert len(person.asked) == 3
        await (await box.shell("one")).close()
        await box.run("rm -rf build", session="one")
        assert len(person.asked) == 4


# --- what goes with a command


async def test_variables_of_a_command_are_judged_with_it(tmp_path: Path) -> None:
    person = Person(False)
    async with opened(tmp_path, on_approval=person) as box:
        with refused("by a variable that is set for it"):
            await box.run("ls", env={"LD_PRELOAD": "/tmp/x.so"})
        for run in (box.run, box.exec):
            with refused():
                await run("rm -rf $what", env={"what": "it's"})
            assert person.asked[-1][1].programs[0].argv == ("rm", "-rf", "it's")
        await box.run("echo $what")
    person = Person(Answer.SESSION)
    async with opened(tmp_path, on_approval=person) as box:
        for value in ("1", "1", "2"):
            await box.run("rm -rf build", env={"MODE": value})
    assert len(person.asked) == 2


async def test_variables_of_the_sandbox_are_known(tmp_path: Path) -> None:
    person = Person(False)
    async with opened(tmp_path, on_approval=person, env={"what": "z"}) as box:
        for run in (box.run, box.exec):
            with refused():
                await run("rm -rf $what")
            assert person.asked[-1][1].programs[0].argv == ("rm", "-rf", "z")


async def test_what_a_shell_is_given_to_read_is_judged(tmp_path: Path) -> None:
    async def streamed() -> AsyncIterator[bytes]:
        yield b"ls"

    async with opened(tmp_path) as box:
        await box.exec("bash", stdin="ls\n")
        await box.exec("cat", stdin="rm -rf x\n")
        await box.exec("cat", stdin=streamed())
        with refused("in what it reads: it deletes a directory"):
            await box.exec("bash", stdin=b"ls; rm -rf x\n")
        with refused("in what it reads: it formats a disk"):
            await box.run("cat; sh", stdin=b"mkfs\n")
        for command in ("/bin/sh -s", "bash", "python3", "python3 -", "perl -w"):
            with refused("it would run what it reads, and that cannot be judged"):
                await box.exec(command, stdin=streamed())
        await box.exec("python3", stdin=b"print(1)")  # the judge reads its language: see test_typed_code
        for command in ("bash -c cat", "python3 -c 1", "python3 --version", "sh /dev/null"):
            await box.exec(command, stdin=streamed())
    async with opened(tmp_path, approval="off") as box:
        with refused("it formats a disk"):
            await box.exec("bash", stdin=b"mkfs\n")


async def test_the_directory_of_a_command_is_settled_first(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    judge = Small()
    async with opened(tmp_path, judge=judge) as box:
        await box.run("cd a")
        await box.run("ls", cwd="b")
        await box.exec("ls", cwd="a/../a")
        await box.exec("ls", cwd="~")
    assert [request.cwd for request in judge.seen if request.text == "ls"] == [
        f"{tmp_path}/a/b",
        f"{tmp_path}/a",
        str(Path.home()),
    ]


# --- files


async def test_changes_of_files(tmp_path: Path) -> None:
    (tmp_path / "tree/sub").mkdir(parents=True)
    async with opened(tmp_path) as box:
        await box.files.write("f", b"x")
        for work in (box.files.write("/etc/x", b""), box.files.remove("tree", recursive=True)):
            with refused():
                await work
        assert (tmp_path / "tree/sub").is_dir()
    person = Person()
    async with opened(tmp_path, on_approval=person) as box:
        await box.files.remove("tree", recursive=True)
    assert person.texts == ["rm -r -- tree"]
    assert not (tmp_path / "tree").exists()


# --- input


async def test_a_line_that_comes_in_pieces_is_judged_as_one(tmp_path: Path) -> None:
    person = Person(False)
    async with opened(tmp_path, on_approval=person) as box, await box.pty(["bash", "--norc"]) as terminal:
        await terminal.write("rm ")
        with refused("it deletes a directory"):
            await terminal.write("-rf precious\r")
        await terminal.send_keys("C-c")
        await terminal.write("echo safe\r")
        with refused():
            await terminal.send_keys("rm -rf precious", "Enter")
        with refused():
            await terminal.write("rm \\\r-rf precious\r")
        await terminal.write("rm \\\r")
        with refused():
            await terminal.write("-rf precious\r")
        await terminal.send_keys("C-c")
        await terminal.write("what=precious\r")
        with refused():
            await terminal.write("rm -rf $what\r")
        with refused():
            await terminal.write("mkfs\r")
    assert person.asked[-1][1].programs[-1].argv == ("rm", "-rf", "precious")


async def test_a_refused_line_was_not_typed(tmp_path: Path) -> None:
    async with opened(tmp_path) as box, await box.pty(["env", "PS1=", "bash", "--norc"]) as terminal:
        with refused():
            await terminal.write("touch typed; rm -rf x\r")
        await terminal.write("touch after\r")
        async with asyncio.timeout(10):
            while not (tmp_path / "after").exists():
                await asyncio.sleep(0.02)
    assert not (tmp_path / "typed").exists()


async def test_keys_that_do_nothing_alone_are_not_asked_about(tmp_path: Path) -> None:
    judge = Small()
    async with opened(tmp_path, judge=judge) as box, await box.pty("cat") as terminal:
        for key in ("Enter", "Up", "Down", "C-l", "Tab", "C-c"):
            await terminal.send_keys(key)
    assert [request.kind for request in judge.seen] == ["pty"]


async def test_input_for_jobs_is_judged_also_by_another_client(tmp_path: Path) -> None:
    async with two(tmp_path) as (first, second):
        job = await first.start("cat")
        await job.write("rm ")
        with refused():
            await job.write("-rf x\n")
        with refused():
            await (await second.job(job.id)).write("rm -rf x\n")


# --- modes, places, settings


async def test_modes(tmp_path: Path) -> None:
    async with opened(tmp_path, approval="strict") as box:
        assert box.describe()["approval"] == "strict"
        await box.run("ls; cat /dev/null")
        await box.run("make --version")  # the user's own rule allows it
        with refused("in strict mode only what is known to be read-only runs unasked"):
            await box.run("touch x")
    async with opened(tmp_path, approval="strict", on_approval=Person()) as box:
        await box.run("touch x")
    async with opened(tmp_path, approval="off") as box:
        assert box.describe()["approval"] == "off"
        await box.run("rm -rf x")
        for command in ("mkfs", "sudo ls", "ls; mkfs"):
            with refused():
                await box.run(command)
            with refused():
                await box.start(command)


async def test_nobody_to_ask_is_a_no(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    async with opened(tmp_path) as box:
        with refused("There is nobody to ask"):
            await box.run("rm -rf x")
        assert (tmp_path / "x").exists()
        assert (await box.run("ls")).text == "x\n"


async def test_an_answer_that_does_not_come_in_time_is_a_no(tmp_path: Path, hermes_home: Path) -> None:
    async def never(request: Request, decision: Decision) -> bool:
        await asyncio.sleep(60)
        return True

    config = Config(approvals=Approvals(timeout=0.1))
    async with opened(tmp_path, config=config, on_approval=never) as box:
        with refused("nobody answered within 0.1 s"):
            await box.run("rm -rf x")
    assert '"how": "timeout"' in (hermes_home / "audit.jsonl").read_text()


@pytest.fixture
def isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the local backend claim to be a sandbox."""
    real = LocalBackend.capabilities.fget  # type: ignore[attr-defined]
    claim = property(lambda self: msgspec.structs.replace(real(self), judged=False, isolation="container"))
    monkeypatch.setattr(LocalBackend, "capabilities", claim)


async def test_a_real_sandbox_is_not_judged(tmp_path: Path, isolated: None) -> None:
    judge = Small()
    async with opened(tmp_path, judge=judge) as box:
        await box.run("rm -rf x; sudo -n true; mkfs || true")
        assert (box.describe()["judge"], box.describe()["approval"]) == (None, None)
    assert judge.seen == []


def test_where_nothing_is_judged_nothing_is_loaded_for_it(hermes_home: Path) -> None:
    code = """
import asyncio, sys, msgspec, hermes
from hermes.backends.local import LocalBackend
real = LocalBackend.capabilities.fget
LocalBackend.capabilities = property(lambda self: msgspec.structs.replace(real(self), judged=False))
async def main():
    async with hermes.Sandbox("local", workspace="private") as box:
        await box.run("true")
        await box.files.write("f", b"")
asyncio.run(main())
print([name for name in sys.modules if name.startswith(("hermes.approval.", "tree_sitter"))])
"""
    hermes_home.mkdir(mode=0o700)
    (hermes_home / "config.yaml").write_text("log: {enabled: false}\n")  # a recording takes secrets out
    (hermes_home / "config.yaml").chmod(0o600)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("approvals", [Approvals(deny=("sudo *",)), Approvals(rules=({"action": "deny"},))])
async def test_the_users_deny_rules_hold_there_too(
    tmp_path: Path, isolated: None, approvals: Approvals, hermes_home: Path
) -> None:
    for mode in ("ask", "off"):
        async with opened(tmp_path, config=Config(approvals=approvals), approval=mode) as box:
            await box.run("rm -rf x; mkfs || true")  # what is shipped is not for a sandbox
            for work in (box.run("sudo ls"), box.exec("sudo ls"), box.start("sudo ls")):
                with refused("sudo is denied"):
                    await work
            assert box.describe()["approval"] is None
    assert "sudo ls" in (hermes_home / "audit.jsonl").read_text()


async def test_a_sandbox_is_judged_when_that_is_asked_for(tmp_path: Path, isolated: None) -> None:
    async with opened(tmp_path, config=Config(approvals=Approvals(in_sandbox="ask"))) as box:
        assert (box.describe()["judge"], box.describe()["approval"]) == ("small", "ask")
        with refused():
            await box.run("rm -rf x")


async def test_an_advisor_comments_and_decides_nothing(tmp_path: Path) -> None:
    program = tmp_path / "advisor"
    program.write_text("#!/bin/sh\ncat >\"$0.got\"\necho 'I would not.'\n")
    program.chmod(0o755)
    for answer in (True, False):
        person = Person(answer)
        config = Config(approvals=Approvals(advisor=(str(program),)))
        async with opened(tmp_path, config=config, on_approval=person) as box:
            await box.run("ls")
            assert not (tmp_path / "advisor.got").exists()
            with contextlib.nullcontext() if answer else refused("the answer was no"):
                await box.run("rm -rf x; export TOKEN=abcdef")
        (asked,) = person.asked
        assert asked[1].comment == "I would not."
        got = json.loads((tmp_path / "advisor.got").read_text())
        assert (got["reason"], got["text"]) == ("it deletes a directory", "rm -rf x; export TOKEN=[secret]")
        (tmp_path / "advisor.got").unlink()


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("exit 3", "(the advisor failed with exit code 3)"),
        ("sleep 60", "(the advisor said nothing within 0.3 s)"),
        (None, "(the advisor cannot be run: No such file or directory)"),
        ("printf '%s' \"[$HERMES_SUDO_PASSWORD]\"", "[]"),
        ("exec 0<&-; echo fine", "fine"),
    ],
)
async def test_an_advisor_that_fails_is_said_to(
    script: str | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hermes.approval.advisor import Advisor

    monkeypatch.setenv("HERMES_SUDO_PASSWORD", "hidden")
    argv = ["/no/such"] if script is None else ["sh", "-c", script]
    request = Request(kind="run", text="rm -rf x", cwd="/")
    assert await Advisor(argv, seconds=0.3)(request, Small().judge(request)) == says


async def test_a_session_that_is_never_still_is_an_error(tmp_path: Path) -> None:
    async with opened(tmp_path) as box:
        await box.run("true")
        channel = box._channel
        real = channel.open

        def moved(operation: str, args: Any = None, raw: bytes = b"") -> Any:
            return real(operation, {**args, "turn": 77} if operation == "run" else args, raw)

        channel.open = moved  # type: ignore[method-assign]
        with pytest.raises(HermesError, match="another client has used the session") as caught:
            await box.run("touch ran")
        assert caught.value.code == "session_moved"
    assert not (tmp_path / "ran").exists()
