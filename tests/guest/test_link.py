"""Two links and a bad line: every message arrives exactly once, in order, however often the line is cut."""

from __future__ import annotations

import contextlib
import random
import zlib
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hermes.guest.frames import (
    ACK,
    CALL,
    CREDIT,
    DATA,
    EOF,
    NUMBERED,
    PING,
    REPLY,
    Binary,
    Frame,
    ProtocolError,
    Text,
)
from hermes.guest.link import DEFLATED, MAX_MESSAGE, MORE, SHORT, WINDOW, Flow, Link

CHUNK = 50
kinds = st.sampled_from(sorted(NUMBERED))


class Lines(RuleBasedStateMachine):
    """Two ends, the bytes on the way between them, and what each has got so far."""

    def __init__(self) -> None:
        super().__init__()
        self.links = [Link(CHUNK), Link(CHUNK)]
        self.codecs: list[Binary | Text] = []
        self.wires: list[deque[bytes]] = [deque(), deque()]  # wires[n]: what end n has sent
        self.sent: list[list[tuple[int, int, bytes]]] = [[], []]
        self.got: list[list[tuple[int, int, bytes]]] = [[], []]
        self.connected = False

    def _connect(self, kind: type[Binary] | type[Text]) -> None:
        self.wires = [deque(), deque()]
        self.codecs = [kind(), kind()]
        seen = [link.seen for link in self.links]
        for end, link in enumerate(self.links):
            link.connect(kind(), seen[1 - end])
        self.connected = True
        self._collect()

    def _collect(self) -> None:
        for end, link in enumerate(self.links):
            self.wires[end].extend(link.out)
            link.out = []

    @rule(end=st.integers(0, 1), kind=kinds, stream=st.integers(1, 3), body=st.binary(max_size=3 * CHUNK + 5))
    def send(self, end: int, kind: int, stream: int, body: bytes) -> None:
        self.links[end].send(kind, stream, body)
        self.sent[end].append((kind, stream, body))
        self._collect()

    @rule(end=st.integers(0, 1))
    def ping(self, end: int) -> None:
        self.links[end].control(PING)
        self._collect()

    @rule(end=st.integers(0, 1), count=st.integers(1, 400))
    def deliver(self, end: int, count: int) -> None:
        """Let some bytes that this end sent arrive at the other."""
        data = b"".join(self.wires[end])
        self.wires[end] = deque([data[count:]]) if data[count:] else deque()
        if data:
            for frame in self.codecs[end].feed(data[:count]):
                self._receive(1 - end, frame)
        self._collect()

    def _receive(self, end: int, frame: Frame) -> None:
        message = self.links[end].receive(frame)
        if message is not None and message[0] in NUMBERED:
            self.got[end].append((message[0], message[2], message[5]))

    @rule()
    def cut(self) -> None:
        """The line breaks: what is on the way is lost."""
        if self.connected:
            for link in self.links:
                link.disconnect()
            self.wires = [deque(), deque()]
            self.connected = False

    @rule(kind=st.sampled_from([Binary, Text]))
    def reconnect(self, kind: type[Binary] | type[Text]) -> None:
        if not self.connected:
            self._connect(kind)

    @invariant()
    def a_prefix_has_arrived(self) -> None:
        for end in (0, 1):
            wanted, got = self._flat(self.sent[end]), self._flat(self.got[1 - end])
            assert wanted[: len(got)] == got or self._is_prefix(got, wanted)

    @staticmethod
    def _flat(messages: list[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
        """Data may be cut into pieces on its way: join pieces that follow each other in one stream."""
        joined: list[tuple[int, int, bytes]] = []
        for kind, stream, body in messages:
            if kind == DATA and joined and joined[-1][:2] == (DATA, stream):
                joined[-1] = (DATA, stream, joined[-1][2] + body)
            else:
                joined.append((kind, stream, body))
        return joined

    @staticmethod
    def _is_prefix(got: list[tuple[int, int, bytes]], wanted: list[tuple[int, int, bytes]]) -> bool:
        """The last piece of data may not have come in full."""
        last = len(got) - 1
        return (
            got[:last] == wanted[:last]
            and got[last][:2] == wanted[last][:2]
            and got[last][0] == DATA
            and wanted[last][2].startswith(got[last][2])
        )

    def teardown(self) -> None:
        """With a line that holds, everything arrives, and all is acknowledged and forgotten."""
        if not self.connected:
            self._connect(Binary)
        for _ in range(3):
            for end in (0, 1):
                self.deliver(end, 10**9)
            for link in self.links:
                link.control(ACK)
            self._collect()
        for end in (0, 1):
            assert self._flat(self.got[1 - end]) == self._flat(self.sent[end])
            assert self.links[end].unacked == 0


Lines.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestLines = Lines.TestCase


def connected() -> tuple[Link, Link]:
    one, two = Link(1000), Link(1000)
    one.connect(Binary(), 0)
    two.connect(Binary(), 0)
    return one, two


def carry(source: Link, target: Link) -> list[Frame]:
    frames = Binary().feed(b"".join(source.out))
    source.out = []
    return [message for frame in frames if (message := target.receive(frame)) is not None]


def test_long_messages_are_put_together() -> None:
    one, two = connected()
    body = bytes(range(256)) * 20
    one.send(CALL, 7, body)
    assert len(one.out) == 6
    assert [message[5] for message in carry(one, two)] == [body]


def test_long_messages_of_two_streams() -> None:
    one, two = connected()
    one.send(REPLY, 1, b"a" * 2500)
    one.send(REPLY, 2, b"b" * 2500)
    assert [(message[2], message[5]) for message in carry(one, two)] == [(1, b"a" * 2500), (2, b"b" * 2500)]


@pytest.mark.parametrize("size", [SHORT.start - 1, SHORT.start, SHORT.stop - 1, SHORT.stop, 40_000])
def test_short_messages_are_compressed_where_the_way_is_long(size: int) -> None:
    here, there = Link(SHORT.stop), Link(SHORT.stop)
    here.deflates = True
    for link in (here, there):
        link.connect(Binary(), 0)
    body = bytes(range(64)) * (size // 64) + b"x" * (size % 64)
    for kind in (CALL, DATA):
        here.send(kind, 1, body, chan=1)
        passed = b"".join(here.out)
        here.out = []
        assert (len(passed) < size // 2) is (size in SHORT) or size == 40_000
        got = [message for frame in Binary().feed(passed) if (message := there.receive(frame))]
        assert b"".join(message[5] for message in got) == body
        assert {message[1] for message in got} == {1}


def test_what_does_not_get_smaller_stays_as_it_is() -> None:
    here = Link(CHUNK * 100)
    here.deflates = True
    here.connect(Binary(), 0)
    body = random.Random(1).randbytes(SHORT.start)
    here.send(CALL, 1, body)
    assert here.out[0].endswith(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no such thing",
        zlib.compress(bytes(100))[:-1],
        zlib.compress(bytes(100)) + b"more",
        zlib.compress(bytes(SHORT.stop + 1)),
        zlib.compress(bytes(100 << 20)),
    ],
    ids=["empty", "junk", "cut", "more", "long", "bomb"],
)
def test_what_is_not_compressed_as_it_says(body: bytes) -> None:
    link = Link(CHUNK)
    link.connect(Binary(), 0)
    with pytest.raises(ProtocolError, match="compressed"):
        link.receive((DATA, 1 | DEFLATED, 1, 1, 0, body))


def test_acknowledged_frames_are_forgotten() -> None:
    """Both ends hold little, whatever was sent."""
    one, two = connected()
    for _ in range(1000):
        one.send(DATA, 1, b"x" * 900)
        carry(one, two)
        carry(two, one)
    assert one.unacked <= 300
    two.control(ACK)
    carry(two, one)
    assert one.unacked == 0


@pytest.mark.parametrize(
    "frame",
    [
        (DATA, 0, 1, 2, 0, b""),  # a number was left out
        (CALL, 0, 1, 999, 0, b""),
        (DATA, 0, 1, 1, 5, b""),  # acknowledges what was never sent
        (ACK, 0, 0, 0, 1, b""),
    ],
)
def test_senseless_numbers(frame: Frame) -> None:
    link = Link(1000)
    link.connect(Binary(), 0)
    with pytest.raises(ProtocolError):
        link.receive(frame)


def test_repeated_frames_are_dropped() -> None:
    link = Link(1000)
    link.connect(Binary(), 0)
    assert link.receive((CALL, 0, 1, 1, 0, b"x")) is not None
    assert link.receive((CALL, 0, 1, 1, 0, b"x")) is None
    assert link.receive((CALL, 0, 1, 0, 0, b"x")) is None


@pytest.mark.parametrize("seen", [-1, 3, 2**63])
def test_peer_that_claims_too_much(seen: int) -> None:
    link = Link(1000)
    link.send(CALL, 1, b"")
    link.send(CALL, 2, b"")
    with pytest.raises(ProtocolError):
        link.connect(Binary(), seen)


def test_peer_that_forgot() -> None:
    """What was acknowledged is not there any more, so it cannot be sent again."""
    one, two = connected()
    one.send(CALL, 1, b"")
    carry(one, two)
    two.control(ACK)
    carry(two, one)
    one.disconnect()
    with pytest.raises(ProtocolError):
        one.connect(Binary(), 0)


def test_endless_message() -> None:
    """Pieces without an end are refused before they fill the memory."""
    link = Link(1 << 18)
    link.connect(Binary(), 0)
    with pytest.raises(ProtocolError, match="more than"):
        for seq in range(1, MAX_MESSAGE // (1 << 18) + 10):
            link.receive((REPLY, MORE, 1, seq, 0, bytes(1 << 18)))


def test_many_unfinished_messages() -> None:
    link = Link(1000)
    link.connect(Binary(), 0)
    with pytest.raises(ProtocolError):
        for seq in range(1, 10_000):
            link.receive((REPLY, MORE, seq, seq, 0, b"x"))


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 11),
            st.integers(0, 255),
            st.integers(0, 3),
            st.integers(0, 8),
            st.integers(0, 4),
            st.binary(max_size=20),
        ),
        max_size=20,
    )
)
def test_arbitrary_frames(frames: list[Frame]) -> None:
    link = Link(1000)
    link.connect(Text(), 0)
    link.send(EOF, 1)
    with contextlib.suppress(ProtocolError):
        for frame in frames:
            link.receive(frame)


def test_credit() -> None:
    """A sender knows what it may send; one that sends more is refused."""
    one, two = connected()
    sender, receiver = Flow(one, 1), Flow(two, 1)
    sender.send(bytes(WINDOW), 1)
    assert sender.credit == 0
    receiver.received(WINDOW)
    with pytest.raises(ProtocolError, match="credit"):
        Flow(two, 2).received(WINDOW + 1)
    receiver.grant(WINDOW)
    (grant,) = [message for message in carry(two, one) if message[0] == CREDIT]
    sender.granted(grant[5])
    assert sender.credit == WINDOW


@pytest.mark.parametrize("body", [b"", b"abc", b"abcde", (1).to_bytes(4, "big"), b"\xff\xff\xff\xff"])
def test_senseless_grants(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        Flow(Link(1000), 1).granted(body)
