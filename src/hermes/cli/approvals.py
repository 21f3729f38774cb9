"""``hermes approvals``: what would be asked, what was granted, and what was answered."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from hermes.approval import Decision, Judge, Request, decide, standard_judge
from hermes.config import home, load
from hermes.errors import Refused

from . import _options as options
from ._report import clean, say
from ._show import MOST, others, program_lines, spans, underlined, why
from ._text import print_json

app = options.new_group("Say what is asked, what was granted and what was answered.", "hermes approvals ls")

Directory = Annotated[
    str | None, typer.Option("--cwd", metavar="DIR", help="Where it would run. Default: here.")
]
EVERY = 0.2  # seconds between two looks at a log that is followed


@app.command()
def check(
    command: Annotated[
        str | None, typer.Argument(metavar="COMMAND", help="Text for the shell.", show_default=False)
    ] = None,
    cwd: Directory = None,
    json: options.Json = False,
    jsonl: Annotated[
        bool,
        typer.Option("--jsonl", help="Answer each line of stdin, an object with a 'command' and a 'cwd'."),
    ] = False,
    debug: options.Debug = False,
) -> int:
    """Say what the rules make of a command, without running it.

    Modes and grants do not count here: 'hermes approvals test' takes them into account.

    Example: hermes approvals check 'ls; rm -rf build'
    """
    if jsonl == (command is not None):
        raise typer.BadParameter("give either COMMAND or --jsonl", param_hint="COMMAND")
    if jsonl and sys.stdin is None:
        raise typer.BadParameter("standard input is closed; give it lines: < FILE", param_hint="--jsonl")
    judge = _judge()
    if jsonl:
        _stream(judge)
        return 0
    assert command is not None
    request = _request(command, cwd)
    decision = decide(judge, request)
    if json:
        print_json(_object(decision))
    else:
        print("\n".join(_said(request, decision)))
    return 0


def _judge() -> Judge:
    return standard_judge(load().approvals, agent_home=str(home()))


def _request(command: str, cwd: str | None) -> Request:
    at = os.path.abspath(os.path.expanduser(cwd)) if cwd is not None else os.getcwd()
    return Request(
        kind="run",
        text=command,
        cwd=at,
        backend="local",
        home=str(Path.home()),
        workspace=at,
        agent_home=str(home()),
    )


def _said(request: Request, decision: Decision) -> list[str]:
    width, rest = _width(), "; --json has them"
    lines = [_wrapped(f"{decision.action}: {why(decision)}")]
    lines += [_wrapped(f"also: {one}") for one in others(decision, MOST if width else 0, rest)]
    lines += [
        "",
        *underlined(request.text, spans(decision), width=width or 80, most=2 * MOST if width else 0),
    ]
    if decision.programs:
        shown = program_lines(decision.programs, 2 * MOST if width else 0, rest)
        lines += ["", *(_wrapped(f"runs: {one}", most=MOST) for one in shown)]
    return lines


def _object(decision: Decision) -> dict[str, Any]:
    return {
        "decision": decision.action,
        "rule": decision.rule,
        "reason": decision.reason,
        "severity": decision.severity,
        "read_only": decision.read_only,
        "programs": [{"argv": list(one.argv), "cwd": one.cwd} for one in decision.programs],
        "span": list(decision.span) if decision.span is not None else None,
        "also": [{"rule": one.rule, "reason": one.reason, "span": list(one.span)} for one in decision.also],
    }


def _stream(judge: Judge) -> None:
    """Answer each line as it comes; one that is no request gets an error and the next one is read."""
    import json

    for line in _lines():
        try:
            if not line.strip():
                raise ValueError("the line is empty; expected an object with a 'command'")
            asked = json.loads(_text(line))
            if not isinstance(asked, dict) or not isinstance(asked.get("command"), str):
                raise ValueError("expected an object with a 'command' that is text")
            if not isinstance(asked.get("cwd"), str | None):
                raise ValueError("'cwd' has to be text")
            if "\0" in (asked.get("cwd") or ""):
                raise ValueError("'cwd' has a NUL in it, which no path has")
        except (ValueError, RecursionError) as error:
            found: dict[str, Any] = {"error": {"code": "bad_line", "message": str(error)[:300]}}
        else:
            try:
                decision = decide(judge, _request(asked["command"], asked.get("cwd")))
                found = {"decision": decision.action, "rule": decision.rule, "reason": decision.reason}
            except Refused as error:  # the judge failed, which is no yes
                found = {"decision": "ask", "rule": None, "reason": error.message}
        data = json.dumps(found, ensure_ascii=True)
        sys.stdout.write(data + "\n")
        sys.stdout.flush()


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("the line is not UTF-8; expected an object with a 'command'") from None


def _lines() -> Iterator[bytes]:
    while line := sys.stdin.buffer.readline():
        yield line


@app.command()
def test(
    command: Annotated[
        str, typer.Argument(metavar="COMMAND", help="Text for the shell.", show_default=False)
    ],
    cwd: Directory = None,
    debug: options.Debug = False,
) -> int:
    """Say whether a command would run on this machine now.

    Rules, mode and grants count. The exit code is 0 when it would run unasked, and 121 otherwise.

    Example: hermes approvals test 'rm -rf build'
    """
    from hermes.approval.grants import GrantStore

    settings = load().approvals
    request = _request(command, cwd)
    decision = decide(_judge(), request)
    granted = None
    if decision.grantable and settings.mode != "off":
        granted = GrantStore().find(request, decision)
    strict = settings.mode == "strict" and not decision.read_only and decision.rule is None
    if decision.action == "block":
        print(_wrapped(f"it is blocked, in every mode: {why(decision)}"))
    elif decision.action == "allow" and not strict:
        print(_wrapped(f"it runs: {why(decision)}"))
        return 0
    elif settings.mode == "off":
        print(_wrapped(f"it runs, since approvals are off. Otherwise it is asked about: {why(decision)}"))
        return 0
    elif granted is not None:
        print(_wrapped(f"it runs, by grant {granted.id}. Otherwise it is asked about: {why(decision)}"))
        return 0
    elif strict and decision.action == "allow":
        print(_wrapped("it is asked about: mode strict lets through only what is known to be read-only"))
    else:
        print(_wrapped(f"it is asked about: {why(decision)}"))
    return 121


@app.command()
def ls(json: options.Json = False, debug: options.Debug = False) -> int:
    """List what was granted for always.

    Example: hermes approvals ls
    """
    import msgspec

    from hermes.approval.grants import OUTDATED, GrantStore

    if gone := GrantStore().retire():
        say(f"Grants of an earlier hermes ({gone}) {OUTDATED}.")
    found = GrantStore().all()
    if json:
        print_json([msgspec.to_builtins(grant) for grant in found])
    elif not found:
        print("Nothing is granted.")
    else:
        for grant in found:
            until = time.strftime("%Y-%m-%d", time.localtime(grant.expires))
            rule = f", rule {grant.rule}" if grant.rule else ""
            print(_wrapped(f"{grant.id}  until {until}  {grant.kind} on {grant.place}{rule}"))
            print(*_command(grant.what), _wrapped(f"    in {grant.cwd or 'any directory'}"), sep="\n")
    return 0


@app.command()
def revoke(
    idents: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID...", help="As 'hermes approvals ls' shows them.", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Take back all.")] = False,
    debug: options.Debug = False,
) -> int:
    """Take back what was granted for always.

    Example: hermes approvals revoke 1f2e3d4c
    """
    from hermes.approval.grants import GrantStore

    if bool(idents) == every:
        raise typer.BadParameter("give either IDs or --all", param_hint="ID")
    gone = GrantStore().revoke(idents or [])
    for grant in gone:
        print(_wrapped(f"{grant.id}: taken back ({grant.what})", most=MOST))
    missing = sorted(set(idents or []) - {grant.id for grant in gone})
    for ident in missing:
        say(f"error: there is no grant {ident}; 'hermes approvals ls' lists them.")
    if every and not gone:
        print("Nothing is granted.")
    return 125 if missing else 0


@app.command()
def log(
    count: Annotated[int, typer.Option("-n", metavar="N", min=0, help="Only the last N entries.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is added.")] = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Show what was asked, what the answer was, and who gave it.

    Example: hermes approvals log --follow
    """
    from collections import deque

    from hermes.approval.audit import AuditLog, parsed

    audit = AuditLog()
    # Taken first: an entry that comes meanwhile may be shown twice, and is not left out.
    reader = _Tail(audit.path) if follow else None
    for entry in deque(audit.read(), count):
        _show(entry, as_json=json)
    if reader is None:
        return 0
    sys.stdout.flush()
    while True:
        for line in reader.lines():
            if (added := parsed(line)) is not None:
                _show(added, as_json=json)
        sys.stdout.flush()
        time.sleep(EVERY)


class _Tail:
    """The lines that are added to a file, also when another one takes its place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None
        self._rest = b""
        self._open(end=True)

    def _open(self, *, end: bool) -> None:
        try:
            self._file = open(self._path, "rb")  # noqa: SIM115
        except FileNotFoundError:
            return
        if end:
            self._file.seek(0, os.SEEK_END)

    def lines(self) -> Iterator[bytes]:
        if self._file is None:
            self._open(end=False)
        while self._file is not None:
            whole = self._rest + self._file.read()
            *lines, self._rest = whole.split(b"\n")
            yield from lines
            if not self._replaced():
                return
            self._file.close()
            self._rest, self._file = b"", None
            self._open(end=False)

    def _replaced(self) -> bool:
        try:
            return os.fstat(self._file.fileno()).st_ino != self._path.stat().st_ino
        except FileNotFoundError:
            return False


def _show(entry: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(entry)
        return
    try:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(entry["time"])))
        place = f"{entry['backend']}:{entry['host']}" if entry["host"] else entry["backend"]
        rule = f", rule {entry['rule']}" if entry["rule"] else ""
        head = f"{when}  {entry['answer']} by {entry['how']}  {entry['kind']} on {place}{rule}"
        where = f"in {entry['cwd']}" if entry["cwd"] else "in an unknown directory"
        tail = f"{where}, {entry['user']} (pid {entry['pid']}): {entry['reason']}"
        print(_wrapped(head), *_command(str(entry["text"])), _wrapped(f"    {tail}"), sep="\n")
    except (KeyError, TypeError, ValueError, OverflowError):  # of another version
        print_json(entry)


def _width() -> int:
    """Return how wide the terminal is; 0 where the output goes elsewhere, and nothing is cut or wrapped."""
    import shutil

    return max(40, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 0


def _command(text: str) -> list[str]:
    """Return the lines of a command, without the middle of a long one; in one line where nobody looks."""
    if width := _width():
        return underlined(text, width=width, indent="    ", most=2 * MOST)
    return [f"    {clean(text)}"]


def _wrapped(text: str, most: int = 0) -> str:
    """Return a line as it fits a terminal, at the most so many lines of it; elsewhere it stays one."""
    import textwrap

    text = clean(text)
    if not (width := _width()):
        return text
    lines = textwrap.wrap(text, width - 1, subsequent_indent="    ", break_on_hyphens=False)
    if most and len(lines) > most:
        lines[most - 1 :] = [f"    [... {len(lines) - most + 1} lines are not shown here ...]"]
    return "\n".join(lines)
