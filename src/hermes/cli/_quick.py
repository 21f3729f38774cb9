"""What is asked for so often that it has to be answered at once: the version, the help, the configured place.

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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


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
