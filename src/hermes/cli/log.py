"""``hermes log``: what was recorded of sessions, and removing it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes.config import load
from hermes.errors import HermesError

from . import _options as options
from ._group import Group
from ._report import clean, say
from ._text import age, plural, print_json, size, table

if TYPE_CHECKING:
    from typer._click.core import Command as ClickCommand
    from typer._click.core import Context

    from hermes.log._read import Command, Recording

COUNT = 20


class Log(Group):
    """A group in which what is no command is the session to show."""

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, ClickCommand | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            return "show", self.get_command(ctx, "show"), args
        found: tuple[str | None, ClickCommand | None, list[str]] = super().resolve_command(ctx, args)
        return found


app = options.new_app(cls=Log, invoke_without_command=True)


@app.callback()
def ls(
    ctx: typer.Context,
    sandbox: Annotated[
        str | None,
        typer.Option(
            "--sandbox", metavar="BACKEND[:HOST]", help="Only on this place.", callback=options._place
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Only in the sandbox of that name.")
    ] = None,
    since: Annotated[
        float | None,
        typer.Option("--since", metavar="TIME", parser=options.seconds, help="Only of the last 30m, 2h, 7d."),
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only those in which a command came to no good end.")
    ] = False,
    count: Annotated[int, typer.Option("-n", metavar="N", min=0, help="Only the last N; 0 is all.")] = COUNT,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int | None:
    """List recorded sessions, or show one: hermes log SESSION.

    A session is one client's use of one sandbox, such as one 'hermes exec'. What is recorded, and how that is
    switched off: docs/log.md.

    Example: hermes log --failed
    """
    if ctx.invoked_subcommand is not None:
        return None
    found = list(_wanted(ctx.obj.sandbox, name, since, failed=failed, count=count))
    if json:
        print_json([_summary(one) for one in found])
        return 0
    if not found:
        off = "" if load().log.enabled else " Recording is off: log.enabled."
        print(f"No session is recorded that fits.{off}")
        return 0
    now = time.time()
    rows = []
    for one in found:
        commands = [command for command in one.commands if command.kind != "change"]
        rows.append(
            (
                one.short,
                age(now - one.began),
                one.place,
                str(one.facts.get("sandbox", "?")),
                str(len(commands)),
                str(one.failed or "-"),
                _title(commands[0]) if commands else "",
            )
        )
    heads = ("SESSION", "AGE", "PLACE", "SANDBOX", "RUN", "BAD", "FIRST COMMAND")
    print(table(heads, rows, right=(1, 4, 5)))
    return 0


def _wanted(
    sandbox: str | None, name: str | None, since: float | None, *, failed: bool, count: int
) -> Iterator[Recording]:
    from hermes.log._read import read, recordings

    backend, _, host = (sandbox or "").partition(":")
    left = count or -1
    for path in recordings():
        try:
            one = read(path, outputs=False)
        except HermesError as error:
            say(f"warning: {error.message}.")
            continue
        if backend and (one.facts.get("backend") != backend or (host and one.facts.get("host") != host)):
            continue
        if (name is not None and one.facts.get("sandbox") != name) or (failed and not one.failed):
            continue
        last = max((command.end or command.time for command in one.commands), default=0.0)
        if since is not None and last < time.time() - since:
            continue
        yield one
        left -= 1
        if not left:
            return


def _title(command: Command) -> str:
    return command.text or "an interactive shell"


def _summary(one: Recording) -> dict[str, Any]:
    facts = {key: value for key, value in one.facts.items() if key not in ("type", "version", "id")}
    commands = [command for command in one.commands if command.kind != "change"]
    return {
        "session": one.id,
        "path": str(one.path),
        "began": one.began,
        "count": len(commands),
        "failed": one.failed,
        "first": commands[0].text if commands else None,
        **facts,
    }


@app.command()
def show(
    session: Annotated[
        str,
        typer.Argument(metavar="SESSION", help="An ID, a part that tells it, or last.", show_default=False),
    ],
    output: Annotated[
        bool, typer.Option("--output", "-o", help="What commands wrote as well, with all codes escaped.")
    ] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only what came to no good end.")] = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Show the commands of a session, and what became of them.

    With each: when it ran, for how long, and what was decided.

    Who was asked, and said what, is in 'hermes approvals log'.

    Example: hermes log show last --output
    """
    from hermes.log._read import find, read

    one = read(find(session))
    commands = [command for command in one.commands if command.failed or not failed]
    if json:
        print_json({**_summary(one), "commands": [_object(command) for command in commands]})
        return 0
    facts = one.facts
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.began))
    print(clean(f"{one.id}, began {began}"))
    print(clean(f"{one.place}, isolation {facts.get('isolation', '?')}, sandbox {facts.get('sandbox', '?')}"))
    print(clean(f"in {facts.get('cwd') or '?'}"))
    for command in commands:
        print()
        _print(one.short, command, output=output)
    return 0


def _print(session: str, command: Command, *, output: bool) -> None:
    from ._play import outcome

    when = time.strftime("%H:%M:%S", time.localtime(command.time))
    if command.kind == "change":
        refused = " (refused)" if command.error else ""
        print(clean(f"     {when}  changed {command.text}{refused}"))
        return
    parts = [outcome(command)]
    if command.duration is not None:
        parts.append(f"{command.duration:.2f} s")
    parts += [f"job {command.job}"] if command.job else []
    parts += [f"session {command.session}"] if command.session not in (None, "default") else []
    parts += [f"in {command.cwd}"] if command.cwd else []
    print(clean(f"{command.number:>4} {when}  {', '.join(parts)}"))
    text = clean(_title(command), keep="\n")
    print("     " + text.replace("\n", "\n     "))
    decision = command.decision or {}
    if decision.get("action") not in (None, "allow"):
        words = {"ask": "asked about, and allowed", "refuse": "refused", "block": "blocked"}
        rule = f" (rule {decision['rule']})" if decision.get("rule") else ""
        said = words.get(str(decision["action"]), str(decision["action"]))
        print(clean(f"     {said}: {decision.get('reason', '')}{rule}"))
    if command.error and command.error.get("message") and command.status != "refused":
        print(clean(f"     {command.error['message']}"))
    if command.terminal:
        print(f"     its terminal: hermes replay {clean(session)} --command {command.number}")
    if output:
        _print_output(command)


def _print_output(command: Command) -> None:
    if command.program:
        print("   < " + clean(command.program.rstrip("\n"), keep="\n").replace("\n", "\n   < "))
    for name in ("stdout", "stderr"):
        text = ""
        for piece in command.outputs:
            if piece.stream == name:
                note = f"\n[... {piece.omitted} bytes were not recorded ...]\n" if piece.omitted else ""
                text += note or piece.data.decode("utf-8", "surrogateescape")
        if text:
            mark = "   | " if name == "stdout" else "   ! "
            lines = clean(text.rstrip("\n"), keep="\n\t").split("\n")
            print("\n".join(mark + line for line in lines))


def _object(command: Command) -> dict[str, Any]:
    outputs = {"stdout": "", "stderr": ""}
    omitted = 0
    for piece in command.outputs:
        outputs[piece.stream] = outputs.get(piece.stream, "") + piece.data.decode("utf-8", "replace")
        omitted += piece.omitted
    return {
        "n": command.number,
        "kind": command.kind,
        "command": command.text,
        "time": command.time,
        "session": command.session,
        "cwd": command.cwd,
        "program": command.program,
        "decision": command.decision,
        "status": command.status,
        "exit_code": command.exit_code,
        "duration_s": command.duration,
        "cwd_after": command.cwd_after,
        "job": command.job,
        "terminal": command.terminal,
        "error": command.error,
        **outputs,
        "omitted": omitted,
    }


@app.command()
def prune(
    keep: Annotated[
        float | None,
        typer.Option(
            "--keep",
            metavar="TIME",
            parser=options.seconds,
            help="Keep those of the last 7d, 12h. Default: log.keep.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Remove all recordings.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Remove old recordings, as is done from time to time anyway.

    Example: hermes log prune --keep 7d
    """
    from hermes.log import directory
    from hermes.log._prune import prune as remove

    if every and keep is not None:
        raise typer.BadParameter("give either --keep or --all", param_hint="--all")
    keep = 1e-9 if every else keep
    found = remove(directory(), load().log, keep=keep, dry_run=dry_run)
    if json:
        print_json({"sessions": found.ids, "bytes": found.bytes, "removed": not dry_run})
        return 0
    done = "would be removed" if dry_run else "removed"
    print(f"{plural(len(found.ids), 'session')} {done}, {size(found.bytes)}.")
    return 0
