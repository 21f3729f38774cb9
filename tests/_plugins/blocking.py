"""Fail a test in which code of hermes blocks the event loop.

Calls that can block (file I/O, `time.sleep`, a blocking socket, waiting for a lock) raise when they are
reached from a module of hermes while a loop runs in the same thread. Code that swallows the error does not
help the test: each is noted and reported at its end.
"""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import blockbuster
import pytest

SOURCES = Path(__file__).resolve().parents[2] / "src" / "hermes"


@contextmanager
def detector(*, scanned: str = str(SOURCES)) -> Iterator[list[str]]:
    """Make blocking calls from files below `scanned` raise; yields the list of them, with their stacks."""
    noted: list[str] = []
    init: Callable[..., None] = blockbuster.BlockingError.__init__

    def note(self: blockbuster.BlockingError, *args: Any) -> None:
        init(self, *args)
        noted.append(f"{self}\n" + "".join(traceback.format_stack()[:-2][-16:]))

    # A stand-in that only has the path: given the name, blockbuster would import hermes.
    module = ModuleType("scanned")
    module.__path__ = [scanned]
    buster = blockbuster.BlockBuster(scanned_modules=module)
    patch = pytest.MonkeyPatch()
    patch.setattr(blockbuster.BlockingError, "__init__", note)
    # Before each command, and for each declared credential: a thread would take longer than the command does.
    buster.functions["os.stat"].can_block_in("hermes/credentials/_declared.py", "changed")
    buster.functions["os.stat"].can_block_in("hermes/backends/jail/_watch.py", "_stamps")
    buster.functions["os.stat"].can_block_in("hermes/_travelling.py", "_some")  # for the same reason
    buster.activate()
    try:
        yield noted
    finally:
        buster.deactivate()
        patch.undo()


@pytest.fixture(autouse=True)
def no_blocking(request: pytest.FixtureRequest) -> Iterator[None]:
    """The detector, unless the test is marked `blocking_ok` or measures."""
    if request.node.get_closest_marker("blocking_ok") or request.node.get_closest_marker("bench"):
        yield
        return
    with detector() as noted:
        yield
    if noted:
        pytest.fail("the event loop was blocked:\n" + "\n".join(noted), pytrace=False)
