"""Evals of Inspect, with its own model that says what it is told to, in sandboxes of ours."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, Scorer, Target, accuracy, scorer
from inspect_ai.solver import TaskState, generate, use_tools
from inspect_ai.tool import bash, python
from inspect_ai.util import (
    OutputLimitExceededError,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandbox,
)
from inspect_ai.util._sandbox.limits import override_max_exec_output_size

from adapters._places import documented, file_of, settings
from hermes.adapters.inspect import HermesSandboxEnvironment
from hermes.errors import ConfigError
from hermes.state import Store

Environment = HermesSandboxEnvironment


def model(*commands: tuple[str, dict[str, Any]]) -> Any:
    """A model that calls these tools, one after the other, and then is done."""
    calls = [ModelOutput.for_tool_call("mockllm", name, arguments) for name, arguments in commands]
    outputs = [*calls, ModelOutput.from_content("mockllm", "done")]
    for output in outputs:
        output.usage = ModelUsage()  # else tokens are counted, with tables from the network
    return get_model("mockllm/model", custom_outputs=outputs)


@pytest.fixture(scope="module", autouse=True)
def collected() -> Iterator[None]:
    """See to it that what Inspect drops is collected while that is no error, as `conftest.py` says."""
    yield
    gc.collect()


@scorer(metrics=[accuracy()])
def made() -> Scorer:
    """Look in the sandbox for what the model was to make."""

    async def score(state: TaskState, target: Target) -> Score:
        text = await sandbox().read_file("answer.txt")
        return Score(value="C" if text.strip() == target.text else "I", answer=text)

    return score


def run(place: str | None, folder: Path, *commands: tuple[str, dict[str, Any]], limit: int = 20) -> EvalLog:
    task = Task(
        dataset=[
            Sample(
                input="Add up the numbers in numbers.txt into answer.txt.",
                target="42",
                files={"numbers.txt": "20\n22\n"},
                setup="test -s numbers.txt && echo prepared >prepared.txt",
            )
        ],
        solver=[use_tools(bash(timeout=limit), python(timeout=limit)), generate()],
        scorer=made(),
        sandbox="hermes" if place is None else ("hermes", place),
    )
    [log] = eval(task, model=model(*commands), log_dir=str(folder / "logs"), display="none")
    assert log.status == "success", log.error
    return log


def results(log: EvalLog) -> list[Any]:
    """What the model was given back by its tools."""
    assert log.samples is not None
    return [message for message in log.samples[0].messages if message.role == "tool"]


def score(log: EvalLog) -> Any:
    assert log.samples is not None and log.samples[0].scores is not None
    return log.samples[0].scores["made"].value


ADD = ("bash", {"command": "cat prepared.txt; awk '{s+=$1} END {print s}' numbers.txt | tee answer.txt"})


@pytest.mark.parametrize("place", ["docker", "local"])
def test_an_eval_whose_model_uses_bash(
    place: str, tmp_path: Path, hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HERMES_APPROVALS")  # nobody has configured that anything be asked
    if place == "docker":
        monkeypatch.setenv("HERMES_DOCKER_IMAGE", settings(place)["docker"]["image"])
    monkeypatch.chdir(tmp_path)
    # What a person would be asked about is done: the framework decides here.
    more = ("bash", {"command": "mkdir -p d/e && rm -rf d && echo gone"})
    log = run(place, tmp_path, ADD, more, ("python", {"code": "print(6 * 7)"}))
    assert [result.text.strip() for result in results(log)] == ["prepared\n42", "gone", "42"]
    assert score(log) == "C"
    assert Store(hermes_home).all() == []  # each sample's sandbox is gone
    assert not (tmp_path / "answer.txt").exists()  # and had files of its own


def test_failures_are_the_models_to_mend(tmp_path: Path) -> None:
    log = run(
        "local",
        tmp_path,
        ("bash", {"command": "echo out; echo err >&2; exit 3"}),
        ("bash", {"command": "echo begun; sleep 60"}),
        ("bash", {"command": "rm -rf /"}),  # nobody has to ask whether that may be
        ADD,
        limit=3,
    )
    failed, timed_out, refused, _ = results(log)
    assert (failed.error, failed.text) == (None, "err\n\nout\n")
    assert timed_out.error.type == "timeout" and "begun" in timed_out.text
    assert refused.error.type == "permission"
    assert score(log) == "C"


def test_a_file_of_settings_is_checked_before_anything_starts(tmp_path: Path, hermes_home: Path) -> None:
    file = tmp_path / "hermes.yaml"
    file.write_text("sandbox: local\ndocker:\n  imgae: debian\n")
    with pytest.raises(ConfigError, match=r"hermes.yaml:3: unknown key 'docker.imgae'"):
        asyncio.run(Environment.task_init("task", str(file)))
    with pytest.raises(ConfigError, match="there is no file"):
        asyncio.run(Environment.task_init("task", str(tmp_path / "other.yaml")))
    assert Store(hermes_home).all() == []


def test_the_place_may_be_the_configured_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_SANDBOX", "local")
    assert score(run(None, tmp_path, ADD)) == "C"


@pytest.fixture
async def box(tmp_path: Path, hermes_home: Path) -> AsyncIterator[Environment]:
    """A sandbox as an eval has it."""
    made = await Environment.sample_init("a task/of mine", str(file_of("local", tmp_path)), {})
    [environment] = made.values()
    yield environment.as_type(Environment)
    await Environment.sample_cleanup("a task/of mine", None, made, False)


async def test_too_much_output_is_an_error_that_has_some_of_it(box: Environment) -> None:
    with override_max_exec_output_size(1000), pytest.raises(OutputLimitExceededError) as caught:
        await box.exec(["seq", "10000"])
    assert caught.value.truncated_output is not None
    assert caught.value.truncated_output.startswith("1\n2\n")
    assert caught.value.truncated_output.endswith("9999\n10000\n")


async def test_a_time_limit_leaves_what_was_printed(box: Environment) -> None:
    with pytest.raises(TimeoutError) as caught:
        await box.exec(["sh", "-c", "echo begun; sleep 60"], timeout=1)
    assert caught.value.truncated_output == "begun\n"  # type: ignore[attr-defined]


async def test_only_the_sandboxs_own_user(box: Environment) -> None:
    me = (await box.exec(["id", "-un"])).stdout.strip()
    for user in (me, str(os.geteuid())):
        assert (await box.exec(["whoami"], user=user)).stdout.strip() == me
    with pytest.raises(SandboxUserUnsupportedError, match="as nobody"):
        await box.exec(["whoami"], user="nobody")


async def test_a_directory_that_is_not_there_and_a_program_that_is_not(box: Environment) -> None:
    found = await box.exec(["pwd"], cwd="missing")
    assert (found.success, found.returncode) == (False, 125) and "missing" in found.stderr
    assert (await box.exec(["no-such-program"])).returncode == 127


async def test_a_place_that_is_gone_is_no_output_of_a_command(box: Environment, hermes_home: Path) -> None:
    store = Store(hermes_home)
    [record] = await asyncio.to_thread(store.all)
    assert (await box.connection()).command == f"hermes shell --sandbox local --name {record.name}"
    await Environment.cli_cleanup(None)
    assert await asyncio.to_thread(store.all) == []
    with pytest.raises(SandboxUnavailableError):
        await box.exec(["true"])
    with pytest.raises(SandboxUnavailableError):
        await box.read_file("anything")


async def test_the_user_may_want_to_be_asked(tmp_path: Path) -> None:
    file = tmp_path / "asking.yaml"
    file.write_text("sandbox: local\napprovals:\n  mode: strict\n")
    made = await Environment.sample_init("task", str(file), {})
    try:
        with pytest.raises(PermissionError, match="nobody to ask"):
            await made["default"].exec(["rm", "-rf", "/usr/local/share/anything"])
    finally:
        await Environment.sample_cleanup("task", str(file), made, True)


def test_the_code_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    code = documented("Inspect", {'("hermes", "docker")': '("hermes", "local")'})
    exec(compile(code, "adapters.md", "exec", dont_inherit=True), names)
    add = ("bash", {"command": "awk '{s+=$1} END {print s}' numbers.txt"})
    [log] = names["eval"](names["sums"](), model=model(add), log_dir=str(tmp_path / "logs"), display="none")
    assert log.status == "success", log.error
    assert [result.text.strip() for result in results(log)] == ["42"]
