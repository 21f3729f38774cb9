"""What the person can say to hermes itself, by lines that begin with a slash. No model can."""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

from hermes.cli._place import Chosen
from hermes.cli._report import clean
from hermes.cli._text import age, table
from hermes.tools import place_text

from ._chat import Chat
from ._cost import Cost
from ._history import Conversation
from ._live import Live

__all__ = ["Commands"]

T = TypeVar("T")

HELP = {
    "/help": "this list",
    "/sandbox": "where everything runs; /sandbox docker goes elsewhere, for this conversation",
    "/jobs": "what runs in the background; /jobs ID shows its output, /jobs kill ID ends it",
    "/approve": "what is asked; /approve strict (or ask, off) changes it, for this conversation",
    "/cost": "what this conversation has used",
    "/new": "another conversation, in the same place",
    "/quit": "leave; files, sessions and jobs stay as the place keeps them",
}
MODES = {
    "ask": "what cannot be undone, or is not known, is asked about",
    "strict": "everything is asked about that is not known to be read-only",
    "off": "NOTHING is asked about; only what destroys the machine is blocked",
}
TAIL = 4096  # bytes of a job's output
WIDTH = 79


class Call(Protocol):
    """Waits for a coroutine on the loop where everything goes on."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


class Commands:
    """Runs them for one conversation."""

    def __init__(self, chat: Chat, call: Call, choose: Callable[[str], Chosen]) -> None:
        self._chat = chat
        self._call = call
        self._choose = choose

    @staticmethod
    def is_one(line: str) -> bool:
        """Say whether a line is one; a path is none."""
        return re.match(r"/[a-z]*(?:\s|$)", line) is not None

    def run(self, line: str) -> bool:
        """Do it; False when the person leaves.

        :raises HermesError: it could not be done
        """
        name, *words = line.split()
        if name in ("/quit", "/exit"):
            return False
        known = {
            "/help": self._help,
            "/sandbox": self._sandbox,
            "/jobs": self._jobs,
            "/approve": self._approve,
            "/cost": self._cost,
            "/new": self._new,
        }
        if name not in known:
            print(f"There is no {clean(name)}; /help lists what there is.")
        else:
            known[name](words)
        return True

    def recall(self) -> None:
        """Show how the conversation stands that goes on."""
        found = [said for message in self._chat.talk.messages for said in _said(message)]
        asked = sum(who == "you" for who, _ in found)
        print(f"(It goes on after {asked} messages of yours.)")
        for who, text in found[-2:]:
            print(textwrap.indent(textwrap.shorten(clean(text, keep="\n"), 600), "  ", lambda _: True)
                  if who == "model" else f"> {textwrap.shorten(clean(text), 300)}")  # fmt: skip

    def _help(self, words: list[str]) -> None:
        for name, meaning in HELP.items():
            _field(name, meaning)
        print("Ctrl-C ends the command that runs, and once more the turn.")

    def _sandbox(self, words: list[str]) -> None:
        if not words:
            for line in place_text(self._chat.box).split("\n"):
                print(textwrap.fill(clean(line), WIDTH, subsequent_indent="  ", break_on_hyphens=False))
            return
        if len(words) > 1:
            print("Name one place, such as docker or ssh:HOST.")
            return
        self._call(self._chat.enter(self._choose(words[0])))
        print("Everything runs there from now on. The default is what it was.")

    def _jobs(self, words: list[str]) -> None:
        if not words:
            self._list()
        elif words[0] == "kill" and len(words) == 2:
            self._call(self._chat.box.kill(words[1]))
            print(f"{clean(words[1])} was ended.")
        elif len(words) == 1:
            self._show(words[0])
        else:
            print("/jobs, /jobs ID, or /jobs kill ID.")

    def _list(self) -> None:
        jobs = self._call(self._chat.box.jobs())
        if not jobs:
            print("Nothing runs in the background.")
            return
        now = time.time()
        rows = [
            [
                one.id,
                one.state if one.exit_code is None else f"exit {one.exit_code}",
                age(None if one.started is None else now - one.started),
                one.command,
            ]
            for one in jobs
        ]
        print(table(["ID", "STATE", "AGE", "COMMAND"], rows))

    def _show(self, ident: str) -> None:
        async def read() -> tuple[bytes, Any]:
            job = await self._chat.box.job(ident)
            info = await job.info()
            return await job.output(max(0, info.bytes - TAIL), TAIL), info

        data, info = self._call(read())
        live = Live(lambda text: print(text, end=""))
        live.take(data)
        live.end()
        print(
            f"  = {clean(info.state)}" + ("" if info.exit_code is None else f", exit code {info.exit_code}")
        )

    def _approve(self, words: list[str]) -> None:
        gate = self._chat.box._gate
        if gate is None or gate.scope == "rules":
            print("Nothing is asked here: the place is the boundary. Your deny rules hold.")
            return
        if words and words[0] in MODES and len(words) == 1:
            self._call(_done(lambda: self._chat.set_mode(words[0])))
        elif words:
            print("/approve, or /approve with one of: " + ", ".join(MODES) + ".")
            return
        print(f"{gate.mode}: {MODES[gate.mode]}.")
        print("'hermes approvals ls' has what was granted for always, 'log' what was answered.")

    def _cost(self, words: list[str]) -> None:
        print(f"{self._chat.connection.name}: {self._chat.cost.text()}.")
        place = self._chat.box._place
        if place is not None and place.paid:
            print(f"{self._chat.chosen.backend} is billed as well: 'hermes usage' shows about what.")

    def _new(self, words: list[str]) -> None:
        chat = self._chat
        chat.talk.close()
        chat.talk = Conversation.begin(chat.talk.place)
        chat.cost = Cost()
        print("Another conversation begins. The place, its files and sessions are as they were.")


async def _done(work: Callable[[], None]) -> None:
    work()


def _field(name: str, text: str) -> None:
    print(textwrap.fill(f"{name:<10}{text}", WIDTH, subsequent_indent=" " * 10))


def _said(message: Any) -> list[tuple[str, str]]:
    if isinstance(message, ModelRequest):
        return [("you", one.content) for one in message.parts
                if isinstance(one, UserPromptPart) and isinstance(one.content, str)]  # fmt: skip
    if isinstance(message, ModelResponse):
        text = "".join(one.content for one in message.parts if isinstance(one, TextPart))
        return [("model", text)] if text else []
    return []
