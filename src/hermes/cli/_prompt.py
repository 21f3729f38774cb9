"""Asking the person at the terminal whether something may run.

The question goes to the terminal itself, not to stdin and stdout, which may be the command's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import termios
import textwrap
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from hermes.approval import Answer, Decision, Request, decide, refusal, standard_judge
from hermes.approval.grants import DAYS, OUTDATED, Grant, GrantStore, proposed, variables
from hermes.config import Approvals
from hermes.errors import HermesError

from . import _status
from ._report import clean
from ._show import (
    MAX_LINES,
    MOST,
    odd_letters,
    others,
    place_of,
    program_line,
    program_lines,
    spans,
    underlined,
    why,
)

VERBS = {
    "run": "run this command",
    "start": "start this command in the background",
    "pty": "start this program on a terminal",
    "input": "give this input to a running program",
    "write": "change this file",
}


NOT_OFFERED = (
    "not all of it is known or as it looks, what it runs may be another the next time, or it is among "
    "the worst"
)


MAX_REASON = 500  # characters of what a model is told
ROOM = 12  # columns for an answer

EXPLAINED = "; explain lists them"


class Prompt:
    """Shows a request on the terminal and takes the answer. No, Enter, Ctrl-C and Ctrl-D are all a no."""

    how = "prompt"

    def __init__(self, *, lasting: bool = False, model: bool = False, path: str = "/dev/tty") -> None:
        """Ask nothing yet.

        :param lasting: an answer for the session is of use
        :param model: it is a model that wants to know: it can be told why not, and a yes can become a rule
        """
        self._lasting = lasting
        self._model = model
        self._path = path
        self._one = asyncio.Lock()

    async def __call__(self, request: Request, decision: Decision) -> Answer:
        async with self._one:
            gone = await asyncio.to_thread(GrantStore().retire)
            with _status.held(), _Terminal(self._path) as terminal:
                if gone:
                    terminal.say(
                        [
                            "",
                            *textwrap.wrap(
                                f"Grants of an earlier hermes ({gone}) {OUTDATED}.", terminal.width() - 1
                            ),
                        ]
                    )
                return await self._ask(terminal, request, decision)

    async def _ask(self, terminal: _Terminal, request: Request, decision: Decision) -> Answer:
        terminal.say(question(request, decision, terminal.width()))
        choices = ["[n]o (default; n WHY tells the model)" if self._model else "[n]o (default)", "[o]nce"]
        if decision.grantable:
            choices += ["[s]ession"] if self._lasting else []
            choices += ["[a]lways"]
        choices.append("[e]xplain")
        while True:
            typed = (await terminal.answer(_asking(choices, terminal.width()))).strip()
            said = typed.lower()
            word, _, reason = typed.partition(" ")
            if self._model and word.lower() in ("n", "no") and reason.strip():
                terminal.say(["No. Nothing was run; the model is told why."])
                told = clean(reason.strip())[:MAX_REASON]
                raise refusal(request, f"the answer was no: {told} ({decision.reason})", decision.rule)
            if said in ("e", "explain"):
                terminal.say(explanation(request, decision, terminal.width(), lasting=self._lasting))
            elif said in ("o", "once"):
                return Answer.ONCE
            elif said in ("s", "session") and decision.grantable and self._lasting:
                return Answer.SESSION
            elif said in ("a", "always") and decision.grantable:
                grant = proposed(request, decision)
                terminal.say(
                    ["", "This would be stored:", *described(grant, request, decision, terminal.width())]
                )
                edit = "[c]hange it into a rule, " if self._model and request.kind in ("run", "start") else ""
                sure = await terminal.answer(f"Store it? [y]es, {edit}[n]o (default): ")
                if sure.strip().lower() in ("y", "yes"):
                    return Answer.ALWAYS
                if edit and sure.strip().lower() in ("c", "change") and await self._rule(terminal, request):
                    return Answer.ONCE
            elif said in ("", "n", "no", "\x03", "\x04"):
                terminal.say(["No. Nothing was run."])
                return Answer.NO
            else:
                terminal.say([f"'{clean(said)[:20]}' is none of them."])

    async def _rule(self, terminal: _Terminal, request: Request) -> bool:
        """Let a rule be written that covers the request, and keep it in config.yaml; False for none."""
        terminal.say(
            ["", "A pattern for commands that may run unasked, such as: git push *", "Enter alone: none."]
        )
        pattern = (await terminal.answer("Allow: ")).strip()
        if not pattern or pattern in ("\x03", "\x04"):
            return False
        try:
            covers = await asyncio.to_thread(_covers, pattern, request)
        except HermesError as error:
            terminal.say([*textwrap.wrap(clean(f"It is no rule: {error}"), terminal.width() - 1), ""])
            return False
        if not covers:
            terminal.say(["It does not cover this command. Nothing was stored.", ""])
            return False
        terminal.say(["", "This would be added to approvals.allow in config.yaml, for every place:"])
        terminal.say([f"  {clean(pattern)}"])
        sure = await terminal.answer("Store it, and run this once? [y]es, [n]o (default): ")
        if sure.strip().lower() not in ("y", "yes"):
            return False
        try:
            where = await asyncio.to_thread(_keep_rule, pattern)
        except HermesError as error:
            terminal.say(textwrap.wrap(clean(str(error)), terminal.width() - 1))
            return False
        terminal.say([f"It is in {clean(str(where))}, and holds for what is started from now on."])
        return True


def _covers(pattern: str, request: Request) -> bool:
    """Return whether a pattern lets a request through.

    :raises HermesError: it is no pattern
    """
    judge = standard_judge(Approvals(allow=(pattern,)))
    return decide(judge, request).action == "allow"


def _keep_rule(pattern: str) -> Path:
    from hermes.config import _file

    known = (_file.data().get("approvals") or {}).get("allow") or []
    return _file.change([(["approvals", "allow"], [*known, pattern])])


def _asking(choices: Sequence[str], width: int) -> str:
    lines = textwrap.wrap(f"{', '.join(choices)}:", width - 1)
    return "\n".join(lines) + ("\n> " if len(lines[-1]) > width - ROOM else " ")


def question(request: Request, decision: Decision, width: int) -> list[str]:
    """Return the lines that say what is asked."""
    lines = ["", f"hermes: may it {VERBS[request.kind]}?", ""]
    lines += underlined(request.text, spans(decision), width=width, most=MAX_LINES)
    lines += [f"    ({odd})" for odd in odd_letters(request.text)]
    lines.append("")
    shown = [program_line(program) for program in decision.programs]
    if shown and [shlex_like(request.text)] != shown:
        lines += _list("Runs", program_lines(decision.programs, MOST, EXPLAINED), width)
    if request.env:
        lines += _field("With", clean(variables(request)), width)
    lines += _field("Where", place_of(request), width)
    lines += _list("Why", [why(decision), *others(decision, MOST, EXPLAINED)], width)
    if decision.comment:
        lines += _field("Advisor", clean(decision.comment, keep="\n"), width)
    return lines


def shlex_like(text: str) -> str:
    """Return a command with its white space made even, to see whether it says the same as its resolution."""
    return " ".join(text.split())


def explanation(request: Request, decision: Decision, width: int, *, lasting: bool) -> list[str]:
    """Return everything that is known about the request, and what the answers mean."""
    lines = ["", "The whole of it:", *underlined(request.text, spans(decision), width=width)]
    for cwd, programs in groupby(decision.programs, lambda program: program.cwd):
        lines += _list("Runs", program_lines(list(programs)), width)
        if cwd and cwd != request.cwd:
            lines += _field("", f"in {clean(cwd)}", width)
    if request.env:
        lines += _field("With", clean(variables(request)), width)
    lines += _field("Where", place_of(request), width)
    lines += _list("Why", [why(decision), *others(decision)], width)
    lines += _field("Severity", decision.severity, width)
    lines.append("")
    meanings = [
        ("no", "it is not run; the command fails with exit code 121"),
        ("once", "it is run now, and asked about again the next time"),
    ]
    if decision.grantable:
        if lasting:
            meanings.append(("session", "the very same is not asked again by this hermes in this session"))
        meanings.append(("always", f"the very same is not asked again here, for {DAYS} days"))
    else:
        meanings.append(("always", f"is not offered: {NOT_OFFERED}"))
    for name, meaning in meanings:
        lines += _field(name, meaning, width)
    return [*lines, ""]


def described(grant: Grant, request: Request, decision: Decision, width: int) -> list[str]:
    """Return a grant in words: exactly what it covers."""
    until = time.strftime("%Y-%m-%d", time.localtime(grant.expires))
    before = len(variables(request))
    found = spans(decision) if grant.what[before:] == request.text else []  # a secret is not kept in it
    marked = [(start + before, end + before) for start, end in found]
    lines = underlined(grant.what, width=width, indent=" " * 11)
    if len(lines) > 2 * MOST:  # what it is about is among what is left
        lines = underlined(grant.what, marked, width=width, indent=" " * 11, most=2 * MOST)
    lines[0] = f"{'Allow:':<10} {lines[0].strip()}"
    lines += _field("In", clean(grant.cwd or "any directory"), width)
    lines += _field("Where", clean(grant.place), width)
    lines += _field("Until", f"{until}; 'hermes approvals revoke {grant.id}' takes it back", width)
    return lines


def _list(name: str, texts: Sequence[str], width: int) -> list[str]:
    return [line for at, text in enumerate(texts) for line in _field("" if at else name, text, width)]


def _field(name: str, text: str, width: int) -> list[str]:
    lead = f"{name}:" if name else ""
    found: list[str] = []
    for part in text.split("\n"):
        wrapped = textwrap.wrap(part, max(20, width - 11), break_on_hyphens=False) or [""]
        for line in wrapped:
            found.append(f"{lead:<10} {line}".rstrip())
            lead = ""
    return found


class _Terminal:
    """The controlling terminal, for as long as a question lasts."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._saved: list[Any] = []

    def __enter__(self) -> _Terminal:
        self._fd = os.open(self._path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            self._saved = termios.tcgetattr(self._fd)
            flags = termios.tcgetattr(self._fd)
            # Lines, with an echo. Ctrl-C is a character that ends the line: it answers, and stops nobody.
            flags[3] = (flags[3] | termios.ICANON | termios.ECHO | termios.ECHOE) & ~termios.ISIG
            flags[0] |= termios.ICRNL
            flags[1] |= termios.OPOST
            flags[6][termios.VEOL] = b"\x03"
            # What was typed before the question was no answer to it.
            termios.tcsetattr(self._fd, termios.TCSAFLUSH, flags)
        except BaseException:
            os.close(self._fd)
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._saved)
        os.close(self._fd)

    def width(self) -> int:
        try:
            return max(40, min(100, os.get_terminal_size(self._fd).columns or 80))
        except OSError:
            return 80

    def say(self, lines: list[str]) -> None:
        self._write("".join(f"{line}\n" for line in lines))

    async def answer(self, question: str) -> str:
        """Return the line that is typed; empty when the terminal is gone, or ends the input."""
        self._write(question)
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._fd, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._fd)
        try:
            typed = os.read(self._fd, 4096)
        except OSError:
            typed = b""
        if not typed.endswith(b"\n"):
            self._write("\n")
        if typed.endswith(b"\x03"):
            return "\x03"
        return typed.decode("utf-8", "replace")

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._fd, data) :]
