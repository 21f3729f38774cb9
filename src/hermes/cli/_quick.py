"""What is asked for so often that it has to be answered at once: the version, the help, the configured place,
and ``exec`` with the options that most calls have, which are read here without typer.

Nothing is decided here that is not decided elsewhere: where there is any doubt None is returned, and the
whole command line answers. Only what the interpreter has loaded already may be imported at module level.
"""

import os
import sys

WIDTH = 80
VARIABLES = """
    HERMES_SANDBOX HERMES_WORKSPACE HERMES_TIMEOUT HERMES_NETWORK HERMES_DOCKER_IMAGE HERMES_DOCKER_PROGRAM
    HERMES_SINGULARITY_IMAGE HERMES_APPROVALS HERMES_OUTPUT_LIMIT HERMES_LOCAL_PYTHON
    HERMES_MODEL HERMES_MODEL_URL
    TERMINAL_SSH_HOST TERMINAL_SSH_USER TERMINAL_SSH_PORT TERMINAL_SSH_KEY
    DAYTONA_API_URL DAYTONA_TARGET DAYTONA_ORGANIZATION_ID
    VERCEL_TEAM_ID VERCEL_PROJECT_ID HERMES_VERCEL_API_URL
"""
FLAGS = {
    "--rm": "rm",
    "--here": "here",
    "--stdin": "stdin",
    "--json": "json",
    "--yes": "yes",
    "-y": "yes",
    "--quiet": "quiet",
    "-q": "quiet",
}
VALUES = {
    "--sandbox": "sandbox",
    "--name": "name",
    "--workspace": "workspace",
    "--session": "session",
    "--cwd": "cwd",
    "--timeout": "timeout",
}
"""Options of ``exec`` that are read here, without a value and with one: what each is called in the code."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ._process import Globals


def quick(argv: "Sequence[str]") -> "int | None":
    """Answer, and return the exit code; None for what is not answered here."""
    if "_HERMES_COMPLETE" in os.environ or "_HERMES_PLACES_COMPLETE" in os.environ:
        return None
    match list(argv):
        case ["--version"]:
            import hermes

            text = f"hermes {hermes.__version__}\n"
        case [] if os.isatty(0) and os.isatty(1):
            return None  # somebody is there to talk
        case [] | ["--help"]:
            found = _help()
            if found is None:
                return None
            text = found
        case ["exec", *words]:
            given = options(words)
            return None if given is None else _exec(given)
        case ["config", "get", "sandbox"]:
            place = _place()
            if place is None:
                return None
            text = place + "\n"
        case _:
            return None
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        return None  # the whole command line knows what to do about it
    return 0


def options(words: "list[str]") -> "dict[str, Any] | None":
    """Return what these words ask ``exec`` for, the command too; None where any of them is not simple."""
    given: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word == "--":
            given["command"] = list(rest)
            break
        if not word.startswith("-"):
            given["command"] = [word, *rest]
            break
        option, equals, value = word.partition("=")
        key = VALUES.get(option)
        if key is not None:
            if not equals:
                value = next(rest, "")
            if not value or key in given or value.startswith("-"):
                return None
            given[key] = value
        elif word in FLAGS:
            given[FLAGS[word]] = True
        else:
            return None
    if not given.get("command"):
        return None
    if "timeout" in given:
        from hermes.config import parse_duration

        try:
            given["timeout"] = parse_duration(given["timeout"])
        except ValueError:
            return None
    return given


def _exec(given: "dict[str, Any]") -> int:
    from ._process import whole

    def work(settings: "Globals") -> int:
        from hermes.backends import canonical

        from ._exec import execute

        place = given.pop("sandbox", None)
        settings.sandbox = canonical(place) if place else None
        return execute(settings, **given)

    return whole(work, ends=True)


def _help() -> str | None:
    try:
        width = int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size(1).columns
    except (OSError, ValueError):
        width = WIDTH
    if width < WIDTH:
        return None
    try:
        with open(os.path.join(os.path.dirname(__file__), "help.txt"), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None


def _place() -> str | None:
    """Return ``sandbox`` of a config.yaml that was found right before; None where anything else has a say."""
    if any(name in os.environ for name in VARIABLES.split()):
        return None
    try:
        folder = here = os.getcwd()
    except OSError:
        return None
    while True:
        if os.path.lexists(os.path.join(folder, ".hermes.yaml")):
            return None
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    home = os.environ.get("HERMES_HOME")
    if not home and not os.environ.get("HOME"):
        return None
    home = os.path.join(here, os.path.expanduser(home)) if home else os.path.expanduser("~/.hermes")
    try:
        with open(os.path.join(home, "config.yaml"), "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return "none" if os.path.isabs(home) else None
    except OSError:
        return None
    import hashlib
    import json

    try:
        with open(os.path.join(home, "state", "config-cache.json"), "rb") as file:
            kept = json.load(file)
        if kept["digest"] != hashlib.sha256(data).hexdigest():
            return None
        place = kept["data"].get("sandbox")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return place if isinstance(place, str) and place.isprintable() else "none" if place is None else None
