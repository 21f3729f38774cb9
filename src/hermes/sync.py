"""The same sandbox for code without async: each call waits for its answer.

Callbacks such as ``on_output`` run in the thread that does the work.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from . import files, job, pty, sandbox, session, travel, workspace

__all__ = ["Files", "Job", "Pty", "Result", "Sandbox", "Shell", "Spill", "Travel", "Workspace"]

A = TypeVar("A")
R = TypeVar("R")
W = TypeVar("W")
P = ParamSpec("P")


class _Facade(Generic[A]):
    """Holds the object that does the work, and the portal to the thread where it does it."""

    def __init__(self, inner: A, portal: BlockingPortal) -> None:
        self._inner = inner
        self._portal = portal


def _blocking(method: Callable[Concatenate[A, P], Awaitable[R]]) -> Callable[Concatenate[_Facade[A], P], R]:
    """Return the blocking twin of an async method."""

    @functools.wraps(method)
    def call(self: _Facade[A], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._portal.call(functools.partial(method, self._inner, *args, **kwargs))

    return call


def _giving(
    make: Callable[[R, BlockingPortal], W],
    method: Callable[Concatenate[A, P], Awaitable[R]],
) -> Callable[Concatenate[_Facade[A], P], W]:
    """Return the blocking twin of an async method whose result needs one as well."""

    @functools.wraps(method)
    def call(self: _Facade[A], /, *args: P.args, **kwargs: P.kwargs) -> W:
        return make(self._portal.call(functools.partial(method, self._inner, *args, **kwargs)), self._portal)

    return call


def _each(found: AsyncGenerator[R, None], portal: BlockingPortal) -> Iterator[R]:
    """Yield what an async generator does, and close it at the end."""
    try:
        while True:
            try:
                yield portal.call(found.__anext__)
            except StopAsyncIteration:
                return
    finally:
        portal.call(found.aclose)


class Spill(_Facade[session.Spill]):
    """See :class:`hermes.Spill`."""

    @property
    def path(self) -> str:
        return self._inner.path

    @property
    def bytes(self) -> int:
        return self._inner.bytes

    @property
    def complete(self) -> bool:
        return self._inner.complete

    @property
    def note(self) -> str | None:
        return self._inner.note

    @property
    def stderr(self) -> Spill | None:
        return Spill(self._inner.stderr, self._portal) if self._inner.stderr is not None else None

    read = _blocking(session.Spill.read)


@dataclass(frozen=True, slots=True)
class Result:
    """See :class:`hermes.Result`."""

    status: Literal["ok", "timed_out"]
    exit_code: int
    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)
    text: str
    duration: float
    timed_out: bool
    truncated: bool
    cwd: str
    spill: Spill | None

    @classmethod
    def of(cls, result: session.Result, portal: BlockingPortal) -> Result:
        return cls(
            status=result.status,
            exit_code=result.exit_code,
            stdout=result.stdout,
            stderr=result.stderr,
            text=result.text,
            duration=result.duration,
            timed_out=result.timed_out,
            truncated=result.truncated,
            cwd=result.cwd,
            spill=Spill(result.spill, portal) if result.spill is not None else None,
        )


class Shell(_Facade[session.Shell]):
    """See :class:`hermes.Shell`."""

    @property
    def name(self) -> str:
        return self._inner.name

    run = _giving(Result.of, session.Shell.run)
    interrupt = _blocking(session.Shell.interrupt)
    close = _blocking(session.Shell.close)


class Job(_Facade[job.Job]):
    """See :class:`hermes.Job`."""

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def command(self) -> str:
        return self._inner.command

    output = _blocking(job.Job.output)
    write = _blocking(job.Job.write)
    close_stdin = _blocking(job.Job.close_stdin)
    wait = _giving(Result.of, job.Job.wait)
    kill = _blocking(job.Job.kill)
    resize = _blocking(job.Job.resize)
    info = _blocking(job.Job.info)

    def follow(self, offset: int = 0) -> Iterator[bytes]:
        """Yield the output from *offset* as it comes, until the job has ended."""
        return _each(self._inner.follow(offset), self._portal)


class Pty(_Facade[pty.Pty]):
    """See :class:`hermes.Pty`."""

    @property
    def id(self) -> str:
        return self._inner.id

    read = _blocking(pty.Pty.read)
    write = _blocking(pty.Pty.write)
    send_keys = _blocking(pty.Pty.send_keys)
    resize = _blocking(pty.Pty.resize)
    wait = _blocking(pty.Pty.wait)
    detach = _blocking(pty.Pty.detach)
    close = _blocking(pty.Pty.close)

    def __enter__(self) -> Pty:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Files(_Facade[files.Files]):
    """See :class:`hermes.Files`."""

    read = _blocking(files.Files.read)
    read_text = _blocking(files.Files.read_text)
    write = _blocking(files.Files.write)
    append = _blocking(files.Files.append)
    stat = _blocking(files.Files.stat)
    exists = _blocking(files.Files.exists)
    list = _blocking(files.Files.list)
    glob = _blocking(files.Files.glob)
    mkdir = _blocking(files.Files.mkdir)
    remove = _blocking(files.Files.remove)
    move = _blocking(files.Files.move)
    put = _blocking(files.Files.put)
    get = _blocking(files.Files.get)


class Workspace(_Facade[workspace.Workspace]):
    """See :class:`hermes.Workspace`."""

    @property
    def root(self) -> str:
        return self._inner.root

    @property
    def path(self) -> str:
        return self._inner.path

    status = _blocking(workspace.Workspace.status)
    diff = _blocking(workspace.Workspace.diff)
    pull = _blocking(workspace.Workspace.pull)
    push = _blocking(workspace.Workspace.push)


class Travel(_Facade[travel.Travel]):
    """See :class:`hermes.travel.Travel`."""

    pull = _blocking(travel.Travel.pull)

    def diffs(self, *paths: str) -> Iterator[tuple[workspace.Change, str]]:
        """Yield what changed inside, each with its text; see :meth:`hermes.travel.Travel.diffs`."""
        return _each(self._inner.diffs(*paths), self._portal)


class Sandbox(_Facade[sandbox.Sandbox]):
    """See :class:`hermes.Sandbox`; opened by ``with``, or by :meth:`open`."""

    def __init__(self, backend: str | None = None, **options: Any) -> None:
        self._inner = sandbox.Sandbox(backend, **options)
        self._stack: ExitStack | None = None

    def open(self, *, create: bool = True) -> Sandbox:
        """Bring the place up or attach to it; see :meth:`hermes.Sandbox.open`."""
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal("asyncio"))
            self._portal.call(functools.partial(self._inner.open, create=create))
            self._stack = stack.pop_all()
        # One that nobody leaves must not keep the program from ending.
        weakref.finalize(self, self._stack.close)
        return self

    def close(self) -> None:
        """Leave; what runs inside goes on."""
        self._leave(self._inner.close)

    def destroy(self) -> None:
        """End everything in the sandbox and remove it."""
        self._leave(self._inner.destroy)

    def _leave(self, how: Callable[[], Awaitable[None]]) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            with stack:
                self._portal.call(how)

    def __enter__(self) -> Sandbox:
        return self.open()

    def __exit__(self, *exc: object) -> None:
        if self._inner.named:
            self.close()
        else:
            self.destroy()

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def backend(self) -> str:
        return self._inner.backend

    @property
    def cwd(self) -> str:
        return self._inner.cwd

    @property
    def files(self) -> Files:
        """The files of the sandbox."""
        return Files(self._inner.files, self._portal)

    @property
    def workspace(self) -> Workspace:
        """The workspace where it is a copy of a directory here."""
        return Workspace(self._inner.workspace, self._portal)

    @property
    def travel(self) -> Travel:
        """The copies of skills and dotfiles inside."""
        return Travel(self._inner.travel, self._portal)

    run = _giving(Result.of, sandbox.Sandbox.run)
    exec = _giving(Result.of, sandbox.Sandbox.exec)
    shell = _giving(Shell, sandbox.Sandbox.shell)
    sessions = _blocking(sandbox.Sandbox.sessions)
    start = _giving(Job, sandbox.Sandbox.start)
    pty = _giving(Pty, sandbox.Sandbox.pty)
    jobs = _blocking(sandbox.Sandbox.jobs)
    job = _giving(Job, sandbox.Sandbox.job)
    kill = _blocking(sandbox.Sandbox.kill)
    suspend = _blocking(sandbox.Sandbox.suspend)
    resume = _blocking(sandbox.Sandbox.resume)
    snapshot = _blocking(sandbox.Sandbox.snapshot)

    def forward(self, port: int, **options: Any) -> AbstractContextManager[int]:
        """Make a port of the sandbox reachable here; see :meth:`hermes.Sandbox.forward`."""
        return self._portal.wrap_async_context_manager(self._inner.forward(port, **options))

    def describe(self) -> dict[str, Any]:
        """Return the facts of this sandbox; see :meth:`hermes.Sandbox.describe`."""
        return self._inner.describe()
