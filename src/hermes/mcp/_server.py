"""The tools as a server of the Model Context Protocol, for one open sandbox.

A call whose approval has to ask does so in the way of its client's version of the protocol: by a request of
the server's own while the call waits, or, since 2026-07-28, by an answer that is a question. The client
repeats its call with what its user said then, and is given what has gone on meanwhile: nothing is run twice.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

import hermes
from hermes._json import plain
from hermes.errors import HermesError, status
from hermes.sandbox import Sandbox
from hermes.tools import DATA, TOOLS, Tool, place_text

from ._asking import Line, Question
from ._call import Call
from ._resources import Resources

__all__ = ["LONGEST", "ToolServer"]

KEY = "approval"
LONGEST = 64 << 20  # bytes of one message of a client
MOST_WAITING = 100  # calls that wait for an answer at a time

Context = ServerRequestContext[Any, Any]


class ToolServer:
    """What clients of one sandbox are served with."""

    def __init__(self, box: Sandbox, *, shared: bool = False, cwd: str | None = None) -> None:
        """Serve nobody yet.

        :param shared: there may be several clients
        :param cwd: where the default session is, if that is known
        """
        self._box = box
        self._shared = shared
        self._resources = Resources(box)
        self._waiting: OrderedDict[str, tuple[Call, Question]] = OrderedDict()
        self._calls: set[Call] = set()
        self._tools = [_described(tool) for tool in TOOLS.values()]
        self._schemas = {tool.name: tool.input_schema for tool in self._tools}
        self.protocol: Server[Any] = Server(
            "hermes",
            version=hermes.__version__,
            title="hermes: a sandbox",
            instructions=f"{place_text(box, cwd)}\n{DATA}",
            get_tool_input_schema=self._schemas.get,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_list_resources=self._resources.list,
            on_list_resource_templates=self._resources.templates,
            on_read_resource=self._resources.read,
        )

    async def close(self) -> None:
        """End every call that still runs."""
        await asyncio.gather(*(call.end() for call in [*self._calls]))

    async def _list(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self._tools)

    async def _call(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if params.request_state is not None:
            call = self._resumed(params)
        else:
            tool = TOOLS.get(params.name)
            if tool is None:
                known = ", ".join(TOOLS)
                raise MCPError(types.INVALID_PARAMS, f"there is no tool '{params.name}'; there are: {known}")
            line, live = (
                Line(open=_can_ask(ctx), alone=not self._shared),
                bool(ctx.meta and "progress_token" in ctx.meta),
            )
            call = Call(self._box, tool, params.arguments or {}, line=line, live=live)
            self._calls.add(call)
            call.task.add_done_callback(lambda _: self._calls.discard(call))
        reporter = asyncio.create_task(call.report(ctx))
        try:
            waits = await self._until_asked(ctx, call)
        except asyncio.CancelledError:
            # By the client, or because it is gone: nobody waits for it any more.
            call.task.cancel()
            raise
        finally:
            reporter.cancel()
        return waits if waits is not None else self._result(call)

    async def _until_asked(self, ctx: Context, call: Call) -> types.InputRequiredResult | None:
        """Return when the call has ended, or with the question that it cannot go on without."""
        while True:
            asked = asyncio.create_task(call.line.questions.get())
            try:
                await asyncio.wait({call.task, asked}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                asked.cancel()
            if call.task.done():
                return None
            if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                return self._wait(call, asked.result())
            await _elicit(ctx, asked.result())

    def _wait(self, call: Call, question: Question) -> types.InputRequiredResult:
        state = secrets.token_urlsafe(24)
        self._waiting[state] = call, question
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popitem(last=False)[1][1].settle("cancel", None)
        return types.InputRequiredResult(
            input_requests={KEY: types.ElicitRequest(params=_form(question))}, request_state=state
        )

    def _resumed(self, params: types.CallToolRequestParams) -> Call:
        """Return the call that an answer is for, which goes on with it."""
        state = params.request_state or ""
        call, question = self._waiting.get(state, (None, None))
        if call is None or question is None:
            raise MCPError(types.INVALID_PARAMS, "the question that this answers is over; nothing was run")
        if (call.tool.name, call.arguments) != (params.name, params.arguments or {}):
            raise MCPError(types.INVALID_PARAMS, "the answer is for another call than this; nothing was run")
        del self._waiting[state]
        answer = (params.input_responses or {}).get(KEY)
        question.take(answer if isinstance(answer, types.ElicitResult) else None)
        return call

    def _result(self, call: Call) -> types.CallToolResult:
        try:
            outcome = call.task.result()
        except HermesError as error:
            raise failed(error) from error
        except asyncio.CancelledError:
            raise MCPError(types.INTERNAL_ERROR, "the server ends, and the command with it") from None
        content: list[types.ContentBlock] = [types.TextContent(text=outcome.text)]
        if (link := self._resources.link(outcome)) is not None:
            content.append(link)
        return types.CallToolResult(content=content, structured_content=outcome.data, is_error=outcome.failed)


def failed(error: HermesError) -> MCPError:
    """Return what a client is told of a place that does not work: an error of the call, and no result."""
    data: Mapping[str, Any] = {
        "code": error.code,
        "status": status(error),
        "retryable": error.retryable,
        "hint": plain(error.hint) if error.hint else None,
    }
    return MCPError(types.INTERNAL_ERROR, f"the sandbox does not work: {plain(str(error))}", data)


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world,
        ),
    )


def _can_ask(ctx: Context) -> bool:
    """Say whether the client shows forms to its user. One that names no kind of them shows this one."""
    can = ctx.session.client_capabilities
    asks = can.elicitation if can is not None else None
    return asks is not None and (asks.form is not None or asks.url is None)


def _form(question: Question) -> types.ElicitRequestFormParams:
    return types.ElicitRequestFormParams(message=question.message, requested_schema=question.schema)


async def _elicit(ctx: Context, question: Question) -> None:
    """Ask by a request of our own; whatever goes wrong is a no. The question may end meanwhile."""
    asking = asyncio.create_task(
        ctx.session.elicit_form(question.message, question.schema, related_request_id=ctx.request_id)
    )
    over = asyncio.create_task(question.over.wait())
    try:
        await asyncio.wait({asking, over}, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            question.take(asking.result() if asking.exception() is None else None)
    finally:
        asking.cancel()
        over.cancel()
