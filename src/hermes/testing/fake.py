"""A sandbox that answers from a script and runs nothing, for unit tests of code that uses one."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hermes.errors import JobError, SandboxGone
from hermes.session import OnOutput, Result, Stdin

from ._fake_files import FakeFiles, as_bytes, collected

__all__ = ["Call", "FakeSandbox", "UnexpectedCommand"]


class UnexpectedCommand(AssertionError):
    """The code under test ran a command for which the script has no answer."""


@dataclass(frozen=True)
class Call:
    """One command that was run: ``kind`` is ``run``, ``exec`` or ``start``, ``stdin`` what it was given."""

    kind: str
    command: str
    session: str | None = None
    stdin: bytes = b""
    options: Mapping[str, Any] = field(default_factory=dict)


Pattern = str | re.Pattern[str] | Callable[[Call], bool]
Answer = Callable[[Call], "Result | bytes | str | int"]


@dataclass
class _Rule:
    pattern: Pattern
    answer: Answer | BaseException | Result
    times: int | None

    def matches(self, call: Call) -> bool:
        if isinstance(self.pattern, str):
            return call.command == self.pattern
        if isinstance(self.pattern, re.Pattern):
            return self.pattern.search(call.command) is not None
        return self.pattern(call)


class FakeSandbox:
    """Has the methods of :class:`hermes.Sandbox` that run commands and keep files, and no place behind them.

    Answers are given with :meth:`on`; the rule that was added last and matches is used. ``calls`` lists what
    was run. A command without an answer raises :class:`UnexpectedCommand`, unless there is a *default*.
    """

    def __init__(self, *, name: str = "fake", cwd: str = "/workspace", default: Result | None = None) -> None:
        self.name = name
        self.id = "0" * 16
        self.backend = "fake"
        self.cwd = cwd
        self.calls: list[Call] = []
        self.files = FakeFiles(cwd)
        self.is_open = True
        self._default = default
        self._rules: list[_Rule] = []
        self._jobs: dict[str, FakeJob] = {}

    # --- the script

    def on(
        self,
        pattern: Pattern,
        *,
        stdout: bytes | str = b"",
        stderr: bytes | str = b"",
        exit_code: int = 0,
        timed_out: bool = False,
        raises: BaseException | None = None,
        answer: Answer | None = None,
        times: int | None = None,
    ) -> FakeSandbox:
        """Say what a command gives. Returns the sandbox, so that calls can follow each other.

        :param pattern: the whole command; a compiled pattern to search for; or a function of the call
        :param raises: raise this instead, such as ``Refused`` or ``SandboxGone``
        :param answer: compute it: a result, or just stdout, or just the exit code
        :param times: how often the rule may be used
        """
        given: Answer | BaseException | Result = self.result(
            stdout=stdout, stderr=stderr, exit_code=exit_code, timed_out=timed_out
        )
        self._rules.append(_Rule(pattern, raises or answer or given, times))
        return self

    def result(
        self,
        *,
        stdout: bytes | str = b"",
        stderr: bytes | str = b"",
        exit_code: int = 0,
        timed_out: bool = False,
    ) -> Result:
        """Return a result as a command of this sandbox would have it."""
        return Result(
            status="timed_out" if timed_out else "ok",
            exit_code=124 if timed_out else exit_code,
            stdout=as_bytes(stdout),
            stderr=as_bytes(stderr),
            duration=0.0,
            timed_out=timed_out,
            truncated=False,
            cwd=self.cwd,
        )

    @property
    def commands(self) -> list[str]:
        """The commands that were run, as text."""
        return [call.command for call in self.calls]

    def _answer(self, call: Call) -> Result:
        if not self.is_open:
            raise SandboxGone(f"the sandbox '{self.name}' is not open here", reason="closed here")
        self.calls.append(call)
        for rule in reversed(self._rules):
            if rule.times == 0 or not rule.matches(call):
                continue
            if rule.times is not None:
                rule.times -= 1
            answer = rule.answer
            if isinstance(answer, BaseException):
                raise answer
            if isinstance(answer, Result):
                return answer
            given = answer(call)
            if isinstance(given, Result):
                return given
            return self.result(exit_code=given) if isinstance(given, int) else self.result(stdout=given)
        if self._default is not None:
            return self._default
        known = ", ".join(repr(getattr(rule.pattern, "pattern", rule.pattern)) for rule in self._rules)
        raise UnexpectedCommand(
            f"the script has no answer for {call.command!r}; it has some for: {known or 'nothing'}. "
            "Add one with on(...)."
        )

    # --- what a sandbox does

    async def open(self, *, create: bool = True) -> FakeSandbox:
        self.is_open = True
        return self

    async def close(self) -> None:
        self.is_open = False

    destroy = close

    async def __aenter__(self) -> FakeSandbox:
        return await self.open()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def run(
        self,
        command: str | Sequence[str],
        *,
        stdin: Stdin | None = None,
        on_output: OnOutput | None = None,
        on_stderr: OnOutput | None = None,
        session: str | None = None,
        **options: Any,
    ) -> Result:
        """Record the command and return its answer; callbacks get the answer's output."""
        return await self._run("run", command, stdin, on_output, on_stderr, session, options)

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        stdin: Stdin | None = None,
        on_output: OnOutput | None = None,
        on_stderr: OnOutput | None = None,
        **options: Any,
    ) -> Result:
        """As :meth:`run`, for a command in a shell of its own."""
        return await self._run("exec", command, stdin, on_output, on_stderr, None, options)

    async def _run(
        self,
        kind: str,
        command: str | Sequence[str],
        stdin: Stdin | None,
        on_output: OnOutput | None,
        on_stderr: OnOutput | None,
        session: str | None,
        options: Mapping[str, Any],
    ) -> Result:
        result = self._answer(Call(kind, _text(command), session, await collected(stdin), options))
        for data, callback in ((result.stdout, on_output), (result.stderr, on_stderr or on_output)):
            if data and callback is not None:
                waiting = callback(data)
                if inspect.isawaitable(waiting):
                    await waiting
        return result

    async def shell(self, name: str | None = None, **options: Any) -> FakeShell:
        return FakeShell(self, name or f"s-{len(self.calls)}")

    async def start(self, command: str | Sequence[str], **options: Any) -> FakeJob:
        """Record the command; the job has ended at once with its answer."""
        result = self._answer(Call("start", _text(command), None, b"", options))
        job = FakeJob(str(len(self._jobs) + 1), _text(command), result)
        self._jobs[job.id] = job
        return job

    async def job(self, ident: str) -> FakeJob:
        if ident not in self._jobs:
            raise JobError(f"there is no job {ident} here", code="job_unknown")
        return self._jobs[ident]

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "id": self.id,
            "backend": self.backend,
            "isolation": "none",
            "cwd": self.cwd,
        }


class FakeShell:
    """A session of a fake sandbox; it keeps no state."""

    def __init__(self, sandbox: FakeSandbox, name: str) -> None:
        self.name = name
        self._sandbox = sandbox

    async def run(self, command: str | Sequence[str], **options: Any) -> Result:
        return await self._sandbox.run(command, session=self.name, **options)

    async def interrupt(self) -> bool:
        return False

    async def close(self) -> None:
        pass


class FakeJob:
    """A job that has ended. ``written`` is what the code under test wrote to it."""

    def __init__(self, ident: str, command: str, result: Result) -> None:
        self.id = ident
        self.command = command
        self.written = b""
        self.killed: list[str | int | None] = []
        self._result = result

    async def output(self, offset: int = 0, n: int | None = None) -> bytes:
        return self._result.stdout[offset:][:n]

    async def follow(self, offset: int = 0) -> AsyncIterator[bytes]:
        yield self._result.stdout[offset:]

    async def write(self, data: bytes | str) -> None:
        self.written += as_bytes(data)

    async def close_stdin(self) -> None:
        pass

    async def wait(self, timeout: float | None = None) -> Result:
        return self._result

    async def kill(self, signal: str | int | None = None) -> None:
        self.killed.append(signal)


def _text(command: str | Sequence[str]) -> str:
    return command if isinstance(command, str) else shlex.join(command)
