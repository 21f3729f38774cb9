"""The bodies of messages on this side, where a fast library is at hand; the guest has only its own."""

from __future__ import annotations

from typing import Any

import msgspec

from hermes.guest import frames


def _plain(value: object) -> str:
    """Return text of a kind of its own, such as a secret, as what it is."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"a message cannot hold {type(value).__name__}")


_encode = msgspec.json.Encoder(enc_hook=_plain).encode
_decode = msgspec.json.Decoder().decode


def pack(obj: dict[str, Any], raw: bytes = b"") -> bytes:
    """Return what :func:`hermes.guest.frames.pack` returns."""
    try:
        text = _encode(obj)
    except UnicodeEncodeError:  # bytes that are no UTF-8, which surrogates stand for
        return frames.pack(obj, raw)
    if not text.isascii():
        return frames.pack(obj, raw)
    return frames.LENGTH.pack(len(text)) + text + raw


def unpack(body: bytes) -> tuple[dict[str, Any], bytes]:
    """Return what :func:`hermes.guest.frames.unpack` returns.

    :raises ProtocolError: it is no message
    """
    end = 4 + frames.LENGTH.unpack_from(body)[0] if len(body) >= 4 else 0
    if 4 < end <= len(body):
        try:
            obj = _decode(body[4:end])
        except (msgspec.DecodeError, RecursionError):  # surrogates again, or no message at all
            return frames.unpack(body)
        if type(obj) is dict:
            return obj, body[end:]
    return frames.unpack(body)
