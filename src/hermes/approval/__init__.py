"""Approval: what may run unasked, wherever the place is not itself the boundary.

A judge looks at a request and allows it, blocks it, or wants a human to be asked. ``check`` turns that,
the mode and the human's answer into one thing: it returns, or it raises ``Refused``.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from hermes.errors import Refused

if TYPE_CHECKING:
    from .engine import SessionState

__all__ = ["AllowAll", "Decision", "Judge", "Mode", "OnApproval", "Program", "Request", "check"]

Action = Literal["allow", "ask", "block"]
Severity = Literal["low", "medium", "high", "hardline"]
Mode = Literal["ask", "strict", "off"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is about to happen.

    ``text`` is the command line, the input for a running program, or the path of the file to be written.
    ``cwd`` is where it would run, None when that is not known; ``session`` the session's name, None for none.
    ``home``, ``workspace`` and ``agent_home`` are paths of the place: the user's home, the workspace, and
    hermes's own
    directory.
    """

    kind: Literal["run", "start", "pty", "input", "write"]
    text: str
    cwd: str | None = None
    session: str | None = None
    backend: str = ""
    home: str | None = None
    workspace: str | None = None
    agent_home: str | None = None


class Program(msgspec.Struct, frozen=True):
    """A program that would run, with its words resolved. A part that is not known is shown as ``…``."""

    argv: tuple[str, ...]
    cwd: str | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's answer, with the reason in words and the rule that gave it, if one did.

    ``programs`` is what would run; ``span`` the part of the request's text that gave the decision;
    ``read_only`` whether
    all of it is known to change nothing; ``key`` an exact description of the resolved commands, which a
    grant is bound to;
    ``after`` the state of the session when it has run.
    """

    action: Action
    reason: str = ""
    rule: str | None = None
    severity: Severity = "medium"
    programs: tuple[Program, ...] = ()
    span: tuple[int, int] | None = None
    read_only: bool = False
    key: str = ""
    after: Any = None


OnApproval = Callable[[Request, Decision], "bool | Awaitable[bool]"]
"""Asks a human. Only the very value True is a yes; may be async."""


class Judge(Protocol):
    """Decides on requests. Must not run, write or change anything, and must answer ``ask`` in doubt."""

    @property
    def name(self) -> str:
        """The name that ``describe()`` shows."""

    def judge(self, request: Request, state: SessionState | None = None) -> Decision:
        """Return the decision on one request in a session, None for a fresh one. It must be quick."""


class AllowAll:
    """The judge that allows everything."""

    name = "allow-all"

    def judge(self, request: Request, state: SessionState | None = None) -> Decision:
        return Decision(action="allow", reason="every command is allowed")


async def check(judge: Judge, request: Request, *, mode: Mode, on_approval: OnApproval | None) -> None:
    """Return when the request may go ahead.

    In mode ``off`` what should be asked goes ahead unasked, in mode ``strict`` it is refused unasked. What is
    blocked is refused in every mode. A judge or an ``on_approval`` that fails refuses as well.

    :raises Refused: it may not; nothing was run
    """
    try:
        decision = judge.judge(request)
    except Exception as error:
        raise _refused(request, f"the judge '{judge.name}' failed: {error!r}", None, None) from error
    if decision.action == "allow":
        return
    if decision.action != "ask":
        raise _refused(request, decision.reason, decision.rule, None)
    if mode == "off":
        return
    if mode == "strict":
        hint = "In strict mode nobody is asked: change the command, or allow it by a rule."
        raise _refused(request, decision.reason, decision.rule, hint)
    if on_approval is None:
        hint = "There is nobody to ask: pass on_approval, or run it where somebody can answer."
        raise _refused(request, decision.reason, decision.rule, hint)
    try:
        answer = on_approval(request, decision)
        if inspect.isawaitable(answer):
            answer = await answer
    except Refused:
        raise
    except Exception as error:
        raise _refused(request, f"asking failed: {error!r}", decision.rule, None) from error
    if answer is not True:
        raise _refused(request, f"the answer was no ({decision.reason})", decision.rule, None)


def _refused(request: Request, reason: str, rule: str | None, hint: str | None) -> Refused:
    by = f" (rule {rule})" if rule else ""
    return Refused(
        f"refused, and nothing was run: {reason or 'no reason was given'}{by}",
        rule=rule,
        operation=request.kind,
        hint=hint,
        context={"kind": request.kind, "reason": reason},
    )
