"""A process in a sandbox on a terminal of its own: the one duplex stream that the provider has."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from hermes.errors import BackendError, HermesError, Unreachable

from .._cloud._channel import CloudChannel
from ..base import Encoding
from ._client import Client, asked

if TYPE_CHECKING:
    from daytona import AsyncDaytona, AsyncSandbox

__all__ = ["DaytonaChannel"]

CALL_SECONDS = 30.0
COMMAND = "HERMES_RUN"
# What is typed is short, since a terminal takes no longer line before it is raw; the rest comes by the
# environment. The blank keeps it out of the shell's history.
TYPED = f' exec /bin/sh -c "${COMMAND}"\n'


class DaytonaChannel(CloudChannel):
    """A terminal whose login shell becomes the wanted process.

    :param box: returns the sandbox as the SDK's client knows it
    :param keep_awake: called while the channel is open, again and again, after ``every`` seconds
    """

    encoding: Encoding = "text"

    def __init__(
        self,
        argv: Sequence[str],
        client: Client,
        box: Callable[[AsyncDaytona], Awaitable[AsyncSandbox]],
        keep_awake: Callable[[AsyncSandbox], Awaitable[None]],
        every: float,
    ) -> None:
        super().__init__()
        self._argv = argv
        self._client = client
        self._box = box
        self._keep_awake = keep_awake
        self._every = every
        self._output: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._terminal: Any = None
        self._there: AsyncSandbox | None = None
        self._ending: list[asyncio.Task[Any]] = []
        self._held = False

    async def _connect(self) -> None:
        sdk = await self._client.acquire()
        self._held = True
        try:
            there = self._there = await self._box(sdk)
            command = f"unset {COMMAND}; cd && mkdir -p workspace && cd workspace; stty raw -echo; exec "
            from daytona.common.pty import PtySize

            self._terminal = await asked(
                "open a terminal in the sandbox",
                lambda: there.process.create_pty_session(
                    f"hermes-{secrets.token_hex(8)}",
                    self._output.put_nowait,
                    envs={COMMAND: command + shlex.join(self._argv)},
                    pty_size=PtySize(rows=24, cols=80),
                ),
                CALL_SECONDS,
            )
            await self._send(TYPED.encode())
        except BaseException as error:
            await asyncio.shield(self._release())
            if isinstance(error, Unreachable) and self._there is not None:
                error.code = "link_broke"  # it answered just now, and nothing runs yet
            raise
        loop = asyncio.get_running_loop()
        self._ending = [loop.create_task(self._watch())]
        if self._every:
            self._ending.append(loop.create_task(self._awake()))

    async def _watch(self) -> None:
        with contextlib.suppress(Exception):
            await self._terminal.wait()
        self._output.put_nowait(None)

    async def _awake(self) -> None:
        assert self._there is not None
        while True:
            await asyncio.sleep(self._every)
            await self._keep_awake(self._there)

    async def _pieces(self) -> AsyncIterator[bytes]:
        while (data := await self._output.get()) is not None:
            yield data
        terminal = self._terminal
        why = terminal.error or (
            "the connection broke" if terminal.exit_code is None else f"exit code {terminal.exit_code}"
        )
        said = f"the terminal in the sandbox was closed: {why}"
        if terminal.exit_code is None:
            raise Unreachable(said, reason=str(why))
        raise BackendError(said)

    async def _send(self, data: bytes) -> None:
        await asked("write to the terminal", lambda: self._terminal.send_input(data), CALL_SECONDS)

    async def _release(self) -> None:
        for task in self._ending:
            task.cancel()
        terminal, there = self._terminal, self._there
        self._terminal = None
        try:
            if terminal is not None and there is not None and terminal.exit_code is None:
                # It would stay, with what runs on it: the provider keeps terminals that nobody looks at.
                with contextlib.suppress(HermesError):
                    await asked(
                        "close a terminal",
                        lambda: there.process.kill_pty_session(terminal.session_id, request_timeout=4),
                        self.grace - 1,
                    )
        finally:
            try:
                if terminal is not None:
                    await terminal.disconnect()
            finally:
                if self._held:
                    self._held = False
                    self._client.release()
