"""`hermes credentials`: what there is, proved from inside, and taken back by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli._tool import Cli

from .conftest import keep

TOKEN = "A_DECLARED_TOKEN"
VALUE = "s3cr3t-of-the-sandbox-0123"


@pytest.fixture
def cli(hermes_home: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    monkeypatch.setenv(TOKEN, VALUE)
    keep(own / "config.yaml", f"sandbox: local\ncredentials: {{env: [{TOKEN}]}}\n")
    keep(own / "credentials" / "token.json", '{"token": "first-s3cr3t", "expiry": 1}')
    tool = Cli(hermes_home)
    yield tool
    tool.close()


def test_ls_shows_no_values(cli: Cli, own: Path) -> None:
    keep(own / "google_token.json", "x")
    cli("exec", "true")
    said = cli.out("credentials", "ls")
    assert f"{TOKEN}: variable from the environment; inside: ${TOKEN}" in said
    assert f"token.json: file from {own}/credentials/token.json, 38 bytes" in said
    assert "not declared, and looks like one: google_token.json" in said
    assert "local 'work-" in said and "files by channel, variables by channel" in said
    found = cli.out("credentials", "ls", "--json")
    assert json.loads(found)["undeclared"] == ["google_token.json"]
    assert "s3cr3t" not in said + found


def test_doctor_names_what_is_not_declared(cli: Cli, own: Path) -> None:
    keep(own / "google_token.json", "x")
    found = json.loads(cli("doctor", "--json").stdout)["checks"]
    assert any("google_token.json in hermes's home looks like" in one["message"] for one in found)


def test_what_looks_like_a_credential(cli: Cli, own: Path) -> None:
    keep(own / "auth.json", "{}")
    keep(own / "gmail.json", '{"a": 1, "refresh_token": "x"}')
    keep(own / "notes.json", '{"text": "no token"}')
    keep(own / "notes.txt", "x")
    for folder in ("mcp-tokens", "state", "skills", "logs"):
        (own / folder).mkdir(mode=0o700, exist_ok=True)
    keep(own / "mcp-tokens" / "one.json", "x")
    found = json.loads(cli.out("credentials", "ls", "--json"))["undeclared"]
    assert found == ["auth.json", "gmail.json", "mcp-tokens/"]
    keep(own / "config.yaml", "credentials: {files: [{path: auth.json}, {path: mcp-tokens/one.json}]}\n")
    assert json.loads(cli.out("credentials", "ls", "--json"))["undeclared"] == ["gmail.json"]
    shown = cli.out("config", "migrate")
    assert "gmail.json looks like a credential, and no sandbox has it: see credentials.files" in shown
    assert json.loads(cli.out("config", "migrate", "--json"))["undeclared"] == ["gmail.json"]
    doctor = [one["message"] for one in json.loads(cli("doctor", "--json").stdout)["checks"]]
    assert [one for one in doctor if "looks like a credential" in one] == [
        "gmail.json in hermes's home looks like a credential, and is not declared"
    ]


def test_ls_with_nothing_declared(cli: Cli, own: Path) -> None:
    (own / "credentials" / "token.json").unlink()
    keep(own / "config.yaml", "sandbox: local\n")
    assert cli.out("credentials", "ls").startswith("Nothing is declared")


def test_check_proves_it(cli: Cli) -> None:
    done = cli("credentials", "check")
    said = done.stdout.decode()
    assert done.returncode == 0, done
    assert f"ok     {TOKEN}: variable: there, and as it is here" in said
    assert "ok     token.json: file, by channel: there, and as it is here" in said
    assert "ok     HERMES_CREDENTIALS: the directory has mode 700, and is in memory" in said
    assert "ok     environment: nothing else of this machine's is there" in said
    assert "s3cr3t" not in said


def test_check_finds_what_is_wrong(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("exec", "rm $HERMES_CREDENTIALS/token.json")
    monkeypatch.setenv("UNDECLARED", "value-of-it")
    done = cli("credentials", "check", "--set", "credentials.inherit=true", "--json")
    bad = {one["name"] for one in json.loads(done.stdout) if not one["good"]}
    assert (done.returncode, bad & {"token.json", "UNDECLARED", TOKEN}) == (1, {"token.json", "UNDECLARED"})


def test_pull_shows_what_changed_and_asks(cli: Cli, own: Path) -> None:
    path = own / "credentials" / "token.json"
    renewed = '{"token": "second-s3cr3t", "new": "s3cr3t"}'
    cli.out("exec", "-q", f"echo '{renewed}' >$HERMES_CREDENTIALS/token.json")
    done = cli("credentials", "pull", "token.json")
    said = done.stdout.decode()
    assert "~ token: text of 12 characters, now another: text of 13 characters" in said
    assert "+ new: text of 6 characters" in said and "- expiry: a int" in said
    assert "s3cr3t" not in said + done.stderr.decode()
    assert done.returncode == 1 and b"first-s3cr3t" in path.read_bytes()
    assert cli("credentials", "pull", "token.json", "--yes").returncode == 0
    assert json.loads(path.read_text()) == {"token": "second-s3cr3t", "new": "s3cr3t"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert "is the same inside" in cli.out("credentials", "pull", "token.json")


def test_pull_from_elsewhere(cli: Cli, own: Path) -> None:
    cli.out("exec", "-q", "printf renewed >renewed")
    done = cli("credentials", "pull", "token.json", "--from", "renewed", "-y")
    assert b"38 bytes before, 7 now; 1 of 1 lines are others" in done.stdout
    assert (own / "credentials" / "token.json").read_text() == "renewed"


def test_pull_of_what_is_strange(cli: Cli, own: Path) -> None:
    """What is too large is not cut, and the name of a field is no place for a secret."""
    before = (own / "credentials" / "token.json").read_bytes()
    token = "ghp_" + "aB3" * 12
    cli("exec", "head -c 1048577 /dev/zero >large")
    done = cli("credentials", "pull", "token.json", "--from", "large", "-y")
    assert done.returncode == 125 and b"more than 1 MiB inside" in done.stderr
    assert (own / "credentials" / "token.json").read_bytes() == before
    cli("exec", f"printf '{{\"{token[:9]}''{token[9:]}\": 1, \"a\\\\u001b[2Jb\": 2}}' >strange")
    said = cli("credentials", "pull", "token.json", "--from", "strange").stdout.decode()
    assert "+ [redacted]: a int" in said and "\\x1b[2Jb: a int" in said and token not in said


@pytest.mark.parametrize("content", ["", "\\n \\n"])
def test_pull_of_nothing(cli: Cli, own: Path, content: str) -> None:
    """What a program has just cut off, to write it anew, is no renewed token."""
    before = (own / "credentials" / "token.json").read_bytes()
    cli.out("exec", "-q", f"printf '{content}' >$HERMES_CREDENTIALS/token.json")
    done = cli("credentials", "pull", "token.json", "--yes")
    assert done.returncode == 125
    assert b"is empty inside: no credential; nothing was changed" in done.stderr
    assert (own / "credentials" / "token.json").read_bytes() == before


def test_pull_of_what_is_not_declared(cli: Cli) -> None:
    cli("exec", "true")
    done = cli("credentials", "pull", "else.json")
    assert done.returncode == 125
    assert b"no file 'else.json' is declared; nothing was changed" in done.stderr
    assert b"Known: token.json" in done.stderr


def test_nothing_comes_back_by_itself(cli: Cli, own: Path) -> None:
    cli("exec", "echo changed >$HERMES_CREDENTIALS/token.json")
    cli("exec", "true")
    assert "first-s3cr3t" in (own / "credentials" / "token.json").read_text()


@pytest.mark.parametrize("way", [["logs"], ["logs", "--follow"], ["attach"]])
def test_what_a_job_has_written_is_redacted_where_no_person_looks(cli: Cli, way: list[str]) -> None:
    line = f'printf "one $%s two\\n" ; echo "$%s" >&2; printf "%%s" "${TOKEN}"' % (TOKEN, TOKEN)
    job = cli.out("jobs", "start", line).strip()
    cli("jobs", "attach", job)  # to its end
    done = cli("jobs", *way, job)
    assert VALUE.encode() not in done.stdout + done.stderr
    assert done.stdout == b"one [redacted] two\n[redacted]\n[redacted]"
