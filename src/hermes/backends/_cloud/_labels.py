"""What marks a place at a provider as hermes's."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hermes.state import SandboxRecord

from .. import _leftovers

if TYPE_CHECKING:
    from ..base import Spec

__all__ = ["home_mark", "labels", "surplus"]


def home_mark() -> str:
    """Return what tells the places of one hermes home from those of another in the same account. Blocks."""
    return _leftovers.home_mark(socket.gethostname())


def labels(spec: Spec) -> dict[str, str]:
    """Return the labels of everything that is made for a sandbox. Blocks."""
    return {
        "hermes.id": spec.id,
        "hermes.name": spec.name,
        "hermes.named": "yes" if spec.named else "no",
        "hermes.keep": "yes" if spec.keep else "no",
        "hermes.home": home_mark(),
    }


def surplus(marks: Mapping[str, str], records: Mapping[str, SandboxRecord]) -> str | None:
    """Return why a place with these labels is needed no more, None when it may be. Blocks."""
    keep = marks.get("hermes.keep") == "yes"
    return _leftovers.surplus(records.get(marks.get("hermes.id", "")), keep=keep)
