"""Real servers, each a program of its own, and the official SDK's client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

HERMES = ["-m", "hermes", "mcp", "--sandbox", "local"]
TOKEN = "a-token-for-tests-0123456789"
MODES = ["legacy", "auto"]
"""The versions of the protocol with a handshake, and the one since 2026-07-28."""


class Person:
    """Whoever answers a client's forms; *answers* are taken one after the other."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params)
        answer = self.answers.pop(0)
        if answer is None:
            await asyncio.sleep(60)
        return answer if isinstance(answer, ElicitResult) else ElicitResult(action="accept", content=answer)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "HERMES_APPROVALS": "ask", **more}


@contextlib.asynccontextmanager
async def over_stdio(
    work: Path, *arguments: str, mode: str = "auto", env: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[Client]:
    """A client of a server that it started itself; what that says goes to a file beside its directory."""
    work.mkdir(exist_ok=True)
    server = StdioServerParameters(
        command=sys.executable, args=[*HERMES, *arguments], env=env or environment(), cwd=work
    )
    with open(work.parent / "stderr", "w") as errors:  # noqa: ASYNC230
        async with Client(stdio_client(server, errlog=errors), mode=mode, **options) as client:
            yield client


class HttpServer:
    """A server over HTTP."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.address = ""
        self.said = ""

    @contextlib.asynccontextmanager
    async def running(self, *arguments: str, env: dict[str, str] | None = None) -> AsyncIterator[HttpServer]:
        self.work.mkdir(exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            sys.executable, *HERMES, "--rm", "--http", "--port", "0", *arguments,
            cwd=self.work, env=env or environment(HERMES_MCP_TOKEN=TOKEN),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None and process.stdout is not None
        try:
            async with asyncio.timeout(30):
                while not self.address:
                    line = (await process.stderr.readline()).decode()
                    assert line, self.said
                    self.said += line
                    if found := re.search(r"http://\S+", line):
                        self.address = found[0]
            yield self
        finally:
            if process.returncode is None:
                process.terminate()
            _, rest = await asyncio.wait_for(process.communicate(), 20)
            self.said += rest.decode()
            self.code = process.returncode

    @contextlib.asynccontextmanager
    async def client(
        self, *, mode: str = "auto", token: str = TOKEN, **options: Any
    ) -> AsyncIterator[Client]:
        async with httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {token}"}, timeout=30, trust_env=False
        ) as http:
            transport = streamable_http_client(self.address, http_client=http)
            async with Client(transport, mode=mode, **options) as client:
                yield client


def text(result: Any) -> str:
    return str(result.content[0].text)
