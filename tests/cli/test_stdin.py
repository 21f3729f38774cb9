"""What a command of `hermes exec` reads, and our own descriptors when some of them are closed."""

from __future__ import annotations

import os
import subprocess

import pytest

from cli._tool import Cli


def test_without_stdin_a_command_reads_nothing(cli: Cli) -> None:
    assert cli.out("exec", "-q", "cat; echo end", input=b"never seen", timeout=10) == "end\n"


def test_stdin_is_streamed(cli: Cli) -> None:
    data = os.urandom(3_000_000)
    assert cli("exec", "-q", "--stdin", "cat", input=data).stdout == data
    assert cli.out("exec", "-q", "--stdin", "read line; echo got $line", input=b"one\ntwo\n") == "got one\n"


def test_stdin_that_stays_open_does_not_keep_us(cli: Cli) -> None:
    process = cli.start("exec", "-q", "--stdin", "echo done", stdin=subprocess.PIPE)
    assert process.wait(10) == 0


def test_stdin_from_devnull(cli: Cli) -> None:
    done = cli.sh("$H exec -q --stdin 'cat; echo end' </dev/null; $H exec -q 'cat; echo end' </dev/null")
    assert (done.stdout, done.stderr) == (b"end\nend\n", b"")


@pytest.mark.parametrize(
    ("redirection", "why"),
    [("<&-", "it is closed"), ("0>file", "open for writing only")],
)
def test_stdin_that_cannot_be_read(cli: Cli, redirection: str, why: str) -> None:
    done = cli.sh(f"$H exec -q --stdin 'touch ran' {redirection}")
    assert done.returncode == 125
    assert why in done.stderr.decode()
    assert not (cli.cwd / "ran").exists()


def test_closed_descriptors_do_no_harm(cli: Cli) -> None:
    done = cli.sh("$H exec -q 'echo fine' <&-; $H exec -q 'touch ran; echo lost; exit 3' >&- 2>&-; echo $?")
    assert (done.stdout, done.stderr) == (b"fine\n3\n", b"")
    assert (cli.cwd / "ran").exists()
