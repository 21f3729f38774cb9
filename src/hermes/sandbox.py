"""The sandbox: what a user holds. One place, and everything that can be done in it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

from . import _travelling, _watch, auto, backends
from . import approval as approvals
from ._gate import gate_of
from ._settle import settle
from ._tasks import settled
from .config import Config, Lifetime, given_duration
from .errors import HermesError, JobError, SandboxGone
from .places import Origin, Wanted, end, find_or_create, locked, note_use, used
from .session import (
    OnOutput,
    Result,
    RunOptions,
    SessionInfo,
    Shell,
    Stdin,
    call_args,
    command_bytes,
    run_command,
)
from .state import SandboxRecord, Store, check_name

if TYPE_CHECKING:
    from ._budget import Budget
    from .approval.gate import Gate, Ticket
    from .approval.typed import Typed
    from .backends.base import Backend
    from .channel.channel import Channel
    from .credentials.supply import Declared, Supply
    from .files import Files
    from .job import Job, JobInfo
    from .pty import Pty
    from .travel import Travel
    from .workspace import Workspace

__all__ = ["Sandbox"]

DEFAULT_SESSION = "default"


class Sandbox:
    """A place where commands run, opened by ``async with``.

    A sandbox with a name lives on when it is left and is found again under that name; one without is
    destroyed when it is left.
    """

    def __init__(
        self,
        backend: str | None = None,
        *,
        name: str | None = None,
        workspace: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | str | None = None,
        approval: approvals.Mode | None = None,
        on_approval: approvals.OnApproval | approvals.Nobody | None = None,
        judge: approvals.Judge | None = None,
        lifetime: Lifetime | None = None,
        reconnect_for: float | str | None = None,
        recreate: bool = False,
        on_progress: Callable[[str], None] | None = None,
        budget: float | str | None = None,
        config: Config | None = None,
        **options: Any,
    ) -> None:
        """Describe the sandbox; nothing is started before it is opened.

        :param backend: the place's name, None for the configured one
        :param workspace: ``private``, ``here`` or a path
        :param cwd: where sessions begin, inside; None for the workspace
        :param env: variables of every session
        :param timeout: seconds a command may take when it does not say so itself, None for no limit
        :param approval: ``ask``, ``strict`` or ``off``; None for the configured mode
        :param on_approval: answers what must be asked; without it that is refused
        :param judge: decides instead of hermes's own rules
        :param reconnect_for: seconds for which a lost link is sought, None for the place's own choice
        :param recreate: when there is one of that name with other settings, make it anew; its files stay
        :param budget: what this client may spend, as ``5`` or ``5usd``; the sandbox is suspended then
        :param on_progress: gets lines for people about what takes long: pulling an image, waiting in a queue
        :param options: the backend's own, and ``image``, ``network``, ``limits``, ``persistent``, ``keep``
        """
        self._settled = config
        self.backend = backend or ""
        self.named = name is not None
        if self.named:
            check_name(str(name))
        self.name = name or f"tmp-{os.urandom(4).hex()}"
        self.id = ""
        self.cwd = cwd or ""
        self._env = dict(env or {})
        self._timeout = given_duration(timeout, "timeout")
        self._mode: approvals.Mode | None = approval
        self._on_approval = on_approval
        self._judge = judge
        self._lifetime = lifetime
        self._reconnect_for = given_duration(reconnect_for, "reconnect_for")
        self._workspace = workspace
        self._recreate = recreate
        self._on_progress = on_progress
        self._options = options
        self._client = os.urandom(4).hex()
        self._place: Backend | None = None
        self._open_channel: Channel | None = None
        self._noting: asyncio.Future[None] | None = None
        self._record: SandboxRecord | None = None
        self._session = DEFAULT_SESSION  # which one is meant where none is named
        self._sessions: set[str] = set()
        self._base: dict[str, Any] = {}
        self._here = ""
        self._gate: Gate | None = None
        self._password: str | None = None
        self._declared: Declared
        self._folders: tuple[str, ...]
        self._store: Store
        self._supply: Supply | None = None
        self._travel: Travel | None = None
        self._at_home = False  # commands see this user's own home
        self._watch: _watch.Watch | None = None
        self._idle: asyncio.Task[None] | None = None
        self._asleep = False  # suspended here; the next command wakes it
        self._slept: Any = None  # the guest that ran then, where nobody had asked for that
        self._sleeping = asyncio.Lock()
        self._amount = budget
        self._budget: Budget | None = None
        self._asked = 0  # commands that wait for approval
        self._origin: Origin = "there"
        self._root: str | None = None

    # --- opening and leaving

    async def open(self, *, create: bool = True) -> Sandbox:
        """Bring the place up, or attach to it when it has a name and is there.

        :param create: False attaches only
        :raises SandboxGone: there is none of that name and none was to be made
        :raises SandboxDiffers: there is one that was made with other settings
        :raises BackendError: it could not be brought up
        """
        if self._open_channel is not None:
            return self
        began = time.time()
        await asyncio.to_thread(settle, self)
        if self.backend == "auto":
            self.backend, why = await auto.resolve(self._config)
            await asyncio.to_thread(self._store.pin, self.backend, why)
        await asyncio.to_thread(backends.load, self.backend)  # imports it
        store, config = self._store, self._config
        async with locked(store, self.backend, self.name):
            place, record, origin = await find_or_create(self._wanted(), config, store, create=create)
            self._place, self._record, self.id = place, record, record.id
            self._origin = origin
            try:
                if self._amount is not None:
                    from ._budget import begun

                    self._budget = await begun(self, self._amount)
                await self._attach(start=create)
                if self._budget is not None:
                    self._budget.keep()
            except BaseException:
                if origin != "there":
                    with contextlib.suppress(Exception):
                        await settled(place.destroy(keep_files=origin == "anew"))
                if origin == "new":
                    await settled(asyncio.to_thread(store.remove, record))
                raise
            if place.capabilities.copies:
                from ._copying import copy_in

                await copy_in(self)
        self._watch = await _watch.begun(self, began)
        return self

    def _wanted(self) -> Wanted:
        return Wanted(
            backend=self.backend,
            name=self.name,
            named=self.named,
            workspace=self._workspace,
            here=self._here,
            env=self._env,
            lifetime=self._life,
            options=self._options,
            recreate=self._recreate,
            progress=self._on_progress,
        )

    async def _attach(self, *, start: bool, lost: Channel | None = None) -> None:
        from .channel.channel import Channel
        from .credentials import supply

        place = self._place
        assert place is not None and self._record is not None
        dirs = place.guest_dirs()
        life, quota = self._life, self._config.output.spill_quota
        settings = {"idle": life.idle_guest, "detached": life.detached, "quota": quota}
        self.cwd = self.cwd or place.workspace()
        options = {"id": self.id, "run_dir": dirs.run_dir, "state_dir": dirs.state_dir, **settings}
        options["limited"] = "memory" in place.capabilities.limits
        options.update(await asyncio.to_thread(place.guest_options))
        if self.cwd:
            options["cwd"] = self.cwd
        wait = place.reconnect_for if self._reconnect_for is None else self._reconnect_for
        # Where commands are judged, the first of them needs to know.
        session = self._session if place.capabilities.judged else None
        channel = Channel(place, options, reconnect_for=wait, hello=settings, session=session, after=lost)
        try:
            await channel.open_connection(start=start)
        except BaseException:
            await channel.close()
            raise
        self._open_channel = channel
        self._at_home = _travelling.at_home(self)
        if self._watch is not None and self._watch.tracer is not None:
            channel.on_open = self._watch.tracer.stream
        self._supply = await supply.begun(self._declared, self._config.credentials, place, channel)
        self.cwd = self.cwd or str(channel.guest.get("cwd", ""))
        home = _text(channel.guest.get("home"))
        self._gate = await asyncio.to_thread(gate_of, self, place, home)
        inherited = dict(place.session_env() or {})
        if self._gate is not None and self._gate.password is not None:
            self._gate.password.watch(channel)
            inherited.pop("SUDO_ASKPASS", None)  # it is the guest's now
        env = {**inherited, **self._env}
        self._base = {"base_cwd": self.cwd, "base_env": env, **_travelling.locale(self)}
        self._asleep = False
        channel.used = time.monotonic()
        if place.stopped_by_client and life.idle_stop:
            from ._idle import suspend_when_idle

            seconds = place.idle_after or life.idle_stop
            self._idle = asyncio.create_task(suspend_when_idle(self, seconds))
        await used(self)
        self._travel = None
        await _travelling.bring(self)

    async def _awake(self) -> None:
        """Wake the place if it was suspended; attach again when it was given up."""
        if self._budget is not None:
            self._budget.check()
        note_use(self)
        if self._asleep or (self._open_channel is not None and self._open_channel.unreachable):
            from ._idle import come_back

            await come_back(self)

    async def close(self) -> None:
        """Leave: what runs inside goes on. Does nothing when it was left before."""
        if self._budget is not None:
            await self._budget.end()
        place = self._place if self.named and self._open_channel is not None else None
        if place is not None and place.spec.persistent and self._supply is not None:
            await self._supply.leave(self.name)
        await self._let_go(None)
        await _watch.over(self)
        if place is not None:
            await used(self)
            try:
                await place.left()
            except HermesError as error:
                warnings.warn(f"'{self.name}' was left, but not all was kept: {error}", stacklevel=2)

    async def _let_go(self, then: Channel | None) -> None:
        """Close the channel; *then* is the one until the next."""
        if self._watch is not None:
            self._watch.flush()
        idle, self._idle = self._idle, None
        if idle is None or idle is not asyncio.current_task():
            self._asleep = False
            if idle is not None:
                idle.cancel()
        channel, self._open_channel = self._open_channel, then
        if self._gate is not None:
            self._gate.forget_all()
            if self._gate.password is not None:
                self._gate.password.close()
        self._supply = self._travel = None
        self._sessions.clear()  # the next guest may be another one, which knows none of them
        if channel is not None:
            await channel.close()

    async def destroy(self) -> None:
        """End everything that runs in the sandbox and remove the sandbox. Does nothing the second time."""
        channel = self._open_channel
        if channel is not None:
            with contextlib.suppress(HermesError, TimeoutError):
                await channel.call("shutdown", {"remove": True}, timeout=5.0)
        if self._budget is not None:
            await self._budget.end()
        await self._let_go(None)
        await _watch.over(self)
        place, self._place = self._place, None
        if place is not None and self._record is not None:
            await end(place, self._record, self._store)
        if self._record is not None:
            await asyncio.to_thread(self._store.remove, self._record)
            self._record = None

    async def __aenter__(self) -> Sandbox:
        return await self.open()

    async def __aexit__(self, *exc: object) -> None:
        if self.named:
            await self.close()
        else:
            await asyncio.shield(self.destroy())

    # --- running commands

    async def run(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,
        stdin: Stdin | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        merge_stderr: bool = False,
        on_output: OnOutput | None = None,
        on_stderr: OnOutput | None = None,
        max_output: int | None = None,
        session: str | None = None,
    ) -> Result:
        """Run a command in a session that keeps its directory, variables and functions.

        :param command: shell text, or an argv that is quoted
        :param timeout: seconds; the command and all it started are ended then, the session lives on
        :param stdin: what it reads; nothing by default
        :param env: variables for this command only
        :param cwd: directory for this command only
        :param merge_stderr: stderr goes into stdout, in true order
        :param on_output: gets stdout as it comes, and stderr too when there is no *on_stderr*
        :param max_output: bytes of each stream that the result may hold; the rest is in ``spill``
        :param session: the session's name, None for the default one
        :raises Refused: approval said no
        :raises CommandError: it could not be started as asked
        :raises SandboxGone: the sandbox ended; the command is not run again
        """
        await self._awake()
        name = self._session if session in (None, DEFAULT_SESSION) else session
        first = name not in self._sessions
        options = RunOptions(
            timeout=timeout,
            stdin=stdin,
            env=env,
            cwd=cwd,
            merge_stderr=merge_stderr,
            on_output=on_output,
            on_stderr=on_stderr,
            max_output=max_output,
        )
        result = await self._run(command, name, self._base if first else {}, options)
        if first:
            self._sessions.add(name)
        return result

    async def exec(self, command: str | Sequence[str], **options: Unpack[RunOptions]) -> Result:
        """Run a command in a shell of its own, as ``bash -c`` does; see :meth:`run`."""
        await self._awake()
        return await self._run(command, None, self._base, options)

    async def _run(
        self, command: str | Sequence[str], session: str | None, base: Mapping[str, Any], options: RunOptions
    ) -> Result:
        raw = command_bytes(command)
        args = {**base, **self._args(options), "session": session, "command_size": len(raw)}
        kind = "exec" if session is None else "run"
        with _watch.begin(self, kind, raw, options, session=session) as entry:
            async with self._channel.bounded(args.get("timeout")):
                tries = 0
                while True:
                    tries += 1
                    ticket = await self._leave("run", raw, session=session, options=options)
                    entry.go(ticket)
                    sent, result = dict(args), None
                    if ticket is not None:
                        sent |= ticket.args
                    try:
                        sent |= await self._given(raw, args)
                        result = await run_command(
                            self._channel,
                            sent,
                            raw,
                            limit=args["limit"],
                            stdin=options.get("stdin"),
                            on_output=options.get("on_output"),
                            on_stderr=options.get("on_stderr"),
                            on_sent=ticket.sent if ticket is not None else None,
                            scrub=self._supply.scrub if self._supply is not None else None,
                            entry=entry,
                        )
                        await self._look_after(done=True)
                        entry.ended(result)
                        return result
                    except HermesError as error:
                        await self._again(error, session, tries)
                        if ticket is not None:
                            ticket.void()
                    finally:
                        if ticket is not None:
                            well = result is not None and result.exit_code == 0
                            ticket.ended(result.cwd if result is not None else None, well=well)

    async def _leave(
        self,
        kind: Literal["run", "start", "pty"],
        raw: bytes,
        *,
        session: str | None,
        options: Mapping[str, Any],
        moves: bool = True,
    ) -> Ticket | None:
        """Return leave to run a command; None where nothing is judged.

        :raises Refused: it may not run
        """
        if self._gate is None:
            return None
        self._asked += 1
        try:
            return await self._gate.command(
                kind,
                raw.decode("utf-8", "surrogateescape"),
                session=session,
                cwd=options.get("cwd"),
                env=options.get("env"),
                stdin=options.get("stdin"),
                moves=moves,
            )
        finally:
            self._asked -= 1

    async def _given(self, raw: bytes, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a command is told of credentials, which are as fresh inside as here then."""
        await self._look_after()
        await _travelling.bring(self)
        return {} if self._supply is None else await self._supply.for_command(raw, args.get("env"))

    async def _look_after(self, *, done: bool = False) -> None:
        place = self._the_place()
        if not place.still(done=done):
            for line in await place.mend():
                warnings.warn(line, stacklevel=2)

    async def _again(self, error: HermesError, session: str | None, tries: int) -> None:
        """Return when a command was not run because another client came first, so that it is judged again."""
        if self._budget is not None:
            self._budget.check()
        if self._supply is not None and await self._supply.mended(error, tries):
            return
        if error.code != "session_moved" or self._gate is None or session is None:
            raise error
        self._gate.moved(session, tries, error)

    def _args(self, options: Mapping[str, Any]) -> dict[str, Any]:
        limit, timeout = options.get("max_output"), options.get("timeout")
        limit = self._config.output.limit if limit is None else limit
        timeout = self._timeout if timeout is None else timeout
        merge = options.get("merge_stderr", False)
        return call_args(limit, timeout, options.get("env"), options.get("cwd"), merge=merge)

    def _typed(self, reader: str, *, tty: bool, cwd: str | None) -> Typed | None:
        """Return what the input of a program has to pass; None where nothing is judged."""
        if self._gate is None:
            return None
        from .approval.typed import Typed

        return Typed(self._gate, reader, tty=tty, cwd=cwd)

    async def shell(
        self, name: str | None = None, *, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> Shell:
        """Return the session of that name, which is made when there is none; None makes an anonymous one.

        :param cwd: where a new session begins
        :param env: further variables of a new session
        :raises CommandError: that directory cannot be used
        """
        await self._awake()
        name = name or f"s-{os.urandom(4).hex()}"
        args = {"session": name, **self._base}
        if cwd is not None:
            args["base_cwd"] = os.path.join(self.cwd, cwd)
        if env:
            args["base_env"] = {**args.get("base_env", {}), **env}
        await self._channel.call("session.open", args)
        self._sessions.add(name)
        return Shell(self, name)

    async def sessions(self) -> list[SessionInfo]:
        """Return the sessions that are open, of all clients."""
        from .channel.channel import checked

        found = (await self._channel.call("session.list")).body.get("sessions")
        return checked(found, list[SessionInfo])

    def _forget_session(self, name: str) -> None:
        self._sessions.discard(name)
        if self._gate is not None:
            self._gate.forget(name)

    # --- jobs and terminals

    async def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        pty: tuple[int, int] | None = None,
    ) -> Job:
        """Start a background command and return at once. It outlives this client.

        It begins with the directory, variables and functions that the default session has now.

        :param pty: rows and columns of a terminal to run it on
        :raises Refused: approval said no
        """
        from .channel.channel import checked
        from .job import Job

        await self._awake()
        raw = command_bytes(command)
        options = {"cwd": cwd, "env": env, "timeout": timeout, "merge_stderr": True}
        args = self._args(options)
        if pty is not None:
            args["size"] = list(pty)
            args["term"] = "xterm-256color"
        tries = 0
        with _watch.begin(self, "start", raw, options, size=pty) as entry:
            while True:
                tries += 1
                ticket = await self._leave("start", raw, session=self._session, options=options, moves=False)
                entry.go(ticket)
                sent = {**self._base, **args, "session": self._session}
                if ticket is not None:
                    sent |= ticket.args
                try:
                    sent |= await self._given(raw, args)
                    reply = await self._channel.call("start", sent, raw)
                except HermesError as error:
                    await self._again(error, self._session, tries)
                else:
                    text = raw.decode("utf-8", "surrogateescape")
                    ident = checked(reply.body.get("id"), int)
                    entry.started(str(ident))
                    return Job(self, ident, text, tty=pty is not None, cwd=_text(reply.body.get("cwd")))
                finally:
                    if ticket is not None:
                        ticket.ended(well=True)

    async def pty(
        self,
        command: str | Sequence[str] | None = None,
        *,
        rows: int = 24,
        cols: int = 80,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        term: str = "xterm-256color",
        redact: bool = True,
    ) -> Pty:
        """Start a program on a terminal, an interactive shell by default.

        :param redact: take secrets out of what is read from it, as ``credentials.redact`` says
        :raises Refused: approval said no
        """
        from .channel.channel import checked
        from .job import Job
        from .pty import Pty

        await self._awake()
        raw = b"" if command is None else command_bytes(command)
        options = {"cwd": cwd, "env": env, "term": term, "merge_stderr": True}
        with _watch.begin(self, "pty", raw, options, size=(rows, cols)) as entry:
            entry.go(await self._leave("pty", raw, session=None, options=options))
            args = self._args(options)
            args |= {"size": [rows, cols], "term": term}
            args.pop("timeout", None)
            try:
                sent = self._base | args | await self._given(raw, args)
                reply = await self._channel.call("start", sent, raw)
            except HermesError as error:
                await self._again(error, None, 1)
                sent = self._base | args | await self._given(raw, args)
                reply = await self._channel.call("start", sent, raw)
            ident, at = checked(reply.body.get("id"), int), _text(reply.body.get("cwd"))
            entry.started(str(ident))
        text = raw.decode("utf-8", "surrogateescape")
        return Pty(Job(self, ident, text, tty=True, cwd=at), redact=redact)

    async def jobs(self) -> list[JobInfo]:
        """Return every command that runs or may be asked for, and every process left in the background."""
        from .channel.channel import checked
        from .job import JobInfo

        found = checked((await self._channel.call("tasks")).body.get("tasks"), list[dict[str, Any]])
        return [JobInfo.from_guest(one) for one in found]

    async def job(self, ident: str) -> Job:
        """Return a job by its id, also one that another client started.

        :raises JobError: code ``job_unknown``
        """
        from .job import Job

        info = await self._job_info(ident)
        if info.kind == "stray":
            raise JobError(
                f"{ident} is a process that a command left behind, not a job",
                code="job_unknown",
                hint="It can be ended with 'hermes jobs kill'; its output went where its command sent it.",
            )
        return Job(self, int(info.id), info.command, tty=info.tty)

    async def kill(self, ident: str, signal: str | int | None = None) -> None:
        """End a job or a stray process by its id, with all it started, or send it a signal.

        :raises JobError: code ``job_unknown``
        """
        await self._channel.call("kill", {"task": int(ident) if ident.isdigit() else ident, "signal": signal})

    async def _job_info(self, ident: str) -> JobInfo:
        for info in await self.jobs():
            if info.id == ident:
                return info
        raise JobError(
            f"there is no job {ident} here (any more)",
            code="job_unknown",
            hint="'hermes jobs ls' lists them.",
        )

    # --- files and ports

    @property
    def files(self) -> Files:
        """The files of the sandbox."""
        from .files import Files

        gate = self._gate

        async def remove(path: str) -> None:
            if gate is not None:
                await gate.command("run", f"rm -r -- {shlex.quote(path)}")

        return Files(self._channel, approve=self._approve_write, approve_removal=remove)

    async def _approve_write(self, path: str) -> None:
        with _watch.Change(self, path):
            if self._gate is not None:
                await self._gate.check(self._gate.request("write", path))

    @property
    def travel(self) -> Travel:
        """The copies of skills and dotfiles inside: what changed there, and taking it over."""
        return _travelling.of(self)

    @property
    def workspace(self) -> Workspace:
        """The workspace where it is a copy of a directory here: what changed, and taking it over."""
        from .workspace import Workspace

        # A place on another machine leaves it to its guest where that is.
        inside = self._the_place().workspace() or str(self._channel.guest.get("cwd"))
        return Workspace(self._channel, self._store, self.id, self._root, inside, self._approve_write)

    def forward(
        self,
        port: int,
        *,
        host: str = "127.0.0.1",
        local_port: int = 0,
        on_error: Callable[[HermesError], None] | None = None,
    ) -> contextlib.AbstractAsyncContextManager[int]:
        """Make a port of the sandbox reachable on 127.0.0.1 of this machine while the context lasts.

        Yields the local port.

        :param on_error: told of each connection that could not be made, or broke, inside
        :raises PortError: code ``port_in_use``; the wanted local port is taken
        """
        from .forward import forward

        return forward(self._channel, port, host=host, local_port=local_port, on_error=on_error)

    # --- the place

    async def suspend(self) -> None:
        """Stop the place so that it costs little, keeping its files. The next command wakes it.

        :raises UnsupportedError: this place cannot
        """
        place = self._the_place()
        slept = self._slept if self._asleep else None
        async with self._supply.withdrawn() if self._supply is not None else contextlib.nullcontext():
            await place.suspend()
            await self._let_go(None)
        self._asleep, self._slept = True, slept

    async def resume(self) -> None:
        """Start the place again and attach to it.

        :raises UnsupportedError: this place cannot
        """
        await self._the_place().resume()
        if self._open_channel is None:
            await self._attach(start=True)

    async def snapshot(self) -> str:
        """Keep the state of the place's files and return the snapshot's id. On some places what runs ends.

        :raises UnsupportedError: this place cannot
        """
        from ._idle import snapshot

        return await snapshot(self)

    def describe(self) -> dict[str, Any]:
        """Return the facts of this sandbox as plain values: isolation, limits, what is verified and so on."""
        from ._describe import describe

        return describe(self)

    @property
    def _life(self) -> Lifetime:
        return self._lifetime or self._config.lifetime

    @property
    def _config(self) -> Config:
        if self._settled is None:
            raise self._not_open()
        return self._settled

    @property
    def _channel(self) -> Channel:
        if self._open_channel is None:
            raise self._not_open()
        return self._open_channel

    def _the_place(self) -> Backend:
        if self._place is None:
            raise self._not_open()
        return self._place

    def _not_open(self) -> SandboxGone:
        from ._describe import not_open

        return not_open(self)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
