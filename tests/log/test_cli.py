"""`hermes log` and `hermes replay`, on what real commands left."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import time
from pathlib import Path
from typing import Any

import pytest

from cli._tool import HERMES, Cli
from log._recorded import folder


@pytest.fixture
def used(cli: Cli) -> Cli:
    """Three sessions: one that failed, one with a refusal, one in a sandbox with a name."""
    cli("exec", "-q", "echo first; echo oops >&2; exit 3")
    cli("exec", "-q", "rm -rf /tmp/none-such-directory", env={**os.environ, "HERMES_APPROVALS": "ask"})
    cli("exec", "-q", "--name", "other", r"printf 'bad \033]52;c;QUJD\007 \033[31mred\033[0m\n'")
    return cli


def test_listed_the_newest_first(used: Cli) -> None:
    head, *rows = used.out("log").splitlines()
    assert head.split() == ["SESSION", "AGE", "PLACE", "SANDBOX", "RUN", "BAD", "FIRST", "COMMAND"]
    assert [row.split()[3:6] for row in rows] == [
        ["other", "1", "-"],
        [rows[1].split()[3], "1", "1"],
        [rows[1].split()[3], "1", "1"],
    ]
    assert "\\033" in rows[0] and rows[2].endswith("echo first; echo oops >&2; exit 3")
    assert all(len(line) <= 80 for line in used.out("log", "-n", "1").splitlines()[:1])


def test_narrowed(used: Cli) -> None:
    def found(*args: str) -> list[str]:
        return [one["first"].split()[0] for one in used.json("log", "--json", *args)]

    assert found() == ["printf", "rm", "echo"]
    assert found("--failed") == ["rm", "echo"]
    assert found("--name", "other") == ["printf"]
    assert found("--sandbox", "local") == ["printf", "rm", "echo"]
    assert found("--sandbox", "docker") == []
    assert found("--since", "1h", "-n", "2") == ["printf", "rm"]
    assert found("--since", "0") == []
    assert "No session is recorded" in used.out("log", "--sandbox", "docker")


def test_one_as_an_object(used: Cli) -> None:
    listed = used.json("log", "--json")
    one = used.json("log", listed[2]["session"], "--json")
    assert (one["backend"], one["count"], one["failed"]) == ("local", 1, 1)
    [command] = one["commands"]
    assert (command["exit_code"], command["stdout"], command["stderr"]) == (3, "first\n", "oops\n")
    assert command["decision"] == {"action": "allow"} and command["status"] == "ok"
    assert command["duration_s"] >= 0 and abs(command["time"] - time.time()) < 120
    [refused] = used.json("log", listed[1]["client"], "--json")["commands"]
    assert refused["status"] == "refused" and refused["decision"]["action"] == "refuse"


def test_one_for_people(used: Cli) -> None:
    ident = used.json("log", "--json", "--failed")[1]["client"]
    text = used.out("log", ident, "--output")
    assert re.search(r"^   1 \d\d:\d\d:\d\d  exit code 3, \d+\.\d\d s$", text, re.M)
    assert "     echo first; echo oops >&2; exit 3\n   | first\n   ! oops\n" in text
    assert "first\n   |" not in used.out("log", ident)
    refused = used.out("log", used.json("log", "--json", "--failed")[0]["client"])
    assert re.search(r"^     refused: .*\(rule [\w-]+\)$", refused, re.M)


def test_codes_of_a_terminal_are_shown_and_not_sent(used: Cli) -> None:
    text = used.out("log", "last", "-o")
    assert r"bad \x1b]52;c;QUJD\x07 \x1b[31mred\x1b[0m" in text
    assert "\x1b" not in text


def test_a_name_that_is_none_or_not_enough(used: Cli) -> None:
    done = used("log", "nosuch")
    assert done.returncode == 125 and b"there is no recording 'nosuch'" in done.stderr
    done = used("replay", "2")
    assert done.returncode == 125 and b"may be any of 3 recordings" in done.stderr
    assert used("log", "--name").returncode == 125
    assert used("replay", "last", "--command", "7").returncode == 125


def test_where_nothing_is_recorded(cli: Cli) -> None:
    assert cli.out("log") == "No session is recorded that fits.\n"
    assert cli.json("log", "--json") == []
    cli("config", "set", "log.enabled", "false")
    cli("exec", "-q", "true")
    assert cli.out("log") == "No session is recorded that fits. Recording is off: log.enabled.\n"
    assert not folder(cli.home).exists()


def test_a_file_of_another_kind_does_no_harm(used: Cli) -> None:
    (folder(used.home) / "99999999-000000-deadbeef.jsonl").write_text('[]\n{"type":"end"}\n\0\xff\n{"x":1}\n')
    assert used.json("log", "--json")[0]["count"] == 0
    assert used("log", "deadbeef").returncode == 0
    assert used("replay", "deadbeef").returncode == 125


def test_what_is_no_file_is_passed_over(used: Cli) -> None:
    place = folder(used.home)
    (place / "99999999-000000-aaaaaaaa.jsonl").mkdir()
    (place / "99999999-000000-bbbbbbbb.jsonl").symlink_to("/etc/passwd")
    os.mkfifo(place / "99999999-000000-cccccccc.jsonl")
    done = used("log", "-n", "0")
    assert done.returncode == 0 and done.stderr.count(b"warning: ") == 3, done
    assert len(done.stdout.splitlines()) > 1
    for name in ("aaaaaaaa", "bbbbbbbb", "cccccccc"):
        assert used("replay", name).returncode == 125


BEGUN = {
    **{"session": "s", "cwd": "/", "program": "p", "terminal": "t"},
    **{"decision": {"action": "ask", "rule": "r", "reason": "x"}, "error": {"code": "c", "message": "m"}},
}
ENDED = {"status": "ok", "exit_code": 0, "duration": 1.0, "cwd": "/", "error": {"code": "c", "message": "m"}}
BAD: tuple[Any, ...] = (
    None,
    5,
    -1.5,
    "x",
    [],
    [1],
    {},
    {"code": 7, "message": [], "action": 3},
    True,
    10**400,
)


def test_values_of_another_kind_do_no_harm(used: Cli) -> None:
    lines: list[dict[str, Any]] = [{"type": "session", "version": 1, "backend": 7, "host": [], "sandbox": {}}]
    for bad in BAD:
        for of, key in [(BEGUN, key) for key in BEGUN] + [(ENDED, key) for key in ENDED]:
            at = {"n": len(lines), "time": float(len(lines))}
            first, last = (one | {key: bad} if one is of else one for one in (BEGUN, ENDED))
            lines.append({"type": "command", **at, "kind": "run", "text": "true", **first})
            lines.append({"type": "output", **at, "stream": "stdout", "data": "out\n"})
            lines.append({"type": "end", **at, **last})
        lines.append({"type": "command", "n": bad, "time": bad, "kind": bad, "text": bad})
        lines.append({"type": "output", "n": 1, "time": bad, "stream": bad, "data": bad})
        lines.append({"type": "omitted", "n": 1, "time": 1.0, "stream": "stdout", "bytes": bad})
    path = folder(used.home) / "99999999-000000-deadbeef.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for args in (
        ("log", "-n", "0"),
        ("log", "--json"),
        ("log", "deadbeef", "--output"),
        ("log", "deadbeef", "--failed", "--json"),
        ("replay", "deadbeef", "--speed", "1000"),
    ):
        done = used(*args)
        assert done.returncode == 0 and b"fault of hermes" not in done.stderr, (args, done.stderr[-500:])


def test_jobs_and_terminals_of_the_command_line(cli: Cli) -> None:
    ident = cli.out("jobs", "start", "echo from a job; exit 5").strip()
    assert cli("jobs", "attach", ident).returncode == 5
    attached, started = cli.json("log", "--json")
    assert cli.json("log", started["client"], "--json")["commands"][0]["job"] == ident
    [command] = cli.json("log", attached["client"], "--json")["commands"]
    assert (command["kind"], command["exit_code"], command["stdout"]) == ("attach", 5, "from a job\n")


# --- replay


class Terminal:
    """A program on a terminal of 80 columns."""

    def __init__(self, cli: Cli, *args: str) -> None:
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.chdir(cli.cwd)
            os.execv(HERMES[0], [*HERMES, *args])
        self.shown = b""
        self.began = time.monotonic()

    def until(self, text: bytes, timeout: float = 30) -> float:
        """Read until a text is shown; return after how many seconds."""
        end = time.monotonic() + timeout
        while text not in self.shown:
            assert select.select([self.fd], [], [], max(0, end - time.monotonic()))[0], self.shown
            self.shown += os.read(self.fd, 65536)
        return time.monotonic() - self.began

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def wait(self) -> int:
        while True:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                break
            if not data:
                break
            self.shown += data
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def terminal(cli: Cli) -> Cli:
    """A session with a program on a terminal, which takes two seconds."""
    # What is shown is not in the text of the command, which is shown first.
    script = r"printf '\033]0;title\007\033[31m\162ed\033[0m\n'; sleep 2; printf 'l\141te\033[6n\n'"
    shell = Terminal(cli, "shell", "-q", "bash", "-c", script)
    assert shell.wait() == 0
    return cli


def test_played_at_its_own_speed_or_another(terminal: Cli) -> None:
    slow = Terminal(terminal, "replay")
    first = slow.until(b"red")
    assert 1.5 < slow.until(b"late") - first < 20
    assert slow.wait() == 0
    fast = Terminal(terminal, "replay", "--speed", "50")
    first = fast.until(b"red")
    assert fast.until(b"late") - first < 1
    short = Terminal(terminal, "replay", "--idle-limit", "0.1s")
    first = short.until(b"red")
    assert short.until(b"late") - first < 1
    for one in (fast, short):
        assert one.wait() == 0


def test_only_harmless_codes_unless_all_are_asked_for(terminal: Cli) -> None:
    safe, raw = (
        Terminal(terminal, "replay", "--speed", "99"),
        Terminal(terminal, "replay", "--speed", "99", "--raw"),
    )
    assert (safe.wait(), raw.wait()) == (0, 0)
    assert b"\x1b[31mred\x1b[0m" in safe.shown
    assert b"\x1b]0;" not in safe.shown and b"\x1b[6n" not in safe.shown
    assert b"\x1b]0;title\x07" in raw.shown and b"\x1b[6n" in raw.shown


def test_keys(terminal: Cli) -> None:
    one = Terminal(terminal, "replay")
    one.until(b"red")
    one.type(b" ")
    time.sleep(2.5)
    assert b"late" not in one.shown and not select.select([one.fd], [], [], 0)[0]
    one.type(b" ")
    one.until(b"late")
    assert one.wait() == 0
    skipping = Terminal(terminal, "replay", "--idle-limit", "60")
    first = skipping.until(b"red")
    skipping.type(b"n")
    assert skipping.until(b"late") - first < 1.5
    assert skipping.wait() == 0
    ended = Terminal(terminal, "replay")
    ended.until(b"red")
    ended.type(b"q")
    assert ended.wait() == 0 and b"late" not in ended.shown


def test_the_terminal_is_as_it_was_afterwards(terminal: Cli) -> None:
    script = f"{' '.join(HERMES)} replay --speed 99; {' '.join(HERMES)} replay & sleep 0; wait; stty -a"
    shell = Terminal.__new__(Terminal)
    shell.pid, shell.fd = pty.fork()
    if not shell.pid:
        os.chdir(terminal.cwd)
        os.execvp("bash", ["bash", "-c", script.replace(" replay & sleep 0; wait", " replay --speed 99")])
    shell.shown = b""
    assert shell.wait() == 0
    modes = shell.shown.split(b"speed")[-1].decode()
    assert re.search(r"(?<!-)\bopost\b", modes) and re.search(r"(?<!-)\bicanon\b", modes)
    assert re.search(r"(?<!-)\becho\b", modes)


def test_without_a_terminal_at_once_and_without_codes(terminal: Cli) -> None:
    began = time.monotonic()
    text = terminal.out("replay", "last")
    assert time.monotonic() - began < 30
    assert "\x1b" not in text and "red\nlate\n" in text and text.startswith("(pty) bash -c ")


def test_commands_with_what_became_of_them(cli: Cli) -> None:
    cli("exec", "-q", "echo out; echo err >&2; exit 3")
    assert cli.out("replay") == "$ echo out; echo err >&2; exit 3\nout\nerr\n[exit code 3]\n"


def cast_lines(text: str) -> tuple[dict[str, Any], list[list[Any]]]:
    head, *events = [json.loads(line) for line in text.splitlines()]
    return head, events


def test_written_for_asciinema(terminal: Cli, tmp_path: Path) -> None:
    terminal("exec", "-q", "echo out; sleep 0.3; echo late")
    head, events = cast_lines(terminal.out("replay", "--cast", "-"))
    assert head["version"] == 2 and head["width"] == 80
    times = [event[0] for event in events]
    assert times == sorted(times) and times[0] == 0 and 0.2 < times[-1] < 20
    assert all(event[1] == "o" and "\n" not in event[2].replace("\r\n", "") for event in events)
    assert "out\r\n" in "".join(event[2] for event in events)
    file = tmp_path / "x.cast"
    assert terminal("replay", "last", "--cast", str(file)).returncode == 0
    assert cast_lines(file.read_text())[0]["version"] == 2
    done = terminal("replay", "last", "--cast", str(file))
    assert done.returncode == 125 and b"File exists" in done.stderr


def test_the_file_of_a_terminal_is_one_of_asciinema(terminal: Cli) -> None:
    [path] = folder(terminal.home).glob("*.cast")
    head, events = cast_lines(path.read_text())
    assert head["version"] == 2 and isinstance(head["width"], int) and isinstance(head["height"], int)
    assert isinstance(head["timestamp"], int)
    assert all(len(one) == 3 and one[1] in ("o", "r") and isinstance(one[2], str) for one in events)
    times = [one[0] for one in events]
    assert times == sorted(times) and 1.8 < times[-1] - times[0] < 20
