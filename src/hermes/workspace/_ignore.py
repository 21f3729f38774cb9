"""Which files of a directory stay here when it is copied into a sandbox."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ._facts import OURS, parents

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

GIT_SECONDS = 30.0
MAX_RULES = 1 << 20


class Rules:
    """The rules of ``.hermesignore``, then those of git: ``.gitignore`` and ``.git/info/exclude``.

    The deepest file that knows a path decides, and in it the last line that does. What is in an ignored
    directory is ignored. A file that git tracks is not ignored by rules of git. Blocks.
    """

    def __init__(self, root: str, keep: Iterable[str] = ()) -> None:
        """Read the rules of a directory.

        :param keep: paths that are never ignored, because they were copied before
        """
        self._root = root
        self._specs: dict[tuple[str, str], GitIgnoreSpec | None] = {}
        self._hidden: dict[str, bool] = {}
        self._kept = set(keep)
        self._kept |= {folder for path in self._kept for folder in parents(path)}
        self._tracked = _tracked(root)
        self._tracked |= {folder for path in self._tracked for folder in parents(path)}

    def ignores(self, path: str, *, folder: bool) -> bool:
        """Return whether a path, in directories that are not ignored, stays here."""
        if path.rpartition("/")[2].startswith(OURS):
            return True
        if path in self._kept:
            return False
        said = self._ask(".hermesignore", path, folder)
        if said is not None:
            return said
        if path == ".git" or path.startswith(".git/") or path in self._tracked:
            return False
        said = self._ask(".gitignore", path, folder)
        if said is None:
            said = self._look(".git/info/exclude", "", path, folder)
        return bool(said)

    def hides(self, path: str) -> bool:
        """Return whether a path, or a directory that it lies in, stays here."""
        for folder in parents(path):
            if folder not in self._hidden:
                self._hidden[folder] = self.ignores(folder, folder=True)
            if self._hidden[folder]:
                return True
        return self.ignores(path, folder=False)

    def _ask(self, name: str, path: str, folder: bool) -> bool | None:
        for base in [*list(parents(path))[::-1], ""]:
            said = self._look(name, base, path, folder)
            if said is not None:
                return said
        return None

    def _look(self, name: str, base: str, path: str, folder: bool) -> bool | None:
        key = (name, base)
        if key not in self._specs:
            self._specs[key] = _spec(os.path.join(self._root, base, name))
        spec = self._specs[key]
        if spec is None:
            return None
        inner = path[len(base) + 1 :] if base else path
        return spec.check_file(inner + "/" if folder else inner).include


def _spec(path: str) -> GitIgnoreSpec | None:
    """Return the rules in a file; None when there is none that is one. As git, no link is followed."""
    from pathspec import GitIgnoreSpec

    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(MAX_RULES)
    except OSError:
        return None
    return GitIgnoreSpec.from_lines(text.removeprefix("\ufeff").splitlines(), backend="simple")


def _tracked(root: str) -> set[str]:
    """Return what git tracks below a directory: nothing where there is no git, or no repository."""
    git = shutil.which("git")
    if git is None:
        return set()
    # Nothing that the repository's own settings name is to be run for this.
    settings = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
    try:
        done = subprocess.run(
            [git, *settings, "-C", root, "ls-files", "-z", "--cached"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return set()
    names = done.stdout.split(b"\0") if done.returncode == 0 else []
    return {name.decode("utf-8", "surrogateescape") for name in names if name}
