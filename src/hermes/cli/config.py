"""``hermes config``: settings are shown, explained, written and mended."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from hermes.config import home
from hermes.config._load import Sources, sources
from hermes.config._schema import NOT_SETTINGS
from hermes.errors import ConfigError, HermesError

from . import _options as options
from ._place import LOCAL_MEANS
from ._report import clean, put, say
from ._text import print_json, table

app = options.new_group("Read, write and check settings.", "hermes config set sandbox docker")


def _names(incomplete: str) -> list[str]:
    from hermes.config import _keys

    return [name for name in _keys.plain_names() if name.startswith(incomplete)]


Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        help="Such as sandbox or output.limit.",
        show_default=False,
        autocompletion=_names,
    ),
]


@app.command()
def show(
    everything: Annotated[bool, typer.Option("--all", help="Show what has its default, too.")] = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Show what is in force, and where it comes from.

    Example: hermes config show --all
    """
    from hermes.config import _secrets

    found = sources()
    rows = [
        {"key": key, "value": value, "from": _where(found, key)}
        for key, value in _flat(msgspec.to_builtins(found.settled())).items()
        if everything or key == "sandbox" or found.origin(key) != "default"
    ]
    kept = _secrets.names()
    if json:
        print_json({"settings": [row | {"value": _safe(row["value"])} for row in rows], "env": sorted(kept)})
        return 0
    lines = [[row["key"], _shown(row["value"]), row["from"]] for row in rows]
    print(table(["KEY", "VALUE", "FROM"], lines, path=True))
    if kept:
        put(f"\n{home() / '.env'} sets, and shows to nobody: {', '.join(sorted(kept))}")
    return 0


@app.command()
def get(
    key: Annotated[
        str | None,
        typer.Argument(metavar="KEY", help="None shows all.", show_default=False, autocompletion=_names),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say where the value comes from.")] = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Show a setting, or all of them.

    Of a secret only whether it is set.

    Example: hermes config get sandbox --explain
    """
    if key is not None and _is_secret(key):
        return _get_secret(key, explain=explain, json=json)
    found = sources()
    wanted = _select(_flat(msgspec.to_builtins(found.settled())), key)
    if json:
        print_json(_safe(wanted.get(key or "", wanted)))
        return 0
    for name, value in wanted.items():
        text = _shown(value)
        if explain:
            text += f"   ({_where(found, name)})"
        put(text if name == key else f"{name}: {text}")
    return 0


def _is_secret(key: str) -> bool:
    from hermes.config import _secrets

    if key == _secrets.MODEL_KEY or key in _secrets.KNOWN or key in _secrets.declared():
        return True
    return key.isupper() and _secrets.secret_name(key) is not None


def _in_keyring(name: str) -> bool:
    """Return whether a secret is one whose values the keyring has."""
    from hermes.config import load

    try:
        settings = load().credentials
    except ConfigError:
        return False
    return settings.store == "keyring" and name in settings.env


def _get_secret(key: str, *, explain: bool, json: bool) -> int:
    import os

    from hermes.config import _secrets

    name = _secrets.secret_name(key) or key
    where = "the environment" if os.environ.get(name) else None
    if where is None and name in _secrets.names():
        where = str(home() / ".env")
    if where is None and _in_keyring(name):
        from hermes.credentials._keyring import stored

        where = "the keyring" if stored([name]) else None
    if json:
        print_json({"set": where is not None, "from": where})
    else:
        put(("set" if where else "not set") + (f"   ({where})" if explain and where else ""))
    return 0


def _safe(value: Any) -> Any:
    """Return a value without what looks like a secret in it."""
    from hermes.approval.redact import redact

    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list | tuple):
        return [_safe(item) for item in value]
    return {name: _safe(item) for name, item in value.items()} if isinstance(value, dict) else value


def _shown(value: Any) -> str:
    value = _safe(value) if isinstance(value, str | list | tuple | dict) else value
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(str, value))}]"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else f"{value}"


def _flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        elif key not in NOT_SETTINGS:
            found[prefix + key] = f"{value:.15g}" if isinstance(value, float) else value
    return found


def _select(settings: dict[str, Any], key: str | None) -> dict[str, Any]:
    if key is None:
        return settings
    wanted = {name: value for name, value in settings.items() if name == key or name.startswith(key + ".")}
    if not wanted:
        from hermes.config import _keys

        near = _keys.nearest(key, list(settings))
        raise ConfigError(
            f"there is no setting '{key}'",
            hint=f"Did you mean '{near}'?" if near else "'hermes config get' shows all.",
        )
    return wanted


def _where(found: Sources, key: str) -> str:
    """Return where a value comes from, and for the place what ``auto`` stands for."""
    where = found.origin(key)
    if key == "sandbox" and found.settled().sandbox in (None, "auto"):
        from hermes.state import Store

        try:
            pinned = Store().pinned()
        except HermesError as error:
            return f"{where}; what auto stands for cannot be told: {error.message}"
        where += f"; auto stands for {pinned}" if pinned else "; auto is settled at the first use"
    return where


@app.command("set")
def set_(
    key: Key,
    value: Annotated[
        str | None,
        typer.Argument(metavar="VALUE", help="none removes the setting; lists are YAML.", show_default=False),
    ] = None,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read the value from standard input.")] = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> int:
    """Write a setting to config.yaml, or a secret to .env.

    Everything else in the file stays as it is. A secret is asked for, or read from standard input: on the
    command line every user could read it.

    Example: hermes config set docker.mounts '[/data:/data:ro]'
    """
    from hermes.config import _file, _keys, _secrets

    key, value = _parted(key, value)
    name = _secrets.secret_name(key)
    if name is not None:
        return _set_secret(name, value, quiet=quiet)
    text = _from_stdin() if stdin else value
    if text is None:
        raise ConfigError(
            f"{key}: no value was given; nothing was changed", hint=f"hermes config set {key} VALUE"
        )
    keys, _ = _split(key)
    _check_harmless(key, text)
    settled = _keys.value_of(key, text)
    if settled is None and not _is_set(keys):
        if not quiet:
            say(f"{key} is not in {_file.path()}")
        return 0
    _check_sense(keys, settled)
    path = _file.change([(keys, settled)])
    if not quiet:
        shown = _shown(settled) if not isinstance(settled, dict) else "set"
        say(f"{key} is now {shown}, in {path}" if settled is not None else f"{key} was removed from {path}")
        _warn(key, settled)
    return 0


def _parted(key: str, value: str | None) -> tuple[str, str | None]:
    """Return name and value of what may be written as one word; of what is likely a secret, its variable."""
    from hermes.config import _keys, _secrets

    name, given, text = key.partition("=")
    if not given:
        if value not in (None, "-") and (variable := _secrets.like_a_secret(key)) and not _keys.known(key):
            return variable, value
        return key, value
    variable = _secrets.like_a_secret(name)
    if variable is not None or _holds_secret(text):
        return variable or "A_TOKEN", text
    raise ConfigError(
        "a name and its value are two words; nothing was changed", hint=f"hermes config set {name[:80]} VALUE"
    )


def _holds_secret(text: str) -> bool:
    from hermes.credentials.shapes import known, userinfo

    return known().search(text) is not None or userinfo().search(text) is not None


def _check_harmless(key: str, text: str) -> None:
    """Refuse a value that is, or holds, what looks like a secret."""
    if _holds_secret(text):
        raise ConfigError(
            f"the value for {key} has what looks like a secret, for which config.yaml is no place; nothing "
            "was written",
            hint="Keep it in .env, 'hermes config set A_TOKEN' asks for it, and let sandboxes have it: "
            "hermes config set credentials.env '[A_TOKEN]'. If it was the real one, change it: your shell's "
            "history has it.",
        )


def _split(key: str) -> tuple[list[str], Any]:
    from hermes.config import _keys, _secrets

    try:
        return _keys.split(key)
    except ConfigError as error:
        variable = _secrets.like_a_secret(key)
        if variable is not None:
            error.hint = f"A secret goes to .env: hermes config set {variable}"
        raise


def _is_set(keys: list[str]) -> bool:
    from hermes.config import _file

    data: Any = _file.data()
    for part in keys:
        data = data.get(part) if isinstance(data, dict) else None
    return data is not None


def _check_sense(keys: list[str], value: Any) -> None:
    """Refuse a value that would be refused wherever it is used, whatever else is set."""
    from hermes import sense
    from hermes.config._load import understood

    for part in reversed(keys):
        value = {part: value}
    values, _ = understood(value, lambda at: "")
    for error in sense.wrong(values):
        error.message += "; nothing was changed"
        raise error


def _warn(key: str, value: Any) -> None:
    """Say what wins over the new value, what keeps the place from being used, and what local means."""
    section = key.partition(".")[0]
    try:
        found_in = sources()
    except ConfigError as error:  # elsewhere than in the file, which was checked
        say(f"warning: {error.message}.")
        return
    config, origin = found_in.settled(), found_in.origin(key)
    if value is not None and origin != "default" and not origin.startswith(str(home())):
        say(f"warning: {origin} wins over it.")
    place = config.sandbox
    if place in (None, "auto") or section not in ("sandbox", str(place).partition(":")[0]):
        from hermes import sense

        for one in sense.wrong(found_in.merged()):
            if one.context["key"].partition(".")[0] == section:
                say(f"warning: it does not go together with what else is set: {one.message}.")
        return
    assert place is not None
    if section == "sandbox" and place == "local":
        say(LOCAL_MEANS)
    from hermes import survey

    from ._run import run

    found = run(survey.look(place, config, patience=5.0))
    if found.works is False:
        say(f"warning: {place} cannot be used now: {found.missing}.")
        if found.remedy:
            say(f"         {found.remedy}")


def _from_stdin() -> str:
    import sys

    text = sys.stdin.read(1 << 20)
    return text[:-1] if text.endswith("\n") else text


def _set_secret(name: str, value: str | None, *, quiet: bool) -> int:
    import getpass
    import sys

    from hermes.config import _secrets

    if value not in (None, "-"):
        raise ConfigError(
            f"{name} is a secret, and the command line is no place for one: other users and your shell's "
            "history have it now; nothing was written",
            hint=f"Run 'hermes config set {name}' to be asked, or give it on standard input. "
            "If that was the real one, change it.",
        )
    text = getpass.getpass(f"{name}: ") if sys.stdin.isatty() else _from_stdin()
    if _in_keyring(name):
        from hermes.credentials._keyring import keep

        keep(name, text)
        path = "the keyring"
    else:
        file, told = _secrets.write(name, text)
        path = str(file)
        if told:
            say(f"warning: {told}.")
    if not quiet:
        say(f"{name} is set, in {path}")
        known = _secrets.declared()
        if name not in (*known, *_secrets.own()):
            every = ", ".join([*known, name])
            say(f"no sandbox has it; this declares it: hermes config set credentials.env '[{every}]'")
    return 0


@app.command()
def unset(key: Key, quiet: options.Quiet = False, debug: options.Debug = False) -> int:
    """Remove a setting from config.yaml, or a secret from .env.

    Example: hermes config unset docker.image
    """
    from hermes.config import _file, _secrets

    name = _secrets.secret_name(key)
    told = ""
    if name is not None:
        there, path = name in _secrets.names(), str(home() / ".env")
        if there:
            _, told = _secrets.write(name, None)
        elif _in_keyring(name):
            from hermes.credentials._keyring import keep

            keep(name, None)
            there, path = True, "the keyring"
    else:
        keys, _ = _split(key)
        there = _is_set(keys)
        path = str(_file.change([(keys, None)]) if there else _file.path())
    if told:
        say(f"warning: {told}.")
    if not quiet:
        say(f"{name or key} was removed from {path}" if there else f"{name or key} is not in {path}")
    return 0


@app.command()
def edit(debug: options.Debug = False) -> int:
    """Change config.yaml in an editor, VISUAL or EDITOR.

    It is replaced when what you saved is right.

    Example: EDITOR=nano hermes config edit
    """
    from ._config_file import edit as work

    return work()


@app.command()
def check(json: options.Json = False, debug: options.Debug = False) -> int:
    """Say everything that is wrong with the configuration.

    The exit code is 125 then.

    Example: hermes config check
    """
    from ._config_file import check as work

    return work(json=json)


@app.command()
def restore(debug: options.Debug = False) -> int:
    """Put back config.yaml as it was when it was last right.

    What is there now is kept beside it.

    Example: hermes config restore
    """
    from ._config_file import restore as work

    return work()


@app.command()
def migrate(
    source: Annotated[
        str | None, typer.Option("--from", metavar="FILE", help="Its config.yaml. Default: ~/.hermes.")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Write it; a copy of the file is kept.")] = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Take over the settings of hermes-agent.

    Without --apply it only shows what would become of each. Its own settings stay in the file; what is set
    here already stays too.

    Example: hermes config migrate --apply
    """
    from ._migrate import migrate as work

    return work(source, apply=apply, json=json)


@app.command()
def trust(
    yes: options.Yes = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take it back.")] = False,
    debug: options.Debug = False,
) -> int:
    """Let the .hermes.yaml of this project count in full.

    It holds for the file as it is now. One that changes has to be trusted again.

    Example: hermes config trust
    """
    from ._config_file import trust as work

    return work(yes=yes, revoke=revoke)


@app.command()
def path(json: options.Json = False, debug: options.Debug = False) -> int:
    """Print where the files are.

    Example: hermes config path
    """
    from hermes.config import _json_schema

    found = {
        "config": str(home() / "config.yaml"),
        "env": str(home() / ".env"),
        "state": str(home() / "state"),
        "schema": str(_json_schema.FILE),
    }
    if json:
        print_json(found)
    else:
        put("\n".join(f"{name:6}  {clean(where)}" for name, where in found.items()))
    return 0


@app.command()
def schema(debug: options.Debug = False) -> int:
    """Print the JSON Schema of config.yaml.

    Example: hermes config schema >hermes.schema.json
    """
    from hermes.config import _json_schema

    print(_json_schema.FILE.read_text("utf-8"), end="")
    return 0
