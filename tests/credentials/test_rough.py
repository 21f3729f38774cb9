"""A rough look overlooks nothing: it lets pass what an exact look lets pass, and a plain search agrees."""

from __future__ import annotations

import base64
import itertools
import random
import re
import urllib.parse
from collections.abc import Iterator

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from hermes.credentials import scrub as module
from hermes.credentials._rough import Rough
from hermes.credentials.scrub import MARK, Scrub

VALUES = [
    b"s3cr3t/of+the=sandbox?&%",
    b"mK-begins-like-a-code-0123456789",
    b"[31mlike-a-whole-one",
    b"12;34mdigits-first-5678",
    b"passw1234",
    b"zz99887766554433221100-ab",
    "ünïcode-välue".encode(),
]
TOKENS = [b"sk-" + b"aB3_" * 6, b"AKIA" + b"ABCDEFGHIJ234567", b"hf_" + b"aB3" * 8, b"ghp_" + b"aB3" * 12]
CODES = [
    b"\x1b[m",
    b"\x1b[K",
    b"\x1b[01;31m",
    b"\x1b[38;2;10;200;30m",
    b"\x1b[?25h",
    b"\x1b[s",
    b"\x1b[A",
    b"\x1b[2J",
    b"\x1b]0;title\x07",
    b"\x1b]8;;https://a.example/?k=1\x1b\\",
    b"\x1b]8;;\x1b\\",
    b"\x1bM",
    b"\x1b(B",
    b"\x1b(0",
    b"\x1b7",
    b"\x1bc",
    b"\x1b=",
    b"\x1b\\",
]
# What is a code only for a hasty reader, or for nobody.
ODD = [
    b"\x1b;",
    b"\x1b:[",
    b"\x1b[>4m",
    b"\x1b",
    b"\x1b[",
    b"\x1b5",
    b"\x1b[3",
    b"\x1b[ q",
    b"\x1b7",
    b"\x1b]",
    b"\x07",
    b"\x18",
    b"[m",
    b"m",
]
LINES = b"\x1b[32m2026-01-01\x1b[0m the quick \x1b[1;34mbrown\x1b[0m fox jumps over\n" * 6
FILL = [
    LINES,
    b"a",
    b"disk-",
    b"task",
    b"=",
    b"1",
    b" ",
    b"\n",
    b"\r\n",
    b"the quick brown fox ",
    b"x" * 40,
    b"2026-01-01 ",
]


def broken(rng: random.Random, secret: bytes) -> bytes:
    """A secret as it may be written, with codes and line breaks in it."""
    form = secret
    if secret in VALUES:
        form = rng.choice(
            [
                secret,
                base64.b64encode(secret),
                base64.b64encode(b"u:" + secret),
                urllib.parse.quote(secret).encode(),
            ]
        )
    cuts = sorted({rng.randrange(1, len(form)) for _ in range(rng.randrange(5))} | {0, len(form)})
    pieces = [form[start:end] for start, end in itertools.pairwise(cuts)]
    between = [*CODES, b"\n"] if secret in VALUES else CODES
    return b"".join(piece + rng.choice(between) for piece in pieces[:-1]) + pieces[-1]


def output(rng: random.Random, secrets: list[bytes]) -> bytes:
    """What a program may print: mostly nothing special, sometimes a secret, sometimes nonsense."""
    odd, secret = rng.choice([0, 0, 0.05]), rng.choice([0, 0.03, 0.1])
    parts = []
    for _ in range(rng.randrange(60)):
        dice = rng.random()
        if dice < odd:
            parts.append(rng.choice(ODD))
        elif dice < odd + secret:
            parts.append(broken(rng, rng.choice(secrets)))
        else:
            parts.append(rng.choice(FILL if dice < 0.6 else CODES))
    return b"".join(parts)


def sizes(rng: random.Random) -> list[int]:
    most = rng.choice([5, 40, 300, 2000])
    return [rng.randrange(1, most) for _ in range(rng.randrange(12))]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short texts too are looked at roughly, and in small parts."""
    monkeypatch.setattr(module, "ROUGH", 1)
    monkeypatch.setattr(module, "UNIT", 700)
    monkeypatch.setattr(module, "PART", 150)


class Never(Scrub):
    """Looks at everything exactly."""

    def clear(self, data: bytes, past: list[bytes]) -> tuple[int, bytes]:
        return 0, b""


class Counted(Scrub):
    """Says how often it looked at the end of a text alone."""

    clears = 0

    def clear(self, data: bytes, past: list[bytes]) -> tuple[int, bytes]:
        found = super().clear(data, past)
        self.clears += found[0] > 0
        return found


ROUGHLY = Counted(VALUES, shapes=True)
EXACTLY = Never(VALUES, shapes=True)


def feed(scrub: Scrub, text: bytes, sizes: list[int], *, pause: bool) -> Iterator[bytes]:
    stream, at = scrub.stream(), 0
    for size in [*sizes, len(text)]:
        yield stream.feed(text[at : at + size])
        if pause:
            yield stream.pause()
        at += size
    yield stream.end()


@given(st.integers(0), st.booleans())
@settings(max_examples=2000, deadline=None)
def test_a_rough_look_changes_nothing(seed: int, pause: bool) -> None:
    """Piece by piece: neither what is taken out nor when something is let through."""
    rng = random.Random(seed)
    text, pieces, before = output(rng, [*VALUES, *TOKENS]), sizes(rng), ROUGHLY.clears
    out = list(feed(ROUGHLY, text, pieces, pause=pause))
    event(f"looked at an end alone: {ROUGHLY.clears > before}")
    assert out == list(feed(EXACTLY, text, pieces, pause=pause))


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (b"x" * 500 + b"disk\x1b[msk-" + b"aB3_" * 6 + b"\x1b[m" + LINES, []),
        (LINES + b"x\x1b[s" + b"k-" + b"aB3_" * 6 + LINES, [len(LINES) + 4]),
        (LINES + b"disk\x1b]0;a\x07" + TOKENS[0] + b"\n" + LINES, []),
        (LINES + b"\x1b[m" + VALUES[1][1:] + LINES, []),
        (LINES + b"\x1b5[" + VALUES[1][:9] + b"\x1b[m" + VALUES[1][9:] + LINES, []),
        (LINES + b"\x1b;[" + VALUES[1][:9] + b"\x1b[A" + VALUES[1][9:] + LINES, []),
        (LINES + VALUES[0][:9] + b"\x1b7\x1b;\x1b[>4m" + VALUES[0][9:] + LINES, []),
        (LINES + VALUES[0][:9] + b"\x1b]0;task-\x07" + VALUES[0][9:] + LINES, []),
        (LINES + b"\x1b]0;" + VALUES[0] + b"\x07" + LINES, []),
        (LINES + b"\x1b]0;disk-" + TOKENS[0] + b"\x07" + LINES, []),
        (LINES + b"disk-task; s\x1b[mk-" + b"aB3_" * 6 + LINES, []),
        (LINES + b"disk\x07s1k-" + TOKENS[0] + LINES, []),
        (LINES + b"a\nsk-" + b"aB3_" * 6 + LINES, []),
        (LINES + b"a;sk-" + b"aB3_" * 6 + LINES, [len(LINES) + 2]),
        (LINES + b"\x1b[Ask-" + b"aB3_" * 6 + LINES, [len(LINES) + 3]),
        (LINES + TOKENS[2] + LINES, [len(LINES) + 6, 1]),
    ],
)
def test_odd_places(text: bytes, pieces: list[int]) -> None:
    for pause in (False, True):
        assert list(feed(ROUGHLY, text, pieces, pause=pause)) == list(
            feed(EXACTLY, text, pieces, pause=pause)
        )


_CODE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[ -/]{0,4}[:-Z\\^-~]|[()]0|[78])"
)


@given(st.integers(0))
@settings(max_examples=2000, deadline=None)
def test_a_plain_search_finds_no_more(seed: int) -> None:
    """In all that is let through, with codes and without: no value, in no form, however it was cut.

    With codes an encoding counts where it is whole. Behind half a code, such as `ESC [ 3`, its first letter
    ends that one, and a terminal does not show it; if another code is in the middle then, it stands whole in
    neither reading, and what is before that code is a part of it.
    """
    rng = random.Random(seed)
    text = output(rng, VALUES)
    out = b"".join(feed(ROUGHLY, text, sizes(rng), pause=False)).replace(MARK, b"\0")
    shown, read = (left.translate(None, b"\r\n") for left in (_CODE.sub(b"", out), out))
    for value in VALUES:
        assert value not in shown and value not in read
        encoded = base64.b64encode(value)
        assert encoded[: len(value) // 3 * 4] not in shown
        assert encoded[: len(value) * 8 // 6] not in read


def test_usual_output_is_clear() -> None:
    """Else all of this would be for nothing."""
    assert not ROUGHLY._rough.blind
    line = b"\x1b[1m\x1b[Kfile.c:12:\x1b[m\x1b[K \x1b]8;;https://a.example\x1b\\warning\x1b]8;;\x1b\\"
    line += b" \x1b[38;2;1;2;3mtask\x1b[0m\n"
    since, _ = ROUGHLY.clear(line * 40, [b""] * 4)
    assert since > len(line) * 30


def test_words_are_no_tokens() -> None:
    """Text has many words that end as a token begins."""
    for word in (b"task-1", b"disk1-2", b"risk-", b"Mask-Rcnn"):
        line = b"\x1b[32m%s\x1b[0m \x1b[?25l%s \x1b]0;%s\x07\n" % (word, word, word)
        since, _ = ROUGHLY.clear(line * 40, [b""] * 4)
        assert since > len(line) * 20


@pytest.mark.parametrize("value", [b"12345678", b"1234;5678", b"12345678ab", b"ab\x1b[0mcdefgh"])
def test_what_is_not_to_be_told_from_codes_is_looked_for_exactly(value: bytes) -> None:
    assert Rough([value], []).blind
    text = b"x" * 300 + value[:3] + b"\x1b[1m" + value[3:] + b"\x1b[0m" + b"y" * 300
    assert MARK in Scrub([value], shapes=True).whole(text)[0]
