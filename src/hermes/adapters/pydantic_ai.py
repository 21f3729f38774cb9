"""The tools of a sandbox as a toolset of pydantic-ai."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import InstructionPart, ToolReturn
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from hermes.sandbox import Sandbox
from hermes.tools import DATA, TOOLS, place_text

from . import told

__all__ = ["SandboxToolset"]

# The tools check what they are given, and tell the model what was wrong.
_ANYTHING = SchemaValidator(core_schema.dict_schema())


class SandboxToolset(AbstractToolset[AgentDepsT]):
    """What a model can do in one sandbox: every tool of ``hermes.tools``.

    The sandbox is opened with the toolset, by the agent or by ``async with``, and left with it. One that is
    given as such is somebody else's to open and to leave.
    """

    def __init__(
        self, sandbox: Sandbox | str | None = None, *, id: str | None = "hermes", **options: Any
    ) -> None:
        """Describe it; nothing is started yet.

        :param sandbox: a backend's name, None for the configured one, or an open sandbox
        :param options: of :class:`hermes.Sandbox`, for one that is not given as such
        """
        self._id = id
        self._theirs = sandbox if isinstance(sandbox, Sandbox) else None
        self._options = {"backend": sandbox, **options}
        self._box = self._theirs
        self._users = 0
        self._turn = asyncio.Lock()

    @property
    def id(self) -> str | None:
        return self._id

    async def __aenter__(self) -> Self:
        async with self._turn:
            if self._theirs is None and self._users == 0:
                self._box = await Sandbox(**await asyncio.to_thread(told, **self._options)).open()
            self._users += 1
        return self

    async def __aexit__(self, *exc: Any) -> bool | None:
        async with self._turn:
            self._users -= 1
            if self._theirs is None and self._users == 0 and self._box is not None:
                box, self._box = self._box, None
                await box.__aexit__(*exc)
        return None

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox, while it is open."""
        if self._box is None:
            raise RuntimeError("the toolset is not entered, so its sandbox is not open")
        return self._box

    async def get_instructions(self, ctx: RunContext[AgentDepsT]) -> InstructionPart:
        return InstructionPart(content=f"{place_text(self.sandbox)}\n{DATA}")

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name,
                    description=tool.description,
                    parameters_json_schema=tool.input_schema,
                    metadata={"read_only": tool.read_only, "destructive": tool.destructive},
                ),
                max_retries=1,
                args_validator=_ANYTHING,
            )
            for tool in TOOLS.values()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> ToolReturn:
        """Do it. What the model can mend it is told of; a place that does not work ends the run.

        :raises HermesError: the place does not work
        """
        outcome = await TOOLS[name].call(self.sandbox, tool_args)
        if outcome.failed:
            raise ToolFailed(outcome.text)
        return ToolReturn(return_value=outcome.text, metadata=outcome.data)
