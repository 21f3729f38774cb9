"""What comes back from commands, jobs and the command line has no secrets, and says that it had some."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import hermes
from cli._tool import Cli

from .conftest import Open, declared, keep

TOKEN = "A_DECLARED_TOKEN"
VALUE = "s3cr3t-of-the-sandbox-0123"


@pytest.fixture(autouse=True)
def given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, VALUE)


async def test_results_have_none(open_in: Open, own: Path) -> None:
    await asyncio.to_thread(keep, own / "credentials" / "a.json", '{"access_token": "0abcDEF-ghiJKL_mnop"}')
    box = await open_in("local", config=declared(env=[TOKEN]))
    for how in (box.run, box.exec):
        result = await how(f"echo ${TOKEN}; echo ${TOKEN} | base64; cat $HERMES_CREDENTIALS/a.json >&2")
        assert result.stdout == b"[redacted]\n[redacted]Cg==\n" or result.stdout.count(b"[redacted]") == 2
        assert b"abcDEF" not in result.stderr
        assert result.redacted == 3
    result = await box.run(f"echo ${TOKEN}", merge_stderr=True)
    assert (result.stdout, result.redacted) == (b"[redacted]\n", 1)


async def test_tokens_that_nobody_declared(open_in: Open) -> None:
    token = "ghp_" + "aB3" * 12
    box = await open_in("local")
    assert (await box.run(f"echo {token}")).text == "[redacted]\n"
    only = await open_in("local", config=declared(redact="declared"))
    assert (await only.run(f"echo {token}")).text == f"{token}\n"
    off = await open_in("local", config=declared(env=[TOKEN], redact="off"))
    result = await off.run(f"echo {token} ${TOKEN}")
    assert (result.text, result.redacted) == (f"{token} {VALUE}\n", 0)


async def test_what_streams_has_none(open_in: Open) -> None:
    box = await open_in("local", config=declared(env=[TOKEN]))
    out: list[bytes] = []
    err: list[bytes] = []
    script = (
        f"printf 'go\\n'; for i in $(seq ${{#{TOKEN}}}); do printf %s ${{{TOKEN}:i-1:1}}; sleep 0.01; done"
    )
    result = await box.run(f"{script}; ({script}) >&2", on_output=out.append, on_stderr=err.append)
    assert b"".join(out) == b"".join(err) == b"go\n[redacted]" == result.stdout == result.stderr
    assert out[0] == b"go\n"
    assert result.redacted == 2


async def test_what_was_cut_has_no_half_of_one(open_in: Open) -> None:
    """The middle of a long output is left out; a value lies across both of the cuts."""
    box = await open_in("local", config=declared(env=[TOKEN]))
    command = f"head -c 490 /dev/zero | tr '\\0' x; printf %s ${TOKEN}; head -c 5000 /dev/zero | tr '\\0' y"
    command += f"; printf %s ${TOKEN}; head -c 490 /dev/zero | tr '\\0' z"
    for live in (None, lambda data: None):
        result = await box.run(command, max_output=1000, on_output=live)
        head, _, tail = result.text.partition("\n[... ")
        assert head == "x" * 490 + "[redacted]"
        assert tail.rpartition("]\n")[2] in ("[redacted]" + "z" * 490, "")
        assert result.text.endswith("[redacted]" + "z" * 490)
        assert result.redacted == 2


def test_what_is_kept_and_listed_of_a_command_has_none(own: Path, cli: Cli) -> None:
    """Who writes a value into a command finds it in no log, no list, no error and no grant."""
    (own / "config.yaml").write_text(f"sandbox: local\ncredentials: {{env: [{TOKEN}]}}\n")
    (own / "config.yaml").chmod(0o600)
    said = [
        cli(*args)
        for args in (
            ("exec", "--set", "approvals.mode=ask", f"rm -rf /tmp/{VALUE}"),
            ("exec", "--json", "--set", "approvals.mode=ask", f"rm -rf /tmp/{VALUE}"),
            ("exec", "--cwd", f"/nowhere/{VALUE}", "true"),
            ("--debug", "exec", "--json", "--cwd", f"/nowhere/{VALUE}", "true"),
            ("jobs", "start", f"sleep 60; : {VALUE}"),
            ("jobs", "ls"),
            ("jobs", "ls", "--json"),
        )
    ]
    assert [one.returncode for one in said] == [121, 121, 125, 125, 0, 0, 0]
    for one in said:
        assert VALUE.encode() not in one.stdout + one.stderr, one
    assert b"sleep 60; : [redacted]" in said[5].stdout
    assert (own / "audit.jsonl").exists()
    assert [one for one in own.rglob("*") if one.is_file() and VALUE.encode() in one.read_bytes()] == []


async def test_jobs_have_none(open_in: Open) -> None:
    box = await open_in("local", config=declared(env=[TOKEN]))
    job = await box.start(f"echo before ${TOKEN} after")
    assert (await job.wait()).text == "before [redacted] after\n"
    assert await job.output() == b"before [redacted] after\n"
    assert VALUE[:8].encode() not in await job.output(n=20)
    assert VALUE[-8:].encode() not in await job.output(offset=12)
    assert b"".join([data async for data in job.follow()]) == b"before [redacted] after\n"


async def test_the_one_before_is_taken_out_yet(open_in: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    box = await open_in("local", config=declared(env=[TOKEN]))
    await box.run(f"KEPT=${TOKEN}")
    monkeypatch.setenv(TOKEN, "another-of-the-sandbox-4567")
    assert (await box.run(f"echo $KEPT ${TOKEN}")).text == "[redacted] [redacted]\n"


async def test_bytes_of_files_are_exact(open_in: Open) -> None:
    """A file that is copied is data, not output."""
    box = await open_in("local", config=declared(env=[TOKEN]))
    await box.files.write("a", VALUE.encode())
    assert await box.files.read("a") == VALUE.encode()


async def test_binary_output_is_not_searched_for_tokens(open_in: Open) -> None:
    token = b"ghp_" + b"aB3" * 12
    box = await open_in("local", config=declared(env=[TOKEN]))
    result = await box.run(
        f"printf '\\0'; base64 -d <<<{base64.b64encode(token).decode()}; printf %s ${TOKEN}"
    )
    assert result.stdout == b"\0" + token + b"[redacted]"


@pytest.fixture
def cli(hermes_home: Path) -> Iterator[Cli]:
    tool = Cli(hermes_home)
    yield tool
    tool.close()


def test_the_user_is_told(cli: Cli, own: Path) -> None:
    keep(own / "config.yaml", f"sandbox: local\ncredentials: {{env: [{TOKEN}]}}\n")
    done = cli("exec", f"echo ${TOKEN}")
    assert done.stdout == b"[redacted]\n"
    assert (
        b"a secret was taken out of the output; --set credentials.redact=off shows all of it." in done.stderr
    )
    assert cli.out("exec", "-q", "--set", "credentials.redact=off", f"echo ${TOKEN}") == f"{VALUE}\n"
    found = json.loads(cli.out("exec", "-q", "--json", f"echo ${TOKEN}; echo ${TOKEN} >&2"))
    assert (found["stdout"], found["stderr"], found["redacted"]) == ("[redacted]\n", "[redacted]\n", 2)


async def shown(terminal: hermes.Pty, until: bytes) -> bytes:
    data = b""
    while until not in data:
        data += await terminal.read(10)
    return data


async def test_terminals_have_none(open_in: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    box = await open_in("local", config=declared(env=[TOKEN]))
    async with await box.pty(
        f"printf %s ${TOKEN}; stty -echo; read line; echo ${TOKEN}; echo $line end"
    ) as pty:
        assert await shown(pty, b"[redacted]") == b"[redacted]"
        assert pty._scrubbing is not None and pty._scrubbing.count == 1
        monkeypatch.setenv(TOKEN, "another-of-the-sandbox-4567")
        await box.run("true")
        await pty.write("another-of-the-sandbox-4567\n")  # declared by now
        assert (await shown(pty, b"end")).strip() == b"[redacted]\r\n[redacted] end"
    pty = await box.pty(f"echo ${TOKEN}", redact=False)
    assert (await shown(pty, b"4567")).strip() == b"another-of-the-sandbox-4567"
    await pty.close()


async def test_a_terminal_shows_what_was_typed_at_once(open_in: Open) -> None:
    """Also what begins like a secret; all of one is found yet, however slowly it comes."""
    box = await open_in("local", config=declared(env=[TOKEN]))
    async with await box.pty("stty raw echo; printf ready; sleep 1000") as pty:
        await shown(pty, b"ready")
        for size in (1, 3, 7):
            await pty.write(VALUE[:size])
            assert await shown(pty, VALUE[:size].encode()) == VALUE[:size].encode()
            await pty.write("/")
            assert await shown(pty, b"/") == b"/"
        seen = b""
        for letter in VALUE + "/":
            await pty.write(letter)
            with contextlib.suppress(TimeoutError):
                seen += await pty.read(0.1)
        seen += b"" if seen.endswith(b"/") else await shown(pty, b"/")
        assert seen == VALUE[:7].encode() + b"[redacted]/"


async def test_nothing_that_a_terminal_held_back_is_lost(open_in: Open) -> None:
    box = await open_in("local", config=declared(env=[TOKEN]))
    pty = await box.pty(f"stty -echo; printf %s ${{{TOKEN}:0:12}}")
    assert b"".join([data async for data in pty]) == VALUE[:12].encode()
    pty = await box.pty(f"stty -echo; printf 'x%s' ${{{TOKEN}:0:12}}; sleep 1000")
    assert await pty.read(5) == b"x"
    with pytest.raises(TimeoutError):
        await pty.read(0.3)
    await pty.close()


def test_what_was_written_with_a_value_that_was_renewed_since(
    cli: Cli, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By clients that have never seen it, in the output of a job and in the audit log."""
    keep(own / "config.yaml", f"sandbox: local\ncredentials: {{env: [{TOKEN}]}}\n")
    keep(own / "credentials" / "token", "first-content-of-a-file")
    job = cli.out("jobs", "start", f"echo ${TOKEN}; cat $HERMES_CREDENTIALS/token").strip()
    cli.out("jobs", "logs", job)
    for value in ("renewed-value-0123", "renewed-value-4567"):
        monkeypatch.setenv(TOKEN, value)
        keep(own / "credentials" / "token", f"content of {value}")
        out = cli.out("exec", "-q", f"echo {VALUE} first-content-of-a-file")
        assert out == "[redacted] [redacted]\n"
        out = cli.out("jobs", "logs", job)
        assert VALUE not in out and "first-content" not in out and out.count("[redacted]") == 2
    assert not [one for one in own.rglob("*") if one.is_file() and VALUE.encode() in one.read_bytes()]


async def test_leaving_tells_of_credentials_that_stay_on_a_disk(open_in: Open, own: Path) -> None:
    await asyncio.to_thread(keep, own / "credentials" / "a", "s3cr3t-of-a-file")
    box = await open_in("local", name="stays")
    place = box._the_place()
    place.spec = msgspec.structs.replace(place.spec, persistent=True)
    assert box._supply is not None
    os.kill(int(str(box._channel.guest["pid"])), signal.SIGKILL)
    with pytest.warns(UserWarning, match="credentials on the disk of 'stays' could not be removed") as told:
        await box.close()
    assert "s3cr3t" not in "".join(str(one.message) for one in told)
