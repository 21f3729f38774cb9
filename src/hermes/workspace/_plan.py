"""What changed on either side since both were the same, and what of it may travel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from ._facts import Entry, Facts, Kind, fold, same

What = Literal["added", "changed", "deleted"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One path that changed on one side.

    ``was`` and ``size`` are its bytes before and now. ``note`` says why it does not travel: it is in conflict
    with a change on the other side, held back, or could not be written.
    """

    path: str
    what: What
    kind: Kind
    size: int = 0
    was: int = 0
    note: str = ""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What changed since the copy: ``inside`` the sandbox, and ``here``."""

    inside: list[Change]
    here: list[Change]


class Outcome(msgspec.Struct, kw_only=True):
    """What a pull or a push did, or would do.

    ``done``: what travelled. ``conflicts``: what changed on the other side too, and was left alone there.
    ``held``: what is not brought back because programs here read it by themselves, or that cannot be brought
    back. ``failed``: what changed meanwhile or could not be written.
    """

    done: list[Change] = msgspec.field(default_factory=list)
    conflicts: list[Change] = msgspec.field(default_factory=list)
    held: list[Change] = msgspec.field(default_factory=list)
    failed: list[Change] = msgspec.field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(change.size for change in self.done if change.what != "deleted")


@dataclass
class Sides:
    """The three states of the files of a workspace, and the directories inside."""

    base: dict[str, Entry]
    here: dict[str, Facts]
    there: dict[str, Facts]
    folders: set[str] = field(default_factory=set)

    def changed_there(self, path: str) -> bool:
        entry = self.base.get(path)
        return not same(entry.there if entry is not None else None, self.there.get(path))

    def changed_here(self, path: str) -> bool:
        entry = self.base.get(path)
        return not same(entry.here if entry is not None else None, self.here.get(path))

    def alike(self, path: str) -> bool:
        return same(self.here.get(path), self.there.get(path))

    def paths(self) -> list[str]:
        return sorted({*self.base, *self.here, *self.there})


def change(path: str, before: Facts | None, now: Facts | None, note: str = "") -> Change:
    what: What = "added" if before is None else "deleted" if now is None else "changed"
    some = now or before
    assert some is not None
    return Change(
        path=path,
        what=what,
        kind=some.kind,
        size=now.size if now is not None else 0,
        was=before.size if before is not None else 0,
        note=note,
    )


def coming(
    sides: Sides, paths: Iterable[str], why: Callable[[str, Facts | None], str], *, force: bool
) -> tuple[Outcome, list[str]]:
    """Return what a pull would do, and the paths that changed inside and are as they are here by now.

    :param why: tells why a path is held back; empty when it is not
    :param force: overwrite what changed here too
    """
    plan, alike = Outcome(), []
    for path in paths:
        if not sides.changed_there(path):
            continue
        if sides.alike(path):
            alike.append(path)
            continue
        facts = sides.there.get(path)
        one = change(path, sides.here.get(path), facts)
        if note := why(path, facts):
            plan.held.append(msgspec.structs.replace(one, note=note))
        elif sides.changed_here(path) and not force:
            plan.conflicts.append(msgspec.structs.replace(one, note="it changed here too"))
        else:
            plan.done.append(one)
    return plan, alike


def wanted(paths: Iterable[str], some: Iterable[str]) -> list[str]:
    """Return those of *paths* that are one of *some* or lie in one; all of them when there are none."""
    chosen = list(some)
    if not chosen or "." in chosen:
        return list(paths)
    return [path for path in paths if any(path == one or path.startswith(one + "/") for one in chosen)]


def is_gits(path: str) -> bool:
    """Return whether a path belongs to git's own data."""
    return any(fold(part) == ".git" for part in path.split("/"))


def in_order(paths: Iterable[str], there: Mapping[str, Facts]) -> list[str]:
    """Return paths so that nothing refers to what is not there yet: git's objects first, its names last."""

    def rank(path: str) -> tuple[int, str]:
        facts = there.get(path)
        if is_gits(path):
            return (0 if "/objects/" in path else 3), path
        return (2 if facts is not None and facts.kind == "link" else 1), path

    return sorted(paths, key=rank)
