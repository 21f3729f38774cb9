"""One call of a tool: a task of its own, which its client asks about, watches, answers and ends."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any

from mcp.server import ServerRequestContext

from hermes.sandbox import Sandbox
from hermes.tools import Outcome, Tool
from hermes.tools._result import readable

from ._asking import CURRENT, Line

__all__ = ["Call"]

SILENCE = 5.0  # seconds after which a client is told that a silent command still runs
PAUSE = 0.2  # seconds between two reports
SHOWN = 2000  # bytes of output in one


class Call:
    """A tool at work. It outlives a request that ends with a question, and no other."""

    def __init__(
        self, box: Sandbox, tool: Tool, arguments: Mapping[str, Any], *, line: Line, live: bool
    ) -> None:
        """Begin.

        :param live: the client wants to see output as it comes
        """
        self.tool = tool
        self.arguments = dict(arguments)
        self.line = line
        self._begun = time.monotonic()
        self._fresh = bytearray()
        self._some = asyncio.Event()
        self.task = asyncio.create_task(self._run(box, live))

    async def _run(self, box: Sandbox, live: bool) -> Outcome:
        CURRENT.set(self.line)
        return await self.tool.call(box, self.arguments, on_output=self._take if live else None)

    def _take(self, data: bytes) -> None:
        self._fresh += data
        if len(self._fresh) > 2 * SHOWN:
            del self._fresh[:-SHOWN]
        self._some.set()

    async def report(self, ctx: ServerRequestContext[Any, Any]) -> None:
        """Tell the client of output, and now and then that there is none, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SILENCE):
                    await self._some.wait()
            self._some.clear()
            text, elapsed = readable(bytes(self._fresh[-SHOWN:])), time.monotonic() - self._begun
            self._fresh.clear()
            waits = "waits for an answer" if self.line.waits else "runs"
            message = text or f"{self.tool.name} {waits} since {elapsed:.0f} s"
            try:
                await ctx.session.report_progress(round(elapsed, 3), None, message)
            except Exception:  # it is gone; whoever serves it finds that out
                return
            await asyncio.sleep(PAUSE)

    async def end(self) -> None:
        """End it with the command that it runs."""
        self.task.cancel()
        await asyncio.wait({self.task}, timeout=SILENCE)
