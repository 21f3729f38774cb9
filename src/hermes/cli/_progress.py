"""A progress bar on stderr for copies, when somebody watches."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from ._report import clean

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
