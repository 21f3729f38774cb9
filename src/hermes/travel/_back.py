"""Taking over what a sandbox changed of its copies: compared, and fetched by hand."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from hermes.errors import FileError
from hermes.files import Files
from hermes.workspace import Agree, Change, Outcome, agreed, difference
from hermes.workspace._bring import take
from hermes.workspace._facts import OURS, Entry, Facts, Manifest
from hermes.workspace._plan import Sides, change, coming, wanted
from hermes.workspace._protect import Guard
from hermes.workspace._there import There, digest, scan

from ._here import LISTED, SKILLS, SKIPPED, Tree
from ._wire import entry, hashed, noted

if TYPE_CHECKING:
    from . import Travel

SETUID = 0o6000

Why = Callable[[str, Facts | None], str]


async def diffs(travel: Travel, paths: Sequence[str]) -> AsyncGenerator[tuple[Change, str], None]:
    """Yield what changed inside; see :meth:`Travel.diffs`."""
    files = Files(travel.channel)
    for tree, sides, why in await _sides(travel, paths):
        for path in _chosen(tree, sides, paths):
            if sides.changed_there(path) and not sides.alike(path):
                facts = sides.there.get(path)
                one = change(path, sides.here.get(path), facts, why(path, facts))
                inside = os.path.join(travel.home, tree.inside)
                text = await difference(files, tree.root, inside, path, sides, f"{tree.name}/{path}")
                yield msgspec.structs.replace(one, path=f"{tree.name}/{path}"), text


async def pull(
    travel: Travel, paths: Sequence[str], *, force: bool, dry_run: bool, agree: Agree | None
) -> Outcome:
    """Bring what changed inside here; see :meth:`Travel.pull`."""
    whole, plans = Outcome(), []
    for tree, sides, why in await _sides(travel, paths):
        plan, _ = coming(sides, _chosen(tree, sides, paths), why, force=force)
        plans.append((tree, sides, plan))
        _add(whole, tree, plan)
    if dry_run or not await agreed(agree, whole):
        return whole
    whole = Outcome()
    for tree, sides, plan in plans:
        if plan.done:
            await asyncio.to_thread(os.makedirs, tree.root, 0o700, exist_ok=True)
            inside = os.path.join(travel.home, tree.inside)
            await take(travel.channel, inside, plan, sides, Manifest(root=tree.root), None)
        _add(whole, tree, plan)
    return whole


async def _sides(travel: Travel, paths: Sequence[str]) -> list[tuple[Tree, Sides, Why]]:
    """Return each tree with its states, and what tells why a path cannot come here.

    Of what is inside only as much is read as may come: a file there may have any size.
    """
    here = await travel.look()
    mine, sent = await asyncio.gather(
        asyncio.to_thread(hashed, here), noted(travel.channel, travel.home, travel.mark)
    )
    result = []
    for tree in travel.trees:
        prefix = f"{tree.name}/"
        base: dict[str, Entry] = {
            key.removeprefix(prefix): entry(one) for key, one in sent.items() if key.startswith(prefix)
        }
        inside = os.path.join(travel.home, tree.inside)
        # Of a home only what travelled is ours to look at.
        names = None if tree.name == SKILLS else [*{*base, *mine[tree]}]
        try:
            there = await scan(travel.channel, inside, {}, names)
        except FileError as error:
            if error.code != "not_found":
                raise
            there = There()
        there.files = {path: facts for path, facts in there.files.items() if not _skipped(path)}
        sides = Sides(base, mine[tree], there.files, there.folders)
        read, large = _bounded(tree, there.files, _chosen(tree, sides, paths))
        await digest(travel.channel, inside, there, read, most=tree.limits.file)
        linked = {path for path, one in here.files[tree].items() if one.linked}
        result.append((tree, sides, _reasons(tree, sides, linked, large)))
    return result


def _bounded(tree: Tree, there: dict[str, Facts], paths: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the files that may be read, and why the others may not."""
    read: list[str] = []
    large: dict[str, str] = {}
    total = 0
    for path in paths:
        facts = there.get(path)
        if facts is None or facts.kind != "file":
            continue
        if why := tree.limits.exceeded(facts.size, total, len(read)):
            large[path] = why
        else:
            read.append(path)
            total += facts.size
    return read, large


def _skipped(path: str) -> bool:
    return any(part in SKIPPED or part.startswith(OURS) for part in path.split("/"))


def _chosen(tree: Tree, sides: Sides, paths: Iterable[str]) -> list[str]:
    names = {f"{tree.name}/{path}": path for path in sides.paths()}
    return [names[one] for one in wanted(names, [path.rstrip("/") for path in paths])]


def _reasons(tree: Tree, sides: Sides, linked: set[str], large: dict[str, str]) -> Why:
    guard = Guard([*sides.there, *sides.folders], sides.here)

    def why(path: str, facts: Facts | None) -> str:
        if tree.name == LISTED:
            return "it is a file of your own home: fetch it with 'hermes files get'"
        if not path.isprintable():
            return "its name has signs that cannot be shown"
        if path in large:
            return large[path]
        if facts is not None and facts.kind == "file" and facts.mode & SETUID:
            return "it would run with another user's rights"
        if facts is not None and facts.kind == "link":
            return "it is a link"
        if path in linked:
            return "here it is a link to another file"
        return guard.never(path, facts)

    return why


def _add(whole: Outcome, tree: Tree, plan: Outcome) -> None:
    for name in ("done", "conflicts", "held", "failed"):
        some: list[Change] = getattr(plan, name)
        getattr(whole, name).extend(
            msgspec.structs.replace(one, path=f"{tree.name}/{one.path}") for one in some
        )
