"""Whole trees, as a tar stream out of the sandbox or into it, through a forked child."""

import json
import os
import stat
from typing import Any, Dict, List

from .archive import CHUNK, READ, Stats, explain, pack, unpack, write_all
from .child import Consumer, Producer
from .files import KINDS, bytes_of, file_op, resolve, text_of
from .parts import digest


def _copy(work: Any, stats: Stats) -> Dict[str, Any]:
    try:
        work()
    except Exception as error:
        code, message = explain(error, stats)
        return dict(stats.counts(), code=code, message=message)
    return stats.counts()


def _folder(guest: Any, call: Any) -> bytes:
    path = resolve(guest, call.args["path"])
    os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    return path


@file_op("tree.get")
def tree_get(guest: Any, call: Any) -> None:
    """Answer with the tree, or with those *names* of it."""
    path, stats = _folder(guest, call), Stats()
    names = call.args.get("names")
    some = None if names is None else [bytes_of(name) for name in names]

    def work(out: int) -> Dict[str, Any]:
        return _copy(lambda: pack(path, lambda data: write_all(out, data), stats, some), stats)

    Producer(guest, call, work)


@file_op("tree.scan")
def tree_scan(guest: Any, call: Any) -> None:
    """Answer with a JSON line for all that is below a directory: name, type, size, mode, times, target.

    With *names* for those of it that are there, and not for what is below them.
    """
    path = _folder(guest, call)
    some = call.args.get("names")

    def work(out: int) -> Dict[str, Any]:
        lines: List[str] = []
        todo = [b""]
        while todo:
            folder = todo.pop()
            try:
                if some is None:
                    names = sorted(os.listdir(os.path.join(path, folder)), reverse=True)
                else:
                    names = [bytes_of(name) for name in some]
            except FileNotFoundError:
                continue
            except OSError:
                lines.append(json.dumps([text_of(folder), "shut", 0, 0, [0, 0], None]) + "\n")
                names = []
            for name in names:
                name = os.path.join(folder, name)
                try:
                    info = os.lstat(os.path.join(path, name))
                    kind = KINDS.get(stat.S_IFMT(info.st_mode), "other")
                    target = text_of(os.readlink(os.path.join(path, name))) if kind == "link" else None
                except (FileNotFoundError, NotADirectoryError):
                    continue
                if kind == "dir" and some is None:
                    todo.append(name)
                mode = stat.S_IMODE(info.st_mode)
                times = [info.st_mtime_ns, info.st_ctime_ns]
                lines.append(json.dumps([text_of(name), kind, info.st_size, mode, times, target]) + "\n")
            if len(lines) > 500 or not todo:
                write_all(out, "".join(lines).encode("ascii"))
                lines = []
        return {}

    Producer(guest, call, work)


@file_op("tree.digest")
def tree_digest(guest: Any, call: Any) -> None:
    """Answer with a JSON line for each of *names* below a directory: the hash of the file, or null.

    One of more than *most* bytes is not read.
    """
    path, most = _folder(guest, call), call.args.get("most")
    names = [bytes_of(name) for name in call.args["names"]]

    def work(out: int) -> Dict[str, Any]:
        for name in names:
            found = None
            try:
                fd = os.open(os.path.join(path, name), READ)
                try:
                    info = os.fstat(fd)
                    if stat.S_ISREG(info.st_mode) and (most is None or info.st_size <= most):
                        found = digest(fd, info.st_size)["sha256"]
                finally:
                    os.close(fd)
            except OSError:
                pass
            write_all(out, (json.dumps(found) + "\n").encode("ascii"))
        return {}

    Producer(guest, call, work)


@file_op("tree.put")
def tree_put(guest: Any, call: Any) -> None:
    """Make the tree that comes as the directory *path*, or inside it as *into* when it is there already."""
    path = resolve(guest, call.args["path"])
    if call.args.get("into") and (path.endswith(b"/") or os.path.isdir(path)):
        path = os.path.join(path, bytes_of(call.args["into"]))
    path = path.rstrip(b"/") or b"/"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    stats = Stats()

    def work(source: int) -> Dict[str, Any]:
        return _copy(lambda: unpack(lambda: os.read(source, CHUNK), path, stats), stats)

    Consumer(guest, call, work)
