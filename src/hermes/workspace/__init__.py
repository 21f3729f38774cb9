"""The workspace of a sandbox as a copy of a directory here: what changed on either side, and taking it over.

Where a place can mount nothing (ssh, the clouds) ``workspace: here`` is copied in when the sandbox is made.
From then on each side goes its own way. What was the same on both is kept in the state store, as sizes, times
and hashes; nothing comes back by itself.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import posixpath
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from hermes._transfer import OnProgress
from hermes.errors import FileError, HermesError, UnsupportedError
from hermes.files import Files

from ._bring import give, note_same, take
from ._facts import Entry, Facts, Manifest, parents
from ._ignore import Rules
from ._plan import Change, Outcome, Sides, Status, change, coming, is_gits, wanted
from ._protect import Guard
from ._send import copy_in, walked
from ._text import MAX_TEXT, quoted, unified
from ._there import digest, scan

if TYPE_CHECKING:
    from hermes.channel.channel import Channel
    from hermes.state import Store

__all__ = ["Change", "Outcome", "Status", "Workspace"]

Agree = Callable[[Outcome], bool | Awaitable[bool]]

UNKNOWN = Facts("other", 0, 0, (0, 0))


class Workspace:
    """The copied workspace of one sandbox.

    Paths are relative to the directory here, or absolute and in it. Every method raises
    :class:`UnsupportedError` where the workspace is no copy.
    """

    def __init__(
        self,
        channel: Channel,
        store: Store,
        ident: str,
        root: str | None,
        inside: str,
        approve: Callable[[str], Awaitable[None]],
    ) -> None:
        """Make the workspace of a sandbox; ``Sandbox.workspace`` does."""
        self._channel = channel
        self._store = store
        self._ident = ident
        self._root = root
        self._approve = approve
        self._files = Files(channel)
        self.path = inside

    @property
    def root(self) -> str:
        """The directory here that was copied.

        :raises UnsupportedError: none was
        """
        if self._root is None:
            raise UnsupportedError(
                "the workspace of this sandbox is no copy of a directory here",
                hint="Where it is mounted nothing need be brought back; a private one is reached by "
                "'hermes files get' and 'hermes files put'.",
            )
        return self._root

    async def status(self, *paths: str) -> Status:
        """Return what changed since the copy, on both sides."""
        sides = await self._sides(read_all=False)
        guard = _guard(sides)
        some = wanted(sides.paths(), self._chosen(paths))
        inside = [
            change(path, _was_there(sides.base.get(path)), sides.there.get(path), _note(path, sides, guard))
            for path in some
            if sides.changed_there(path)
        ]
        here = [
            change(path, _was_here(sides.base.get(path)), sides.here.get(path))
            for path in some
            if sides.changed_here(path)
        ]
        return Status(inside=inside, here=here)

    async def diff(self, *paths: str) -> str:
        """Return what changed inside since the copy, in the form of ``diff -u``.

        Of a file that changed here too it is the difference to the file here. Of git's own data there is one
        line only. The text is the sandbox's: show it on no terminal as it is.
        """
        parts = [text async for _, text in self.diffs(*paths)]
        return "".join(parts)

    async def diffs(self, *paths: str) -> AsyncIterator[tuple[Change | None, str]]:
        """Yield each change inside with its text; None stands for git's own data. See :meth:`diff`."""
        sides = await self._sides(read_all=False)
        changed = [path for path in wanted(sides.paths(), self._chosen(paths)) if sides.changed_there(path)]
        of_git = [path for path in changed if is_gits(path)]
        for path in changed:
            if not is_gits(path) and not sides.alike(path):
                one = change(path, _was_there(sides.base.get(path)), sides.there.get(path))
                yield one, await difference(self._files, self.root, self.path, path, sides)
        if of_git:
            yield None, f"git's own data: {len(of_git)} files changed\n"

    async def pull(
        self,
        *paths: str,
        force: bool = False,
        include_protected: bool = False,
        dry_run: bool = False,
        agree: Agree | None = None,
        on_progress: OnProgress | None = None,
    ) -> Outcome:
        """Bring what changed inside here: what is new, changed and deleted.

        What changed here too since the copy is left as it is here, and listed as a conflict. What programs on
        this machine read by themselves (git's hooks and configuration, start-up files of shells and editors,
        ``.hermes.yaml``) is held back. Nothing is written through a link or outside of the directory; each
        file is replaced whole.

        :param force: overwrite what changed here too
        :param include_protected: bring also what is held back, save what cannot be brought at all
        :param dry_run: only say what would be done
        :param agree: gets what would be done; nothing is unless it returns True
        """
        sides = await self._sides(read_all=True)
        guard = _guard(sides)

        def why(path: str, facts: Facts | None) -> str:
            return guard.never(path, facts) or ("" if include_protected else guard.held(path, facts))

        plan, alike = coming(sides, wanted(sides.paths(), self._chosen(paths)), why, force=force)
        if dry_run or not await agreed(agree, plan):
            return plan
        await self._room(plan.bytes)
        manifest = Manifest(root=self.root, entries=sides.base)
        note_same(manifest, alike, sides)
        try:
            await take(self._channel, self.path, plan, sides, manifest, on_progress)
        finally:
            await asyncio.shield(self._save(manifest))
        return plan

    async def push(
        self,
        *paths: str,
        force: bool = False,
        dry_run: bool = False,
        agree: Agree | None = None,
        on_progress: Callable[[str], None] | None = None,
    ) -> Outcome:
        """Bring what changed here inside. What changed inside too is left as it is, and listed as a conflict.

        :param force: overwrite what changed inside too
        :param dry_run: only say what would be done
        :param agree: gets what would be done; nothing is unless it returns True
        :param on_progress: gets lines for people
        """
        sides = await self._sides(read_all=True)
        plan = Outcome()
        alike = []
        for path in wanted(sides.paths(), self._chosen(paths)):
            if not sides.changed_here(path):
                continue
            if sides.alike(path):
                alike.append(path)
                continue
            facts = sides.here.get(path)
            one = change(path, sides.there.get(path), facts)
            if facts is not None and facts.kind == "other":
                plan.failed.append(msgspec.structs.replace(one, note="it cannot be read here"))
            elif sides.changed_there(path) and not force:
                plan.conflicts.append(msgspec.structs.replace(one, note="it changed inside too"))
            else:
                plan.done.append(one)
        if dry_run or not await agreed(agree, plan):
            return plan
        await self._approve(self.path)
        manifest = Manifest(root=self.root, entries=sides.base)
        note_same(manifest, alike, sides)
        try:
            await give(self._channel, self.path, plan, sides, manifest, on_progress)
        finally:
            await asyncio.shield(self._save(manifest))
        return plan

    # --- copying in

    async def copy_in(self, say: Callable[[str], None] | None) -> None:
        """Copy the directory in, or go on with a copy that was cut."""
        manifest, skipped = await copy_in(self._channel, self.root, self.path, say)
        await self._save(manifest)
        if say is not None and skipped:
            first = next(iter(skipped))
            say(f"{len(skipped)} of the files here were left out, such as {first}: {skipped[first]}")

    async def is_empty(self) -> bool:
        return not await self._files.list(self.path)

    async def _save(self, manifest: Manifest) -> None:
        data = await asyncio.to_thread(manifest.encode)
        await asyncio.to_thread(self._store.put_manifest, self._ident, data)

    async def _manifest(self) -> Manifest:
        root = self.root
        data = await asyncio.to_thread(self._store.manifest, self._ident)
        try:
            if data is not None:
                found = await asyncio.to_thread(Manifest.decode, data)
                if found.version == 1 and found.root == root:
                    return found
        except ValueError:
            pass
        raise HermesError(
            "it is not known any more what was copied into this sandbox",
            code="state_unreadable",
            hint="Fetch what you need with 'hermes files get'.",
        )

    # --- looking

    async def _sides(self, *, read_all: bool) -> Sides:
        manifest = await self._manifest()
        base = manifest.entries
        rules = await asyncio.to_thread(Rules, self.root, base)
        here = await walked(self.root, rules, {path: entry.here for path, entry in base.items()})
        there = await scan(self._channel, self.path, base)

        def seen() -> list[str]:
            for path in [
                path for path in there.files if path not in base and rules.ignores(path, folder=False)
            ]:
                del there.files[path]
            return [path for path, facts in there.files.items() if facts.kind == "file" and not facts.content]

        unread = await asyncio.to_thread(seen)
        if not read_all:
            # A new file has no other to be compared with, unless there is one here too.
            unread = [path for path in unread if path in base or path in here.files]
        await digest(self._channel, self.path, there, unread)
        for path in base:
            # Where nobody may look nothing is known to be deleted.
            above = (path, *parents(path))
            if not here.skipped.keys().isdisjoint(above):
                here.files[path] = UNKNOWN
            if not there.shut.isdisjoint(above):
                there.files[path] = UNKNOWN
        return Sides(base=base, here=here.files, there=there.files, folders=there.folders)

    def _chosen(self, paths: Iterable[str]) -> list[str]:
        found = []
        for path in paths:
            inner = posixpath.normpath(path)
            if inner.startswith("/"):
                inner = "." if inner == self.root else inner.removeprefix(self.root + "/")
            if inner.startswith("/") or inner.split("/")[0] == "..":
                raise FileError(
                    f"{path} is not in {self.root}", path=path, code="unsafe_path", operation="workspace"
                )
            found.append(inner)
        return found

    # --- bringing here

    async def _room(self, size: int) -> None:
        free = (await asyncio.to_thread(shutil.disk_usage, self.root)).free
        if size > free:
            raise FileError(
                f"{self.root} has room for {free} bytes, and what is to come has {size}; nothing was written",
                path=self.root,
                code="no_space",
                operation="workspace",
            )


async def difference(
    files: Files, root: str, inside: str, path: str, sides: Sides, shown: str | None = None
) -> str:
    """Return how one file inside differs from that here, in the form of ``diff -u``.

    :param shown: what the path is called in it
    """
    here, there = sides.here.get(path), sides.there.get(path)
    try:
        now = await _inside(files, f"{inside}/{path}", there)
    except FileError as error:
        return f"{quoted(shown or path)}: {error.message}\n"
    before = await asyncio.to_thread(_content, root, path, here)
    note = "the file here changed too; this is the difference to it\n" if sides.changed_here(path) else ""
    return note + await asyncio.to_thread(unified, shown or path, before, now, here, there)


async def _inside(files: Files, path: str, facts: Facts | None) -> bytes | None:
    if facts is None:
        return None
    if facts.kind == "link":
        return facts.content.encode("utf-8", "surrogateescape")
    if facts.kind != "file" or facts.size > MAX_TEXT:
        return bytes(MAX_TEXT + 1)
    return await files.read(path, n=MAX_TEXT)


async def agreed(agree: Agree | None, plan: Outcome) -> bool:
    if agree is None:
        return True
    said = agree(plan)
    return (await said if inspect.isawaitable(said) else said) is True


def _guard(sides: Sides) -> Guard:
    return Guard([*sides.there, *sides.folders], sides.here)


def _note(path: str, sides: Sides, guard: Guard) -> str:
    facts = sides.there.get(path)
    if sides.changed_here(path) and not sides.alike(path):
        return "it changed here too"
    return guard.never(path, facts) or guard.held(path, facts)


def _was_here(entry: Entry | None) -> Facts | None:
    return entry.here if entry is not None else None


def _was_there(entry: Entry | None) -> Facts | None:
    return entry.there if entry is not None else None


def _content(root: str, path: str, facts: Facts | None) -> bytes | None:
    """Return what a file here holds, as far as it is shown. Blocks."""
    if facts is None:
        return None
    if facts.kind == "link":
        return facts.content.encode("utf-8", "surrogateescape")
    try:
        fd = os.open(os.path.join(os.fsencode(root), path.encode("utf-8", "surrogateescape")), os.O_RDONLY)
        with open(fd, "rb") as file:
            return file.read(MAX_TEXT + 1)
    except OSError:
        return bytes(MAX_TEXT + 1)
