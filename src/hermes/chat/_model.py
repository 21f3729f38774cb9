"""The configured model, ready to be asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from pydantic_ai.models import Model as AnyModel

from hermes.config import Config, Model
from hermes.config._model import configured, model_key, split_model

__all__ = ["Connection"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass
class Connection:
    """A model with its settings. Making one connects to nothing."""

    settings: Model
    model: AnyModel
    request: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return split_model(self.settings.name or "")[1]

    @classmethod
    def open(cls, config: Config) -> Connection:
        """Return the configured model. Blocks: a provider's library takes a second to load.

        :raises ModelError: code ``model_unset`` or ``model_key``
        """
        settings = configured(config.model)
        provider, name = split_model(settings.name or "")
        key = model_key(config)
        request: dict[str, Any] = {"timeout": settings.timeout}
        if settings.max_tokens is not None:
            request["max_tokens"] = settings.max_tokens
        if provider != "google":
            request["max_retries"] = 0  # requests are made again by us, who say so
        return cls(settings, _made(provider, name, settings.base_url, key), request)


def _made(provider: str | None, name: str, url: str | None, key: str | None) -> AnyModel:
    if provider == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        given = AnthropicProvider(api_key=key or "none", base_url=url, http_client=_http(url))
        return AnthropicModel(name, provider=given)
    if provider == "google":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleModel(name, provider=GoogleProvider(api_key=key or "none", base_url=url))
    from pydantic_ai.models.openai import OpenAIChatModel

    if provider == "openai" and url is None:
        from pydantic_ai.providers.openai import OpenAIProvider

        return OpenAIChatModel(name, provider=OpenAIProvider(api_key=key))
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    host = urlsplit(url or "").netloc
    return OpenAIChatModel(
        name,
        provider=OpenAICompatibleProvider(host, base_url=url or "", api_key=key, http_client=_http(url)),
    )


def _http(url: str | None) -> Any:
    """Return a client that goes past proxies to a server on this machine; None for the usual one."""
    if urlsplit(url or "").hostname not in LOOPBACK:
        return None
    import httpx2

    return httpx2.AsyncClient(trust_env=False)
