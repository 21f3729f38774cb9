"""The password for sudo: given to the guest for what the approval point has let through."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import warnings
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from hermes.channel.message import pack, unpack
from hermes.errors import HermesError, Refused
from hermes.guest.frames import ProtocolError

from . import UNKNOWN, Decision

if TYPE_CHECKING:
    from hermes.channel.channel import Channel, Stream

    from .gate import Gate

__all__ = ["Password"]

OPERATION = "sudo"
NAMES = ("sudo", "sudoedit")
KEPT = 1000  # commands of which it is known what they may do by sudo
MAX_OPEN = 16  # questions at a time
QUIET = ("sudo_needless", "unknown_op")


class Password:
    """Answers the questions of sudo in one sandbox."""

    def __init__(self, password: str, gate: Gate) -> None:
        self._password = password
        self._gate = gate
        self._passed: OrderedDict[str, list[tuple[str, ...]]] = OrderedDict()
        self._work: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return "Password()"

    def passed(self, text: str, decision: Decision) -> None:
        """Note what a command that may run is known to do by sudo."""
        found = [one.argv[1:] for one in decision.programs if one.argv and _is_sudo(one.argv[0])]
        if not found:
            return
        self._passed[_digest(text)] = found
        while len(self._passed) > KEPT:
            self._passed.popitem(last=False)

    def watch(self, channel: Channel) -> None:
        """Wait for questions from now on, until :meth:`close`."""
        self._spawn(self._questions(channel.open(OPERATION)))

    def close(self) -> None:
        """Answer nothing more."""
        for task in list(self._work):
            task.cancel()

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _questions(self, stream: Stream) -> None:
        from hermes.channel.channel import checked

        try:
            async for _, body in stream:
                asked, _ = unpack(body)
                ident, argv = checked(asked.get("id"), int), checked(asked.get("argv"), list[str])
                if len(self._work) > MAX_OPEN:  # a sandbox that floods, and no person can answer so many
                    await stream.send(pack({"id": ident, "message": "too many ask at once"}))
                    continue
                self._spawn(self._answer(stream, ident, argv[1:], asked.get("command")))
            await stream.reply()
        except ProtocolError:
            stream.cancel()
        except HermesError as error:
            stream.cancel()
            if error.code not in QUIET and error.code.startswith("sudo_"):
                warnings.warn(f"no password for sudo in this sandbox: {error}", stacklevel=1)

    async def _answer(self, stream: Stream, ident: int, words: list[str], command: object) -> None:
        try:
            if not self._has_passed(command, words):
                # A script, say, whose text was not read: the person is asked now.
                await self._gate.check(self._gate.request("run", shlex.join(["sudo", *words]), cwd=None))
        except Refused as error:
            await stream.send(pack({"id": ident, "message": str(error)[:1000]}))
            return
        await stream.send(pack({"id": ident}, self._password.encode("utf-8", "surrogateescape")))

    def _has_passed(self, digest: object, words: list[str]) -> bool:
        return any(_covers(one, words) for one in self._passed.get(str(digest), ()))


def _is_sudo(program: str) -> bool:
    return program.rpartition("/")[2] in NAMES


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _covers(passed: tuple[str, ...], words: list[str]) -> bool:
    """Return whether arguments are those that were let through, as far as they were known then."""
    known = next((at for at, word in enumerate(passed) if UNKNOWN in word), None)
    return tuple(words) == passed if known is None else tuple(words[:known]) == passed[:known]
