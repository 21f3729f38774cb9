"""What proves a backend, and what stands in for a sandbox in a user's own unit tests.

``hermes.testing.conformance`` is the suite that every backend has to pass, ``hermes.testing.plugin`` the pytest
plug-in that runs it, ``hermes.testing.exceptions`` the table of what a place cannot do, and ``FakeSandbox`` a
sandbox that answers from a script and runs nothing.
"""

from __future__ import annotations

from .fake import Call, FakeSandbox, UnexpectedCommand

__all__ = ["Call", "FakeSandbox", "UnexpectedCommand"]
