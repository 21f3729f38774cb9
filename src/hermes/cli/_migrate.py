"""``hermes config migrate``: shown first, then written beside what is there."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

from hermes.config import _file, _migrate, _secrets, home
from hermes.config._source import read_bytes, read_yaml
from hermes.errors import ConfigError

from ._report import clean, put, say
from ._text import print_json

SUDO = "SUDO_PASSWORD"


def migrate(source: str | None, *, apply: bool, json: bool) -> int:
    """Show what becomes of hermes-agent's settings; with *apply* write what has a meaning here."""
    file = Path(os.path.expanduser(source)) if source else _theirs()
    if source and read_bytes(file) is None:
        raise ConfigError(f"there is no {file}; nothing was changed")
    env = _secrets.read(file.parent / ".env")
    steps = _migrate.plan(read_yaml(file).data, {**env, **os.environ})
    ours = _file.data()
    todo = [step for step in steps if step.ours and _value(ours, step.ours) is None]
    done = [step for step in steps if step.ours and step not in todo]
    left = [step for step in steps if not step.ours]
    sudo = env.get(SUDO) if "HERMES_SUDO_PASSWORD" not in _secrets.names() else None
    strange = _undeclared(file.parent, steps)
    if json:
        kept = _write(todo, sudo) if apply else None
        print_json(
            {
                "from": str(file),
                "applied": apply,
                "backup": kept,
                "settings": {step.ours: step.value for step in todo},
                "already_set": [step.ours for step in done],
                "left": {step.theirs: step.why for step in left},
                "undeclared": strange,
            }
        )
        return 0
    _show(file, todo, done, left, sudo is not None)
    for name in strange:
        _line(f"{name} looks like a credential, and no sandbox has it: see credentials.files")
    if not todo and sudo is None:
        say("there is nothing to take over.")
    elif apply:
        kept = _write(todo, sudo)
        say(f"{_file.path()} is changed." + (f" As it was, it is kept in {kept}." if kept else ""))
    else:
        say("nothing was changed: this was a rehearsal. 'hermes config migrate --apply' does it.")
    return 0


def _undeclared(folder: Path, steps: list[_migrate.Step]) -> list[str]:
    """Return what looks like a credential beside their file, and is not declared here or by them."""
    from hermes.config import Credentials, load
    from hermes.credentials._declared import undeclared

    try:
        settings = load().credentials
    except ConfigError:  # which is not what is asked about
        settings = Credentials()

    known = {one["path"] for step in steps if step.ours == "credentials.files" for one in step.value}
    return [name for name in undeclared(settings, folder) if name not in known]


def _theirs() -> Path:
    """Return the file that holds their settings: ours where it is shared, else the one in its usual place."""
    shared, usual = _file.path(), Path("~/.hermes/config.yaml").expanduser()
    if shared == usual or "terminal" in _file.data() or not usual.is_file():
        return shared
    return usual


def _value(data: dict[str, Any], key: str) -> Any:
    found: Any = data
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _show(
    file: Path, todo: list[_migrate.Step], done: list[_migrate.Step], left: list[_migrate.Step], sudo: bool
) -> None:
    put(f"From {file}:")
    from hermes.approval.redact import redact
    from hermes.credentials.shapes import known

    for step in todo:
        value = step.value if isinstance(step.value, str) else str(step.value)
        _line(f"{step.theirs}: becomes {step.ours}: {redact(value)}")
    if sudo:
        _line(f"{SUDO} in .env: becomes HERMES_SUDO_PASSWORD")
    for step in done:
        _line(f"{step.theirs}: {step.ours} is set already, and stays")
    for step in left:
        _line(f"{step.theirs}: stays behind: {known().sub('[secret]', step.why)}")


def _line(text: str) -> None:
    width = shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else 0
    text = clean(text)
    wrapped = (
        textwrap.fill(text, width, initial_indent="  ", subsequent_indent="      ") if width > 20 else ""
    )
    print(wrapped or f"  {text}")


def _write(todo: list[_migrate.Step], sudo: str | None) -> str | None:
    """Write settings and password; return where the file is kept as it was."""
    kept: Path | None = None
    with _file.locked():
        before = read_bytes(_file.path())
        if before is not None and todo:
            name = f"config.yaml.before-migrate-{time.strftime('%Y%m%d-%H%M%S')}"
            kept = _file.free_name(home() / name)
            _file.replace(kept, before, private=True)
    _file.change([(step.ours.split("."), step.value) for step in todo])
    if sudo is not None:
        _, told = _secrets.write("HERMES_SUDO_PASSWORD", sudo)
        if told:
            say(f"warning: {told}.")
    return str(kept) if kept is not None else None
