"""The backends, by name. Each is imported only when it is chosen.

A third party adds one with an entry point::

    [project.entry-points."hermes.backends"]
    mars = "hermes_mars:MarsBackend"
"""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, NamedTuple

from hermes._extra import needs
from hermes.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from .base import Backend

__all__ = ["ALIASES", "ENTRY_POINTS", "TABLE", "Entry", "canonical", "load", "names", "split"]

ENTRY_POINTS = "hermes.backends"


class Entry(NamedTuple):
    """Where a backend of our own is: module below this package, class, and the extra it needs, if any."""

    module: str
    attribute: str
    extra: str | None = None


TABLE: dict[str, Entry] = {
    "local": Entry("local", "LocalBackend"),
    "docker": Entry("docker", "DockerBackend"),
    "podman": Entry("docker", "PodmanBackend"),
    "singularity": Entry("singularity", "SingularityBackend"),
    "jail": Entry("jail", "JailBackend"),
    "ssh": Entry("ssh", "SshBackend"),
    "modal": Entry("modal", "ModalBackend", "modal"),
    "daytona": Entry("daytona", "DaytonaBackend", "daytona"),
    "vercel": Entry("vercel", "VercelBackend", "vercel"),
}

HOSTED = ("ssh",)
"""The backends of ours that have hosts, one of which can be named."""

ALIASES = {"apptainer": "singularity"}
"""Other names that users know a backend by. Records have the first one only."""


def canonical(place: str) -> str:
    """Return ``BACKEND[:HOST]`` under the name that the backend has in records."""
    name, colon, host = place.partition(":")
    return ALIASES.get(name, name) + colon + host


def split(place: str) -> tuple[str, str]:
    """Return the backend's name and the host of ``BACKEND[:HOST]``, the host empty where there is none.

    :raises ConfigError: this backend has no hosts
    """
    name, colon, host = canonical(place).partition(":")
    if colon and name in TABLE and name not in HOSTED:
        raise ConfigError(
            f"{name} has no hosts to choose from, so '{place[:80]}' is no place", hint=f"Write {name}."
        )
    return name, host


def names() -> list[str]:
    """Return the names of all backends that are installed, our own first."""
    return [*TABLE, *sorted(name for name in _entry_points() if name not in TABLE)]


def load(name: str) -> type[Backend]:
    """Return the backend class of that name.

    Our own names cannot be taken over by an entry point.

    :raises ConfigError: no such backend (``backend_unknown``), its extra is not installed
        (``extra_missing``), or what is installed under that name is no backend
    """
    name = ALIASES.get(name, name)
    entry = TABLE.get(name)
    if entry is not None:
        # Without an extra a failing import is a fault, and not a missing package.
        needed = (
            needs(
                f"the {name} backend",
                entry.extra,
                outcome="",
                context={"backend": name, "extra": entry.extra},
            )
            if entry.extra
            else contextlib.nullcontext()
        )
        with needed:
            module = importlib.import_module(f"{__name__}.{entry.module}")
        return _checked(name, getattr(module, entry.attribute), f"{module.__name__}:{entry.attribute}")

    points = _entry_points()
    if name not in points:
        raise _unknown(name, [*TABLE, *sorted(points)])
    point = points[name]
    try:
        found = point.load()
    except Exception as error:
        raise ConfigError(
            f"the {name} backend is installed but cannot be loaded from {point.value}: {error!r}",
            hint="Reinstall or update the package that provides it.",
            context={"backend": name, "entry_point": point.value},
        ) from error
    return _checked(name, found, point.value)


def _entry_points() -> dict[str, EntryPoint]:
    # Reading the metadata of everything installed takes tens of milliseconds: never done for our own
    # backends.
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _checked(name: str, found: object, where: str) -> type[Backend]:
    from .base import Backend

    if not (isinstance(found, type) and issubclass(found, Backend)):
        raise ConfigError(
            f"{where}, registered as the {name} backend, is not a subclass of hermes.backends.base.Backend",
            context={"backend": name},
        )
    return found


def _unknown(name: str, known: list[str]) -> ConfigError:
    import difflib

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    suggestion = f"Did you mean '{near[0]}'? " if near else ""
    return ConfigError(
        f"there is no backend '{name[:80]}'; nothing was started",
        code="backend_unknown",
        hint=f"{suggestion}Installed here: {', '.join(known)}.",
        context={"backend": name, "known": known},
    )
