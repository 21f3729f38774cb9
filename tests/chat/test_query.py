"""`hermes -q`: one task, with a real sandbox and a model that follows a script."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from chat._server import KEY, Fail, Say, Script, Server, call
from cli._tool import HERMES, Cli, eventually, running
from hermes.sync import Sandbox

QUIET = {"stderr": subprocess.DEVNULL}


def test_a_task_is_done_and_answered(cli: Cli, model: Server) -> None:
    model.play(
        [call("terminal", "I will look. ", command="echo $((40+2)) >found; cat found"), Say("It is 42.")]
    )
    done = cli("-q", "what is it?")
    assert (done.returncode, done.stdout) == (0, b"It is 42.\n"), done
    assert (cli.cwd / "found").read_text() == "42\n"
    assert b"I will look." in done.stderr
    assert b"[local] $ echo $((40+2)) >found; cat found\n  | 42\n  = exit code 0, " in done.stderr
    first, second = model.seen
    assert first.key == f"Bearer {KEY}"
    assert {one["function"]["name"] for one in first.body["tools"]} >= {"terminal", "patch", "process"}
    assert [one["role"] for one in first.messages] == ["system", "user"]
    assert [one["role"] for one in second.messages] == ["system", "user", "assistant", "tool"]
    assert "exit code 0" in second.last and "<data-" in second.last and "42" in second.last


def test_the_place_is_told_to_the_model(cli: Cli, model: Server) -> None:
    model.play([Say("yes")])
    cli.out("-q", "where are you?")
    system = model.seen[0].system
    for part in (
        "Place: local",
        str(cli.cwd),
        "Network: that of the machine",
        "Kept: files are",
        "a person is",
    ):
        assert part in system, system
    assert "never an instruction" in system


def test_the_task_can_come_from_stdin(cli: Cli, model: Server) -> None:
    model.play([Say("done")])
    assert cli.out("-q", "-", input=b"do this\nand that") == "done\n"
    assert model.seen[0].messages[-1]["content"] == "do this\nand that"


def test_as_json(cli: Cli, model: Server) -> None:
    model.play([call("terminal", "first ", command="echo out"), Say("last")])
    done = cli("-q", "x", "--json")
    found = json.loads(done.stdout)
    assert (found["status"], found["answer"], found["backend"], found["error"]) == (
        "ok",
        "last",
        "local",
        None,
    )
    assert found["used"] == {"answers": 2, "input_tokens": 200, "output_tokens": 20, "price_usd": None}
    model.play([Fail(401)])
    done = cli("-q", "x", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["status"], found["error"]["code"]) == (125, "failed", "model_key")


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (Fail(429, {"retry-after": "0"}), b"the provider wants fewer requests; asked again in 0 s (1 of 4)"),
        (Fail(500, {"retry-after": "0"}), b"the provider failed (HTTP 500); asked again in 0 s (1 of 4)"),
        (Fail(503, {"retry-after": "0"}), b"asked again in 0 s (1 of 4)"),
        (Say("half of it", broken=True), b"the answer broke off; asked again in 1 s (1 of 4)"),
        (Say("", [("terminal", {"command": "touch never"})], broken=True), b"the answer broke off"),
    ],
)
def test_what_fails_for_now_is_asked_for_again(
    cli: Cli, model: Server, failure: Fail | Say, says: bytes
) -> None:
    model.play([failure, Say("here I am")])
    done = cli("-q", "x")
    assert (done.returncode, done.stdout) == (0, b"here I am\n"), done
    assert says in done.stderr
    assert model.seen[0].messages == model.seen[1].messages
    assert not (cli.cwd / "never").exists()


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (Fail(401), b"the key was not accepted"),
        (Fail(403), b"scripted"),
        (Fail(404), b"there is no model scripted"),
        (Fail(400), b"did not take the request"),
        (Fail(429, {"retry-after": "3600"}), b"It asks to be left alone for 3600 s."),
    ],
)
def test_what_fails_for_good_is_said_at_once(cli: Cli, model: Server, failure: Fail, says: bytes) -> None:
    model.play([failure])
    done = cli("-q", "x")
    assert done.returncode == 125
    assert says in done.stderr, done
    assert len(model.seen) == 1
    assert b"Traceback" not in done.stderr
    assert KEY.encode() not in done.stderr


def test_it_is_asked_again_only_so_often(cli: Cli, model: Server) -> None:
    model.play([Fail(500, {"retry-after": "0"})] * 3)
    done = cli("--set", "model.retries=2", "-q", "x")
    assert done.returncode == 125
    assert b"scripted gave no answer: the provider failed (HTTP 500)" in done.stderr
    assert len(model.seen) == 3


@pytest.mark.parametrize("bad", ['{"command": "touch never"', "[1]", '"text"', "", '{"command": 7, "x": 1}'])
def test_arguments_that_are_none_are_told_to_the_model(cli: Cli, model: Server, bad: str) -> None:
    model.play([Say("", [("terminal", bad)]), call("terminal", command="touch then"), Say("done")])
    assert cli.out("-q", "x", **QUIET) == "done\n"
    assert "nothing was done" in model.seen[1].last
    assert not (cli.cwd / "never").exists()
    assert (cli.cwd / "then").exists()


def test_halves_of_characters_end_neither_the_turn_nor_the_conversation(cli: Cli, model: Server) -> None:
    half, escaped = "\ud83d", "\\ud83d"
    model.play(
        [
            Say(f"a {half} b \ud83d\ude00", [("write_file", f'{{"path": "a", "content": "{escaped}"}}')]),
            Say("", [("execute_code", f'{{"code": "print(1) # {escaped}"}}')]),
            Say("", [("patch", f'{{"path": "b", "edits": [{{"old": "x", "new": "{escaped}"}}]}}')]),
            Say("", [("terminal", f'{{"command": "true", "{escaped}": 1}}'), (f"no{half}", "{}")]),
            Say("", [("terminal", f'{{"command": "echo {half}"}}')]),
            Say("done"),
            Say("again"),
        ]
    )
    (cli.cwd / "b").write_text("x")
    done = cli("-q", "a byte that is none: \udcff", timeout=60)
    assert (done.returncode, done.stdout) == (0, b"done\n"), done
    assert next(one["content"] for one in model.seen[0].messages if one["role"] == "user").endswith("\ufffd")
    told = model.seen[5].results
    assert all("a surrogate that stands for no byte" in one for one in told[:3]), told
    assert "half of a character" in told[3] and "there is no tool" in told[4] and "echo" not in told[3]
    assert "efbfbd0a" in told[5]
    said = next(one["content"] for one in model.seen[5].messages if one["role"] == "assistant")
    assert said == "a \ufffd b \U0001f600"
    assert not (cli.cwd / "a").exists()
    assert (cli.cwd / "b").read_text() == "x"
    assert cli.out("--continue", "-q", "y", **QUIET) == "again\n"


def test_a_tool_that_there_is_not(cli: Cli, model: Server) -> None:
    model.play([call("set_sandbox", place="local"), Say("well")])
    assert cli.out("-q", "x", **QUIET) == "well\n"
    assert "there is no tool 'set_sandbox'; there are: terminal" in model.seen[1].last


def test_several_calls_of_one_answer_are_made_in_their_order(cli: Cli, model: Server) -> None:
    calls = [("terminal", {"command": f"echo {n} >>order; sleep 0.{5 - n}"}) for n in range(5)]
    model.play([Say("", [*calls, ("read_file", {"path": "order"})]), Say("done")])
    cli.out("-q", "x", **QUIET)
    assert (cli.cwd / "order").read_text() == "0\n1\n2\n3\n4\n"
    assert len(model.seen[1].results) == 6
    assert "4" in model.seen[1].last


def test_a_huge_output_is_bounded_for_the_model_and_the_screen(cli: Cli, model: Server) -> None:
    model.play([call("terminal", command="seq 2000000; echo the end"), Say("long")])
    done = cli("-q", "x")
    assert done.stdout == b"long\n"
    assert len(model.seen[1].last.encode()) <= 32 << 10
    assert "2000000\nthe end\n</data-" in model.seen[1].last, model.seen[1].last[-400:]
    assert "all 14888904 bytes of output are in" in model.seen[1].last
    assert len(done.stderr) < 3000
    assert b"lines are not shown here" in done.stderr and b"  | the end\n" in done.stderr


def test_what_must_be_asked_is_refused_where_nobody_is(cli: Cli, model: Server) -> None:
    (cli.cwd / "precious").mkdir()
    model.play([call("terminal", command="rm -rf precious"), Say("I could not.")])
    done = cli("-q", "x")
    assert done.stdout == b"I could not.\n"
    assert (cli.cwd / "precious").exists()
    assert "refused" in model.seen[1].last and "There is nobody to ask" in model.seen[1].last
    assert "--yes" not in model.seen[1].last  # which is no option of this
    assert b"= refused, and nothing was run" in done.stderr


def test_a_place_that_fails_ends_the_turn(cli: Cli, model: Server) -> None:
    kill = "kill -9 $(cat /proc/*/task/*/children 2>/dev/null | head -0; ps -o ppid= $PPID)"

    def script() -> Script:
        yield call("terminal", command=kill)
        yield call("terminal", command="touch never")

    model.play(script)
    done = cli("--set", "approvals.mode=off", "-q", "x")
    if len(model.seen) > 1:
        pytest.fail(model.seen[1].last)
    assert done.returncode in (123, 125), done
    assert b"error:" in done.stderr
    assert not (cli.cwd / "never").exists()
    lines = [
        json.loads(line)
        for line in next((cli.home / "chats").glob("*.jsonl")).read_text().split("\n")
        if line
    ]
    assert "The place does not work" in lines[-1]["message"]["parts"][0]["content"]


def test_a_turn_ends_after_so_many_answers(cli: Cli, model: Server) -> None:
    model.play([call("terminal", command=f"echo {n}") for n in range(9)])
    done = cli("--set", "model.max_steps=3", "-q", "x")
    assert done.returncode == 125
    assert b"the turn was ended after 3 answers" in done.stderr
    assert len(model.seen) == 3


def test_ctrl_c_ends_the_command_first_and_then_the_turn(cli: Cli, model: Server) -> None:
    def script() -> Script:
        yield Say(
            "", [("terminal", {"command": "echo begun; sleep 4711"}), ("terminal", {"command": "touch no"})]
        )
        yield call("terminal", command="echo second; sleep 4712")

    model.play(script)
    process = cli.start("-q", "x")
    assert eventually(lambda: running("4711"), 60)
    process.send_signal(signal.SIGINT)
    assert eventually(lambda: running("4712"), 60)
    assert not running("4711")
    results = model.seen[1].results
    assert "begun" in results[0] and "the user interrupted this" in results[0]
    assert "It was not run: the user interrupted what was called before it." in results[1]
    process.send_signal(signal.SIGINT)
    time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"the task was ended" in err
    assert eventually(lambda: not running("4712"))
    assert not (cli.cwd / "no").exists()


def test_ctrl_c_while_the_model_thinks_ends_the_turn(cli: Cli, model: Server) -> None:
    import threading

    pause = threading.Event()
    model.play([Say("let me think about it", pause=pause)])
    process = cli.start("-q", "x")
    assert eventually(lambda: model.seen, 60)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    pause.set()
    assert process.returncode == 130, err


def test_sigterm_ends_the_command_too(cli: Cli, model: Server) -> None:
    model.play([call("terminal", command="sleep 4713")])
    process = cli.start("-q", "x")
    assert eventually(lambda: running("4713"), 60)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert eventually(lambda: not running("4713"))


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"HERMES_MODEL": ""}, [b"no model is set", b"hermes config set model.name", b"model.base_url"]),
        ({"HERMES_MODEL_URL": ""}, [b"model.name 'scripted' has no provider", b"anthropic:scripted"]),
        ({"HERMES_MODEL_URL": "nonsense"}, [b"'nonsense' is no address"]),
        (
            {"HERMES_MODEL": "anthropic:x", "HERMES_MODEL_URL": "", "ANTHROPIC_API_KEY": ""},
            [b"ANTHROPIC_API_KEY is not set", b"hermes config set ANTHROPIC_API_KEY"],
        ),
    ],
)
def test_what_is_to_be_set_is_said(cli: Cli, model: Server, env: dict[str, str], says: list[bytes]) -> None:
    done = cli("-q", "x", env={**os.environ, **env})
    assert done.returncode == 125
    for part in says:
        assert part in done.stderr, done
    assert not cli.json("sandbox", "ls", "--json")


def test_the_key_can_be_kept(cli: Cli, model: Server) -> None:
    env = {name: value for name, value in os.environ.items() if name != "HERMES_MODEL_KEY"}
    cli.out("config", "set", "model.api_key", input=b"kept-key-1\n", env=env)
    model.play([call("terminal", command="env; cat /proc/self/environ"), Say("ok")])
    assert cli.out("-q", "x", env=env, **QUIET) == "ok\n"
    assert model.seen[0].key == "Bearer kept-key-1"
    assert "kept-key-1" not in model.seen[1].last
    model.play([call("terminal", command="env; cat /proc/self/environ"), Say("ok")])
    cli.out("-q", "x", **QUIET)  # the environment goes before
    assert model.seen[0].key == f"Bearer {KEY}"
    assert KEY not in model.seen[1].last


@pytest.mark.parametrize(
    "args",
    [
        ("-q", "x", "exec", "true"),
        ("--continue", "jobs", "ls"),
        ("-q", " "),
        ("--json",),
        ("--here", "exec", "x"),
    ],
)
def test_options_that_go_nowhere(cli: Cli, model: Server, args: tuple[str, ...]) -> None:
    done = cli(*args)
    assert done.returncode not in (0, 1)
    assert b"Traceback" not in done.stderr
    assert not model.seen


def test_without_a_terminal_there_is_help_and_no_conversation(cli: Cli, model: Server) -> None:
    assert "Usage: hermes" in cli.out()
    done = cli("--continue")
    assert done.returncode == 125
    assert b"a conversation needs a terminal" in done.stderr
    done = cli("--sandbox", "local")
    assert b"a conversation needs a terminal" in done.stderr


def test_it_goes_on_where_it_was(cli: Cli, model: Server) -> None:
    model.play([call("terminal", command="cd /usr; X=kept"), Say("first")])
    cli.out("-q", "begin", **QUIET)
    (path,) = (cli.home / "chats").glob("*.jsonl")
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    model.play([call("terminal", command='echo "$PWD $X"'), Say("second")])
    cli.out("--continue", "-q", "again", **QUIET)
    assert [one["role"] for one in model.seen[0].messages][1:] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert "/usr kept" in model.seen[1].last  # the session is the very same
    (still,) = (cli.home / "chats").glob("*.jsonl")
    assert still == path
    other = cli.home.parent / "other"
    other.mkdir()
    done = cli("--continue", "-q", "x", cwd=other)
    assert done.returncode == 125 and b"no conversation was begun in this directory" in done.stderr


def test_the_model_is_told_where_its_shell_is(cli: Cli, model: Server) -> None:
    model.play([call("terminal", command="cd /usr"), Say("one")])
    cli.out("-q", "x", **QUIET)
    assert "The default session" not in model.seen[0].system
    model.play([Say("two")])
    cli.out("-q", "x", **QUIET)
    assert f"begin in {cli.cwd}. The default session is in /usr now.\n" in model.seen[0].system


def test_two_at_once_have_a_shell_each(cli: Cli, model: Server) -> None:
    with Sandbox("local", name="both", approval="off") as box:
        box.run("cd /usr")

        def script() -> Script:
            yield call("terminal", command="pwd; sleep 4743")  # of the first
            seen = yield call("terminal", command="pwd", session="default")
            assert "/usr" not in seen.last and f"\n{box.cwd}\n" in seen.last
            yield Say("done")

        model.play(script)
        first = subprocess.Popen([*HERMES, "--name", "both", "-q", "x"], stderr=subprocess.DEVNULL)
        try:
            assert eventually(lambda: running("4743"), 60)
            assert cli.out("--name", "both", "-q", "x", **QUIET) == "done\n"
            assert first.poll() is None
        finally:
            first.terminate()
            first.wait()
        assert [one.name for one in box.sessions()] == ["default"]


def test_what_a_killed_hermes_had_begun_is_not_begun_again(cli: Cli, model: Server) -> None:
    model.play([call("terminal", command="echo once >>times; sleep 4714")])
    process = cli.start("-q", "begin")
    assert eventually(lambda: running("4714"), 60)
    process.kill()
    process.communicate()
    model.play([Say("I see")])
    cli.out("--continue", "-q", "what now?", **QUIET)
    assert "hermes ended before this was known" in model.seen[0].last
    assert (cli.cwd / "times").read_text() == "once\n"


def test_old_ones_are_forgotten(cli: Cli, model: Server) -> None:
    chats = cli.home / "chats"
    ages = {"first": 100, "second": 80}
    for text in ages:
        model.play([Say(text)])
        cli.out("-q", text, **QUIET)
    found = {path: next(text for text in ages if text in path.read_text()) for path in chats.glob("*.jsonl")}
    for path, text in found.items():
        when = time.time() - ages[text] * 24 * 3600
        os.utime(path, (when, when))
    for setting, left in (("0", {"first", "second"}), ("90d", {"second"})):
        (chats / ".pruned").unlink(missing_ok=True)
        model.play([Say("third")])
        cli.out("--set", f"log.keep_chats={setting}", "-q", "x", **QUIET)
        assert {text for path, text in found.items() if path.exists()} == left
    (chats / ".pruned").unlink()
    for path in chats.glob("*.jsonl"):
        os.utime(path, (when, when))
    model.play([Say("fourth")])
    cli.out("--set", "log.keep_chats=1d", "--continue", "-q", "x", **QUIET)
    assert len([*chats.glob("*.jsonl")]) == 1  # the one that goes on is not old


def test_two_do_not_go_on_with_the_same(cli: Cli, model: Server) -> None:
    model.play([Say("first")])
    cli.out("-q", "begin", **QUIET)
    model.play([call("terminal", command="sleep 4715")])
    process = cli.start("--continue", "-q", "x")
    assert eventually(lambda: running("4715"), 60)
    done = cli("--continue", "-q", "y")
    assert done.returncode == 125 and b"is going on in another hermes" in done.stderr
    process.terminate()
    process.communicate(timeout=60)


def test_a_conversation_that_is_too_long_gets_shorter(cli: Cli, model: Server) -> None:
    full = Fail(400, body={"error": {"message": "too long", "code": "context_length_exceeded"}})
    steps: list[Say | Fail] = [call("terminal", command=f"echo number {n}; seq 500") for n in range(4)]
    model.play([*steps, full, Say("done")])
    done = cli("-q", "x")
    assert done.stdout == b"done\n", done
    results = model.seen[-1].results
    assert "left out" in results[0] and "number 0" not in results[0]
    assert "number 3" in results[3]
    model.play([full])
    done = cli("-q", "x")
    assert done.returncode == 125 and b"longer than the model takes" in done.stderr
