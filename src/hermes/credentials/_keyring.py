"""The keyring of the system as the store of values, by the library ``keyring``, an extra."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterable, Iterator
from typing import Any

from hermes._extra import pip_install
from hermes.config import Secret
from hermes.errors import ConfigError

__all__ = ["SERVICE", "keep", "stored"]

SERVICE = "hermes"


def stored(names: Iterable[str]) -> dict[str, Secret]:
    """Return those of the values that the keyring has. Blocks, and may ask the person to unlock it.

    :raises ConfigError: the library is not there, or no keyring works
    """
    keyring = _library()
    with _failing("could not be asked", "nothing was started"):
        found = {name: keyring.get_password(SERVICE, name) for name in names}
    return {name: Secret(value) for name, value in found.items() if value}


def keep(name: str, value: str | None) -> None:
    """Put a value into the keyring, or remove it for None. Blocks, and may ask the person to unlock it.

    :raises ConfigError: the library is not there, or no keyring works
    """
    keyring = _library()
    with _failing("did not take it", "nothing was changed"):
        if value is None:
            keyring.delete_password(SERVICE, name)
        else:
            keyring.set_password(SERVICE, name, value)


def _library() -> Any:
    try:
        return importlib.import_module("keyring")
    except ImportError:
        raise ConfigError(
            "credentials.store is keyring, and the library for it is not installed; nothing was started",
            code="extra_missing",
            hint=f"Install it with: {pip_install('keyring')}",
        ) from None


@contextlib.contextmanager
def _failing(what: str, outcome: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # each kind of keyring has errors of its own, and words that may hold a value
        raise ConfigError(
            f"the keyring {what}: {type(error).__name__}; {outcome}",
            hint="Unlock it, or say credentials.store: env.",
        ) from error
