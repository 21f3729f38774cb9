"""What is typed into an interpreter is read in its own language."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.approval import Request, decide
from hermes.approval.engine import Engine

HOME: dict[str, Any] = {"home": "/home/dev", "workspace": "/home/dev/project", "cwd": "/home/dev/project"}


@pytest.mark.parametrize(
    ("reader", "text", "action"),
    [
        ("python3 -q", "print(6 * 7)", "allow"),
        ("/usr/bin/python3", "import shutil; shutil.rmtree('src')", "ask"),
        ("bash", "rm -rf src\n", "ask"),
        ("bash", "ls -l\n", "allow"),
        ("bash --login", "rm -rf /\n", "block"),
        (None, "rm -rf src\n", "ask"),
    ],
)
def test_typed(reader: str | None, text: str, action: str) -> None:
    request = Request(kind="input", text=text, reader=reader, backend="ssh", **HOME)
    assert decide(Engine(), request).action == action


@pytest.mark.parametrize(
    ("text", "stdin", "action"),
    [
        ("python3 -", "print(1)", "allow"),
        ("python3", "import os; os.system('rm -rf src')", "ask"),
        ("cat", "rm -rf /", "allow"),
        ("bash", "rm -rf /", "block"),
        ("bash; python3", "print(1)", "ask"),
    ],
)
def test_what_a_command_reads(text: str, stdin: str, action: str) -> None:
    request = Request(kind="run", text=text, stdin=stdin, backend="ssh", **HOME)
    assert decide(Engine(), request).action == action
