"""`hermes jobs`: what runs goes on without us and is found again."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time

from cli._tool import HERMES, Cli, eventually, running

LINES = "".join(f"{n}\n" for n in range(1, 21)).encode()


def test_a_killed_exec_is_found_and_replayed_exactly_once(cli: Cli) -> None:
    cli.out("exec", "-q", "true")
    process = cli.start("exec", "-q", "for i in $(seq 20); do echo $i; echo e$i >&2; sleep 0.2; done; exit 7")
    assert process.stdout is not None
    for _ in range(4):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.5)
    [job] = [one for one in cli.json("jobs", "ls", "--json") if one["state"] == "running"]
    assert job["kind"] == "run"
    done = cli("jobs", "attach", job["id"])
    assert done.returncode == 7
    assert done.stdout == LINES
    assert done.stderr == b"".join(b"e" + line + b"\n" for line in LINES.split())


def test_one_that_ended_meanwhile_is_replayed_too(cli: Cli) -> None:
    cli.out("exec", "-q", "true")
    process = cli.start("exec", "-q", "echo begun; sleep 0.5; echo done; exit 3")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert eventually(lambda: [o["id"] for o in cli.json("jobs", "ls", "--json") if o["state"] == "exited"])
    [job] = cli.json("jobs", "ls", "--json")
    done = cli("jobs", "attach", job["id"])
    assert (done.returncode, done.stdout) == (3, b"begun\ndone\n")


def test_start_logs_attach(cli: Cli) -> None:
    done = cli("jobs", "start", "-q", "-e", "X=5", "echo $X; echo err >&2; sleep 4; echo end; exit 9")
    ident = done.stdout.decode().strip()
    assert (done.returncode, ident.isdigit()) == (0, True)
    assert eventually(lambda: cli.out("jobs", "logs", ident) == "5\nerr\n")
    done = cli("jobs", "attach", ident)
    assert (done.returncode, done.stdout) == (9, b"5\nerr\nend\n")
    assert cli.out("jobs", "logs", "-f", ident) == "5\nerr\nend\n"
    assert cli.out("jobs", "logs", ident) == "5\nerr\nend\n"
    [job] = cli.json("jobs", "ls", "--json")
    assert (job["id"], job["state"], job["exit_code"], job["kind"]) == (ident, "exited", 9, "job")


def test_ctrl_c_leaves_an_attached_job_running(cli: Cli) -> None:
    ident = cli.out("jobs", "start", "-q", "echo begun; sleep 1; echo end").strip()
    process = cli.start("jobs", "attach", ident)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    assert process.stderr.read() == f"hermes: job {ident} goes on.\n".encode()
    assert cli.out("jobs", "attach", ident) == "begun\nend\n"


def test_kill_ends_everything(cli: Cli) -> None:
    mark = str(200000 + os.getpid() % 100000)
    ident = cli.out("jobs", "start", "-q", f"(setsid sleep {mark} &); trap '' TERM; sleep {mark}").strip()
    assert eventually(lambda: len(running(mark)) == 2)
    assert cli.out("jobs", "kill", ident) == f"{ident}: ended\n"
    assert eventually(lambda: not running(mark))
    assert cli.out("jobs", "kill", ident) == f"{ident}: had ended before (killed)\n"


def test_a_signal_for_a_job(cli: Cli) -> None:
    ident = cli.out(
        "jobs", "start", "-q", "trap 'echo hup; exit 4' HUP; echo on; while :; do sleep 0.05; done"
    ).strip()
    assert eventually(lambda: cli.out("jobs", "logs", ident) == "on\n")
    cli.out("jobs", "kill", "--signal", "HUP", ident)
    done = cli("jobs", "attach", ident)
    assert (done.returncode, done.stdout) == (4, b"on\nhup\n")


def test_strays_are_listed_and_can_be_ended(cli: Cli) -> None:
    mark = str(300000 + os.getpid() % 100000)
    cli.out("exec", "-q", f"sleep {mark} >/dev/null 2>&1 &")
    [stray] = [one for one in cli.json("jobs", "ls", "--json") if one["kind"] == "stray"]
    assert stray["command"] == f"sleep {mark}"
    assert b"left behind" in cli("jobs", "attach", stray["id"]).stderr
    assert cli.out("jobs", "kill", stray["id"]) == f"{stray['id']}: ended\n"
    assert eventually(lambda: not running(mark))


def test_the_table_is_plain_when_piped_and_cut_on_a_terminal(cli: Cli) -> None:
    long = "true " + "x" * 200
    cli.out("jobs", "start", "-q", long)
    eventually(lambda: cli.json("jobs", "ls", "--json")[0]["state"] == "exited")
    head, row = cli.out("jobs", "ls").splitlines()
    assert head.split() == ["ID", "KIND", "STATE", "AGE", "OUTPUT", "COMMAND"]
    assert row.split()[:4] == ["1", "job", "exit", "0"]
    assert row.endswith(long)
    shown = on_terminal(cli, "jobs", "ls")
    assert "\x1b[1m" in shown
    assert all(len(line.replace("\x1b[1m", "").replace("\x1b[0m", "")) <= 80 for line in shown.splitlines())
    assert "xx..." in shown
    assert "\x1b" not in on_terminal(cli, "jobs", "ls", NO_COLOR="1")


def on_terminal(cli: Cli, *args: str, **env: str) -> str:
    """Run a command whose output is a terminal of 80 columns."""
    master, slave = pty.openpty()
    subprocess.run(["stty", "cols", "80", "rows", "24"], stdin=slave, check=True)
    subprocess.run(
        [*HERMES, *args],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=cli.cwd,
        env={**{k: v for k, v in os.environ.items() if k != "NO_COLOR"}, "TERM": "xterm", **env},
        timeout=20,
        check=True,
    )
    os.close(slave)
    parts = []
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if not data:
            break
        parts.append(data)
    os.close(master)
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_where_nothing_runs(cli: Cli) -> None:
    assert "No jobs: the local sandbox work-" in cli.out("jobs", "ls")
    assert cli.json("jobs", "ls", "--json") == []
    assert cli.json("sandbox", "ls", "--json") == []  # looking starts nothing
    done = cli("jobs", "ls", "--name", "nobody")
    assert done.returncode == 123
    assert b"there is no local sandbox 'nobody'" in done.stderr
    assert cli("jobs", "attach", "1").returncode == 123
    cli.out("exec", "-q", "true")
    assert "No jobs in the local sandbox work-" in cli.out("jobs", "ls")


def test_a_job_that_does_not_exist(cli: Cli) -> None:
    cli.out("exec", "-q", "true")
    for args in (["attach", "99"], ["logs", "99"], ["kill", "99"], ["attach", "p1"], ["kill", "x"]):
        done = cli("jobs", *args)
        assert done.returncode == 125
        assert b"there is no job" in done.stderr


def test_control_characters_in_a_command_are_shown_as_such(cli: Cli) -> None:
    cli.out("jobs", "start", "-q", "true '\x1b[31m\u202e'\ntrue")
    listed = cli.out("jobs", "ls")
    assert "true '\\x1b[31m\\u202e'\\ntrue" in listed
    assert "\x1b" not in listed
