"""`hermes mcp --http`: with the token, on this machine, for several clients at a time."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_types import ElicitResult

from cli._tool import running
from mcp_server._client import HERMES, MODES, TOKEN, HttpServer, Person, environment, text

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
ACCEPT = {"accept": "application/json, text/event-stream"}


@pytest.mark.parametrize("mode", MODES)
async def test_two_clients(tmp_path: Path, mode: str) -> None:
    async with HttpServer(tmp_path / "work").running() as server:
        yes, no = Person({"answer": "once"}), Person({"answer": "deny", "reason": "mine"})
        async with (
            server.client(mode=mode, elicitation_callback=yes) as first,
            server.client(mode=mode, elicitation_callback=no) as second,
        ):
            assert len((await first.list_tools()).tools) == 7
            assert first.instructions == second.instructions and "Place: local" in str(first.instructions)
            # Each is asked itself, also when both are asked at once.
            for name in ("a", "b"):
                (server.work / name).mkdir()
            gone, kept = await asyncio.gather(
                first.call_tool("terminal", {"command": "rm -rf a", "session": "one"}),
                second.call_tool("terminal", {"command": "rm -rf b", "session": "two"}),
            )
            assert not gone.is_error and not (server.work / "a").exists()
            assert kept.is_error and "mine" in text(kept) and (server.work / "b").exists()
            assert (len(yes.asked), len(no.asked)) == (1, 1)
            # What one is granted for a session the other would have: it is not offered.
            form = yes.asked[0]
            assert form.requested_schema["properties"]["answer"]["enum"] == ["deny", "once", "always"]
            assert "session:" not in form.message
            # They share the place. A file may be larger than a message is as a rule.
            big = await first.call_tool("write_file", {"path": "big", "content": "x" * 6_000_000})
            assert big.structured_content["files"][0]["bytes"] == 6_000_000
            await first.call_tool("write_file", {"path": "c", "content": "shared"})
            assert (await second.call_tool("read_file", {"path": "c"})).structured_content[
                "content"
            ] == "shared"
            job = (
                await first.call_tool("terminal", {"command": "sleep 4714.1", "background": True})
            ).structured_content
            listed = (await second.call_tool("process", {"action": "list"})).structured_content["jobs"]
            assert job["job"] in [one["id"] for one in listed]
    assert server.code == 143 and not running("4714.1")
    assert "Traceback" not in server.said and TOKEN not in server.said


@pytest.mark.parametrize("mode", MODES)
async def test_progress_and_cancellation(tmp_path: Path, mode: str) -> None:
    reports: list[str] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append(message or "")

    async with HttpServer(tmp_path / "work").running() as server, server.client(mode=mode) as client:
        command = "echo begun; sleep 4714.2"
        call = asyncio.create_task(
            client.call_tool("terminal", {"command": command}, progress_callback=report)
        )
        async with asyncio.timeout(20):
            while not (running("4714.2") and reports):
                await asyncio.sleep(0.02)
            assert "begun\n" in reports[0]
            call.cancel()
            while running("4714.2"):
                await asyncio.sleep(0.02)
        again = await client.call_tool("terminal", {"command": "echo on"})
        assert again.structured_content["output"] == "on\n"


async def test_nobody_else_is_let_in(tmp_path: Path) -> None:
    async with HttpServer(tmp_path / "work").running() as server:
        async with httpx2.AsyncClient(trust_env=False, headers=ACCEPT) as http:
            right = {"authorization": f"Bearer {TOKEN}"}
            for headers in (
                {},
                {"authorization": "Bearer wrong"},
                {"authorization": f"Bearer {TOKEN}x"},
                {"authorization": f"Basic {TOKEN}"},
                {"authorization": TOKEN},
            ):
                for method in ("POST", "GET", "DELETE"):
                    answer = await http.request(method, server.address, headers=headers, json=HELLO)
                    assert answer.status_code == 401, (method, headers)
                    assert answer.headers["www-authenticate"] == "Bearer" and "jsonrpc" not in answer.text
            # A page in a browser that got hold of the token, or a name that leads here, is not let in either.
            for more, code in (({"origin": "http://evil.example"}, 403), ({"host": "evil.example"}, 421)):
                answer = await http.post(server.address, headers={**right, **more}, json=HELLO)
                assert answer.status_code == code
            for headers in (right, {"authorization": f"bearer {TOKEN}"}):
                answer = await http.post(server.address, headers=headers, json=HELLO)
                assert answer.status_code == 200 and '"name":"hermes"' in answer.text
        with pytest.raises(Exception):  # noqa: B017  # the SDK wraps what the server answers
            async with server.client(token="wrong"):
                pass


async def test_an_answer_is_for_its_own_question(tmp_path: Path) -> None:
    """Since 2026-07-28 a question is an answer to the call, and the call comes again with what was said."""
    async with (
        HttpServer(tmp_path / "work").running() as server,
        server.client(elicitation_callback=Person()) as client,
    ):

        async def call(command: str, **more: Any) -> Any:
            return await client.session.call_tool(
                "terminal", {"command": command}, allow_input_required=True, **more
            )

        for name in ("a", "b"):
            (server.work / name).mkdir()
        asked = await call("rm -rf a")
        assert "rm -rf a" in asked.input_requests["approval"].params.message
        said = {"approval": ElicitResult(action="accept", content={"answer": "once"})}
        for command, state in (("rm -rf b", asked.request_state), ("rm -rf a", "guessed")):
            with pytest.raises(Exception, match="nothing was run"):
                await call(command, input_responses=said, request_state=state)
        assert (server.work / "a").exists() and (server.work / "b").exists()
        done = await call("rm -rf a", input_responses=said, request_state=asked.request_state)
        assert not done.is_error and not (server.work / "a").exists()
        (server.work / "a").mkdir()
        with pytest.raises(Exception, match="is over"):
            await call("rm -rf a", input_responses=said, request_state=asked.request_state)
        assert (server.work / "a").exists()
        # No answer at all is a no.
        asked = await call("rm -rf b")
        done = await call("rm -rf b", input_responses={}, request_state=asked.request_state)
        assert done.is_error and (server.work / "b").exists()


async def test_a_token_is_made_where_there_is_none(tmp_path: Path) -> None:
    async with (
        HttpServer(tmp_path / "work").running(env=environment()) as server,
        httpx2.AsyncClient(trust_env=False, headers=ACCEPT) as http,
    ):
        assert (await http.post(server.address, json=HELLO)).status_code == 401
    [line] = [line for line in server.said.splitlines() if "the token, for this run:" in line]
    assert len(line.rpartition(" ")[2]) == 43


def test_what_cannot_be_served(tmp_path: Path) -> None:
    def serve(token: str, *more: str) -> subprocess.CompletedProcess[bytes]:
        env = environment(HERMES_MCP_TOKEN=token)
        command = [sys.executable, *HERMES, "--rm", "--http", *more]
        return subprocess.run(
            command, cwd=tmp_path, env=env, timeout=30, capture_output=True, stdin=subprocess.DEVNULL
        )

    bad = serve("short")
    assert bad.returncode == 125 and b"shorter than 16" in bad.stderr and b"'short'" not in bad.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        busy = serve(TOKEN, "--port", port)
    assert busy.returncode == 125 and f"port {port}".encode() in busy.stderr
    assert b"Traceback" not in busy.stderr


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['mcp_types'] = None; from hermes.cli import main; sys.exit(main(['mcp']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 125 and "pip install 'hermes-places[mcp]'" in done.stderr
    assert "Traceback" not in done.stderr
