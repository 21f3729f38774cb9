"""Whole trees, as a tar stream out of the sandbox or into it, through a forked child."""

import os
from typing import Any, Dict

from .archive import CHUNK, Stats, explain, pack, unpack, write_all
from .child import Consumer, Producer
from .files import bytes_of, file_op, resolve


def _copy(work: Any, stats: Stats) -> Dict[str, Any]:
    try:
        work()
    except Exception as error:
        code, message = explain(error, stats)
        return dict(stats.counts(), code=code, message=message)
    return stats.counts()


@file_op("tree.get")
def tree_get(guest: Any, call: Any) -> None:
    path = resolve(guest, call.args["path"])
    os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    stats = Stats()

    def work(out: int) -> Dict[str, Any]:
        return _copy(lambda: pack(path, lambda data: write_all(out, data), stats), stats)

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
