"""Terminals in the sandbox: interactive programs, driven by keys and read as bytes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from .errors import ConfigError
from .session import text_bytes

if TYPE_CHECKING:
    from .credentials.scrub import Stream as SecretStream
    from .job import Job

__all__ = ["KEYS", "Pty"]
PAUSE = 0.05  # seconds of silence after which what is too short to tell a secret is let through

KEYS = {
    "Enter": b"\r",
    "Tab": b"\t",
    "BTab": b"\x1b[Z",
    "Escape": b"\x1b",
    "Space": b" ",
    "BSpace": b"\x7f",
    "Up": b"\x1b[A",
    "Down": b"\x1b[B",
    "Right": b"\x1b[C",
    "Left": b"\x1b[D",
    "Home": b"\x1b[H",
    "End": b"\x1b[F",
    "IC": b"\x1b[2~",
    "DC": b"\x1b[3~",
    "PPage": b"\x1b[5~",
    "NPage": b"\x1b[6~",
    **{f"F{n}": code for n, code in enumerate((b"\x1bOP", b"\x1bOQ", b"\x1bOR", b"\x1bOS"), 1)},
    **{f"F{n}": b"\x1b[%d~" % code for n, code in enumerate((15, 17, 18, 19, 20, 21, 23, 24), 5)},
}


def key_bytes(key: str) -> bytes:
    """Return what a terminal sends for a key named as in tmux (``Enter``, ``C-c``, ``M-x``), or for text."""
    if key in KEYS:
        return KEYS[key]
    if len(key) > 2 and key[:2] == "M-":
        return b"\x1b" + key_bytes(key[2:])
    if len(key) == 3 and key[:2] == "C-" and (key[2].isalpha() or key[2] in "@[\\]^_?"):
        return b"\x7f" if key[2] == "?" else bytes([ord(key[2].upper()) & 0x1F])
    return text_bytes(key, "the key")


class Pty:
    """A program on a terminal of its own. It goes on without a client until it is closed."""

    def __init__(self, job: Job, *, redact: bool = True) -> None:
        """Attach to a terminal.

        :param redact: take secrets out of what is read; a person at a terminal sees all of it
        """
        self._job = job
        self._redact = redact
        self._scrubbing: SecretStream | None = None
        self._stream = job._attach(live=True, input=True)
        self._chunks = self._stream.__aiter__()
        self._next: asyncio.Task[bytes] | None = None
        self._offset = 0

    @property
    def id(self) -> str:
        """The id under which ``hermes jobs`` lists it."""
        return self._job.id

    async def read(self, timeout: float | None = None) -> bytes:
        """Return what the terminal shows next; empty when the program has ended and all was read.

        What may be the beginning of a secret is held back for a moment.

        :param timeout: seconds to wait
        :raises TimeoutError: nothing came; nothing is lost by it
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            held = self._scrubbing is not None and self._scrubbing.waits
            if self._next is None:
                self._next = asyncio.create_task(self._take())
            wait = PAUSE if held and (left is None or left > PAUSE) else left
            done, _ = await asyncio.wait({self._next}, timeout=wait)
            if not done:
                if self._scrubbing is not None and (passed := self._scrubbing.pause()):
                    return passed
                raise TimeoutError(f"nothing came from the terminal within {timeout} s")
            task, self._next = self._next, None
            data = task.result()
            passed = self._scrubbed(data)
            if passed or not data:
                return passed

    def _scrubbed(self, data: bytes) -> bytes:
        """Return a piece without secrets; at the end what was held back."""
        scrub = self._job._scrub() if self._redact else None
        if self._scrubbing is None and scrub:
            self._scrubbing = scrub.stream()
        if self._scrubbing is None:
            return data
        if scrub:
            self._scrubbing.renew(scrub)
        return self._scrubbing.feed(data) if data else self._scrubbing.end()

    async def _take(self) -> bytes:
        async for _, data in self._chunks:
            self._job._entry().at(1, self._offset, data)
            self._offset += len(data)
            return data
        return b""

    async def write(self, data: bytes | str) -> None:
        """Type bytes or text."""
        if isinstance(data, str):
            data = text_bytes(data, "the input")
        if self._job._typed is not None:
            await self._job._typed.approve(data)
        await self._send(data)

    async def _type(self, data: bytes) -> None:
        """Pass on keys of the person at our own terminal, of which only what is blocked is refused."""
        if self._job._typed is not None:
            await self._job._typed.forbid(data)
        await self._send(data)

    async def _send(self, data: bytes) -> None:
        """Type bytes; at the end of a line a command may begin, which is to see what is fresh."""
        if b"\r" in data or b"\n" in data:
            with contextlib.suppress(ConfigError):  # what is not safe any more stays as it was
                await self._job._sandbox._given(b"", {})
        await self._stream.send(data)

    async def send_keys(self, *keys: str) -> None:
        """Press keys, named as in tmux (``Enter``, ``C-c``, ``Up``, ``F5``); other text is typed as it is."""
        await self.write(b"".join(map(key_bytes, keys)))

    async def resize(self, rows: int, cols: int) -> None:
        """Change the terminal's size; the program is told."""
        await self._job.resize(rows, cols)

    async def wait(self) -> int:
        """Read and drop what is left, and return the program's exit code (128 + n for signal n)."""
        while await self.read():
            pass
        from .channel.channel import checked

        code = checked((await self._stream.reply()).body.get("exit_code"), int)
        self._job._entry().exited(code)
        return code

    async def detach(self) -> None:
        """Stop reading; the program goes on."""
        if self._next is not None:
            self._next.cancel()
        self._stream.cancel()

    async def close(self) -> None:
        """End the program and everything it started."""
        await self._job.kill()
        await self.detach()

    async def __aenter__(self) -> Pty:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data
