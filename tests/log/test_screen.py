"""What of a recorded terminal reaches a real one."""

from __future__ import annotations

import re

import hypothesis
import pytest
from hypothesis import strategies as some

from hermes.log._screen import Screen

HARMLESS = [
    "plain text, grün, 日本語, 👍\r\n\ttab\b",
    "\x1b[1;31mred\x1b[0m \x1b[38;2;1;2;3mtrue\x1b[38:5:1m",
    "\x1b[2J\x1b[H\x1b[10;20H\x1b[3A\x1b[K\x1b[5P\x1b[2;20r\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?2026h",
    "\x1b7\x1b8\x1bM\x1b(0lqk\x1b(B\x0e\x0f",
]
HARMFUL = {
    "clipboard": "\x1b]52;c;cm0gLXJmIH4=\x07",
    "clipboard, the other end": "\x1b]52;c;cm0gLXJmIH4=\x1b\\",
    "title": "\x1b]0;owned\x07",
    "title by a window operation": "\x1b[22;0t\x1b[21t",
    "link": "\x1b]8;;https://evil.example\x07",
    "notification": "\x1b]9;hello\x07\x1b]777;notify;a;b\x07",
    "colours of the palette": "\x1b]4;1;?\x07\x1b]11;?\x07",
    "what are you": "\x1b[c\x1b[>c\x1b[=c\x1bZ\x1b[>q",
    "where is the cursor": "\x1b[6n\x1b[?6n\x1b[5n",
    "which mode is it": "\x1b[?2004$p\x1b[4$p",
    "request of a setting": "\x1bP$qm\x1b\\\x1bP+q544e\x1b\\",
    "image": "\x1bPq#0;2;0;0;0#0~~@@vv\x1b\\\x1b_Gf=100;AAAA\x1b\\",
    "keys": "\x1b[>4;2m\x1b[>1u\x1b[?1h\x1b=\x1b>",
    "mouse and paste": "\x1b[?1000h\x1b[?1006h\x1b[?2004h\x1b[?1004h",
    "printer": "\x1b[5i\x1b[?4i",
    "repeat": "x\x1b[99999999b"[1:],
    "bell and answer": "\x07\x05",
    "one byte forms": "\x9b6n"[:1] + "\x9d"[:1] + "\x90",
    "other direction": "\u202e\u2066",
    "a message to the terminal": "\x1b^privacy\x1b\\\x1bXstring\x1b\\",
}


@pytest.mark.parametrize("text", HARMLESS)
def test_what_shows_text_goes_through(text: str) -> None:
    assert Screen().feed(text) == text


@pytest.mark.parametrize("text", HARMFUL.values(), ids=HARMFUL)
def test_what_does_more_does_not(text: str) -> None:
    assert Screen().feed(f"a{text}b") == "ab"


@pytest.mark.parametrize("text", HARMFUL.values(), ids=HARMFUL)
def test_nor_in_pieces(text: str) -> None:
    screen = Screen()
    assert "".join(screen.feed(char) for char in f"a{text}b") == "ab"


def test_a_terminal_that_begins_anew_is_an_empty_screen() -> None:
    assert Screen().feed("\x1bc") == "\x1b[H\x1b[2J\x1b[0m"


def test_a_string_that_never_ends_hides_what_it_would_hide_on_a_terminal_for_a_while() -> None:
    screen = Screen()
    assert screen.feed("a\x1b]0;" + "x" * 100) == "a"
    assert screen.feed("y" * 5000 + "\x07b").endswith("b")


CODE = re.compile(r"\x1b\[([?0-9;:]*)([@-~])|\x1b([78DEM]|[()][0AB])")


@hypothesis.given(
    some.lists(some.text(some.sampled_from("\x1b[]?;0159cnthlmPX\\\x07\x9b\x9d_^ a>$="), max_size=12))
)
def test_whatever_it_is_given_in_whatever_pieces(pieces: list[str]) -> None:
    screen = Screen()
    shown = "".join(screen.feed(piece) for piece in pieces)
    rest = CODE.sub("", shown)
    assert not re.search(r"[\x00-\x07\x0b\x0c\x10-\x1f\x7f-\x9f]", rest)
    for found in CODE.finditer(shown):
        assert found[2] is None or found[2] not in "cntxyqipb"
        if (found[1] or "").startswith("?"):
            assert found[2] in "hlJK"
