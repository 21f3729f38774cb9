"""`hermes sandbox`: everything that was started is found, reached and removed."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from _containers import IMAGES, PLACES
from _state import content, sql, store_content
from cli._tool import Cli, eventually, running


def states(cli: Cli) -> dict[str, str]:
    return {one["name"]: one["state"] for one in cli.json("sandbox", "ls", "--json")}


def test_ls_and_rm(cli: Cli) -> None:
    assert cli.out("sandbox", "ls") == "No sandboxes.\n"
    mark = str(500000 + os.getpid() % 100000)
    cli.out("exec", "-q", "--name", "one", f"sleep {mark} >/dev/null 2>&1 &")
    cli.out("exec", "-q", "--name", "two", "true")
    head, *rows = cli.out("sandbox", "ls").splitlines()
    assert head.split() == ["NAME", "PLACE", "STATE", "AGE", "IDLE", "WORKSPACE"]
    assert [row.split()[:3] for row in rows] == [["one", "local", "running"], ["two", "local", "running"]]
    assert rows[0].endswith(str(cli.cwd))
    assert running(mark)
    ident = cli.json("sandbox", "ls", "--json")[1]["id"]
    assert cli.out("sandbox", "rm", "one", ident[:6]) == "one: removed\ntwo: removed\n"
    assert eventually(lambda: not running(mark))
    assert states(cli) == {}
    assert not list((cli.home / "sandboxes").iterdir())


def test_rm_of_what_is_not_there(cli: Cli) -> None:
    cli.out("exec", "-q", "--name", "mine", "true")
    done = cli("sandbox", "rm", "mien")
    assert done.returncode == 123
    assert b"there is no sandbox 'mien'" in done.stderr
    assert b"Did you mean 'mine'?" in done.stderr
    assert cli("sandbox", "rm").returncode == 125
    done = cli("sandbox", "rm", "--all")
    assert done.returncode == 125
    assert b"nobody to ask" in done.stderr
    assert states(cli) == {"mine": "running"}
    assert cli.out("sandbox", "rm", "--all", "--yes") == "mine: removed\n"


def test_prune(cli: Cli) -> None:
    for name in ("dead", "old", "live"):
        cli.out("exec", "-q", "--name", name, "true")
    cli.out("exec", "-q", "--name", "files", "--workspace", "private", "echo kept >here")
    cli.out("exec", "-q", "true")
    long_ago = time.time() - 30 * 86400
    old = content(cli.home, "local", "old").replace('"last_used":', '"last_used":1,"was":')
    sql(cli.home, "UPDATE sandboxes SET record = ?, last_used = ? WHERE name = 'old'", old, long_ago)
    orphan = cli.start("exec", "-q", "--rm", "echo begun; sleep 30")
    assert orphan.stdout is not None
    assert orphan.stdout.readline() == b"begun\n"
    [unnamed] = [one["name"] for one in cli.json("sandbox", "ls", "--json") if not one["named"]]
    dead = next(one for one in cli.json("sandbox", "ls", "--json") if one["name"] == "dead")
    kill_guest(cli, dead["name"])
    kill_guest(cli, "files")
    assert states(cli)["dead"] == "gone"

    would = cli.out("sandbox", "prune", "--dry-run").splitlines()
    assert would == [
        "dead: would be removed (it is gone)",
        "old: would be removed (it was not used for 30.0 days)",
    ]
    orphan.send_signal(signal.SIGKILL)
    orphan.wait()
    assert len(states(cli)) == 6
    done = cli.out("sandbox", "prune").splitlines()
    assert f"{unnamed}: removed (its hermes has ended)" in done
    assert len(done) == 3
    work = next(name for name in states(cli) if name.startswith("work-"))
    assert set(states(cli)) == {"live", "files", work}
    assert cli.out("sandbox", "prune") == "Nothing to remove.\n"
    assert cli.out("exec", "-q", "--name", "files", "--workspace", "private", "cat here") == "kept\n"


def kill_guest(cli: Cli, name: str) -> None:
    pid = int(cli.out("exec", "-q", "--name", name, "ps -o ppid= -p $PPID").split()[0])
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: states(cli)[name] == "gone")


def test_a_record_that_cannot_be_read_is_named_and_kept(cli: Cli) -> None:
    cli.out("exec", "-q", "true")
    store_content(cli.home, "local", "bad", "{")
    done = cli("sandbox", "ls")
    assert done.returncode == 0
    assert b"the record of the local sandbox 'bad'" in done.stderr
    assert b"cannot be used" in done.stderr
    assert cli("sandbox", "prune").returncode == 125
    assert content(cli.home, "local", "bad") == "{"


def test_a_record_of_a_backend_that_is_not_installed(cli: Cli) -> None:
    cli.out("exec", "-q", "--name", "mine", "true")
    record = content(cli.home, "local", "mine")
    other = record.replace('"backend":"local"', '"backend":"mars"').replace('"name":"mine"', '"name":"far"')
    store_content(cli.home, "mars", "far", other)
    done = cli("sandbox", "ls")
    assert done.returncode == 0
    assert b"unreachable" in done.stdout
    assert b"there is no backend 'mars'" in done.stderr
    assert cli("sandbox", "prune").returncode == 0
    assert states(cli)["far"] == "unreachable"
    sql(cli.home, "DELETE FROM sandboxes WHERE backend = 'mars'")


def test_a_machine_that_is_gone_for_good_is_forgotten_with_force(cli: Cli) -> None:
    cli.out("exec", "-q", "--name", "mine", "true")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    here = content(cli.home, "local", "mine")
    there = here.replace('"backend":"local"', '"backend":"ssh"').replace('"name":"mine"', '"name":"far"')
    there = there.replace('"locator":{', f'"locator":{{"host":"127.0.0.1","user":"me","port":{port},')
    store_content(cli.home, "ssh", "far", there)
    done = cli("sandbox", "rm", "far")
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"me@127.0.0.1" in done.stderr
    assert b"hermes sandbox rm --force" in done.stderr
    assert content(cli.home, "ssh", "far") == there
    done = cli("sandbox", "rm", "--force", "far", "mine")
    assert done.returncode == 0
    assert b"cannot be reached" in done.stderr
    assert done.stdout == (
        b"far: forgotten; its files and what runs in it may be left on me@127.0.0.1; "
        b"'hermes sandbox prune' looks for them\nmine: removed\n"
    )
    assert states(cli) == {}


def test_cp_both_ways(cli: Cli) -> None:
    cli.out("exec", "-q", "--name", "mine", "--workspace", "private", "true")
    tree = cli.cwd / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "a").write_bytes(b"a" * 100_000)
    (tree / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tree / "run.sh").chmod(0o755)
    (tree / "link").symlink_to("sub/a")
    done = cli("sandbox", "cp", "tree", "mine:copy")
    assert done.returncode == 0
    assert done.stderr == b"hermes: copied 2 files, 97.7 KiB, 2 directories, 1 link.\n"
    args = (
        "exec",
        "-q",
        "--name",
        "mine",
        "--workspace",
        "private",
        "copy/run.sh; readlink copy/link; wc -c <copy/sub/a",
    )
    assert cli.out(*args) == "ran\nsub/a\n100000\n"
    assert cli("sandbox", "cp", "mine:copy/sub/a", ".").returncode == 0
    assert (cli.cwd / "a").read_bytes() == b"a" * 100_000
    assert cli("sandbox", "cp", "-q", "mine:copy", "back").stderr == b""
    assert (cli.cwd / "back" / "link").readlink() == Path("sub/a")


def test_cp_to_the_sandbox_of_this_directory(cli: Cli) -> None:
    cli.out("exec", "-q", "true")
    (cli.cwd / "x:y").write_text("1")
    assert cli("sandbox", "cp", "./x:y", ":z").returncode == 0
    assert (cli.cwd / "z").read_text() == "1"


def test_cp_that_cannot_be(cli: Cli) -> None:
    cli.out("exec", "-q", "--name", "mine", "true")
    for args, code, said in (
        (["a", "b"], 125, "one of SOURCE and TARGET"),
        (["mine:a", "mine:b"], 125, "one of SOURCE and TARGET"),
        (["nothing", "mine:x"], 125, "nothing"),
        (["mine:nothing", "."], 125, "nothing"),
        (["x", "none:x"], 123, "there is no sandbox 'none'"),
        (["x", ":x"], 123, "there is no local sandbox 'work-"),
    ):
        done = cli("sandbox", "cp", *args)
        assert done.returncode == code, done
        assert said in done.stderr.decode()


SERVER = """python3 -uc '
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1])
while True:
    connection, _ = server.accept()
    connection.sendall(b"hello")
    connection.close()
'"""


def test_forward(cli: Cli) -> None:
    ident = cli.out("jobs", "start", "-q", "--name", "mine", SERVER).strip()
    port = eventually(lambda: cli.out("jobs", "logs", "--name", "mine", ident).strip())
    process = cli.start("sandbox", "forward", "mine", port)
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    here, arrow, there = line.split()
    assert (arrow, there) == ("->", f"mine:{port}")
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", int(here.rpartition(":")[2])), timeout=5) as sock:
            assert sock.recv(10) == b"hello"
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0


def test_forward_ends_with_the_sandbox(cli: Cli) -> None:
    cli.out("exec", "-q", "true")
    process = cli.start("sandbox", "forward", "8000")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b"127.0.0.1:")
    os.kill(cli.guest_pid(), signal.SIGKILL)
    assert process.wait(20) == 123
    assert b"the sandbox is gone" in process.stderr.read()


def test_forward_that_cannot_be(cli: Cli) -> None:
    cli.out("exec", "-q", "true")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cli("sandbox", "forward", f"80:{port}")
        assert done.returncode == 125
        assert str(port).encode() in done.stderr
    for wrong in ("0", "70000", "80:", "a", "80:x"):
        assert cli("sandbox", "forward", wrong).returncode in (123, 125)


def test_enter_needs_a_terminal(cli: Cli) -> None:
    done = cli("sandbox", "enter", "mine")
    assert done.returncode == 125
    assert b"hermes sandbox enter needs a terminal" in done.stderr


def test_prune_passes_over_what_was_never_used_here(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place without its program cannot have left anything, and is no failure: this runs from cron."""
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    done = cli("sandbox", "prune")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
def test_suspend_and_resume(cli: Cli) -> None:
    place = ("--sandbox", PLACES[0], "--image", IMAGES[PLACES[0]])
    cli.out("exec", "-q", *place, "--name", "mine", "echo kept > file", timeout=60)
    try:
        (state,) = cli.json("sandbox", "suspend", "mine", "--json")
        assert state == {"name": "mine", "backend": PLACES[0], "state": "stopped", "changed": True}
        assert [one["state"] for one in cli.json("sandbox", "ls", "--json")] == ["stopped"]
        assert cli.out("sandbox", "suspend", "mine") == "mine: was not running\n"
        assert cli.out("sandbox", "resume", "mine") == "mine: resumed\n"
        assert [one["state"] for one in cli.json("sandbox", "ls", "--json")] == ["running"]
        assert cli.json("sandbox", "resume", "mine", "--json")[0]["changed"] is False
        assert cli.out("exec", "-q", *place, "--name", "mine", "cat file") == "kept\n"
        # What runs there is not ended unasked.
        cli.out("jobs", "start", "-q", *place, "--name", "mine", "sleep 100")
        done = cli("sandbox", "suspend", "mine")
        assert done.returncode == 125
        assert "there is nobody to ask: give --yes" in done.stderr.decode()
        assert "'mine' was not suspended: something runs there" in done.stderr.decode()
        assert [one["state"] for one in cli.json("sandbox", "ls", "--json")] == ["running"]
        # One that is not there does not keep the others.
        done = cli("sandbox", "suspend", "--yes", "nothing", "mine")
        assert (done.returncode, done.stdout) == (123, b"mine: suspended\n")
        assert cli.out("exec", "-q", *place, "--name", "mine", "cat file") == "kept\n"
    finally:
        cli.out("sandbox", "rm", "mine", timeout=60)
    assert cli("sandbox", "resume", "mine").returncode == 123


def test_suspend_where_that_cannot_be(cli: Cli) -> None:
    cli.out("exec", "-q", "--name", "mine", "true")
    done = cli("sandbox", "suspend", "mine")
    assert done.returncode == 125
    said = done.stderr.decode()
    assert "the local backend cannot do suspend; nothing was stopped" in said
    assert "'hermes sandbox rm' ends it" in said
    assert cli.json("sandbox", "ls", "--json")[0]["state"] == "running"
