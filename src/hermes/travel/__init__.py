"""Skills and dotfiles: copies of the user's own files in the home of every sandbox.

Each side may change them. What changed here goes there before the next command, unless it changed there as
well; what changed there comes here only when somebody fetches it.

``_here`` knows what there is on this machine, ``_wire`` how it travels and what is noted of it inside,
``_push`` brings it there, ``_back`` compares and fetches.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from hermes.errors import ConfigError, FileError

from ._here import Here, Tree, lay_out, look, mark, trees

if TYPE_CHECKING:
    from hermes.channel.channel import Channel
    from hermes.config import Config
    from hermes.workspace import Agree, Change, Outcome

__all__ = ["Travel", "Tree", "lay_out", "trees"]

RETRY = 10.0  # seconds after which what could not be done is tried again
SHARE = 50  # looking takes a fiftieth of the time at the most


class Travel:
    """What travels into one sandbox. Used from one event loop.

    ``home`` is the home inside. After a look, ``trees`` is what may travel, ``mark`` what tells the notes of
    this hermes home from those of others, and ``stamp`` the state of the files here that is inside.
    """

    def __init__(self, channel: Channel, config: Config) -> None:
        """Make that of a sandbox, with what a configuration says."""
        self.channel = channel
        self.home = str(channel.guest.get("home"))
        self.trees: list[Tree] = []
        self.mark = self.stamp = ""
        self._config = config
        self._next = 0.0
        self._told = ""
        self._lock = asyncio.Lock()

    async def look(self) -> Here:
        """Return what is here.

        :raises ConfigError: it is too much
        """

        def work() -> Here:
            if not self.trees:
                self.trees, self.mark = trees(self._config), mark()
                notes = self.channel.guest.get("notes")
                self.stamp = str(notes.get(self.mark, "")) if isinstance(notes, dict) else ""
            return look(self.trees)

        return await asyncio.to_thread(work)

    async def fresh(self) -> None:
        """See to it that what changed here is inside, save what changed there too.

        :raises HermesError: the sandbox is out of reach
        """
        if time.monotonic() < self._next:
            return
        async with self._lock:
            began = time.monotonic()
            if began < self._next:
                return  # another command has just looked
            try:
                here = await self.look()
                self._next = time.monotonic() + SHARE * (time.monotonic() - began)
                if here.stamp != self.stamp:
                    from ._push import push  # mostly nothing changed

                    await push(self, here)
            except (FileError, ConfigError) as error:
                self._next = time.monotonic() + RETRY
                if error.message != self._told:
                    self._told = error.message
                    warnings.warn(
                        f"skills and dotfiles could not be brought inside: {error.message}", stacklevel=4
                    )

    async def diffs(self, *paths: str) -> AsyncGenerator[tuple[Change, str], None]:
        """Yield what changed inside, each with its text in the form of ``diff -u``.

        :param paths: such as ``skills/one`` or ``dotfiles``; all when there are none
        """
        from ._back import diffs

        async for one in diffs(self, paths):
            yield one

    async def pull(
        self, *paths: str, force: bool = False, dry_run: bool = False, agree: Agree | None = None
    ) -> Outcome:
        """Bring what changed inside here. What changed here too is left as it is, and listed as a conflict.

        Nothing is written through a link, or outside of ``skills`` and ``dotfiles`` of hermes's home.

        :param paths: as with :meth:`diffs`
        :param force: overwrite what changed here too
        :param dry_run: only say what would be done
        :param agree: gets what would be done; nothing is unless it returns True
        """
        from ._back import pull

        self._next = 0.0
        return await pull(self, paths, force=force, dry_run=dry_run, agree=agree)
