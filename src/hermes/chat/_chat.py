"""A conversation in force: the place that it is in, the model, and one turn at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from pydantic_ai.messages import ModelResponse

from hermes.approval import Nobody, OnApproval
from hermes.cli._place import Chosen
from hermes.cli._run import end_sessions, opened, own_shell, stop_runs
from hermes.sandbox import Sandbox
from hermes.tools import place_line

from ._cost import Cost
from ._history import Conversation
from ._model import Connection
from ._turn import Turn
from ._view import TerminalView

__all__ = ["Chat", "place_of"]

MOVED = "[The place has changed: from now on everything runs in the one that you were told of.]\n\n"


def place_of(chosen: Chosen) -> dict[str, Any]:
    """Return what a conversation keeps of a place, so that it can be gone on with there."""
    host = chosen.options.get("host")
    return {"backend": chosen.backend, "host": host, "name": chosen.name, "workspace": chosen.workspace}


class Chat:
    """Everything that goes on, on one event loop."""

    def __init__(
        self,
        connection: Connection,
        talk: Conversation,
        *,
        on_approval: OnApproval | Nobody,
        on_place: Callable[[str], None] = lambda line: None,
        quiet: bool = False,
    ) -> None:
        """Begin nothing yet.

        :param on_place: is told where commands run, whenever that has changed
        """
        self.connection = connection
        self.talk = talk
        self.cost = Cost()
        for message in talk.messages:
            if isinstance(message, ModelResponse):
                self.cost.add(message)
        self._on_approval = on_approval
        self._on_place = on_place
        self._quiet = quiet
        self._stack = contextlib.AsyncExitStack()
        self._box: Sandbox | None = None
        self._chosen: Chosen | None = None
        self._view: TerminalView | None = None
        self._cwd: str | None = None
        self._turn: Turn | None = None
        self._task: asyncio.Task[str] | None = None
        self._said_moved = True

    @property
    def box(self) -> Sandbox:
        assert self._box is not None
        return self._box

    @property
    def chosen(self) -> Chosen:
        assert self._chosen is not None
        return self._chosen

    async def enter(self, chosen: Chosen, *, once: bool = False) -> None:
        """Open a place, and leave the one before when that has worked.

        :param once: it is for one turn: what is paid for is not left behind
        :raises HermesError: it could not be opened; the one before stays
        """
        stack = contextlib.AsyncExitStack()
        box = await stack.enter_async_context(
            opened(chosen, quiet=self._quiet, once=once, on_approval=self._on_approval)
        )
        if once and box._place is not None and box._place.paid:
            known = {one.name for one in await box.sessions()}
            stack.push_async_callback(_end_new, box, known)
        cwd = await stack.enter_async_context(own_shell(box))
        before, self._stack = self._stack, stack
        moved = self._box is not None
        self._box, self._chosen, self._cwd = box, chosen, cwd
        host = chosen.options.get("host")
        word = chosen.backend + (f":{host}" if host else "")
        self._view = TerminalView(place=word, quiet=self._quiet, on_cwd=self._went)
        if moved or self.talk.place != place_of(chosen):
            self._said_moved = not (moved or self.talk.messages)
            await self.talk.moved(place_of(chosen))
        self._show()
        await before.aclose()

    def _went(self, cwd: str) -> None:
        if cwd != self._cwd:
            self._cwd = cwd
            self._show()

    def _show(self) -> None:
        self._on_place(place_line(self.box, self._cwd))

    def set_mode(self, mode: Any) -> None:
        """Let approval ask otherwise from now on, in this conversation alone."""
        if self.box._gate is not None:
            self.box._gate.mode = mode
        self._show()

    async def say(self, text: str) -> str:
        """Take one turn, and return the model's last words.

        :raises HermesError: the model or the place does not work
        :raises asyncio.CancelledError: the turn was ended by :meth:`interrupt`
        """
        assert self._view is not None
        text, self._said_moved = text if self._said_moved else MOVED + text, True
        self._turn = Turn(
            self.box, self.connection, self.talk, self._view, stop=stop_runs, cost=self.cost, cwd=self._cwd
        )
        self._task = asyncio.ensure_future(self._turn.run(text))
        try:
            return await self._task
        except asyncio.CancelledError:
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait({self._task})
            raise
        finally:
            self._view.cut()
            self._turn = self._task = None

    def interrupt(self) -> str:
        """End the command that runs, or else the turn; return which of them, empty when nothing goes on."""
        if self._turn is None or self._task is None:
            return ""
        if self._view is not None:
            self._view.interrupted()
        if self._turn.interrupt():
            return "command"
        self._task.cancel()
        return "turn"

    async def close(self) -> None:
        """Leave the place, and the conversation."""
        await self._stack.aclose()
        self.talk.close()


async def _end_new(box: Sandbox, known: set[str]) -> None:
    """End the sessions that we have made: with one left the place would count as in use."""
    await end_sessions(box, box._sessions - known)
