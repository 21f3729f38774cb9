"""Which sudo the client gives the password to, with a guest that may ask anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hermes.approval import Decision, Program, Request
from hermes.approval.gate import Gate, Place
from hermes.approval.password import MAX_OPEN, Password, _digest
from hermes.guest.frames import pack, unpack


class Asks:
    """A judge that asks about everything, and sees in it one program."""

    name = "asks"

    def judge(self, request: Request, state: object = None) -> Decision:
        return Decision(action="ask", reason="why not", programs=(Program(tuple(request.text.split())),))


class Stream:
    """A guest's questions, and the answers to them."""

    def __init__(self, *questions: bytes) -> None:
        self.questions = questions
        self.answers: list[tuple[dict[str, Any], bytes]] = []
        self.cancelled = False

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        for question in self.questions:
            yield 1, question

    async def reply(self) -> None:
        await asyncio.sleep(0)

    async def send(self, data: bytes) -> None:
        self.answers.append(unpack(data))

    def cancel(self) -> None:
        self.cancelled = True


class Channel:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def open(self, operation: str) -> Stream:
        assert operation == "sudo"
        return self.stream


async def answers(password: Password, *questions: dict[str, Any]) -> list[tuple[dict[str, Any], bytes]]:
    stream = Stream(*(pack(question) for question in questions))
    password.watch(Channel(stream))  # type: ignore[arg-type]
    while password._work:
        await asyncio.sleep(0)
    return stream.answers


def gate(**options: Any) -> Gate:
    return Gate(Asks(), Place(backend="local"), **options)


def sudo(*words: str, command: str = "") -> dict[str, Any]:
    return {"id": 1, "argv": ["/any/thing", *words], "command": _digest(command)}


@pytest.mark.parametrize(
    ("passed", "asked", "given"),
    [
        ("sudo id -u", ("id", "-u"), True),
        ("/usr/bin/sudo id -u", ("id", "-u"), True),
        ("sudoedit /etc/hosts", ("/etc/hosts",), True),
        ("sudo id -u", ("id", "-g"), False),
        ("sudo id -u", ("id",), False),
        ("sudo id -u", ("id", "-u", "-n"), False),
        ("sudo install …", ("install", "a", "b"), True),
        ("sudo install --to=… b", ("install", "--to=x", "anything"), True),
        ("sudo install …", ("remove", "a"), False),
        ("sudo …", ("rm", "-rf", "/"), True),
        ("sudoku id", ("id",), False),
        ("id -u", ("id", "-u"), False),
    ],
)
async def test_what_was_let_through_gets_it(passed: str, asked: tuple[str, ...], given: bool) -> None:
    password = Password("s3cret", gate())
    password.passed("text", Decision(action="ask", programs=(Program(tuple(passed.split())),)))
    [(answer, secret)] = await answers(password, sudo(*asked, command="text"))
    assert secret == (b"s3cret" if given else b"")
    assert ("message" in answer) == (not given)
    [(_, secret)] = await answers(password, sudo(*asked, command="another text"))
    assert secret == b""


async def test_what_was_not_is_asked_about() -> None:
    asked: list[str] = []

    def answer(request: Request, decision: Decision) -> bool:
        asked.append(request.text)
        return "yes" in request.text

    password = Password("s3cret", gate(on_approval=answer))
    found = await answers(password, sudo("say", "yes it's"), sudo("say", "no"))
    assert [secret for _, secret in found] == [b"s3cret", b""]
    assert asked == ["sudo say 'yes it'\"'\"'s'", "sudo say no"]
    assert "s3cret" not in repr(password)


async def test_a_guest_that_floods_or_lies_gets_nothing() -> None:
    waiting = asyncio.Event()

    async def never(request: Request, decision: Decision) -> bool:
        await waiting.wait()
        return False

    password = Password("s3cret", gate(on_approval=never))
    asking = asyncio.gather(answers(password, *(sudo("x") for _ in range(100))))
    await asyncio.sleep(0.05)
    assert len(password._work) <= MAX_OPEN + 1
    waiting.set()
    (found,) = await asking
    assert not any(secret for _, secret in found)
    for bad in ({"id": "one", "argv": []}, {"id": 1}, {"id": 1, "argv": [1]}, {}):
        assert await answers(password, bad) == []
    password.close()
