"""The code in the documentation does what it says: it is run as it is written.

In each page the ```python blocks are run in order in one interpreter, and the lines with a dollar sign of the
```console blocks in order in one bash. What they print must be the ```text block after a python block, and
the lines after a command: `...` stands for anything, white space for any other. A comment before a block
changes that. `<!-- not run: REASON -->` leaves it out. `<!-- file: NAME -->` saves it before anything is run;
a page that has a pyproject.toml is installed.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_type_hints
from unittest import mock

import msgspec
import pytest

from hermes import errors
from hermes.backends.base import Backend
from hermes.cli._main import COMMANDS
from hermes.config import Config, _load
from hermes.config._schema import NOT_SETTINGS
from hermes.guest import main as guest_main
from hermes.guest import server

ROOT = Path(__file__).resolve().parents[1]
KINDS = ["HELLO", "CALL", "REPLY", "DATA", "EOF", "CREDIT", "CANCEL", "ACK", "PING", "PONG", "BYE"]
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>not run|file): (?P<what>.+?) -->\n\n?)?```(?P<kind>\w+)[^\n]*\n(?P<text>.*?)^```$"
    r"(?:\n\n?```text\n(?P<expected>.*?)^```$)?",
    re.S | re.M,
)
# tests/testing holds the first to its word, tests/bench the second.
ELSEWHERE = {"testing.md", "benchmarks.md"}
FROM_A_CLONE = {"README.md", "getting-started.md"}  # their commands begin in the checkout


@dataclass
class Page:
    """What a page has that can be run; lines count from 0."""

    files: dict[str, str] = field(default_factory=dict)
    python: list[tuple[int, str]] = field(default_factory=list)
    printed: list[str | None] = field(default_factory=list)
    commands: list[tuple[str, str]] = field(default_factory=list)


def read(path: Path) -> Page:
    page, text = Page(), path.read_text("utf-8")
    for found in BLOCK.finditer(text):
        if found["mark"] == "file":
            page.files[found["what"]] = found["text"]
        elif found["mark"] == "not run":
            continue
        elif found["kind"] == "python":
            page.python.append((text.count("\n", 0, found.start("text")), found["text"]))
            page.printed.append(found["expected"])
        elif found["kind"] == "console":
            for piece in re.split(r"^\$ ", found["text"], flags=re.M)[1:]:
                command, _, output = piece.partition("\n")
                page.commands.append((command, output))
    return page


PAGES = {
    path.name: read(path)
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if path.name not in ELSEWHERE
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory, with `hermes` on the PATH; what runs in sandboxes ends with the test."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "installed"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield tmp_path
    subprocess.run(["hermes", "sandbox", "rm", "--all", "--yes"], check=True, stdout=subprocess.DEVNULL)


def prepare(page: Page, place: Path) -> None:
    for name, text in page.files.items():
        (place / name).write_text(text)
    if "pyproject.toml" in page.files:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*pip, "--target", place / "installed", place], check=True)


def compare(where: str, wanted: str, found: str) -> None:
    same = doctest.OutputChecker().check_output(
        wanted, found, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert same, f"{where}\nis said to print:\n{wanted}\nprints:\n{found}"


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if page.commands])
def test_commands(name: str, place: Path) -> None:
    page = PAGES[name]
    prepare(page, place)
    script = "".join(f"{command}\n_s=$?; printf '\\0'; (exit $_s)\n" for command, _ in page.commands)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT if name in FROM_A_CLONE else place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=50,
    )
    outputs = done.stdout.split("\0")
    for (command, wanted), found in zip(page.commands, outputs, strict=False):
        compare(f"{name}: $ {command}", wanted, found)
    assert len(outputs) == len(page.commands) + 1


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if page.python])
def test_python(name: str, place: Path) -> None:
    page = PAGES[name]
    prepare(page, place)
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "_page.py"],
        cwd=place,
        input=json.dumps([name, page.python]),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    for (line, _), wanted, found in zip(page.python, page.printed, done.stdout.split("\0"), strict=False):
        if wanted is not None:
            compare(f"{name}, line {line + 1}", wanted, found)


def test_tables_are_complete() -> None:
    """What the code has and the tables of the documentation do not would be missed by a reader."""
    guest_main.load(mock.Mock(held=None))  # it registers the operations
    text = {path.name: path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md")}
    wanted = {
        "protocol.md": [f"`{name}`" for name in (*server.OPS, *KINDS)],
        "configuration.md": [*_load.ENVIRONMENT, *keys(Config)],
        "python.md": [f"`{name}`" for name in errors.__all__ if name[0].isupper()],
        "cli.md": [f"## {name}" for name in COMMANDS],
        "backends.md": [name for name in vars(Backend) if not name.startswith("_") and name != "spec"],
    }
    missing = {page: [word for word in words if word not in text[page]] for page, words in wanted.items()}
    assert not any(missing.values()), missing
    assert set(text) == set(re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M))


def keys(section: type, prefix: str = "") -> Iterator[str]:
    for name, kind in get_type_hints(section).items():
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield from keys(kind, f"{prefix}{name}.")
        elif name not in NOT_SETTINGS:
            yield prefix + name
