"""The command line: ``hermes``. One module for each group of commands, imported when it is called.

What happens on each run of ``hermes exec`` decides how long a command takes: nothing here may import rich,
ruamel.yaml or ``importlib.metadata`` at module level.
"""

import gc
import os
import signal
import sys

if os.path.basename(sys.argv[0]) in ("hermes", "hermes-places"):
    # Ctrl-C while the rest is imported ends the program without a traceback; main() takes it over.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# Most runs end long before it pays to look for garbage, and looking costs them a tenth of their time.
gc.set_threshold(100_000, 20, 20)

from ._main import main  # noqa: E402

__all__ = ["main"]
