"""One answer of the model, streamed, and asked for again where that may help."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelNotFoundError,
    ModelRateLimitError,
    ModelServerError,
    ModelUnavailableError,
)
from pydantic_ai.messages import ModelMessage, ModelResponse, PartDeltaEvent, PartStartEvent, TextPart
from pydantic_ai.messages import TextPartDelta as Delta
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from hermes._json import plain, whole_characters
from hermes.config._model import key_variable
from hermes.errors import ModelError
from hermes.tools import TOOLS

from ._model import Connection

__all__ = ["TooLong", "answered"]

AGAIN = (ModelRateLimitError, ModelUnavailableError, ModelServerError, ModelConnectionError)
LONGEST_WAIT = 300.0  # seconds; who asks for more is not waited for
FIRST_WAIT = 1.0
SHOWN = 500


class TooLong(Exception):
    """The conversation is longer than the model takes."""


class _Cut(Exception):
    """The answer ended before its end."""


OFFER = ModelRequestParameters(
    function_tools=[
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.input_schema)
        for tool in TOOLS.values()
    ]
)


async def answered(
    connection: Connection,
    messages: Sequence[ModelMessage],
    *,
    on_text: Callable[[str], None],
    on_wait: Callable[[str], None],
) -> ModelResponse:
    """Return the model's answer.

    :param on_text: gets its text as it comes
    :param on_wait: gets a line that says why the request is made again, and when
    :raises TooLong: the messages are more than the model takes
    :raises ModelError: there is no answer to be had
    """
    tries = 0
    while True:
        try:
            return await _streamed(connection, messages, on_text)
        except ModelContextWindowExceededError as error:
            raise TooLong from error
        except (*AGAIN, _Cut) as error:
            wait = _wait(error, tries)
            if tries >= connection.settings.retries or wait is None:
                raise _failed(connection, error) from error
            tries += 1
            on_wait(f"{_why(error)}; asked again in {wait:.0f} s ({tries} of {connection.settings.retries})")
            await asyncio.sleep(wait)
        except ModelAPIError as error:
            raise _failed(connection, error) from error
        except (asyncio.CancelledError, ModelError):
            raise
        except Exception as error:  # whatever a provider's library makes of an answer that is none
            raise ModelError(
                f"the answer of {connection.name} cannot be read: {plain(str(error))[:SHOWN]}",
                code="model_failed",
            ) from error


async def _streamed(
    connection: Connection, messages: Sequence[ModelMessage], on_text: Callable[[str], None]
) -> ModelResponse:
    settings: Any = connection.request
    async with model_request_stream(
        connection.model, messages, model_settings=settings, model_request_parameters=OFFER
    ) as stream:
        async for event in stream:
            if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                on_text(event.part.content)
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, Delta):
                on_text(event.delta.content_delta)
    response = stream.get()
    if _is_cut(response):  # nothing of it may be acted on
        raise _Cut
    return replace(response, parts=[_sound(part) for part in response.parts])


def _sound(part: Any) -> Any:
    """Return a part of an answer without halves of characters: no later request could be sent with them."""
    texts = {key: getattr(part, key, None) for key in ("content", "args", "tool_name")}
    sound = {key: whole_characters(text) for key, text in texts.items() if isinstance(text, str)}
    return replace(part, **sound) if any(texts[key] != text for key, text in sound.items()) else part


def _is_cut(response: ModelResponse) -> bool:
    """Say whether an answer ended without a word that this was its end."""
    said = response.provider_details or {}
    # Where OpenAI's protocol leaves it out, the library makes one up; what was really said is in the details.
    made_up = response.finish_reason == "stop" and "finish_reason" not in said
    return response.finish_reason is None or made_up


def _wait(error: Exception, tries: int) -> float | None:
    """Return the seconds until a request is made again, None when it is not worth waiting."""
    asked: float | None = getattr(error, "retry_after", None)
    if asked is not None:
        return None if asked > LONGEST_WAIT else max(0.0, asked)
    return min(30.0, FIRST_WAIT * 2.0**tries) * random.uniform(0.75, 1.25)


def _why(error: Exception) -> str:
    if isinstance(error, _Cut):
        return "the answer broke off"
    if isinstance(error, ModelRateLimitError):
        return "the provider wants fewer requests"
    if isinstance(error, ModelConnectionError):
        return "the model cannot be reached, or is silent"
    code = getattr(error, "status_code", None)
    return "the provider failed" + (f" (HTTP {code})" if code else "")


def _failed(connection: Connection, error: Exception) -> ModelError:
    name = connection.name
    said = "" if isinstance(error, _Cut) else plain(str(error))[:SHOWN]
    if isinstance(error, ModelAuthenticationError):
        variable = key_variable(connection.settings)
        return ModelError(
            f"{name}: the key was not accepted ({said})",
            code="model_key",
            hint=f"'hermes config set {variable}' asks for another one; a variable of that name goes before.",
        )
    if isinstance(error, ModelNotFoundError):
        return ModelError(
            f"there is no model {name} ({said})", code="model_unset", hint="hermes config set model.name NAME"
        )
    if isinstance(error, (*AGAIN, _Cut)):
        asked = getattr(error, "retry_after", None)
        later = f" It asks to be left alone for {asked:.0f} s." if asked else ""
        return ModelError(
            f"{name} gave no answer: {_why(error)}" + (f" ({said})" if said else ""),
            code="model_unavailable",
            retryable=True,
            hint=f"What was done until then stays done.{later} Say 'go on' to try again.",
        )
    return ModelError(f"{name} did not take the request: {said}", code="model_failed")
