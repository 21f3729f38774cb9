"""The questions of ``hermes setup``. They change nothing: what was answered is returned."""

from __future__ import annotations

import getpass
import shutil
import sys
import textwrap
from dataclasses import dataclass, field
from typing import Any

import typer

from hermes import survey
from hermes.backends import _catalog, canonical
from hermes.config import Config, _keys, _secrets
from hermes.errors import ConfigError

from ._place import LOCAL_MEANS
from ._report import clean

SITUATIONS = (
    ("docker", "I work on this machine (most people)"),
    ("daytona", "An agent is to live on a server for months"),
    ("modal", "GPUs, or heavy computing"),
    ("singularity", "A cluster: SLURM, no docker"),
    ("ssh", "Infrastructure: the work is on another machine"),
    ("vercel", "I am on Vercel already"),
    ("jail", "I work on this machine, and it has no docker"),
)
IMAGES = {"docker": "docker.image", "podman": "docker.image", "singularity": "singularity.image"}


@dataclass
class Plan:
    """Where commands are to run, and the settings and secrets that go with it, by their names."""

    place: str
    settings: dict[str, Any] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)


def ask(config: Config, found: list[survey.Found], given: Plan, image: str | None) -> Plan:
    """Ask what has to be known, and was not given by the command line.

    :param image: there is one: it is not asked for
    :raises typer.Abort: the user gave up
    """
    plan = Plan(given.place, dict(given.settings), dict(given.secrets))
    if not plan.place:
        tell("Where shall commands run? Ctrl-C at any time changes nothing.")
        tell("")
        plan.place = _choose(config, found)
    name, _, host = plan.place.partition(":")
    told = set(plan.settings)
    if host:
        told.add("ssh.host")
    if image:
        told.add(IMAGES.get(name, ""))
    if config.docker.dockerfile or config.docker.devcontainer:
        told.add("docker.image")  # there is one already, which is built
    for need in _catalog.NEEDS.get(name, ()):
        if need.key in told or (host and host in config.ssh.hosts):
            continue
        secret = _secrets.secret_name(need.key)
        if secret is not None:
            plan.secrets[secret] = _secret(need.question, secret)
        else:
            value = _setting(need, config)
            if value is not None:
                plan.settings[need.key] = value
    return plan


def tell(text: str) -> None:
    """Print a paragraph on stderr."""
    width = min(100, shutil.get_terminal_size().columns - 1)
    sys.stderr.write(textwrap.fill(clean(text), width, break_on_hyphens=False) + "\n" if text else "\n")
    sys.stderr.flush()


def _choose(config: Config, found: list[survey.Found]) -> str:
    by_name = {one.place: one for one in found}
    usable = [one.place for one in found if one.works]
    tell(f"Usable here now: {', '.join(usable) or 'nothing'}.")
    if config.sandbox:
        tell(f"Configured now: {config.sandbox}.")
    tell("")
    if typer.confirm("Does isolation matter: must commands be kept away from your files?", True, err=True):
        best = _situation()
        tell("")
        tell(f"Recommended: {best}. {_catalog.ABOUT[best].why}")
        default = best
        if not by_name[best].works:
            tell(_lack(by_name[best]))
            default = _instead(best, usable)
            if default != best:
                tell(f"{default} can be used now. {_catalog.ABOUT.get(default, _catalog.OTHER).why}")
    else:
        default = "local"
        tell("")
        tell("Without isolation that is local.")
    while True:
        place = canonical(typer.prompt("Place", default=default, err=True).strip())
        name = place.partition(":")[0]
        if name not in by_name:
            near = _keys.nearest(name, list(by_name))
            tell(f"There is no place '{name}'." + (f" Did you mean '{near}'?" if near else ""))
        elif name != "local" or _understood():
            return place


def _instead(best: str, usable: list[str]) -> str:
    """Return what to offer where the best place cannot be used now: itself, when the next questions help."""
    if any(not need.optional for need in _catalog.NEEDS.get(best, ())):
        tell("What it has to be told is asked for next.")
        return best
    isolated = ("container", "namespaces")
    about = {name: _catalog.ABOUT.get(name, _catalog.OTHER) for name in usable}
    return next((name for name in usable if about[name].isolation in isolated), best)


def _situation() -> str:
    tell("")
    tell("What is it like?")
    for number, (name, text) in enumerate(SITUATIONS, 1):
        tell(f"  {number}) {text}: {name}")
    choice: int = typer.prompt("Number", default=1, type=int, err=True)
    while not 1 <= choice <= len(SITUATIONS):
        choice = typer.prompt(f"1 to {len(SITUATIONS)}", default=1, type=int, err=True)
    return SITUATIONS[choice - 1][0]


def _lack(one: survey.Found) -> str:
    return f"But it cannot be used now: {one.missing}. {one.remedy}".rstrip()


def _understood() -> bool:
    tell(LOCAL_MEANS)
    return typer.confirm("Is that what you want?", False, err=True)


def _setting(need: _catalog.Need, config: Config) -> Any:
    now: Any = config
    for part in need.key.split("."):
        now = getattr(now, part)
    if now is None and need.key == "ssh.user":
        now = getpass.getuser()
    if now is None and need.optional:
        now = ""
    question = need.question + (" (Enter: the usual)" if now == "" else "")
    while True:
        text = str(
            typer.prompt(
                question,
                default=clean(now) if isinstance(now, str) else now,
                show_default=now != "",
                err=True,
            )
        ).strip()
        if not text:
            return None
        try:
            return _keys.value_of(need.key, text)
        except ConfigError as error:
            tell(error.message.removesuffix("; nothing was changed"))


def _secret(question: str, name: str) -> str:
    kept = name in _secrets.names()
    # The library's own prompt would show what is pasted before it has turned the echo off, and lose it.
    prompt = f"{question} ({'Enter keeps the one in .env' if kept else 'is not shown'}): "
    while True:
        try:
            text = getpass.getpass(prompt).strip()
        except EOFError:
            raise typer.Abort from None
        if text or kept:
            return text
