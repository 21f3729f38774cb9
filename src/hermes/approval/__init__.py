"""Approval: what may run unasked, wherever the place is not itself the boundary.

A judge looks at a request and allows it, blocks it, or wants a person to be asked. ``check`` turns that, the
mode, what was granted before and the person's answer into one thing: it returns, or it raises ``Refused``.
"""

from __future__ import annotations

import asyncio
import enum
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from hermes._lazy import Lazy
from hermes.errors import ConfigError, HermesError, Refused

if TYPE_CHECKING:
    from hermes.config import Approvals

    from .grants import Grants

    SessionState = Any  # the engine's own: nobody else looks into it

__all__ = [
    "Action",
    "AllowAll",
    "Answer",
    "Decision",
    "Judge",
    "Mode",
    "Nobody",
    "OnApproval",
    "Program",
    "Request",
    "check",
    "decide",
    "refusal",
    "standard_judge",
]

Action = Literal["allow", "ask", "block"]
Kind = Literal["run", "start", "pty", "input", "write"]
Mode = Literal["ask", "strict", "off"]
Severity = Literal["low", "medium", "high", "hardline"]

UNKNOWN = "…"
"""Stands for text that cannot be known before the command runs."""

USER_RULE = "user-"
"""What the ids begin with of rules that come of ``approvals.deny``, ``ask`` and ``allow``."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is about to happen.

    ``text`` is the command line, the input for a running program, or the path of the file to be written.
    ``cwd`` is where it would run, None when that is not known; ``session`` the session's name, None for none.
    ``host`` tells places of one backend apart where they differ: another machine, a container's name.
    ``home``, ``workspace`` and ``agent_home`` are paths inside the place: the user's home, the workspace,
    and hermes's own directory. ``stdin`` is what the command will read, ``…`` when that is not known yet, and
    None for nothing; ``reader`` the command line of the program that is to read an ``input``. ``env`` is the
    variables that are set for it alone.
    """

    kind: Kind
    text: str
    cwd: str | None = None
    session: str | None = None
    backend: str = ""
    host: str = ""
    home: str | None = None
    workspace: str | None = None
    agent_home: str | None = None
    stdin: str | None = None
    reader: str | None = None
    env: tuple[tuple[str, str], ...] = ()


class Program(msgspec.Struct, frozen=True):
    """One program that would run, with its arguments as it would get them; unknown ones hold ``…``.

    ``text`` is how a shell is told it where quoting its arguments would say something else: patterns.
    ``asked``: something is said of it; ``seems``: the line would run it if it were as it looks.
    """

    argv: tuple[str, ...]
    cwd: str | None = None
    text: str = ""
    asked: bool = False
    seems: bool = False

    @property
    def known(self) -> bool:
        """Whether every word of it is known."""
        return not any(UNKNOWN in word for word in self.argv) and UNKNOWN not in (self.cwd or "")


class Reason(msgspec.Struct, frozen=True):
    """Why a request is asked about, or blocked: in words, by which rule, and for which part of its text."""

    reason: str
    rule: str
    span: tuple[int, int]


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's answer, with the reason in words and the rule that gave it, if one did.

    ``programs`` is what would run, ``span`` the part of the request's text (in characters) that decided.
    ``read_only``: everything in it is known to change nothing. ``key`` describes exactly what would run, and
    where: what a grant is bound to; empty when there is no such description. ``after`` is the state of the
    session once it has run. ``comment`` is a second opinion, for the person who is asked. ``also`` has what
    else is to be said of it, the worst first.
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
    comment: str = ""
    also: tuple[Reason, ...] = ()

    @property
    def grantable(self) -> bool:
        """Whether a yes to this may be kept: all of it is known, and it is not among the worst."""
        known = bool(self.programs) and all(program.known for program in self.programs)
        return self.action == "ask" and self.severity != "hardline" and bool(self.key) and known


class Answer(enum.Enum):
    """What a person says who is asked."""

    NO = "no"
    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"


class Nobody:
    """There is nobody to ask; *hint* says what can be done about it."""

    how = "nobody"

    def __init__(self, hint: str = "") -> None:
        self.hint = hint or "There is nobody to ask: pass on_approval, or run it where somebody can answer."


OnApproval = Callable[[Request, Decision], "bool | Answer | Awaitable[bool | Answer]"]
"""Asks a person. Only the very value True and an ``Answer`` are a yes; may be async.

It may raise what :func:`refusal` makes: a no with the person's reason.
"""


class Judge(Protocol):
    """Decides on requests. Must not run, write or change anything, and must answer ``ask`` in doubt."""

    @property
    def name(self) -> str:
        """The name that ``describe()`` shows."""

    def judge(self, request: Request, state: SessionState | None = None) -> Decision:
        """Return the decision on one request. It is called on the event loop, so it must be quick.

        :param state: what ``after`` of the session's decision before was, None for a fresh session
        """


class AllowAll:
    """The judge that allows everything."""

    name = "allow-all"

    def judge(self, request: Request, state: SessionState | None = None) -> Decision:
        return Decision(action="allow", reason="every command is allowed", rule="allow-all")


class Log(Protocol):
    """Keeps what was asked and answered."""

    def note(self, request: Request, decision: Decision, answer: str, how: str) -> None:
        """Write one entry; blocks.

        :raises HermesError: it could not be written
        """


Advise = Callable[[Request, Decision], Awaitable[str]]
"""Returns a comment on a decision; empty for none. Does not fail."""


def standard_judge(
    approvals: Approvals,
    *,
    agent_home: str | None = None,
    sudo_password: bool = False,
    look_at_disk: bool = False,
) -> Judge:
    """Return the judge that the configuration asks for: hermes's own rules, and the user's.

    :param look_at_disk: the place is this machine: symbolic links are followed
    :raises ConfigError: one of the user's rules is none
    """
    from ._rules import BadRule
    from .engine import Engine

    try:
        return Engine(
            rules=approvals.rules,
            deny=approvals.deny,
            ask=approvals.ask,
            allow=approvals.allow,
            allow_regenerable=approvals.allow_regenerable,
            sudo_password=sudo_password,
            agent_home=agent_home,
            look_at_disk=look_at_disk,
        )
    except BadRule as error:
        key = f"approvals.{error.key}"
        raise ConfigError(
            f"{_origin(key)}{key}: {error}", hint="docs/approval-rules.md says how rules are written."
        ) from error


def _origin(key: str) -> str:
    """Return where a setting comes from, before a colon; empty where that is not known."""
    from hermes.config._load import sources

    try:
        found = sources().origin(key)
    except ConfigError:
        return ""
    return "" if found == "default" else f"{found}: "


def decide(judge: Judge, request: Request, state: SessionState | None = None) -> Decision:
    """Return a judge's decision; what a command reads is judged with it where a shell would run that.

    :raises Refused: the judge failed, or gave no decision
    """
    try:
        decision = judge.judge(request, state)
        if request.stdin is not None and decision.action == "allow" and _reads_code(decision):
            decision = _on_input(judge, request, decision)
        elif request.stdin is not None and _reads_code(decision):
            decision = msgspec.structs.replace(decision, key="")  # what it would run is not in the key
    except Exception as error:
        raise refusal(request, f"the judge '{judge.name}' failed: {error!r}") from error
    if decision.action not in ("allow", "ask", "block"):
        raise refusal(request, decision.reason, decision.rule)
    return decision


SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "su"))
INTERPRETER = Lazy(r"(?:python|pypy|perl|ruby|node|nodejs|bun|deno|php|lua|Rscript|tclsh|guile)[\d.]*")
GIVEN = frozenset(("-c", "-e", "-m", "-r", "--eval", "--command", "--version", "--help", "-V", "-h"))


def _reads_code(decision: Decision) -> bool:
    """Return whether one of the programs would take what it reads for code."""
    return any(_is_code_for(program.argv) for program in decision.programs)


def _is_code_for(argv: Sequence[str]) -> bool:
    name = argv[0].rpartition("/")[2] if argv else ""
    if name == "busybox" and len(argv) > 1:
        return _is_code_for(argv[1:])
    operands = [word for word in argv[1:] if not word.startswith("-")]
    options = {word for word in argv[1:] if word.startswith("-")}
    if name == "ssh":
        return len(operands) < 2
    if name in SHELLS:
        short = "".join(word[1:] for word in options if not word.startswith("--"))
        return "c" not in short and ("s" in short or not operands or name == "su")
    return INTERPRETER.fullmatch(name) is not None and not operands and not options & GIVEN


def _is_shell(argv: Sequence[str]) -> bool:
    return argv[0].rpartition("/")[2] in SHELLS | {"busybox", "ssh"}


def _on_input(judge: Judge, request: Request, decision: Decision) -> Decision:
    assert request.stdin is not None
    readers = [program.argv for program in decision.programs if _is_code_for(program.argv)]
    if request.stdin == UNKNOWN or len({_is_shell(argv) for argv in readers}) > 1:
        reason = "it would run what it reads, and that cannot be judged"
        return msgspec.structs.replace(decision, action="ask", reason=reason, key="", read_only=False)
    reader = None if _is_shell(readers[0]) else readers[0][0]
    fed = msgspec.structs.replace(request, kind="input", text=request.stdin, stdin=None, reader=reader)
    inner = judge.judge(fed)
    if inner.action == "allow":
        return msgspec.structs.replace(decision, read_only=decision.read_only and inner.read_only)
    reason = f"in what it reads: {inner.reason}"
    also = tuple(msgspec.structs.replace(one, span=(0, 0)) for one in inner.also)  # not of this text
    return msgspec.structs.replace(inner, reason=reason, span=None, also=also, key="", after=decision.after)


async def check(
    judge: Judge,
    request: Request,
    *,
    mode: Mode,
    on_approval: OnApproval | Nobody | None,
    state: SessionState | None = None,
    decision: Decision | None = None,
    grants: Grants | None = None,
    log: Log | None = None,
    advise: Advise | None = None,
    timeout: float | None = None,
) -> Decision:
    """Return the decision when the request may go ahead.

    In mode ``off`` what should be asked goes ahead unasked; in mode ``strict`` everything is asked that is
    neither known to be read-only nor allowed by a rule. What is blocked is refused in every mode. A judge or
    an ``on_approval`` that fails refuses as well, and so does a log that cannot be written.

    :param decision: the judge's, when it was asked before
    :param timeout: seconds after which no answer is a no
    :raises Refused: it may not; nothing was run
    """
    if decision is None:
        decision = decide(judge, request, state)
    if decision.action == "allow" and mode == "strict" and not decision.read_only and decision.rule is None:
        reason = "in strict mode only what is known to be read-only runs unasked"
        decision = msgspec.structs.replace(decision, action="ask", reason=reason)
    if decision.action == "allow":
        return decision
    if decision.action == "block":
        await _note(log, request, decision, "block", "rule", must=False)
        hint = "A block holds in every mode: change the command."
        raise refusal(request, decision.reason, decision.rule, hint)
    if mode == "off":
        await _note(log, request, decision, "allow", "mode")
        return decision
    how = await grants.find(request, decision) if grants is not None else None
    if how is not None:
        await _note(log, request, decision, "allow", how)
        return decision
    on_approval = on_approval or Nobody()
    if isinstance(on_approval, Nobody):
        await _note(log, request, decision, "no", on_approval.how, must=False)
        raise refusal(request, decision.reason, decision.rule, on_approval.hint)
    if advise is not None and (comment := await advise(request, decision)):
        decision = msgspec.structs.replace(decision, comment=comment)
    how = getattr(on_approval, "how", "callback")
    try:
        async with asyncio.timeout(timeout):
            answer = await _asked(on_approval, request, decision)
    except TimeoutError:
        await _note(log, request, decision, "no", "timeout", must=False)
        reason = f"nobody answered within {timeout:g} s ({decision.reason})"
        raise refusal(request, reason, decision.rule) from None
    except Refused:  # a no with a reason of its own
        await _note(log, request, decision, "no", how, must=False)
        raise
    if answer is Answer.NO:
        await _note(log, request, decision, "no", how, must=False)
        raise refusal(request, f"the answer was no ({decision.reason})", decision.rule)
    if not decision.grantable or grants is None:
        answer = Answer.ONCE
    await _note(log, request, decision, answer.value, how)
    if grants is not None:
        await grants.keep(request, decision, answer)
    return decision


async def _asked(on_approval: OnApproval, request: Request, decision: Decision) -> Answer:
    try:
        answer = on_approval(request, decision)
        if inspect.isawaitable(answer):
            answer = await answer
    except Refused:
        raise
    except Exception as error:
        raise refusal(request, f"asking failed: {error!r}", decision.rule) from error
    if isinstance(answer, Answer):
        return answer
    return Answer.ONCE if answer is True else Answer.NO


async def _note(
    log: Log | None, request: Request, decision: Decision, answer: str, how: str, *, must: bool = True
) -> None:
    """Keep an answer. Where it is a yes nothing runs unless it could be kept."""
    if log is None:
        return
    try:
        await asyncio.to_thread(log.note, request, decision, answer, how)
    except HermesError as error:
        if must:
            raise refusal(
                request, f"the answer could not be written to the audit log: {error.message}", hint=error.hint
            ) from error


def refusal(request: Request, reason: str, rule: str | None = None, hint: str | None = None) -> Refused:
    """Return the error that says why nothing was run."""
    by = f" (rule {rule})" if rule else ""
    return Refused(
        f"refused, and nothing was run: {reason or 'no reason was given'}{by}",
        rule=rule,
        operation=request.kind,
        hint=hint,
        context={"kind": request.kind, "reason": reason},
    )
