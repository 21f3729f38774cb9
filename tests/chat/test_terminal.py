"""The conversation on a real terminal: keys, questions, interrupts, the line that says where things run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from chat._server import Say, Script, Server, call
from cli._tool import HERMES, Cli, eventually, running
from cli.test_shell import RUNNER, Terminal, ancestors

START = 40.0  # seconds for what has to be imported


@contextlib.contextmanager
def terminal(cli: Cli, *args: str) -> Iterator[Terminal]:
    """Hermes on a terminal, under a program that is not ended by Ctrl-C itself."""
    runner = f"import signal\nsignal.signal(signal.SIGINT, lambda *_: None)\n{RUNNER}"
    screen = Terminal([sys.executable, "-c", runner, *HERMES, *args], cli)
    try:
        yield screen
    finally:
        screen.close()


def prompt(screen: Terminal, place: str = "local") -> str:
    return screen.expect(f"{place}> ", START)


def test_the_place_is_always_on_the_screen(cli: Cli, model: Server) -> None:
    model.play([call("terminal", command="cd /usr && echo moved"), Say("We are in usr.")])
    with terminal(cli) as screen:
        before = prompt(screen)
        assert "\x1b[1;23r" in before  # the last row does not scroll
        line = f"local (NOT isolated) | network host | files are yours | asks | {cli.cwd}"
        assert f"\x1b[24;1H\x1b[7m{line[:76]}" in before
        assert "scripted works in this place" in before
        screen.type("go\r")
        shown = screen.expect("We are in usr.")
        assert "[local] $ cd /usr && echo moved" in shown and "  | moved" in shown
        assert "\x1b[24;1H\x1b[7mlocal (NOT isolated) | network host | files are yours | asks | /usr" in shown
        prompt(screen)
        screen.resize(12, 100)
        assert screen.shows("\x1b[1;11r", 10)
        screen.type("/quit\r")
        end = screen.expect("<code 0 same>")
        assert "\x1b[r" in end and "hermes --continue" in end


def test_a_question_is_answered_by_the_person_alone(cli: Cli, model: Server) -> None:
    for name in "abcd":
        (cli.cwd / name).mkdir()

    def script() -> Script:
        yield call("terminal", command="pwd")
        seen = yield call("terminal", command="rm -rf a")
        assert "the answer was no" in seen.last and "refused" in seen.last
        seen = yield call("terminal", command="rm -rf b")
        assert "the answer was no: it is still in use" in seen.last
        seen = yield call("terminal", command="rm -rf c")
        assert "exit code 0" in seen.last
        seen = yield call("terminal", command="mkdir c")
        seen = yield call("terminal", command="rm -rf c")  # the very same, which has leave for this session
        assert "exit code 0" in seen.last
        seen = yield call("terminal", command="rm -rf d")
        assert "the answer was no" in seen.last
        yield Say("So be it.")

    model.play(script)
    with terminal(cli) as screen:
        prompt(screen)
        screen.type("clean up\r")
        for answer in ("", "n it is still in use", "s", "\x03"):
            question = screen.expect("[e]xplain:")
            assert "may it run this command?" in question
            assert f"Where:     local, in {cli.cwd}, session default" in " ".join(question.split("\r\n"))
            assert "deletes" in question and "[n]o (default; n WHY tells the model)" in question
            screen.type(f"{answer}\r" if answer != "\x03" else answer)
        screen.expect("So be it.")
        prompt(screen)
        assert [name for name in "abcd" if (cli.cwd / name).exists()] == ["a", "b", "d"]
        screen.type("/quit\r")
        screen.expect("<code 0 same>")


def test_always_is_shown_and_can_be_made_a_rule(cli: Cli, model: Server) -> None:
    (cli.cwd / "build").mkdir()
    model.play([call("terminal", command="rm -rf build"), Say("gone")])
    with terminal(cli) as screen:
        prompt(screen)
        screen.type("clean\r")
        screen.expect("[e]xplain:")
        screen.type("a\r")
        shown = screen.expect("Store it? [y]es, [c]hange it into a rule, [n]o (default): ")
        assert "Allow:     rm -rf build" in shown and "Until:" in shown
        screen.type("c\r")
        screen.expect("Allow: ")
        screen.type("ls *\r")
        screen.expect("It does not cover this command.")
        screen.expect("[e]xplain:")
        screen.type("a\r")
        screen.expect("[n]o (default): ")
        screen.type("c\r")
        screen.expect("Allow: ")
        screen.type("rm -rf build\r")
        assert "approvals.allow in config.yaml" in screen.expect("run this once? [y]es, [n]o (default): ")
        screen.type("y\r")
        screen.expect("gone")
        prompt(screen)
        screen.type("/quit\r")
        screen.expect("<code 0 same>")
    assert not (cli.cwd / "build").exists()
    assert cli.out("config", "get", "approvals.allow").strip() in ("[rm -rf build]", "['rm -rf build']")
    assert cli.json("approvals", "ls", "--json") == []


def test_ctrl_c_ends_the_command_then_the_turn_and_never_the_conversation(cli: Cli, model: Server) -> None:
    thinks = threading.Event()

    def script() -> Script:
        seen = yield call("terminal", command="echo begun; sleep 4721")
        assert "begun" in seen.last and "the user interrupted this" in seen.last
        yield Say("Let me think about what to do.", pause=thinks)
        yield Say("Here I am again.")

    model.play(script)
    with terminal(cli) as screen:
        prompt(screen)
        screen.type("\x03")
        screen.expect("(Ctrl-D or /quit leaves.)")
        screen.type("work\r")
        screen.expect("  | begun")
        screen.type("\x03")
        screen.expect("  = exit code 130")
        screen.expect("Let me think")
        screen.type("\x03")
        screen.expect("You ended the turn.")
        thinks.set()
        prompt(screen)
        assert not running("4721")
        screen.type("and now?\r")
        screen.expect("Here I am again.")
        prompt(screen)
        screen.type("\x04")
        screen.expect("<code 0 same>")


def test_what_the_person_can_say_to_hermes(cli: Cli, model: Server) -> None:
    model.play(
        [call("terminal", command="echo ready; sleep 4731", background=True), Say("It runs."), Say("A path.")]
    )
    with terminal(cli) as screen:
        prompt(screen)
        screen.type("start it\r")
        shown = screen.expect("It runs.")
        assert "[local] & echo ready; sleep 4731" in shown and "runs in the background" in shown
        prompt(screen)
        for line, says in (
            ("/help", "Ctrl-C ends the command that runs"),
            ("/sandbox", "Place: local"),
            ("/cost", "scripted: 2 answers, 200 tokens in, 20 out"),
            ("/approve", "ask: what cannot be undone"),
            ("/approve strict", "strict: everything is asked about"),
            ("/approve maybe", "/approve, or /approve with one of"),
            ("/nonsense", "There is no /nonsense"),
            ("/sandbox nowhere", "error:"),
            ("/jobs", "sleep 4731"),
        ):
            screen.type(f"{line}\r")
            screen.expect(says)
            prompt(screen)
        job = cli.json("jobs", "ls", "--json")[0]["id"]
        screen.type(f"/jobs {job}\r")
        screen.expect("  | ready")
        prompt(screen)
        screen.type(f"/jobs kill {job}\r")
        screen.expect("was ended")
        prompt(screen)
        assert eventually(lambda: not running("4731"))
        screen.type("/usr/bin is what?\r")  # a path is no command
        screen.expect("A path.")
        prompt(screen)
        screen.type("/new\r")
        screen.expect("Another conversation begins")
        prompt(screen)
        screen.type("/quit\r")
        screen.expect("<code 0 same>")


def test_another_place_for_this_conversation_alone(cli: Cli, model: Server) -> None:
    other = cli.home.parent / "other"

    def script() -> Script:
        yield Say("Hello.")
        seen = yield call("terminal", command="pwd")
        assert (
            "The place has changed" in [one for one in seen.messages if one["role"] == "user"][-1]["content"]
        )
        yield Say("Moved.")

    other.mkdir()
    model.play(script)
    config = cli.home / "config.yaml"
    config.parent.mkdir(mode=0o700, exist_ok=True)
    config.write_text("sandbox: jail\n")
    with terminal(cli, "--sandbox", "local") as screen:
        prompt(screen)
        screen.type("hello\r")
        screen.expect("Hello.")
        prompt(screen)
        screen.type("/sandbox local\r")
        screen.expect("Everything runs there from now on.")
        prompt(screen)
        screen.type("where?\r")
        screen.expect("Moved.")
        prompt(screen)
        screen.type("/quit\r")
        screen.expect("<code 0 same>")
    assert config.read_text() == "sandbox: jail\n"


def test_it_goes_on_with_the_last_one(cli: Cli, model: Server) -> None:
    model.play([Say("The first answer."), Say("The second answer.")])
    with terminal(cli) as screen:
        prompt(screen)
        screen.type("the first question\r")
        screen.expect("The first answer.")
        prompt(screen)
        screen.type("\x04")
        screen.expect("<code 0 same>")
    with terminal(cli, "--continue") as screen:
        shown = prompt(screen)
        assert "after 1 messages of yours" in shown
        assert "> the first question" in shown and "  The first answer." in shown
        screen.type("more\r")
        screen.expect("The second answer.")
        assert [one["role"] for one in model.seen[1].messages][1:] == ["user", "assistant", "user"]
        prompt(screen)
        screen.type("\x04")
        screen.expect("<code 0 same>")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminal_that_goes_takes_the_command_along(cli: Cli, model: Server, number: int) -> None:
    model.play([call("terminal", command="sleep 4741")])
    with terminal(cli) as screen:
        prompt(screen)
        screen.type("work\r")
        assert eventually(lambda: running("4741"), 30)
        pid = next(pid for pid in running("hermes") if len(cmdline(pid)) == 3 and is_ours(pid))
        os.kill(pid, number)
        assert screen.shows("<code", 30)
        assert eventually(lambda: not running("4741"))


def is_ours(pid: int) -> bool:
    return os.getpid() in ancestors(pid)


def cmdline(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")


def test_without_a_model_it_says_what_to_set(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(cli) as screen:
        shown = screen.expect("<code 125 same>", START)
    for part in ("no model is set", "hermes config set model.name", "hermes config set model.base_url"):
        assert part in shown


def test_without_the_extra_it_says_what_to_install(cli: Cli, model: Server, tmp_path: Path) -> None:
    (tmp_path / "pydantic_ai").mkdir()
    (tmp_path / "pydantic_ai" / "__init__.py").write_text("raise ImportError('no', name='pydantic_ai')\n")
    done = cli("-q", "x", env={**os.environ, "PYTHONPATH": str(tmp_path)}, stderr=subprocess.PIPE)
    assert done.returncode == 125
    assert b"pydantic_ai; nothing was started" in done.stderr and b"hermes-places[chat]" in done.stderr
