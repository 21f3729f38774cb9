"""Writing what a sandbox sent into a directory here: through no link, file by file, and nowhere else."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Mapping

from hermes.guest import archive
from hermes.guest.archive import CHUNK, CREATE, FOLDER, Source, TreeError

from ._facts import Facts
from ._here import facts_of

UMASK = os.umask(0o077)
os.umask(UMASK)


class Moved(Exception):
    """What is here is not what it was when the change was looked at."""


class Writer:
    """Changes files below one directory. Each is replaced whole, or left as it was. Blocks.

    Directories are opened one name at a time, and links to directories refused.
    """

    def __init__(self, root: str) -> None:
        self._root = os.open(root, FOLDER & ~os.O_NOFOLLOW)

    def close(self) -> None:
        os.close(self._root)

    def take(
        self,
        more: Callable[[], bytes],
        files: Mapping[str, Facts],
        before: Mapping[str, Facts],
        done: Callable[[str, Facts | None, str], None],
    ) -> None:
        """Write the files that a stream of a tree brings.

        :param files: what is expected, and nothing else
        :param before: what there is here now
        :param done: gets each path, what is here now, and why it could not be written
        :raises TreeError: something else came
        """
        source = Source(more)
        left = dict(files)
        for name, kind, _, size, _, _ in archive.entries(source):
            path = name.decode("utf-8", "surrogateescape")
            facts = left.pop(path, None)
            if facts is None or kind != b"0" or size != facts.size:
                raise TreeError("io", f"{path[:200]!r} is not as it was when it was looked at")
            now, why = self.put(path, facts, before.get(path), source.some)
            source.exact(-size % archive.BLOCK)
            done(path, now, why)
        source.finish()

    def put(
        self, path: str, facts: Facts, before: Facts | None, some: Callable[[int], bytes | memoryview]
    ) -> tuple[Facts | None, str]:
        """Write one file; return what is here now, or why it could not be written.

        :param facts: what it has to be
        :param some: returns the next bytes, so many at the most; all of them are taken in any case
        """
        folder, temp, fd, why = -1, archive.temporary(), -1, ""
        try:
            try:
                folder, base = self._folder(path, make=True)
                fd = os.open(temp, CREATE, 0o600, dir_fd=folder)
            except OSError as error:
                why = said(error)
            found = hashlib.sha256()
            left = facts.size
            while left:  # to its end in any case: the next file comes after it
                data = some(min(left, CHUNK))
                left -= len(data)
                found.update(data)
                if not why:
                    try:
                        if not any(data):
                            os.lseek(fd, len(data), os.SEEK_CUR)  # a hole stays one
                        else:
                            archive.write_all(fd, data)
                    except OSError as error:
                        why = said(error)
            if not why and found.hexdigest() != facts.content:
                why = "it changed inside meanwhile"
            if why:
                return None, why
            try:
                os.ftruncate(fd, facts.size)
                os.fchmod(fd, (facts.mode | 0o600) & 0o777 & ~UMASK)
                self._replace(folder, temp, base, before)
                return facts_of(os.fstat(fd)).with_content(facts.content), ""
            except (OSError, Moved) as error:
                return None, said(error)
        finally:
            if fd >= 0:
                os.close(fd)
                with contextlib.suppress(OSError):
                    os.unlink(temp, dir_fd=folder)
            if folder >= 0:
                os.close(folder)

    def link(self, path: str, facts: Facts, before: Facts | None) -> Facts:
        """Make a symbolic link.

        :raises OSError: it cannot be made
        :raises Moved: something else is there by now
        """
        folder, base = self._folder(path, make=True)
        temp = archive.temporary()
        try:
            os.symlink(_bytes(facts.content), temp, dir_fd=folder)
            try:
                self._replace(folder, temp, base, before)
            except BaseException:
                os.unlink(temp, dir_fd=folder)
                raise
            info = os.stat(base, dir_fd=folder, follow_symlinks=False)
            return facts_of(info).with_content(facts.content)
        finally:
            os.close(folder)

    def remove(self, path: str, before: Facts | None, kept: Callable[[str], bool]) -> None:
        """Remove a file or a link, and the directories that are empty then and are not *kept*.

        :raises OSError: it cannot be removed
        :raises Moved: something else is there by now
        """
        try:
            folder, base = self._folder(path)
        except FileNotFoundError:
            return
        try:
            self._check(folder, base, before)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(base, dir_fd=folder)
        finally:
            os.close(folder)
        while (path := path.rpartition("/")[0]) and not kept(path):
            try:
                folder, base = self._folder(path)
            except OSError:
                return
            try:
                os.rmdir(base, dir_fd=folder)
            except OSError:
                return
            finally:
                os.close(folder)

    def _replace(self, folder: int, temp: bytes, base: bytes, before: Facts | None) -> None:
        self._check(folder, base, before)
        os.replace(temp, base, src_dir_fd=folder, dst_dir_fd=folder)

    def _check(self, folder: int, base: bytes, before: Facts | None) -> None:
        """Check that what is about to be replaced is what was looked at."""
        try:
            info = os.stat(base, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            if before is not None:
                raise Moved("it was removed here meanwhile") from None
            return
        now = facts_of(info)
        if before is None or not now.untouched(before):
            raise Moved("it changed here meanwhile, or a directory is in the way")

    def _folder(self, path: str, *, make: bool = False) -> tuple[int, bytes]:
        """Open the directory that a path lies in, and return it with the last name."""
        *folders, base = _bytes(path).split(b"/")
        fd = os.dup(self._root)
        for name in folders:
            try:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, 0o777, dir_fd=fd)
                deeper = os.open(name, FOLDER, dir_fd=fd)
            finally:
                os.close(fd)
            fd = deeper
        return fd, base


def said(error: BaseException) -> str:
    """Return why something could not be written."""
    if isinstance(error, NotADirectoryError) or (isinstance(error, OSError) and error.errno == errno.ELOOP):
        return "a link or a file is in the way"
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
