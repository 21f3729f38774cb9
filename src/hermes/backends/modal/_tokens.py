"""The tokens of Modal. Told without its SDK, whose import takes half a second."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from hermes.config import dotenv
from hermes.errors import BackendError

__all__ = ["PAGE", "check", "complete", "given"]

VARIABLES = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")
PAGE = "https://modal.com/settings/tokens"


def given() -> list[str]:
    """Return the id and the secret that the environment or ``.env`` has, empty if it has none. Blocks."""
    kept = dotenv(VARIABLES)
    return [str(os.environ.get(name) or kept.get(name) or "") for name in VARIABLES]


def complete(values: Sequence[str]) -> tuple[str, str]:
    """Return both.

    :raises BackendError: one is missing
    """
    missing = [name for name, value in zip(VARIABLES, values, strict=True) if not value]
    if missing:
        raise BackendError(
            f"the tokens of Modal are missing: {' and '.join(missing)}; nothing was started",
            code="backend_unavailable",
            hint=f"Make them at {PAGE}, then: hermes config set modal.token_id, and modal.token_secret",
        )
    return values[0], values[1]


def check() -> None:
    """Check what can be told before the SDK is there. Blocks.

    :raises BackendError: there are no tokens, and no file in which the SDK would find some
    """
    file = os.environ.get("MODAL_CONFIG_PATH") or os.path.expanduser("~/.modal.toml")
    values = given()
    if any(values) or not Path(file).exists():
        complete(values)
