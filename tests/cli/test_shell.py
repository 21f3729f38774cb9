"""`hermes shell`: a real terminal on our side, a real shell inside, and the way back."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli._tool import HERMES, Cli, eventually, running

# Reads the settings of the terminal while hermes runs, and after it.
RUNNER = """
import os, signal, subprocess, sys, termios
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
def flags(): return termios.tcgetattr(0)[:4]
before = flags()
code = subprocess.call(sys.argv[1:])
print("\\n<code %d %s>" % (code, "same" if flags() == before else "changed"), flush=True)
"""


BASH = ("env", "PS1=:; ", "bash", "--norc")  # a shell's own prompt is taken from it by bash -c


def _broken(text: str) -> re.Pattern[str]:
    """*text* as a terminal of 80 columns shows it: where lines break hangs on what comes before."""
    return re.compile(re.sub(r"(?<=\w)\\ (?=\w)", r"\\s+", re.escape(text)))


class Terminal:
    """A program on a terminal of 80 by 24 that we hold the other end of."""

    def __init__(self, argv: list[str], cli: Cli) -> None:
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cli.cwd)
            os.environ.update(TERM="xterm", PS1="$ ")
            os.execv(argv[0], argv)
        self.resize(24, 80)

    def resize(self, rows: int, cols: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def expect(self, text: str, seconds: float = 60.0) -> str:
        """Read until *text* comes, also broken into lines, and return what came before it."""
        if not self.shows(text, seconds):
            pytest.fail(f"{text!r} did not come; seen: {self.seen!r}")
        found = _broken(text).search(self.seen)
        assert found
        before, self.seen = self.seen[: found.start()], self.seen[found.end() :]
        return before

    def shows(self, text: str, seconds: float) -> bool:
        """Read until *text* comes, and return whether it came in time and before the program's end."""
        end = time.monotonic() + seconds
        while not _broken(text).search(self.seen):
            if not select.select([self.fd], [], [], max(0.0, end - time.monotonic()))[0]:
                return False
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            if not data:
                return False
            self.seen += data.decode("utf-8", "replace")
        return True

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@contextlib.contextmanager
def terminal(cli: Cli, *args: str) -> Iterator[Terminal]:
    """Hermes on a terminal, under a program that tells its exit code and how it left the terminal."""
    screen = Terminal([sys.executable, "-c", RUNNER, *HERMES, *args], cli)
    try:
        yield screen
    finally:
        screen.close()


@contextlib.contextmanager
def shell(cli: Cli, *args: str) -> Iterator[Terminal]:
    with terminal(cli, "shell", "-q", *args, *BASH) as screen:
        screen.expect(":; ")
        yield screen


def ancestors(pid: int) -> list[int]:
    found: list[int] = []
    while pid > 1:
        try:
            with open(f"/proc/{pid}/stat") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            break
        found.append(pid)
    return found


def hermes_pid(what: str) -> int:
    """The pid of the hermes that the test runs on its terminal."""

    def ours() -> list[int]:
        # Another worker may run the same test: only what descends from this one counts.
        found = [pid for pid in running(what) if pid in running("hermes")]
        return [pid for pid in found if os.getpid() in ancestors(pid)]

    found = eventually(ours)
    # RUNNER is there too, with the same arguments.
    return int(max(found))


def test_keys_go_in_and_the_exit_code_comes_back(cli: Cli) -> None:
    with shell(cli) as screen:
        screen.type("echo $((40+2)) $TERM; tty >/dev/null && echo a terminal\r")
        screen.expect("42 xterm\r\na terminal\r\n")
        screen.type("exit 7\r")
        screen.expect("<code 7 same>")


def test_a_person_sees_what_is_there(cli: Cli, hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Declared values too: their own terminal is no place where they would be leaked."""
    monkeypatch.setenv("A_DECLARED_TOKEN", "s3cr3t-of-the-sandbox-0123")
    hermes_home.mkdir(0o700)
    (hermes_home / "config.yaml").write_text("credentials: {env: [A_DECLARED_TOKEN]}\n")
    (hermes_home / "config.yaml").chmod(0o600)
    with shell(cli, "--sandbox", "local") as screen:
        screen.type("echo =$A_DECLARED_TOKEN=\r")
        screen.expect("=s3cr3t-of-the-sandbox-0123=\r\n")
        screen.type("exit\r")


def test_the_default_is_an_interactive_shell(cli: Cli) -> None:
    with terminal(cli, "shell") as screen:
        screen.expect("your user, in your files")
        screen.type("case $- in *i*) echo inter''active;; esac; exit 3\r")
        screen.expect("interactive\r\n")
        screen.expect("<code 3 same>")


def test_ctrl_c_goes_to_the_program(cli: Cli) -> None:
    with shell(cli) as screen:
        screen.type("sleep 100; echo not''reached\r")
        time.sleep(0.3)
        screen.type("\x03")
        screen.expect("^C")
        screen.expect(":; ")
        screen.type("echo code $?\r")
        screen.expect("code 130\r\n")
        screen.type("exit\r")
        screen.expect("<code 0 same>")


def test_the_size_follows(cli: Cli) -> None:
    with shell(cli) as screen:
        screen.type("stty size\r")
        screen.expect("24 80\r\n")
        screen.resize(40, 132)
        time.sleep(0.3)
        screen.type("stty size\r")
        screen.expect("40 132\r\n")


def test_bytes_pass_unchanged(cli: Cli) -> None:
    with shell(cli) as screen:
        screen.type("stty raw -echo; echo ready; head -c 6 | od -An -tx1; stty sane\r")
        screen.expect("ready\n")
        os.write(screen.fd, b"\x00\x03\x1a\x04\xff~")
        screen.expect("00 03 1a 04 ff 7e")


def test_leaving_and_coming_back(cli: Cli) -> None:
    with shell(cli) as screen:
        screen.type("x=remembered\r~?")
        screen.expect("leave it running")
        screen.type("\r~.")
        screen.expect("it goes on as job ")
        ident = screen.expect(".")
        screen.expect("<code 0 same>")
    [job] = [one for one in cli.json("jobs", "ls", "--json") if one["id"] == ident]
    assert job["state"] == "running"
    with terminal(cli, "jobs", "attach", ident) as screen:
        screen.expect(":; ")
        screen.type("echo $x again\r")
        screen.expect("remembered again\r\n")
        screen.type("exit 6\r")
        screen.expect("<code 6 same>")


def test_the_escape_is_for_the_beginning_of_a_line(cli: Cli) -> None:
    with shell(cli) as screen:
        screen.type("echo a~.b ~~\r")
        screen.expect("a~.b")
        screen.type("~~\x15echo on\r")
        screen.expect("on\r\n")
    with shell(cli, "--escape", "none") as screen:
        screen.type("\r~.\x15echo o''n\r")
        screen.expect("on\r\n")


def test_sigterm_ends_it_and_puts_the_terminal_back(cli: Cli) -> None:
    with shell(cli) as screen:
        mark = str(400000 + os.getpid() % 100000)
        screen.type(f"sleep {mark}\r")
        assert eventually(lambda: running(mark))
        os.kill(hermes_pid("shell"), signal.SIGTERM)
        screen.expect("<code 143 same>")
        assert eventually(lambda: not running(mark))


def test_a_closed_terminal_leaves_it_running(cli: Cli) -> None:
    with shell(cli) as screen:
        screen.type("echo still here\r")
        screen.expect("here\r\n")
    left = eventually(lambda: [o for o in cli.json("jobs", "ls", "--json") if o["state"] == "running"])
    assert len(left) == 1
    cli.out("jobs", "kill", left[0]["id"])


def test_suspending(cli: Cli) -> None:
    screen = Terminal(["/bin/bash", "--norc", "-i"], cli)
    try:
        screen.expect("$ ")
        screen.type(" ".join([*HERMES, "shell", "-q", "env", "PS1=in:", "bash", "--norc"]) + "\r")
        screen.expect("--norc\r\n")
        screen.expect("in:")
        screen.type("\r")
        screen.expect("in:")
        screen.type("~\x1a")
        screen.expect("Stopped")
        screen.type("stty -a | grep -o ' icanon'\r")
        screen.expect(" icanon\r\n")
        screen.type("fg\r")
        screen.expect("shell")
        screen.type("echo ba''ck\r")
        screen.expect("back\r\n")
        screen.type("exit\r")
        screen.expect("$ ")
    finally:
        screen.close()


def test_the_guest_dies(cli: Cli) -> None:
    cli.out("exec", "-q", "true")
    guest = cli.guest_pid()
    with shell(cli) as screen:
        os.kill(guest, signal.SIGKILL)
        screen.expect("the sandbox is gone")
        screen.expect("<code 123 same>")


def test_rm_leaves_nothing(cli: Cli) -> None:
    with shell(cli, "--rm") as screen:
        screen.type("exit\r")
        screen.expect("<code 0 same>")
    assert cli.json("sandbox", "ls", "--json") == []


def test_without_a_terminal(cli: Cli) -> None:
    done = cli("shell")
    assert done.returncode == 125
    assert b"needs a terminal; standard input and output are none" in done.stderr
    assert cli.json("sandbox", "ls", "--json") == []


def test_a_full_screen_program_in_tmux(cli: Cli) -> None:
    """tmux as the user's terminal, and tmux again inside: redrawn after a resize, gone without a trace."""
    if subprocess.run(["sh", "-c", "command -v tmux"], capture_output=True, check=False).returncode:
        pytest.skip("no tmux here")
    tmux = ["tmux", "-f", "/dev/null", "-S", str(cli.home.parent / "outer")]
    inner = f"tmux -f /dev/null -S {cli.home.parent / 'inner'}"
    run = " ".join([*HERMES, "shell", "-q"])

    def screen() -> str:
        done = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True)
        return done.stdout

    def keys(*names: str) -> None:
        subprocess.run([*tmux, "send-keys", *names], check=True)

    subprocess.run(
        [*tmux, "new-session", "-d", "-x", "80", "-y", "24", "bash --norc"], cwd=cli.cwd, check=True
    )
    try:
        keys(f"PS1='out> '; clear; {run} '{inner} new bash\\ --norc'", "Enter")
        assert eventually(lambda: "[0]" in screen()), screen()
        assert len(screen().rstrip("\n").splitlines()) == 24
        subprocess.run([*tmux, "resize-window", "-x", "60", "-y", "12"], check=True)
        assert eventually(lambda: "[0]" in (screen().rstrip("\n").splitlines() or [""])[-1]), screen()
        assert len(screen().rstrip("\n").splitlines()) == 12
        keys("exit", "Enter")
        assert eventually(lambda: "[exited]" in screen()), screen()
        keys("echo code $?", "Enter")
        assert eventually(lambda: "code 0" in screen()), screen()
    finally:
        for command in ([*tmux, "kill-server"], [*inner.split(), "kill-server"]):
            subprocess.run(command, capture_output=True, check=False)
