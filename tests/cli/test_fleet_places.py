"""`hermes fleet` in containers, and as job arrays of a real SLURM."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from cli._fleet import FleetFile, at_least, log
from cli._tool import Cli, eventually, running

DOCKER = ("--sandbox", "docker", "--image", "hermes-test:bookworm", "--here")


@pytest.fixture
def docker(cli: Cli) -> Cli:
    if shutil.which("docker") is None or not os.access("/var/run/docker.sock", os.W_OK):
        pytest.skip("no docker engine for this user: scripts/parts start docker")
    return cli


def image() -> str:
    found = os.environ.get("PARTS_ROOTFS")
    if not found or shutil.which("apptainer") is None:
        pytest.skip("no apptainer with an image: scripts/parts start apptainer rootfs")
    return found


@pytest.fixture
def slurm(cli: Cli) -> Iterator[tuple[str, ...]]:
    """The options of a fleet in jobs; at the end nothing is left of it."""
    if not os.environ.get("SLURM_CONF") or shutil.which("sbatch") is None:
        pytest.skip("no SLURM: scripts/parts start slurm")
    settings = ("--set", "singularity.slurm.time=5", "--set", f"singularity.binds=[{cli.cwd}:/data]")
    yield ("--sandbox", "singularity", "--image", image(), *settings)
    names = {one["array"] for one in FleetFile(cli, []).journal() if "array" in one}
    left = [line for line in queue() if line.split("|")[1] in names]
    for line in left:
        subprocess.run(["scancel", line.split("|")[0]], check=True)
    assert not left
    assert not list((cli.home / "sandboxes" / "singularity").glob("fleet-*"))


def queue() -> list[str]:
    """What this user has in the queue, as number|name|state."""
    done = subprocess.run(
        ["squeue", "--me", "-h", "--array", "--format=%F_%K|%j|%T"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


# --- docker, and singularity on this machine


def test_docker_with_a_client_that_is_killed(docker: Cli) -> None:
    commands = [{"id": f"n{n}", "command": f"echo n{n} >>log; sleep 0.1; echo {n}"} for n in range(16)]
    commands.append({"id": "late", "command": "sleep 60", "timeout": "1s"})
    fleet = FleetFile(docker, commands, *DOCKER, "--jobs", "2", "-q")
    path = docker.cwd / "log"
    fleet.interrupted(lambda: len(log(path)) >= 5)
    assert len(log(path)) < 16
    fleet.run(code=124)
    assert sorted(log(path)) == sorted(f"n{n}" for n in range(16))
    assert len(fleet.results()) == 17
    assert {one["backend"] for one in fleet.lines()} == {"docker"}
    assert docker.json("sandbox", "ls", "--json") == []


def test_docker_with_a_container_that_is_removed(docker: Cli) -> None:
    commands = [{"id": "lost", "command": "echo lost >>log; sleep 60"}]
    commands += [{"id": f"n{n}", "command": f"echo n{n} >>log"} for n in range(3)]
    fleet = FleetFile(docker, commands, *DOCKER, "--jobs", "1")
    process = docker.start(*fleet.argv)
    assert eventually(lambda: log(docker.cwd / "log") == ["lost"], 30)
    [box] = docker.json("sandbox", "ls", "--json")
    found = ["docker", "ps", "-q", "--filter", f"label=hermes.id={box['id']}"]
    container = subprocess.run(found, capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run(["docker", "rm", "-f", container], check=True, stdout=subprocess.DEVNULL)
    assert process.wait(40) == 125
    assert {name: one["status"] for name, one in fleet.results().items()} == {
        "lost": "gone",
        **{f"n{n}": "ok" for n in range(3)},
    }
    assert log(docker.cwd / "log") == ["lost", "n0", "n1", "n2"]


def test_singularity_on_this_machine(cli: Cli) -> None:
    commands = [{"id": f"n{n}", "command": f"echo {n}; [ -d /workspace ]; pwd"} for n in range(3)]
    fleet = FleetFile(cli, commands, "--sandbox", "singularity", "--image", image(), "--jobs", "2")
    fleet.run()
    assert {one["stdout"] for one in fleet.results().values()} == {f"{n}\n/workspace\n" for n in range(3)}
    assert cli.json("sandbox", "ls", "--json") == []


# --- SLURM


def test_a_job_array(cli: Cli, slurm: tuple[str, ...]) -> None:
    mark = str(500000 + os.getpid() % 100000)
    commands: list[dict[str, Any]] = [
        {"id": "out", "command": "echo out; echo err >&2; pwd; exit 3"},
        {"id": "argv", "command": ["printf", "%s|", "a  b", "$X"], "env": {"X": "1"}},
        {"id": "stdin", "command": "cat; echo $X", "stdin": "no newline", "env": {"X": "a'b"}},
        {"id": "late", "command": f"echo begun; setsid sleep {mark} & sleep {mark}", "timeout": 3},
        {"id": "cwd", "command": "pwd", "cwd": "/nowhere"},
        {"id": "long", "command": "seq 100000", "cwd": "/usr"},
        {"id": "signal", "command": "kill -TERM $$"},
        {"id": "inside", "command": "echo $HOME $USER; ls /home; touch /x /usr/x; env | grep ^SLURM"},
    ]
    fleet = FleetFile(cli, commands, *slurm, "--jobs", "3", "--max-output", "4k")
    said = fleet.run(code=125)
    assert "6 of 8 done, 1 timed out, 1 could not be run" in said
    found = fleet.results()
    out = {key: found["out"][key] for key in ("status", "exit_code", "stdout", "stderr", "backend")}
    assert [*out.values()] == ["ok", 3, "out\n/workspace\n", "err\n", "singularity"]
    assert found["argv"]["stdout"] == "a  b|$X|"
    assert found["stdin"]["stdout"] == "no newlinea'b\n"
    assert (found["late"]["status"], found["late"]["stdout"]) == ("timed_out", "begun\n")
    assert not running(mark)
    assert found["cwd"]["error"]["code"] == "cwd_unusable"
    assert found["long"]["truncated"] is True
    assert found["long"]["stdout"].endswith("\n99999\n100000\n")
    assert len(found["long"]["stdout"]) < 5000
    assert found["signal"]["exit_code"] == 143
    assert found["inside"]["stdout"] == "/home/hermes hermes\nhermes\n"
    assert [*found["out"]] == ["id", *cli.json("exec", "--rm", "--json", "-q", "--sandbox", "local", "true")]
    assert len([one for one in fleet.journal() if "array" in one]) == 1
    assert len({one["sandbox"].partition("_")[0] for one in fleet.lines()}) == 1  # one array


def test_an_array_has_skills_and_dotfiles(cli: Cli, slurm: tuple[str, ...]) -> None:
    """In each task's own home, where nothing but its own changes are seen."""
    for path in ("skills/one/SKILL.md", "dotfiles/.config/rc"):
        target = cli.home / path
        target.parent.mkdir(parents=True)
        target.write_text(f"{target.name}\n")
    command = "cd; cat .hermes/skills/one/* .config/rc; echo more >>.config/rc; ls -A .hermes/skills"
    fleet = FleetFile(cli, [{"id": f"n{n}", "command": command} for n in range(2)], *slurm, "--jobs", "1")
    fleet.run()
    assert {one["stdout"] for one in fleet.results().values()} == {"SKILL.md\nrc\none\n"}
    assert (cli.home / "dotfiles" / ".config" / "rc").read_text() == "rc\n"


def test_an_array_whose_client_is_killed_and_a_lost_task(cli: Cli, slurm: tuple[str, ...]) -> None:
    path = cli.cwd / "log"
    commands = [{"id": f"n{n}", "command": f"echo n{n} >>/data/log; sleep 1; echo {n}"} for n in range(8)]
    commands.append({"id": "lost", "command": "echo lost >>/data/log; sleep 60"})
    fleet = FleetFile(cli, commands, *slurm, "--jobs", "3")
    for count in (1, 4):
        fleet.interrupted(partial(at_least, path, count))
    assert eventually(lambda: "lost" in log(path), 30)  # it goes on without us
    [number] = [one["job"] for one in fleet.journal() if "job" in one]
    subprocess.run(["scancel", f"{number}_8"], check=True)
    said = fleet.run(code=125)
    assert "8 of 9 done, 1 gone" in said
    assert "its job was cancelled" in fleet.results()["lost"]["error"]["message"]
    fleet.run(code=125)  # nor is it run again
    assert sorted(log(path)) == sorted([*(f"n{n}" for n in range(8)), "lost"])


def test_an_array_that_is_cancelled(cli: Cli, slurm: tuple[str, ...]) -> None:
    path = cli.cwd / "log"
    commands = [{"id": "quick", "command": "echo quick >>/data/log"}]
    commands += [
        {"id": f"n{n}", "command": f"echo n{n} >>/data/log; [ -e /data/end ] || sleep 60"} for n in range(3)
    ]
    fleet = FleetFile(cli, commands, *slurm, "--jobs", "1")
    code, said = fleet.interrupted(lambda: "n0" in log(path), signal.SIGINT, signal.SIGINT)
    assert code == 130
    assert "1 of 4 done, 1 gone, 2 waiting" in said
    assert not [line for line in queue() if "|fleet-" in line and line.split("|")[1] in str(fleet.journal())]
    assert fleet.results()["n0"]["status"] == "gone"
    (cli.cwd / "end").touch()
    fleet.run(code=125)
    assert log(path) == ["quick", "n0", "n1", "n2"]
    assert len([one for one in fleet.journal() if "array" in one]) == 2


def test_an_array_that_slurm_does_not_take(cli: Cli, slurm: tuple[str, ...]) -> None:
    fleet = FleetFile(cli, [{"command": "true"}], *slurm, "--set", "singularity.slurm.partition=nowhere")
    said = fleet.run(code=125)
    assert "SLURM did not take the job array" in said
    assert "Traceback" not in said
    assert fleet.lines() == []
    assert "1 waiting" in cli.out("fleet", "status", "f.jsonl")
