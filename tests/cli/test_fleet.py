"""`hermes fleet` on this machine: every command exactly once, whatever becomes of its client."""

from __future__ import annotations

import base64
import os
import signal
from functools import partial

import pytest

from cli._fleet import FleetFile, at_least, log
from cli._tool import Cli, eventually, running
from cli.test_jobs import on_terminal

LOCAL = ("--sandbox", "local")


def test_results_are_as_those_of_exec(cli: Cli) -> None:
    fleet = FleetFile(
        cli,
        [
            {"command": "echo out; echo err >&2; exit 3"},
            {"id": "argv", "command": ["printf", "%s|", "a  b", "$X"], "env": {"X": "1"}},
            {"id": "stdin", "command": "cat; echo $X", "stdin": "no newline\u0000", "env": {"X": "1"}},
            {"id": "empty", "command": "cat"},
            {"id": "late", "command": "echo begun; sleep 30 & sleep 30", "timeout": "500ms"},
            {"id": "cwd", "command": "pwd; exec 2>&1; nosuchcommand", "cwd": "/usr"},
            {"id": "bytes", "command": "printf '\\377'"},
            {"id": "long", "command": "seq 100000"},
        ],
        *(*LOCAL, "--jobs", "3", "--max-output", "4k"),
    )
    said = fleet.run(code=124)
    assert "7 of 8 done, 1 timed out. Results: f.results.jsonl" in said
    found = fleet.results()
    shape = cli.json("exec", "--rm", "--json", "-q", "true")
    assert all([*one] == ["id", *shape] for name, one in found.items() if name != "bytes")
    first = {key: found["1"][key] for key in ("status", "exit_code", "stdout", "stderr", "backend")}
    assert [*first.values()] == ["ok", 3, "out\n", "err\n", "local"]
    assert found["argv"]["stdout"] == "a  b|$X|"
    assert found["stdin"]["stdout"] == "no newline\u00001\n"
    assert found["empty"]["exit_code"] == 0
    late = found["late"]
    assert (late["status"], late["exit_code"], late["timed_out"]) == ("timed_out", 124, True)
    assert (late["stdout"], 0.4 < late["duration_s"] < 10) == ("begun\n", True)
    assert found["cwd"]["stdout"] == "/usr\nbash: line 1: nosuchcommand: command not found\n"
    assert base64.b64decode(found["bytes"]["stdout_b64"]) == b"\xff"
    assert found["long"]["truncated"] is True
    assert len(found["long"]["stdout"]) < 5000
    assert cli.json("sandbox", "ls", "--json") == []
    before = fleet.output.read_bytes()
    fleet.run(code=124)  # there is nothing left to do
    assert fleet.output.read_bytes() == before


def test_200_commands_whose_client_is_killed_again_and_again(cli: Cli) -> None:
    commands = [
        {"id": f"n{n}", "command": f"echo n{n} >>log; sleep 0.0{n % 5}; echo {n}", "stdin": "x" * (n % 2)}
        for n in range(200)
    ]
    fleet = FleetFile(cli, commands, *LOCAL, "--jobs", "4", "-q")
    for count in (1, 50, 100, 150):
        fleet.interrupted(partial(at_least, cli.cwd / "log", count))
        assert len(log(cli.cwd / "log")) < 200
    fleet.run()
    assert sorted(log(cli.cwd / "log")) == sorted(f"n{n}" for n in range(200))
    assert {one["id"]: one["stdout"] for one in fleet.lines()} == {f"n{n}": f"{n}\n" for n in range(200)}
    assert len(fleet.lines()) == 200
    assert len([one for one in fleet.journal() if "begin" in one]) == 200
    assert cli.json("sandbox", "ls", "--json") == []


def test_what_ends_while_nobody_waits_is_collected(cli: Cli) -> None:
    commands = [
        {"id": "short", "command": "echo short >>log; sleep 1; exit 5"},
        {"id": "long", "command": "echo long >>log; sleep 4; echo end"},
        {"id": "next", "command": "echo next >>log"},
    ]
    fleet = FleetFile(cli, commands, *LOCAL, "--jobs", "2")
    fleet.interrupted(lambda: len(log(cli.cwd / "log")) == 2)
    states = cli.out("fleet", "status", "f.jsonl")
    assert states == "0 of 3 done, 2 under way, 1 waiting. No hermes runs it.\n"
    fleet.run()
    found = fleet.results()
    assert {name: one["exit_code"] for name, one in found.items()} == {"short": 5, "long": 0, "next": 0}
    assert sorted(log(cli.cwd / "log")) == ["long", "next", "short"]
    assert found["long"]["duration_s"] >= 4  # it was not begun anew
    facts = cli.json("fleet", "status", "f.jsonl", "--json")
    assert (facts["total"], facts["ok"], facts["waiting"], facts["client"]) == (3, 3, 0, False)


def test_ctrl_c_leaves_what_runs_and_begins_no_more(cli: Cli) -> None:
    wait = "while [ ! -e end ]; do sleep 0.05; done"
    commands = [{"id": n, "command": f"echo {n} >>log; {wait}; echo {n}"} for n in "abc"]
    fleet = FleetFile(cli, commands, *LOCAL, "--jobs", "2")
    code, said = fleet.interrupted(lambda: len(log(cli.cwd / "log")) == 2, signal.SIGINT)
    assert code == 130
    assert "what runs goes on" in said
    assert "0 of 3 done, 2 under way, 1 waiting" in said
    assert "The same command again takes it up" in said
    (cli.cwd / "end").touch()
    fleet.run()
    assert sorted(log(cli.cwd / "log")) == ["a", "b", "c"]
    assert {one["stdout"] for one in fleet.results().values()} == {"a\n", "b\n", "c\n"}


@pytest.mark.parametrize("way", ["twice", "option"])
def test_cancelling_ends_what_runs(cli: Cli, way: str) -> None:
    mark = str(400000 + os.getpid() % 100000)
    commands = [
        {"id": "quick", "command": "echo quick >>log"},
        {"id": "slow", "command": f"echo slow >>log; (setsid sleep {mark} &); trap '' TERM; sleep {mark}"},
        {"id": "rest", "command": "echo rest >>log"},
    ]
    fleet = FleetFile(cli, commands, *LOCAL, "--jobs", "1")
    if way == "twice":
        code, said = fleet.interrupted(lambda: len(running(mark)) == 2, signal.SIGINT, signal.SIGINT)
        assert code == 130
    else:
        fleet.interrupted(lambda: len(running(mark)) == 2)
        said = fleet.run("--cancel")
    assert "1 of 3 done, 1 gone, 1 waiting" in said
    assert eventually(lambda: not running(mark))
    assert cli.json("sandbox", "ls", "--json") == []
    assert fleet.results()["slow"]["error"]["code"] == "cancelled"
    fleet.run(code=125)  # one of them is gone
    assert log(cli.cwd / "log") == ["quick", "slow", "rest"]


def test_one_whose_sandbox_is_gone_is_not_run_again_unasked(cli: Cli) -> None:
    commands = [
        {"id": "lost", "command": "echo lost >>log; [ -e again ] || sleep 60"},
        {"id": "other", "command": "echo other >>log"},
    ]
    fleet = FleetFile(cli, commands, *LOCAL, "--jobs", "1")
    process = cli.start(*fleet.argv)
    assert eventually(lambda: log(cli.cwd / "log") == ["lost"])
    [box] = cli.json("sandbox", "ls", "--json")
    cli.out("sandbox", "rm", box["name"])
    assert process.wait(30) == 125
    found = fleet.results()
    assert (found["lost"]["status"], found["lost"]["exit_code"]) == ("gone", 123)
    assert found["lost"]["error"]["message"]
    assert found["other"]["status"] == "ok"  # in another sandbox
    assert "Those that are gone may have run" in fleet.run(code=125)
    assert log(cli.cwd / "log") == ["lost", "other"]
    (cli.cwd / "again").touch()
    fleet.run("--retry-gone")
    assert log(cli.cwd / "log") == ["lost", "other", "lost"]
    assert [(one["id"], one["status"]) for one in fleet.lines()][-1] == ("lost", "ok")


def test_one_whose_sandbox_went_while_nobody_waited(cli: Cli) -> None:
    commands = [{"id": "lost", "command": "echo lost >>log; sleep 60"}, {"id": "other", "command": "true"}]
    fleet = FleetFile(cli, commands, *LOCAL, "--jobs", "1")
    fleet.interrupted(lambda: log(cli.cwd / "log") == ["lost"])
    cli.out("sandbox", "rm", "--all", "--yes")
    assert "1 of 2 done, 1 gone" in fleet.run(code=125)
    assert log(cli.cwd / "log") == ["lost"]


def test_two_clients_at_once(cli: Cli) -> None:
    fleet = FleetFile(cli, [{"command": "echo x >>log; while [ ! -e end ]; do sleep 0.05; done"}], *LOCAL)
    process = cli.start(*fleet.argv)
    assert eventually(lambda: log(cli.cwd / "log"))
    said = fleet.run(code=125)
    assert "another hermes runs this fleet" in said
    assert "A hermes runs it." in cli.out("fleet", "status", "f.jsonl")
    (cli.cwd / "end").touch()
    assert process.wait(20) == 0
    assert log(cli.cwd / "log") == ["x"]


def test_a_file_with_faults_starts_nothing(cli: Cli) -> None:
    fleet = FleetFile(cli, [], *LOCAL)
    fleet.path.write_text('{"command": "echo x >>log"}\n{"command": \n{"command": "true", "time": 9}\n')
    said = fleet.run(code=125)
    assert "f.jsonl:2: it is no JSON" in said
    assert "f.jsonl:3: unknown key 'time'; did you mean 'timeout'?" in said
    assert "nothing was started" in said
    assert not fleet.output.exists()
    assert not log(cli.cwd / "log")


def test_one_that_cannot_be_run_is_tried_again(cli: Cli) -> None:
    commands = [
        {"id": "a", "command": "echo a >>log", "cwd": "later"},
        {"id": "b", "command": "echo b >>log"},
    ]
    fleet = FleetFile(cli, commands, *LOCAL, "--jobs", "1")
    assert "1 of 2 done, 1 could not be run" in fleet.run(code=125)
    assert fleet.results()["a"]["error"]["code"] == "cwd_unusable"
    commands[0]["cwd"] = "."  # it has not run, so it may change
    fleet.write(commands)
    fleet.run()
    assert log(cli.cwd / "log") == ["b", "a"]
    commands[1]["command"] = "echo other >>log"
    fleet.write(commands)
    assert "the command 'b' was begun, and is another one now" in fleet.run(code=125)


def test_progress_on_a_terminal(cli: Cli) -> None:
    fleet = FleetFile(cli, [{"command": "sleep 1"}])
    shown = on_terminal(cli, "fleet", "run", "f.jsonl", *LOCAL)
    assert "\r\x1b[Khermes: 0 of 1 done, 1 under way" in shown
    assert shown.endswith("\r\x1b[Khermes: 1 of 1 done. Results: f.results.jsonl\n")
    assert "was begun on local, not on docker" in fleet.run("--sandbox", "docker", code=125)
