"""A process on the other machine, and what ssh says when there is none."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable

from hermes.config import environment
from hermes.errors import BackendError, HermesError, Unreachable
from hermes.guest.relay import NOTHING_LEFT

from ..channels import ProcessChannel
from ._bootstrap import RAN, REMOTE
from ._target import Target

__all__ = ["SshChannel", "failure_of"]

SSH_FAILED = 255
MAX_NOISE = 1 << 16
KEY_CHANGED = "remote host identification has changed"
OFFENDING = re.compile(r"^Offending .*key in (/[^\r\n]+):(\d+)\r?$", re.M)
KNOWN_AS = re.compile(r"key for (\S+) has changed")
UNREACHABLE = (
    "could not resolve",
    "connection refused",
    "connection timed out",
    "operation timed out",
    "timed out during",
    "no route to host",
    "network is unreachable",
    "host is down",
    "connection closed",
    "connection reset",
    "kex_exchange_identification",
    "banner exchange",
    "broken pipe",
    "not responding",
    "connect to host",
)


class SshChannel(ProcessChannel):
    """One ssh process: a connection of its own, with one process at its other end.

    :param line: the first line on its stdin, which the standard command is for
    """

    def __init__(
        self,
        target: Target,
        line: bytes = b"",
        *,
        command: str = REMOTE,
        connect_timeout: float | None = None,
    ) -> None:
        super().__init__([], env=_environment())
        self._target = target
        self._line = line
        self._command = command
        self._connect_timeout = connect_timeout
        self._said = b""
        self.ran = False  # a shell at the other end has read our line
        self.on_ran: Callable[[], None] = lambda: None

    async def _open(self) -> None:
        target = self._target
        self._argv = await asyncio.to_thread(
            lambda: target.argv(self._command, connect_timeout=self._connect_timeout)
        )
        await super()._open()
        self.write(self._line)

    def _deliver(self, data: bytes) -> None:
        if not self.ran:
            self._said = (self._said + data)[-MAX_NOISE:]
            if RAN in self._said:
                self.ran, self._said = True, b""
                self.on_ran()
        super()._deliver(data)

    @property
    def failure(self) -> HermesError | None:
        """Why there is no process at the other end; None while there is one, or when ssh does not say."""
        if self.returncode == SSH_FAILED:
            return failure_of(self.stderr_tail, self._target)
        if self.ran or self.returncode is None:
            return None
        words = f"{self.stderr_tail} {self._said.decode('utf-8', 'replace')}"
        shown = " ".join("".join(c if c.isprintable() else " " for c in words).split())[-400:]
        return BackendError(
            f"{self._target} lets us in, but does not run what it is asked to: {shown or 'it says nothing'}; "
            "nothing was run",
            code="no_shell_there",
            operation="connect",
            hint="The account needs a login shell that runs commands: not nologin, git-shell or a forced "
            f"command. Does this print ok: {self._target.by_hand('echo ok')}",
        )

    @property
    def nothing_left(self) -> bool:
        """Whether the guest at the other end removed all that was its sandbox's before it ended."""
        return self.returncode == NOTHING_LEFT


def failure_of(said: str, target: Target) -> HermesError:
    """Return the error for ssh's last words."""
    text = " ".join(said.split())
    shown = text if len(text) <= 400 else f"{text[:190]} ... {text[-200:]}"
    low = text.lower()
    if KEY_CHANGED in low:
        return BackendError(
            f"the host key of {target} is not the one that is known: somebody may be in between, or the host "
            "was installed anew; nothing was sent to it",
            code="host_key_changed",
            operation="connect",
            hint=f"Ask the host's administrator for its key. Only then: {_forgetting(said, target)}",
        )
    if "host key verification failed" in low:
        return BackendError(
            f"the host key of {target} is not known, and your ssh configuration forbids new ones; "
            "nothing was sent to it",
            code="host_key_unknown",
            operation="connect",
            hint="Add it to known_hosts, or leave StrictHostKeyChecking out there.",
        )
    if "permission denied" in low or "too many authentication failures" in low:
        return BackendError(
            f"{target} does not let us in: {shown}",
            code="login_refused",
            operation="connect",
            hint=f"Does this work: {target.by_hand('true')} -- No password is asked for here: use a key "
            "(ssh.key), and ssh-add where it has a passphrase.",
        )
    if any(words in low for words in UNREACHABLE) or not text:
        return Unreachable(
            f"{target} cannot be reached: {shown or 'ssh lost the connection'}; nothing was run",
            reason=shown or "ssh lost the connection",
            operation="connect",
            hint="Does it run, and are its name and port right? 'hermes config get ssh' shows them.",
        )
    return BackendError(f"ssh cannot connect to {target}: {shown}", operation="connect")


def _forgetting(said: str, target: Target) -> str:
    """Return the command that forgets a key: in the file and under the name that ssh tells of."""
    name = f"[{target.host}]:{target.port}" if target.port not in (None, 22) else target.host
    if (known := KNOWN_AS.search(said)) is not None:
        name = known[1]
    command = f"ssh-keygen -R {shlex.quote(name)}"
    if (found := OFFENDING.search(said)) is None:
        return command
    return f"{command} -f {shlex.quote(found[1])} -- the old key is in line {found[2]} there"


def _environment() -> dict[str, str]:
    # What ssh itself needs; the configuration may send variables on (SendEnv), which are then the user's
    # wish, but never hermes's own, nor what is declared for sandboxes.
    return {key: value for key, value in environment().items() if not key.startswith("HERMES_")}
