"""`hermes mcp`, asked by a second client: the MCP inspector's command line, which is JavaScript."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes.tools import TOOLS
from mcp_server._client import HERMES, environment


def inspect(work: Path, *request: str) -> Any:
    modules = os.environ.get("PARTS_NPM")
    if modules is None:
        pytest.skip("the part 'npm' is not here")
    script = Path(modules, "@modelcontextprotocol/inspector-cli/build/index.js")
    if not script.exists():
        pytest.skip("the part 'npm' has no inspector: it is an older one")
    server = [sys.executable, *HERMES, "--rm", "--workspace", str(work)]
    done = subprocess.run(
        [os.environ["PARTS_NODE"], script, *server, *request],
        cwd=script.parent,  # where it looks for its own version
        env=environment(),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_lists_the_tools(tmp_path: Path) -> None:
    listed = inspect(tmp_path, "--method", "tools/list")["tools"]
    assert [tool["name"] for tool in listed] == list(TOOLS)
    assert all(tool["outputSchema"]["type"] == "object" for tool in listed)


def test_it_calls_a_tool(tmp_path: Path) -> None:
    call = ["--method", "tools/call", "--tool-name", "terminal", "--tool-arg"]
    found = inspect(tmp_path, *call, "command=pwd; exit 3")
    assert (found["structuredContent"]["exit_code"], found["isError"]) == (3, False)
    assert (
        found["structuredContent"]["output"] == f"{tmp_path}\n"
        and str(tmp_path) in found["content"][0]["text"]
    )
    (tmp_path / "kept").mkdir()
    refused = inspect(tmp_path, *call, "command=rm -rf kept")
    assert refused["isError"] and "cannot ask its user" in refused["content"][0]["text"]
    assert (tmp_path / "kept").exists()


def test_it_reads_the_resources(tmp_path: Path) -> None:
    assert inspect(tmp_path, "--method", "resources/list") == {"resources": []}
    templates = inspect(tmp_path, "--method", "resources/templates/list")["resourceTemplates"]
    assert {one["name"] for one in templates} == {"job", "spill"}
