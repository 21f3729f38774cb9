"""`hermes mcp` on standard input and output, asked by the official SDK's client."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from mcp import MCPError
from mcp_types import ElicitResult

import hermes
from cli._tool import running
from hermes.tools import TOOLS
from mcp_server._client import HERMES, MODES, Person, environment, over_stdio, text

both = pytest.mark.parametrize("mode", MODES)


async def ended(mark: str) -> bool:
    for _ in range(250):
        if not running(mark):
            return True
        await asyncio.sleep(0.02)
    return False


async def remove_all() -> None:
    rm = [sys.executable, "-m", "hermes", "sandbox", "rm", "--all", "--yes"]
    await asyncio.to_thread(subprocess.run, rm, check=True, capture_output=True)


@both
async def test_every_tool(tmp_path: Path, mode: str) -> None:
    async with over_stdio(tmp_path / "work", "--rm", mode=mode) as client:
        assert client.instructions is not None and client.server_info is not None
        for word in ("Place: local", str(tmp_path / "work"), "no isolation", "data to work with"):
            assert word in client.instructions
        assert client.server_info.name == "hermes"
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(listed) == list(TOOLS)
        for name, tool in listed.items():
            assert tool.description and tool.title and tool.annotations is not None
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            jsonschema.Draft202012Validator.check_schema(tool.output_schema)
            assert "$ref" not in json.dumps([tool.input_schema, tool.output_schema])
            reads = name in ("read_file", "search_files")
            assert tool.annotations.read_only_hint is reads
            assert tool.annotations.destructive_hint is not reads
        wanted: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
            ("write_file", {"path": "a", "content": "one\n"}, {"status": "ok"}),
            ("read_file", {"path": "a"}, {"content": "one"}),
            ("patch", {"path": "a", "edits": [{"old": "one", "new": "two"}]}, {"status": "ok"}),
            ("search_files", {"pattern": "two"}, {"more": False}),
            ("terminal", {"command": "cat a; exit 4"}, {"exit_code": 4, "output": "two\n"}),
            ("execute_code", {"code": "print(6 * 7)"}, {"exit_code": 0, "output": "42\n"}),
            ("process", {"action": "list"}, {"status": "ok"}),
        ]
        for name, arguments, expected in wanted:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, text(result)
            assert {key: result.structured_content[key] for key in expected} == expected
        failed = await client.call_tool("read_file", {"path": "nothing"})
        assert failed.is_error and failed.structured_content["error"]["code"] == "not_found"
        with pytest.raises(MCPError, match="there is no tool 'fly'"):
            await client.call_tool("fly", {})
    assert "Traceback" not in (tmp_path / "stderr").read_text()


@both
async def test_what_is_asked_is_shown_to_the_person(tmp_path: Path, mode: str) -> None:
    work = tmp_path / "work"
    person = Person({"answer": "once"}, {"answer": "once"})
    async with over_stdio(work, "--rm", mode=mode, elicitation_callback=person) as client:
        for number in range(2):
            (work / "old").mkdir()
            result = await client.call_tool("terminal", {"command": "rm -rf old; echo done"})
            assert result.structured_content["output"] == "done\n", text(result)
            assert not (work / "old").exists()
            assert len(person.asked) == number + 1
        form = person.asked[0]
        for word in ("rm -rf old", str(work), "local", "recursive-delete", "always stores"):
            assert word in form.message
        schema = form.requested_schema
        assert schema["properties"]["answer"]["enum"] == ["deny", "once", "session", "always"]
        assert schema["properties"]["answer"]["default"] == "deny" and schema["required"] == ["answer"]


REFUSALS: list[tuple[Any, str]] = [
    (ElicitResult(action="decline"), "the answer was no"),
    (ElicitResult(action="cancel"), "dismissed"),
    ({"answer": "deny", "reason": "move it to trash"}, "the answer was no: move it to trash"),
    ({}, "the answer was no"),
    ({"answer": "yes"}, "the answer was no"),
    ({"answer": ["once"]}, "the answer was no"),
    (ElicitResult(action="decline", content={"answer": "once"}), "the answer was no"),
]


@both
async def test_everything_but_a_yes_is_a_no(tmp_path: Path, hermes_home: Path, mode: str) -> None:
    work = tmp_path / "work"
    person = Person(*(answer for answer, _ in REFUSALS))
    async with over_stdio(work, "--rm", mode=mode, elicitation_callback=person) as client:
        (work / "kept").mkdir()
        for _, said in REFUSALS:
            result = await client.call_tool("terminal", {"command": "rm -rf kept"})
            assert result.is_error and result.structured_content["status"] == "refused"
            assert said in text(result) and "nothing was run" in text(result)
        assert (work / "kept").exists()
    lines = (hermes_home / "audit.jsonl").read_text().splitlines()
    audit = [json.loads(line) for line in lines]
    assert [(one["answer"], one["how"]) for one in audit] == [("no", "mcp")] * len(REFUSALS)


async def test_a_yes_for_the_session_is_for_the_very_same(tmp_path: Path) -> None:
    work = tmp_path / "work"
    person = Person({"answer": "session"}, {"answer": "deny"})
    async with over_stdio(work, "--rm", elicitation_callback=person) as client:
        await client.call_tool("terminal", {"command": "true"})  # what a session has is part of a grant
        for name, refused in (("old", False), ("old", False), ("other", True)):
            (work / name).mkdir()
            result = await client.call_tool("terminal", {"command": f"rm -rf {name}"})
            assert result.is_error is refused
        assert len(person.asked) == 2


@both
async def test_a_client_that_cannot_ask_is_refused(tmp_path: Path, mode: str) -> None:
    work = tmp_path / "work"
    async with over_stdio(work, "--rm", mode=mode) as client:
        (work / "kept").mkdir()
        result = await client.call_tool("terminal", {"command": "rm -rf kept"})
        assert result.is_error and "cannot ask its user" in text(result)
        assert (work / "kept").exists()
        blocked = await client.call_tool("terminal", {"command": "rm -rf /"})
        assert "A block holds in every mode" in text(blocked)


@both
async def test_no_answer_in_time_is_a_no(tmp_path: Path, mode: str) -> None:
    work = tmp_path / "work"
    settings = ("--rm", "--set", "approvals.timeout=300ms")
    person = Person(None) if mode == "legacy" else Person({"answer": "once"})

    async def slow(context: Any, params: Any) -> ElicitResult:
        await asyncio.sleep(0.8)
        return await person(context, params)

    async with over_stdio(work, *settings, mode=mode, elicitation_callback=slow) as client:
        (work / "kept").mkdir()
        result = await client.call_tool("terminal", {"command": "rm -rf kept"})
        assert result.is_error and "nobody answered within 0.3 s" in text(result)
        assert (work / "kept").exists()


@both
async def test_progress_is_the_output_as_it_comes(tmp_path: Path, mode: str) -> None:
    reports: list[tuple[float, str]] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, message or ""))

    async with over_stdio(tmp_path / "work", "--rm", mode=mode) as client:
        command = "for i in 1 2 3; do echo line $i; sleep 0.5; done"
        result = await client.call_tool("terminal", {"command": command}, progress_callback=report)
        assert result.structured_content["output"] == "line 1\nline 2\nline 3\n"
        assert "line 1\n" in "".join(message for _, message in reports)
        assert len(reports) >= 2
        assert [one for one, _ in reports] == sorted({one for one, _ in reports})


@both
@pytest.mark.parametrize("more", [{}, {"pty": True}], ids=["run", "pty"])
async def test_cancelling_a_call_kills_the_command(tmp_path: Path, mode: str, more: dict[str, bool]) -> None:
    mark = f"4713.{len(more)}"
    async with over_stdio(tmp_path / "work", "--rm", mode=mode) as client:
        call = asyncio.create_task(
            client.call_tool("terminal", {"command": f"(sleep {mark} & sleep {mark})", **more})
        )
        while len(running(mark)) < 2:
            await asyncio.sleep(0.02)
        call.cancel()
        assert await ended(mark)
        again = await client.call_tool("terminal", {"command": "echo on"})
        assert again.structured_content["output"] == "on\n"


async def test_long_outputs_and_logs_are_resources(tmp_path: Path) -> None:
    async with over_stdio(tmp_path / "work", "--rm") as client:
        result = await client.call_tool("terminal", {"command": "seq 100000"})
        link: Any = result.content[1]
        assert link.type == "resource_link" and link.size == 588895
        whole, offset = "", 0
        while True:
            part: Any = (await client.read_resource(f"{link.uri}?offset={offset}")).contents[0]
            whole += part.text
            if "hermes/next" not in part.meta:
                break
            offset = part.meta["hermes/next"]
        assert whole == "".join(f"{n}\n" for n in range(1, 100_001))
        started = await client.call_tool(
            "terminal", {"command": r"echo up; printf '\0\0'; sleep 4713.5", "background": True}
        )
        job = started.structured_content["job"]
        uris = [str(one.uri) for one in (await client.list_resources()).resources]
        assert uris == [link.uri, f"hermes://job/{job}"]
        log: Any = (await client.read_resource(f"hermes://job/{job}")).contents[0]
        assert log.blob == "dXAKAAA="
        templates = (await client.list_resource_templates()).resource_templates
        assert len(templates) == 2
        for bad in ("hermes://job/99", "hermes://spill/9", "hermes://spill/x", "file:///etc/passwd"):
            with pytest.raises(MCPError):
                await client.read_resource(bad)


async def test_a_place_that_does_not_work_is_an_error_of_the_call(tmp_path: Path) -> None:
    async with over_stdio(tmp_path / "work", "--name", "agent") as client:
        box = hermes.Sandbox("local", name="agent")
        await box.open(create=False)
        os.kill(box._channel.guest["pid"], signal.SIGKILL)
        await box.close()
        with pytest.raises(MCPError, match="the sandbox does not work") as caught:
            await client.call_tool("terminal", {"command": "echo on"})
        assert caught.value.data["status"] == "gone"
    await remove_all()


async def test_calls_run_side_by_side(tmp_path: Path) -> None:
    async with over_stdio(tmp_path / "work", "--rm") as client:
        slow = asyncio.create_task(
            client.call_tool("terminal", {"command": "sleep 1; echo slow", "session": "a"})
        )
        await asyncio.sleep(0.2)
        quick = await client.call_tool("terminal", {"command": "echo quick", "session": "b"})
        assert quick.structured_content["output"] == "quick\n" and not slow.done()
        assert (await slow).structured_content["output"] == "slow\n"


async def test_two_servers_of_one_directory_do_not_wait_for_each_other(tmp_path: Path) -> None:
    work = tmp_path / "work"
    async with over_stdio(work) as one, over_stdio(work) as other:
        await one.call_tool("terminal", {"command": "cd /usr"})
        long = asyncio.create_task(one.call_tool("terminal", {"command": "pwd; sleep 30"}))
        await asyncio.sleep(0.5)
        async with asyncio.timeout(10):
            assert f"\n{work}\n" in text(await other.call_tool("terminal", {"command": "pwd"}))
        assert not long.done()
        long.cancel()
        await asyncio.wait({long})
    await remove_all()


async def test_a_named_sandbox_and_its_jobs_outlive_the_client(tmp_path: Path) -> None:
    work = tmp_path / "work"
    async with over_stdio(work, "--name", "agent") as client:
        started = await client.call_tool("terminal", {"command": "sleep 4713.6", "background": True})
        await client.call_tool("terminal", {"command": "x=kept"})
    assert running("4713.6")
    try:
        async with over_stdio(work, "--name", "agent") as client:
            found = await client.call_tool("terminal", {"command": "echo $x"})
            assert found.structured_content["output"] == "kept\n"
            ended = await client.call_tool(
                "process", {"action": "kill", "id": started.structured_content["job"]}
            )
            assert ended.structured_content["state"] == "killed"
    finally:
        await remove_all()


async def test_only_the_protocol_reaches_stdout_and_sigterm_ends_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    process = await asyncio.create_subprocess_exec(
        sys.executable, *HERMES, "--rm", "--set", "local.python=" + sys.executable,
        cwd=work, env=environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    version = "2025-06-18"
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    process.stdin.write(b"nonsense\n\n")
    process.stdin.write(
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode() + b"\n"
    )
    answers: list[dict[str, Any]] = []
    async with asyncio.timeout(20):
        while not any(one.get("id") == 1 for one in answers):
            answers.append(json.loads(await process.stdout.readline()))
        assert answers[-1]["result"]["protocolVersion"] == version
        process.send_signal(signal.SIGTERM)
        rest, errors = await process.communicate()
    assert rest == b"" and process.returncode == 143
    assert b"local isolates nothing" in errors and b"Traceback" not in errors, errors


async def test_what_is_no_message_is_answered_too(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *HERMES, "--rm", cwd=tmp_path, env=environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    arguments = b'{"name":"terminal","arguments":{"command":"touch \\ud83d"}}'
    sent = {
        b"nonsense": (-32700, None),
        b"\xff\xfe": (-32700, None),
        b"[" * 5000: (-32700, None),
        b"[]": (-32600, None),
        b'{"jsonrpc":"1.0","id":4,"method":"tools/list"}': (-32600, 4),
        b'{"jsonrpc":"2.0","id":"a\\ud83d","method":"tools/list"}': (-32600, "a\ufffd"),
        b'{"jsonrpc":"2.0","id":5,"result":7}': (-32600, None),
        b'{"jsonrpc":"2.0","id":6,"method":"tools/call","params":%b}' % arguments: (-32600, 6),
    }
    try:
        async with asyncio.timeout(20):
            for message, (code, ident) in sent.items():
                process.stdin.write(message + b"\n")
                answer = json.loads(await process.stdout.readline())
                assert (answer["error"]["code"], answer["id"]) == (code, ident), message
            process.stdin.close()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()


async def test_a_client_that_goes_takes_its_commands_along(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *HERMES, "--name", "agent", cwd=tmp_path, env=environment(),
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    info = {"name": "t", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    call = {"name": "terminal", "arguments": {"command": "sleep 4713.7"}}
    job = {"name": "terminal", "arguments": {"command": "sleep 4713.8", "background": True}}
    for message in (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": job},
        {"id": 3, "method": "tools/call", "params": call},
    ):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    async with asyncio.timeout(30):
        while not (running("4713.7") and running("4713.8")):
            await asyncio.sleep(0.02)
        process.stdin.close()
        _, errors = await process.communicate()
    assert process.returncode == 0 and b"Traceback" not in errors, errors
    assert await ended("4713.7")
    assert running("4713.8")  # which was meant to go on
    await remove_all()
    assert await ended("4713.8")
