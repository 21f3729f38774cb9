"""The command line: ``hermes``. One module for each group of commands, imported when it is called.

What happens on each run of ``hermes exec`` decides how long a command takes: nothing here may import rich,
ruamel.yaml or ``importlib.metadata`` at module level.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

if os.path.basename(sys.argv[0]) in ("hermes", "hermes-places"):
    # Ctrl-C while the rest is imported ends the program without a traceback; main() takes it over.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# Most runs end long before it pays to look for garbage, and looking costs them a tenth of their time.
gc.set_threshold(100_000, 20, 20)

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; see ``hermes.cli._main.main``."""
    if argv is None:
        from ._quick import quick

        code = quick(sys.argv[1:])
        if code is not None:
            return code
    from ._main import main as whole

    return whole(argv)
