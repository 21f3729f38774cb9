"""Trees as a tar stream, written and read by both ends. No channel and no event loop here.

The reading end does not trust the writing end, so :mod:`tarfile` is not used: it takes extended
headers of any length into memory and knows many kinds of entries. This is the small part of pax
that :func:`pack` writes; every other thing in a stream is refused. The nanoseconds of an mtime
stand in the last, unused bytes of a header, which saves a kilobyte for each file.
"""

import errno
import os
import stat
import struct
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

BLOCK = 512
CHUNK = 1 << 18
MAX_EXTENDED = 1 << 16
MAX_NAME = 1 << 14
HEADER = struct.Struct("100s8s8s8s12s12s8sc100s8s32s32s8s8s155s12s")
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

IN_THE_WAY = "something that is not a directory is in the way"

CODES = {
    errno.ENOENT: "not_found",
    errno.EEXIST: "exists",
    errno.ENOTEMPTY: "exists",
    errno.ENOTDIR: "not_a_directory",
    errno.EISDIR: "is_a_directory",
    errno.EACCES: "permission",
    errno.EPERM: "permission",
    errno.EROFS: "permission",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EFBIG: "too_large",
}


class TreeError(Exception):
    """A tree cannot be copied; *code* is that of a FileError."""

    def __init__(self, code: str, message: str) -> None:
        Exception.__init__(self, message)
        self.code = code


class Stats:
    """How far a copy has come."""

    def __init__(self) -> None:
        self.files = self.folders = self.links = self.bytes = 0
        self.outside = 0  # links kept that lead out of the tree
        self.skipped = 0  # devices, FIFOs, sockets, and what vanished meanwhile
        self.changed = 0  # files that became shorter while they were read; filled with zeros
        self.path = b"."

    def counts(self) -> Dict[str, int]:
        return {key: value for key, value in vars(self).items() if key != "path"}


def temporary() -> bytes:
    return b".hermes-" + os.urandom(6).hex().encode() + b"~"


def write_all(fd: int, data: Any) -> None:
    while data:
        size = os.write(fd, data)
        data = data[size:] if size < len(data) else b""


def header(name: bytes, kind: bytes, mode: int, size: int, mtime: int, link: bytes = b"") -> bytes:
    """Return the blocks that announce an entry; *mtime* in nanoseconds."""
    records = b""
    prefix, short = b"", name
    if len(name) > 100:
        cut = name.rfind(b"/", 0, 156)
        prefix, short = name[: max(cut, 0)], name[cut + 1 :]
        if cut < 1 or len(short) > 100:
            prefix, short = b"", name[:100]
            records += _record(b"path", name)
    if len(link) > 100:
        records += _record(b"linkpath", link)
    if size >> 33:
        records += _record(b"size", b"%d" % size)
    seconds, fraction = divmod(mtime, 10**9)
    if seconds < 0 or seconds >> 33:
        seconds = fraction = 0
    before = b""
    if records:
        before = _block(b"././@PaxHeader", b"x", 0, len(records), 0, b"", b"", 0) + padded(records)
    return before + _block(
        short, kind, mode, 0 if size >> 33 else size, seconds, link[:100], prefix, fraction
    )


def _record(key: bytes, value: bytes) -> bytes:
    line = b" %s=%s\n" % (key, value)
    size = len(line)
    while size != len(line) + len(b"%d" % size):
        size = len(line) + len(b"%d" % size)
    return b"%d" % size + line


def _block(
    name: bytes, kind: bytes, mode: int, size: int, mtime: int, link: bytes, prefix: bytes, fraction: int
) -> bytes:
    fields = [name, b"%07o" % mode, b"0000000", b"0000000", b"%011o" % size, b"%011o" % mtime, b" " * 8, kind]
    fields += [link, b"ustar\00000", b"", b"", b"0000000", b"0000000", prefix, b"%09d" % fraction]
    block = HEADER.pack(*fields)
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def pack(
    top: bytes, write: Callable[[bytes], Any], stats: Stats, names: Optional[Iterable[bytes]] = None
) -> None:
    """Write the directory *top* as a stream; its own entry is called ``.``.

    :param names: what to write of it, in this order; directories without what is in them
    """
    parts: List[bytes] = []
    held = 0
    if not stat.S_ISDIR(os.stat(top).st_mode):
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    for part in _pack(os.path.join(top, b""), stats, names):
        parts.append(part)
        held += len(part)
        if held >= CHUNK:
            write(b"".join(parts))
            parts, held = [], 0
    write(b"".join(parts) + bytes(2 * BLOCK))


def _pack(top: bytes, stats: Stats, names: Optional[Iterable[bytes]]) -> Iterator[bytes]:
    todo = [b"."] if names is None else list(names)[::-1]
    deep = names is None
    while todo:
        name = todo.pop()
        path = top + name
        stats.path = name
        try:
            info = os.lstat(path)
            if stat.S_ISDIR(info.st_mode):
                inside = sorted(os.listdir(path), reverse=True) if deep else []
            elif stat.S_ISLNK(info.st_mode):
                link = os.readlink(path)
            elif stat.S_ISREG(info.st_mode):
                fd = os.open(path, READ)
            else:
                stats.skipped += 1
                continue
        except FileNotFoundError:
            if name == b".":
                raise
            stats.skipped += 1
            continue
        mode, mtime = info.st_mode & 0o777, info.st_mtime_ns
        if stat.S_ISDIR(info.st_mode):
            stats.folders += 1
            yield header(name, b"5", mode, 0, mtime)
            todo.extend(one if name == b"." else name + b"/" + one for one in inside)
        elif stat.S_ISLNK(info.st_mode):
            stats.links += 1
            yield header(name, b"2", mode, 0, mtime, link)
        else:
            try:
                info = os.fstat(fd)
                yield header(name, b"0", info.st_mode & 0o777, info.st_size, info.st_mtime_ns)
                for part in _content(fd, info.st_size, stats):
                    yield part
            finally:
                os.close(fd)
            stats.files += 1


def _content(fd: int, size: int, stats: Stats) -> Iterator[bytes]:
    left = size
    while left:
        data = os.read(fd, min(left, CHUNK))
        if not data:
            stats.changed += 1
            while left:
                yield bytes(min(left, CHUNK))
                left -= min(left, CHUNK)
            break
        left -= len(data)
        stats.bytes += len(data)
        yield data
    yield bytes(-size % BLOCK)


class Source:
    """Exact reads from a function that returns bytes as they come and nothing at the end."""

    def __init__(self, more: Callable[[], bytes]) -> None:
        self._more = more
        self._held = memoryview(b"")

    def some(self, most: int) -> memoryview:
        if not self._held:
            self._held = memoryview(self._more())
            if not self._held:
                raise TreeError("io", "the stream ended in the middle")
        data, self._held = self._held[:most], self._held[most:]
        return data

    def exact(self, size: int) -> bytes:
        data = bytes(self.some(size))
        while len(data) < size:
            data += self.some(size - len(data))
        return data

    def finish(self) -> None:
        """Take what follows the end marker, which must be padding."""
        data = bytes(self._held) or self._more()
        while data:
            if any(data):
                raise TreeError("unsafe_path", "there is data after the end of the tree")
            data = self._more()


def entries(source: Source) -> Iterator[Tuple[bytes, bytes, int, int, int, bytes]]:
    """Yield (name, kind, mode, size, mtime, link); the caller takes the padded content from *source*."""
    extra: Dict[bytes, bytes] = {}
    while True:
        block = source.exact(BLOCK)
        if not any(block):
            return
        if block[148:156] != b"%06o\0 " % sum(block[:148] + b" " * 8 + block[156:]):
            raise TreeError("io", "not a header of a tree")
        fields = HEADER.unpack(block)
        name, link, prefix = (fields[at].rstrip(b"\0") for at in (0, 8, 14))
        mode, size, mtime = (_number(fields[at].rstrip(b"\0"), 8) for at in (1, 4, 5))
        if fields[7] == b"x":
            if extra or size > MAX_EXTENDED:
                raise TreeError("unsafe_path", "an extended header of %d bytes" % size)
            extra = _records(source.exact(size + -size % BLOCK)[:size])
            continue
        name = extra.get(b"path", prefix + b"/" + name if prefix else name)
        link = extra.get(b"linkpath", link)
        if b"size" in extra:
            size = _number(extra[b"size"], 10)
        mtime = mtime * 10**9 + _number(fields[15].rstrip(b"\0"), 10)
        if fields[7] not in (b"0", b"2", b"5") or (size and fields[7] != b"0") or size >> 62:
            raise TreeError("unsafe_path", "an entry of kind %r and size %d" % (fields[7], size))
        extra = {}
        yield name, fields[7], mode & 0o777, size, mtime, link


def _number(text: bytes, base: int) -> int:
    if not text.isdigit():
        raise TreeError("io", "not a number in a tree's header: %r" % text[:20])
    try:
        return int(text, base)
    except ValueError:
        raise TreeError("io", "not a number in a tree's header: %r" % text[:20]) from None


def _records(data: bytes) -> Dict[bytes, bytes]:
    found = {}
    while data:
        digits = data[:8].split(b" ")[0]
        size = _number(digits, 10)
        line, data = data[len(digits) + 1 : size], data[size:]
        key, mark, value = line.partition(b"=")
        if size > len(line) + len(digits) + 1 or not mark or not value.endswith(b"\n"):
            raise TreeError("io", "not an extended header")
        found[key] = value[:-1]
    return found


class Unpacker:
    """Writes a stream below one directory and nowhere else.

    Directories are opened one name at a time without following links, so neither an entry nor
    something that was there before can lead outside.
    """

    def __init__(self, root: bytes, stats: Stats) -> None:
        self.stats = stats
        self._made: List[Tuple[bytes, int, int]] = []
        self._new = not os.path.isdir(root)
        if self._new:
            try:
                os.mkdir(root, 0o700)
            except FileExistsError:
                raise TreeError("not_a_directory", IN_THE_WAY) from None
        self._root = os.open(root, FOLDER & ~os.O_NOFOLLOW)
        self._at = b""  # the directory that self._fd is
        self._fd = os.dup(self._root)

    def close(self) -> None:
        os.close(self._fd)
        os.close(self._root)

    def run(self, source: Source) -> None:
        for name, kind, mode, size, mtime, link in entries(source):
            self.stats.path = name
            if name == b"." and kind == b"5":
                self.stats.folders += 1
                if self._new:
                    self._made.append((b"", mode, mtime))
                continue
            parts = name.split(b"/")
            if len(name) > MAX_NAME or b"\0" in name or any(part in (b"", b".", b"..") for part in parts):
                raise TreeError("unsafe_path", "the tree has an entry with an unsafe name")
            base = parts.pop()
            self._enter(b"/".join(parts))
            if kind == b"5":
                self._folder(name, base, mode, mtime)
            elif kind == b"2":
                self._link(parts, base, mtime, link)
            else:
                self._file(base, mode, size, mtime, source)
        source.finish()
        for name, mode, mtime in reversed(self._made):
            self.stats.path = name
            self._enter(name)
            os.utime(self._fd, ns=(mtime, mtime))
            os.fchmod(self._fd, mode)

    def _enter(self, folder: bytes) -> None:
        if folder == self._at:
            return
        fd = os.dup(self._root)
        for part in folder.split(b"/") if folder else ():
            try:
                deeper = os.open(part, FOLDER, dir_fd=fd)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise TreeError(
                        "unsafe_path", "it would be written through a symbolic link or a file"
                    ) from None
                raise
            finally:
                os.close(fd)
            fd = deeper
        os.close(self._fd)
        self._fd, self._at = fd, folder

    def _folder(self, name: bytes, base: bytes, mode: int, mtime: int) -> None:
        try:
            os.mkdir(base, 0o700, dir_fd=self._fd)
        except FileExistsError:
            if not stat.S_ISDIR(self._lstat(base)):
                raise TreeError("not_a_directory", IN_THE_WAY) from None
        else:
            self._made.append((name, mode, mtime))
        self.stats.folders += 1

    def _link(self, parts: List[bytes], base: bytes, mtime: int, link: bytes) -> None:
        if not link or b"\0" in link:
            raise TreeError("unsafe_path", "a symbolic link without a usable target")

        def date(at: bytes, _: Any) -> None:
            os.utime(at, ns=(mtime, mtime), dir_fd=self._fd, follow_symlinks=False)

        self._make(base, lambda at: os.symlink(link, at, dir_fd=self._fd), date)
        self.stats.links += 1
        if link[:1] == b"/" or os.path.normpath(b"/".join(parts + [link])).split(b"/")[0] == b"..":
            self.stats.outside += 1

    def _file(self, base: bytes, mode: int, size: int, mtime: int, source: Source) -> None:
        def fill(_: bytes, fd: int) -> None:
            try:
                left = size
                while left:
                    data = source.some(min(left, CHUNK))
                    write_all(fd, data)
                    left -= len(data)
                    self.stats.bytes += len(data)
                os.fchmod(fd, mode)
                os.utime(fd, ns=(mtime, mtime))
            finally:
                os.close(fd)

        self._make(base, lambda at: os.open(at, CREATE, 0o600, dir_fd=self._fd), fill)
        source.exact(-size % BLOCK)
        self.stats.files += 1

    def _make(
        self, base: bytes, create: Callable[[bytes], Any], finish: Callable[[bytes, Any], None]
    ) -> None:
        """Make a new file or link as *base*; what is there already is replaced when it is complete."""
        new = base
        try:
            made = create(base)
        except FileExistsError:
            if stat.S_ISDIR(self._lstat(base)):
                raise TreeError("is_a_directory", "a directory is in the way") from None
            new = temporary()
            made = create(new)
        try:
            finish(new, made)
            if new != base:
                os.replace(new, base, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            os.unlink(new, dir_fd=self._fd)
            raise

    def _lstat(self, base: bytes) -> int:
        return os.stat(base, dir_fd=self._fd, follow_symlinks=False).st_mode


def unpack(more: Callable[[], bytes], root: bytes, stats: Stats) -> None:
    """Write the tree that *more* brings into the directory *root*, which is made when missing."""
    unpacker = Unpacker(root, stats)
    try:
        unpacker.run(Source(more))
    finally:
        unpacker.close()


def explain(error: BaseException, stats: Optional[Stats] = None) -> Tuple[str, str]:
    """Return the code and the words for what stopped a copy."""
    code, text = "io", "%s: %s" % (type(error).__name__, error)
    if isinstance(error, TreeError):
        code, text = error.code, str(error)
    elif isinstance(error, OSError) and error.errno is not None:
        code, text = CODES.get(error.errno, "io"), os.strerror(error.errno)
    if stats is not None:
        text += " (at %s, after %d files and %d bytes)" % (
            stats.path.decode("utf-8", "backslashreplace"),
            stats.files,
            stats.bytes,
        )
    return code, text
