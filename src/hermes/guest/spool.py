"""The output of one stream of one task: all of it, readable by offset, in little memory.

A short output stays in memory. A longer one goes to a file. Past the quota, or when the disk is
full, the middle is dropped: the file keeps the start, memory keeps the end, and both say so.
"""

import collections
import os
from typing import Deque, Optional

MEMORY = 1 << 17
TAIL = 1 << 20


class Spool:
    """Append-only bytes with a hole in the middle at worst."""

    size = 0  # bytes that came
    kept = 0  # of those, how many the start (memory or file) has
    dropped = 0  # bytes of the middle that are gone
    error: Optional[str] = None
    _fd = -1
    _tail_size = 0

    def __init__(self, path: str, quota: int) -> None:
        self.path = path
        self._quota = max(quota - TAIL, 0)
        self._head = bytearray()
        self._tail: Deque[bytes] = collections.deque()

    @property
    def on_disk(self) -> bool:
        return self._fd >= 0

    def append(self, data: bytes) -> None:
        self.size += len(data)
        if not self._tail and self.error is None:
            room = self._quota - self.kept
            if len(data) <= room:
                self._store(data)
                return
            if room > 0:
                self._store(data[:room])
                data = data[room:] if self.error is None else data
            if self.error is None:
                self.error = "the quota of %d bytes was used up" % (self._quota + TAIL)
        self._remember(data)

    def read(self, offset: int, size: int) -> bytes:
        """Return up to *size* bytes from *offset*; nothing at the end, and nothing in the hole."""
        if offset < self.kept:
            size = min(size, self.kept - offset)
            if self._fd < 0:
                return bytes(self._head[offset : offset + size])
            return os.pread(self._fd, size, offset)
        tail_start = self.size - self._tail_size
        if offset < tail_start:
            return b""
        skip = offset - tail_start
        parts, left = [], size
        for piece in self._tail:
            if skip >= len(piece):
                skip -= len(piece)
                continue
            part = piece[skip : skip + left]
            skip = 0
            left -= len(part)
            parts.append(part)
            if not left:
                break
        return b"".join(parts)

    def next_offset(self, offset: int) -> int:
        """Return *offset*, or where the output goes on when it lies in the hole."""
        return max(offset, self.size - self._tail_size) if offset >= self.kept else offset

    def notice(self, missing: int) -> bytes:
        """Return the line that stands where bytes are missing."""
        return ("\n[... %d bytes were not kept: %s ...]\n" % (missing, self.error)).encode(
            "utf-8", "surrogateescape"
        )

    def keep_on_disk(self) -> None:
        """Put a short output into its file too, so that it can be paged like a long one."""
        if self._fd < 0 and self.error is None:
            self._open()

    def close(self, remove: bool) -> None:
        """Let go of the memory, and of the file too unless it is to be paged later."""
        if self._fd >= 0:
            if self._tail and not remove:
                try:
                    os.write(self._fd, self.notice(self.dropped) + b"".join(self._tail))
                except OSError:
                    pass  # the disk is full: the result's own tail is what remains
            os.close(self._fd)
            self._fd = -1
            if remove:
                try:
                    os.unlink(self.path)
                except OSError:
                    pass
        self._head = bytearray()
        self._tail.clear()

    def _store(self, data: bytes) -> None:
        if self._fd < 0:
            if self.kept + len(data) <= MEMORY:
                self._head += data
                self.kept += len(data)
                return
            self._open()
        if self.error is None:
            self._write(data)
        else:
            self._remember(data)

    def _open(self) -> None:
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self.error = "%s: %s" % (self.path, error.strerror)
            return
        head, self._head = bytes(self._head), bytearray()
        self.kept = 0
        self._write(head)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                size = os.write(self._fd, view)
            except OSError as error:
                self.error = "%s: %s" % (self.path, error.strerror)
                self._remember(bytes(view))
                return
            self.kept += size
            view = view[size:]

    def _remember(self, data: bytes) -> None:
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= TAIL:
            size = len(self._tail.popleft())
            self._tail_size -= size
            self.dropped += size
