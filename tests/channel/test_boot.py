"""Getting the guest in: the payload, and the bytes before the first frame."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import select
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from _plugins.pythons import pythons
from hermes.channel.boot import GUEST, MARKER, MAX_NOISE, Boot, _Strip, modules, payload, stage
from hermes.errors import BackendError
from hermes.guest.frames import CALL, HELLO, PROTOCOL, REPLY, Binary, Frame, pack, unpack


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


def _needs(source: str, *, at_once: bool) -> set[str]:
    tree = ast.parse(source)
    return {
        name
        for node in (tree.body if at_once else ast.walk(tree))
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for name in ([node.module] if node.module else [alias.name for alias in node.names])
    }


def test_what_comes_first_is_enough_to_attach_and_the_core_to_start() -> None:
    (options, first), *blocks = payload({"id": "x"})
    core, late = (json.loads(zlib.decompress(block)) for block in blocks)
    assert options == {"id": "x"}
    assert first.keys() | core.keys() | late.keys() == modules().keys()
    assert len(first) + len(core) + len(late) == len(modules())
    for source in first.values():
        assert _needs(source, at_once=False) <= first.keys()
    for source in core.values():
        assert _needs(source, at_once=True) <= core.keys() | first.keys()
    assert len(zlib.compress(json.dumps(first).encode(), 9)) < 4_000
    assert len(blocks[0]) < 13_000  # what is on its way at first, before anything is acknowledged


def test_stripping_changes_no_code() -> None:
    """Less indentation is still the same program, whatever its strings look like."""
    for name, source in modules().items():
        tree = ast.parse(GUEST.joinpath(f"{name}.py").read_text())
        assert ast.dump(ast.parse(source)) == ast.dump(ast.parse(ast.unparse(_Strip().visit(tree)))), name


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
    (_, wanted), core, rest = payload({}, "host")
    assert wanted.keys() == {"host", "relay", "dirs"}
    assert not core + rest


def test_the_first_stage_ends_when_its_input_does() -> None:
    script = stage("read(100)", 200, 0)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], input=b"short", capture_output=True, timeout=20
    )
    assert done.returncode == 1
    assert done.stdout == b""


def test_the_payload_is_small() -> None:
    _, core, rest = payload({})
    assert len(core) + len(rest) < 46_000


ENDS = dict([*pythons().items()][:: max(1, len(pythons()) - 1)])  # the oldest and the newest that are here


class Started:
    """A guest whose program arrives in parts."""

    def __init__(self, folder: Path, python: str) -> None:
        self.run_dir = folder / "run" / "x"
        (options, first), self.core, self.rest = payload({"id": "x", "run_dir": str(self.run_dir)})
        options["greeting"] = Binary.encode(
            HELLO, 0, 0, 0, 0, pack({"protocol": PROTOCOL, "client": "c", "seen": 0})
        ).decode("latin-1")
        script = stage(f"{options!r},{first!r}", len(self.core), len(self.rest))
        self.process = subprocess.Popen(
            [python, "-I", "-S", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._codec = Binary()
        self._frames: list[Frame] = []

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def frame(self) -> Frame:
        """Return the next frame; the announcement is passed over."""
        assert self.process.stdout is not None
        while not self._frames:
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            assert data, "the relay ended"
            if data.startswith(MARKER):
                data = data.partition(b"\n")[2]
            self._frames += self._codec.feed(data)
        return self._frames.pop(0)

    def silent(self, seconds: float) -> bool:
        assert self.process.stdout is not None
        return not self._frames and not select.select([self.process.stdout], [], [], seconds)[0]

    def end(self) -> None:
        """Leave, and wait until the guest has gone too."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(10)
        deadline = time.monotonic() + 10
        while self.run_dir.exists():
            assert time.monotonic() < deadline, "the guest has left its directory"
            time.sleep(0.02)


@pytest.mark.parametrize("python", ENDS.values(), ids=ENDS)
def test_a_guest_greets_before_all_of_it_is_there_and_works_then(tmp_path: Path, python: str) -> None:
    started = Started(tmp_path, python)
    started.send(started.core)
    assert started.frame()[0] == HELLO
    half = len(started.rest) // 2
    started.send(started.rest[:half])
    assert started.silent(0.2)
    # In one piece with what comes after it.
    ping, end = (
        Binary.encode(CALL, 0, at, at, 0, pack({"op": op})) for at, op in ((1, "tasks"), (2, "shutdown"))
    )
    started.send(started.rest[half:] + ping)
    kind, chan, stream, *_, body = started.frame()
    assert (kind, chan, stream) == (REPLY, 0, 1)
    assert unpack(body)[0] == {"tasks": []}
    started.send(end)
    assert started.frame()[:3] == (REPLY, 0, 2)
    started.end()


def test_a_guest_that_does_not_get_all_of_itself_leaves_nothing(tmp_path: Path) -> None:
    """Its client was cut off: nobody else has what is missing."""
    started = Started(tmp_path, sys.executable)
    started.send(started.core + started.rest[:-1])
    assert started.frame()[0] == HELLO
    assert started.run_dir.exists()
    started.end()
