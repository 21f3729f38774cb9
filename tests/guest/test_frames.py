"""The frame decoders of both ends: hostile bytes raise nothing but ProtocolError; splits change nothing."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
from collections.abc import Iterable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hermes.channel.boot import MARKER, MAX_NOISE, Boot
from hermes.errors import BackendError
from hermes.guest.frames import (
    HEADER,
    KINDS,
    MAGIC,
    MARK,
    MAX_BODY,
    MAX_LINE,
    TEXT_CHUNK,
    Binary,
    Frame,
    ProtocolError,
    Text,
    pack,
    unpack,
)

CODECS: list[type[Binary] | type[Text]] = [Binary, Text]
both = pytest.mark.parametrize("codec", CODECS)

frames = st.tuples(
    st.sampled_from(list(KINDS)),
    st.integers(0, 255),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=300),
)
noise = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x1e\n"), max_size=40).map(
    str.encode
)


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    points = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(points)]


def decode(codec: type[Binary] | type[Text], data: bytes, cuts: Iterable[int] = ()) -> list[Frame]:
    decoder = codec()
    return [frame for piece in pieces(data, cuts) for frame in decoder.feed(piece)]


@both
@given(st.lists(frames, max_size=8), st.lists(st.integers(0, 10**6), max_size=12))
def test_what_is_encoded_is_decoded(codec: type[Binary], sent: list[Frame], cuts: list[int]) -> None:
    """However the stream is cut."""
    data = b"".join(codec.encode(*frame) for frame in sent)
    assert decode(codec, data, cuts) == sent


@both
@given(st.lists(frames, max_size=3))
def test_byte_by_byte(codec: type[Binary], sent: list[Frame]) -> None:
    data = b"".join(codec.encode(*frame) for frame in sent)
    assert decode(codec, data, range(len(data))) == sent


@given(st.lists(st.tuples(noise, frames), max_size=6), noise, st.lists(st.integers(0, 10**6), max_size=12))
def test_noise_between_text_frames(sent: list[tuple[bytes, Frame]], last: bytes, cuts: list[int]) -> None:
    """Banners and messages in a line-oriented stream are skipped, before a frame on its line and between."""
    data = b"".join(before + b"\n" + before + Text.encode(*frame) for before, frame in sent) + last
    assert decode(Text, data, cuts) == [frame for _, frame in sent]


@both
@settings(max_examples=400)
@given(st.binary(max_size=400), st.lists(st.integers(0, 10**6), max_size=6))
def test_arbitrary_bytes(codec: type[Binary], data: bytes, cuts: list[int]) -> None:
    with contextlib.suppress(ProtocolError):
        for frame in decode(codec, data, cuts):
            assert frame[0] in KINDS
            assert len(frame[5]) <= MAX_BODY


@settings(max_examples=400)
@given(st.lists(st.one_of(st.binary(max_size=30), frames.map(lambda one: Binary.encode(*one))), max_size=5))
def test_frames_among_arbitrary_bytes(parts: list[bytes]) -> None:
    """Frames before the first bad byte are delivered or the stream is refused; nothing else happens."""
    decoder = Binary()
    with contextlib.suppress(ProtocolError):
        for part in parts:
            decoder.feed(part)


@settings(max_examples=400)
@given(frames, st.integers(0, 10**6), st.integers(0, 255))
def test_one_wrong_byte(frame: Frame, at: int, value: int) -> None:
    for codec in CODECS:
        data = bytearray(codec.encode(*frame))
        data[at % len(data)] = value
        with contextlib.suppress(ProtocolError):
            codec().feed(bytes(data))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=400)
@given(json_values)
def test_text_lines_of_arbitrary_json(value: object) -> None:
    with contextlib.suppress(ProtocolError):
        Text().feed(MARK + json.dumps(value).encode() + b"\n")


@given(st.lists(json_values, min_size=6, max_size=6))
def test_text_frames_of_arbitrary_fields(fields: list[object]) -> None:
    for body in (fields[5], base64.b64encode(repr(fields[5]).encode()).decode()):
        try:
            found = Text().feed(MARK + json.dumps([*fields[:5], body]).encode() + b"\n")
        except ProtocolError:
            continue
        for kind, chan, stream, seq, ack, data in found:
            assert all(type(number) is int and number >= 0 for number in (kind, chan, stream, seq, ack))
            assert type(data) is bytes


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "1" * 100_000, "[1,2,3,4,5," + "[" * 50_000, "\xff" * 10, "NaN", "[1e999]"]
)
def test_text_lines_that_hurt_parsers(text: str) -> None:
    with pytest.raises(ProtocolError):
        Text().feed(MARK + text.encode("latin-1") + b"\n")


@given(st.binary(max_size=200))
def test_unpack_of_arbitrary_bytes(body: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        obj, _ = unpack(body)
        assert isinstance(obj, dict)


@given(json_values)
def test_unpack_of_arbitrary_json(value: object) -> None:
    text = json.dumps(value).encode()
    try:
        unpack(len(text).to_bytes(4, "big") + text + b"raw")
    except ProtocolError:
        assert not isinstance(value, dict)


@given(
    st.dictionaries(st.text(max_size=5), json_values.filter(lambda one: one == one), max_size=4),
    st.binary(max_size=50),
)
def test_pack_and_unpack(obj: dict[str, object], raw: bytes) -> None:
    found, rest = unpack(pack(obj, raw))
    assert json.dumps(found) == json.dumps(obj)
    assert rest == raw


def test_unpack_of_deep_nesting() -> None:
    text = b'{"a":' * 100_000
    with pytest.raises(ProtocolError):
        unpack(len(text).to_bytes(4, "big") + text)


def test_too_large() -> None:
    """A size is refused when it is announced, not when it has been held in memory."""
    with pytest.raises(ProtocolError, match="at most"):
        Binary().feed(HEADER.pack(MAGIC, 2, 0, 1, 1, 0, MAX_BODY + 1))
    with pytest.raises(ProtocolError, match="at most"):
        Binary().feed(HEADER.pack(MAGIC, 2, 0, 1, 1, 0, 2**32 - 1))
    body = bytes(MAX_BODY)
    for codec in CODECS:
        assert codec().feed(codec.encode(2, 0, 1, 1, 0, body)) == [(2, 0, 1, 1, 0, body)]
        with pytest.raises(ProtocolError):
            codec().feed(codec.encode(2, 0, 1, 1, 0, body + b"x"))


def test_endless_line() -> None:
    """A text stream that never ends its line is refused when it could be a frame, and forgotten when not."""
    decoder = Text()
    with pytest.raises(ProtocolError):
        for _ in range(MAX_LINE // 50_000 + 3):
            decoder.feed(MARK + b"x" * 50_000)
    quiet = Text()
    for _ in range(100):
        assert quiet.feed(b"x" * 100_000) == []
    assert sum(map(len, quiet._parts)) <= MAX_LINE + 100_000
    assert quiet.feed(b"\n" + Text.encode(2, 0, 1, 1, 0, b"ok")) == [(2, 0, 1, 1, 0, b"ok")]


def test_text_lines_stay_short() -> None:
    """Lines of up to 60 KB pass terminals and log streams."""
    line = Text.encode(11, 255, 2**32 - 1, 2**64 - 1, 2**64 - 1, b"\xff" * TEXT_CHUNK)
    assert len(line) < 60_000
    assert set(line[1:-1]) <= set(range(0x20, 0x7F))


def test_many_small_pieces_are_not_quadratic() -> None:
    """A large frame that comes byte by byte is put together once."""
    import time

    for codec in CODECS:
        data = codec.encode(2, 0, 1, 1, 0, bytes(300_000))
        decoder, began = codec(), time.process_time()
        found = [frame for at in range(0, len(data), 3) for frame in decoder.feed(data[at : at + 3])]
        assert len(found) == 1
        assert time.process_time() - began < 5


def run_boot(parts: list[bytes], early: int = 0) -> tuple[bytes, bytes]:
    """Return the line after the marker and what is handed over; *early* pieces come before anybody waits."""

    async def run() -> tuple[bytes, bytes]:
        boot, rest, closed = Boot(), bytearray(), list[str | None]()
        for part in parts[:early]:
            boot.data(part)
        waiting = asyncio.ensure_future(boot.line(MARKER))
        await asyncio.sleep(0)
        for part in parts[early:]:
            boot.data(part)
        boot.close("the end")
        line = await asyncio.wait_for(waiting, 5)
        boot.hand_over(rest.extend, closed.append)
        assert closed == ["the end"]
        return line, bytes(rest)

    return asyncio.run(run())


cuts_of_boot = st.lists(st.integers(0, 10**6), max_size=8)


@settings(max_examples=300)
@given(st.binary(max_size=200), cuts_of_boot, st.integers(0, 9))
def test_boot_of_arbitrary_bytes(data: bytes, cuts: list[int], early: int) -> None:
    """Whatever comes instead of a guest is one clear error."""
    try:
        run_boot(pieces(data, cuts), early)
    except BackendError as error:
        assert error.code == "guest_failed"


@settings(max_examples=300)
@given(st.binary(max_size=100), st.binary(max_size=60), cuts_of_boot, st.integers(0, 9))
def test_boot_after_noise(noise: bytes, rest: bytes, cuts: list[int], early: int) -> None:
    """The announcement is found behind anything, and no byte after it is lost, wherever the stream is cut."""
    assume((noise + MARKER).index(MARKER) == len(noise))
    stream = noise + MARKER + b'{"run_dir": "/x"}\n' + rest
    assert run_boot(pieces(stream, cuts), early) == (b'{"run_dir": "/x"}', rest)


def test_boot_that_never_comes() -> None:
    with pytest.raises(BackendError, match="no guest announced itself"):
        run_boot([b"banner\n" * 1000] * (MAX_NOISE // 7000 + 1))
    with pytest.raises(BackendError, match="the end"):
        run_boot([b"banner\n"])
