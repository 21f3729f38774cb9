"""A bar on stderr for what takes long and can be measured, when somebody watches."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

from ._report import clean
from ._status import held, is_screen, status_line
from ._text import plural, size

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from hermes.files import TransferStats

OnProgress = Callable[[int, "int | None", str], None]
Unit = Literal["bytes", "steps"]


@contextlib.contextmanager
def progress(*, quiet: bool) -> Iterator[OnProgress | None]:
    """Yield what a copy reports to; None when nobody watches, so that nothing need be counted."""
    if quiet or not is_screen():
        yield None
        return
    from rich.progress import TransferSpeedColumn

    with _bar(TransferSpeedColumn()) as bar:
        task = bar.add_task("", total=None, amount="")

        def show(done: int, total: int | None, path: str) -> None:
            name = clean(path)
            name = name if len(name) <= 24 else "..." + name[-21:]
            amount = _amount(done, total, "bytes")
            bar.update(task, completed=done, total=total, description=name, amount=amount)

        yield show


class Watch:
    """What a place that gets ready reports to: lines, and how far it is once it can tell that."""

    def __init__(self, show: Callable[[str], None], stack: contextlib.ExitStack) -> None:
        self._show = show
        self._stack = stack
        self._bar: Progress | None = None
        self._what = ""

    def line(self, text: str) -> None:
        """Show a line for people."""
        self._what = clean(text).strip() or self._what
        if self._bar is None:
            self._show(text)
        else:
            self._bar.update(self._bar.task_ids[0], description=self._short())

    def measure(self, done: int, total: int | None, unit: Unit) -> None:
        """Show how far it is: as a bar, or now and then in words where a line cannot be written over."""
        amount = _amount(done, total, unit)
        if not is_screen():
            self._show(f"{self._short()}: {amount}")
            return
        if self._bar is None:
            self._stack.enter_context(held())
            self._bar = self._stack.enter_context(_bar())
            self._bar.add_task(self._short(), total=None, amount="")
        self._bar.update(self._bar.task_ids[0], completed=done, total=total, amount=amount)

    def _short(self) -> str:
        return self._what if len(self._what) <= 30 else self._what[:27] + "..."


@contextlib.contextmanager
def watch(*, quiet: bool) -> Iterator[tuple[Watch, bool]]:
    """Yield what a place that gets ready reports to, and whether anybody watches how far it is."""
    with status_line(quiet=quiet) as show, contextlib.ExitStack() as stack:
        yield Watch(show, stack), not quiet and sys.stderr.isatty()


def _bar(*more: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[amount]}", markup=False),
        *more,
        console=Console(stderr=True),
        transient=True,
    )


def _amount(done: int, total: int | None, unit: Unit) -> str:
    if unit == "steps":
        return f"step {min(done + 1, total or done + 1)} of {total}"
    return size(done) if total is None else f"{size(done)} of {size(total)}"


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
