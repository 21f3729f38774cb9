"""The blocking facade: the same behaviour, without async."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import hermes
from hermes.sync import Sandbox


def test_run_shell_and_state() -> None:
    with Sandbox("local") as box:
        assert box.run("x=1; echo out; echo err >&2").stdout == b"out\n"
        assert box.run("echo $x").text == "1\n"
        shell = box.shell("build")
        shell.run("cd /usr")
        assert shell.run("pwd").text == "/usr\n"
        assert {one.name for one in box.sessions()} == {"default", "build"}
        shell.close()
        assert {one.name for one in box.sessions()} == {"default"}
        result = box.exec(["printf", "%s", "a b"], timeout=5)
        assert (result.status, result.exit_code, result.stdout) == ("ok", 0, b"a b")
        assert box.describe()["isolation"] == "none"


def test_output_callback_and_spill() -> None:
    with Sandbox("local") as box:
        got: list[bytes] = []
        threads: set[int] = set()

        def take(data: bytes) -> None:
            got.append(data)
            threads.add(threading.get_ident())

        result = box.run("seq 20000", on_output=take, max_output=100)
        whole = "".join(f"{n}\n" for n in range(1, 20001)).encode()
        assert b"".join(got) == whole
        assert threads and threading.get_ident() not in threads
        assert result.truncated
        assert result.spill is not None
        assert result.spill.bytes == len(whole)
        assert result.spill.complete
        assert result.spill.note is None
        assert result.spill.read(5, 7) == whole[5:12]
        assert result.spill.stderr is not None and result.spill.stderr.bytes == 0


def test_jobs_and_terminals() -> None:
    with Sandbox("local") as box:
        job = box.start("read line; echo got $line; exit 4")
        job.write("hello\n")
        assert b"".join(job.follow()) == b"got hello\n"
        assert job.wait().exit_code == 4
        assert job.info().state == "exited"
        assert [one.id for one in box.jobs() if one.kind == "job"] == [job.id]
        assert box.job(job.id).output() == b"got hello\n"
        with box.pty(rows=30, cols=100) as terminal:
            terminal.send_keys("stty size; exit 7", "Enter")
            seen = b""
            while data := terminal.read(10):
                seen += data
            assert b"30 100" in seen
            assert terminal.wait() == 7


def test_files_and_names(tmp_path: Path) -> None:
    with Sandbox("local", name="sync-test", cwd=str(tmp_path)) as box:
        box.files.write("a.txt", b"one")
        box.files.append("a.txt", b" two")
        assert box.files.read("a.txt") == b"one two"
        box.run("marker=5")
    with Sandbox("local", name="sync-test") as box:
        assert box.run("echo $marker").text == "5\n"
        box.destroy()
    with pytest.raises(hermes.SandboxGone):
        Sandbox("local", name="sync-test").open(create=False)


def test_errors_are_the_same() -> None:
    with Sandbox("local") as box:
        with pytest.raises(hermes.CommandError) as raised:
            box.run("true", cwd="/nonexistent")
        assert raised.value.code == "cwd_unusable"
        assert box.run("sleep 10", timeout=0.1).timed_out


def test_one_that_nobody_leaves_does_not_keep_the_program_from_ending() -> None:
    code = "from hermes.sync import Sandbox; box = Sandbox('local', name='left').open(); box.run('true')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    Sandbox("local", name="left").open(create=False).destroy()  # what was left went on
