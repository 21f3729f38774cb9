"""The approval point of one sandbox: everything that is to happen in it passes here first.

It knows what judges need and callers do not say: where a session is and what it has defined. Sessions are
followed by the judge's own account of each command. Where that cannot be trusted (a command failed,
another client used the session) the guest is asked what the shell has now.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from hermes.errors import HermesError, Refused

from . import (
    UNKNOWN,
    USER_RULE,
    Advise,
    AllowAll,
    Decision,
    Judge,
    Kind,
    Log,
    Mode,
    Nobody,
    OnApproval,
    Request,
    check,
    decide,
)
from .grants import Grants

if TYPE_CHECKING:
    from .password import Password

__all__ = ["Fetched", "Gate", "Place", "Ticket"]

MAX_STDIN = 1 << 17  # bytes of input that are judged with their command
UNSURE = "what this session has defined is not known: another client uses it, or it is too much"
MAX_PIECE = 12_000  # characters of what a shell says of itself that are judged at once
_UNREAD = frozenset(("unparsable", "too-long", "judge-failed"))
TRIES = 5  # at a session that other clients use too


class Place(msgspec.Struct, kw_only=True):
    """Where a sandbox is: what every request says."""

    backend: str
    host: str = ""
    cwd: str | None = None
    home: str | None = None
    workspace: str | None = None
    agent_home: str | None = None


class Fetched(NamedTuple):
    """What the guest says of a session: is it there, how many commands it was given, its state."""

    known: bool
    turn: int
    busy: bool
    whole: bool
    cwd: str
    script: str


class _Session:
    """What is known of a session. ``turn`` is None when the guest has to be asked."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.idle = asyncio.Event()
        self.idle.set()
        self.running = 0
        self.turn: int | None = None
        self.counted = 0  # what it is when no other client uses it
        self.state: Any = None
        self.cwd: str | None = None
        self.sure = True


class Ticket:
    """A command that may run. ``args`` go with its call, ``sent`` is called at once after that was sent.

    The session is kept for it until then, so that what was judged is what runs.
    """

    def __init__(
        self,
        session: _Session | None = None,
        after: Any = None,
        cwd: str | None = None,
        *,
        moves: bool = True,
        decision: Decision | None = None,
    ) -> None:
        self.args: dict[str, Any] = {}
        self.decision = decision
        self._session = session
        self._before = None if session is None else session.state
        self._after = after
        self._cwd = cwd
        self._moves = moves
        self._holds = session is not None
        self._runs = False
        if session is not None:
            self.args["turn"] = session.turn

    def sent(self) -> None:
        session = self._session
        if session is None or not self._holds:
            return
        self._holds = False
        if self._moves:
            self._runs = True
            session.running += 1
            session.idle.clear()
            session.counted = (session.turn or 0) + 1
            # One that was not there yet counts from where the guest says.
            session.turn = session.turn + 1 if session.turn else None
            session.state = self._after
            session.cwd = self._cwd
        session.lock.release()

    def void(self) -> None:
        """Say that it was sent and did not run."""
        if self._session is None:
            return
        self._session.counted -= self._moves
        if self._session.state is self._after:
            self._session.state = self._before

    def ended(self, cwd: str | None = None, *, well: bool = False) -> None:
        """Say that it has run, and whether as it was foreseen; without that the session is looked at anew."""
        session = self._session
        if session is None:
            return
        if self._holds:  # it was not sent
            self._holds = False
            session.lock.release()
        if not self._runs:
            if not well and self._moves:
                session.turn = None
            return
        self._runs = False
        session.running -= 1
        if not session.running:
            session.idle.set()
        if not well or self._cwd != cwd:
            session.turn = None
        session.cwd = cwd or session.cwd


class Gate:
    """Asks the judge, what was granted, and the person, for all that one client does in one sandbox."""

    def __init__(
        self,
        judge: Judge,
        place: Place,
        *,
        mode: Mode = "ask",
        on_approval: OnApproval | Nobody | None = None,
        scope: Literal["all", "rules"] = "all",
        user_rules: Collection[str] = (),
        fetch: Callable[[str], Awaitable[Fetched]] | None = None,
        env: Mapping[str, str] | None = None,
        grants: Grants | None = None,
        log: Log | None = None,
        advise: Advise | None = None,
        timeout: float | None = None,
    ) -> None:
        """Nothing is asked yet.

        :param scope: ``rules`` for a place that is a sandbox: only what the user's own rules block is refused
        :param user_rules: ids of those that do not show whose they are
        :param fetch: returns what the guest says of a session
        :param env: variables of every session
        """
        self.judge = judge
        self.place = place
        self.mode = mode
        self.scope = scope
        self._user_rules = frozenset(user_rules)
        self._on_approval = on_approval
        self._fetch = fetch
        self._env = dict(env or {})
        self._grants = grants
        self._log = log
        self._advise = advise
        self._timeout = timeout
        self.password: Password | None = None
        self._sessions: dict[str, _Session] = {}
        self._follows = fetch is not None and not isinstance(judge, AllowAll)

    def request(self, kind: Kind, text: str, **more: Any) -> Request:
        """Return a request in this place; where sessions begin, unless *more* names another directory."""
        place = self.place
        more.setdefault("cwd", place.cwd)
        return Request(
            kind=kind,
            text=text,
            backend=place.backend,
            host=place.host,
            home=place.home,
            workspace=place.workspace,
            agent_home=place.agent_home,
            **more,
        )

    async def check(self, request: Request, state: Any = None, decision: Decision | None = None) -> Decision:
        """Return the decision when a request may go ahead.

        :raises Refused: it may not
        """
        decision = decision or await self.decide(request, state)
        theirs = decision.action == "block" and self._is_users(decision.rule or "")
        if self.scope == "rules" and not theirs:
            return decision
        return await check(
            self.judge,
            request,
            mode=self.mode,
            on_approval=self._on_approval,
            state=state,
            decision=decision,
            grants=self._grants,
            log=self._log,
            advise=self._advise,
            timeout=self._timeout,
        )

    async def decide(self, request: Request, state: Any = None) -> Decision:
        """Return the judge's own decision; off the event loop where the judge looks at the disk."""
        if getattr(self.judge, "looks_at_disk", False):
            found: Decision | None = self.judge.judge_at_once(request, state)  # type: ignore[attr-defined]
            if found is not None and request.stdin is None:
                return found
            return await asyncio.to_thread(decide, self.judge, request, state)
        return decide(self.judge, request, state)

    def _is_users(self, rule: str) -> bool:
        return rule.startswith(USER_RULE) or rule in self._user_rules

    # --- commands

    async def command(
        self,
        kind: Kind,
        text: str,
        *,
        session: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: object = None,
        moves: bool = True,
    ) -> Ticket:
        """Return leave to run a command.

        :param session: whose state it begins with, None for a shell of its own
        :param cwd: as it was asked for, perhaps relative
        :param stdin: what it will read: bytes, text, or something that yields them
        :param moves: it runs in the session itself, and changes it
        :raises Refused: it may not run
        """
        given = {
            "session": session if kind == "run" else None,
            "stdin": _stdin_text(stdin),
            "env": tuple((env or {}).items()),
        }
        if session is None or not self._follows:
            state = await self._with(None, self._env)
            request = self.request(kind, text, cwd=self.at(self.place.cwd, cwd), **given)
            decision = await self.check(request, *await self._decided(request, state, env))
            self._passed(text, decision)
            return Ticket(decision=decision)
        known = self._sessions.get(session) or self._sessions.setdefault(session, _Session())
        await known.lock.acquire()
        try:
            if known.turn is None or not known.sure:
                await self._load(session, known)
            request = self.request(kind, text, cwd=self.at(known.cwd, cwd), **given)
            state, decision = await self._decided(request, known.state, env)
            asks = decision.action == "block" or (decision.action == "ask" and self.mode != "off")
            if asks and await self._load(session, known):
                request = msgspec.structs.replace(request, cwd=self.at(known.cwd, cwd))
                state, decision = await self._decided(request, known.state, env)
            if decision.action == "allow" and decision.after is None:
                self._follows = False  # a judge that looks at each command by itself
            elif not known.sure and decision.action == "allow":
                decision = msgspec.structs.replace(
                    decision, action="ask", reason=UNSURE, key="", read_only=False
                )
            decision = await self.check(request, state, decision)
            self._passed(text, decision)
        except BaseException:
            known.lock.release()
            raise
        if env or cwd is not None:
            known.sure = known.sure and not moves  # what was set for this command alone is not the session's
        foreseen = self.plain(getattr(decision.after, "cwd", None))
        return Ticket(known, decision.after, foreseen, moves=moves, decision=decision)

    def _passed(self, text: str, decision: Decision) -> None:
        if self.password is not None:
            self.password.passed(text, decision)

    async def _decided(
        self, request: Request, state: Any, env: Mapping[str, str] | None
    ) -> tuple[Any, Decision]:
        """Return the state in which a command would run, and the decision on it and on its variables."""
        if not env or isinstance(self.judge, AllowAll):
            return state, await self.decide(request, state)
        setting = msgspec.structs.replace(request, text=_exports(env), stdin=None, env=())
        first = await self.decide(setting, state)
        if first.after is not None:
            state = first.after
        decision = await self.decide(request, state)
        if _rank(first) > _rank(decision):
            names = ", ".join(env)
            decision = msgspec.structs.replace(
                decision,
                action=first.action,
                reason=f"by a variable that is set for it ({names}): {first.reason}",
                rule=first.rule,
                severity=first.severity,
                span=None,
            )
        return state, msgspec.structs.replace(decision, read_only=False)

    async def _with(self, state: Any, env: Mapping[str, str]) -> Any:
        if not env or not self._follows:
            return state
        return (await self.decide(self.request("run", _exports(env)), state)).after

    def plain(self, path: str | None) -> str | None:
        """Return a directory as a judge names it as a path of the place, None when it is not known."""
        if path is None or not path.isprintable() or UNKNOWN in path:
            return None
        if path == "~" or path.startswith("~/"):
            return None if self.place.home is None else self.place.home + path[1:]
        return path

    def at(self, base: str | None, cwd: str | None) -> str | None:
        """Return the directory that a call asks for, None when it cannot be told."""
        if cwd is None:
            return base
        cwd = os.fspath(cwd)
        if cwd == "~" or cwd.startswith("~/"):
            return None if self.place.home is None else os.path.normpath(self.place.home + cwd[1:])
        if cwd.startswith("~") or (base is None and not os.path.isabs(cwd)):
            return None
        return os.path.normpath(os.path.join(base or "/", cwd))

    async def _load(self, name: str, known: _Session) -> bool:
        """Ask the guest what a session has defined, let the judge read it; return whether that was news."""
        assert self._fetch is not None
        await known.idle.wait()
        found = await self._fetch(name)
        if found.turn == known.turn and known.sure:
            return False
        known.turn = found.turn
        known.cwd = found.cwd if found.known else self.place.cwd
        if not found.known:
            known.state, known.sure = await self._with(None, self._env), True
            return True
        # From the start: what it was thought to have and has no longer is not told.
        before = await self._with(None, self._env)
        after = await self._told(name, known, found.script, before)
        goes_on = known.state is not None and hasattr(known.state, "going_on")
        if after is not None:
            known.state = after.going_on(known.state) if goes_on else after
        elif not goes_on:
            known.state = before
        # What cannot be read was at least followed, where this client did all of it.
        alone = known.counted in (found.turn, found.turn & 0xFFFFFFFF)
        read = after is not None or (goes_on and alone)
        known.sure = read and found.whole and not found.busy
        return True

    async def _told(self, name: str, known: _Session, script: str, state: Any) -> Any:
        """Return the state that a shell's account of itself comes to, None where it cannot be read."""
        for text in _pieces(script):
            request = self.request("run", text, cwd=known.cwd, session=name)
            try:
                decision = await self.decide(request, state)
            except Refused:
                return None
            if not _UNREAD.isdisjoint((decision.rule, *(one.rule for one in decision.also))):
                return None
            state = decision.after
        return state

    def moved(self, name: str, tries: int, error: HermesError) -> None:
        """Note that a session is not as it was known. After some tries that is an error.

        :raises HermesError: the one that is given
        """
        if name in self._sessions:
            self._sessions[name].turn = None
        if tries >= TRIES:
            raise error

    def forget(self, name: str) -> None:
        """Forget a session that was closed, with what it was granted."""
        self._sessions.pop(name, None)
        if self._grants is not None:
            self._grants.forget(name)

    def forget_all(self) -> None:
        """Forget what sessions have: the next guest may be another one."""
        self._sessions.clear()


def _rank(decision: Decision) -> int:
    return ("allow", "ask", "block").index(decision.action)


def _exports(env: Mapping[str, str]) -> str:
    return "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())


def _stdin_text(stdin: object) -> str | None:
    if stdin is None:
        return None
    if isinstance(stdin, str):
        stdin = stdin.encode("utf-8", "surrogateescape")
    if isinstance(stdin, bytes | bytearray | memoryview) and len(stdin) <= MAX_STDIN:
        return bytes(stdin).decode("utf-8", "surrogateescape") or None
    return UNKNOWN


def _pieces(script: str) -> list[str]:
    """Return an account of a shell in parts that a judge takes, each whole lines and functions."""
    if len(script) <= MAX_PIECE:
        return [script]
    pieces, start = [], 0
    for match in re.finditer(r"^(?:\}|declare [^\n]*\"|alias [^\n]*')\n", script, re.MULTILINE):
        if match.end() - start > MAX_PIECE // 2:
            pieces.append(script[start : match.end()])
            start = match.end()
    return [*pieces, script[start:]]
