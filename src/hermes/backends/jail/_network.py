"""A way out for a jail's own network: slirp4netns or pasta, started beside it and ended with it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hermes.config import environment
from hermes.errors import BackendError

from .._metadata import no_metadata_script
from ._files import NAMESERVER

__all__ = ["PROGRAMS", "Network", "program"]

PROGRAMS = ("slirp4netns", "pasta")
READY_SECONDS = 10.0
_OWNER = 0xB701  # NS_GET_USERNS: the user namespace that a network belongs to
_PRIVATE = ("unshare", "--mount", "--propagation", "private")
# In the background, so that it is nobody's child for long. The pipe closes when the jail is there no more.
_UNTIL = """exec 3<&0 </dev/null; log=$1; shift
( "$@" 2>"$log" 3<&- & p=$!; read -r _ <&3; kill $p 2>/dev/null ) 2>/dev/null &
exec 3<&- """


def program() -> str | None:
    """Return the path of the first of the programs that there is. Blocks, for a moment."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Network:
    """The network of one jail on its way up. What is started here ends with the jail.

    :param ended: the end of a pipe whose other end the jail holds as long as it is
    """

    def __init__(self, path: str, log: Path, ended: int) -> None:
        self._path = path
        self._log = log
        self._ended = ended
        self._table = Path()
        self._routes: subprocess.Popen[bytes] | None = None

    def start(self, pid: int) -> None:
        """Start the program for the namespaces of a process. Blocks, for a moment.

        :raises BackendError: the namespaces cannot be joined
        """
        network = f"/proc/{pid}/ns/net"
        deadline = time.monotonic() + READY_SECONDS
        try:
            while not Path(f"/proc/{pid}/uid_map").read_text("ascii") and time.monotonic() < deadline:
                time.sleep(0.001)  # nobody can join before it is there
            with open(network, "rb") as file:
                owner = fcntl.ioctl(file, _OWNER)
        except OSError as error:
            raise _failed(f"its network cannot be found: {error.strerror}") from error
        user = f"/proc/self/fd/{owner}"
        self._table = Path(f"/proc/{pid}/net/route")
        if os.path.basename(self._path) == "slirp4netns":
            words = [self._path, "--configure", "--mtu=65520", "--disable-host-loopback", "--enable-seccomp"]
            if os.geteuid() == 0:
                # Its sandbox takes down what it leaves behind: in mounts that are shared, the machine's.
                # An ordinary user's has none: it would have to be root of two namespaces.
                words = [*_PRIVATE, *words, "--enable-sandbox"]
            words += [f"--userns-path={user}", "--netns-type=path", network, "tap0"]
        else:
            words = [self._path, "--foreground", "--config-net", "--no-map-gw", "--dns-forward", NAMESERVER]
            words += ["-t", "none", "-u", "none", "-T", "none", "-U", "none", "--userns", user]
            words += [] if os.geteuid() else ["--runas", "0"]
            words += ["--netns", network]
        # One shell starts both: each process from here would be waited for in turn.
        script = _UNTIL + shlex.join(_entering(user, network, no_metadata_script()))
        try:
            self._routes = subprocess.Popen(
                ["/bin/sh", "-c", script, "sh", str(self._log), *words],
                stdin=self._ended,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment(),
                cwd="/",
                pass_fds=(owner,),
                start_new_session=True,
            )
        except OSError as error:
            raise _failed(str(error)) from error
        finally:
            os.close(owner)

    def wait(self) -> None:
        """Wait until there is a way out, and none to the metadata of clouds. Blocks.

        :raises BackendError: it did not come about
        """
        deadline = time.monotonic() + READY_SECONDS
        while not self._has_way_out():
            if time.monotonic() > deadline:
                raise _failed(self._words())
            time.sleep(0.002)
        assert self._routes is not None
        try:
            _, words = self._routes.communicate(timeout=READY_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise _failed("the cloud's metadata addresses stay in reach") from error
        if self._routes.returncode != 0:
            raise _failed(
                f"the cloud's metadata addresses stay in reach: {words.decode('utf-8', 'replace')[:300]}"
            )

    def close(self) -> None:
        """Let go of it: what was started lives as long as the jail."""
        if self._routes is not None:
            if self._routes.poll() is None:
                self._routes.kill()
                self._routes.wait()
            if self._routes.stderr is not None:
                self._routes.stderr.close()

    def _has_way_out(self) -> bool:
        try:
            rows = self._table.read_text("ascii").splitlines()[1:]
        except OSError as error:
            raise _failed("the jail has ended") from error
        return any(row.split()[1] == "00000000" for row in rows)

    def _words(self) -> str:
        with contextlib.suppress(OSError):
            return " ".join(self._log.read_text("utf-8", "replace").split())[-300:] or "it said nothing"
        return "it said nothing"


def _entering(user: str, network: str, script: str) -> Sequence[str]:
    """Return what runs Python with rights in a network, and nowhere else."""
    enter = ("nsenter", "--preserve-credentials", f"--user={user}", f"--net={network}")
    return (*enter, sys.executable, "-I", "-S", "-c", script)


def _failed(why: str) -> BackendError:
    return BackendError(
        f"the jail got no network: {why}; no command was run",
        hint="Use network: off, or install slirp4netns or pasta anew.",
    )
