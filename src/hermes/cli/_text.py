"""Tables, ages and sizes, readable at 80 columns, without colour and by a screen reader."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from ._report import clean

GAP = "  "
SHORTEST = 12  # columns that the last one gets, however narrow the terminal


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), path: bool = False
) -> str:
    """Return lines of aligned columns. On a terminal the last column is cut to fit, otherwise nothing is.

    :param right: indexes of the columns that are aligned to the right
    :param path: the last column holds paths, of which the end says most
    """
    rows = [[clean(cell) for cell in row] for row in rows]
    widths = [max(cells(row[n]) for row in [heads, *rows]) for n in range(len(heads) - 1)]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    room = max(SHORTEST, width - sum(widths) - len(GAP) * len(widths)) if width else 0
    lines = []
    for row in [heads, *rows]:
        parts = []
        for n, wide in enumerate(widths):
            space = " " * (wide - cells(row[n]))
            parts.append(space + row[n] if n in right else row[n] + space)
        parts.append(cut(row[-1], room, path=path) if room else row[-1])
        lines.append(GAP.join(parts).rstrip())
    if width and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb":
        lines[0] = f"\x1b[1m{lines[0]}\x1b[0m"
    return "\n".join(lines)


def cells(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, room: int, *, path: bool = False) -> str:
    """Return the text, shortened to that many columns and marked when it is longer."""
    if cells(text) <= room:
        return text
    while cells(text) > room - 3:
        text = text[1:] if path else text[:-1]
    return "..." + text if path else text + "..."


def age(seconds: float | None) -> str:
    """Return a length of time in its largest unit, such as ``45s``, ``3m``, ``2h`` or ``5d``."""
    if seconds is None:
        return "-"
    seconds = max(0.0, seconds)
    for unit, size, limit in (("s", 1, 60), ("m", 60, 3600), ("h", 3600, 86400)):
        if seconds < limit:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds // 86400)}d"


def size(count: int) -> str:
    """Return a number of bytes such as ``512 B``, ``4.2 KiB`` or ``1.0 GiB``."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def amount(cost: float | None) -> str:
    """Return a sum of money such as ``0.0512`` or ``3.20``; ``?`` where there is no price."""
    if cost is None:
        return "?"
    return f"{cost:.4f}" if cost < 0.1 else f"{cost:.2f}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return ``1 file`` or ``3 files``."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def print_json(value: object) -> None:
    """Print a value as JSON on one line."""
    import json

    text = json.dumps(value, ensure_ascii=False)
    if (
        not text.isprintable()
    ):  # what is left of that stands in strings, where a terminal may take it for codes
        text = "".join(
            c if c.isprintable() or "\ud800" <= c <= "\udfff" else json.dumps(c)[1:-1] for c in text
        )
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
