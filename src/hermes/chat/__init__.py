"""A model at work in a sandbox: its messages, the loop of its tool calls, and what is kept of both.

Needs the extra ``chat``, and is imported by ``hermes`` and ``hermes -q`` alone. Nothing here runs a command,
touches a file or decides what may: that is done by :mod:`hermes.tools`, on a sandbox with its approval.
"""

from __future__ import annotations

from ._chat import Chat, place_of
from ._cost import Cost
from ._front import ask_once, converse
from ._history import Conversation, forget_old, latest
from ._model import Connection
from ._turn import Turn, View

__all__ = [
    "Chat",
    "Connection",
    "Conversation",
    "Cost",
    "Turn",
    "View",
    "ask_once",
    "converse",
    "forget_old",
    "latest",
    "place_of",
]
