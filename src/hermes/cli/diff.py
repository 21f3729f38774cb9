"""``hermes diff``: what was changed in a jail that keeps its changes beside the project."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from . import _options as options
from ._layer import Ignored, Name, Paths, target, tell
from ._report import clean
from ._taking import counts, objects, write
from ._text import plural, print_json

app = options.new_app()


@app.command()
def diff(
    paths: Paths = None,
    stat: Annotated[bool, typer.Option("--stat", help="Only count lines.")] = False,
    name_only: Annotated[bool, typer.Option("--name-only", help="Only show names.")] = False,
    ignored: Ignored = False,
    name: Name = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Show what a jail's overlay holds, as a diff.

    That is what a jail with jail.overlay changed. Nothing of it is in the project until 'hermes apply'.

    Example: hermes diff --stat
    """
    from hermes.workspace._overlay import diffs, look

    wanted = target(name)
    chosen = wanted.chosen(paths)
    every: list[dict[str, Any]] = []
    plus = minus = files = 0
    with wanted.layer() as layer:
        found = look(layer, chosen, ignored=ignored)
        if json and (stat or name_only):
            every = objects(found.changes())
        for one, text in diffs(layer, found) if not every else ():
            if json:
                every += [] if one is None else [{**objects([one])[0], "diff": _told(text)}]
            elif one is None:
                if stat or sys.stdout.isatty():
                    print(clean(text, keep="\n"), end="")
            elif name_only:
                print(clean(one.path))
            elif stat:
                more, less, binary = counts(text)
                plus, minus, files = plus + more, minus + less, files + 1
                what = "binary" if binary else f"+{more} -{less}"
                print(
                    f"{one.what:<8} {what:>12}  {clean(one.path)}{': ' + clean(one.note) if one.note else ''}"
                )
            else:
                write(text)
    if json:
        print_json({"root": wanted.root, "changes": every, "ignored": found.ignored})
        return 0
    if stat and files:
        print(f"{plural(files, 'file')}, {plural(plus, 'line')} added, {plural(minus, 'line')} removed")
    tell(found, chosen, paths)
    return 0


def _told(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
