"""Between the user's terminal and one in the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from typing import TYPE_CHECKING

from hermes.errors import HermesError, Refused

from ._report import clean
from ._streams import Output, OutputClosed
from ._terminal import CALM, IN, OUT, Escapes, RawTerminal, terminal_size

if TYPE_CHECKING:
    from hermes.pty import Pty

READ_SIZE = 1 << 12
AHEAD = 1 << 16  # bytes of keys that may wait for the program


class NoTerminal(HermesError):
    """Stdin or stdout is no terminal."""

    default_code = "no_terminal"


def check_terminal(what: str) -> None:
    """See to it that there is a terminal.

    :raises NoTerminal: stdin or stdout is none
    """
    missing = [name for fd, name in ((IN, "input"), (OUT, "output")) if not os.isatty(fd)]
    if missing:
        raise NoTerminal(
            f"{what} needs a terminal; standard {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} none. Nothing was run",
            hint="For a command without one use 'hermes exec', with --stdin to give it input.",
        )


class Relay:
    """One interactive program. ``run`` returns its exit code, or None when the user left it running."""

    def __init__(self, pty: Pty, *, escape: str = "~") -> None:
        self._pty = pty
        self._escape = escape
        self._escapes = Escapes(escape.encode())
        self._terminal = RawTerminal()
        self._output = Output()
        self._keys: deque[bytes] = deque()
        self._waiting = 0
        self._arrived = asyncio.Event()
        self._leave = asyncio.Event()
        self._reading = False
        self._sizes: set[asyncio.Task[None]] = set()
        self.signal: int | None = None

    async def run(self) -> int | None:
        """Relay until the program ends, the user leaves it or a signal comes (see ``signal``).

        :raises HermesError: the sandbox is gone
        """
        loop = asyncio.get_running_loop()
        handlers = {
            signal.SIGWINCH: self._resize,
            signal.SIGTSTP: self._suspend,
            signal.SIGCONT: self._resume,
            signal.SIGINT: lambda: self._type(b"\x03"),
            signal.SIGTERM: lambda: self._ended(signal.SIGTERM),
            signal.SIGHUP: lambda: self._ended(signal.SIGHUP),
            signal.SIGQUIT: lambda: self._ended(signal.SIGQUIT),
        }
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        calm = True
        try:
            with self._terminal:
                self._listen()
                calm = (code := await self._relay()) is None
                return code
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)
            if calm:
                with contextlib.suppress(OSError):
                    os.write(OUT, CALM + b"\r\n")

    async def _relay(self) -> int | None:
        show = asyncio.create_task(self._show())
        feed = asyncio.create_task(self._feed())
        leave = asyncio.create_task(self._leave.wait())
        try:
            await asyncio.wait({show, feed, leave}, return_when=asyncio.FIRST_COMPLETED)
            if leave.done():
                return None
            if feed.done():
                feed.result()  # only an error ends it
            await asyncio.wait({show, leave}, return_when=asyncio.FIRST_COMPLETED)
            if leave.done():
                return None
            return show.result()
        finally:
            self._deafen()
            for task in (show, feed, leave, *self._sizes):
                task.cancel()
            await asyncio.wait({show, feed, leave})

    async def _show(self) -> int | None:
        try:
            while data := await self._pty.read():
                await self._output.write(OUT, data)
        except OutputClosed:
            self._ended(signal.SIGHUP)
            return None
        return await self._pty.wait()

    async def _feed(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._keys:
                data = self._keys.popleft()
                try:
                    await self._pty._type(data)
                except Refused as error:
                    await self._refuse(error)
                self._waiting -= len(data)
                self._listen()

    async def _refuse(self, error: Refused) -> None:
        """Say why Enter was not passed on, and clear the line."""
        said = f"\r\nhermes: {clean(error.message)}\r\n"
        await self._output.write(OUT, said.encode("utf-8", "replace"))
        await self._pty._type(b"\x05\x15\r")  # from the end of the line: the cursor may be anywhere

    # --- keys

    def _listen(self) -> None:
        if not self._reading and not self._leave.is_set():
            self._reading = True
            asyncio.get_running_loop().add_reader(IN, self._read)

    def _deafen(self) -> None:
        if self._reading:
            self._reading = False
            asyncio.get_running_loop().remove_reader(IN)

    def _read(self) -> None:
        try:
            keys = os.read(IN, READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            keys = b""
        if not keys:  # the terminal was closed
            self._ended(signal.SIGHUP)
            return
        for typed in self._escapes.feed(keys):
            if typed.what == "data":
                self._type(typed.data)
            elif typed.what == "detach":
                self._leave.set()
            elif typed.what == "suspend":
                self._suspend()
            else:
                self._help()

    def _type(self, data: bytes) -> None:
        self._keys.append(data)
        self._waiting += len(data)
        self._arrived.set()
        if self._waiting > AHEAD:
            self._deafen()

    def _help(self) -> None:
        char = self._escape
        text = (
            f"\r\n{char}.   leave it running and go\r\n{char}^Z  suspend hermes\r\n"
            f"{char}{char}   type one {char}\r\n(at the beginning of a line only)\r\n"
        )
        os.write(OUT, text.encode())

    # --- signals

    def _ended(self, number: int) -> None:
        self.signal = number
        self._leave.set()

    def _resize(self) -> None:
        async def tell() -> None:
            with contextlib.suppress(HermesError):
                await self._pty.resize(*terminal_size())

        task = asyncio.get_running_loop().create_task(tell())
        self._sizes.add(task)
        task.add_done_callback(self._sizes.discard)

    def _suspend(self) -> None:
        sys.stdout.flush()
        self._terminal.suspend()

    def _resume(self) -> None:
        self._terminal.enter()
        self._resize()
