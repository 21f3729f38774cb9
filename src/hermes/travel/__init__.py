"""Skills and dotfiles: copies of the user's own files in the home of every sandbox.

Each side may change them. What changed here goes there before the next command, unless it changed there as
well; what changed there comes here only when somebody fetches it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from hermes import _transfer as transfer
from hermes._transfer import Progress
from hermes.errors import ConfigError, FileError
from hermes.files import Files
from hermes.guest.archive import Stats
from hermes.workspace import Agree, Change, Outcome, agreed, difference
from hermes.workspace._bring import take
from hermes.workspace._facts import OURS, Entry, Facts, Manifest
from hermes.workspace._plan import Sides, change, coming, wanted
from hermes.workspace._protect import Guard
from hermes.workspace._there import There, digest, scan

from ._here import LISTED, SKILLS, SKIPPED, Here, Tree, folders, hashed, lay_out, look, trees
from ._wire import Parcel, Sent, entry, mark, note_path, noted, pack

if TYPE_CHECKING:
    from hermes.channel.channel import Channel
    from hermes.config import Config

__all__ = ["Change", "Outcome", "Travel", "Tree", "lay_out", "trees"]

SHARE = 50  # looking takes a fiftieth of the time at the most
IN_THE_WAY = "something else of that name is there"


class Travel:
    """What travels into one sandbox. Used from one event loop."""

    def __init__(self, channel: Channel, config: Config) -> None:
        """Make that of a sandbox, with what a configuration says."""
        self._channel = channel
        self._config = config
        self._files = Files(channel)
        self._trees: list[Tree] = []
        self._mark = self._stamp = ""
        self._next = 0.0
        self._lock = asyncio.Lock()

    @property
    def home(self) -> str:
        """The home inside."""
        return str(self._channel.guest.get("home"))

    async def _look(self) -> Here:
        """Return what is here.

        :raises ConfigError: it is too much
        """

        def work() -> Here:
            if not self._trees:
                self._trees, self._mark = trees(self._config), mark()
                notes = self._channel.guest.get("notes")
                self._stamp = str(notes.get(self._mark, "")) if isinstance(notes, dict) else ""
            return look(self._trees)

        return await asyncio.to_thread(work)

    async def fresh(self) -> None:
        """See to it that what changed here is inside, save what changed there too.

        :raises HermesError: the sandbox is out of reach
        """
        if time.monotonic() < self._next:
            return
        async with self._lock:
            began = time.monotonic()
            try:
                here = await self._look()
                self._next = time.monotonic() + SHARE * (time.monotonic() - began)
                if here.stamp != self._stamp:
                    await self._bring(here)
            except (FileError, ConfigError) as error:
                self._next = time.monotonic() + 10.0
                warnings.warn(
                    f"skills and dotfiles could not be brought inside: {error.message}", stacklevel=4
                )

    # --- there

    async def _bring(self, here: Here) -> None:
        mine = await asyncio.to_thread(hashed, here)
        targets = {tree.target(path): (tree, path) for tree, files in mine.items() for path in files}
        sent, (there, known) = await asyncio.gather(
            noted(self._channel, self.home, self._mark), self._looked(list(targets))
        )
        gone = {}
        for tree in self._trees:
            for key in sent:
                name, _, path = key.partition("/")
                if name == tree.name and path not in mine[tree]:
                    gone[tree.target(path)] = key
        gone = {target: key for target, key in gone.items() if target not in targets}
        if gone:
            _, lost = await self._looked(list(gone))
            await self._remove([t for t, key in gone.items() if lost.get(t) == sent[key][0]])
        notes: Sent = {}
        parcels, kept = [], []
        for target, (tree, path) in targets.items():
            key, facts, found = f"{tree.name}/{path}", mine[tree][path], there.files.get(target)
            wish, was = (facts.content, bool(facts.mode & 0o100)), sent.get(key)
            if any(folder in there.files for folder in folders([target])):
                kept.append((target, "a link or a file is in the way"))
            elif target in there.folders or (found is not None and found.kind != "file"):
                kept.append((target, IN_THE_WAY))
            elif found is None and was is not None and was == wish:
                notes[key] = was  # it was removed inside
            elif found is not None and known.get(target) == wish[0]:
                notes[key] = wish
                if was is not None and was[1] != wish[1]:
                    parcels.append(Parcel(target, key, here.files[tree][path]))
            elif found is None or (was is not None and known.get(target) == was[0]):
                parcels.append(Parcel(target, key, here.files[tree][path]))
            else:
                if was is not None:
                    notes[key] = was
                if was != wish:
                    kept.append((target, "it changed there too" if was else "another one is there"))
        if parcels or notes != sent:
            await self._send(parcels, notes, there)
        await self._channel.call("note", {"key": self._mark, "text": here.stamp})
        self._stamp = here.stamp
        _tell(kept, "was not brought inside, where it is as it was")
        _tell(list(here.left.items()), "stays here")

    async def _looked(self, targets: list[str]) -> tuple[There, Mapping[str, str]]:
        """Return what is at some places in the home, and the hashes of those that are files."""
        there = There(files=dict.fromkeys(targets, Facts("file", 0, 0, (0, 0))))
        found, _ = await asyncio.gather(
            scan(self._channel, self.home, {}, [*targets, *folders(targets)]),
            digest(self._channel, self.home, there, targets),
        )
        return found, {path: facts.content for path, facts in there.files.items() if facts.content}

    async def _send(self, parcels: list[Parcel], notes: Sent, there: There) -> None:
        stats = Stats()
        above = folders([*(one.target for one in parcels), note_path(self._mark)])
        made = [one for one in above if one not in there.folders]
        await transfer.send(
            self._channel.open("tree.put", {"path": self.home}),
            lambda put: pack(put, made, parcels, notes, self._mark),
            self._trees[0].root,
            stats,
            Progress(None, stats),
        )

    async def _remove(self, targets: list[str]) -> None:
        own = f".hermes/{SKILLS}/"
        above = [one for one in folders(targets) if one.startswith(own)]
        for path in (*targets, *reversed(above)):
            # It may be gone already, or a directory that has something else in it.
            with contextlib.suppress(FileError):
                await self._files.remove(f"{self.home}/{path}")

    # --- and back, by hand

    async def diffs(self, *paths: str) -> AsyncIterator[tuple[Change, str]]:
        """Yield what changed inside, in the form of ``diff -u``, each with its text.

        :param paths: such as ``skills/one`` or ``dotfiles``; all when there are none
        """
        for tree, sides, _ in await self._sides():
            for path in _chosen(tree, sides, paths):
                if sides.changed_there(path) and not sides.alike(path):
                    facts = sides.there.get(path)
                    one = change(path, sides.here.get(path), facts)
                    inside = os.path.join(self.home, tree.inside)
                    text = await difference(self._files, tree.root, inside, path, sides)
                    yield msgspec.structs.replace(one, path=f"{tree.name}/{path}"), text

    async def pull(
        self, *paths: str, force: bool = False, dry_run: bool = False, agree: Agree | None = None
    ) -> Outcome:
        """Bring what changed inside here. What changed here too is left as it is, and listed as a conflict.

        Nothing is written through a link or outside of ``skills`` and ``dotfiles`` of hermes's home.

        :param paths: as with :meth:`diffs`
        :param force: overwrite what changed here too
        :param dry_run: only say what would be done
        :param agree: gets what would be done; nothing is unless it returns True
        """
        whole, plans = Outcome(), []
        for tree, sides, linked in await self._sides():
            why = _reasons(tree, sides, linked)
            plan, _ = coming(sides, _chosen(tree, sides, paths), why, force=force)
            plans.append((tree, sides, plan))
            _add(whole, tree, plan)
        if dry_run or not await agreed(agree, whole):
            return whole
        whole = Outcome()
        for tree, sides, plan in plans:
            if plan.done:
                await asyncio.to_thread(os.makedirs, tree.root, 0o700, exist_ok=True)
                inside = os.path.join(self.home, tree.inside)
                await take(self._channel, inside, plan, sides, Manifest(root=tree.root), None)
            _add(whole, tree, plan)
        self._next = 0.0
        return whole

    async def _sides(self) -> list[tuple[Tree, Sides, set[str]]]:
        here = await self._look()
        mine, sent = await asyncio.gather(
            asyncio.to_thread(hashed, here), noted(self._channel, self.home, self._mark)
        )
        result = []
        for tree in self._trees:
            prefix = f"{tree.name}/"
            base: dict[str, Entry] = {
                key.removeprefix(prefix): entry(one) for key, one in sent.items() if key.startswith(prefix)
            }
            inside = os.path.join(self.home, tree.inside)
            # Of a home only what travelled is ours to look at.
            names = None if tree.name == SKILLS else [*{*base, *mine[tree]}]
            try:
                there = await scan(self._channel, inside, {}, names)
            except FileError as error:
                if error.code != "not_found":
                    raise
                there = There()
            files = {path: facts for path, facts in there.files.items() if not _skipped(path)}
            there.files = files
            await digest(self._channel, inside, there, [p for p, one in files.items() if one.kind == "file"])
            linked = {path for path, one in here.files[tree].items() if one.linked}
            result.append((tree, Sides(base, mine[tree], there.files, there.folders), linked))
        return result


def _skipped(path: str) -> bool:
    return any(part in SKIPPED or part.startswith(OURS) for part in path.split("/"))


def _chosen(tree: Tree, sides: Sides, paths: Iterable[str]) -> list[str]:
    names = {f"{tree.name}/{path}": path for path in sides.paths()}
    return [names[one] for one in wanted(names, [path.rstrip("/") for path in paths])]


def _reasons(tree: Tree, sides: Sides, linked: set[str]) -> Callable[[str, Facts | None], str]:
    guard = Guard([*sides.there, *sides.folders], sides.here)

    def why(path: str, facts: Facts | None) -> str:
        if tree.name == LISTED:
            return "it is a file of your own home: fetch it with 'hermes files get'"
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


def _tell(some: list[tuple[str, str]], what: str) -> None:
    if some:
        (path, why), more = some[0], len(some) - 1
        warnings.warn(
            f"{path} {what}: {why}" + (f"; so it is with {more} more" if more else ""), stacklevel=5
        )
