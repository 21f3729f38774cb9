"""A guest that lies, floods and babbles: one clear error, in bounded time, and nothing of it is used."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hermes
from _hostile import Peer, Script, hostile, rest
from hermes.errors import HermesError, ProtocolError, SandboxGone
from hermes.guest.frames import CALL, CREDIT, DATA, EOF, HEADER, HELLO, MAGIC, REPLY, Binary, pack
from hermes.guest.link import MORE

LIMIT = 6.0

RESULT = {
    "state": "exited",
    "exit_code": 0,
    "duration": 0.1,
    "cwd": "/",
    "sizes": {"1": 0, "2": 0},
    "truncated": False,
    "heads": {},
}


@pytest.fixture
def directory(tmp_path_factory: pytest.TempPathFactory, hermes_home: Path) -> Path:
    path = hermes_home.parent / "run"
    path.mkdir()
    return path


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.channel.channel.HELLO_TIMEOUT", 0.5)


async def outcome(directory: Path, patch: pytest.MonkeyPatch, script: Script) -> HermesError | hermes.Result:
    """Open a sandbox whose guest follows the script and run a command; return what came of it, in time."""
    async with hostile(directory, patch, script) as box:
        began = time.monotonic()
        try:
            async with asyncio.timeout(LIMIT):
                await box.open()
                return await box.run("echo hello", max_output=1000)
        except HermesError as error:
            assert error.message
            assert len(str(error)) < 3000
            return error
        except TimeoutError:
            raise AssertionError(f"no error within {LIMIT:g} s") from None
        finally:
            assert time.monotonic() - began < LIMIT + 1


def babble(data: bytes) -> Script:
    async def script(peer: Peer) -> None:
        peer.raw(data)
        await rest(peer)

    return script


def greeting(**changes: Any) -> Script:
    async def script(peer: Peer) -> None:
        await peer.greet(**changes)
        await rest(peer)

    return script


async def silence(peer: Peer) -> None:
    await rest(peer)


async def hangs_up(peer: Peer) -> None:
    peer.writer.close()


def raw_hello(body: bytes) -> bytes:
    return Binary.encode(HELLO, 0, 0, 0, 0, body)


GREETINGS: dict[str, Script] = {
    "silence": silence,
    "hangs up": hangs_up,
    "garbage": babble(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 100),
    "zeros": babble(bytes(100_000)),
    "too large": babble(HEADER.pack(MAGIC, HELLO, 0, 0, 0, 0, 2**31)),
    "unknown kind": babble(Binary.encode(99, 0, 0, 0, 0, b"")),
    "no greeting": babble(Binary.encode(DATA, 0, 1, 1, 0, b"x")),
    "half a greeting": babble(raw_hello(pack({"protocol": 1}))[:-3]),
    "greeting that is no JSON": babble(raw_hello(b"\0\0\0\4nope")),
    "greeting that is no object": babble(raw_hello(b"\0\0\0\2[]")),
    "deep greeting": babble(raw_hello((100_000).to_bytes(4, "big") + b"[" * 100_000)),
    "other protocol": greeting(protocol=99),
    "no protocol": greeting(protocol=None),
    "numbers that are none": greeting(seen="many"),
    "frames that were never sent": greeting(seen=10**9),
    "negative frames": greeting(seen=-5),
}


@pytest.mark.parametrize("name", GREETINGS)
async def test_greeting(directory: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A guest that does not greet as it should is an error when the sandbox is opened."""
    found = await outcome(directory, monkeypatch, GREETINGS[name])
    assert isinstance(found, HermesError), found


def after_call(act: Callable[[Peer, int], None]) -> Script:
    """Greet well, wait for the command, then do this."""

    async def script(peer: Peer) -> None:
        await peer.greet()
        act(peer, await peer.call())
        await rest(peer)

    return script


def flood_of_pieces(peer: Peer, stream: int) -> None:
    for _ in range(80):
        peer.send(REPLY, stream, bytes(1 << 18), chan=MORE)


def flood_without_credit(peer: Peer, stream: int) -> None:
    for _ in range(10):
        peer.send(DATA, stream, bytes(1 << 18), chan=1)


def out_of_order(peer: Peer, stream: int) -> None:
    peer.seq = 5
    peer.reply(stream, RESULT)


def from_the_past(peer: Peer, stream: int) -> None:
    peer.seq = -1
    peer.reply(stream, {**RESULT, "exit_code": 66})
    peer.raw(Binary.encode(99, 0, 0, 0, 0, b""))


def acknowledges_too_much(peer: Peer, stream: int) -> None:
    peer.send(REPLY, stream, pack(RESULT), ack=10**6)


VIOLATIONS: dict[str, Callable[[Peer, int], None]] = {
    "garbage": lambda peer, stream: peer.raw(b"\x1b[31mhello\n" * 50),
    "too large": lambda peer, stream: peer.raw(HEADER.pack(MAGIC, DATA, 1, stream, 1, 0, 2**30)),
    "out of order": out_of_order,
    "from the past": from_the_past,
    "acknowledges too much": acknowledges_too_much,
    "calls us": lambda peer, stream: peer.send(CALL, 9, pack({"op": "run"}, b"rm -rf /")),
    "greets again": lambda peer, stream: peer.raw(raw_hello(pack({}))),
    "endless reply": flood_of_pieces,
    "floods without credit": flood_without_credit,
    "senseless credit": lambda peer, stream: peer.send(CREDIT, stream, b"x"),
    "too much credit": lambda peer, stream: peer.send(CREDIT, stream, b"\xff\xff\xff\xff"),
    "reply without its length": lambda peer, stream: peer.send(REPLY, stream, b""),
    "reply that is no JSON": lambda peer, stream: peer.send(REPLY, stream, b"\0\0\0\4oops"),
    "reply that is no object": lambda peer, stream: peer.send(REPLY, stream, b"\0\0\0\2[]"),
    "deep reply": lambda peer, stream: peer.send(REPLY, stream, (90_000).to_bytes(4, "big") + b"[" * 90_000),
}


@pytest.mark.parametrize("name", VIOLATIONS)
async def test_violation(directory: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A guest that breaks the protocol in mid-command, and does so again each time it is asked."""
    found = await outcome(directory, monkeypatch, after_call(VIOLATIONS[name]))
    assert isinstance(found, HermesError), found
    assert isinstance(found, ProtocolError), f"it is said to be {found!r}, but the guest broke the protocol"


def changed(**changes: Any) -> Callable[[Peer, int], None]:
    return lambda peer, stream: peer.reply(stream, {**RESULT, **changes})


RESULTS: dict[str, Callable[[Peer, int], None]] = {
    "empty": lambda peer, stream: peer.reply(stream, {}),
    "no exit code": changed(exit_code=None),
    "exit code is a text": changed(exit_code="rm -rf"),
    "exit code is a list": changed(exit_code=[0]),
    "no duration": changed(duration={}),
    "sizes are no object": changed(sizes=[1, 2]),
    "sizes are texts": changed(sizes={"x": "y"}),
    "heads are no object": changed(heads=5),
    "heads are texts": changed(heads={"1": "x"}),
    "spill is nonsense": changed(truncated=True, spill={"1": 5}),
    "spill is a list": changed(truncated=True, spill=[1]),
    "spill has nonsense in it": changed(truncated=True, spill={"1": [None, "x", {}, 1]}),
    "spill of another stream": changed(truncated=True, spill={"7": ["/x", 1, 0, None]}),
    "state is missing": lambda peer, stream: peer.reply(
        stream, {k: v for k, v in RESULT.items() if k != "state"}
    ),
}


@pytest.mark.parametrize("name", RESULTS)
async def test_result(directory: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A result that makes no sense is a protocol error, not a crash."""
    found = await outcome(directory, monkeypatch, after_call(RESULTS[name]))
    assert isinstance(found, ProtocolError), found


async def test_more_output_than_asked_for(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flood(peer: Peer, stream: int) -> None:
        for _ in range(100):
            peer.send(DATA, stream, bytes(1000), chan=1)
        peer.reply(stream, RESULT)

    found = await outcome(directory, monkeypatch, after_call(flood))
    assert isinstance(found, ProtocolError), found


async def test_errors_of_a_guest_are_only_shown(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their texts are cut, their codes choose nothing but a class."""

    def fail(peer: Peer, stream: int) -> None:
        body = {
            "code": "x" * 10_000,
            "message": "y" * 100_000,
            "context": {"hint": ["z"], "self": 1, "path": 5},
        }
        peer.reply(stream, body, chan=1)

    found = await outcome(directory, monkeypatch, after_call(fail))
    assert isinstance(found, HermesError)
    assert len(found.message) <= 2000
    assert len(found.code) <= 64


@pytest.mark.parametrize(
    "body", [{}, {"code": None, "message": None}, {"code": [], "message": {}, "context": []}]
)
async def test_errors_that_make_no_sense(
    directory: Path, monkeypatch: pytest.MonkeyPatch, body: dict[str, object]
) -> None:
    found = await outcome(
        directory, monkeypatch, after_call(lambda peer, stream: peer.reply(stream, body, chan=1))
    )
    assert isinstance(found, HermesError)


async def test_frames_for_nobody_are_ignored(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers and data for calls that we did not make, or have forgotten, change nothing."""

    def act(peer: Peer, stream: int) -> None:
        peer.reply(999, {**RESULT, "exit_code": 66})
        peer.send(DATA, 12345, b"nobody's", chan=1)
        peer.send(EOF, 77)
        peer.send(CREDIT, 55, b"\0\0\0\1")
        peer.send(DATA, stream, b"hello\n", chan=1)
        peer.reply(stream, {**RESULT, "sizes": {"1": 6, "2": 0}})
        peer.reply(stream, {**RESULT, "exit_code": 67})

    found = await outcome(directory, monkeypatch, after_call(act))
    assert isinstance(found, hermes.Result)
    assert (found.exit_code, found.stdout) == (0, b"hello\n")


async def test_guest_that_keeps_hanging_up(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It greets well and hangs up, again and again: the command does not wait for ever."""

    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.call()

    found = await outcome(directory, monkeypatch, script)
    assert isinstance(found, SandboxGone), found


async def test_guest_that_is_another_one(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a lost link a guest with another identity answers: what ran is gone, and is not run again."""
    calls = 0

    async def script(peer: Peer) -> None:
        nonlocal calls
        await peer.greet(guest=f"g{calls}")
        calls += 1
        await peer.call()

    found = await outcome(directory, monkeypatch, script)
    assert isinstance(found, SandboxGone)
    assert not isinstance(found, hermes.errors.Unreachable)
    assert calls == 2


async def test_guest_that_answers_in_single_bytes(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        stream = await peer.call()
        data = Binary.encode(DATA, 1, stream, 1, 1, b"hello\n")
        data += Binary.encode(REPLY, 0, stream, 2, 1, pack({**RESULT, "sizes": {"1": 6, "2": 0}}))
        for at in range(len(data)):
            peer.raw(data[at : at + 1])
            await asyncio.sleep(0)
        await rest(peer)

    found = await outcome(directory, monkeypatch, script)
    assert isinstance(found, hermes.Result)
    assert found.stdout == b"hello\n"


LISTS: dict[str, Any] = {
    "nothing": {},
    "no list": {"tasks": 5, "sessions": 5},
    "texts": {"tasks": ["x"], "sessions": ["x"]},
    "empty objects": {"tasks": [{}], "sessions": [{}]},
    "wrong types": {
        "tasks": [{"id": 1, "kind": 2, "command": 3, "pid": "x", "state": []}],
        "sessions": [{"name": 1, "cwd": 2, "created": "x", "running": 5, "queued": []}],
    },
}


@pytest.mark.parametrize("name", LISTS)
async def test_lists(directory: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Lists of jobs and sessions that make no sense are protocol errors."""

    async def script(peer: Peer) -> None:
        await peer.greet()
        while True:
            asked = await peer.asked()
            peer.reply(asked["stream"], LISTS[name])

    async with hostile(directory, monkeypatch, script) as box:
        await box.open()
        for ask in (
            box.jobs,
            box.sessions,
            lambda: box.start("x"),
            lambda: box.files.stat("x"),
            box.files.list,
        ):
            try:
                async with asyncio.timeout(LIMIT):
                    found = await ask()
            except ProtocolError:
                continue
            assert found == [], (ask, found)
