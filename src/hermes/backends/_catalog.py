"""What a person has to know of each place to choose one. Says nothing about this machine.

A place that gets into the table of backends is listed as one that can be used from then on.
"""

from __future__ import annotations

from typing import NamedTuple

from . import COMING, TABLE

__all__ = ["ABOUT", "About", "built"]


class About(NamedTuple):
    """One place, in words that fit into a table.

    ``fits``: whom it is recommended to, as the end of a sentence that begins with "because you".
    """

    isolation: str
    cost: str
    files: str
    purpose: str
    fits: str


ABOUT: dict[str, About] = {
    "local": About("none", "free", "your disk", "throw-away machines", "accept commands in your own files"),
    "docker": About("container", "free", "per container", "development; most people", "work on this machine"),
    "podman": About("container", "free", "per container", "docker without its daemon", "have no docker"),
    "ssh": About("remote", "its own", "its disk", "work on other machines", "have a machine for it"),
    "singularity": About("container", "free", "per container", "clusters, SLURM, GPUs", "work on a cluster"),
    "modal": About("container", "per second", "snapshots", "GPUs, heavy computing", "need GPUs or bursts"),
    "daytona": About(
        "container", "per second", "survive sleep", "an agent that stays for months", "want that"
    ),
    "vercel": About("VM", "per second", "snapshots", "near Vercel projects", "are on Vercel already"),
    "jail": About("namespaces", "free", "your disk", "machines without an engine", "can install nothing"),
}
"""The places, in the order in which people meet them."""

OTHER = About("unknown", "unknown", "unknown", "added by another package", "installed it")


def built(name: str) -> bool:
    """Return whether this version of hermes has the place. Those that others add are not in the list."""
    return name in TABLE or name not in COMING
