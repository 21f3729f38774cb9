"""What a stranger's machine may be like: odd directories, closed or full output, many at once."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from cli._tool import HERMES, Cli
from hermes.state import SandboxRecord, Store


def test_a_name_that_is_no_text(cli: Cli, tmp_path: Path) -> None:
    for folder in (os.fsencode(tmp_path) + b"/caf\xe9", os.fsencode(tmp_path) + b"/new\nline"):
        os.mkdir(folder)
        for env, cwd in (({**os.environb, b"HERMES_HOME": folder}, cli.cwd), (os.environb, folder)):
            done = subprocess.run(
                [*HERMES, "exec", "-q", "pwd"], env=env, cwd=cwd, capture_output=True, timeout=30, check=False
            )
            if b"new" in folder:
                assert (done.returncode, done.stdout) == (0, os.fsencode(cwd) + b"\n")
            else:
                assert done.returncode == 125
                assert "has a name that is no UTF-8; nothing was started" in done.stderr.decode()
            subprocess.run(
                [*HERMES, "sandbox", "rm", "--all", "-y"], env=env, cwd=cwd, capture_output=True, check=True
            )


def test_a_directory_that_is_gone(cli: Cli) -> None:
    script = "mkdir -p ../gone && cd ../gone && rmdir ../gone; $H "
    assert cli.sh(script + "config get sandbox").stdout == b"local\n"
    for command in ("exec -q true", "setup --sandbox local"):
        done = cli.sh(script + command)
        assert done.returncode == 125
        assert b"the current directory no longer exists; nothing was" in done.stderr
    done = cli.sh(f"unset HERMES_SANDBOX; {script} config get sandbox")
    assert (done.returncode, done.stdout) == (0, b"none\n")


def test_a_home_that_cannot_be(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    env = {**os.environ, "HERMES_HOME": f"{file}/home"}
    done = cli("exec", "-q", "true", env=env)
    assert done.returncode == 125
    assert "file/home" in done.stderr.decode()
    if os.geteuid() == 0:
        argv = ["setpriv", "--reuid", "65534", "--clear-groups", *HERMES, "exec", "-q", "true"]
        os.chmod(tmp_path, 0o755)
        env["HERMES_HOME"] = "/never-made/home"
        done = subprocess.run(argv, env=env, cwd="/", capture_output=True, timeout=30, check=False)
        assert done.returncode == 125
        said = "hermes's home, /never-made/home, cannot be made: Permission denied; nothing was started"
        assert said in done.stderr.decode() or b"No module named hermes" in done.stderr


def test_doctor_tells_a_home_that_cannot_be_written(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = cli("doctor", "--json", env={**os.environ, "HERMES_HOME": f"{tmp_path}/file/home"})
    assert found.returncode == 125
    (check,) = [one for one in json.loads(found.stdout)["checks"] if one["name"] == "home"]
    assert check["level"] == "error"
    assert f"{tmp_path}/file/home" in check["message"]


@pytest.mark.parametrize(
    "command",
    ["--version", "config path", "sandbox ls --json", "jobs --help"],
)
@pytest.mark.parametrize("unbuffered", ["1", ""])
def test_where_the_output_goes(
    cli: Cli, command: str, unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    full = cli.sh(f"$H {command} >/dev/full")
    assert full.returncode == 125
    assert full.stderr == b"hermes: error: the output could not be written: No space left on device\n"
    closed = cli.sh(f"$H {command} >&-")
    assert (closed.returncode, closed.stderr) == (0, b"")
    reader, writer = os.pipe()
    os.close(reader)
    gone = cli(*command.split(), stdout=writer)
    os.close(writer)
    assert (gone.returncode, gone.stderr) == (141, b"")


def test_what_a_terminal_cannot_show(cli: Cli) -> None:
    cli.out("config", "set", "docker.dockerfile", "caf\u00e9/x")
    cli.out("config", "set", "sandbox", "docker")
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    assert cli.out("config", "get", "docker.dockerfile", env=env) == "caf\\xe9/x\n"


def test_many_setups_and_writers_at_once(cli: Cli) -> None:
    keys = [
        ("docker.image", "image"),
        ("ssh.port", "22"),
        ("timeout", "5m"),
        ("keep", "true"),
        ("network", "off"),
    ]
    running = [cli.start("setup", "--sandbox", "local", "--json") for _ in range(3)]
    running += [cli.start("config", "set", key, value) for key, value in keys]
    for process in running:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, (out, err)
    found = {row["key"]: row["value"] for row in cli.json("config", "show", "--json")["settings"]}
    assert found["docker.image"] == "image"
    assert (found["ssh.port"], found["keep"], found["network"]) == (22, True, "off")
    assert cli.json("sandbox", "ls", "--json") == []


def test_a_thousand_sandboxes(cli: Cli) -> None:
    store, now = Store(), time.time()
    records = [
        SandboxRecord(
            name=f"box{i}",
            backend="local",
            id=f"{i:032x}",
            created=now,
            owner_pid=1,
            owner_boot="x",
            named=True,
        )
        for i in range(1000)
    ]
    store.put(records[0])
    with store._file.writing() as db:
        rows = [(one.backend, one.name, msgspec.json.encode(one).decode(), now) for one in records]
        db.executemany("INSERT OR REPLACE INTO sandboxes VALUES (?, ?, ?, ?)", rows)
    found = cli.json("sandbox", "ls", "--json")
    assert len(found) == 1000
    assert {one["state"] for one in found} == {"gone"}
    assert cli("exec", "-q", "--name", "one-more", "true").returncode == 0
    with store._file.writing() as db:  # one by one they take a while
        db.execute("DELETE FROM sandboxes WHERE name LIKE 'box%'")
