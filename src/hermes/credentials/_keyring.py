"""The keyring of the system as the store of values, by the library ``keyring``, an extra."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from hermes.config import Secret
from hermes.errors import ConfigError

__all__ = ["SERVICE", "stored"]

SERVICE = "hermes"


def stored(names: Iterable[str]) -> dict[str, Secret]:
    """Return those of the values that the keyring has. Blocks, and may ask the person to unlock it.

    :raises ConfigError: the library is not there, or no keyring works
    """
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        raise ConfigError(
            "credentials.store is keyring, and the library for it is not installed; nothing was started",
            code="extra_missing",
            hint="pip install 'hermes-places[keyring]'",
        ) from None
    try:
        found = {name: keyring.get_password(SERVICE, name) for name in names}
    except Exception as error:  # each kind of keyring has errors of its own
        raise ConfigError(
            f"the keyring could not be asked: {type(error).__name__}; nothing was started",
            hint="Unlock it, or say credentials.store: env.",
        ) from error
    return {name: Secret(value) for name, value in found.items() if value}
