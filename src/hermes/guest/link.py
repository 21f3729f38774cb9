"""One end of the conversation, without I/O: numbers, acknowledgements, resending, credit.

A link outlives its connections. Frames that matter are numbered and kept until the other end has
acknowledged them; after a reconnection each end says the last number it saw and the other sends
the rest again. Nothing is lost, nothing is processed twice.
"""

import collections
import struct
import zlib
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from .frames import ACK, CREDIT, DATA, NUMBERED, Frame, ProtocolError

WINDOW = 1 << 20  # bytes of data one stream may have on the way, each direction
ACK_FRAMES = 64
ACK_BYTES = 1 << 19
MORE = 0x80  # flag in *chan*: the message goes on in the next frame of its stream
DEFLATED = 0x40  # flag in *chan*: the body is compressed
SHORT = range(1200, 1 << 14)  # bodies that compressing turns from several packets into one or two
MAX_MESSAGE = 1 << 24
_U32 = struct.Struct("!I")


class Link:
    """The numbered frames of one client and one guest."""

    def __init__(self, chunk: int) -> None:
        self.chunk = chunk  # longest body of one frame
        self.sent = 0
        self.acked = 0  # the last number that the other end has acknowledged
        self.seen = 0
        self.codec: Any = None
        self.out: List[bytes] = []
        self.on_output: Optional[Callable[[], None]] = None
        self.deflates = False  # the way is long: a packet more costs more than to compress does
        self._unacked: Deque[Tuple[int, int, int, int, bytes]] = collections.deque()
        self._partial: Dict[Tuple[int, int], List[bytes]] = {}
        self._silent_frames = 0
        self._silent_bytes = 0

    def connect(self, codec: Any, peer_seen: int) -> None:
        """Start on a new connection whose other end has seen *peer_seen*; what it missed goes out again."""
        oldest = self._unacked[0][0] if self._unacked else self.sent + 1
        if not oldest - 1 <= peer_seen <= self.sent:
            raise ProtocolError("the other end saw frame %d of %d..%d" % (peer_seen, oldest - 1, self.sent))
        self._prune(peer_seen)
        self.codec = codec
        for seq, kind, chan, stream, body in self._unacked:
            self._emit(kind, chan, stream, seq, body)

    def disconnect(self) -> None:
        """Forget the connection; numbered frames wait for the next one."""
        self.codec = None
        self.out = []

    def send(self, kind: int, stream: int, body: bytes = b"", chan: int = 0) -> None:
        """Send a numbered message now, or at the next connection; a long one in several frames."""
        while len(body) > self.chunk:
            self._number(kind, chan | MORE, stream, body[: self.chunk])
            body = body[self.chunk :]
        self._number(kind, chan, stream, body)

    def _number(self, kind: int, chan: int, stream: int, body: bytes) -> None:
        if self.deflates and len(body) in SHORT:
            deflated = zlib.compress(body, 1)
            if len(deflated) < len(body) * 3 // 4:
                chan, body = chan | DEFLATED, deflated
        self.sent += 1
        self._unacked.append((self.sent, kind, chan, stream, body))
        if self.codec is not None:
            self._emit(kind, chan, stream, self.sent, body)

    def control(self, kind: int, body: bytes = b"") -> None:
        """Send an unnumbered frame, if there is a connection."""
        if self.codec is not None:
            self._emit(kind, 0, 0, 0, body)

    def receive(self, frame: Frame) -> Optional[Frame]:
        """Note a frame's numbers; return the message it completes, if it is new and does."""
        kind, chan, stream, seq, ack, body = frame
        if ack > self.sent:
            raise ProtocolError("frame %d was acknowledged, %d were sent" % (ack, self.sent))
        self._prune(ack)
        if kind not in NUMBERED:
            return frame
        if seq <= self.seen:
            return None
        if seq != self.seen + 1:
            raise ProtocolError("frame %d came after frame %d" % (seq, self.seen))
        self.seen = seq
        self._silent_frames += 1
        self._silent_bytes += len(body)
        if self._silent_frames >= ACK_FRAMES or self._silent_bytes >= ACK_BYTES:
            self.control(ACK)
        if chan & DEFLATED:
            chan, body = chan & ~DEFLATED, inflate(body)
        if kind == DATA:
            return (kind, chan & ~MORE, stream, seq, ack, body)
        if chan & MORE:
            parts = self._partial.setdefault((kind, stream), [])
            parts.append(body)
            if sum(map(len, parts)) > MAX_MESSAGE or len(self._partial) > 64:
                raise ProtocolError("a message of more than %d bytes" % MAX_MESSAGE)
            return None
        if self._partial:
            body = b"".join([*self._partial.pop((kind, stream), []), body])
        return (kind, chan, stream, seq, ack, body)

    @property
    def unacked(self) -> int:
        """How many frames the other end has not acknowledged."""
        return len(self._unacked)

    def _prune(self, ack: int) -> None:
        self.acked = max(ack, self.acked)
        while self._unacked and self._unacked[0][0] <= ack:
            self._unacked.popleft()

    def _emit(self, kind: int, chan: int, stream: int, seq: int, body: bytes) -> None:
        self._silent_frames = self._silent_bytes = 0
        self.out.append(self.codec.encode(kind, chan, stream, seq, self.seen, body))
        if self.on_output is not None:
            self.on_output()


def inflate(body: bytes) -> bytes:
    """Return what was compressed; what is no body that may be so is a :class:`ProtocolError`."""
    reader = zlib.decompressobj()
    try:
        whole = reader.decompress(body, SHORT.stop)
    except zlib.error as error:
        raise ProtocolError("a body that is not compressed as it says: %s" % error) from None
    if not reader.eof or reader.unused_data:
        raise ProtocolError("a compressed body that is cut, or too long")
    return whole


class Flow:
    """Credit of one stream, both directions: a slow reader stops the producer, not memory."""

    def __init__(self, link: Link, stream: int) -> None:
        self.link = link
        self.stream = stream
        self.credit = WINDOW  # bytes we may still send
        self._allowed = WINDOW  # bytes the other end may still send
        self._owed = 0  # bytes we consumed and have not granted again

    def send(self, data: bytes, chan: int) -> None:
        self.credit -= len(data)
        self.link.send(DATA, self.stream, data, chan)

    def received(self, size: int) -> None:
        """Note data that came in; more than was granted is an error."""
        self._allowed -= size
        if self._allowed < 0:
            raise ProtocolError("stream %d sent more than its credit" % self.stream)

    def granted(self, body: bytes) -> None:
        """Take the other end's grant."""
        if len(body) != 4:
            raise ProtocolError("a grant of %d bytes" % len(body))
        self.credit += _U32.unpack(body)[0]
        if self.credit > WINDOW:
            raise ProtocolError("stream %d was granted more than its window" % self.stream)

    def grant(self, size: int) -> None:
        """Give credit for *size* consumed bytes back, in few frames."""
        self._owed += size
        if self._owed >= WINDOW // 2:
            self._allowed += self._owed
            self.link.send(CREDIT, self.stream, _U32.pack(self._owed))
            self._owed = 0
