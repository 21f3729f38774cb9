"""Grants: a yes that is kept, for exactly what it was given for.

A grant is bound to the judge's description of what would run (the text, what it comes to, what the session
adds), to what goes with it (variables, input), to the directory, the kind of request and the place. One for a
session is kept in memory by the process whose person gave it, so that no other process and no other session
has it; one for always is kept in the state store, and expires.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hermes.errors import HermesError
from hermes.state import Store

from . import Answer, Decision, Request
from .redact import redact

__all__ = ["DAYS", "OUTDATED", "Grant", "GrantStore", "Grants", "proposed", "variables"]

NOTE = "grants"  # of the state store
DAYS = 30
"""How long a grant for always holds."""
OUTDATED = (
    "no longer hold, and were removed: they did not name variables, documents and how commands are joined"
)
"""What is said of grants of an earlier hermes, after how many there were."""
FORM = "2:"  # how keys begin; those of before said too little of a command, and answer nothing


class Grant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A yes for always: to which commands (``key``), of which kind, at which place, until when.

    ``what`` says it to people, ``cwd`` in which directory; ``rule`` is what had asked. Times are seconds
    since the epoch.
    """

    id: str
    key: str
    kind: str
    backend: str
    host: str
    what: str
    cwd: str | None
    rule: str | None
    created: float
    expires: float

    @property
    def outdated(self) -> bool:
        """Whether it is of an earlier hermes, which bound grants less exactly: it grants nothing."""
        return not self.key.startswith(FORM)

    @property
    def place(self) -> str:
        return f"{self.backend}:{self.host}" if self.host else self.backend

    def covers(self, request: Request, decision: Decision, now: float) -> bool:
        """Return whether it is an answer to this very decision."""
        # An expiry further away than any that is given was not written by us, or the clock was set back.
        current = self.created - 60 <= now < self.expires <= self.created + DAYS * 86400 + 1
        return current and self.key == _key(request, decision)


class _File(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    version: int = 1
    grants: list[Grant] = msgspec.field(default_factory=list)


def proposed(request: Request, decision: Decision, now: float | None = None) -> Grant:
    """Return the grant that *always* would store, which is shown before it is."""
    now = time.time() if now is None else now
    key = _key(request, decision)
    return Grant(
        id=key[len(FORM) :][:8],  # the same for the same thing: what was shown can be found under it
        key=key,
        kind=request.kind,
        backend=request.backend,
        host=request.host,
        what=variables(request) + redact(request.text),
        cwd=request.cwd,
        rule=decision.rule,
        created=now,
        expires=now + DAYS * 86400,
    )


def variables(request: Request) -> str:
    """Return the variables that are set for a request as they would stand before it, without secrets."""
    return "".join(redact(f"{name}={shlex.quote(value)}") + " " for name, value in request.env)


def _key(request: Request, decision: Decision) -> str:
    """Return the same for the same thing, and for nothing else. No text of it can be read from that."""
    place = (request.kind, request.backend, request.host, request.cwd)
    whole = [*place, request.reader, request.stdin, request.env, decision.key]
    return FORM + hashlib.sha256(json.dumps(whole).encode()).hexdigest()


class GrantStore:
    """The grants for always of one hermes home. All methods block."""

    def __init__(self, home: Path | None = None) -> None:
        self._store = Store(home)

    def all(self) -> list[Grant]:
        """Return those that have not expired, the newest last.

        :raises HermesError: code ``state_unreadable``
        """
        now = time.time()
        return [grant for grant in self._read().grants if now < grant.expires]

    def find(self, request: Request, decision: Decision) -> Grant | None:
        """Return the grant that answers a decision. One that cannot be read grants nothing."""
        now = time.time()
        try:
            grants = self._read().grants
        except HermesError:
            return None
        return next((grant for grant in grants if grant.covers(request, decision, now)), None)

    def add(self, grant: Grant) -> None:
        """Store a grant, in place of one for the same.

        :raises HermesError: code ``state_unreadable``, ``state_unwritable`` or ``state_busy``
        """

        with self._changing() as grants:
            grants[:] = [other for other in grants if other.key != grant.key] + [grant]

    def retire(self) -> int:
        """Remove those of an earlier hermes, which grant nothing any more, and return how many there were."""
        try:
            if not any(grant.outdated for grant in self._read().grants):
                return 0
            with self._changing() as grants:
                before = len(grants)
                grants[:] = [grant for grant in grants if not grant.outdated]
                return before - len(grants)
        except HermesError:
            return 0

    def revoke(self, idents: list[str]) -> list[Grant]:
        """Remove grants by their ids, or all of them when there are no ids, and return what was removed.

        Without ids, what cannot be read is removed too.

        :raises HermesError: as :meth:`add` does
        """
        with self._changing(mend=not idents) as grants:
            gone = [grant for grant in grants if not idents or grant.id in idents]
            grants[:] = [grant for grant in grants if grant not in gone]
        return gone

    @contextlib.contextmanager
    def _changing(self, *, mend: bool = False) -> Iterator[list[Grant]]:
        with self._store.changing(NOTE) as note:
            try:
                file = self._decoded(note.content)
            except HermesError:
                if not mend:
                    raise
                note.content, file = None, _File()
            before = list(file.grants)
            yield file.grants
            now = time.time()
            file.grants = [grant for grant in file.grants if now < grant.expires]
            if file.grants != before or note.content is None:
                note.content = msgspec.json.encode(file).decode()

    def _read(self) -> _File:
        return self._decoded(self._store.note(NOTE))

    @staticmethod
    def _decoded(content: str | bytes | None) -> _File:
        if content is None:
            return _File()
        try:
            file = msgspec.json.decode(content, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HermesError(
                f"the grants for always cannot be used: {error}; nothing is granted by them",
                code="state_unreadable",
                hint="'hermes approvals revoke --all' removes them.",
            ) from error
        if file.version != 1:
            raise HermesError(
                f"the grants for always are of version {file.version}, which this hermes does not know",
                code="state_unreadable",
                hint="Use the hermes that wrote them.",
            )
        return file


class Grants:
    """What was granted, as one client sees it: what is stored, and what its own sessions were given."""

    def __init__(self, store: GrantStore | None = None) -> None:
        self._stored = store or GrantStore()
        self._sessions: set[tuple[str | None, str]] = set()

    async def find(self, request: Request, decision: Decision) -> str | None:
        """Return by which kind of grant a decision was answered before, None for none."""
        if not decision.grantable:
            return None
        if (request.session, _key(request, decision)) in self._sessions:
            return "session grant"
        found = await asyncio.to_thread(self._stored.find, request, decision)
        return f"grant {found.id}" if found is not None else None

    async def keep(self, request: Request, decision: Decision, answer: Answer) -> None:
        """Keep an answer that is to hold for longer than once."""
        if answer is Answer.SESSION:
            self._sessions.add((request.session, _key(request, decision)))
        elif answer is Answer.ALWAYS:
            await asyncio.to_thread(self._stored.add, proposed(request, decision))

    def forget(self, session: str | None) -> None:
        """Forget what a session was given; it has ended."""
        self._sessions = {one for one in self._sessions if one[0] != session}
