"""How a conformance case runs: its event loop, the sandbox it shares with others, and what it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import os
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from hermes import Sandbox

T = TypeVar("T")

LIMIT = 45.0
"""Seconds after which a case is given up: inside the loop it can be told better where than from outside."""

CLEAN_LIMIT = 15.0


class Loop:
    """One event loop for all cases of a process: a sandbox stays open from one case to the next."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T], limit: float = LIMIT) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()

        async def limited() -> T:
            async with asyncio.timeout(limit):
                return await work

        return self._loop.run_until_complete(limited())

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is None:
            return
        loop.run_until_complete(_end_tasks())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _end_tasks() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


loop = Loop()


def case(function: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a coroutine function a test that pytest runs without any plug-in for asyncio."""

    @functools.wraps(function)
    def test(**fixtures: Any) -> None:
        try:
            loop.run(function(**fixtures))
        except BaseException:
            # Abandoned tasks are reported when they are collected. Where that happens while pytest parses
            # source for its report, some versions of Python fail to parse it.
            gc.collect()
            raise

    test.__hermes_case__ = function.__name__.removeprefix("test_")  # type: ignore[attr-defined]
    return test


def case_name(function: object) -> str | None:
    """Return the name under which the table of exceptions knows a test; None for one that is no case."""
    return getattr(function, "__hermes_case__", None)


@contextlib.contextmanager
def hermes_home(path: Path) -> Iterator[None]:
    """Let hermes keep its state below *path* for a while."""
    # Who runs the cases, root or not, is no matter of theirs.
    ours = {"HERMES_HOME": str(path), "HERMES_ALLOW_ROOT": "1"}
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class Place:
    """One sandbox that the cases of a module share: opening one for each would take most of the time."""

    def __init__(self, backend: str, options: Mapping[str, Any], home: Path) -> None:
        self.backend = backend
        self.options = options
        self.home = home
        self._box: Sandbox | None = None

    async def get(self) -> Sandbox:
        if self._box is None:
            with hermes_home(self.home):
                self._box = await open_sandbox(self.backend, self.options)
        return self._box

    async def clean(self, *, failed: bool) -> None:
        """End what a case left: sessions, jobs, processes. After a failure the sandbox itself goes."""
        box = self._box
        if box is None:
            return
        try:
            if not failed:
                async with asyncio.timeout(CLEAN_LIMIT):
                    await end_everything(box)
                return
        except Exception:  # a fault of the case before, which has been reported or will be by the next
            pass
        await self.close()

    async def close(self) -> None:
        box, self._box = self._box, None
        if box is not None:
            with hermes_home(self.home):
                async with asyncio.timeout(CLEAN_LIMIT):
                    await box.destroy()


async def end_everything(box: Sandbox) -> None:
    """Close all sessions and kill all jobs and stray processes of a sandbox."""
    for session in await box.sessions():
        await (await box.shell(session.name)).close()
    for _ in range(3):
        running = [job for job in await box.jobs() if job.state in ("running", "queued")]
        if not running:
            break
        for job in running:
            with contextlib.suppress(_job_error()):  # it ended by itself meanwhile
                await box.kill(job.id)
        await asyncio.sleep(0.02)


def _job_error() -> type[Exception]:
    from hermes.errors import JobError

    return JobError


async def open_sandbox(backend: str, options: Mapping[str, Any]) -> Sandbox:
    """Open a sandbox; skip the test, saying why, where the backend does not work on this machine."""
    from hermes import Sandbox
    from hermes.errors import BackendError, ConfigError

    try:
        return await Sandbox(backend, **{"approval": "off", **options}).open()
    except (BackendError, ConfigError) as error:
        if error.code not in ("backend_unavailable", "extra_missing"):
            raise
        pytest.skip(f"{backend}: {error}")


def unique(prefix: str) -> str:
    """Return a name that nothing else has."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"
