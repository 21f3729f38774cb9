"""The two ways to use it: one task, and a conversation at a terminal."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

from hermes._json import whole_characters
from hermes.approval import Nobody, OnApproval
from hermes.cli._place import Chosen
from hermes.cli._report import clean, report, say
from hermes.cli._run import run
from hermes.errors import HermesError, exit_code, status

from ._chat import Chat
from ._commands import Commands
from ._history import Conversation
from ._model import Connection
from ._screen import Screen

__all__ = ["ask_once", "converse"]

T = TypeVar("T")
Asker = OnApproval | Nobody


def ask_once(
    connection: Connection,
    talk: Conversation,
    chosen: Chosen,
    text: str,
    *,
    on_approval: Asker,
    json: bool = False,
) -> int:
    """Do one task and return the exit code. Ctrl-C ends the command that runs, and then the task."""
    chat = Chat(connection, talk, on_approval=on_approval, quiet=json)
    if not json:
        return run(_once(chat, chosen, text))
    code = 0
    found: dict[str, Any] = {"answer": None, "error": None}
    try:
        with contextlib.redirect_stdout(sys.stderr):
            code = run(_once(chat, chosen, text, found))
    except HermesError as error:
        code = exit_code(error)
        found["error"] = {"code": error.code, "message": error.message, "hint": error.hint}
        found["status"] = status(error)
    import json as encoder

    cost = chat.cost
    where = {"backend": chosen.backend, "sandbox": chosen.name, "conversation": talk.id}
    used = {"answers": cost.answers, "input_tokens": cost.input_tokens, "output_tokens": cost.output_tokens}
    known = {"price_usd": None if cost.unpriced else round(cost.price, 6)}
    print(encoder.dumps({"status": "ok" if code == 0 else "failed", **found, **where, "used": used | known}))
    return code


async def _once(chat: Chat, chosen: Chosen, text: str, found: dict[str, Any] | None = None) -> int:
    numbers: list[int] = []

    async def work() -> str:
        await chat.enter(chosen, once=True)
        return await chat.say(text)

    task = asyncio.ensure_future(work())

    def on_signal(number: int) -> None:
        if number == signal.SIGINT and chat.interrupt() == "command":
            return
        numbers.append(number)
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal, number)
    try:
        answer = await task
        if found is not None:
            found["answer"] = answer
        return 0
    except asyncio.CancelledError:
        if not numbers:
            raise
        say("the task was ended; what was done until then is done.")
        return 128 + numbers[0]
    finally:
        await chat.close()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)


class _Loop:
    """An event loop in a thread of its own, so that this one can wait for keys and signals."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> _Loop:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def call(self, work: Coroutine[Any, Any, T], on_interrupt: Callable[[], object] | None = None) -> T:
        """Wait for a coroutine. Ctrl-C calls *on_interrupt* on the loop; without one it cancels the work.

        :raises asyncio.CancelledError: it was cancelled
        """
        task = asyncio.run_coroutine_threadsafe(work, self.loop)
        while True:
            try:
                return task.result()
            except KeyboardInterrupt:
                if on_interrupt is None:
                    task.cancel()
                else:
                    self.loop.call_soon_threadsafe(on_interrupt)
            except concurrent.futures.CancelledError:
                raise asyncio.CancelledError from None
            except BaseException:
                if not task.done():  # we are to end, and not the work
                    task.cancel()
                raise


def converse(
    connection: Connection,
    talk: Conversation,
    chosen: Chosen,
    *,
    on_approval: Asker,
    choose: Callable[[str], Chosen],
) -> int:
    """Talk until the person leaves, and return the exit code.

    :param choose: settles a place that is named
    """
    import readline  # noqa: F401  # lines can be edited, and come back with the arrow keys

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    with Screen() as screen, _Loop() as loop:
        chat = Chat(connection, talk, on_approval=on_approval, on_place=screen.show)
        commands = Commands(chat, loop.call, choose)
        before = [(number, signal.signal(number, end)) for number in (signal.SIGTERM, signal.SIGHUP)]
        try:
            loop.call(chat.enter(chosen))
            print(f"{connection.name} works in this place: /help says what else there is, /quit leaves.")
            if talk.messages:
                commands.recall()
            _talk(chat, commands, loop)
        except asyncio.CancelledError:
            return 130
        finally:
            loop.call(chat.close())
            for number, handler in before:
                signal.signal(number, handler)
    if talk.messages:
        say("the conversation is kept: 'hermes --continue' goes on with it.")
    return 0


def _talk(chat: Chat, commands: Commands, loop: _Loop) -> None:
    while True:
        try:
            line = input(f"{clean(chat.chosen.backend)}> ").strip()
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print("\n(Ctrl-D or /quit leaves.)")
            continue
        if not line:
            continue
        try:
            if commands.is_one(line):
                if not commands.run(line):
                    return
            else:
                loop.call(chat.say(whole_characters(line)), chat.interrupt)
        except asyncio.CancelledError:
            print("(You ended the turn. What was done until then is done.)")
        except HermesError as error:
            report(error, debug=False)
