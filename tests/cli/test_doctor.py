"""``hermes doctor``: what works here, and why the rest does not."""

from __future__ import annotations

import grp
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli._tool import Cli
from hermes.cli import _checks
from hermes.state import SandboxRecord, Store, owner


def test_every_place_is_named_and_nothing_is_started(cli: Cli) -> None:
    found = {one["place"]: one for one in cli.json("doctor", "--json")["places"]}
    assert {"local", "docker", "podman", "singularity"} <= set(found)
    assert found["local"]["works"]
    assert cli.json("sandbox", "ls", "--json") == []


def test_a_place_that_does_not_work_says_why(cli: Cli) -> None:
    env = {**os.environ, "DOCKER_HOST": "unix:///nowhere/docker.sock"}
    done = cli("doctor", "--sandbox", "docker", env=env)
    assert done.returncode == 125
    said = done.stdout.decode()
    assert said.startswith("docker: does not work here\n  ")
    assert said.count("nothing was started") == 1


def test_where_singularity_keeps_its_sandboxes(cli: Cli, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    env = {**os.environ, "TERMINAL_SCRATCH_DIR": str(blocked), "TERMINAL_SANDBOX_DIR": str(tmp_path)}
    said = cli.out("doctor", "--sandbox", "apptainer", env=env)
    assert f"work directory: {tmp_path}/singularity\n" in said
    assert "passed over: TERMINAL_SCRATCH_DIR" in said


def test_the_exit_code_says_whether_the_configured_place_works(cli: Cli) -> None:
    assert cli("doctor").returncode == 0
    cli("config", "set", "sandbox", "ssh")
    found = cli("doctor", "--json")
    assert found.returncode == 125
    report = json.loads(found.stdout)
    assert (report["ok"], report["configured"]) == (False, "ssh")
    default = next(one for one in report["checks"] if one["name"] == "default")
    assert "needs TERMINAL_SSH_HOST" in default["message"]
    assert default["remedy"] == "hermes setup"
    (cli.home / "config.yaml").write_text("sandbox: [\n")
    done = cli("doctor")
    assert done.returncode == 125
    assert "configuration: error:" in done.stdout.decode()
    assert "\n    hermes config check\n" in done.stdout.decode()


def test_a_state_store_that_cannot_be_read(cli: Cli) -> None:
    cli.out("exec", "-q", "--sandbox", "local", "true")
    (cli.home / "state" / "state.db").write_text("nothing")
    done = cli("doctor")
    assert done.returncode == 125
    assert b"state.db cannot be used: file is not a database; it was left as it is" in done.stdout
    assert b"\nspace: " in done.stdout  # the rest is said all the same
    assert f"\n    mv {cli.home}/state/state.db {cli.home}/state/state.db.broken\n" in done.stdout.decode()
    done = cli("doctor", "--sandbox", "local")
    assert (done.returncode, done.stdout[:12]) == (0, b"local: works")
    assert b"what auto stands for cannot be told" in cli("config", "get", "sandbox", "--explain").stdout


def test_a_cloud_without_its_keys_is_no_fault_until_it_is_the_place(cli: Cli) -> None:
    text = cli.out("doctor")
    assert "daytona: does not work here\n  there are no credentials for Daytona" in text
    assert "hermes config set daytona.api_key" in " ".join(text.split())
    assert cli("doctor", "--sandbox", "daytona").returncode == 125


def test_deep_really_starts_it_and_leaves_nothing(cli: Cli) -> None:
    (one,) = cli.json("doctor", "--sandbox", "local", "--deep", "--json")["places"]
    assert one["proof"]["system"].startswith(os.uname().sysname)
    assert one["proof"]["machine"] == os.uname().nodename
    assert abs(one["proof"]["clock"]) < 5
    assert cli.json("sandbox", "ls", "--json") == []
    assert list((cli.home / "sandboxes").iterdir()) == []
    assert f"a command ran: {os.uname().sysname}" in cli.out("doctor", "--sandbox", "local", "--deep")


@pytest.fixture
def home(hermes_home: Path) -> Path:
    hermes_home.mkdir(mode=0o700)
    (hermes_home / "state").mkdir(mode=0o700)
    return hermes_home


def found(name: str) -> list[tuple[str, str, str]]:
    return [(one.level, one.message, one.remedy) for one in _checks.checks() if one.name == name]


def test_permissions_that_are_too_wide(home: Path) -> None:
    assert [level for level, _, _ in found("permissions")] == ["ok"]
    home.chmod(0o755)
    (home / ".env").write_text("A_TOKEN=x\n")
    (home / ".env").chmod(0o640)
    (level, said, remedy), (worse, secret, mend) = found("permissions")
    assert (level, remedy) == ("warning", f"chmod 700 {home}")
    assert "mode 755" in said
    assert (worse, mend) == ("error", f"chmod 600 {home / '.env'}")
    assert "read the secrets" in secret
    for command in (remedy, mend):
        os.system(command)
    assert [level for level, _, _ in found("permissions")] == ["ok"]


def test_what_is_of_hermes_agent(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [level for level, _, _ in found("configuration")] == ["ok"]
    monkeypatch.setenv("TERMINAL_ENV", "docker")
    (home / "config.yaml").write_text("terminal: {backend: docker}\n")
    _, (level, said, remedy), (_, keys, _) = found("configuration")
    assert (level, remedy) == ("note", "hermes config migrate")
    assert said.startswith("TERMINAL_ENV is hermes-agent's and does nothing here")
    assert keys.endswith("do nothing here: terminal")


def test_leftovers_of_dead_sandboxes(home: Path) -> None:
    (home / "sandboxes" / "singularity").mkdir(parents=True)  # has those of a whole place
    assert found("leftovers")[0][0] == "ok"
    pid, boot = owner()
    record = SandboxRecord(
        name="x", backend="local", id="ab" * 8, created=1.0, owner_pid=pid, owner_boot=boot + "0"
    )
    Store().put(record)
    (home / "sandboxes" / "docker-0123456789abcdef").mkdir(parents=True)
    (home / "sandboxes" / f"docker-{record.id}").mkdir()  # podman's are called so too
    ((level, said, remedy),) = found("leftovers")
    assert (level, remedy) == ("warning", "hermes sandbox prune")
    assert said == "1 sandbox whose hermes has died and 1 directory that no sandbox has"
    (home / "sandboxes" / "local-0123456789abcdef").mkdir()
    assert found("leftovers")[1][2] == f"rm -r {home}/sandboxes/local-0123456789abcdef"


def test_root_and_the_group_of_docker(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert found("user")[0][0] == "warning"
    monkeypatch.setattr("os.geteuid", lambda: 1)
    monkeypatch.setattr("os.getgroups", list)
    assert found("user")[0][0] == "ok"
    group = grp.struct_group(("docker", "x", 999, []))
    monkeypatch.setattr("grp.getgrnam", lambda name: group)
    monkeypatch.setattr("os.getgroups", lambda: [999])
    ((level, said, remedy),) = found("user")
    assert level == "warning"
    assert "as good as being root" in said
    assert remedy.startswith("sudo gpasswd -d ")


@pytest.mark.parametrize(("release", "level"), [("3.10.0-1160.el7", "warning"), ("6.1.0", "ok")])
def test_old_kernels(home: Path, monkeypatch: pytest.MonkeyPatch, release: str, level: str) -> None:
    now = os.uname()
    fields = (now.sysname, now.nodename, release, now.version, now.machine)
    monkeypatch.setattr("os.uname", lambda: os.uname_result(fields))
    assert found("kernel")[0][0] == level


def test_a_clock_that_is_behind(home: Path) -> None:
    assert found("clock")[0][0] == "ok"
    future = home / "state" / "told-local"
    future.write_text("")
    os.utime(future, (time.time() + 3600,) * 2)
    assert found("clock")[0][0] == "warning"


def test_missing_user_namespaces(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "user").mkdir()
    setting = tmp_path / "user" / "max_user_namespaces"
    monkeypatch.setattr(_checks, "SYSCTL", tmp_path)
    setting.write_text("15000\n")
    assert found("namespaces")[0][0] == "ok"
    setting.write_text("0\n")
    ((level, _, remedy),) = found("namespaces")
    assert level in ("warning", "note")
    assert remedy == "sudo sysctl -w user.max_user_namespaces=15000"


def test_another_program_of_the_name(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert found("command") == []
    other = tmp_path / "hermes"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{Path(sys.executable).parent}")
    ((level, said, _),) = found("command")
    assert (level, said) == ("note", f"{other} is another program of this name")


def test_one_that_fails_does_not_keep_the_others(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("shutil.disk_usage", broken)
    names = {one.name: one for one in _checks.checks()}
    assert "Permission denied" in names["space"].message
    assert {"leftovers", "configuration", "kernel"} <= set(names)


def test_a_state_store_that_is_damaged_inside_fails(cli: Cli) -> None:
    """What is asked for first may still be there; the next command would fail all the same."""
    cli.out("exec", "-q", "--sandbox", "local", "true")
    cli.out("sandbox", "rm", "--all", "--yes")
    file = cli.home / "state" / "state.db"
    size = file.stat().st_size
    with file.open("r+b") as data:
        data.seek(4096)
        data.write(b"\xa5" * (size - 4096))
    for more in ("-wal", "-shm"):
        (cli.home / "state" / f"state.db{more}").unlink(missing_ok=True)
    found = cli("doctor", "--json")
    assert found.returncode == 125
    (state,) = [one for one in json.loads(found.stdout)["checks"] if one["name"] == "state"]
    assert state["level"] == "error"
    assert str(file) in state["message"]


@pytest.mark.parametrize(
    ("place", "says", "packages"),
    [
        ("modal", "the tokens of Modal are missing: MODAL_TOKEN_ID and MODAL_TOKEN_SECRET", "modal"),
        ("vercel", "Vercel's credentials lack VERCEL_TOKEN", r"vercel\.sandbox|pydantic|httpx2"),
    ],
)
def test_missing_tokens_are_told_without_the_sdk(cli: Cli, place: str, says: str, packages: str) -> None:
    words = [sys.executable, "-X", "importtime", "-m", "hermes", "doctor", "--sandbox", place]
    without = {
        name: value for name, value in os.environ.items() if not name.startswith(("MODAL_", "VERCEL_"))
    }
    env = {**without, "HERMES_HOME": str(cli.home), "MODAL_CONFIG_PATH": str(cli.home / "none")}
    done = subprocess.run(words, capture_output=True, text=True, env=env, cwd=cli.cwd, check=False)
    assert says in done.stdout
    assert f"hermes.backends.{place}" in done.stderr
    assert not re.search(rf"\| +({packages})(\.|$)", done.stderr, re.M)
