"""What becomes of a judge's decision in each mode, with and without somebody to ask."""

import asyncio
from typing import Any

import pytest

from hermes.approval import Action, AllowAll, Decision, Judge, Mode, Request, check
from hermes.errors import Refused

REQUEST = Request(kind="run", text="rm -rf /secret", backend="local")


class Fixed:
    name = "fixed"

    def __init__(self, action: Action) -> None:
        self.action: Action = action

    def judge(self, request: Request, state: object = None) -> Decision:
        return Decision(action=self.action, reason="it deletes", rule="recursive-delete")


class Broken:
    name = "broken"

    def judge(self, request: Request, state: object = None) -> Decision:
        raise ZeroDivisionError("oops")


def yes(request: Request, decision: Decision) -> bool:
    return True


async def yes_later(request: Request, decision: Decision) -> bool:
    await asyncio.sleep(0)
    return True


@pytest.mark.parametrize("mode", ["ask", "strict", "off"])
async def test_allow_all_allows_in_every_mode(mode: Mode) -> None:
    judge: Judge = AllowAll()
    assert judge.name == "allow-all"
    await check(judge, REQUEST, mode=mode, on_approval=None)


@pytest.mark.parametrize(
    ("action", "mode", "asks", "goes"),
    [
        ("allow", "ask", None, True),
        ("allow", "strict", None, True),
        ("allow", "off", None, True),
        ("ask", "ask", yes, True),
        ("ask", "ask", yes_later, True),
        ("ask", "ask", None, False),
        ("ask", "strict", yes, False),
        ("ask", "off", None, True),
        ("block", "ask", yes, False),
        ("block", "strict", yes, False),
        ("block", "off", yes, False),
    ],
)
async def test_the_table(action: Action, mode: Mode, asks: Any, goes: bool) -> None:
    if goes:
        await check(Fixed(action), REQUEST, mode=mode, on_approval=asks)
        return
    with pytest.raises(Refused) as caught:
        await check(Fixed(action), REQUEST, mode=mode, on_approval=asks)
    error = caught.value
    assert error.rule == "recursive-delete"
    assert error.operation == "run"
    assert "nothing was run: it deletes (rule recursive-delete)" in str(error)
    assert "/secret" not in str(error) + repr(error.context)


@pytest.mark.parametrize("answer", [False, None, 1, "yes", "n", object()])
async def test_only_true_is_a_yes(answer: Any) -> None:
    with pytest.raises(Refused, match="the answer was no"):
        await check(Fixed("ask"), REQUEST, mode="ask", on_approval=lambda request, decision: answer)


async def test_the_human_sees_the_request_and_the_decision() -> None:
    seen: list[Any] = []

    def ask(request: Request, decision: Decision) -> bool:
        seen.extend((request, decision))
        return True

    await check(Fixed("ask"), REQUEST, mode="ask", on_approval=ask)
    assert seen == [REQUEST, Fixed("ask").judge(REQUEST)]


async def test_nobody_to_ask_says_what_to_do() -> None:
    with pytest.raises(Refused, match="There is nobody to ask: pass on_approval"):
        await check(Fixed("ask"), REQUEST, mode="ask", on_approval=None)


@pytest.mark.parametrize("mode", ["ask", "strict", "off"])
async def test_what_fails_refuses(mode: Mode) -> None:
    with pytest.raises(Refused, match="the judge 'broken' failed"):
        await check(Broken(), REQUEST, mode=mode, on_approval=yes)

    def ask(request: Request, decision: Decision) -> bool:
        raise OSError("no terminal")

    if mode == "ask":
        with pytest.raises(Refused, match="asking failed: OSError"):
            await check(Fixed("ask"), REQUEST, mode=mode, on_approval=ask)


async def test_an_unknown_action_refuses() -> None:
    with pytest.raises(Refused):
        await check(Fixed("perhaps"), REQUEST, mode="off", on_approval=yes)  # type: ignore[arg-type]


async def test_cancelling_the_question_is_no_refusal() -> None:
    async def for_ever(request: Request, decision: Decision) -> bool:
        await asyncio.sleep(60)
        return True

    task = asyncio.create_task(check(Fixed("ask"), REQUEST, mode="ask", on_approval=for_ever))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
