"""Run an emulator: ``python -m hermes.emulators modal``."""

import sys

from ._control import main

sys.exit(main(sys.argv[1:]))
