"""The audit log: what is in it, what is not, and what happens where it cannot be written."""

from __future__ import annotations

import base64
import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from approval._judge import Small
from hermes.approval import Answer, Decision, Nobody, Program, Request, check
from hermes.approval.audit import AuditLog
from hermes.approval.grants import Grants, proposed
from hermes.approval.redact import redact
from hermes.config import Credentials
from hermes.credentials._declared import Declared
from hermes.errors import Refused

pytestmark = pytest.mark.blocking_ok  # looks into the stores itself; with sandboxes the loop is watched


def request(text: str) -> Request:
    return Request(kind="run", text=text, cwd="/w", session="s", backend="local")


def entries(home: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (home / "audit.jsonl").read_text().splitlines()]


async def ask(text: str, answer: object, home: Path, **more: Any) -> None:
    how: Any = {"mode": "ask", "grants": Grants(), "on_approval": lambda request, decision: answer}
    await check(Small(), request(text), log=AuditLog(home, client="c1", sandbox="box"), **{**how, **more})


async def test_an_entry_says_who_what_where_why_and_how(hermes_home: Path) -> None:
    await ask("ls; rm -rf build", True, hermes_home)
    (entry,) = entries(hermes_home)
    assert entry.pop("time") > 1_700_000_000
    assert entry == {
        "user": entry["user"],
        "pid": os.getpid(),
        "client": "c1",
        "session": "s",
        "backend": "local",
        "host": "",
        "sandbox": "box",
        "cwd": "/w",
        "kind": "run",
        "text": "ls; rm -rf build",
        "programs": ["ls", "rm -rf build"],
        "action": "ask",
        "rule": "recursive-delete",
        "reason": "it deletes a directory",
        "severity": "medium",
        "answer": "once",
        "how": "callback",
    }
    assert entry["user"]
    assert stat.S_IMODE((hermes_home / "audit.jsonl").stat().st_mode) == 0o600


async def test_each_way_in_which_it_is_settled(hermes_home: Path) -> None:
    class Person:
        how = "prompt"

        def __call__(self, request: object, decision: object) -> Answer:
            return Answer.SESSION

    grants = Grants()
    await ask("rm -rf a", None, hermes_home, on_approval=Person(), grants=grants)
    await ask("rm -rf a", None, hermes_home, on_approval=None, grants=grants)
    await ask("rm -rf b", None, hermes_home, mode="off")
    await ask("rm -rf c", Answer.ALWAYS, hermes_home)
    await ask("rm -rf c", None, hermes_home, on_approval=None)
    for text, answer, more in (
        ("rm -rf d", False, {}),
        ("rm -rf e", None, {"on_approval": Nobody()}),
        ("mkfs", True, {}),
        ("mkfs", True, {"mode": "off"}),
    ):
        with pytest.raises(Refused):
            await ask(text, answer, hermes_home, **more)
    await ask("ls", None, hermes_home)  # nothing was asked
    found = [(one["text"], one["answer"], one["how"].split()[0]) for one in entries(hermes_home)]
    assert found == [
        ("rm -rf a", "session", "prompt"),
        ("rm -rf a", "allow", "session"),
        ("rm -rf b", "allow", "mode"),
        ("rm -rf c", "always", "callback"),
        ("rm -rf c", "allow", "grant"),
        ("rm -rf d", "no", "callback"),
        ("rm -rf e", "no", "nobody"),
        ("mkfs", "block", "rule"),
        ("mkfs", "block", "rule"),
    ]


async def test_what_is_asked_does_not_run_unlogged(hermes_home: Path, tmp_path: Path) -> None:
    hermes_home.mkdir(mode=0o700)
    (hermes_home / "audit.jsonl").symlink_to(tmp_path / "elsewhere")
    for more in ({}, {"mode": "off"}):
        with pytest.raises(Refused, match="could not be written to the audit log"):
            await ask("rm -rf build", True, hermes_home, **more)
    with pytest.raises(Refused, match="it formats a disk"):  # the reason stays the judge's
        await ask("mkfs", True, hermes_home)
    await ask("ls", True, hermes_home)
    assert not (tmp_path / "elsewhere").exists()
    (hermes_home / "audit.jsonl").unlink()
    os.mkfifo(hermes_home / "audit.jsonl")
    with pytest.raises(Refused, match="audit log"):
        await ask("rm -rf build", True, hermes_home)


async def test_a_wide_file_is_made_narrow(hermes_home: Path) -> None:
    hermes_home.mkdir(mode=0o700)
    (hermes_home / "audit.jsonl").write_text("")
    (hermes_home / "audit.jsonl").chmod(0o644)
    await ask("rm -rf build", True, hermes_home)
    assert stat.S_IMODE((hermes_home / "audit.jsonl").stat().st_mode) == 0o600


async def test_it_is_rotated_by_size_and_read_as_one(hermes_home: Path) -> None:
    log = AuditLog(hermes_home, max_size=3000, kept=2)
    decision = Small().judge(request("rm -rf x"))
    for number in range(40):
        log.note(request(f"rm -rf {number}"), decision, "once", "prompt")
    assert [path.name for path in log.files()] == ["audit.jsonl.2", "audit.jsonl.1", "audit.jsonl"]
    assert all(path.stat().st_size <= 3000 for path in log.files())
    numbers = [int(entry["text"].split()[-1]) for entry in log.read()]
    assert numbers == list(range(40 - len(numbers), 40))
    assert len(numbers) > 10


MANY = """
import sys
from approval._judge import Small
from hermes.approval import Request
from hermes.approval.audit import AuditLog
log = AuditLog(max_size=20000, kept=100)
for number in range(150):
    asked = Request(kind="run", text=f"rm -rf {sys.argv[1]}-{number}", cwd="/w", backend="local")
    log.note(asked, Small().judge(asked), "once", "prompt")
"""


def test_several_clients_at_once_lose_no_line(hermes_home: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    clients = [subprocess.Popen([sys.executable, "-c", MANY, name], env=env) for name in "abc"]
    assert [client.wait(50) for client in clients] == [0, 0, 0]
    found = [entry["text"] for entry in AuditLog(hermes_home, kept=100).read()]
    assert sorted(found) == sorted(f"rm -rf {name}-{number}" for name in "abc" for number in range(150))


@pytest.mark.parametrize(
    "text",
    [
        "curl -H 'Authorization: Bearer {}' host",
        "curl -u me:{} host",
        "curl --user=me:{} host",
        "curl https://me:{}@host/x",
        "git clone https://oauth2:{}@host/x.git",
        "mysql -u root -p{} db",
        "mysqldump --password={} db",
        "PGPASSWORD={} psql",
        'export API_KEY="{}"',
        "export AWS_SECRET_ACCESS_KEY='{}'",
        "tool --token {} x",
        "tool --api-key={} x",
        "sshpass -p {} ssh host",
        "echo {} | sudo -S ls",
        "printf '{}' | su -c ls",
        "printf '%s\\n' {} | nohup env A=1 /usr/bin/sudo -kS ls",
        "timeout 5 sudo -S ls <<< {}",
        "sudo -S ls <<'E'\n{}\nE",
        "sudo -S ls < <(echo {} )",
        "chpasswd <<< root:{}",
        "docker login -u me -p {} registry",
        "redis-cli -h x -a {} ping",
        "openssl enc -pass pass:{} -in a",
        """expect -c 'spawn su; send "{}\\r"'""",
        'curl -d \'{{"password": "{}"}}\' host',
        "curl 'host/x?access_token={}&y=1'",
    ],
)
@pytest.mark.parametrize("secret", ["hunter2x", "s3cr3t.value-1"])
def test_secrets_are_not_in_it(hermes_home: Path, text: str, secret: str) -> None:
    command = text.format(secret)
    assert secret not in redact(command)
    decision = Decision(
        action="ask",
        reason=f"it runs {command}",
        programs=(Program(argv=tuple(shlex.split(command.partition("|")[0]))),),
    )
    AuditLog(hermes_home).note(request(command), decision, "no", "prompt")
    whole = (hermes_home / "audit.jsonl").read_text()
    assert secret not in whole


@pytest.mark.parametrize(
    "secret",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_" + "a1B2" * 9,
        "sk-proj-" + "x9" * 20,
        "xoxb-1234567890-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_secrets_are_known_by_their_form(secret: str) -> None:
    assert redact(f"deploy '{secret}' now") == "deploy '[secret]' now"


def test_values_of_secret_variables_are_taken_out(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SERVICE_TOKEN", "correct horse")
    asked = request("rm -rf x; echo 'correct horse'")
    AuditLog(hermes_home).note(asked, Small().judge(asked), "once", "prompt")
    assert "correct horse" not in (hermes_home / "audit.jsonl").read_text()


def test_declared_values_are_taken_out_however_their_variables_are_called(
    hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From every part of an entry, from a grant, and encoded too; also the value before the last renewal."""
    values = ["plain-words-of-mine-1", "plain-words-of-mine-2"]
    monkeypatch.setenv("A_NAME_LIKE_ANY", values[0])
    declared = Declared(Credentials(env=("A_NAME_LIKE_ANY",)))
    declared.read()
    declared.values()
    monkeypatch.setenv("A_NAME_LIKE_ANY", values[1])
    declared.read()
    forms = " ".join([*values, *(base64.b64encode(one.encode()).decode() for one in values)])
    text = f"rm -rf {forms}"
    asked = Request(kind="run", text=text, cwd=f"/w/{values[0]}", session="s", backend="local")
    decision = Decision(
        action="ask",
        reason=f"it runs {text}",
        programs=(Program(argv=("rm", "-rf", *forms.split())),),
        key="k",
    )
    AuditLog(hermes_home).note(asked, decision, "once", "prompt")
    found = (hermes_home / "audit.jsonl").read_text() + proposed(asked, decision).what
    assert "rm -rf" in found
    for one in forms.split():
        assert one not in found
        assert one.rstrip("=")[:-2] not in found


@pytest.mark.parametrize(
    "text",
    [
        "rm -rf build",
        "git commit -m 'reset the password form'",
        "make -j4 -u",
        "ls tokens.py",
        "cp -p a b",
        "cat <<< x",
        "sudo ls; cat < x",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_redaction_takes_no_time_on_odd_text() -> None:
    import time

    began = time.process_time()
    for text in (
        "-" * 50_000,
        "password" * 8_000,
        "a:" * 30_000,
        "-u " * 20_000,
        "echo " * 10_000 + "|",
        "sudo <<< " * 9_000,
    ):
        redact(text)
    assert time.process_time() - began < 5
