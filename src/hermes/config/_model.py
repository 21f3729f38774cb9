"""Which provider a model is of, and which variable has its key."""

from __future__ import annotations

from ._schema import Model

__all__ = ["PROVIDERS", "key_variable", "split_model"]

PROVIDERS = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY",
}
"""Provider to the variable that its own programs read the key from."""

OWN = "HERMES_MODEL_KEY"
"""For a server that is named by its address alone: what is a provider's key is not sent there."""


def split_model(name: str) -> tuple[str | None, str]:
    """Return the provider that a model's name begins with, None for none, and the rest."""
    provider, colon, rest = name.partition(":")
    return (provider, rest) if colon and provider in PROVIDERS else (None, name)


def key_variable(model: Model) -> str:
    """Return the variable that has the key of the configured model."""
    provider, _ = split_model(model.name or "")
    return model.key_env or (PROVIDERS[provider] if provider else OWN)
