"""The loop itself, on an open sandbox, without a command line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import msgspec

import hermes
from chat._server import KEY, Server
from hermes.config import Config
from hermes.config._model import OWN


class Seeing:
    """Keeps what a screen would have been shown."""

    def __init__(self) -> None:
        self.said = ""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.printed = b""
        self.outcomes: list[Any] = []
        self.times: list[float] = []
        self.notes: list[str] = []

    def text(self, text: str) -> None:
        self.said += text

    def answer(self, response: Any) -> None:
        self.said += "\n"

    def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        self.calls.append((name, dict(arguments)))

    def output(self, data: bytes) -> None:
        self.printed += data

    def result(self, outcome: Any) -> None:
        self.outcomes.append(outcome)
        self.times.append(time.perf_counter())

    def note(self, line: str) -> None:
        self.notes.append(line)


async def connected(server: Server, **settings: Any) -> Any:
    """Return a connection to the scripted model. What it needs is imported off the event loop."""

    def load() -> Any:
        import os

        from hermes.chat import Connection

        os.environ[OWN] = KEY  # of the test alone: the fixture puts the environment back
        wanted = {"name": "scripted", "base_url": server.url, **settings}
        return Connection.open(msgspec.convert({"model": wanted}, Config))

    return await asyncio.to_thread(load)


async def turn(box: hermes.Sandbox, server: Server, text: str = "do it", **settings: Any) -> Seeing:
    """Let the scripted model take one turn in a sandbox; raises what ends it."""
    connection = await connected(server, **settings)
    from hermes.chat import Conversation, Turn
    from hermes.cli._run import stop_runs

    talk, view = await asyncio.to_thread(Conversation.begin, {}), Seeing()
    try:
        await Turn(box, connection, talk, view, stop=stop_runs).run(text)
    finally:
        talk.close()
    return view
