"""The sandbox for other agent frameworks: one module for each, imported by nothing but its own users.

They hold no logic of their own: what runs, and how, is :class:`hermes.Sandbox`, and tools are
``hermes.tools``. Whom to ask before something is done is the business of the framework, so here nothing is
asked unless the configuration says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes.config._load import sources
from hermes.config._source import Source, decoded, parse, read_bytes
from hermes.errors import ConfigError

__all__ = ["settings", "told"]


def settings(file: Path) -> Source:
    """Return what a file says that has settings as ``config.yaml`` has them.

    :raises ConfigError: it is not there, or cannot be read
    """
    data = read_bytes(file)
    if data is None:
        raise ConfigError(f"there is no file {file}; nothing was started")
    return Source(file, *parse(file, decoded(file, data)))


def told(file: Source | None = None, /, **options: Any) -> dict[str, Any]:
    """Return the options of a sandbox of an adapter: approval is off where nobody has set it.

    It reads the configuration, which blocks.

    :param file: settings that count over the rest of the configuration
    :raises ConfigError: the configuration is wrong
    """
    found = sources(None, file)
    if found.origin("approvals.mode") == "default":
        options = {"approval": "off", **options}
    return {"config": found.settled(), **options}
