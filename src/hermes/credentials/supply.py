"""Bringing what is declared into one sandbox, and keeping it as fresh there as it is here."""

from __future__ import annotations

import asyncio
import contextlib
import re
import warnings
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

from hermes.config import Credentials
from hermes.errors import ConfigError, HermesError

from . import stage
from ._declared import Content, Declared, Piece
from ._home import mend, root_told
from .scrub import Scrub
from .values import MOST

if TYPE_CHECKING:
    from hermes.backends.base import Backend, Shown
    from hermes.channel.channel import Channel, Stream

__all__ = ["STALE", "VARIABLE", "Declared", "Supply", "begun", "check", "mend", "root_told"]

VARIABLE = "HERMES_CREDENTIALS"
STALE = "credentials_stale"
_OPERATION = "credentials"


def check(settings: Credentials) -> Declared:
    """Read what is declared, before anything is started. Blocks.

    :raises ConfigError: something declared is not there, or is not safe
    """
    declared = Declared(settings)
    absent = declared.read().absent
    if absent and settings.missing == "error":
        raise ConfigError(
            f"declared credentials are missing: {'; '.join(absent)}; nothing was started",
            code="credentials_missing",
            hint="Provide them, do not declare them, or set credentials.missing to warn.",
            context={"missing": list(absent)},
        )
    for what in absent:
        warnings.warn(f"a declared credential is missing, and not in the sandbox: {what}", stacklevel=4)
    return declared


async def begun(declared: Declared, settings: Credentials, place: Backend, channel: Channel) -> Supply:
    """Bring what is declared into a place that has just been opened, and return what keeps it fresh there."""
    supply = Supply(declared, settings, place, channel)
    await supply.begin()
    return supply


class Supply:
    """What one open sandbox has of the declared credentials. Used from one event loop."""

    def __init__(self, declared: Declared, settings: Credentials, place: Backend, channel: Channel) -> None:
        self._declared = declared
        self._settings = settings
        self._shown: Shown | None = place.credentials_shown()
        self._channel = channel
        self._sent: Mapping[str, Piece] | None = None  # None: it is not known what is there
        self._state = str(channel.guest.get("credentials") or "") if self._shown is None else ""
        self._lock = asyncio.Lock()
        self._watching: set[asyncio.Task[None]] = set()
        self._scrub: Scrub | None = None
        self._scrubbed: Content | None = None

    @property
    def content(self) -> Content:
        """What is declared, as it was when it was last looked at."""
        return self._declared.content

    @property
    def scrub(self) -> Scrub | None:
        """What takes secrets out of what comes back, None when nothing is taken out."""
        if self._scrubbed is not self.content:
            self._scrubbed = self.content
            if self._settings.redact != "off":
                values = self._declared.values()
                if len(values) >= MOST:
                    warnings.warn(
                        f"more than {MOST} values are declared: only so many are taken out of output",
                        stacklevel=4,
                    )
                self._scrub = Scrub(
                    values, shapes=self._settings.redact == "all", former=self._declared.former
                )
        return self._scrub

    @property
    def way(self) -> str:
        """How files get there: ``mount`` or ``channel``."""
        return "mount" if self._shown is not None else "channel"

    async def begin(self) -> None:
        """Bring everything there, unless it is there already."""
        async with self._lock:
            await self._deliver()

    async def for_command(self, command: bytes, env: Mapping[str, str] | None = None) -> dict[str, Any]:
        """See to it that everything is as fresh as here, and return what a call for a command has to say.

        :param env: what the caller sets, which goes before what is declared
        :raises ConfigError: something declared is not safe any more; the command is not to be run
        """
        # A stat for each file, which takes less than to have a thread do it.
        if self._lock.locked() or self._state != self.content.state or self._declared.changed():
            async with self._lock:
                await asyncio.to_thread(self._declared.read)
                await self._deliver()
        content = self._declared.content
        given: dict[str, Any] = {}
        variables: dict[str, str] = dict(content.env)
        if self._settings.per_command:
            variables = {key: value for key, value in variables.items() if _names(key, command)}
        if content.files:
            if self._shown is None:
                given["credentials"] = content.state
            else:
                variables[VARIABLE] = self._shown.inside
        if variables:
            given["env"] = {**variables, **(env or {})}
        return given

    async def again(self) -> None:
        """Bring everything there anew, since the guest has other files than those that we sent.

        :raises HermesError: it cannot be done
        """
        async with self._lock:
            self._sent, self._state = None, ""
            await self._deliver(wait=True)

    async def mended(self, error: HermesError, tries: int) -> bool:
        """Return whether a command was refused for what the guest had, which is what we have now."""
        if error.code != STALE or tries > 2:
            return False
        await self.again()
        return True

    async def leave(self, name: str) -> None:
        """Take away what lies on a disk of a place that keeps its files when it is left, by itself or by us.

        In memory it stays, for what still runs there. *name* is the sandbox's, for a warning.
        """
        if self._shown is None and (self._sent or self._state):
            try:
                await self._channel.call(_OPERATION, {"remove": "disk"}, timeout=10.0)
            except (HermesError, TimeoutError) as error:
                warnings.warn(
                    f"the credentials on the disk of '{name}' could not be removed as it was left, and "
                    f"what keeps that disk keeps them: {str(error) or 'no answer'}",
                    stacklevel=3,
                )

    @contextlib.asynccontextmanager
    async def withdrawn(self) -> AsyncGenerator[None, None]:
        """Take everything away while the place is suspended or its files are kept.

        A command that comes meanwhile waits, and has it brought back when the place is still there then.
        """
        async with self._lock:
            if self._sent or self._state:
                if self._shown is not None:
                    await asyncio.to_thread(stage.clear, self._shown.here)
                if self._shown is None or self._links():
                    await self._channel.call(_OPERATION, {"remove": True}, timeout=10.0)
                self._sent, self._state = None, ""
            yield

    # --- bringing it there

    async def _deliver(self, *, wait: bool = False) -> None:
        self._channel.check(_OPERATION)  # nothing is put where nobody would take it away again
        content = self._declared.content
        if content.state == self._state:
            return
        if self._shown is not None:
            await asyncio.to_thread(stage.write, self._shown.here, content.files, self._sent)
        links = self._links()
        if self._shown is None or links:
            stream = self._send(content, links)
            if wait:
                await stream.reply()
            else:
                task = asyncio.get_running_loop().create_task(self._outcome(stream))
                self._watching.add(task)
                task.add_done_callback(self._watching.discard)
        self._sent, self._state = content.files, content.state

    def _send(self, content: Content, links: Mapping[str, str]) -> Stream:
        """Send what changed, in one message ahead of the command's own; its answer is not waited for."""
        args: dict[str, Any] = {"state": content.state, "links": links}
        if self._shown is not None:
            return self._channel.open(_OPERATION, {**args, "mount": self._shown.inside})
        before = self._sent or {}
        fresh = {name: one for name, one in content.files.items() if before.get(name) != one}
        args["files"] = [
            [name, 0o700 if one.executable else 0o600, len(one.data)] for name, one in fresh.items()
        ]
        args["names"] = list(content.files)
        return self._channel.open(_OPERATION, args, b"".join(one.data for one in fresh.values()))

    def _links(self) -> dict[str, str]:
        return {one.to: name for name, one in self.content.files.items() if one.to}

    async def _outcome(self, stream: Stream) -> None:
        try:
            problems = (await stream.reply()).body.get("problems")
        except HermesError:
            return  # the command that came with it is answered with that, and it is sent again
        for one in problems if isinstance(problems, list) else ():
            warnings.warn(f"a credential could not be put where it is wanted: {str(one)[:300]}", stacklevel=1)


def _names(name: str, command: bytes) -> bool:
    return re.search(rb"(?<![A-Za-z0-9_])%s(?![A-Za-z0-9_])" % name.encode(), command) is not None
