"""How people meet approval on the command line: refused, asked, granted, logged.

A small judge of the tests stands in for the rules, in programs of their own.
"""

from __future__ import annotations

import json
import os
import select
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli._tool import Cli, eventually

HERMES = [sys.executable, "-m", "approval._hermes"]
TESTS = Path(__file__).resolve().parents[1]


class Tool:
    """Runs hermes with the small judge."""

    def __init__(self, cli: Cli) -> None:
        self.home, self.cwd = cli.home, cli.cwd
        self.env = {**os.environ, "PYTHONPATH": str(TESTS), "HERMES_SANDBOX": "local"}

    def __call__(self, *args: str, **options: Any) -> subprocess.CompletedProcess[str]:
        options.setdefault("cwd", self.cwd)
        options.setdefault("stdin", None if "input" in options else subprocess.DEVNULL)
        options["env"] = {**self.env, **options.pop("env", {})}
        return subprocess.run(
            [*HERMES, *args], text=True, capture_output=True, timeout=30, check=False, **options
        )

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self("approvals", "log", "--json").stdout.splitlines()]


@pytest.fixture
def tool(cli: Cli) -> Tool:
    cli.home.mkdir()
    (cli.home / "state").mkdir(mode=0o700)
    (cli.home / "state" / "told-local").touch()
    return Tool(cli)


# --- without anybody to ask


def test_what_would_be_asked_is_refused(tool: Tool) -> None:
    (tool.cwd / "build").mkdir()
    done = tool("exec", "rm -rf build")
    assert (done.returncode, done.stdout) == (121, "")
    assert "nothing was run: it deletes a directory (rule recursive-delete)" in done.stderr
    assert "There is nobody to ask. Run it on a terminal to be asked, or give --yes" in done.stderr
    done = tool("exec", "--json", "rm -rf build")
    found = json.loads(done.stdout)
    assert (done.returncode, found["status"], found["exit_code"]) == (121, "refused", 121)
    assert found["error"]["code"] == "refused"
    assert (tool.cwd / "build").is_dir()
    assert tool("exec", "ls").stdout == "build\n"
    assert [(one["answer"], one["how"]) for one in tool.log()] == [("no", "nobody")] * 2


def test_yes_is_for_this_once_and_lifts_no_block(tool: Tool) -> None:
    (tool.cwd / "build").mkdir()
    assert tool("exec", "--yes", "rm -rf build; echo done").stdout == "done\n"
    assert not (tool.cwd / "build").exists()
    assert tool("exec", "rm -rf build; echo done").returncode == 121
    for command in ("mkfs", "sudo ls"):
        for options, env in ((["--yes"], {}), ([], {"HERMES_APPROVALS": "off"})):
            done = tool("exec", *options, command, env=env)
            assert (done.returncode, done.stdout) == (121, "")
            assert "A block holds in every mode" in done.stderr
    assert (tool.log()[0]["answer"], tool.log()[0]["how"]) == ("once", "--yes")


def test_modes(tool: Tool) -> None:
    done = tool("exec", "rm -rf x; echo done", env={"HERMES_APPROVALS": "off"})
    assert (done.stdout, tool.log()[-1]["how"]) == ("done\n", "mode")
    done = tool("exec", "touch x", env={"HERMES_APPROVALS": "strict"})
    assert done.returncode == 121
    assert "in strict mode only what is known to be read-only runs unasked" in done.stderr
    assert tool("exec", "ls", env={"HERMES_APPROVALS": "strict"}).returncode == 0


def test_every_way_to_start_something_is_judged(tool: Tool) -> None:
    (tool.cwd / "file.jsonl").write_text('{"command": "rm -rf x"}\n{"command": "echo fine"}\n')
    assert tool("jobs", "start", "rm -rf x").returncode == 121
    assert tool("jobs", "start", "--yes", "rm -rf x").returncode == 0
    assert tool("jobs", "start", "--yes", "mkfs").returncode == 121
    done = tool("fleet", "run", "file.jsonl", "--jobs", "1")
    assert "1 refused" in done.stderr
    done = tool("fleet", "run", "file.jsonl", "--jobs", "1", "--yes")
    assert "2 of 2 done" in done.stderr


def test_a_named_session_is_known_to_the_next_hermes(tool: Tool) -> None:
    """Each hermes is another client: what the session has defined is read from it."""
    assert tool("exec", "--session", "s", 'tool() { rm -rf "$1"; }').returncode == 0
    assert tool("exec", "--session", "s", "tool x").returncode == 121
    assert tool("exec", "--session", "t", "tool x").returncode == 127


# --- asking what would happen


def test_check_says_what_the_rules_make_of_a_command(tool: Tool) -> None:
    done = tool("approvals", "check", "ls; rm -rf build")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "ask: it deletes a directory (rule recursive-delete)",
        "",
        "  ls; rm -rf build",
        "      ^^^^^^^^^^^^",
        "",
        "runs: ls",
        "runs: rm -rf build",
    ]
    assert tool("approvals", "check", "ls").stdout.startswith("allow: nothing in it has to be asked about\n")
    found = json.loads(tool("approvals", "check", "--json", "--cwd", "/etc", "cd x; rm -rf y").stdout)
    assert (found["decision"], found["rule"]) == ("ask", "recursive-delete")
    assert found["programs"] == [{"argv": ["rm", "-rf", "y"], "cwd": "/etc/x"}]
    assert tool("approvals", "check").returncode == 125
    assert tool("approvals", "check", "--jsonl", "x").returncode == 125
    assert not (tool.home / "audit.jsonl").exists()


def test_check_answers_line_by_line(tool: Tool) -> None:
    process = subprocess.Popen(
        [*HERMES, "approvals", "check", "--jsonl"],
        cwd=tool.cwd,
        env=tool.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    answers = []
    lines: list[bytes] = [
        b'{"command": "ls"}',
        b'{"command": "rm -rf x", "cwd": "/tmp"}',
        b'{"command": "mkfs"}',
        b"no json",
        b'{"command": 3}',
        b'["ls"]',
        b'{"command": "ls", "cwd": 1}',
        b'{"command": "ls", "cwd": "a\\u0000b"}',
        b"",
        b"   ",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"command": "echo \\u0000 \\ud800"}',
        b'{"command": "rm -rf \'"}',
        b'{"command": "ls"}',
    ]
    for line in lines:  # each answer comes before the next line is sent
        process.stdin.write(line + b"\n")
        process.stdin.flush()
        assert select.select([process.stdout], [], [], 20)[0], line
        answers.append(json.loads(process.stdout.readline()))
    process.stdin.close()
    assert process.wait(10) == 0
    process.stdout.close()
    assert answers[0] == {"decision": "allow", "rule": None, "reason": ""}
    assert answers[1] == {"decision": "ask", "rule": "recursive-delete", "reason": "it deletes a directory"}
    assert answers[2]["decision"] == "block"
    assert [list(one) for one in answers[3:12]] == [["error"]] * 9
    assert {one["error"]["code"] for one in answers[3:12]} == {"bad_line"}
    assert answers[11]["error"]["message"] == "the line is not UTF-8; expected an object with a 'command'"
    assert answers[12]["decision"] in ("allow", "ask")
    assert answers[13]["decision"] == "ask"
    assert answers[14] == answers[0]


def test_check_says_that_its_input_is_closed(tool: Tool) -> None:
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", *HERMES, "approvals", "check", "--jsonl"]
    done = subprocess.run(closed, cwd=tool.cwd, env=tool.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 125
    assert "standard input is closed" in done.stderr
    assert "AttributeError" not in done.stderr


# --- the person at the terminal


class Screen:
    """A terminal of 80 columns in tmux, with a shell that knows ``h``."""

    def __init__(self, tool: Tool) -> None:
        self._tmux = ["tmux", "-f", "/dev/null", "-S", str(tool.home.parent / "screen")]
        self._run("new-session", "-d", "-x", "80", "-y", "50", "bash --norc", cwd=tool.cwd, env=tool.env)
        self.type(f"h() {{ {' '.join(HERMES)} \"$@\"; echo \"code $?\"; }}; PS1='>''>'; clear")
        self.wait(">>")

    def _run(self, *args: str, **options: Any) -> str:
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [*self._tmux, *args], capture_output=True, text=True, check=True, **options
        )
        return done.stdout

    def keys(self, *names: str) -> None:
        self._run("send-keys", *names)

    def type(self, text: str) -> None:
        self._run("send-keys", "-l", text)
        self.keys("Enter")

    def clear(self) -> None:
        self.keys("C-l")
        self._run("clear-history")

    def seen(self) -> str:
        return self._run("capture-pane", "-p")

    def wait(self, text: str) -> str:
        assert eventually(lambda: text in self.seen(), 15), (text, self.seen())
        return self.seen()

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False)


@pytest.fixture
def screen(tool: Tool) -> Iterator[Screen]:
    if subprocess.run(["sh", "-c", "command -v tmux"], capture_output=True, check=False).returncode:
        pytest.skip("no tmux here")
    screen = Screen(tool)
    try:
        yield screen
    finally:
        screen.close()


ASKED = """\
hermes: may it run this command?

  cat; rm -rf build
       ^^^^^^^^^^^^

Runs:      cat
           rm -rf build
Where:     local, in {cwd}
Why:       it deletes a directory (rule recursive-delete)
[n]o (default), [o]nce, [a]lways, [e]xplain:"""


def test_the_question(tool: Tool, screen: Screen) -> None:
    """As it looks at 80 columns; input that is the command's own is not taken for the answer."""
    (tool.cwd / "build").mkdir()
    screen.type("printf 'o\\no\\n' | h exec -q --stdin 'cat; rm -rf build'")
    assert ASKED.format(cwd=tool.cwd) in screen.wait("[e]xplain:")
    assert (tool.cwd / "build").exists()
    screen.type("o")
    assert "\no\no\ncode 0\n" in screen.wait("code 0").replace("[e]xplain: o\n", "\n")
    assert not (tool.cwd / "build").exists()


@pytest.mark.parametrize("answer", ["Enter", "C-c", "C-d", "n", "no"])
def test_no_is_the_default(tool: Tool, screen: Screen, answer: str) -> None:
    (tool.cwd / "build").mkdir()
    screen.type("h exec -q 'rm -rf build'")
    screen.wait("[e]xplain:")
    screen.keys(answer)
    if answer.startswith("n"):
        screen.keys("Enter")
    seen = screen.wait("code 121")
    assert "No. Nothing was run." in seen
    assert "the answer was no" in seen
    assert (tool.cwd / "build").exists()
    assert [(one["answer"], one["how"]) for one in tool.log()] == [("no", "prompt")]
    screen.type("echo still; stty -a | grep -o -- '-*isig'")  # the terminal is as it was
    assert "\nstill\nisig\n" in screen.wait("isig\n")


def test_other_keys_answer_nothing(tool: Tool, screen: Screen) -> None:
    (tool.cwd / "build").mkdir()
    screen.type("h exec -q 'sleep 0; rm -rf build'; true")
    screen.wait("[e]xplain:")
    for text in ("y", "yes", "s", "1", "ok"):
        screen.type(text)
        screen.wait(f"'{text}' is none of them.")
    screen.type("e")
    seen = screen.wait("Severity:")
    assert "always:    the very same is not asked again here, for 30 days" in seen
    screen.type("")
    screen.wait("code 121")
    assert (tool.cwd / "build").exists()


def test_always_shows_what_is_stored_and_asks_again(tool: Tool, screen: Screen) -> None:
    command = "h exec -q 'rm -rf build; echo ran'"
    screen.type(command)
    screen.wait("[e]xplain:")
    screen.type("a")
    seen = screen.wait("Store it?")
    assert (
        f"Allow:     rm -rf build; echo ran\nIn:        {tool.cwd}\nWhere:     local\nUntil:     20" in seen
    )
    screen.type("")
    screen.wait("[e]xplain:")
    screen.type("a")
    screen.type("y")
    screen.wait("code 0")
    screen.clear()
    screen.type(command)
    assert "may it run" not in screen.wait("code 0")

    (grant,) = json.loads(tool("approvals", "ls", "--json").stdout)
    assert grant["id"] in seen
    assert stat.S_IMODE((tool.home / "state" / "state.db").stat().st_mode) == 0o600
    assert grant["id"] in tool("approvals", "ls").stdout
    for other, code in (
        (["rm -rf build; echo ran"], 0),
        (["rm -rf build; echo more"], 121),
        (["rm -rf build"], 121),
        (["--cwd", "/tmp", "rm -rf build; echo ran"], 121),
    ):
        done = tool("approvals", "test", *other)
        assert done.returncode == code, done
        assert tool("exec", *other).returncode == code
    assert f"by grant {grant['id']}" in tool("approvals", "test", "rm -rf build; echo ran").stdout
    assert tool("approvals", "revoke", "nothing").returncode == 125
    assert tool("approvals", "revoke", grant["id"]).returncode == 0
    assert tool("exec", "rm -rf build; echo ran").returncode == 121
    assert tool("approvals", "ls").stdout == "Nothing is granted.\n"
    ways = [one["how"].split()[0] for one in tool.log() if one["answer"] in ("always", "allow")]
    assert ways == ["prompt", "grant", "grant"]


def test_what_is_hidden_is_shown(tool: Tool, screen: Screen) -> None:
    """Control characters, characters that cannot be seen, and letters that look like others."""
    script = tool.cwd / "script"
    script.write_text("rm -rf 'a\u202eb\x1b[2Jc\u200b' \uff46\n")
    screen.type('h exec -q "$(cat script)"')
    seen = screen.wait("[e]xplain:")
    assert "  rm -rf 'a\\u202eb\\x1b[2Jc\\u200b' \uff46" in seen
    assert "U+FF46 FULLWIDTH LATIN SMALL LETTER F" in seen
    screen.type("n")


def test_off_is_said_each_time(tool: Tool, screen: Screen) -> None:
    screen.type("export HERMES_APPROVALS=off; h exec 'echo ran'")
    assert "hermes: local (no isolation: your user, your files, approvals are OFF)" in screen.wait("code 0")


def test_a_fleet_asks_one_question_at_a_time(tool: Tool, screen: Screen) -> None:
    lines = [{"command": f"rm -rf x{number}; echo {number}"} for number in range(3)]
    (tool.cwd / "f.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    screen.type("h fleet run f.jsonl --jobs 3")
    for number in range(1, 4):
        assert eventually(lambda number=number: screen.seen().count("[e]xplain:") == number, 15)  # type: ignore[misc]
        time.sleep(0.3)
        assert screen.seen().count("may it start this command in the background?") == number
        screen.type("o")
    assert "3 of 3 done" in screen.wait("code 0")


def test_blocked_lines_do_not_reach_a_shell(tool: Tool, screen: Screen) -> None:
    """In hermes shell the person who types is who would be asked; only what is blocked is refused."""
    screen.type("h shell -q env PS1=:, bash --norc")
    screen.wait(":,")
    screen.type("echo one; rm -rf x")
    screen.wait("one\n")
    screen.keys(*"mkfz", "BSpace", "s", "Enter")
    screen.wait("hermes: refused, and nothing was run: it formats a disk (rule mkfs)")
    screen.type("echo t''wo; exit 3")
    assert "command not found" not in screen.wait("code 3")
    assert "two\n" in screen.seen()


def test_a_log_that_is_followed(tool: Tool) -> None:
    tool("exec", "rm -rf first")
    process = subprocess.Popen(
        [*HERMES, "approvals", "log", "--follow", "--json"],
        cwd=tool.cwd,
        env=tool.env,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        assert json.loads(process.stdout.readline())["text"] == "rm -rf first"
        tool("exec", "rm -rf second")
        assert json.loads(process.stdout.readline())["text"] == "rm -rf second"
        os.replace(tool.home / "audit.jsonl", tool.home / "audit.jsonl.1")  # as when it is rotated
        tool("exec", "rm -rf third")
        assert json.loads(process.stdout.readline())["text"] == "rm -rf third"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    done = tool("approvals", "log", "-n", "1")
    assert done.stdout.splitlines()[1] == "    rm -rf third"
    assert "no by nobody  run on local, rule recursive-delete" in done.stdout


def test_settings_of_hermes_agent_in_the_same_section(tool: Tool) -> None:
    (tool.home / "config.yaml").write_text("approvals:\n  mode: smart\n  cron_mode: deny\n  timeout: 60\n")
    first, second = tool("exec", "echo fine"), tool("exec", "echo fine")
    assert "approvals.cron_mode are hermes-agent's and do nothing here" in first.stderr
    assert "a person\nhermes: is asked, never a model" in first.stderr
    assert (second.stdout, second.stderr) == ("fine\n", "")
    assert tool("exec", "rm -rf x").returncode == 121
