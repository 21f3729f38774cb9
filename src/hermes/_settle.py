"""Before a sandbox is opened: what its caller did not say is filled in from the configuration."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

import msgspec

from . import _travelling, backends
from .config import load, sudo_password
from .errors import ConfigError
from .state import Store

if TYPE_CHECKING:
    from .sandbox import Sandbox

__all__ = ["settle"]


def settle(box: Sandbox) -> None:
    """Fill in what was not given. Blocks.

    :raises ConfigError: the configuration is wrong, or there is no current directory
    """
    from .credentials import supply

    box._settled = config = box._settled or load()
    box._password = sudo_password()
    box._declared = supply.check(config.credentials)
    box._folders = _travelling.check(config)
    for line in (*supply.mend(), *supply.root_told()):
        warnings.warn(line, stacklevel=2)
    try:
        box._here = os.getcwd()
    except FileNotFoundError:
        raise ConfigError(
            "the current directory no longer exists; nothing was started", hint="Change to another one."
        ) from None
    box._store = Store()
    box.backend, host = backends.split(box.backend or config.sandbox or "auto")
    if host:
        box._options = {"host": host, **box._options}
    if box.backend == "auto":
        box.backend = box._store.pinned() or "auto"
    if box._timeout is None:
        box._timeout = config.timeout
    box._mode = box._mode or config.approvals.mode
    box._lifetime = box._lifetime or config.lifetime
    box._workspace = box._workspace or config.workspace
    limits = {k: v for k, v in msgspec.structs.asdict(config.limits).items() if v is not None}
    limits.update(box._options.get("limits") or {})
    common = {"network": config.network, "persistent": config.persistent, "keep": config.keep}
    box._options = {**{k: v for k, v in common.items() if v}, **box._options}
    if limits:
        box._options["limits"] = limits
