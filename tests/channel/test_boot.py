"""Getting the guest in: the payload, and the bytes before the first frame."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import subprocess
import sys
import zlib

import pytest

from hermes.channel.boot import MARKER, MAX_NOISE, Boot, modules, payload, stage
from hermes.errors import BackendError


async def test_noise_before_the_marker_is_skipped_and_the_rest_is_given_away() -> None:
    boot = Boot()
    line = asyncio.ensure_future(boot.line(MARKER))
    await asyncio.sleep(0)
    for byte in b"Welcome!\n\x1b[0m HERMES" + MARKER + b'{"a": 1}\nframes':
        boot.data(bytes([byte]))
    assert await line == b'{"a": 1}'
    got: list[bytes] = []
    ends: list[str | None] = []
    boot.hand_over(got.append, ends.append)
    boot.data(b" follow")
    boot.close("over")
    assert b"".join(got) == b"frames follow"
    assert ends == ["over"]


async def test_two_lines_in_one_piece() -> None:
    boot = Boot()
    first = asyncio.ensure_future(boot.line(b"ONE "))
    await asyncio.sleep(0)
    boot.data(b"ONE a\nTWO b\nrest")
    assert await first == b"a"
    assert await boot.line(b"TWO ") == b"b"


async def test_an_end_before_the_marker_says_what_was_printed() -> None:
    boot = Boot()
    line = asyncio.ensure_future(boot.line(MARKER))
    await asyncio.sleep(0)
    boot.data(b"sh: python3: not found\n")
    boot.close("ssh ended with exit code 127")
    with pytest.raises(
        BackendError, match=r"exit code 127; sh: python3: not found; no command was run"
    ) as raised:
        await line
    assert raised.value.code == "guest_failed"


async def test_endless_noise_is_given_up() -> None:
    boot = Boot()
    line = asyncio.ensure_future(boot.line(MARKER))
    await asyncio.sleep(0)
    for _ in range(MAX_NOISE // 65536 + 1):
        boot.data(b"y\n" * 32768)
    with pytest.raises(BackendError, match="no guest announced itself"):
        await line


def test_the_payload_has_no_words_for_people() -> None:
    for name, source in modules().items():
        tree = ast.parse(source, feature_version=(3, 7))
        assert "typing" not in source, name
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)], name
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
                assert ast.get_docstring(node) is None, name


def test_the_first_block_is_enough_to_attach() -> None:
    first, rest = payload({"id": "x"})
    options, early = json.loads(zlib.decompress(first))
    late = json.loads(zlib.decompress(rest))
    assert options == {"id": "x"}
    assert early.keys() | late.keys() == modules().keys()
    assert not early.keys() & late.keys()
    for source in early.values():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                assert {node.module} if node.module else {alias.name for alias in node.names} <= early.keys()
    assert len(first) < 4_000


def test_all_operations_are_loaded() -> None:
    """A module that registers operations and that nothing imports would be sent in vain."""
    source = modules()["main"]
    loaded = {
        name
        for part in ast.walk(ast.parse(source))
        if isinstance(part, ast.FunctionDef) and part.name == "load"
        for name in re.findall(r"\w+", ast.unparse(part))
    }
    with_operations = {
        name for name, text in modules().items() if re.search(r"^@(\w+_)?op\(", text, re.M)
    } - {"server"}
    assert with_operations <= loaded


def test_a_task_takes_only_what_it_imports() -> None:
    _, rest = payload({}, "host")
    assert json.loads(zlib.decompress(rest)).keys() == {"host"}


def test_the_first_stage_ends_when_its_input_does() -> None:
    script = stage(100, 200)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], input=b"short", capture_output=True, timeout=20
    )
    assert done.returncode == 1
    assert done.stdout == b""


def test_the_payload_is_small() -> None:
    assert sum(map(len, payload({}))) < 48_000
