"""Reports as text. Each line says by itself what it is about, so that it reads well aloud too."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

from ._model import Report, Row, Stats, Unit

# Title, figure, and how many runs it takes to mean something.
COLUMNS: tuple[tuple[str, Callable[[Stats], float], int], ...] = (
    ("median", lambda one: one.median, 1),
    ("p95", lambda one: one.p95, 20),
    ("p99", lambda one: one.p99, 100),
    ("min", lambda one: one.min, 2),
)
FIGURE = 10  # characters of a column
REST = 7 + FIGURE * len(COLUMNS) + 6  # of a line, without the measure's name


def render(report: Report, width: int = 80) -> str:
    """Return the report as plain text, in lines of at most *width* characters (72 or more)."""
    about = report.machine
    facts = [
        f"Measured in {report.backend}, hermes {about.hermes}, Python {about.python}.",
        f"Machine: {about.system} {about.kernel} {about.architecture}, {about.cores} cores"
        f" ({about.cpu or 'make unknown'}), {_figure(about.memory, 'B')} of memory;"
        f" load average {about.load[0]:.2f} before, {report.load_after[0]:.2f} after.",
        f"The plain way is one process for each command: {report.plain}."
        " A ratio is hermes to plain: below 1 is better, except for a rate."
        if report.plain
        else "What the plain way would be is not known for this place: there is nothing to compare with.",
    ]
    paragraphs = ["\n".join(textwrap.wrap(text, width)) for text in facts]
    return "\n".join([*paragraphs, "", render_rows(report.rows, width)])


def render_rows(rows: Sequence[Row], width: int = 80) -> str:
    """Return the table: up to three lines for each row, then what else is to be said about it."""
    name = min(max([len(row.what) for row in rows] + [7]), width - REST - 1)
    titles = "".join(f"{title:>{FIGURE}}" for title, _, _ in COLUMNS)
    head = f"{'measure':{name}} {'way':7}{titles}{'runs':>6}"
    lines = [head, "-" * len(head)]
    for row in rows:
        what = f"{row.what[:name]:{name}}"
        lines.append(f"{what} hermes {_cells(row.hermes, row.unit)}")
        if row.plain is not None:
            lines.append(f"{what} plain  {_cells(row.plain, row.unit)}")
            lines.append(f"{what} ratio  {_ratios(row.hermes, row.plain)}")
    for row in rows:
        for key, value in row.facts.items():
            lines += textwrap.wrap(f"{row.what}, {key.replace('_', ' ')}: {_said(value)}", width)
    return "\n".join(lines)


def _said(value: bool | int | float | str | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "unknown" if value is None else str(value)


def _cells(stats: Stats, unit: Unit) -> str:
    cells = [_figure(get(stats), unit) if stats.runs >= least else "" for _, get, least in COLUMNS]
    return "".join(f"{cell:>{FIGURE}}" for cell in cells) + f"{stats.runs:>6}"


def _ratios(ours: Stats, theirs: Stats) -> str:
    runs = min(ours.runs, theirs.runs)
    cells = [
        f"{get(ours) / get(theirs):.2f}" if get(theirs) and runs >= least else "" for _, get, least in COLUMNS
    ]
    return "".join(f"{cell:>{FIGURE}}" for cell in cells).rstrip()


def _figure(value: float, unit: Unit) -> str:
    if unit == "s":
        return f"{value * 1e3:.3f} ms" if value < 0.1 else f"{value:.3f} s"
    for limit, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            shown = value / limit
            return f"{shown:.0f} {prefix}{unit}" if shown >= 100 else f"{shown:.1f} {prefix}{unit}"
    return f"{value:.0f} {unit}"
