"""``hermes sandbox``: every sandbox of this user, on all places."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes.config import load
from hermes.errors import HermesError, SandboxGone, exit_code
from hermes.places import place_of

from . import _options as options
from ._place import Chosen, choose
from ._progress import progress, summary
from ._records import Seen, check_applied, chosen_for, find_record, forget, look, remove, seen, strays, wake
from ._records import suspend as _suspend
from ._report import clean, confirmed, put, report, say
from ._run import opened, run
from ._text import age, amount, plural, print_json, table

if TYPE_CHECKING:
    from hermes.backends.base import Backend
    from hermes.files import TransferStats
    from hermes.state import SandboxRecord

app = options.new_group("List, enter, suspend, remove and reach sandboxes.", "hermes sandbox ls")

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Its name, or its ID.", show_default=False, autocompletion=options.sandboxes
    ),
]
Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME...", help="Names or IDs.", show_default=False, autocompletion=options.sandboxes
    ),
]


@app.command()
def ls(sandbox: options.Place = None, json: options.Json = False, debug: options.Debug = False) -> int:
    """List sandboxes on all places.

    States: running; starting, it is being made or waits in a queue; stopped; gone, only its record is left;
    unreachable, it cannot be told; stray, its provider has it, and its record here is lost. IDLE counts from
    the last time that a hermes attached to it. Where one is on a paid place, a column in its currency (USD)
    says about what each has cost so far, as hermes usage estimates it.

    Example: hermes sandbox ls --json
    """
    found, problems = run(_everything(sandbox))
    costs, currency = _costs(problems)
    if json:
        print_json([_object(one, costs, currency) for one in found])
    elif not found:
        put("No sandboxes." if sandbox is None else f"No sandboxes on {sandbox}.")
    else:
        now = time.time()
        rows = [
            [
                one.record.name,
                one.record.backend,
                one.state,
                age(now - one.record.created),
                age(now - (one.record.last_used or one.record.created)),
                amount(costs[_who(one)]) if _who(one) in costs else "-",
                one.record.workspace or "-",
            ]
            for one in found
        ]
        heads = ["NAME", "PLACE", "STATE", "AGE", "IDLE", currency, "WORKSPACE"]
        if not any(_who(one) in costs for one in found):
            for row in (heads, *rows):
                del row[5]
        print(table(heads, rows, right=range(3, len(heads) - 1), path=True))
    for one in found:
        if one.why:
            say(f"{one.record.name}: {one.why}")
    for problem in problems:
        say(problem)
    return 0


async def _everything(sandbox: str | None) -> tuple[list[Seen], list[str]]:
    (known, problems), (more, silent) = await asyncio.gather(look(sandbox), strays(sandbox))
    return [*known, *more], [*problems, *silent]


def _who(one: Seen) -> tuple[str, str]:
    return one.record.backend, one.record.id


def _costs(problems: list[str]) -> tuple[Mapping[tuple[str, str], float | None], str]:
    """Return what sandboxes on paid places have come to, and the currency; add to the problems."""
    from hermes import usage

    try:
        changes = usage.read(problems)
        listed = usage.prices() if changes else None
    except HermesError as error:
        problems.append(str(error))
        return {}, ""
    return (usage.so_far(changes, listed), listed.currency) if listed is not None else ({}, "")


def _object(one: Seen, costs: Mapping[tuple[str, str], float | None], currency: str) -> dict[str, Any]:
    record, who = one.record, _who(one)
    cost = {"estimate": costs[who], "currency": currency} if who in costs else None
    return {
        "name": record.name,
        "backend": record.backend,
        "id": record.id,
        "state": one.state,
        "created": record.created,
        "last_used": record.last_used,
        "named": record.named,
        "workspace": record.workspace,
        "cost": cost,
        "why": one.why or None,
    }


@app.command()
def rm(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...", help="Names or IDs.", show_default=False, autocompletion=options.sandboxes
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Remove every sandbox.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --all: do not ask.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Lose changes nobody applied; forget those that cannot be removed."),
    ] = False,
    sandbox: options.Place = None,
    debug: options.Debug = False,
) -> int:
    """End and remove sandboxes.

    What runs in them is ended, and their own files go. A workspace on this machine is not touched. One that
    keeps changes to it, which nobody has applied or discarded, is removed with --force alone.
    One whose machine is gone for good, or does not answer, is only forgotten with --force.

    Example: hermes sandbox rm project-1f2e3d4c
    """
    if bool(names) == every:
        raise typer.BadParameter("give either names or --all", param_hint="NAME")
    if every:
        records = [one.record for one in run(seen(sandbox))]
        if not records:
            print("No sandboxes.")
            return 0
        if not yes and not run(confirmed(f"Remove {plural(len(records), 'sandbox', 'sandboxes')}?")):
            say("nothing was removed.")
            return 125
    else:
        records = [find_record(name, sandbox) for name in names or []]
    failed = 0
    for record in records:
        if not force:
            try:
                check_applied(record)
            except HermesError as error:
                report(error, debug=debug)
                failed = 125
                continue
        try:
            run(remove(record))
            put(f"{record.name}: removed")
        except HermesError as error:
            report(error, debug=debug)
            if force:
                put(f"{record.name}: forgotten; {run(forget(record))}")
                continue
            say("       To forget it, and leave there what there is: hermes sandbox rm --force")
            failed = 125
    return failed


@app.command()
def suspend(
    names: Names,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="End what runs there without asking.")] = False,
    sandbox: options.Place = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Stop sandboxes so that they cost little; their files stay.

    What runs there ends. The next command in one starts it again by itself.

    Example: hermes sandbox suspend project-1f2e3d4c
    """

    async def consent(jobs: int) -> bool:
        return yes or await confirmed(f"{plural(jobs, 'command runs', 'commands run')} there. End that?")

    def stop(record: SandboxRecord) -> tuple[str, bool]:
        return "stopped", run(_suspend(record, consent))

    return _each(names, sandbox, stop, "suspended", "was not running", json=json, debug=debug)


@app.command()
def resume(
    names: Names, sandbox: options.Place = None, json: options.Json = False, debug: options.Debug = False
) -> int:
    """Start sandboxes again that were suspended or have stopped.

    Not needed before a command, which does the same. One that is gone is never made anew by this.

    Example: hermes sandbox resume project-1f2e3d4c
    """

    def start(record: SandboxRecord) -> tuple[str, bool]:
        return "running", run(wake(record))

    return _each(names, sandbox, start, "resumed", "was running", json=json, debug=debug)


def _each(
    names: list[str],
    sandbox: str | None,
    act: Callable[[SandboxRecord], tuple[str, bool]],
    done: str,
    else_: str,
    *,
    json: bool,
    debug: bool,
) -> int:
    """Do something with each sandbox, say what became of it, and return the exit code of the last failure."""
    code, rows = 0, []
    for name in names:
        try:
            record = find_record(name, sandbox)
            state, changed = act(record)
        except HermesError as error:
            report(error, debug=debug)
            code = exit_code(error)
            continue
        rows.append({"name": record.name, "backend": record.backend, "state": state, "changed": changed})
        if not json:
            put(f"{record.name}: {done if changed else else_}")
    if json:
        print_json(rows)
    return code


@app.command()
def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. It never does.")] = False,
    sandbox: options.Place = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Remove what nobody uses any more.

    That is: sandboxes that were not used for lifetime.ttl; those without a name whose hermes has ended; those
    that are gone and have no files of their own; and whatever has no record.

    Example: hermes sandbox prune --dry-run
    """
    from ._records import prune_all

    done, failures = run(prune_all(sandbox, dry_run=dry_run))
    for error in failures:
        report(error, debug=debug)
    if json:
        print_json([{"name": name, "why": why, "removed": not dry_run} for name, why in done])
    elif not done:
        if not failures:
            print("Nothing to remove." if not dry_run else "Nothing that has a record.")
    else:
        verb = "would be removed" if dry_run else "removed"
        for name, why in done:
            put(f"{name}: {verb} ({why})")
    if dry_run and not json:
        say("what has no record is looked for only when it is to be removed.")
    return 125 if failures else 0


@app.command()
def enter(
    name: NameArgument,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND...]", help="Instead of a shell.", show_default=False),
    ] = None,
    ssh: Annotated[
        bool, typer.Option("--ssh", help="Print the provider's command for ssh instead. It is a secret.")
    ] = False,
    sandbox: options.Place = None,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> int:
    """Open a shell in a sandbox that runs.

    With --ssh, where the provider has that (daytona): a command that lets whoever has it in for an hour.

    Example: hermes sandbox enter project-1f2e3d4c
    """
    from ._relay import check_terminal
    from .shell import interact

    if ssh:
        print(clean(run(_ask_place(find_record(name, sandbox), lambda place: place.ssh_command()))))
        return 0
    check_terminal("hermes sandbox enter")
    chosen = chosen_for(find_record(name, sandbox))
    return run(interact(chosen, command, yes=yes, quiet=quiet, create=False))


@app.command()
def cp(
    source: Annotated[str, typer.Argument(metavar="SOURCE", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="TARGET", show_default=False)],
    sandbox: options.Place = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary.")] = False,
    debug: options.Debug = False,
) -> int:
    """Copy files into or out of a sandbox.

    One of the two is NAME:PATH, or :PATH for the sandbox of the current directory; PATH begins at its
    workspace. As with cp -r, a TARGET that is a directory gets the copy, any other is its name; SOURCE/ is
    the directory's content. A path here that holds a colon is written ./a:b.

    Example: hermes sandbox cp :build/out.tar .
    """
    far_source, far_target = _far(source), _far(target)
    if (far_source is None) == (far_target is None):
        raise typer.BadParameter(
            "one of SOURCE and TARGET is NAME:PATH, the other a path here", param_hint="SOURCE TARGET"
        )
    name, path = far_source or far_target or ("", "")
    chosen = chosen_for(find_record(name, sandbox)) if name else choose(sandbox)

    async def work() -> TransferStats:
        async with opened(chosen, create=False) as box:
            with progress(quiet=quiet) as show:
                if far_source is not None:
                    return await box.files.get(path or ".", target, on_progress=show, resume=True)
                return await box.files.put(source, path or ".", on_progress=show, resume=True)

    stats = run(work())
    if not quiet:
        say(summary(stats))
    return 0


def _far(text: str) -> tuple[str, str] | None:
    """Return the sandbox and the path that NAME:PATH names, None when it is a path on this machine."""
    name, colon, path = text.partition(":")
    return (name, path) if colon and "/" not in name and name not in (".", "..") else None


@app.command()
def forward(
    arguments: Annotated[
        list[str],
        typer.Argument(metavar="[NAME] PORT[:LOCAL]...", help="LOCAL: the port here.", show_default=False),
    ],
    link: Annotated[
        bool, typer.Option("--link", help="Print the provider's addresses instead. They are secrets.")
    ] = False,
    sandbox: options.Place = None,
    debug: options.Debug = False,
) -> int:
    """Make ports of a sandbox reachable here.

    Each PORT inside becomes one on 127.0.0.1 of this machine, a free one unless LOCAL says which. Lasts until
    Ctrl-C. Without NAME it is the sandbox of the current directory. With --link, where the provider has that
    (daytona): addresses on the internet, where a port answers to whoever has them for an hour.

    Example: hermes sandbox forward 8000 5432:15432
    """
    first, *rest = arguments
    if rest and not first.replace(":", "").isdigit():
        chosen = chosen_for(find_record(first, sandbox))
    else:
        chosen, rest = choose(sandbox), arguments
    ports = [_ports(text) for text in rest]
    if link:
        record = find_record(chosen.name or "", chosen.backend)
        for port, _ in ports:
            print(clean(run(_ask_place(record, functools.partial(_link, port)))))
        return 0
    try:
        return run(_forward(chosen, ports))
    except KeyboardInterrupt:
        return 0  # the way it is meant to end


async def _link(port: int, place: Backend) -> str:
    return await place.link(port)


async def _ask_place(record: SandboxRecord, work: Callable[[Backend], Awaitable[str]]) -> str:
    """Ask a sandbox's place something; the sandbox itself is left alone, and not woken.

    :raises SandboxGone: it does not run
    """
    place = place_of(record, load())
    try:
        state = await place.find(record.locator)
        if state != "running":
            raise SandboxGone(f"'{record.name}' does not run", reason=state, hint="A command wakes it.")
        return await work(place)
    finally:
        await place.let_go()


def _ports(text: str) -> tuple[int, int]:
    inside, colon, here = text.partition(":")
    numbers = [int(part) if part.isascii() and part.isdigit() else -1 for part in (inside, here or "0")]
    if not 0 < numbers[0] < 65536 or not 0 <= numbers[1] < 65536 or (colon and not here):
        raise typer.BadParameter(f"'{text}' is no PORT or PORT:LOCAL, each up to 65535", param_hint="PORT")
    return numbers[0], numbers[1]


async def _forward(chosen: Chosen, ports: list[tuple[int, int]]) -> int:
    async with opened(chosen, create=False) as box, contextlib.AsyncExitStack() as stack:
        for port, wanted in ports:
            local = await stack.enter_async_context(box.forward(port, local_port=wanted))
            print(clean(f"127.0.0.1:{local} -> {box.name}:{port}"), flush=True)
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        while not ended.is_set():
            channel = box._open_channel
            if channel is None or channel._error is not None:
                raise channel._error() if channel and channel._error else SandboxGone("the sandbox is gone")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), 0.5)
        return 128 + signal.SIGTERM
