"""The scripted sandbox answers as it was told and runs nothing."""

import asyncio
import inspect
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hermes import Sandbox
from hermes.errors import FileError, JobError, Refused, SandboxGone
from hermes.testing import Call, FakeSandbox, UnexpectedCommand


async def deploy(box: FakeSandbox) -> str:
    """Code under test."""
    status = await box.run("git status --porcelain")
    if status.stdout:
        return "dirty"
    result = await box.run(["make", "deploy"], timeout=600)
    return "done" if result.exit_code == 0 else result.text


async def test_answers_by_text() -> None:
    box = FakeSandbox().on("git status --porcelain").on("make deploy", stdout="no such target", exit_code=2)
    assert await deploy(box) == "no such target"
    assert box.commands == ["git status --porcelain", "make deploy"]
    assert box.calls[1].options == {"timeout": 600}


async def test_answers_by_pattern_and_function() -> None:
    box = FakeSandbox()
    box.on(re.compile(r"^git "), stdout="git\n")
    box.on(lambda call: call.session == "build", exit_code=7)
    assert (await box.run("git log")).text == "git\n"
    assert (await (await box.shell("build")).run("anything")).exit_code == 7


async def test_last_rule_wins_and_runs_out() -> None:
    box = FakeSandbox().on("x", stdout="always").on("x", stdout="once", times=1)
    assert [(await box.run("x")).text for _ in range(3)] == ["once", "always", "always"]


async def test_computed_answers() -> None:
    box = FakeSandbox()
    box.on(re.compile("^cat"), answer=lambda call: call.stdin.upper())
    box.on("code", answer=lambda call: 9)
    box.on("whole", answer=lambda call: box.result(stderr="e", exit_code=3))

    async def pieces() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    assert (await box.run("cat", stdin="text")).stdout == b"TEXT"
    assert (await box.exec("cat", stdin=pieces())).stdout == b"AB"
    assert (await box.run("code")).exit_code == 9
    assert (await box.run("whole")).stderr == b"e"


async def test_unknown_command() -> None:
    box = FakeSandbox().on("known")
    with pytest.raises(UnexpectedCommand, match=r"no answer for 'rm -rf /'; it has some for: 'known'"):
        await box.run("rm -rf /")
    assert issubclass(UnexpectedCommand, AssertionError)
    assert (await FakeSandbox(default=box.result(stdout="any")).run("what")).text == "any"


async def test_errors_and_timeouts() -> None:
    box = FakeSandbox().on("evil", raises=Refused("no")).on("slow", timed_out=True, stdout="part")
    with pytest.raises(Refused):
        await box.run("evil")
    result = await box.run("slow", timeout=1)
    assert (result.status, result.exit_code, result.stdout) == ("timed_out", 124, b"part")


async def test_callbacks() -> None:
    box = FakeSandbox().on("x", stdout="o", stderr="e")
    both: list[bytes] = []
    apart: list[bytes] = []

    async def later(data: bytes) -> None:
        apart.append(data)

    await box.run("x", on_output=both.append)
    await box.run("x", on_output=lambda data: None, on_stderr=later)
    assert both == [b"o", b"e"]
    assert apart == [b"e"]


async def test_jobs() -> None:
    box = FakeSandbox().on("serve", stdout="up\n", exit_code=1)
    job = await box.start("serve", cwd="/x")
    await job.write("input")
    await job.kill("TERM")
    assert (job.written, job.killed) == (b"input", ["TERM"])
    assert await job.output(1) == b"p\n"
    assert [data async for data in job.follow()] == [b"up\n"]
    assert (await (await box.job(job.id)).wait()).exit_code == 1
    assert box.calls == [Call("start", "serve", options={"cwd": "/x"})]
    with pytest.raises(JobError):
        await box.job("9")


async def test_files() -> None:
    files = FakeSandbox(cwd="/w").files
    await files.write("a/b.txt", "one")
    await files.append("/w/a/b.txt", b"two")
    assert files.content == {"/w/a/b.txt": b"onetwo"}
    assert await files.read("a/b.txt", offset=1, n=3) == b"net"
    assert await files.exists("a")
    assert await files.glob("a/*.txt") == ["a/b.txt"]
    await files.move("a/b.txt", "c")
    await files.remove("c")
    with pytest.raises(FileError) as caught:
        await files.read_text("c")
    assert caught.value.code == "not_found"


async def test_leaving() -> None:
    async with FakeSandbox().on("x") as box:
        await box.run("x")
    with pytest.raises(SandboxGone):
        await box.run("x")


@pytest.mark.parametrize(
    "name", ["run", "exec", "shell", "start", "job", "open", "close", "destroy", "describe"]
)
def test_takes_what_a_sandbox_takes(name: str) -> None:
    """Whatever can be passed to the real method can be passed to the fake one."""
    real, fake = (inspect.signature(getattr(kind, name)).parameters for kind in (Sandbox, FakeSandbox))
    anything = any(one.kind is one.VAR_KEYWORD for one in fake.values())
    assert set(real) - set(fake) == set() or anything


async def test_example_of_the_documentation() -> None:
    text = await asyncio.to_thread((Path(__file__).parents[2] / "docs/testing.md").read_text)
    (example,) = [
        block for block in re.findall(r"```python\n(.*?)```", text, re.S) if "FakeSandbox()" in block
    ]
    names: dict[str, Any] = {}
    exec(example, names)
    await names["test_release"]()
