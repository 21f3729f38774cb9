"""What ``hermes config`` does with the file as a whole: edit, check, restore."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hermes.config import _file, home, make_private
from hermes.config._load import Sources, problems, sources
from hermes.config._source import decoded, parse, read_bytes
from hermes.errors import ConfigError, HermesError

from ._report import FAILED, clean, put, say
from ._text import print_json

EDITORS = ("nano", "vi")


def edit() -> int:
    """Let the user's editor change a copy, and take that when it is right."""
    where = _file.path()
    data = read_bytes(where)
    if data is None:
        data = b""
    draft = _draft(data)
    try:
        while True:
            _call_editor(draft)
            text = draft.read_bytes()
            if text == data:
                say("nothing was changed.")
                break
            wrong = _wrong(draft)
            if not wrong:
                _take(where, data, decoded(draft, text))
                say(f"{where} is changed.")
                break
            for error in wrong:
                say(f"error: {error.message}")
                if error.hint and "hermes config" not in error.hint:
                    say(f"       {error.hint}")
            if not _confirmed("Edit it again?", default=True):
                raise ConfigError(f"{where} is as it was: what was written is not right")
    except HermesError as error:
        if draft.exists() and draft.read_bytes() != data:
            error.hint = f"What was written is kept in {draft}."
        else:
            draft.unlink(missing_ok=True)
        raise
    draft.unlink(missing_ok=True)
    return 0


def _draft(data: bytes) -> Path:
    state = home() / "state"
    try:
        make_private(state)
        fd, name = tempfile.mkstemp(dir=state, prefix="config-", suffix=".yaml")
    except OSError as error:
        raise ConfigError(f"{state} cannot be written: {error.strerror}; nothing was changed") from error
    with open(fd, "wb") as file:
        file.write(data)
    return Path(name)


def _call_editor(draft: Path) -> None:
    import shutil

    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    program = named or next((one for one in EDITORS if shutil.which(one)), "")
    if not program:
        raise ConfigError("there is no editor; nothing was changed", hint="Name one in EDITOR.")
    try:
        code = subprocess.run([*shlex.split(program), str(draft)], check=False).returncode
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the editor '{program}' cannot be started: {error}; nothing was changed",
            hint="Name another one in EDITOR.",
        ) from error
    if code:
        raise ConfigError(f"the editor ended with exit code {code}; nothing was changed")


def _wrong(draft: Path) -> list[ConfigError]:
    try:
        data, lines = parse(draft, decoded(draft, draft.read_bytes()))
    except ConfigError as error:
        return [error]
    return problems(data, lambda at: f"line {lines[at]}" if at in lines else "the file")


def _confirmed(question: str, *, default: bool = False) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"{question} [{'Y/n' if default else 'y/N'}] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    return bool(answer) and (answer.strip().lower() or ("y" if default else "n")) in ("y", "yes")


def _take(where: Path, before: bytes, text: str) -> None:
    def unchanged(now: str) -> str:
        if now != before.decode("utf-8-sig", "surrogateescape"):
            raise ConfigError(f"{where} was changed by somebody else meanwhile; it is as they left it")
        return text

    _file.save(unchanged, broken=True)


def check(*, json: bool) -> int:
    """Print everything that is wrong with the files and the environment."""
    errors, warnings = _checked()
    if json:
        print_json({"ok": not errors, "errors": errors, "warnings": warnings})
    else:
        for one in errors:
            put(f"error: {one['message']}" + (f"\n       {one['hint']}" if one["hint"] else ""))
        for text in warnings:
            put(f"warning: {text}")
        if not errors:
            put(f"{where} is right." if (where := _file.path()).exists() else f"{where} does not exist.")
    return FAILED if errors else 0


def _checked() -> tuple[list[dict[str, Any]], list[str]]:
    where = _file.path()
    errors: list[HermesError] = []
    warnings: list[str] = []
    try:
        data = read_bytes(where)
        parsed, lines = parse(where, decoded(where, data)) if data is not None else ({}, {})
        errors += problems(parsed, lambda at: f"{where}:{lines[at]}" if at in lines else str(where))
        if not errors:
            found = sources()
            errors += _together(found)
            if found.foreign:
                warnings.append(
                    f"these are hermes-agent's and do nothing here: {', '.join(found.foreign)}. "
                    "'hermes config migrate' takes over what it can."
                )
            if found.untrusted:
                warnings.append(
                    f"{', '.join(found.untrusted)} of .hermes.yaml do not count until you trust it: "
                    "'hermes config trust'."
                )
    except ConfigError as error:
        errors.append(error)
    warnings += _loose()
    return [{"message": one.message, "hint": one.hint} for one in errors], warnings


def _together(found: Sources) -> list[ConfigError]:
    """Return what makes no sense of all that is said: in the environment, and by the project's file."""
    from hermes.sense import wrong

    said = wrong(found.merged())
    for error in said:
        error.message = f"{found.origin(error.context['key'])}: {error.message}"
    return said


def _loose() -> list[str]:
    """Return what is wrong with who may read the files that hold secrets."""
    path = home() / ".env"
    try:
        facts = path.stat()
    except OSError:
        return []
    if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        return [f"{path} can be read by others: chmod 600 {path}"]
    return []


def trust(*, yes: bool, revoke: bool) -> int:
    """Show what a project's file asks for, and let it count when the user says so."""
    from hermes.config import _project
    from hermes.config._load import sources

    path = _project.find()
    if path is None:
        raise ConfigError(f"there is no {_project.NAME} in this project; nothing was changed")
    if revoke:
        say(f"{path} is not trusted any more." if _project.forget(path) else f"{path} was not trusted.")
        return 0
    keys = sources().settled().untrusted
    if not keys:
        say(f"all that {path} says counts already.")
        return 0
    data = _project.said(path)
    put(f"{path} asks for what a file of somebody else's may not say by itself:")
    for key in keys:
        value: Any = data
        for part in key.split("."):
            value = value[part]
        print(clean(f"  {key}: {value}"))
    if not yes and not _confirmed("Shall it count as it is now?"):
        say("nothing was changed.")
        return FAILED
    _project.trust(path, data)
    say(f"{path} counts in full, as long as it stays as it is.")
    return 0


def restore() -> int:
    """Put the last good copy back."""
    where, broken = _file.restore()
    say(f"{where} is as it was when it was last right." + (f" What was there is {broken}." if broken else ""))
    return 0
