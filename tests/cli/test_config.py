"""`hermes config`, help, version and completion."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from cli._tool import Cli

FILE = """\
# my settings
timeout: 30   # seconds

# where
output:
    limit: 64k
personalities:
  - pirate   # another program's
"""


@pytest.fixture
def file(cli: Cli) -> Path:
    cli.home.mkdir()
    path = cli.home / "config.yaml"
    path.write_text(FILE)
    return path


def test_set_keeps_everything_else(cli: Cli, file: Path) -> None:
    assert cli("config", "set", "timeout", "10m").returncode == 0
    assert file.read_text() == FILE.replace("timeout: 30 ", "timeout: 10m")
    cli("config", "set", "timeout", "30")
    assert cli("config", "set", "approvals.mode", "strict").returncode == 0
    text = file.read_text()
    for line in FILE.splitlines():
        assert line.strip() in text
    assert cli.out("config", "get", "approvals.mode") == "strict\n"
    assert cli.out("config", "get", "output.limit") == "65536\n"
    assert cli("config", "set", "output.limit", "none").returncode == 0
    assert cli.out("config", "get", "output.limit") == "1048576\n"


def test_set_makes_the_file(cli: Cli) -> None:
    done = cli("config", "set", "sandbox", "local")
    assert done.returncode == 0
    assert b"your user, in your files" in done.stderr
    path = cli.home / "config.yaml"
    assert path.read_text() == "sandbox: local\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert cli.out("config", "get", "sandbox", "--explain") == f"local   ({path}:1)\n"


def test_set_keeps_a_file_of_comments_and_follows_a_link(cli: Cli) -> None:
    cli.home.mkdir()
    real = cli.cwd / "dotfile.yaml"
    real.write_text("# only a comment\n")
    (cli.home / "config.yaml").symlink_to(real)
    cli("config", "set", "timeout", "5")
    assert real.read_text() == "# only a comment\ntimeout: 5\n"
    assert (cli.home / "config.yaml").is_symlink()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["output.limitt", "5"], "Did you mean 'output.limit'?"),
        (["timeout", "soon"], "is not a duration"),
        (["approvals.mode", "maybe"], "expected one of ask, strict, off"),
        (["sandbox", "dockerr"], "there is no backend 'dockerr'"),
        (["nothing", "none"], "there is no setting 'nothing'"),
        (["output", "5"], "expected a section"),
    ],
)
def test_set_refuses_what_cannot_be(cli: Cli, file: Path, args: list[str], said: str) -> None:
    done = cli("config", "set", *args)
    assert done.returncode == 125
    assert said in done.stderr.decode()
    assert file.read_text() == FILE


def test_a_wrong_file_is_named_with_its_line(cli: Cli, file: Path) -> None:
    file.write_text("a: 1\nb: [\n")
    for args in (["config", "get"], ["config", "set", "timeout", "5"], ["exec", "true"]):
        done = cli(*args)
        assert done.returncode == 125
        assert b"config.yaml:" in done.stderr
    assert file.read_text() == "a: 1\nb: [\n"


def test_get_and_where_a_value_comes_from(cli: Cli, file: Path) -> None:
    everything = cli.out("config", "get").splitlines()
    assert "timeout: 30" in everything
    assert "sandbox: none" in everything
    env = {**os.environ, "HERMES_TIMEOUT": "7"}
    assert (
        cli.out("config", "get", "timeout", "--explain", env=env)
        == "7   (environment variable HERMES_TIMEOUT)\n"
    )
    assert cli.out("config", "get", "timeout", "--explain") == f"30   ({file}:2)\n"
    assert cli.out("config", "get", "lifetime.ttl", "--explain") == "604800   (default)\n"
    assert "auto is settled at the first use" in cli.out("config", "get", "sandbox", "--explain")
    assert cli.json("config", "get", "output", "--json") == {
        "output.limit": 65536,
        "output.spill_quota": 1 << 30,
    }
    assert b"Did you mean 'timeout'?" in cli("config", "get", "timeuot").stderr


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["exec"],
        ["shell"],
        ["jobs"],
        *(["jobs", name] for name in ("ls", "start", "logs", "attach", "kill")),
        ["sandbox"],
        *(["sandbox", name] for name in ("ls", "rm", "prune", "enter", "cp", "forward", "suspend", "resume")),
        ["config"],
        ["config", "get"],
        ["config", "set"],
        ["bench"],
    ],
)
def test_help_fits_a_terminal_and_is_plain(cli: Cli, args: list[str]) -> None:
    text = cli.out(*args, "--help", env={**os.environ, "COLUMNS": "80"})
    assert text.startswith("Usage: hermes")
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.isascii()
    assert "..." not in text.partition("Commands:")[2]  # short descriptions are whole sentences


def test_groups_show_their_help(cli: Cli) -> None:
    assert cli.out() == cli.out("--help")
    assert cli.out("jobs") == cli.out("jobs", "--help")


def test_version(cli: Cli) -> None:
    assert re.fullmatch(r"hermes \d+\.\d+\.\d+\n", cli.out("--version"))


def test_completion_knows_the_commands(cli: Cli) -> None:
    env = {
        **os.environ,
        "_HERMES_COMPLETE": "complete_bash",
        "COMP_WORDS": "hermes jobs a",
        "COMP_CWORD": "2",
    }
    assert cli("jobs", env=env).stdout.split() == [b"attach"]


def test_exec_imports_nothing_heavy(cli: Cli) -> None:
    cli.out("exec", "-q", "true")
    code = (
        "import sys; from hermes.cli import main; code = main(['exec', '-q', 'true'])\n"
        "heavy = ('rich', 'ruamel', 'importlib.metadata', 'pydantic', 'anyio', 'unittest', 'email', 'http',\n"
        "         'multiprocessing', 'xml', 'hermes.files', 'hermes.guest.archive', 'hermes.cli.jobs')\n"
        "print(code, [name for name in heavy if name in sys.modules])"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], cwd=cli.cwd, capture_output=True, check=True)
    assert done.stdout == b"0 []\n"


def test_bench_measures_and_leaves_nothing(cli: Cli) -> None:
    found = cli.json("bench", "--sandbox", "local", "--json", "--runs", "5", timeout=55)
    assert found["backend"] == "local"
    assert found["rows"]
    assert cli.json("sandbox", "ls", "--json") == []
