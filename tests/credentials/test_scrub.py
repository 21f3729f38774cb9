"""Secrets are taken out of what comes back, however they are written and wherever the text is cut."""

from __future__ import annotations

import base64
import json
import random
import re
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.config import Secret
from hermes.credentials._declared import Content, Piece
from hermes.credentials.former import FILE, Former, learn
from hermes.credentials.scrub import MARK, Scrub
from hermes.credentials.values import values_of

VALUE = b"s3cr3t/of+the=sandbox?&%"
SCRUB = Scrub([VALUE], shapes=True)
TOKENS = {
    "aws": "AKIA" + "ABCDEFGHIJ234567",
    "github": "ghp_" + "aB3" * 12,
    "github, fine": "github_pat_" + "aB3_" * 10,
    "gitlab": "glpat-" + "aB3-" * 5,
    "openai": "sk-" + "aB3_" * 12,
    "slack": "xoxb-" + "123-" * 5,
    "hugging face": "hf_" + "aB3" * 12,
    "npm": "npm_" + "aB3" * 12,
    "google": "AIza" + "aB3" * 12,
    "jwt": "eyJ" + "aB3" * 12 + "." + "cD4" * 12 + "." + "eF5" * 12,
    "key": "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "aB3+\n" * 40 + "-----END OPENSSH PRIVATE KEY-----",
}


def scrubbed(text: bytes, scrub: Scrub = SCRUB) -> bytes:
    return scrub.whole(text)[0]


def in_pieces(text: bytes, sizes: list[int], scrub: Scrub = SCRUB) -> list[bytes]:
    """What each piece lets through; the last is what was held back at the end."""
    stream, out, at = scrub.stream(), [], 0
    for size in [*sizes, len(text)]:
        out.append(stream.feed(text[at : at + size]))
        at += size
    return [*out, stream.end()]


def lines(data: bytes, width: int) -> bytes:
    return b"\n".join(data[at : at + width] for at in range(0, len(data), width))


def coloured(data: bytes) -> bytes:
    return b"\x1b[1;31m" + b"\x1b[0m\x1b]0;title\x07".join(data[i : i + 1] for i in range(len(data)))


FORMS = {
    "as it is": VALUE,
    "base64": base64.b64encode(VALUE),
    "base64 for addresses": base64.urlsafe_b64encode(VALUE),
    "base64 in the middle, 1": base64.b64encode(b"a" + VALUE + b"bcd"),
    "base64 in the middle, 2": base64.b64encode(b"ab" + VALUE + b"b"),
    "base64 in the middle, 3": base64.b64encode(b"abc" + VALUE),
    "base64 in lines": lines(base64.b64encode(b"user:" + VALUE * 3), 19),
    "percent": urllib.parse.quote(VALUE, safe="").encode(),
    "percent, small": re.sub(rb"%..", lambda f: f[0].lower(), urllib.parse.quote(VALUE, safe="").encode()),
    "percent, slashes left": urllib.parse.quote(VALUE).encode(),
    "percent, as browsers do it": urllib.parse.quote(VALUE, safe="!'()*").encode(),
    "form": urllib.parse.quote_plus(VALUE).encode(),
    "json": json.dumps(VALUE.decode())[1:-1].encode(),
    "wrapped": lines(VALUE, 7),
    "coloured": coloured(VALUE),
    "bold, as tput writes it": VALUE[:9] + b"\x1b(B\x1b[m" + VALUE[9:15] + b"\x1b7\x1bc\x1b(0" + VALUE[15:],
    "coloured base64 in lines": b"\r\n".join(map(coloured, lines(base64.b64encode(VALUE), 5).split())),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_every_form(form: bytes) -> None:
    out, count = SCRUB.whole(b"before " + form + b" after")
    assert out.startswith(b"before ") and out.endswith(b" after")
    assert MARK in out and count >= 1
    left = re.sub(rb"\x1b(\[[0-9;]*m|\][^\x07]*\x07|\(?.)|[\r\n]", b"", out.replace(MARK, b""))
    assert not any(form[at : at + 9] in left for at in range(len(form) - 8)) or b"\n" in form


def test_codes_for_the_terminal_stay() -> None:
    assert scrubbed(b"\x1b[31m" + VALUE[:9] + b"\x1b[0m" + VALUE[9:]) == b"\x1b[31m" + MARK + b"\x1b[0m"


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS.keys())
def test_well_known_tokens(token: str) -> None:
    text = b'{"a": "' + token.encode() + b'"}\nrest'
    assert scrubbed(text) == b'{"a": "' + MARK + b'"}\nrest'
    assert scrubbed(text, Scrub([VALUE], shapes=False)) == text
    for at in range(1, len(text)):
        out = b"".join(in_pieces(text, [at]))
        # No secret is in how it begins, and a cut there may let that through.
        begun = out.partition(MARK)[0].removeprefix(b'{"a": "')
        assert out == b'{"a": "' + begun + MARK + b'"}\nrest', at
        assert len(begun) < 12 and token.startswith(begun.decode())


@pytest.mark.parametrize(
    "text",
    ["task-runner-is-a-long-word-1", "sk-short", "AKIA", "eyJhb", "a ghp_x", "-----BEGIN CERTIFICATE-----"],
)
def test_what_is_no_token(text: str) -> None:
    assert scrubbed(text.encode()) == text.encode()
    assert scrubbed(b"x" * 5000 + text.encode()) == b"x" * 5000 + text.encode()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_split_anywhere(form: bytes) -> None:
    text = b"before\n" + form + b"\nafter"
    whole = scrubbed(text)
    for at in range(1, len(text)):
        assert b"".join(in_pieces(text, [at])) == whole, at
    assert MARK in b"".join(in_pieces(text, [1] * len(text)))
    assert VALUE[:12] not in b"".join(in_pieces(text, [1] * len(text)))


@pytest.mark.parametrize("word", ["disk-", "xghp_", "a-sk-"])
def test_a_word_is_no_token_wherever_it_is_cut(word: str) -> None:
    """What stood before what looks like the beginning of one is remembered."""
    text = (word + "aB3" * 12).encode()
    for at in range(1, len(text)):
        assert b"".join(in_pieces(b"<" * 40 + text, [40 + at])) == b"<" * 40 + text, at


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=20))
@settings(max_examples=300)
def test_what_is_no_secret_passes_exactly(text: bytes, sizes: list[int]) -> None:
    scrub = Scrub([VALUE], shapes=False)
    assert b"".join(in_pieces(text, sizes, scrub)) == text


@given(
    st.lists(
        st.sampled_from(
            [VALUE, VALUE[:9], b"\n", b"\x1b[0m", b"\x1b", b"\x1b]0;", b"\x07", b"\x1bP", b"sk-", b"a", b"s3"]
        ),
        max_size=12,
    ),
    st.data(),
)
@settings(max_examples=300)
def test_no_cut_lets_one_through(parts: list[bytes], data: st.DataObject) -> None:
    text = b"".join(parts)
    sizes = data.draw(st.lists(st.integers(1, 30), max_size=10))
    out = b"".join(in_pieces(text, sizes))
    bare = re.sub(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\^_])|[\r\n]", b"", out)
    assert VALUE not in bare
    assert VALUE not in re.sub(rb"[\r\n]", b"", out)


CARRIED = {
    "title": b"\x1b]0;%s\x07",
    "title, other end": b"\x1b]2;the title: %s\x1b\\",
    "link": b"\x1b]8;;https://a.example/?k=%s\x1b\\here\x1b]8;;\x1b\\",
    "clipboard": b"\x1b]52;c;%s\x07",
    "device": b"\x1bP+q;%s\x1b\\",
    "program": b"\x1b_G;%s\x1b\\",
    "private": b"\x1b^;%s\x1b\\",
    "start": b"\x1bX;%s\x1b\\",
    "charset": b"\x1b%s",
    "colour": b"\x1b[%s",
    "long title": b"\x1b]0;" + b"x." * 2500 + b"%s\x07",
    "title without an end": b"\x1b]0;%s",
    "title in a value": VALUE[:12] + b"\x1b]0;%s\x07" + VALUE[12:],
}


# Some begin like what follows an escape in codes.
ODD = [b"123456789;123m456", b"Lead1ng-letter"]
HIDDEN = [VALUE, base64.b64encode(VALUE), *ODD, TOKENS["github"].encode(), TOKENS["jwt"].encode()]


@pytest.mark.parametrize("code", CARRIED.values(), ids=CARRIED.keys())
@pytest.mark.parametrize("secret", HIDDEN)
def test_what_a_code_for_the_terminal_carries(code: bytes, secret: bytes) -> None:
    """The text of a title or a link is as readable to a model as any other."""
    scrub = Scrub([VALUE, *ODD], shapes=True)
    text = b"before " + code.replace(b"%s", secret) + b" after"
    out, count = scrub.whole(text)
    assert secret not in out and MARK in out and count >= 1
    assert out.startswith(b"before ") and out.endswith(b" after")
    for at in range(1, len(text), 1 if len(text) < 1000 else 7):
        assert secret not in b"".join(in_pieces(text, [at], scrub)), at
    assert secret not in b"".join(in_pieces(text, [1] * len(text), scrub))


def test_codes_that_carry_nothing_secret_stay() -> None:
    text = (
        b"\x1b]8;;https://a.example\x1b\\here\x1b]8;;\x1b\\ \x1b[1mbold\x1b[0m \x1b]0;title\x07\x1bPq\x1b\\"
    )
    for size in (1, 2, 3, 50):
        assert b"".join(in_pieces(text, [size] * 100)) == text


def test_nothing_waits_longer_than_a_piece() -> None:
    """Neither the end of a line nor what turns out to be no secret."""
    text = b"a line that ends with s\nand one with s3cr\nsk-\nx\n"
    pieces = in_pieces(text, [24, 18, 4, 2])
    assert pieces[0] == text[:24]
    so_far = 0
    for index, size in enumerate([24, 18, 4, 2]):
        so_far += size
        assert len(b"".join(pieces[: index + 2])) >= so_far, index


def test_halves_where_the_middle_was_left_out() -> None:
    out, count = SCRUB.whole(b"head " + VALUE[:15], cut=True)
    assert (out, count) == (b"head " + MARK, 1)
    assert SCRUB.rest(VALUE[10:] + b" tail") == (MARK + b" tail", 1)
    assert SCRUB.rest(b"tail") == (b"tail", 0)
    assert SCRUB.whole(b"head s3", cut=True) == (b"head s3", 0)


def test_short_values_are_left_alone() -> None:
    content = Content({"A": Secret("short"), "B": Secret("true")}, {})
    assert values_of(content) == set()


def test_what_is_secret_of_files() -> None:
    account = {
        "type": "service_account",
        "client_email": "robot@project.iam.gserviceaccount.com",
        "token_uri": "https://oauth2.googleapis.com/token",
        "refresh_token": "1//0abcDEF-ghiJKL_mnop",
        "private_key_id": "0123456789abcdef0123",
    }
    found = values_of(Content({}, {"a": Piece(json.dumps(account).encode(), "a")}))
    scrub = Scrub(found, shapes=False)
    text = b"0abcDEF-ghiJKL_mnop 0123456789abcdef0123 oauth2.googleapis.com service_account"
    assert scrubbed(text, scrub) == MARK + b" " + MARK + b" oauth2.googleapis.com service_account"
    assert scrubbed(json.dumps(account).encode(), scrub) == MARK


def test_memory_and_time_are_bounded_whatever_comes() -> None:
    """What looks like the beginning of one for ever is let through in the end, and costs what it is long."""
    for endless in (
        b"\n",
        b"\x1b[0m",
        b"s3cr3t/o",
        b"sk-",
        b"-----BEGIN PRIVATE KEY-----",
        b"eyJ",
        b"\x1b]0;",
    ):
        stream, out, began = SCRUB.stream(), 0, time.process_time()
        stream.feed(VALUE[:10])
        for _ in range(200):
            out += len(stream.feed(endless * (2000 // len(endless))))
            assert len(stream._held) < 1 << 18
        assert out + len(stream.end()) > 0
        assert time.process_time() - began < 5, endless


COLOURED: dict[str, Callable[[int], bytes]] = {
    "log": lambda n: (
        b"\x1b[32m2026-01-01 12:00\x1b[0m \x1b[1;34mINFO\x1b[0m %d the quick brown fox jumps\n" % n
    ),
    "grep": lambda n: (
        b"\x1b[35m\x1b[Ksrc/file.py\x1b[m\x1b[K\x1b[36m\x1b[K:\x1b[m\x1b[K\x1b[32m\x1b[K%d\x1b[m\x1b[K"
        b"\x1b[36m\x1b[K:\x1b[m\x1b[Kfrom x \x1b[01;31m\x1b[Kimport\x1b[m\x1b[K y, z\n" % n
    ),
    "compiler": lambda n: (
        b"\x1b[01m\x1b[Ksrc/a.c:%d:9:\x1b[m\x1b[K \x1b[01;35m\x1b[Kwarning: \x1b[m\x1b[Kunused variable"
        b" [\x1b[01;35m\x1b[K\x1b]8;;https://gcc.example/Wunused\x07-Wunused\x1b]8;;\x07\x1b[m\x1b[K]\n" % n
    ),
    "progress bar": lambda n: (
        b"\r\x1b[2K \x1b[38;5;70m%s\x1b[0m\x1b[38;5;237m%s\x1b[0m \x1b[32m%d/63.4 MB\x1b[0m eta"
        b" \x1b[36m0:01\x1b[0m\x1b[?25l" % (b"=" * (n % 41), b"-" * (40 - n % 41), n)
    ),
    "24 bits": lambda n: (
        b"\x1b[38;2;%d;%d;%dm%s\x1b[0m " % (n % 256, n % 255, n % 251, b"word" * (n % 3 + 1))
    ),
    "links": lambda n: (
        b"\x1b]8;;file://host/usr/share/doc/p%d\x07\x1b[01;34mp%d\x1b[0m\x1b]8;;\x07\n" % (n, n)
    ),
    "each character": lambda n: b"\x1b[m%c" % (97 + n % 26),
}


@pytest.mark.bench
def test_speed() -> None:
    """The goal is 50 MB/s with 50 secrets declared: text, what looks random, with codes, in pieces."""
    rng = random.Random(1)
    secrets = [rng.randbytes(24).hex().encode() for _ in range(50)]
    scrub = Scrub(secrets, shapes=True)
    scrub.whole(b"x" * 10_000)
    text = b"2026-01-01 12:00:00 INFO the quick brown fox jumps over the lazy dog\n" * 60_000
    noise = base64.b64encode(rng.randbytes(len(text) * 3 // 4))
    with_some = b"".join(text[at : at + 40_000] + secrets[0] for at in range(0, len(text), 40_000))
    cases = {"text": text, "base64": noise, "with secrets": with_some}
    for name, line in COLOURED.items():
        cases[name] = b"".join(line(n) for n in range(1000)) * (4_000_000 // len(line(0) * 1000))
    bright = cases["compiler"]
    cases["compiler, with secrets"] = b"".join(
        bright[at : at + 40_000] + coloured(secrets[0]) for at in range(0, len(bright), 40_000)
    )
    for name, data in cases.items():
        for size in (4096, 65536, 1 << 20):
            best = 0.0
            for _ in range(3):
                stream, began = scrub.stream(), time.process_time()
                for at in range(0, len(data), size):
                    stream.feed(data[at : at + size])
                stream.end()
                best = max(best, len(data) / (time.process_time() - began) / 1e6)
            print(f"{name}, pieces of {size}: {best:.0f} MB/s")


# --- values as strangers have them


def of_values(*values: str) -> Scrub:
    content = Content({f"V{n}": Secret(value) for n, value in enumerate(values)})
    return Scrub(values_of(content), shapes=False)


def test_a_value_of_several_lines_is_found_line_by_line() -> None:
    value = "-- the first\nA-long-second-line-0123\n\tand a third ünïcode→ 'q\" $x `y` \\"
    scrub = of_values(value)
    assert scrubbed(value.encode(), scrub) == MARK
    for written in (base64.b64encode(value.encode()), json.dumps(value).encode()):
        left = scrubbed(b"<" + written + b">", scrub)
        assert MARK in left and b"second" not in left and len(left) < len(MARK) + 12
    numbered = "\n".join(f"  {n} {line}" for n, line in enumerate(value.split("\n")))
    assert b"second-line" not in scrubbed(numbered.encode(), scrub)


def test_values_within_each_other() -> None:
    scrub = of_values("secret-value-one", "secret-value-one-and-two", "value-one-and", "two-secret-value")
    text = b"secret-value-one secret-value-one-and-two value-one-and two-secret-value-one-and"
    assert scrubbed(text, scrub).replace(MARK, b"").strip() == b""
    for size in range(1, len(text)):
        assert b"value" not in b"".join(in_pieces(text, [size], scrub))


@pytest.mark.parametrize("value", ["a", "on", "1234567", "password", "POSTGRES", "localhost", "production"])
def test_what_is_in_everybodys_output_is_left_alone(value: str) -> None:
    text = (
        f"a banana on production: the password of POSTGRES postgres at localhost is 1234567 {value}".encode()
    )
    assert scrubbed(text, of_values(value)) == text


def test_a_very_long_value_is_found_whole_and_by_its_parts() -> None:
    value = "".join(random.Random(3).choices("abcdefghijkXYZ0123456789_-", k=60_000))
    began = time.process_time()
    scrub = of_values(value)
    assert scrubbed(value.encode(), scrub).replace(MARK, b"") == b""
    assert scrubbed(f"x {value[5000:20000]} y".encode(), scrub).count(MARK) >= 2
    assert time.process_time() - began < 10
    encoded = scrubbed(base64.b64encode(value.encode()), scrub)
    assert len(encoded.replace(MARK, b"")) < 200  # some characters where its parts meet


def test_so_many_values_are_looked_for() -> None:
    data = b"\n".join(random.Random(n).randbytes(16).hex().encode() for n in range(12_000))
    assert len(values_of(Content({}, {"a": Piece(data, "a")}))) == 10_000


# --- values that were renewed before this client began


def former(home: Path, *values: bytes) -> Former:
    """What a client knows that begins when the last of the values is the one that holds."""
    for value in values:
        found = learn(home, {"$A_TOKEN": {value}})
    return found


OLD = [b"0ld-s3cret-number-%d/+=" % n for n in range(6)]


def test_renewed_values_are_known_without_being_kept(tmp_path: Path) -> None:
    scrub = Scrub([OLD[5]], shapes=False, former=former(tmp_path, *OLD))
    kept = tmp_path / "state" / FILE
    assert kept.stat().st_mode & 0o777 == 0o600
    assert not any(one[3:] in kept.read_bytes() for one in OLD)
    for one in OLD[2:]:  # the last four, with the one that holds
        for text in (one, b"a " + one + b"\nb", b"TOKEN=" + one + b";", b"\x1b[1m" + one + b"\x1b[0m"):
            out, count = scrub.whole(text)
            assert one not in out and MARK in out and count == 1
            for at in range(1, len(text)):
                assert one not in b"".join(in_pieces(text, [at], scrub)), at
    assert scrub.whole(OLD[0]) == (OLD[0], 0)
    assert not former(tmp_path / "other", OLD[0], OLD[0])


def test_what_only_begins_like_a_renewed_value_does_not_wait(tmp_path: Path) -> None:
    scrub = Scrub([], shapes=False, former=former(tmp_path, *OLD[:2]))
    pieces = in_pieces(b"a line that has 0l and ends\nanother with 0ldies\n", [28], scrub)
    assert pieces[0] == b"a line that has 0l and ends\n"
    assert b"".join(pieces) == b"a line that has 0l and ends\nanother with 0ldies\n"


CODES = rb"\x1b(?:\[[0-9;]*m|\][^\x07]*\x07)|[\r\n]"
ENCODED: list[Callable[[bytes], bytes]] = [
    base64.b64encode,
    base64.urlsafe_b64encode,
    lambda one: lines(base64.b64encode(b"user:" + one + b"\n"), 19),
    lambda one: coloured(base64.b64encode(b"u:" + one)),
    lambda one: base64.b64encode(b"u" + one).rstrip(b"="),
    lambda one: b"token%3D" + one.replace(b"/", b"%2F").replace(b"+", b"%2b"),
    lambda one: b"token%3D" + one,
]


@pytest.mark.parametrize("encode", ENCODED)
@pytest.mark.parametrize("old", [OLD[3], b"gh0_50c9c994752666ae81c78b283592edff", b"ab?>>~~9"])
def test_renewed_values_are_known_in_encodings_too(
    tmp_path: Path, old: bytes, encode: Callable[[bytes], bytes]
) -> None:
    scrub = Scrub([OLD[5]], shapes=False, former=former(tmp_path, old, OLD[5]))
    written = encode(old)
    text = b'{"auth": "' + written + b'"}\n'
    out, count = scrub.whole(text)
    assert count >= 1 and MARK in out and out.startswith(b'{"auth": "') and out.endswith(b'"}\n')
    bare, left = (re.sub(CODES + rb"|token%3D", b"", one) for one in (written, out))
    assert not any(bare[at : at + 9] in left for at in range(9, len(bare) - 8)), out
    for at in range(1, len(text)):
        assert MARK in b"".join(in_pieces(text, [at], scrub)), at


def test_what_is_like_a_renewed_value_in_an_encoding_passes(tmp_path: Path) -> None:
    scrub = Scrub([OLD[5]], shapes=False, former=former(tmp_path, *OLD))
    rng = random.Random(7)
    for data in (base64.b64encode(rng.randbytes(1 << 20)), b"0ld%20people %30l MGxkIHBlb3BsZQ== " * 9000):
        assert b"".join(in_pieces(data, [4096] * 40, scrub)) == data


def test_what_follows_a_short_renewed_value_stays(tmp_path: Path) -> None:
    scrub = Scrub([], shapes=False, former=former(tmp_path, b"0ld-s3cr", b"other-one"))
    assert in_pieces(b"a 0ld-s3cr" + b"\nmore\n", [10], scrub)[0] == b"a " + MARK
    assert b"".join(in_pieces(b"a 0ld-s3cr" + b"\nmore\n", [10], scrub)) == b"a " + MARK + b"\nmore\n"


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"key": "x", "names": {}}', '{"key": "00", "names": {"a": 1}}']
)
def test_notes_that_make_no_sense_are_begun_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / FILE).write_text(text)
    assert not former(tmp_path, OLD[0])
    assert former(tmp_path, OLD[1])
