"""A command as it would be run, and who is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from ._syntax import Span


class Call(msgspec.Struct):
    """One command as it would be run. ``stdin`` is None where nothing is piped or given to it."""

    argv: list[str]
    cwd: str
    span: Span
    stdin: str | None = None
    env: Mapping[str, str] = {}
    # "" for this place, else what the command was handed to: another machine ("remote") or a container
    place: str = ""
    root: bool = False
    captured: bool = False  # its output is read by another command, a variable or a file
    to: str = ""  # the file that its output goes to
    namesake: bool = False  # it only has the name of a program of the system
    name: str = ""  # the program's name without its directory, with copies and links followed


class Sink(Protocol):
    """Takes what the interpreter finds."""

    def command(self, call: Call) -> None: ...

    def redirect(self, op: str, path: str, content: str, call: Call) -> None: ...

    def given(self, text: str) -> None: ...

    def note(self, rule: str, reason: str, span: Span, action: str = "ask") -> None: ...

    def namesake(self, name: str, path: str) -> bool: ...

    def secret(self, path: str) -> bool: ...

    def special(self, path: str) -> bool: ...

    def held_by(self, path: str) -> str: ...

    def programs(self) -> frozenset[str]: ...
