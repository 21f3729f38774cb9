"""File operations. Paths are bytes here: what the system gave comes back to it unchanged."""

import errno
import json
import os
import stat
import time
from typing import Any, Callable, Dict, Iterator, List, Optional

from .archive import CHUNK, CODES, CREATE, temporary, write_all
from .child import Child
from .server import OpError, op

SMALL = 1 << 17  # an answer of up to this many bytes is one message
SLICE = 0.005  # seconds of work between two looks at the other clients
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}
PART = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
UMASK = os.umask(0o077)
os.umask(UMASK)


def text_of(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def bytes_of(text: Any) -> bytes:
    """Return the path that the client means; the locale here has no say."""
    try:
        path: bytes = text.encode("utf-8", "surrogateescape")
    except (AttributeError, UnicodeError):
        raise OpError("unsafe_path", "not a path: %r" % (text,)) from None
    if b"\0" in path:
        raise OpError("unsafe_path", "a path cannot contain NUL", path=text)
    if not path:
        raise OpError("not_found", "the path is empty", path=text)
    return path


def resolve(guest: Any, text: Any) -> bytes:
    return os.path.join(guest.cwd.encode("utf-8", "surrogateescape"), bytes_of(text))


def fault(error: OSError, path: Any, **context: Any) -> OpError:
    """Return the error of a file operation for what the system said."""
    number = error.errno or 0
    return OpError(CODES.get(number, "io"), "%s: %s" % (os.strerror(number), path), path=path, **context)


def irregular(path: Any) -> OpError:
    return OpError("io", "not a regular file (a device, a FIFO or a socket): %s" % path, path=path)


def file_op(name: str) -> Callable[[Callable[[Any, Any], None]], Callable[[Any, Any], None]]:
    """Register a file operation; what the system refuses becomes an error with the path."""

    def register(function: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        def run(guest: Any, call: Any) -> None:
            try:
                function(guest, call)
            except OSError as error:
                raise fault(error, call.args.get("path"))

        return op(name)(run)

    return register


class Answer:
    """Sends what a generator yields: inside the reply when it is small, else as a stream.

    An empty part only gives the other clients a turn.
    """

    def __init__(self, guest: Any, call: Any, parts: Iterator[bytes], info: Dict[str, Any]) -> None:
        self._loop = guest.loop
        self._call = call
        self._parts = parts
        self._info = info
        self._held = b""
        self._streaming = self._ended = self._due = False
        call.on_cancel = self._stop
        self._step()

    def _stop(self) -> None:
        self._ended = True
        self._held = b""
        self._parts.close()  # type: ignore[attr-defined]

    def _wake(self) -> None:
        if not self._due:
            self._due = True
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        self._due = False
        end = time.monotonic() + SLICE
        try:
            while not self._ended and len(self._held) <= SMALL and time.monotonic() < end:
                part = next(self._parts, None)
                self._ended = part is None
                self._held += part or b""
        except OSError as error:
            self._stop()
            problem = fault(error, self._call.args.get("path"))
            self._call.fail(problem.code, str(problem), **problem.context)
            return
        if len(self._held) > SMALL and not self._streaming:
            self._streaming = True
            self._call.on_writable = self._wake
        if self._streaming:
            room = self._call.writable()
            if self._held and not room:
                return
            if self._held:
                self._call.send(self._held[:room])
                self._held = self._held[room:]
        if not self._ended or (self._streaming and self._held):
            self._wake()
            return
        if self._streaming:
            self._call.on_writable = None
            self._call.send_eof()
        self._call.reply(self._info, self._held)


@file_op("file.read")
def file_read(guest: Any, call: Any) -> None:
    """Answer with the bytes from *offset* on, *n* at most; more than *limit* is refused."""
    path, offset, count = resolve(guest, call.args["path"]), call.args.get("offset", 0), call.args.get("n")
    info = os.stat(path)  # before opening: to open a FIFO or a device already does something
    if stat.S_ISDIR(info.st_mode):
        raise IsADirectoryError(errno.EISDIR, "")
    if not stat.S_ISREG(info.st_mode):
        raise irregular(call.args["path"])
    limit = call.args.get("limit")
    if count is None and limit is not None and info.st_size - offset > limit:
        message = "%s has %d bytes, more than the %d that are read at once"
        raise OpError("too_large", message % (call.args["path"], info.st_size, limit), path=call.args["path"])
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if offset:
            os.lseek(fd, offset, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    small = info.st_size - offset < SMALL // 2
    Answer(guest, call, _content(fd, count, SMALL // 2 if small else CHUNK), {"size": info.st_size})


def _content(fd: int, left: Optional[int], size: int) -> Iterator[bytes]:
    try:
        while left is None or left > 0:
            data = os.read(fd, size if left is None else min(left, size))
            if not data:
                return
            if left is not None:
                left -= len(data)
            yield data
    finally:
        os.close(fd)


class Save:
    """A file being written: beside its place, and moved there when it is complete; or appended to."""

    def __init__(self, guest: Any, call: Any, append: bool) -> None:
        args = call.args
        path = resolve(guest, args["path"])
        if args.get("into") and (path.endswith(b"/") or os.path.isdir(path)):
            path = os.path.join(path, bytes_of(args["into"]))
        self.call = call
        self.path = os.path.realpath(path)
        self.temp = b""
        self.keep = False  # what there is of it when the call ends
        self.size = 0
        if args.get("parents"):
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
        try:
            info: Optional[os.stat_result] = os.lstat(self.path)
        except FileNotFoundError:
            info = None
        if path.endswith(b"/") or (info is not None and stat.S_ISDIR(info.st_mode)):
            raise IsADirectoryError(errno.EISDIR, "")
        if info is not None and not stat.S_ISREG(info.st_mode):
            raise irregular(args["path"])
        self.owner = info
        self.mode = args.get("mode")
        if append:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self.fd = os.open(self.path, flags, 0o666)
            return
        if self.mode is None:
            self.mode = stat.S_IMODE(info.st_mode) & 0o777 if info is not None else 0o666 & ~UMASK
        folder = os.path.dirname(self.path)
        part = args.get("part")
        if part is None:
            self.temp = os.path.join(folder, temporary())
            self.fd = os.open(self.temp, CREATE, 0o600)
            return
        if not (isinstance(part, str) and part.isalnum()):
            raise ValueError("not the name of a part: %r" % (part,))
        self.keep = True
        self.temp = os.path.join(folder, b".hermes-" + part.encode("ascii") + b".part")
        self.fd = os.open(self.temp, PART, 0o600)
        info = os.fstat(self.fd)
        if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
            os.close(self.fd)
            raise irregular(text_of(self.temp))

    def write(self, data: bytes) -> None:
        write_all(self.fd, data)
        self.size += len(data)

    def commit(self) -> None:
        self.finish()
        self.call.reply({"bytes": self.size})

    def finish(self) -> None:
        """Give the file its mode, time and name."""
        if self.mode is not None:
            if self.temp and self.owner is not None:
                self._keep_owner(self.owner)
            os.fchmod(self.fd, self.mode & 0o7777)
        mtime = self.call.args.get("mtime_ns")
        if mtime is not None:
            os.utime(self.fd, ns=(mtime, mtime))
        fd, self.fd = self.fd, -1
        os.close(fd)
        if self.temp:
            os.rename(self.temp, self.path)
            self.temp = b""

    def _keep_owner(self, owner: os.stat_result) -> None:
        try:
            if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(self.fd, owner.st_uid, owner.st_gid)
        except OSError:
            pass  # only root may give files away

    def abort(self) -> None:
        """Leave what was there before, as far as nothing was appended."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        if self.temp and not self.keep:
            try:
                os.unlink(self.temp)
            except OSError:
                pass
            self.temp = b""

    def guarded(self, step: Callable[[], None]) -> None:
        try:
            if self.fd >= 0:
                step()
        except OSError as error:
            self.keep = False  # a disk that is full needs the room
            self.abort()
            problem = fault(error, self.call.args["path"], written=self.size)
            self.call.fail(problem.code, str(problem), **problem.context)
        except (TypeError, ValueError, OverflowError) as error:
            self.abort()
            self.call.fail("bad_request", str(error))


def _save(guest: Any, call: Any, append: bool) -> None:
    save = Save(guest, call, append)
    if not call.args.get("stream"):

        def whole() -> None:
            save.write(call.raw)
            save.commit()

        save.guarded(whole)
        return

    save_stream(save, save.commit, save.abort)


def save_stream(save: Save, end: Callable[[], None], leave: Callable[[], None]) -> None:
    """Write what the client sends; *end* follows the last of it, *leave* when that will not come."""
    call = save.call

    def take(data: bytes, _chan: int) -> None:
        save.guarded(lambda: save.write(data))
        call.grant(len(data))

    call.on_data = take
    call.on_eof = lambda: save.guarded(end)
    call.on_cancel = leave


@file_op("file.write")
def file_write(guest: Any, call: Any) -> None:
    """Replace a file as a whole, or leave it as it was."""
    _save(guest, call, False)


@file_op("file.append")
def file_append(guest: Any, call: Any) -> None:
    _save(guest, call, True)


def describe(path: bytes, follow: bool = False) -> Dict[str, Any]:
    info = os.stat(path) if follow else os.lstat(path)
    kind = KINDS.get(stat.S_IFMT(info.st_mode), "other")
    return {
        "name": text_of(os.path.basename(path)),
        "type": kind,
        "size": info.st_size,
        "mode": stat.S_IMODE(info.st_mode),
        "mtime_ns": info.st_mtime_ns,
        "target": text_of(os.readlink(path)) if kind == "link" else None,
    }


@file_op("file.stat")
def file_stat(guest: Any, call: Any) -> None:
    call.reply(describe(resolve(guest, call.args["path"]), bool(call.args.get("follow"))))


@file_op("file.list")
def file_list(guest: Any, call: Any) -> None:
    """Answer with one JSON line for each name, sorted."""
    Answer(guest, call, _list(resolve(guest, call.args["path"])), {})


def _list(folder: bytes) -> Iterator[bytes]:
    names: List[bytes] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            names.append(entry.name)
            if not len(names) % 1000:
                yield b""
    lines = []
    for at, name in enumerate(sorted(names), 1):
        try:
            lines.append(json.dumps(describe(os.path.join(folder, name))) + "\n")
        except FileNotFoundError:
            pass
        if not at % 100 or at == len(names):
            yield "".join(lines).encode("ascii")
            lines = []


@file_op("file.mkdir")
def file_mkdir(guest: Any, call: Any) -> None:
    path = resolve(guest, call.args["path"])
    if call.args.get("parents"):
        os.makedirs(path, exist_ok=True)
    else:
        os.mkdir(path)
    call.reply({})


def _expendable(guest: Any, text: Any) -> bytes:
    """Return the path of something that may be removed or moved, its last link not followed."""
    path = resolve(guest, text).rstrip(b"/") or b"/"
    folder, name = os.path.split(path)
    if name in (b"", b".", b".."):
        path = os.path.realpath(path)
    else:
        path = os.path.join(os.path.realpath(folder), name)
    for kept in (resolve(guest, "."), os.path.expanduser(b"~"), b"/"):
        kept = os.path.realpath(kept)
        if kept == path or kept.startswith(os.path.join(path, b"")):
            raise OpError("unsafe_path", "%s is, or contains, %s" % (text, text_of(kept)), path=text)
    return path


@file_op("file.remove")
def file_remove(guest: Any, call: Any) -> None:
    """Remove a file, a link itself, or a directory: an empty one, or any when *recursive*."""
    path = _expendable(guest, call.args["path"])
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)
    elif call.args.get("recursive"):

        def clear() -> None:
            import shutil

            shutil.rmtree(path)

        Child(guest, call, clear)
        return
    else:
        os.rmdir(path)
    call.reply({})


@file_op("file.move")
def file_move(guest: Any, call: Any) -> None:
    """Rename like mv: into *to* when that is a directory, else to that name."""
    path, to = _expendable(guest, call.args["path"]), resolve(guest, call.args["to"])
    os.lstat(path)
    if os.path.isdir(to):
        to = os.path.join(to, os.path.basename(path))
    try:
        os.rename(path, to)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise fault(error, "%s to %s" % (call.args["path"], call.args["to"]))

        def copy() -> None:
            import shutil

            shutil.move(os.fsdecode(path), os.fsdecode(to))

        Child(guest, call, copy)
        return
    call.reply({})
