"""What a tool is, and how it is called on an open sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.errors import CommandError, FileError, HermesError, JobError, Refused, UnsupportedError
from hermes.session import OnOutput

from ._result import HEADER, LEAST, Outcome, Reply, cut, error_reply

if TYPE_CHECKING:
    from hermes.credentials.scrub import Scrub
    from hermes.sandbox import Sandbox

__all__ = ["Tool", "ToolError", "Use"]

# What the model asked for was wrong, or not allowed: it may try something else. Everything else that hermes
# raises means that the place does not work, which no further call mends.
TO_BE_TOLD = (Refused, CommandError, FileError, JobError, UnsupportedError)
CODES_TO_BE_TOLD = frozenset(("bad_request", "session_moved"))


class ToolError(CommandError):
    """The arguments of a call are wrong; nothing was done."""

    default_code = "arguments_invalid"


@dataclass(frozen=True, slots=True)
class Use:
    """One call of a tool: in which sandbox, who sees output as it comes, how much of it is wanted."""

    box: Sandbox
    on_output: OnOutput | None = None

    @property
    def limit(self) -> int:
        """Bytes of the whole result."""
        return max(LEAST, self.box._config.tool_use.max_output)

    @property
    def room(self) -> int:
        """Bytes of output in it."""
        return self.limit - HEADER

    def seconds(self, wanted: float | None) -> float | None:
        """Return the time limit of a command: the call's, that of all commands, or that of tools."""
        if wanted is not None:
            return wanted
        general = self.box._timeout
        return self.box._config.tool_use.timeout if general is None else general

    @property
    def scrub(self) -> Scrub | None:
        """What takes secrets out of content, None where nothing is taken out."""
        supply = self.box._supply
        return None if supply is None else supply.scrub


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that a model can do in a sandbox.

    ``description`` is for the model. ``read_only``, ``destructive`` and ``idempotent`` are what a client may
    tell its user; ``open_world``: it may reach what lies outside of the sandbox.
    """

    name: str
    title: str
    description: str
    arguments: type[msgspec.Struct]
    reply: type[Reply]
    run: Callable[[Use, Any], Awaitable[Outcome]]
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return _schema(self.arguments, optional=True)

    @property
    def output_schema(self) -> dict[str, Any]:
        """The JSON Schema of the object that comes back."""
        return _schema(self.reply)

    async def call(
        self, box: Sandbox, arguments: Mapping[str, Any], *, on_output: OnOutput | None = None
    ) -> Outcome:
        """Do it. What is wrong with the call itself, or was refused, is an outcome.

        Cancelling it ends the command.

        :param on_output: gets a command's output as it comes
        :raises HermesError: the place does not work, so that no further call is of use
        """
        tracer = box._watch.tracer if box._watch is not None else None
        if tracer is None:
            return await self._call(box, arguments, on_output)
        with tracer.tool(self.name, self.description) as told:
            outcome = await self._call(box, arguments, on_output)
            told(outcome)
            return outcome

    async def _call(self, box: Sandbox, arguments: Mapping[str, Any], on_output: OnOutput | None) -> Outcome:
        use = Use(box, on_output)
        try:
            try:
                given = msgspec.convert(dict(arguments), self.arguments, strict=False)
            except msgspec.ValidationError as error:
                raise ToolError(f"{self.name}: {error}; nothing was done") from error
            except UnicodeEncodeError as error:
                said = f"{self.name}: a name of an argument holds half of a character; nothing was done"
                raise ToolError(said) from error
            await box._awake()
            outcome = await self.run(use, given)
        except TO_BE_TOLD as error:
            return error_reply(self.reply, error)
        except HermesError as error:
            if type(error) is HermesError and error.code in CODES_TO_BE_TOLD:
                return error_reply(self.reply, error)
            raise
        text, too_long = cut(outcome.text, use.limit)
        return replace(outcome, text=text) if too_long else outcome


def _schema(kind: type[msgspec.Struct], *, optional: bool = False) -> dict[str, Any]:
    """Return the schema of a record without references, which not every client follows.

    :param optional: what may be null may be left out as well, so that null need not be offered
    """
    (top,), parts = msgspec.json.schema_components((kind,), ref_template="{name}")

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(one) for one in value]
        if not isinstance(value, dict):
            return value
        if optional and value.get("default", ...) is None:
            [kept] = [one for one in value["anyOf"] if one != {"type": "null"}]
            rest = {key: one for key, one in value.items() if key not in ("anyOf", "default")}
            return {**whole(kept), **rest}
        if "$ref" in value:
            rest = {key: one for key, one in value.items() if key != "$ref"}
            return {**whole(parts[value["$ref"]]), **rest}
        # The names of our classes, and docstrings that are for programmers, are nothing to a model.
        return {
            key: whole(one)
            for key, one in value.items()
            if key != "title" and not (key == "description" and value.get("type") == "object")
        }

    found: dict[str, Any] = whole(top)
    return found
