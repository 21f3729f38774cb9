"""One turn: the model answers, its tools are called, until it has nothing more to call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart

from hermes._json import plain
from hermes._tasks import settled
from hermes.errors import HermesError, ModelError
from hermes.sandbox import Sandbox
from hermes.tools import TOOLS, Outcome

from ._cost import Cost
from ._history import Conversation
from ._model import Connection
from ._request import TooLong, answered
from ._system import system_text

__all__ = ["Turn", "View"]

MOST_CALLS = 64  # in one answer
STOP_SECONDS = 10.0  # for the sandbox to end a command that was interrupted
LAST_WORDS = 2.0  # for its last output

NOT_RUN = "It was not run: {why}."
INTERRUPTED = "[the user interrupted this: it was ended, and what it has printed until then is above]"


class View(Protocol):
    """Who shows a turn while it goes on. Nothing of it decides anything."""

    def text(self, text: str) -> None:
        """Take a piece of the model's answer."""

    def answer(self, response: ModelResponse) -> None:
        """Take the whole of an answer, whose text was shown."""

    def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        """A tool is called."""

    def output(self, data: bytes) -> None:
        """Take what a command prints, as it comes."""

    def result(self, outcome: Outcome) -> None:
        """The tool has come to its end."""

    def note(self, line: str) -> None:
        """Take a line that says what goes on."""


class Turn:
    """What the model does about one message. It may be interrupted: first its command, then the whole."""

    def __init__(
        self,
        box: Sandbox,
        connection: Connection,
        talk: Conversation,
        view: View,
        *,
        stop: Callable[[Sandbox], Awaitable[bool]],
        cost: Cost | None = None,
        cwd: str | None = None,
    ) -> None:
        """Begin nothing yet.

        :param stop: asks a sandbox to end the commands that this process runs; False when there are none
        :param cwd: where the default session is, if that is known
        """
        self._box = box
        self._connection = connection
        self._talk = talk
        self._view = view
        self._stop = stop
        self._cost = cost or Cost()
        self._cwd = cwd
        self._tool: asyncio.Task[Outcome] | None = None
        self._interrupted = False
        self._stopping: asyncio.Task[None] | None = None

    async def run(self, text: str) -> str:
        """Return the model's last words.

        :raises ModelError: the model does not answer, or does not come to an end
        :raises HermesError: the place does not work, which ends the turn
        """
        system = system_text(self._box, self._cwd)
        await self._talk.add(ModelRequest([UserPromptPart(text)], instructions=system))
        steps = self._connection.settings.max_steps
        for _ in range(steps):
            response = await self._answer()
            await settled(self._talk.add(response))
            self._cost.add(response)
            self._view.answer(response)
            calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
            if not calls:
                if response.finish_reason == "length":
                    self._view.note("the answer ends here because it reached its limit: model.max_tokens")
                return "".join(part.content for part in response.parts if part.part_kind == "text")
            await self._work(calls, system)
        raise ModelError(
            f"the turn was ended after {steps} answers of the model",
            code="model_steps",
            hint="Say 'go on' for as many more; model.max_steps is the setting.",
        )

    def interrupt(self) -> bool:
        """End the command that runs; False when there is none: then it is the turn that has to end."""
        if self._tool is None or self._interrupted:
            return False
        self._interrupted = True
        self._stopping = asyncio.ensure_future(self._end(self._tool))
        return True

    async def _end(self, tool: asyncio.Task[Outcome]) -> None:
        try:
            async with asyncio.timeout(STOP_SECONDS):
                asked = await self._stop(self._box)
        except (HermesError, TimeoutError):
            asked = False
        if asked:
            await asyncio.wait({tool}, timeout=LAST_WORDS)
        tool.cancel()

    async def _answer(self) -> ModelResponse:
        while True:
            try:
                return await answered(
                    self._connection,
                    self._talk.messages,
                    on_text=self._view.text,
                    on_wait=self._view.note,
                )
            except TooLong:
                if not self._talk.shorten():
                    raise ModelError(
                        "the conversation is longer than the model takes",
                        code="model_too_long",
                        hint="/new begins another one.",
                    ) from None
                self._view.note("the conversation was too long: old results are left out from now on")

    async def _work(self, calls: list[ToolCallPart], system: str) -> None:
        """Make the calls of one answer, in their order, and keep what came of each, whatever happens."""
        parts: list[ToolReturnPart] = []
        why = "the turn was ended before"
        self._interrupted = False
        try:
            for number, call in enumerate(calls):
                if self._interrupted:
                    why = "the user interrupted what was called before it"
                    break
                if number == MOST_CALLS:
                    why = f"an answer may have {MOST_CALLS} calls at the most"
                    break
                parts.append(await self._called(call))
        except HermesError as error:
            failed = calls[len(parts)]
            said = f"The place does not work: {plain(str(error))}. The turn was ended."
            parts.append(_returned(failed, said, "failed"))
            raise
        except asyncio.CancelledError:
            parts.append(
                _returned(calls[len(parts)], "The user ended the turn, and this with it.", "interrupted")
            )
            raise
        finally:
            # A call without a result would be an answer that no model takes back.
            parts += [_returned(call, NOT_RUN.format(why=why), "interrupted") for call in calls[len(parts) :]]
            await settled(self._talk.add(ModelRequest(parts, instructions=system)))

    async def _called(self, call: ToolCallPart) -> ToolReturnPart:
        tool = TOOLS.get(call.tool_name)
        if tool is None:
            known = ", ".join(TOOLS)
            said = f"there is no tool '{plain(call.tool_name)[:100]}'; there are: {known}. Nothing was done."
            self._view.note(f"the model called a tool that there is not: {plain(call.tool_name)[:100]}")
            return _returned(call, said, "failed")
        arguments = _arguments(call)
        if arguments is None:
            self._view.note(f"the model called {tool.name} with arguments that cannot be read")
            said = (
                f"{tool.name}: the arguments are no JSON object; nothing was done. Call it again, with one."
            )
            return _returned(call, said, "failed")
        self._view.call(tool.name, arguments)
        self._tool = asyncio.ensure_future(tool.call(self._box, arguments, on_output=self._view.output))
        try:
            outcome = await self._tool
        except asyncio.CancelledError:
            us = asyncio.current_task()
            if not self._interrupted or (us is not None and us.cancelling()):
                raise
            return _returned(call, "The user interrupted this; it was ended.", "interrupted")
        finally:
            self._tool = None
        self._view.result(outcome)
        if self._interrupted:
            return _returned(call, f"{outcome.text}\n{INTERRUPTED}", "interrupted")
        return _returned(call, outcome.text, "failed" if outcome.failed else "success")


def _returned(call: ToolCallPart, text: str, outcome: Any) -> ToolReturnPart:
    return ToolReturnPart(call.tool_name, text, call.tool_call_id, outcome=outcome)


def _arguments(call: ToolCallPart) -> dict[str, Any] | None:
    """Return a call's arguments, None when they cannot be read."""
    if isinstance(call.args, dict):
        return call.args
    try:
        found = json.loads(call.args or "{}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
