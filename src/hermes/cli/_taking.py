"""Changes of one side that may be taken over by the other: shown, asked about, and told of."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from ._report import clean, confirmed, put, say
from ._text import plural, print_json, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.workspace import Change, Outcome

SHOWN = 40  # lines of each part before somebody is asked; 'status' and --dry-run show all


class Taking:
    """Shows what is about to be done, asks, and says what was done."""

    def __init__(self, done: str, *, yes: bool, dry_run: bool, json: bool) -> None:
        self._done = done
        self._yes = yes
        self._dry_run = dry_run
        self._json = json
        self._refused = False

    async def agree(self, plan: Outcome) -> bool:
        if self._yes or not plan.done:
            return True
        if not self._json:
            self._show(plan, f"To be {self._done}:", SHOWN)
        count = plural(len(plan.done), "file")
        self._refused = not await confirmed(f"{count}, {size(plan.bytes)}: shall it be {self._done}?")
        return not self._refused

    def told(self, found: Outcome) -> int:
        """Say what came of it, and return the exit code."""
        if self._refused:
            say(f"nothing was {self._done}.")
            return 125
        if self._json:
            print_json(
                {
                    "dry_run": self._dry_run,
                    "done": objects(found.done),
                    "conflicts": objects(found.conflicts),
                    "held": objects(found.held),
                    "failed": objects(found.failed),
                }
            )
        elif self._dry_run or self._yes or not found.done:
            verb = f"To be {self._done}:" if self._dry_run else f"{self._done.capitalize()}:"
            self._show(found, verb, None)
            if not found.done:
                put(f"Nothing {'is to be' if self._dry_run else 'was'} {self._done}.")
        else:
            _section("Could not be written:", found.failed)
        if not self._dry_run and found.done:
            say(f"{plural(len(found.done), 'file')}, {size(found.bytes)}, {self._done}.")
        return 125 if found.failed or (found.conflicts and not self._dry_run) else 0

    @staticmethod
    def _show(found: Outcome, title: str, most: int | None) -> None:
        _section(title, found.done, most)
        _section("Changed on both sides, left alone without --force:", found.conflicts, most)
        _section("Held back:", found.held, most)
        _section("Could not be written:", found.failed)


def _section(title: str, changes: Sequence[Change], most: int | None = None) -> None:
    if changes:
        put(title)
        lines(changes, most)


def lines(changes: Sequence[Change], most: int | None = None) -> None:
    from hermes.workspace._plan import is_gits

    own = [one for one in changes if one.note or not is_gits(one.path)]
    for one in own[:most]:
        print(f"  {one.what:<8}  {clean(one.path)}{': ' + clean(one.note) if one.note else ''}")
    if most is not None and len(own) > most:
        print(f"  ... and {len(own) - most} more; --dry-run shows all")
    if len(own) < len(changes):
        print(f"  git's own data: {plural(len(changes) - len(own), 'file')} (commits, branches, the index)")


def objects(changes: Sequence[Change]) -> list[dict[str, Any]]:
    found = []
    for one in changes:
        path = one.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        found.append({**msgspec.structs.asdict(one), "path": path})
    return found


def write(text: str) -> None:
    if sys.stdout.isatty():
        sys.stdout.write(clean(text, keep="\n\t"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))


def counts(text: str) -> tuple[int, int, bool]:
    """Return how many lines a text adds and removes, and whether it shows none because they are no text."""
    head, hunk, body = text.partition("\n@@ ")
    lines = body.split("\n")[1:] if hunk else []
    more, less = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return more, less, "\nBinary files " in f"\n{head}"
