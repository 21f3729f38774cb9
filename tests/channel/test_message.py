"""Messages as this side writes and reads them are those of the guest, whatever is in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.channel import message
from hermes.guest import frames

text = st.text(alphabet=st.characters())  # lone surrogates too
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(text, values, max_size=5)


@given(objects, st.binary(max_size=30))
def test_each_side_reads_the_other(obj: dict[str, object], raw: bytes) -> None:
    assert frames.unpack(message.pack(obj, raw)) == (obj, raw)
    assert message.unpack(frames.pack(obj, raw)) == (obj, raw)


class Hidden(str):
    """Text that does not show itself, as secrets do."""

    def __str__(self) -> str:
        return "***"

    __repr__ = __str__


def test_a_secret_is_sent_as_it_is() -> None:
    obj = {"env": {"TOKEN": Hidden("s3cr3t"), "WIDE": Hidden("é")}}
    assert frames.unpack(message.pack(obj))[0] == {"env": {"TOKEN": "s3cr3t", "WIDE": "é"}}
    with pytest.raises(TypeError):
        message.pack({"env": object()})


@given(st.binary(max_size=60))
def test_what_is_no_message(body: bytes) -> None:
    for wrapped in (body, frames.LENGTH.pack(len(body)) + body):
        try:
            found = message.unpack(wrapped)
        except frames.ProtocolError:
            with pytest.raises(frames.ProtocolError):
                frames.unpack(wrapped)
        else:
            assert type(found[0]) is dict


@pytest.mark.parametrize("text", ["[1]", "1", "null", '"x"', "", "{", '{"a":1}x', "é", '{"a":' * 100_000])
def test_what_holds_no_object(text: str) -> None:
    raw = text.encode()
    with pytest.raises(frames.ProtocolError):
        message.unpack(frames.LENGTH.pack(len(raw)) + raw)
