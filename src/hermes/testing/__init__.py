"""What proves a backend, and what stands in for a sandbox in a user's own unit tests.

``hermes.testing.conformance`` is the suite that every backend has to pass, ``hermes.testing.plugin`` the
pytest plug-in that runs it, ``hermes.testing.exceptions`` the table of what a place cannot do, and
``FakeSandbox`` a sandbox that answers from a script and runs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .fake import Call, FakeSandbox, UnexpectedCommand

if TYPE_CHECKING:
    from ._harness import case

__all__ = ["Call", "FakeSandbox", "UnexpectedCommand", "case"]


def __getattr__(name: str) -> Any:
    # It needs pytest, which a user of the fake alone may not have.
    if name == "case":
        from ._harness import case

        return case
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
