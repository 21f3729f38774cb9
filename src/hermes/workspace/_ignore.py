"""Which files of a directory stay here when it is copied into a sandbox."""

from __future__ import annotations

import enum
import os
import shutil
import subprocess
from collections.abc import Iterable

from hermes.config import environment

from ._facts import OURS, parents
from ._wild import Pattern, last_word, parse

GIT_SECONDS = 30.0
MAX_RULES = 1 << 20


class _Verdict(enum.Enum):
    """Whether a path stays here: by a rule of .hermesignore, by one of git, or not."""

    OURS = enum.auto()
    GITS = enum.auto()
    TRAVELS = enum.auto()


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
        self._patterns: dict[tuple[str, str], list[Pattern]] = {}
        self._folders: dict[str, _Verdict] = {"": _Verdict.TRAVELS}
        self._kept = set(keep)
        self._kept |= {folder for path in self._kept for folder in parents(path)}
        self._tracked = _tracked(root)
        self._tracked |= {folder for path in self._tracked for folder in parents(path)}

    def ignores(self, path: str, *, folder: bool) -> bool:
        """Return whether a path stays here. What is in a directory that does may travel all the same."""
        if path.rpartition("/")[2].startswith(OURS):
            return True
        if path in self._kept:
            return False
        above = _Verdict.TRAVELS
        for one in parents(path):
            if one not in self._folders:
                self._folders[one] = self._verdict(one, above, folder=True)
            above = self._folders[one]
        verdict = self._verdict(path, above, folder=folder)
        return verdict is _Verdict.OURS or (verdict is _Verdict.GITS and path not in self._tracked)

    def _verdict(self, path: str, above: _Verdict, *, folder: bool) -> _Verdict:
        if above is _Verdict.OURS:
            return above
        said = self._ask(".hermesignore", path, folder)
        if said:
            return _Verdict.OURS
        if above is _Verdict.GITS:
            return above
        if said is False or ".git" in path.split("/"):
            return _Verdict.TRAVELS
        said = self._ask(".gitignore", path, folder)
        if said is None:
            said = self._look(".git/info/exclude", "", path, folder)
        return _Verdict.GITS if said else _Verdict.TRAVELS

    def _ask(self, name: str, path: str, folder: bool) -> bool | None:
        for base in [*list(parents(path))[::-1], ""]:
            said = self._look(name, base, path, folder)
            if said is not None:
                return said
        return None

    def _look(self, name: str, base: str, path: str, folder: bool) -> bool | None:
        key = (name, base)
        if key not in self._patterns:
            self._patterns[key] = _patterns(os.path.join(self._root, base, name))
        if not self._patterns[key]:
            return None
        inner = path[len(base) + 1 :] if base else path
        names = inner.encode("utf-8", "surrogateescape").split(b"/")
        return last_word(self._patterns[key], names, folder=folder)


def _patterns(path: str) -> list[Pattern]:
    """Return the rules in a file; none when there is no file. As git, no link is followed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return parse(file.read(MAX_RULES))
    except OSError:
        return []


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
            env=environment(),
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return set()
    names = done.stdout.split(b"\0") if done.returncode == 0 else []
    return {name.decode("utf-8", "surrogateescape") for name in names if name}
