"""Big files that arrive in parts: what came before a transfer was cut is kept, compared and gone on with.

A part lies beside its place, under a name that the client makes from what it sends. It is moved there when
its hash is the one that was sent.
"""

import hashlib
import os
import stat
from typing import Any, Dict, Optional

from .archive import CHUNK
from .child import Child
from .files import Save, fault, file_op, irregular, resolve, save_stream
from .server import OpError

WRITERS: Dict[bytes, Any] = {}  # the calls that write a part now, by its path


def digest(fd: int, most: int) -> Dict[str, Any]:
    """Return the hash of a file's first bytes, and how many they are."""
    found, at = hashlib.sha256(), 0
    while at < most:
        data = os.pread(fd, min(CHUNK, most - at), at)
        if not data:
            break
        found.update(data)
        at += len(data)
    return {"size": at, "sha256": found.hexdigest()}


@file_op("file.hash")
def file_hash(guest: Any, call: Any) -> None:
    """Answer with the hash of a file's first *n* bytes, or of all that it has if those are fewer."""
    path, most = resolve(guest, call.args["path"]), int(call.args["n"])
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise irregular(call.args["path"])
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        Child(guest, call, lambda: digest(fd, most), (fd,))
    finally:
        os.close(fd)


@file_op("part.look")
def part_look(guest: Any, call: Any) -> None:
    """Answer with the size and the hash of what there is of a part; whoever writes it has to stop."""
    save = Save(guest, call, False)
    other = WRITERS.pop(save.temp, None)
    try:
        if other is not None:
            other.abort()
            other.call.fail("exists", "another client goes on with this transfer")
        size = int(call.args["size"])
        if os.fstat(save.fd).st_size > size:
            os.ftruncate(save.fd, 0)
        Child(guest, call, lambda: digest(save.fd, size), (save.fd,))
    finally:
        save.abort()


@file_op("part.write")
def part_write(guest: Any, call: Any) -> None:
    """Go on with a part at *offset*; what was after it is dropped."""
    offset = max(0, int(call.args["offset"]))
    save = Save(guest, call, False)
    os.ftruncate(save.fd, offset)
    os.lseek(save.fd, offset, os.SEEK_SET)
    WRITERS[save.temp] = save

    def leave() -> None:
        WRITERS.pop(save.temp, None)
        save.abort()

    def end() -> None:
        leave()
        call.reply({"bytes": save.size})

    save_stream(save, end, leave)


@file_op("part.commit")
def part_commit(guest: Any, call: Any) -> None:
    """Move a part that is whole to its place; one that is not is removed."""
    save = Save(guest, call, False)
    size, wanted = int(call.args["size"]), str(call.args["sha256"])

    def work() -> Optional[Dict[str, Any]]:
        try:
            if os.fstat(save.fd).st_size != size or digest(save.fd, size)["sha256"] != wanted:
                os.unlink(save.temp)
                raise OpError("io", "what arrived is not what was sent; it was removed")
            save.finish()
        except OSError as error:
            problem = fault(error, call.args["path"])
            return {"code": problem.code, "message": str(problem)}
        except OpError as error:
            return {"code": error.code, "message": str(error)}
        return {"bytes": size}

    try:
        Child(guest, call, work, (save.fd,))
    finally:
        save.abort()
