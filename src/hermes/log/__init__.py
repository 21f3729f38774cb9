"""Recordings of what was done in sandboxes: one file of JSON lines for each client's use of one.

They lie in ``log`` in hermes's home, which is this user's alone: ``ID.jsonl``, and for each terminal
``ID.N.cast`` in the format of asciinema (asciicast 2). No secret is written that hermes knows, or that looks
like one: everything passes :mod:`hermes.credentials.scrub` first, and commands what redacts the audit log.

:mod:`hermes._watch` gathers what there is to write.
"""

from __future__ import annotations

from pathlib import Path

from hermes.config import home

__all__ = ["CAST", "LINES", "directory"]

LINES = ".jsonl"
CAST = ".cast"


def directory() -> Path:
    """Return where recordings are, which need not exist."""
    return home() / "log"
