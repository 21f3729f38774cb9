"""What commands cost in a place, measured side by side with the plain way: one process per command.

:func:`run_bench` measures, :func:`render` writes the table. The report is a plain record that
``msgspec.to_builtins`` turns into JSON.
"""

from __future__ import annotations

from ._model import Machine, Report, Row, Stats, machine
from ._render import render, render_rows
from ._run import plain_way, run_bench, time_turns

__all__ = [
    "Machine",
    "Report",
    "Row",
    "Stats",
    "machine",
    "plain_way",
    "render",
    "render_rows",
    "run_bench",
    "time_turns",
]
