"""``hermes config``: read a setting, say where it comes from, and write one."""

from __future__ import annotations

import os
from typing import Annotated, Any

import msgspec
import typer

from hermes.config import home, load
from hermes.errors import ConfigError

from . import _options as options
from ._place import LOCAL_MEANS
from ._report import say
from ._text import print_json

app = options.new_group("Read and write settings in config.yaml.")

Key = Annotated[
    str, typer.Argument(metavar="KEY", help="Such as sandbox or output.limit.", show_default=False)
]


@app.command()
def get(
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="None shows all.", show_default=False)
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say where the value comes from.")] = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Show a setting, or all of them."""
    settings = _flat(msgspec.to_builtins(load()))
    wanted = _select(settings, key)
    if json:
        print_json(wanted.get(key or "", wanted))
        return 0
    for name, value in wanted.items():
        text = _shown(value)
        if explain:
            text += f"   ({_origin(name)})"
        print(text if name == key else f"{name}: {text}")
    return 0


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(str, value))}]"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else f"{value}"


def _flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        elif key != "foreign":
            found[prefix + key] = f"{value:g}" if isinstance(value, float) else value
    return found


def _select(settings: dict[str, Any], key: str | None) -> dict[str, Any]:
    if key is None:
        return settings
    wanted = {name: value for name, value in settings.items() if name == key or name.startswith(key + ".")}
    if not wanted:
        import difflib

        near = difflib.get_close_matches(key, settings, n=1)
        raise ConfigError(
            f"there is no setting '{key}'",
            hint=f"Did you mean '{near[0]}'?" if near else "'hermes config get' shows all.",
        )
    return wanted


def _origin(key: str) -> str:
    """Return where a value comes from, and for the place what ``auto`` stands for."""
    from hermes.config._load import ENVIRONMENT
    from hermes.config._source import read_yaml

    where = "default"
    path = home() / "config.yaml"
    _, lines = read_yaml(path)
    line = lines.get(tuple(key.split(".")))
    if line is not None:
        where = f"{path}:{line}"
    for name, target in ENVIRONMENT.items():
        if target == key and os.environ.get(name):
            where = f"environment variable {name}"
    if key == "sandbox" and load().sandbox in (None, "auto"):
        from hermes.state import Store

        pinned = Store().pinned()
        where += f"; auto stands for {pinned}" if pinned else "; auto is settled at the first use"
    return where


@app.command("set")
def set_(
    key: Key,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="none removes the setting.", show_default=False)
    ],
    debug: options.Debug = False,
) -> int:
    """Write a setting to config.yaml.

    Comments and everything else in the file stay as they are.
    """
    from ._edit import check, write

    settled = check(key, value)
    if key == "sandbox" and value not in ("auto", "none"):
        from hermes import backends

        backends.load(value.partition(":")[0])
    path = write(key, settled)
    say(f"{key} is now {value}, in {path}" if settled is not None else f"{key} was removed from {path}")
    if key == "sandbox" and value == "local":
        say(LOCAL_MEANS)
    return 0
