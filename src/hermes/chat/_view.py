"""A turn on a terminal, or in two streams: answers, calls of tools, what they print, what came of them."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from pydantic_ai.messages import ModelResponse, ToolCallPart

from hermes.cli._report import clean
from hermes.tools import Outcome

from ._live import Live

__all__ = ["TerminalView"]

MOST_LINES = 12  # of a command that is shown
SHOWN = 200

# What of a call says what it is about.
_ABOUT = {
    "terminal": ("command",),
    "execute_code": ("code",),
    "process": ("action", "id"),
    "read_file": ("path",),
    "write_file": ("path",),
    "patch": ("path", "edits", "diff"),
    "search_files": ("pattern", "path"),
}


class TerminalView:
    """Shows a turn. Where stdout is no terminal it gets the last answer alone, and stderr all the rest."""

    def __init__(
        self, *, place: str, quiet: bool = False, on_cwd: Callable[[str], None] | None = None
    ) -> None:
        """Show nothing yet.

        :param place: a word for the place, which stands before what runs there
        :param quiet: show answers only
        :param on_cwd: is told of the default session's directory after each command
        """
        self.place = place
        self._quiet = quiet
        self._on_cwd = on_cwd
        self._own = sys.stdout.isatty()
        self._said: list[str] = []
        self._open = False  # a line that has not ended
        self._live: Live | None = None
        self._session: Any = None

    def text(self, text: str) -> None:
        text = clean(text, keep="\n\t")
        if not self._own:
            self._said.append(text)
        elif text:
            self._put(text, sys.stdout)

    def answer(self, response: ModelResponse) -> None:
        said, self._said = "".join(self._said).strip("\n"), []
        last = not any(isinstance(part, ToolCallPart) for part in response.parts)
        if said and (last or not self._quiet):
            self._put(said + "\n", sys.stdout if last else sys.stderr)
        self.line()

    def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        self._session = arguments.get("session")
        if self._quiet:
            return
        self._line_of(f"[{self.place}] {_described(name, arguments)}")
        self._live = Live(lambda text: self._put(text, sys.stderr))

    def output(self, data: bytes) -> None:
        if self._live is not None:
            self._live.take(data)

    def result(self, outcome: Outcome) -> None:
        if self._live is not None:
            self._live.end()
            self._live = None
            self._line_of("  = " + _wrapped(_came_of(outcome), self._own))
        cwd = getattr(outcome.reply, "cwd", None)
        if cwd and self._session is None and self._on_cwd is not None:
            self._on_cwd(cwd)

    def note(self, line: str) -> None:
        self._said.clear()  # of an answer that broke off
        self._line_of(f"({clean(line)})")

    def interrupted(self) -> None:
        """Begin a new line, since the terminal shows the keys of an interrupt."""
        if self._own:
            self._open = True
            self.line()

    def line(self) -> None:
        """End the line that was begun."""
        if self._open:
            self._put("\n", sys.stdout if self._own else sys.stderr)

    def cut(self) -> None:
        """End what the turn was at when it came to its end."""
        if self._live is not None:
            self._live.end()
            self._live = None
        self._said.clear()
        self.line()

    def _line_of(self, text: str) -> None:
        self.line()
        self._put(text + "\n", sys.stderr)

    def _put(self, text: str, stream: TextIO) -> None:
        if not text:
            return
        try:
            stream.write(text)
            stream.flush()
        except (OSError, ValueError):  # nobody reads it; what was asked for is done all the same
            return
        self._open = not text.endswith("\n")


def _described(name: str, arguments: Mapping[str, Any]) -> str:
    if name == "terminal":
        lead = "& " if arguments.get("background") else "$ "
        return lead + _text(arguments.get("command"))
    about = [_text(arguments[key]) for key in _ABOUT.get(name, ()) if key in arguments]
    if name == "execute_code":
        return f"{clean(str(arguments.get('language', 'python')))}:\n" + "\n".join(about)
    return " ".join([clean(name), *about])


def _text(value: Any) -> str:
    lines = clean(value if isinstance(value, str) else repr(value)[:SHOWN], keep="\n").split("\n")
    if len(lines) > MOST_LINES:
        lines[MOST_LINES - 2 : -1] = [f"[... {len(lines) - MOST_LINES + 1} lines are not shown here ...]"]
    return "\n      ".join(line if len(line) <= 4 * SHOWN else line[: 4 * SHOWN] + "..." for line in lines)


def _wrapped(text: str, on_terminal: bool) -> str:
    if not on_terminal:
        return text
    width = shutil.get_terminal_size().columns - 1
    return textwrap.fill(text, max(20, width - 4), break_on_hyphens=False).replace("\n", "\n    ")


def _came_of(outcome: Outcome) -> str:
    reply: Any = outcome.reply
    if reply.error is not None:
        said = clean(reply.error.message)
        return said if said.startswith(reply.status) else f"{reply.status}: {said}"
    code, seconds = getattr(reply, "exit_code", None), getattr(reply, "duration_s", None)
    if outcome.job is not None and code is None:
        return f"job {clean(outcome.job)} runs in the background"
    said = "timed out" if reply.status == "timed_out" else "ok" if code is None else f"exit code {code}"
    return said + (f", {seconds:.1f} s" if seconds is not None else "")
