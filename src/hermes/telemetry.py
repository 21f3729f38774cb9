"""Spans of OpenTelemetry, by its API alone: where they go is up to the SDK that the program has set up.

A command is a span as the conventions for calling programs have it (``process.*``), a tool's call one as
those for models have it (``execute_tool``), above what it does. Commands are redacted as the log's are.
This module is imported when spans are wanted, and what it imports is the extra ``otel``.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._extra import pip_install
from .errors import HermesError, Refused

if TYPE_CHECKING:
    from opentelemetry import trace

    from ._watch import Entry
    from .approval import Decision
    from .channel.channel import Stream
    from .log._clean import Cleaner
    from .sandbox import Sandbox
    from .tools import Outcome

__all__ = ["Span", "Tracer", "flush", "tracer"]

FLUSH_MS = 3000
_PROGRAM = re.compile(r"\s*([A-Za-z0-9_./+-]{1,100})(?=\s|[;&|<>()]|\Z)")
_TRACED = ("file.", "tree.")  # operations of the guest that are spans of their own


def tracer(box: Sandbox) -> Tracer | None:
    """Return what makes a sandbox's spans; None without the extra, with a warning if asked for."""
    try:
        from opentelemetry import trace
    except ImportError:
        if box._config.telemetry.enabled:
            warnings.warn(
                "telemetry.enabled is true, but opentelemetry-api is not installed, so there are no spans: "
                f"{pip_install('otel')}",
                stacklevel=1,
            )
        return None
    from . import __version__
    from .log._clean import Cleaner

    return Tracer(trace.get_tracer("hermes", __version__), Cleaner(box._password), box)


def flush() -> None:
    """Give the SDK, where there is one, the time to send what it has; the process is about to end."""
    if "opentelemetry.trace" not in sys.modules:
        return
    from opentelemetry import trace

    send = getattr(trace.get_tracer_provider(), "force_flush", None)
    if send is not None:
        with contextlib.suppress(Exception):  # an exporter of somebody else's
            send(FLUSH_MS)


class Tracer:
    """Makes the spans of one open sandbox. Used from its event loop."""

    def __init__(self, tracer: trace.Tracer, clean: Cleaner, box: Sandbox) -> None:
        self._tracer = tracer
        self._clean = clean
        self._box = box
        self._content: object = None

    def _about(self) -> dict[str, Any]:
        box = self._box
        found = {"hermes.backend": box.backend, "hermes.sandbox": box.name, "hermes.client": box._client}
        host = box._options.get("host")
        return found if host is None else {**found, "server.address": str(host)}

    def _known(self) -> Cleaner:
        """Return what takes secrets out, also those that are declared by now."""
        supply = self._box._supply
        if supply is not None and supply.content is not self._content:
            self._content = supply.content
            declared = self._box._declared
            self._clean.know(declared.values(), declared.former)
        return self._clean

    def command(self, entry: Entry) -> Span:
        """Return the span of a command that is about to begin."""
        from opentelemetry.trace import SpanKind

        text = self._known().command(entry.raw)
        program = _PROGRAM.match(text)
        name = program[1] if program is not None else "sh"
        attributes: dict[str, Any] = {
            "process.command": name,
            "process.command_line": text,
            "process.executable.name": name.rpartition("/")[2] or name,
            "process.interactive": entry.size is not None,
            "hermes.operation": entry.kind,
            **self._about(),
        }
        if entry.session is not None:
            attributes["hermes.session"] = self._clean.text(entry.session.encode("utf-8", "replace"))
        if entry.cwd is not None:
            attributes["process.working_directory"] = self._clean.text(
                str(entry.cwd).encode("utf-8", "replace")
            )
        name = attributes["process.executable.name"]
        return Span(self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes), self._clean)

    def opened(self, began: float) -> None:
        """Make the span of opening the sandbox, which has just been done."""
        attributes = {"hermes.operation": "open", "hermes.origin": self._box._origin, **self._about()}
        span = self._tracer.start_span("open", attributes=attributes, start_time=int(began * 1e9))
        span.end()

    def stream(self, stream: Stream, args: Mapping[str, Any]) -> None:
        """Make the span of a call that has just been sent, if it is one of those about files."""
        if not stream.operation.startswith(_TRACED):
            return
        attributes = {"hermes.operation": stream.operation, **self._about()}
        if isinstance(path := args.get("path"), str):
            attributes["file.path"] = self._known().text(path.encode("utf-8", "replace"))
        span = Span(self._tracer.start_span(stream.operation, attributes=attributes), self._clean)

        def done(answer: Any) -> None:
            error = None if answer.cancelled() else answer.exception()
            span.end(None if error is None else _facts(error))

        stream._reply.add_done_callback(done)

    @contextlib.contextmanager
    def tool(self, name: str, description: str) -> Iterator[Callable[[Outcome], None]]:
        """Make the span of a tool's call, in which all that it does is; yields what is told the outcome."""
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.description": description,
            **self._about(),
        }
        with self._tracer.start_as_current_span(
            f"execute_tool {name}",
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as made:
            span = Span(made, self._clean, ends=False)

            def told(outcome: Outcome) -> None:
                reply = outcome.reply
                made.set_attribute("hermes.status", reply.status)
                if reply.error is not None:
                    span.fail(reply.error.code, reply.error.message)

            try:
                yield told
            except BaseException as error:
                span.end(_facts(error))
                raise


class Span:
    """One span that is open."""

    def __init__(self, span: trace.Span, clean: Cleaner, *, ends: bool = True) -> None:
        self._span = span
        self._clean = clean
        self._ends = ends

    def decided(self, decision: Decision | Refused | None) -> None:
        """Note what approval said."""
        if decision is None:
            return
        action = "refuse" if isinstance(decision, Refused) else decision.action
        self._span.set_attribute("hermes.approval.action", action)
        if decision.rule is not None:
            self._span.set_attribute("hermes.approval.rule", decision.rule)

    def fail(self, kind: str, message: str) -> None:
        """Note that it is an error, of a kind that programs can tell from others."""
        from opentelemetry.trace import Status, StatusCode

        self._span.set_attribute("error.type", kind)
        text = self._clean.text(message.encode("utf-8", "replace"))
        self._span.set_status(Status(StatusCode.ERROR, text or kind))

    def end(self, facts: Mapping[str, Any] | None) -> None:
        """End it, with what the log says of the end of a command."""
        facts = facts or {}
        if "status" in facts:
            self._span.set_attribute("hermes.status", facts["status"])
        code = facts.get("exit_code")
        if code is not None:
            self._span.set_attribute("process.exit.code", code)
        if facts.get("error") is not None:
            self.fail(facts["error"]["code"], facts["error"]["message"])
        elif facts.get("status") in ("timed_out", "cancelled"):
            self.fail(facts["status"], "")
        elif code:
            self.fail(str(code), f"exit code {code}")
        if self._ends:
            self._span.end(time.time_ns())


def _facts(error: BaseException) -> dict[str, Any]:
    if isinstance(error, HermesError):
        return {"error": {"code": error.code, "message": error.message}}
    return {"error": {"code": type(error).__name__, "message": ""}}
