"""Telling a sandbox that is gone from one of an account that is not in use now."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import urllib.parse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hermes.errors import BackendError

if TYPE_CHECKING:
    from ..base import Backend

__all__ = ["check_account", "emulated", "is_here", "mark"]


def mark(*parts: str) -> str:
    """Return what tells one account from another in a locator, and gives away neither."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def is_here(address: str | None) -> bool:
    """Return whether a service is on this machine, where no provider's is but only an emulator's."""
    host = urllib.parse.urlsplit(address or "").hostname or ""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def emulated(address: str | None, provider: str) -> str:
    """Return what follows the address of a service where it is no provider's, else nothing."""
    return f" (an emulator on this machine, not {provider})" if is_here(address) else ""


def check_account(place: Backend, locator: Mapping[str, Any], now: str) -> None:
    """Call this before a sandbox that was not found is taken for gone.

    :param now: the mark of the account that was asked
    :raises BackendError: code ``other_account``; the sandbox was made with another, where it may run and cost
    """
    made = locator.get("account")
    if isinstance(made, str) and made != now:
        raise BackendError(
            f"the {place.name} sandbox '{place.spec.name}' is not there for these credentials, but was made "
            "with others: it cannot be told whether it runs, and nothing was done",
            code="other_account",
            operation="find",
            hint="Use the credentials and settings it was made with. When it is gone for good: "
            f"hermes sandbox rm --force {place.spec.name}",
        )
