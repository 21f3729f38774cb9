"""Messages to the user: on stderr, in one form, and harmless whatever text a sandbox put into them."""

from __future__ import annotations

import sys

from hermes.errors import HermesError

FAILED = 125

changing = False
"""Whether a line stands on the terminal that is written over when there is something new."""


def clean(text: str, *, keep: str = "") -> str:
    """Return text in which nothing can move a cursor, change a colour or hide what was written.

    Control and formatting characters become ``\\x1b`` and the like, apart from those in *keep*.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escaped(c) for c in text)


def _escaped(c: str) -> str:
    if "\udc80" <= c <= "\udcff":  # a byte that was not UTF-8
        return f"\\x{ord(c) - 0xDC00:02x}"
    return c.encode("unicode_escape").decode("ascii")


def put(text: str) -> None:
    """Print what was asked for on stdout, whoever wrote the text that it is made of."""
    print(clean(text, keep="\n"))


def say(text: str) -> None:
    """Print one message on stderr. A stderr that cannot be written is no reason to fail."""
    global changing
    try:
        text = _hidden(text)
        over = "\r\x1b[K" if changing else ""
        sys.stderr.write(
            over + (_fitting(f"hermes: {clean(text, keep=chr(10))}\n") if text.strip() else "\n")
        )
        sys.stderr.flush()
        changing = False
    except (OSError, ValueError, UnicodeError):
        pass


def _hidden(text: str) -> str:
    """Return a text without the secrets that are declared; nobody has read one without that module."""
    known = sys.modules.get("hermes.credentials._declared")
    return str(known.hide(text)) if known is not None else text


def _fitting(text: str) -> str:
    """Return lines that a terminal breaks between words, not in them."""
    if len(text) < 40 or not sys.stderr.isatty():
        return text
    import os

    width = os.get_terminal_size(sys.stderr.fileno()).columns
    if width < 40 or max(map(len, text.split("\n"))) < width:
        return text
    import textwrap

    indent = " " * len("hermes: ")
    wrap = textwrap.TextWrapper(
        width - 1, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
    return "\n".join(wrap.fill(line) if len(line) >= width else line for line in text.split("\n"))


def report(error: BaseException, *, debug: bool) -> None:
    """Print an error, and what can be done about it; with *debug* where it came from."""
    if debug:
        import traceback

        sys.stderr.write(clean(_hidden("".join(traceback.format_exception(error))), keep="\n"))
    if isinstance(error, HermesError):
        say(f"error: {error.message}")
        if error.hint:
            say(f"       {error.hint}")
        return
    say(f"error: {type(error).__name__}: {error}")
    if not debug:
        say("       This is a fault of hermes. 'hermes --debug ...' shows where it happened.")


async def confirmed(question: str) -> bool:
    """Return whether somebody at the terminal says yes. The event loop goes on meanwhile."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        say("there is nobody to ask: give --yes.")
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    import asyncio

    loop, typed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), typed.set)
    try:
        await typed.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline().strip().lower() in ("y", "yes")
