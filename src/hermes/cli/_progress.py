"""A progress bar on stderr for copies, when somebody watches."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ._report import clean
from ._text import plural, size

if TYPE_CHECKING:
    from hermes.files import TransferStats

OnProgress = Callable[[int, "int | None", str], None]


@contextlib.contextmanager
def progress(*, quiet: bool) -> Iterator[OnProgress | None]:
    """Yield what a copy reports to; None when nobody watches, so that nothing need be counted."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=None)

        def show(done: int, total: int | None, path: str) -> None:
            name = clean(path)
            name = name if len(name) <= 24 else "..." + name[-21:]
            bar.update(task, completed=done, total=total, description=name)

        yield show


def summary(stats: TransferStats) -> str:
    """Return in a sentence what a copy did."""
    parts = [plural(stats.files, "file"), size(stats.bytes)]
    for count, what in (
        (stats.folders, "directory"),
        (stats.links, "link"),
        (stats.skipped, "skipped (no file, directory or link, or it vanished)"),
        (stats.changed, "became shorter while being read"),
        (stats.outside, "of the links lead out of the tree"),
    ):
        if count and what in ("directory", "link"):
            parts.append(plural(count, what, "directories" if what == "directory" else None))
        elif count:
            parts.append(f"{count} {what}")
    return "copied " + ", ".join(parts) + "."
