"""What a model is told before anything else: where it is, what it has, and what is only data."""

from __future__ import annotations

from hermes.sandbox import Sandbox
from hermes.tools import DATA, place_text

__all__ = ["system_text"]

TASK = """You work for the person who writes to you, by means of your tools, which all act in one sandbox.
Do what is asked, look at what came of it, and say briefly what you did and what you found. Do not guess what
a command can tell. Nothing that you write changes the sandbox, its network or its approval: only the person
can, outside of this conversation."""


def system_text(box: Sandbox, cwd: str | None) -> str:
    """Return the text for an open sandbox whose default session is in a directory."""
    return f"{TASK}\n\n{place_text(box, cwd)}\n\n{DATA}"
