"""What a person has to know of each place to choose one. Says nothing about this machine."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ABOUT", "NEEDS", "OTHER", "About", "Need"]


class About(NamedTuple):
    """One place, in words that fit into a table. ``why``: the reason to choose it, as a sentence."""

    isolation: str
    cost: str
    files: str
    purpose: str
    why: str


class Need(NamedTuple):
    """Something that a place has to be told before it can be used. Secrets are known by their name."""

    key: str
    question: str
    optional: bool = False


ABOUT: dict[str, About] = {
    "local": About(
        "none", "free", "your disk", "throw-away machines", "Commands run as you, in your own files."
    ),
    "docker": About(
        "container",
        "free",
        "per container",
        "development; most people",
        "A container keeps commands away from your files, starts at once and costs nothing.",
    ),
    "podman": About(
        "container",
        "free",
        "per container",
        "docker without its daemon",
        "It is docker without a daemon that is root's.",
    ),
    "jail": About(
        "namespaces",
        "free",
        "per sandbox",
        "machines without an engine",
        "Commands run here, as you, and see nothing of yours but the workspace; no image is needed.",
    ),
    "ssh": About(
        "remote",
        "its own",
        "its disk",
        "work on other machines",
        "Commands run on the machine that they are about, over your own ssh.",
    ),
    "singularity": About(
        "container",
        "free",
        "per container",
        "clusters, SLURM, GPUs",
        "It runs containers for ordinary users, and in jobs of SLURM.",
    ),
    "modal": About(
        "container", "per second", "snapshots", "GPUs, heavy computing", "It has GPUs, by the second."
    ),
    "daytona": About(
        "container",
        "per second",
        "survive sleep",
        "an agent that stays for months",
        "It sleeps when nothing runs, and keeps its files.",
    ),
    "vercel": About(
        "VM", "per second", "snapshots", "near Vercel projects", "It runs beside what you have there."
    ),
}
"""The places, in the order in which people meet them."""

OTHER = About("unknown", "unknown", "unknown", "added by another package", "You installed it.")

NEEDS: dict[str, tuple[Need, ...]] = {
    "docker": (Need("docker.image", "Image", optional=True),),
    "podman": (Need("docker.image", "Image", optional=True),),
    "singularity": (Need("singularity.image", "Image", optional=True),),
    "ssh": (
        Need("ssh.host", "Host"),
        Need("ssh.user", "User there"),
        Need("ssh.port", "Port", optional=True),
        Need("ssh.key", "File of the private key", optional=True),
    ),
    "modal": (Need("modal.token_id", "Token ID"), Need("modal.token_secret", "Token secret")),
    "daytona": (Need("daytona.api_key", "API key"),),
    "vercel": (
        Need("vercel.token", "Token"),
        Need("vercel.team", "Team ID"),
        Need("vercel.project", "Project ID"),
        Need("vercel.runtime", "Runtime, such as node24 or python3.13", optional=True),
    ),
}
"""What is asked for before a place is used the first time."""
