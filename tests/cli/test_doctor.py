"""``hermes doctor``: what works here, and why the rest does not."""

from __future__ import annotations

import os
from pathlib import Path

from cli._tool import Cli


def test_every_place_is_named_and_nothing_is_started(cli: Cli) -> None:
    found = {one["place"]: one for one in cli.json("doctor", "--json")}
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
