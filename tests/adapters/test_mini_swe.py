"""mini-swe-agent, with its own model that says what it is told to, in sandboxes of ours."""

from __future__ import annotations

import asyncio
import gc
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments import get_environment
from minisweagent.models.test_models import DeterministicModel, make_output

from adapters._places import documented, settings
from hermes import places
from hermes.adapters.mini_swe import HermesEnvironment
from hermes.config import load
from hermes.errors import SandboxGone
from hermes.state import Store

CLASS = "hermes.adapters.mini_swe.HermesEnvironment"
PRIVATE = {"sandbox": "local", "options": {"workspace": "private"}}
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; "


def made(config: dict[str, Any]) -> HermesEnvironment:
    """The environment, as mini-swe-agent makes it of its configuration."""
    environment = get_environment({"environment_class": CLASS, **config})
    assert isinstance(environment, HermesEnvironment)
    return environment


@pytest.fixture
def environment() -> Iterator[HermesEnvironment]:
    found = made(PRIVATE)
    yield found
    found.cleanup()


def solve(environment: HermesEnvironment, *commands: str) -> tuple[dict[str, Any], list[str]]:
    """Run an agent whose model wants these commands: what it ended with, and what its model was shown."""
    outputs = [make_output("", [{"command": command}]) for command in commands]
    agent = DefaultAgent(
        DeterministicModel(outputs=outputs),
        environment,
        system_template="You are on {{system}} {{machine}}.",
        instance_template="{{task}} Work in {{cwd}}.",
        cost_limit=0,
    )
    ended = agent.run("Mend it.")
    return ended, [str(message["content"]) for message in agent.messages]


BUGGY = "def add(a, b):\n    return a - b\n"
TEST = "from sums import add\nassert add(20, 22) == 42\nprint('fine')\n"


@pytest.mark.parametrize("place", ["local", "docker"])
def test_a_task_is_done(place: str, monkeypatch: pytest.MonkeyPatch, hermes_home: Path) -> None:
    monkeypatch.delenv("HERMES_APPROVALS")
    if place == "docker":
        monkeypatch.setenv("HERMES_DOCKER_IMAGE", settings(place)["docker"]["image"])
    environment = made({**PRIVATE, "sandbox": place, "env": {"GREETING": "hello there"}})
    ended, shown = solve(
        environment,
        f"printf %s {shlex.quote(BUGGY)} >sums.py; printf %s {shlex.quote(TEST)} >test.py; echo $GREETING",
        "cd /; X=1; python3 -B test.py",  # neither is for the next command
        "python3 -B test.py",
        "sed -i 's/a - b/a + b/' sums.py && python3 -B test.py",
        SUBMIT + "cat sums.py",
    )
    assert ended["exit_status"] == "Submitted"
    assert ended["submission"] == BUGGY.replace("-", "+")
    text = "\n".join(shown)
    assert "You are on Linux" in shown[0]
    assert "hello there" in text and "AssertionError" in text and "fine" in text
    assert Store(hermes_home).all() != []
    environment.cleanup()
    assert Store(hermes_home).all() == []


def test_output_exit_code_and_time_limit(environment: HermesEnvironment) -> None:
    found = environment.execute({"command": "echo out; echo err >&2; exit 3"})
    assert found == {"output": "out\nerr\n", "returncode": 3, "exception_info": ""}
    found = environment.execute({"command": "echo begun; sleep 60"}, timeout=1)
    assert (found["returncode"], found["output"]) == (-1, "begun\n")
    assert "ended after 1 s" in found["exception_info"]
    found = environment.execute({"command": "pwd"}, cwd="/usr")
    assert found["output"] == "/usr\n"
    assert "missing" in environment.execute({"command": "pwd"}, cwd="/missing")["exception_info"]


def test_what_is_refused_is_told_and_not_done(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    asking = made({**PRIVATE, "options": {"workspace": "private", "approval": "ask"}})
    try:
        found = asking.execute({"command": f"rm -rf {kept}"})
        assert found["returncode"] == -1 and found["extra"]["exception_type"] == "refused"
        assert kept.is_dir()
    finally:
        asking.cleanup()


def test_a_place_that_is_gone_ends_the_run(environment: HermesEnvironment, hermes_home: Path) -> None:
    store = Store(hermes_home)
    [record] = store.all()
    asyncio.run(places.remove(record, load(), store))
    with pytest.raises(SandboxGone):
        solve(environment, "echo hello", "echo again")


def test_it_is_left_when_nobody_has_it(hermes_home: Path) -> None:
    environment = made(PRIVATE)
    assert [record.backend for record in Store(hermes_home).all()] == ["local"]
    assert environment.serialize()["info"]["config"]["environment_type"] == CLASS
    del environment
    gc.collect()
    assert Store(hermes_home).all() == []


def test_the_code_of_the_documentation() -> None:
    outputs = [make_output("", [{"command": f"{SUBMIT}echo sudoku"}])]
    others = {
        "from minisweagent.models.litellm_model import LitellmModel\n": "",
        'LitellmModel(model_name="anthropic/claude-sonnet-4-5")': "model",
        '"docker", options={"image": "python:3.12"}': '"local", options={"workspace": "private"}',
        "agent.run(": "ended = agent.run(",
    }
    names: dict[str, Any] = {"model": DeterministicModel(outputs=outputs)}
    exec(compile(documented("mini-swe-agent", others), "adapters.md", "exec"), names)
    assert names["ended"]["submission"].strip() == "sudoku"
