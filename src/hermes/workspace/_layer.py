"""The layer of an overlay that holds what was written in a jail, as files of this machine.

Everything in it was chosen by the sandbox, but for the kernel's own marks: a deleted file is a device of
number 0, and a directory whose lower one is hidden is *opaque*, by an attribute. Directories are opened one
name at a time, and no link is followed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
from collections.abc import Callable, Iterator

from hermes.backends._workspace import remove_trees
from hermes.guest import archive
from hermes.guest.archive import CHUNK, FOLDER, READ, TreeError

from ._facts import parents

OPAQUE = "user.overlay.opaque"
ELSEWHERE = ("user.overlay.redirect", "user.overlay.metacopy", "user.overlay.whiteout")
"""What the kernel does not write with the options that a jail mounts with: content that is elsewhere."""

_LOST = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class Layer:
    """What was written (``upper``) over a directory of this machine (``lower``). Blocks."""

    def __init__(self, upper: str, root: str) -> None:
        """Open both.

        :raises OSError: one is not there, or there is a link in the way to it
        """
        self.root = root
        self.upper = self.lower = -1
        try:
            self.upper = os.open(upper, FOLDER)
            self.lower = os.open("/", FOLDER)
            for part in filter(None, root.split("/")):
                above = self.lower
                self.lower = os.open(part, FOLDER, dir_fd=above)
                os.close(above)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for fd in (self.upper, self.lower):
            if fd >= 0:
                os.close(fd)
        self.upper = self.lower = -1

    # --- looking

    @contextlib.contextmanager
    def folder(self, top: int, path: str) -> Iterator[int | None]:
        """Open a directory of one of both; None when there is none."""
        fd: int | None = os.dup(top)
        try:
            for name in filter(None, to_bytes(path).split(b"/")):
                assert fd is not None
                above = fd
                try:
                    fd = os.open(name, FOLDER, dir_fd=above)
                except OSError as error:
                    if error.errno not in _LOST:
                        raise
                    fd = None
                    os.close(above)
                    break
                os.close(above)
            yield fd
        finally:
            if fd is not None:
                os.close(fd)

    @contextlib.contextmanager
    def file(self, top: int, path: str) -> Iterator[int]:
        """Open a file of one of both.

        :raises OSError: there is none, or it cannot be read
        """
        above, _, name = path.rpartition("/")
        with self.folder(top, above) as folder:
            if folder is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            fd = os.open(to_bytes(name), READ, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "it is no file any more")
            yield fd
        finally:
            os.close(fd)

    # --- taking back

    def drop(self, path: str, *, whole: bool = False) -> None:
        """Make a path what it is in the lower directory. The overlay must not be mounted.

        :param whole: if it is a directory, with all that is in it
        :raises OSError: it cannot be done
        """
        for above in parents(path):
            if not self._unfold(above):
                return
        above, _, name = path.rpartition("/")
        with self.folder(self.upper, above) as folder:
            if folder is None:
                return
            os.fchmod(folder, stat.S_IMODE(os.fstat(folder).st_mode) | 0o700)
            base = to_bytes(name)
            info = lstat(folder, base)
            if info is not None and not stat.S_ISDIR(info.st_mode):
                os.unlink(base, dir_fd=folder)
            elif info is not None and whole and remove_trees([f"/proc/self/fd/{folder}/{os.fsdecode(base)}"]):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
        for one in (path, *reversed([*parents(path)])):
            above, _, name = one.rpartition("/")
            with self.folder(self.upper, above) as folder:
                if folder is None:
                    continue
                try:
                    os.rmdir(
                        to_bytes(name), dir_fd=folder
                    )  # what is empty hides nothing once it was unfolded
                except FileNotFoundError:
                    continue
                except OSError:
                    return

    def _unfold(self, path: str) -> bool:
        """Have every name that is hidden in a directory hidden by itself; False when nothing is below it."""
        above, _, name = path.rpartition("/")
        base = to_bytes(name)
        with self.folder(self.upper, above) as folder, self.folder(self.lower, path) as below:
            info = None if folder is None else lstat(folder, base)
            if folder is None or info is None:
                return False
            if is_whiteout(info):
                if below is None:
                    os.unlink(base, dir_fd=folder)
                    return False
                temp = archive.temporary()
                os.mkdir(temp, stat.S_IMODE(os.fstat(below).st_mode) & 0o777 | 0o700, dir_fd=folder)
                with self._opened(folder, temp) as new:
                    self._hide(new, below)
                os.unlink(base, dir_fd=folder)
                os.rename(temp, base, src_dir_fd=folder, dst_dir_fd=folder)
                return True
            if not stat.S_ISDIR(info.st_mode) or marked(folder, base, *ELSEWHERE):
                return False
            if is_opaque(folder, base):
                with self._opened(folder, base) as there:
                    os.fchmod(there, stat.S_IMODE(info.st_mode) | 0o700)
                    if below is not None:
                        self._hide(there, below)
                    os.removexattr(there, OPAQUE)
            return True

    @staticmethod
    @contextlib.contextmanager
    def _opened(folder: int, name: bytes) -> Iterator[int]:
        fd = os.open(name, FOLDER, dir_fd=folder)
        try:
            yield fd
        finally:
            os.close(fd)

    def _hide(self, there: int, below: int) -> None:
        """Hide in one directory all that is in the other."""
        for name in os.listdir(below):
            base = os.fsencode(name)
            info, lower = lstat(there, base), lstat(below, base)
            if info is None:
                os.mknod(base, stat.S_IFCHR, 0, dir_fd=there)
            elif lower is not None and stat.S_ISDIR(info.st_mode) and stat.S_ISDIR(lower.st_mode):
                with self._opened(there, base) as inner:
                    os.setxattr(inner, OPAQUE, b"y")


def lstat(folder: int, name: bytes) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def is_whiteout(info: os.stat_result) -> bool:
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


def marked(folder: int, name: bytes, *marks: str) -> bool:
    """Return whether a file or directory has one of these attributes.

    :raises OSError: it cannot be read
    """
    found = os.listxattr(b"/proc/self/fd/%d/%s" % (folder, name), follow_symlinks=False)
    return not set(marks).isdisjoint(found)


def is_opaque(folder: int, name: bytes) -> bool:
    """Return whether a directory hides the lower one whole.

    :raises OSError: it cannot be told
    """
    try:
        return os.getxattr(b"/proc/self/fd/%d/%s" % (folder, name), OPAQUE, follow_symlinks=False) == b"y"
    except OSError as error:
        if error.errno == errno.ENODATA:
            return False
        raise


def reader(fd: int) -> Callable[[int], bytes]:
    """Return what reads a file that must not be shorter than it was."""

    def some(most: int) -> bytes:
        data = os.read(fd, min(most, CHUNK))
        if not data:
            raise TreeError("io", "it changed inside meanwhile")
        return data

    return some


def born(folder: int, name: bytes) -> int:
    """Return when a file was made, in nanoseconds: for a changed one that is just before its first change.

    0 where this is not known.
    """
    found = ctypes.create_string_buffer(256)
    try:
        failed = ctypes.CDLL(None).statx(folder, name, 0x100, 0x800, found)
    except (AttributeError, OSError):
        return 0
    mask, seconds, rest = struct.unpack_from("=I", found)[0], *struct.unpack_from("=qI", found, 80)
    return int(seconds) * 10**9 + int(rest) if not failed and mask & 0x800 else 0


def to_bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
