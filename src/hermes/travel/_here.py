"""What travels, as it is on this machine."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import posixpath
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hermes.config import Config, home
from hermes.errors import ConfigError

MAX_FILES = 20_000
SKIPPED = frozenset({".git", "__pycache__", ".DS_Store"})
OURS = ".hermes-"  # what a copy that is under way is called
SKILLS, DOTFILES, LISTED = "skills", "dotfiles", "~"


class Limits(NamedTuple):
    """What may travel, in either direction: bytes of one file, and of all together."""

    file: int = 64 << 20
    total: int = 256 << 20

    def exceeded(self, size: int, total: int, count: int) -> str:
        """Return why a file is too much, with what there is before it; empty when it is not."""
        if size > self.file:
            return f"it has more than {_size(self.file)} (skills_max_file)"
        if total + size > self.total:
            return f"with it there is more than {_size(self.total)} (skills_max_total)"
        return f"there are more than {MAX_FILES} files" if count >= MAX_FILES else ""


class Tree(NamedTuple):
    """A directory that travels, or some paths of one.

    ``inside``: where its content goes, from the home inside; ``only``: these paths of it alone.
    """

    name: str
    root: str
    inside: str
    only: tuple[str, ...] | None = None
    limits: Limits = Limits()

    def target(self, path: str) -> str:
        """Return where a file goes, from the home inside."""
        return posixpath.join(self.inside, path)


class Mine(NamedTuple):
    """One file: what is known of it without its content, and where it really lies; times of change."""

    size: int
    mode: int
    times: tuple[int, int]
    real: str
    linked: bool


@dataclass
class Here:
    """All that travels, by tree and path. ``stamp``: another one when anything may have changed.

    ``left``: what stays here, and why.
    """

    files: dict[Tree, dict[str, Mine]] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    stamp: str = ""


def mark() -> str:
    """Return what tells the notes of this hermes home from those of others in the same sandbox. Blocks."""
    text = f"{platform.node()}\0{os.path.realpath(home())}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def trees(config: Config) -> list[Tree]:
    """Return what travels; it need not be there.

    :raises ConfigError: a path that is listed is none of this user's home
    """
    limits = Limits(config.skills_max_file, config.skills_max_total)
    found = [Tree(DOTFILES, str(home() / DOTFILES), "", limits=limits)]
    if config.skills == "copy":
        found.insert(0, Tree(SKILLS, str(home() / SKILLS), f".hermes/{SKILLS}", limits=limits))
    if config.dotfiles:
        own = os.path.expanduser("~")
        found.append(Tree(LISTED, own, "", tuple(_listed(own, one) for one in config.dotfiles), limits))
    return found


def _listed(own: str, path: str) -> str:
    whole = os.path.normpath(os.path.join(own, os.path.expanduser(path)))
    inner = os.path.relpath(whole, own)
    hermes = str(home())
    if inner.split("/")[0] in (".", "..") or "\0" in path or (hermes + "/").startswith(whole + "/"):
        raise ConfigError(
            f"dotfiles: {path!r} is not a file or a directory of {own}; nothing was started",
            hint="Name files such as .gitconfig, and not hermes's own.",
        )
    return inner


def look(some: list[Tree]) -> Here:
    """Return what there is, without its content. Blocks.

    :raises ConfigError: it is too much
    """
    here = Here()
    taken: set[str] = set()
    digest, total, count = hashlib.sha256(), 0, 0
    for tree in some:
        found = here.files[tree] = {}
        for path, one in sorted(_files(tree, here.left)):
            if tree.target(path) in taken:  # what lies in dotfiles/ goes before what is listed
                continue
            taken.add(tree.target(path))
            found[path] = one
            total += one.size
            count += 1
            digest.update(repr((tree.name, path, one[:3])).encode("utf-8", "surrogateescape"))
            if count > MAX_FILES or total > tree.limits.total:
                raise ConfigError(
                    f"skills and dotfiles have more than {MAX_FILES} files, or {_size(tree.limits.total)}; "
                    "none was brought into the sandbox",
                    hint=f"Is there something in {tree.root} that is none? Else raise skills_max_total.",
                )
    here.stamp = digest.hexdigest()[:24] if count else ""
    return here


def _files(tree: Tree, left: dict[str, str]) -> Iterator[tuple[str, Mine]]:
    for only in ("",) if tree.only is None else tree.only:
        top = os.path.join(tree.root, only)
        # A path that is named may be a link to anywhere: whoever named it is this user.
        bound = os.path.realpath(top)
        folders: set[str] = set()
        todo = [(only, bound, os.path.islink(top))]
        while todo:
            path, real, linked = todo.pop()
            if real != bound and not real.startswith(bound + "/"):
                left[os.path.join(tree.root, path)] = "it is a link that leads out"
                continue
            try:
                info = os.stat(real)
                if stat.S_ISDIR(info.st_mode):
                    if real not in folders:  # links may go round in a circle
                        folders.add(real)
                        todo += _below(path, real)
                elif not stat.S_ISREG(info.st_mode):
                    left[os.path.join(tree.root, path)] = "it is neither a file nor a directory"
                elif why := tree.limits.exceeded(info.st_size, 0, 0):
                    left[os.path.join(tree.root, path)] = why
                else:
                    times = (info.st_mtime_ns, info.st_ctime_ns)
                    yield path, Mine(info.st_size, info.st_mode & 0o777, times, real, linked)
            except FileNotFoundError:
                continue  # it went meanwhile, or a link leads nowhere
            except OSError as error:
                left[os.path.join(tree.root, path)] = error.strerror or str(error)


def _below(path: str, real: str) -> Iterator[tuple[str, str, bool]]:
    with os.scandir(real) as entries:
        for entry in entries:
            if entry.name in SKIPPED or entry.name.startswith(OURS):
                continue
            inner = f"{path}/{entry.name}" if path else entry.name
            linked = entry.is_symlink()
            yield inner, os.path.realpath(entry.path) if linked else entry.path, linked


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count} bytes"


def lay_out(some: list[Tree], folder: Path) -> None:
    """Copy what travels into a directory that becomes a home; it is made when there is something. Blocks."""
    for tree, files in look(some).files.items():
        for path, one in files.items():
            target = folder / tree.target(path)
            target.parent.mkdir(0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # it went meanwhile
                shutil.copy2(one.real, target)
