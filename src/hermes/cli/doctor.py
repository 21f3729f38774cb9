"""``hermes doctor``: what works on this machine, and how the rest can be mended."""

from __future__ import annotations

import asyncio
import shutil
import sys
import textwrap
from typing import Any

import msgspec
import typer

from hermes import backends, survey
from hermes.config import Config, load
from hermes.errors import HermesError

from . import _options as options
from ._checks import SKEW, Check, checks
from ._report import FAILED, clean
from ._run import run
from ._text import print_json

PATIENCE = 10.0  # seconds for the place that was asked for: to import an SDK may take four

app = options.new_app()


@app.command()
def doctor(
    sandbox: options.Place = None,
    deep: bool = typer.Option(False, "--deep", help="Really start each place, and run a command there."),
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Say what works here, and how to mend the rest.

    Nothing is started without --deep. The exit code is 125 when the place that is asked for, or configured,
    does not work. With --sandbox only that one is looked at.

    Example: hermes doctor --sandbox docker --deep
    """
    config, pinned, broken = Config(), None, False
    try:
        config = load()
    except HermesError:
        if sandbox:
            raise
        broken = True  # what is wrong is one of the checks
    try:
        pinned = _auto()
    except HermesError:
        broken = not sandbox
    wanted = backends.canonical(sandbox or config.sandbox or "auto")
    if wanted == "auto":
        wanted = pinned or "auto"
    names = [wanted] if sandbox and wanted != "auto" else None
    places, machine = run(_examine(names, config, wanted, deep=deep))
    failed = broken or any(one.works is False for one in places if one.place == wanted)
    failed = failed or any(check.name in ("home", "state") and check.level == "error" for check in machine)
    if json:
        found: dict[str, Any] = {"ok": not failed, "configured": wanted, "places": places, "checks": machine}
        print_json(msgspec.to_builtins(found))
    else:
        _show(places, machine)
    return FAILED if failed else 0


def _auto() -> str | None:
    from hermes.state import Store

    return Store().pinned()


async def _examine(
    names: list[str] | None, config: Config, wanted: str, *, deep: bool
) -> tuple[list[survey.Found], list[Check]]:
    if names is not None:
        return await survey.look_at_all(config, names, patience=PATIENCE, deep=deep), []
    everywhere = await asyncio.to_thread(survey.places)
    if wanted not in everywhere and wanted != "auto":
        everywhere.append(wanted)  # BACKEND:HOST, or one that does not exist
    machine, places = await asyncio.gather(
        asyncio.to_thread(checks), survey.look_at_all(config, everywhere, deep=deep)
    )
    for one in places:
        if one.place == wanted and one.works is False:
            said = f"the configured place, {wanted}, does not work: {one.missing}"
            machine.insert(0, Check(name="default", level="error", message=said, remedy="hermes setup"))
        if one.proof is not None and abs(one.proof.clock) > SKEW:
            said = f"the clock of {one.place} differs from ours by {one.proof.clock:+.0f} s"
            machine.append(Check(name="clock", level="warning", message=said, remedy="timedatectl status"))
    return places, machine


def _show(places: list[survey.Found], machine: list[Check]) -> None:
    known = survey.places() if any(one.works is False for one in places) else []  # reads much: once
    for one in places:
        print(clean(f"{one.place}: {_state(one)}"))
        lines = [*one.facts, *([one.missing] if one.missing else [])]
        if one.proof is not None:
            proof = one.proof
            lines.append(
                f"a command ran: {proof.system} on {proof.machine}, {proof.seconds:.1f} s with the start"
            )
        if one.remedy:
            lines.append(one.remedy)
        for line in lines:
            print(_folded(line, "  "))
        if one.works is False and one.place.partition(":")[0] in known:
            print(f"    hermes setup --sandbox {one.place}")
    if machine:
        print()
    for check in machine:
        mark = "" if check.level == "ok" else f"{check.level}: "
        print(_folded(f"{check.name}: {mark}{check.message}", ""))
        if check.remedy:
            print(f"    {clean(check.remedy)}")


def _state(one: survey.Found) -> str:
    return {True: "works", False: "does not work here", None: "does not answer"}[one.works]


def _folded(text: str, indent: str) -> str:
    width = shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else 0
    if width < 20:
        return indent + clean(text)
    return textwrap.fill(
        clean(text), width, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False
    )
