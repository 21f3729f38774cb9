"""When skills and dotfiles travel into an open sandbox. What that takes is loaded where there are some."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .config import Config, home
from .errors import UnsupportedError

if TYPE_CHECKING:
    from .sandbox import Sandbox
    from .travel import Travel


def check(config: Config) -> tuple[str, ...]:
    """Refuse what cannot travel, before anything is started. Return the directories of what does.

    :raises ConfigError: a path that is listed is none of this user's home
    """
    if config.dotfiles:
        from .travel import trees

        trees(config)
    own = home()
    return str(own / "skills"), str(own / "dotfiles")


def locale(box: Sandbox) -> dict[str, Any]:
    """Return what sessions in a place elsewhere are told of this user: language and time zone, no more."""
    if box._at_home:
        return {}
    found = {name: os.environ.get(name, "") for name in ("LANG", "TZ")}
    return {"locale": {name: value for name, value in found.items() if value not in ("", "C", "POSIX")}}


async def bring(box: Sandbox) -> None:
    """See to it that skills and dotfiles are inside as they are here.

    Commands on this machine itself see those that are here.

    :raises HermesError: the sandbox is out of reach
    """
    if box._travel is not None or (not box._at_home and _some(box)):
        await of(box).fresh()


def of(box: Sandbox) -> Travel:
    """Return what travels into an open sandbox.

    :raises UnsupportedError: commands there see this machine's files themselves
    """
    from .travel import Travel

    if box._at_home:
        raise UnsupportedError(
            f"commands on {box.backend} use the skills and dotfiles of this machine itself: none were copied"
        )

    if box._travel is None:
        box._travel = Travel(box._channel, box._config)
    return box._travel


def at_home(box: Sandbox) -> bool:
    """Return whether the home inside is this user's own, so that commands see what is here."""
    isolated = box._the_place().capabilities.isolation != "none"
    return not isolated and box._channel.guest.get("home") == os.path.expanduser("~")


def _some(box: Sandbox) -> bool:
    """Return whether there may be any: most have none, and a thread would take longer than to see that."""
    if box._config.dotfiles:
        return True
    return any(os.path.isdir(folder) for folder in box._folders)
