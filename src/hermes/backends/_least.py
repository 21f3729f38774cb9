"""Limits that are too small for a sandbox of this machine to live with."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.config import shown_limit
from hermes.errors import ConfigError

__all__ = ["check_least"]

LEAST = {"memory": 32 << 20, "pids": 16, "cpus": 0.01}
"""What the guest and a shell need; with less a container dies in ways that nobody understands."""


def check_least(limits: Mapping[str, float]) -> None:
    """Check that the guest and a shell can live with these limits.

    :raises ConfigError: they cannot
    """
    for name, least in LEAST.items():
        if name in limits and limits[name] < least:
            raise ConfigError(
                f"limits.{name} is {shown_limit(name, limits[name])}; a sandbox needs "
                f"{shown_limit(name, least)}; nothing was started"
            )
