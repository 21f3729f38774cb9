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
    persistence: str
    purpose: str
    verified: str
    fits: str


ABOUT: dict[str, About] = {
    "local": About(
        "none", "free", "your disk", "throw-away machines", "real", "accept commands in your own files"
    ),
    "docker": About(
        "container", "free", "per container", "development, most people", "real", "work on this machine"
    ),
    "podman": About(
        "container", "free", "per container", "docker without its daemon", "real", "have no docker"
    ),
    "ssh": About(
        "other machine", "the machine's", "that machine's disk", "work on your machines", "real",
        "have a machine of your own for it",
    ),
    "singularity": About(
        "container", "free", "per container", "clusters, SLURM", "real", "work on a cluster"
    ),
    "modal": About(
        "container", "per second", "snapshots", "GPUs, heavy computing", "not built", "need GPUs or bursts"
    ),
    "daytona": About(
        "container", "per second", "sleeps and wakes", "an agent that stays", "not built",
        "want a place that lives on a server for months",
    ),
    "vercel": About(
        "virtual machine", "per second", "snapshots", "near Vercel projects", "not built",
        "are on Vercel already",
    ),
    "jail": About(
        "namespaces", "free", "your disk", "where no engine is", "not built", "can install nothing"
    ),
}  # fmt: skip
"""The places, in the order in which people meet them."""


def built(name: str) -> bool:
    """Return whether this version of hermes has the place. Those that others add are not in the list."""
    return name in TABLE or name not in COMING
