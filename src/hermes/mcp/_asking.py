"""Approval by way of the client: what is asked reaches the person who sits there, or is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from mcp_types import ElicitResult

from hermes.approval import Answer, Decision, Request, refusal
from hermes.approval.grants import proposed
from hermes.cli._prompt import described, question

__all__ = ["Asker", "Line", "Question"]

PATIENCE = 300.0  # seconds; a client that never answers is a no
WIDTH = 300  # clients wrap lines by themselves
MAX_REASON = 500

NO_WAY = (
    "This client cannot ask its user (it has no elicitation). The user can allow it by a rule "
    "(approvals.allow), or choose a place that is a sandbox."
)


@dataclass
class Question:
    """Something that waits for a person, as the client is to show it."""

    message: str
    schema: dict[str, Any]
    answer: asyncio.Future[Answer | str]
    over: asyncio.Event

    def take(self, result: ElicitResult | None) -> None:
        """Take the client's answer; none at all is a no."""
        self.settle(result.action if result else None, result.content if result else None)

    def settle(self, action: str | None, content: Mapping[str, Any] | None) -> None:
        """Take what the client says. Whatever is not one of the offered answers is a no."""
        if self.answer.done():
            return
        said = (content or {}).get("answer") if action == "accept" else None
        offered = self.schema["properties"]["answer"]["enum"]
        if said in offered and said != "deny":
            self.answer.set_result(Answer(said))
            return
        reason = (content or {}).get("reason") if action == "accept" else None
        why = reason.strip()[:MAX_REASON] if isinstance(reason, str) else ""
        dismissed = "the question was dismissed" if action == "cancel" else "the answer was no"
        self.answer.set_result(f"{dismissed}: {why}" if why else dismissed)


class Line:
    """One call's line to its client's user.

    ``open`` is whether the client can ask at all; ``alone`` whether there is no other client, who would have
    what this one's session is granted.
    """

    def __init__(self, *, open: bool, alone: bool) -> None:
        self.open = open
        self.alone = alone
        self.questions: asyncio.Queue[Question] = asyncio.Queue()
        self.waits = False

    async def ask(self, message: str, schema: dict[str, Any]) -> Answer | str:
        """Return the answer, a text that says why it is none.

        :raises TimeoutError: there was none
        """
        answer: asyncio.Future[Answer | str] = asyncio.get_running_loop().create_future()
        question = Question(message, schema, answer, asyncio.Event())
        self.questions.put_nowait(question)
        self.waits = True
        try:
            async with asyncio.timeout(PATIENCE):
                return await answer
        finally:
            self.waits = False
            question.over.set()


CURRENT: ContextVar[Line | None] = ContextVar("line", default=None)
"""The line of the call that this task works for."""


class Asker:
    """Answers for a sandbox whose commands come from clients."""

    how = "mcp"

    async def __call__(self, request: Request, decision: Decision) -> Answer:
        line = CURRENT.get()
        if line is None or not line.open:
            raise refusal(request, decision.reason, decision.rule, NO_WAY)
        choices = ["deny", "once"]
        if decision.grantable:
            choices += ["session", "always"] if line.alone else ["always"]
        try:
            answer = await line.ask(_message(request, decision, choices), _schema(choices))
        except TimeoutError:
            answer = f"nobody answered within {PATIENCE:g} s"
        if isinstance(answer, Answer):
            return answer
        raise refusal(request, f"{answer} ({decision.reason})", decision.rule)


def _message(request: Request, decision: Decision, choices: list[str]) -> str:
    lines = question(request, decision, WIDTH)
    lines += ["", "deny is the default. once: now, and never again without asking."]
    if "session" in choices:
        lines.append("session: the very same is not asked again while this server runs.")
    if "always" in choices:
        lines.append("always stores this:")
        lines += [
            f"  {line}" for line in described(proposed(request, decision), request, decision, WIDTH - 2)
        ]
    return "\n".join(lines).strip("\n")


def _schema(choices: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "answer": {
                "type": "string",
                "title": "May it run?",
                "description": "Without a choice it does not run.",
                "enum": choices,
                "default": "deny",
            },
            "reason": {
                "type": "string",
                "title": "Reason, for the model",
                "description": "With deny: what it should do instead. May be empty.",
                "maxLength": MAX_REASON,
            },
        },
        "required": ["answer"],
    }
