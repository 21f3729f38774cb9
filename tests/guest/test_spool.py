"""The spool: all of an output by offset, or all but a hole in the middle that it admits."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hermes.guest.spool import MEMORY, TAIL, Spool


def read_all(spool: Spool, step: int = 70000) -> bytes:
    parts: list[bytes] = []
    at = 0
    while at < spool.size:
        at = spool.next_offset(at)
        data = spool.read(at, step)
        assert data
        parts.append(data)
        at += len(data)
    return b"".join(parts)


def test_a_short_output_makes_no_file(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "1.out"), 1 << 30)
    spool.append(b"a" * 1000)
    spool.append(b"b" * 1000)
    assert read_all(spool) == b"a" * 1000 + b"b" * 1000
    assert spool.read(999, 2) == b"ab"
    assert spool.read(2000, 5) == b""
    assert not list(tmp_path.iterdir())


def test_a_long_output_is_whole_on_disk(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "1.out"), 1 << 30)
    pieces = [os.urandom(50_000) for _ in range(20)]
    for piece in pieces:
        spool.append(piece)
    whole = b"".join(pieces)
    assert read_all(spool) == whole
    assert (tmp_path / "1.out").read_bytes() == whole
    assert (tmp_path / "1.out").stat().st_mode & 0o777 == 0o600
    assert spool.dropped == 0
    assert spool.error is None
    spool.close(remove=True)
    assert not list(tmp_path.iterdir())


def test_past_the_quota_the_middle_is_dropped_and_said(tmp_path: Path) -> None:
    quota = 2 * TAIL
    spool = Spool(str(tmp_path / "1.out"), quota)
    piece = bytes(range(250)) * 400
    total = 0
    while total < 10 * TAIL:
        spool.append(piece)
        total += len(piece)
    assert spool.size == total
    assert spool.kept == quota - TAIL
    assert spool.error is not None and "quota" in spool.error
    whole = piece * (total // len(piece))
    got = read_all(spool)
    assert got == whole[: spool.kept] + whole[len(whole) - (len(got) - spool.kept) :]
    assert TAIL <= len(got) - spool.kept < TAIL + len(piece)
    assert spool.dropped == total - len(got)
    spool.close(remove=False)
    kept = (tmp_path / "1.out").read_bytes()
    assert b"bytes were not kept" in kept
    assert kept.endswith(whole[-TAIL:])


def test_a_full_disk_keeps_head_and_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = MEMORY + 30_000
    real = os.write

    def write(fd: int, data: memoryview) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        size = real(fd, data[:room])
        room -= size
        return size

    monkeypatch.setattr("os.write", write)
    spool = Spool(str(tmp_path / "1.out"), 1 << 30)
    for number in range(40):
        spool.append(bytes([number]) * 50_000)
    assert spool.error is not None and "No space left" in spool.error
    assert spool.kept == MEMORY + 30_000
    assert spool.read(0, 1) == b"\0"
    assert spool.read(spool.size - 1, 10) == b"\x27"
    assert spool.size == 40 * 50_000
    assert spool.dropped == spool.size - spool.kept - sum(map(len, spool._tail))


def test_a_directory_that_is_gone_costs_the_middle_only(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "missing" / "1.out"), 1 << 30)
    spool.append(b"x" * (MEMORY + 1))
    spool.append(b"y" * 10)
    assert spool.error is not None and "missing" in spool.error
    assert spool.read(spool.size - 10, 10) == b"y" * 10


@pytest.mark.parametrize("first", [0, 1, MEMORY - 1, MEMORY, MEMORY + 1])
def test_the_step_from_memory_to_disk_loses_nothing(tmp_path: Path, first: int) -> None:
    spool = Spool(str(tmp_path / "1.out"), 1 << 30)
    spool.append(b"a" * first)
    spool.append(b"b" * 3)
    spool.append(b"c" * MEMORY)
    assert read_all(spool, 4096) == b"a" * first + b"bbb" + b"c" * MEMORY
