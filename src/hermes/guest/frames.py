"""Frames, the units of the channel, in two encodings of the same content. No I/O here.

A frame is the tuple ``(kind, chan, stream, seq, ack, body)``. *stream* names the call that the
frame belongs to, *seq* numbers the frames of one direction (0: not numbered), *ack* is the last
number received in order from the other side.

Binary, for clean byte pipes: a header of 28 bytes, then the body. Text, for terminals and
line-oriented cloud streams: 0x1e, JSON, newline; whatever else stands in the stream is noise and
is skipped.
"""

import base64
import binascii
import json
import struct
from typing import Any, Dict, List, Tuple

HELLO, CALL, REPLY, DATA, EOF, CREDIT, CANCEL, ACK, PING, PONG, BYE = range(1, 12)
KINDS = range(HELLO, BYE + 1)
NUMBERED = frozenset((CALL, REPLY, DATA, EOF, CREDIT, CANCEL))

PROTOCOL = 1
MAGIC = 0xE5
MARK = b"\x1e"
HEADER = struct.Struct("!BBBxIQQI")
HEADER_SIZE = HEADER.size
LENGTH = struct.Struct("!I")

MAX_BODY = 1 << 20
CHUNK = 1 << 18  # most data bytes of one binary frame
TEXT_CHUNK = 30000  # as base64 and JSON this stays below 60 KB a line, which PTYs and log streams carry
MAX_LINE = 4 * MAX_BODY // 3 + 256

Frame = Tuple[int, int, int, int, int, bytes]


class ProtocolError(Exception):
    """The other end sent what it must not."""


_to_json = json.JSONEncoder(separators=(",", ":")).encode
_from_json = json.JSONDecoder().raw_decode  # without the search for blanks around it, which takes as long


def pack(obj: Dict[str, Any], raw: bytes = b"") -> bytes:
    """Return the body of a message: the length of the JSON, the JSON, then raw bytes."""
    text = _to_json(obj).encode("ascii")
    return LENGTH.pack(len(text)) + text + raw


def unpack(body: bytes) -> Tuple[Dict[str, Any], bytes]:
    """Return what :func:`pack` took; anything else is a :class:`ProtocolError`."""
    if len(body) < 4:
        raise ProtocolError("a message without its length")
    (size,) = LENGTH.unpack_from(body)
    if size > len(body) - 4:
        raise ProtocolError("a message shorter than it says")
    try:
        obj, end = _from_json(body[4 : 4 + size].decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a message that is not JSON: %s" % error) from None
    if not isinstance(obj, dict) or end != size:
        raise ProtocolError("a message that is not an object")
    return obj, body[4 + size :]


class Binary:
    """Encoder and incremental decoder of the binary encoding."""

    name = "binary"
    chunk = CHUNK

    def __init__(self) -> None:
        self._need = HEADER_SIZE
        self._parts: List[bytes] = []  # of a frame that is not whole yet
        self._held = 0

    @staticmethod
    def encode(kind: int, chan: int, stream: int, seq: int, ack: int, body: bytes) -> bytes:
        return HEADER.pack(MAGIC, kind, chan, stream, seq, ack, len(body)) + body

    def feed(self, data: bytes) -> List[Frame]:
        """Take bytes as they come and return the frames they complete."""
        if self._parts:
            self._parts.append(data)
            self._held += len(data)
            if self._held < self._need:
                return []
            data = b"".join(self._parts)
            self._parts, self._need = [], HEADER_SIZE
        frames: List[Frame] = []
        at, end = 0, len(data)
        while end - at >= HEADER_SIZE:
            magic, kind, chan, stream, seq, ack, size = HEADER.unpack_from(data, at)
            if magic != MAGIC or kind not in KINDS:
                raise ProtocolError("not a frame: %r" % data[at : at + 16])
            if size > MAX_BODY:
                raise ProtocolError("a frame of %d bytes (at most %d)" % (size, MAX_BODY))
            start = at + HEADER_SIZE
            if end - start < size:
                self._need = HEADER_SIZE + size
                break
            at = start + size
            frames.append((kind, chan, stream, seq, ack, data[start:at]))
        if at < end:
            self._parts, self._held = [data[at:]], end - at
        return frames


class Text:
    """Encoder and incremental decoder of the text encoding."""

    name = "text"
    chunk = TEXT_CHUNK

    def __init__(self) -> None:
        self._rest = b""
        self._parts: List[bytes] = []
        self._held = 0

    @staticmethod
    def encode(kind: int, chan: int, stream: int, seq: int, ack: int, body: bytes) -> bytes:
        fields = "[%d,%d,%d,%d,%d," % (kind, chan, stream, seq, ack)
        return MARK + fields.encode() + b'"' + base64.b64encode(body) + b'"]\n'

    def feed(self, data: bytes) -> List[Frame]:
        """Take bytes as they come and return the frames they complete; noise is skipped."""
        self._parts.append(data)
        self._held += len(data)
        if b"\n" not in data:
            if self._held > MAX_LINE:
                data = b"".join(self._parts)
                if MARK in data[-MAX_LINE:]:
                    raise ProtocolError("a line of more than %d bytes" % MAX_LINE)
                self._parts, self._held = [], 0
            return []
        lines = b"".join(self._parts).split(b"\n")
        rest = lines.pop()
        self._parts = [rest] if rest else []
        self._held = len(rest)
        frames: List[Frame] = []
        for line in lines:
            mark = line.rfind(MARK)
            if mark >= 0:
                frames.append(self._parse(line[mark + 1 :]))
        return frames

    @staticmethod
    def _parse(line: bytes) -> Frame:
        try:
            kind, chan, stream, seq, ack, body = json.loads(line.decode("ascii"))
            data = base64.b64decode(body.encode("ascii"), validate=True)
        except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error):
            raise ProtocolError("not a frame: %r" % line[:64]) from None
        for number, limit in ((kind, 256), (chan, 256), (stream, 1 << 32), (seq, 1 << 64), (ack, 1 << 64)):
            if type(number) is not int or not 0 <= number < limit:
                raise ProtocolError("not a frame: %r" % line[:64])
        if kind not in KINDS or len(data) > MAX_BODY:
            raise ProtocolError("not a frame: %r" % line[:64])
        return kind, chan, stream, seq, ack, data
