"""Keep tests away from the user's own configuration and from each other."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# What steers the test run itself stays visible to tests.
KEPT = {"HERMES_REQUIRE", "HERMES_TEST_RUN", "HERMES_PYTHON"}


@pytest.fixture(autouse=True)
def hermes_home(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A home of the test's own, not yet made, with no hermes setting in the environment.

    Its path is short: the names of unix sockets, of at most 107 bytes, may lie below it.
    """
    parent = Path(tempfile.mkdtemp(prefix="hermes-"))
    home = parent / "home"
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith(("HERMES_", "TERMINAL_")) and name not in KEPT:
                patch.delenv(name)
        patch.setenv("HERMES_HOME", str(home))
        patch.setenv("HERMES_ALLOW_ROOT", "1")  # who runs the suite is no matter of a test's
        # What a test does in places of its own is not asked about, but in those of approval and of settings,
        # and as a reader of the documentation would be.
        asked = ("approval", "/config/", "test_config.py", "test_docs.py", "test_sandbox.py")
        if not any(part in request.path.as_posix() for part in asked):
            patch.setenv("HERMES_APPROVALS", "off")
        yield home
    shutil.rmtree(parent, ignore_errors=True)
