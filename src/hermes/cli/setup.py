"""``hermes setup``: choose a place, get it ready, and prove that it works."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated, Any

import typer

from hermes import auto, backends, survey
from hermes.config import load
from hermes.errors import ConfigError, HermesError
from hermes.state import Store

from . import _options as options
from ._place import LOCAL_MEANS
from ._progress import watch
from ._report import put, report, say
from ._run import run
from ._status import status_line
from ._text import print_json
from ._wizard import IMAGES, Plan, ask, tell

app = options.new_app()


@app.command()
def setup(
    sandbox: options.Place = None,
    host: Annotated[str | None, typer.Option("--host", help="ssh: the machine to log in on.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="ssh: as whom.")] = None,
    port: Annotated[int | None, typer.Option("--port", help="ssh: its port.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="ssh: the private key's file.")] = None,
    image: options.Image = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Pull or build the image again although it is here.")
    ] = False,
    non_interactive: Annotated[
        bool, typer.Option("--non-interactive", help="Ask nothing; so without a terminal, too.")
    ] = False,
    settings: options.Settings = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> int:
    """Choose a place, get it ready, and prove that it works.

    On a terminal it asks. Otherwise it is told by --sandbox, else by the configuration; with 'auto' it takes
    the best place that there is, and auto stands for that from then on. At the end, when everything worked,
    the place that was named and the settings that were given are written to config.yaml.

    Example: hermes setup --sandbox ssh --host build.example --user me
    """
    talks = not (non_interactive or json or quiet) and sys.stdin.isatty() and sys.stderr.isatty()
    flags = {"ssh.host": host, "ssh.user": user, "ssh.port": port, "ssh.key": key}
    given = Plan(sandbox or "", {name: value for name, value in flags.items() if value is not None})
    if given.settings and backends.canonical(given.place).partition(":")[0] != "ssh":
        raise ConfigError("--host, --user, --port and --key are for --sandbox ssh; nothing was changed")
    given.settings |= options.overrides(settings)
    if not talks:
        return _told(given, image, renew=renew, json=json, quiet=quiet)
    try:
        return _asked(given, image, renew=renew, debug=debug)
    except (typer.Abort, KeyboardInterrupt):
        say("")
        say("nothing was changed.")
        return 130


def _told(given: Plan, image: str | None, *, renew: bool, json: bool, quiet: bool) -> int:
    config = load(given.settings)
    name = given.place or config.sandbox or "auto"
    why = ""
    if name == "auto":
        name, why = run(auto.best(config))
    plan = Plan(name, _with_image(given.settings, name, image), given.secrets)
    ready, proof, pins = run(_ready(plan, renew=renew, quiet=quiet))
    if why:
        Store().pin(name, why)
    _write(Plan(given.place, plan.settings | pins))
    if json:
        import msgspec

        print_json({"place": name, "ready": ready, "proof": msgspec.to_builtins(proof)})
        return 0
    put(f"{name}: {ready}")
    put(f"{name}: {_where(proof)}")
    if why:
        say(f"auto stands for {name} from now on: {why}.")
    if given.place and not quiet:
        say(f"sandbox is now {given.place}.")
        _overridden(given.place)
        if name == "local":
            say(LOCAL_MEANS)
    return 0


def _asked(given: Plan, image: str | None, *, renew: bool, debug: bool) -> int:
    config = load(given.settings)
    found: list[survey.Found] = []
    while True:
        if not given.place and not found:
            with status_line(quiet=False) as show:
                show("looking at what is here")
                found = run(survey.look_at_all(config, patience=5.0))
        plan = ask(config, found, given, image)
        plan.settings = _with_image(plan.settings, plan.place, image)
        try:
            ready, proof, pins = run(_ready(plan, renew=renew, quiet=False))
            break
        except HermesError as error:
            report(error, debug=debug)
            if not typer.confirm("Nothing was changed. Try again?", True, err=True):
                return 125
            given = Plan("", given.settings)
    plan.settings |= pins
    path = _write(plan)
    tell("")
    tell(f"{plan.place}: {ready}")
    tell(f"Proof: {_where(proof)}")
    tell(f"This machine is {os.uname().nodename}.")
    say(f"sandbox is now {plan.place}, in {path}")
    _overridden(plan.place)
    say("try: hermes exec 'uname -a'")
    return 0


def _overridden(place: str) -> None:
    now = load().sandbox
    if now != place:
        say(f"warning: HERMES_SANDBOX, or this project's .hermes.yaml, says {now}, which wins over it.")


def _with_image(settings: dict[str, Any], place: str, image: str | None) -> dict[str, Any]:
    if image is None:
        return settings
    key = IMAGES.get(backends.canonical(place).partition(":")[0])
    if key is None:
        raise ConfigError(f"{place} takes no image; nothing was changed")
    return {**settings, key: image}


async def _ready(plan: Plan, *, renew: bool, quiet: bool) -> tuple[str, survey.Proof, dict[str, Any]]:
    """Get a place ready and run a command there; nothing is written.

    Returns what is ready, what the command told, and the settings that pin what was got.
    """
    os.environ.update({name: value for name, value in plan.secrets.items() if value})
    config = await asyncio.to_thread(load, plan.settings)
    place = survey.place(plan.place, config)
    await place.check(config)
    with watch(quiet=quiet) as (shown, watched):
        place.progress = shown.line
        place.measure = shown.measure if watched else None
        ready = await place.prepare(renew=renew)
    if pins := await place.pin():
        config = await asyncio.to_thread(load, plan.settings | pins)
    with status_line(quiet=quiet) as show:
        if sys.stderr.isatty():
            show(f"{plan.place}: running a command there")
        proof = await survey.prove(plan.place, config, progress=show)
    return ready, proof, pins


def _write(plan: Plan) -> str:
    from hermes.config import _file, _keys, _secrets

    for name, value in plan.secrets.items():
        if value:
            _, told = _secrets.write(name, value)
            if told:
                say(f"warning: {told}.")
    changes: list[tuple[list[str], Any]] = [(["sandbox"], plan.place)] if plan.place else []
    changes += [(_keys.split(key)[0], value) for key, value in plan.settings.items()]
    return str(_file.change(changes)) if changes else ""


def _where(proof: survey.Proof) -> str:
    took = f"{proof.seconds:.1f} s with the start"
    return f"a command ran on {proof.machine} ({proof.system}) in {proof.cwd}, {took}"
