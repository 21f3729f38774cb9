"""`hermes exec`: the command's own streams and exit code, and every way in which it can go wrong."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time

import pytest

from cli._tool import Cli, eventually, running

KEYS = {
    "status",
    "exit_code",
    "stdout",
    "stderr",
    "duration_s",
    "timed_out",
    "truncated",
    "cwd",
    "backend",
    "sandbox",
    "session",
    "spill",
    "error",
}


def test_streams_and_exit_code_are_the_commands_own(cli: Cli) -> None:
    done = cli("exec", "--quiet", r"printf 'out\0\xff'; printf err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\0\xff", b"err")


def test_one_argument_is_shell_text_and_several_are_an_argv(cli: Cli) -> None:
    assert cli.out("exec", "-q", "echo $((1+1)); echo two") == "2\ntwo\n"
    assert cli.out("exec", "-q", "printf", "<%s>", "a b", "$HOME", "*", "") == "<a b><$HOME><*><>"
    assert cli.out("exec", "-q", "--", "echo", "--json") == "--json\n"
    assert cli.out("exec", "-q", "echo", "--json", "-q") == "--json -q\n"


def test_what_local_means_is_said_once(cli: Cli) -> None:
    assert b"your user, in your files" in cli("exec", "true").stderr
    assert cli("exec", "true").stderr == b""


def test_quiet_says_nothing_and_leaves_the_notice_for_later(cli: Cli) -> None:
    assert cli("exec", "-q", "true").stderr == b""
    assert b"your user, in your files" in cli("exec", "--sandbox", "local", "true").stderr


def test_the_working_directory_is_here_and_the_sandbox_is_shared(cli: Cli) -> None:
    assert cli.out("exec", "-q", "pwd") == f"{cli.cwd}\n"
    names = {one["name"] for one in cli.json("sandbox", "ls", "--json")}
    assert len(names) == 1
    assert names.pop().startswith("work-")
    other = cli.cwd / "un dir"
    other.mkdir()
    assert cli.out("exec", "-q", "pwd", cwd=other) == f"{other}\n"
    assert any(one["name"].startswith("un-dir-") for one in cli.json("sandbox", "ls", "--json"))


def test_a_named_sandbox_keeps_its_directory(cli: Cli) -> None:
    assert cli.out("exec", "-q", "--name", "mine", "pwd") == f"{cli.cwd}\n"
    (cli.cwd / "else").mkdir()
    assert cli.out("exec", "-q", "--name", "mine", "pwd", cwd=cli.cwd / "else") == f"{cli.cwd}\n"


def test_cwd_and_variables(cli: Cli) -> None:
    (cli.cwd / "sub").mkdir()
    assert cli.out("exec", "-q", "--cwd", "sub", "pwd") == f"{cli.cwd}/sub\n"
    env = {**os.environ, "PASSED": "here"}
    args = (
        "exec",
        "-q",
        "-e",
        "A=1=2",
        "--env",
        "PASSED",
        "-e",
        "NEVER_SET",
        "echo $A $PASSED ${NEVER_SET-none}",
    )
    assert cli.out(*args, env=env) == "1=2 here none\n"


def test_each_command_has_a_shell_of_its_own_unless_a_session_is_named(cli: Cli) -> None:
    cli.out("exec", "-q", "cd /; x=1")
    assert cli.out("exec", "-q", "echo ${x-unset}; pwd") == f"unset\n{cli.cwd}\n"
    cli.out("exec", "-q", "--session", "s", "cd /; x=1")
    assert cli.out("exec", "-q", "--session", "s", "echo ${x-unset}; pwd") == "1\n/\n"


def test_rm_leaves_no_sandbox(cli: Cli) -> None:
    assert cli.out("exec", "-q", "--rm", "echo hi") == "hi\n"
    assert cli.json("sandbox", "ls", "--json") == []


def test_output_is_live(cli: Cli) -> None:
    cli.out("exec", "-q", "true")
    process = cli.start("exec", "-q", "echo first; sleep 30")
    assert process.stdout is not None
    began = time.monotonic()
    assert process.stdout.readline() == b"first\n"
    assert time.monotonic() - began < 10
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 143


def test_a_lot_of_output_is_complete(cli: Cli) -> None:
    done = cli("exec", "-q", "head -c 50000000 /dev/zero; head -c 1000000 /dev/zero >&2")
    assert (done.returncode, len(done.stdout), len(done.stderr)) == (0, 50_000_000, 1_000_000)


# --- JSON


def test_json_has_the_agreed_keys(cli: Cli) -> None:
    found = cli.json("exec", "--json", "echo out; echo err >&2; exit 4")
    assert set(found) == KEYS
    assert found["status"] == "ok"
    assert (found["exit_code"], found["stdout"], found["stderr"]) == (4, "out\n", "err\n")
    assert (found["backend"], found["session"], found["error"], found["spill"]) == ("local", None, None, None)
    assert found["cwd"] == str(cli.cwd)
    assert found["sandbox"].startswith("work-")
    assert 0 < found["duration_s"] < 10


def test_json_with_output_that_is_no_text(cli: Cli) -> None:
    found = cli.json("exec", "--json", r"printf 'a\xff\0b'; echo ü >&2")
    assert found["stdout"] == "a\ufffd\0b"
    assert base64.b64decode(found["stdout_b64"]) == b"a\xff\0b"
    assert found["stderr"] == "ü\n"
    assert "stderr_b64" not in found


def test_json_with_more_output_than_asked_for(cli: Cli) -> None:
    found = cli.json("exec", "--json", "--max-output", "1k", "seq 10000")
    assert found["truncated"]
    assert found["spill"]["bytes"] == 48894
    assert "bytes omitted of 48894" in found["stdout"]
    with open(found["spill"]["path"]) as file:
        assert len(file.read()) == 48894


def test_json_in_a_session(cli: Cli) -> None:
    found = cli.json("exec", "--json", "--session", "one", "--name", "mine", "cd /tmp")
    assert (found["session"], found["sandbox"], found["cwd"]) == ("one", "mine", "/tmp")


def test_json_of_errors(cli: Cli) -> None:
    done = cli("exec", "--json", "--sandbox", "lcl", "true")
    assert done.returncode == 125
    assert done.stderr == b""
    found = cli.json("exec", "--json", "--sandbox", "lcl", "true")
    assert set(found) == KEYS
    assert (found["status"], found["exit_code"]) == ("failed", 125)
    assert found["error"]["code"] == "backend_unknown"
    assert "'local'" in found["error"]["hint"]


def test_json_of_a_timeout(cli: Cli) -> None:
    done = cli("exec", "-q", "--json", "--timeout", "0.3", "echo partly; sleep 30")
    assert done.returncode == 124
    found = cli.json("exec", "--json", "--timeout", "0.3", "echo partly; sleep 30")
    assert (found["status"], found["exit_code"], found["timed_out"]) == ("timed_out", 124, True)
    assert found["stdout"] == "partly\n"


# --- ends that are not the command's own


def test_timeout(cli: Cli) -> None:
    done = cli("exec", "-q", "--timeout", "300ms", "echo partly; trap '' TERM; sleep 1237")
    assert (done.returncode, done.stdout) == (124, b"partly\n")
    assert not running("1237")
    assert b"ended after 0.3" in cli("exec", "--timeout", "0.3", "sleep 30").stderr


def test_the_guest_is_killed_in_the_middle(cli: Cli) -> None:
    cli.out("exec", "-q", "true")
    guest = cli.guest_pid()
    process = cli.start("exec", "-q", "echo begun; sleep 30")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"begun\n"
    os.kill(guest, signal.SIGKILL)
    assert process.wait(20) == 123
    said = process.stderr.read()
    assert b"the sandbox is gone" in said
    assert b"not run again" in said
    assert cli.out("exec", "-q", "echo anew") == "anew\n"


def test_json_when_the_guest_is_killed(cli: Cli) -> None:
    cli.out("exec", "-q", "true")
    guest = cli.guest_pid()
    process = cli.start("exec", "-q", "--json", "touch begun; sleep 30")
    assert eventually((cli.cwd / "begun").exists)
    os.kill(guest, signal.SIGKILL)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 123
    assert b'"status": "gone"' in out
    assert b'"code": "gone"' in out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("session", [False, True])
def test_a_signal_ends_the_whole_tree(cli: Cli, number: signal.Signals, code: int, session: bool) -> None:
    cli.out("exec", "-q", "true")
    mark = str(100000 + os.getpid() % 100000 + int(session))
    options = ["--session", "s"] if session else []
    process = cli.start(
        "exec",
        "-q",
        *options,
        f"trap '' INT TERM; echo begun; (setsid sleep {mark} &); sleep {mark}; echo never",
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    assert eventually(lambda: len(running(mark)) == 2)
    process.send_signal(number)
    assert process.wait(10) == code
    assert process.stdout.read() == b""
    assert eventually(lambda: not running(mark))


def test_ctrl_c_does_not_reach_the_guest_that_this_command_started(cli: Cli) -> None:
    process = cli.start("exec", "-q", "echo begun; sleep 30", start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    guest = cli.guest_pid()
    os.killpg(process.pid, signal.SIGINT)  # as the terminal does: to the whole group
    assert process.wait(10) == 130
    assert cli.guest_pid() == guest


def test_json_of_an_interrupted_command(cli: Cli) -> None:
    cli.out("exec", "-q", "true")
    process = cli.start("exec", "-q", "--json", "touch begun; echo partly; sleep 30")
    assert eventually((cli.cwd / "begun").exists)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=10)
    assert process.returncode == 130
    assert b'"exit_code": 130' in out
    assert b'"stdout": "partly\\n"' in out


def test_the_second_signal_leaves_at_once(cli: Cli) -> None:
    cli.out("exec", "-q", "true")
    guest = cli.guest_pid()
    process = cli.start("exec", "-q", "echo begun; sleep 30")
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    os.kill(guest, signal.SIGSTOP)  # it cannot answer
    try:
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(3) == 130
    finally:
        os.kill(guest, signal.SIGCONT)


def test_a_closed_pipe_ends_the_command_quietly(cli: Cli) -> None:
    done = cli.sh('$H exec -q "yes $$" | head -n 1; echo "${PIPESTATUS[0]}"')
    first, code = done.stdout.split()
    assert (code, done.stderr) == (b"141", b"")
    assert eventually(lambda: not running(first.decode()))


def test_a_reader_that_pauses_does_not_keep_ctrl_c_away(cli: Cli) -> None:
    cli.out("exec", "-q", "true")
    read, write = os.pipe()
    process = cli.start("exec", "-q", "yes", stdout=write)
    os.close(write)
    assert os.read(read, 2) == b"y\n"
    time.sleep(0.7)  # in which the pipe fills
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    os.close(read)


def test_a_full_disk_is_an_error(cli: Cli) -> None:
    done = cli.sh("$H exec -q 'yes' >/dev/full")
    assert done.returncode == 125
    assert b"standard output cannot be written: No space left" in done.stderr


# --- bad input


def test_a_directory_that_does_not_exist(cli: Cli) -> None:
    done = cli("exec", "-q", "--cwd", "nowhere", "touch ran")
    assert done.returncode == 125
    assert b"nowhere does not exist" in done.stderr
    assert not (cli.cwd / "ran").exists()


def test_our_own_directory_was_removed(cli: Cli) -> None:
    done = cli.sh('mkdir gone; cd gone; rmdir "$PWD"; $H exec true')
    assert done.returncode == 125
    assert b"the current directory no longer exists" in done.stderr


def test_a_nul_in_the_command(cli: Cli) -> None:
    code = "import sys; from hermes.cli import main; sys.exit(main(['exec', '-q', 'touch ran\\0']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=cli.cwd, capture_output=True, check=False)
    assert done.returncode == 125
    assert b"NUL" in done.stderr
    assert not (cli.cwd / "ran").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["exec"], "COMMAND"),
        (["exec", "--jsno", "true"], "No such option"),
        (["exec", "--timeout", "soon", "true"], "'soon' is not a duration"),
        (["exec", "--timeout", "-1", "true"], "0 or more"),
        (["exec", "--env", "=1", "true"], "has no name"),
        (["exec", "--env", "a-b=1", "true"], "a-b"),
        (["exec", "--rm", "--name", "x", "true"], "exclude each other"),
        (["exec", "--here", "--workspace", "private", "true"], "exclude each other"),
        (["exec", "--max-output", "5", "true"], "--json"),
        (["exec", "--name", "-bad-", "true"], "cannot be a sandbox name"),
        (["exec", "--sandbox", "dockerr", "true"], "there is no backend 'dockerr'"),
        (["exec", "--workspace", "/does/not/exist", "true"], "/does/not/exist"),
        (["exec", "--workspace", "", "true"], "--workspace is empty"),
        (["exec", "--image", "", "true"], "--image is empty"),
        (["exce", "true"], "Did you mean 'exec'?"),
        (["jobs", "attachh", "1"], "Did you mean 'attach'?"),
    ],
)
def test_wrong_usage_is_125_and_says_why(cli: Cli, args: list[str], said: str) -> None:
    done = cli(*args)
    assert done.returncode == 125
    assert said in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert done.stdout == b""


def test_a_traceback_only_when_it_is_asked_for(cli: Cli) -> None:
    assert b"Traceback" in cli("--debug", "exec", "--sandbox", "no", "true").stderr
    assert b"Traceback" in cli("exec", "--debug", "--sandbox", "no", "true").stderr


def test_text_from_a_sandbox_cannot_drive_the_terminal(cli: Cli) -> None:
    done = cli("exec", "-q", "--cwd", "/\x1b]0;owned\x07", "true")
    assert done.returncode == 125
    assert b"\x1b" not in done.stderr
    assert b"\\x1b]0;owned\\x07" in done.stderr


def test_the_place_may_be_given_before_the_command(cli: Cli) -> None:
    done = cli("--sandbox", "no", "exec", "true")
    assert b"there is no backend 'no'" in done.stderr
    assert cli("--sandbox", "no", "exec", "-q", "--sandbox", "local", "true").returncode == 0
    done = cli("exec", "true", env={**os.environ, "HERMES_SANDBOX": "nope"})
    assert b"there is no backend 'nope'" in done.stderr
