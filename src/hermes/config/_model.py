"""Which model is configured, of which provider, and which variable has its key."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from hermes.errors import ModelError

from ._env import dotenv, withhold
from ._schema import Config, Model

__all__ = ["PROVIDERS", "configured", "key_variable", "model_key", "split_model"]

PROVIDERS = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY",
}
"""Provider to the variable that its own programs read the key from."""

OWN = "HERMES_MODEL_KEY"
"""For a server that is named by its address alone: what is a provider's key is not sent there."""

UNSET = """Say which one, and give it its key:
  hermes config set model.name anthropic:MODEL    (or openai:MODEL, google:MODEL)
  hermes config set model.api_key
or a server that speaks as OpenAI's does, such as one on this machine:
  hermes config set model.base_url http://127.0.0.1:11434/v1
  hermes config set model.name MODEL"""


def split_model(name: str) -> tuple[str | None, str]:
    """Return the provider that a model's name begins with, None for none, and the rest."""
    provider, colon, rest = name.partition(":")
    return (provider, rest) if colon and provider in PROVIDERS else (None, name)


def key_variable(model: Model) -> str:
    """Return the variable that has the key of the configured model."""
    provider, _ = split_model(model.name or "")
    return model.key_env or (PROVIDERS[provider] if provider else OWN)


def configured(settings: Model) -> Model:
    """Return the settings, when a model can be asked with them.

    :raises ModelError: code ``model_unset``: there is none
    """
    provider, name = split_model(settings.name or "")
    if not name:
        raise ModelError("no model is set; nothing was started", code="model_unset", hint=UNSET)
    if provider is None and settings.base_url is None:
        known = ", ".join(f"{one}:{name}" for one in PROVIDERS)
        raise ModelError(
            f"model.name '{settings.name}' has no provider; nothing was started",
            code="model_unset",
            hint=f"Write {known}, or set model.base_url to the server that has it.",
        )
    url = urlsplit(settings.base_url or "http://x")
    if url.scheme not in ("http", "https") or not url.netloc:
        raise ModelError(
            f"model.base_url '{settings.base_url}' is no address; nothing was started",
            code="model_unset",
            hint="It is like http://127.0.0.1:11434/v1.",
        )
    return settings


def model_key(config: Config) -> str | None:
    """Return the model's key, and keep its variable from all programs that hermes starts.

    :raises ModelError: code ``model_key``: a provider needs one, and there is none
    """
    variable = key_variable(config.model)
    withhold([variable, *PROVIDERS.values()])
    found = os.environ.get(variable) or dotenv([variable]).get(variable)
    if not found and config.credentials.store == "keyring":
        from hermes.credentials._keyring import stored

        found = stored([variable]).get(variable)
    if not found and (config.model.base_url is None or config.model.key_env is not None):
        raise ModelError(
            f"there is no key for {config.model.name}: {variable} is not set; nothing was started",
            code="model_key",
            hint=f"'hermes config set {variable}' asks for it and keeps it in .env.",
        )
    return str(found) if found else None
