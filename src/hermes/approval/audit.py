"""The audit log: one line of JSON for each question that was not answered by the judge alone.

``audit.jsonl`` in hermes's home, mode 0600. A line is one write to a file opened for appending, so that
several processes may log at a time. When the file has grown large it is moved aside.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pwd
import shlex
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hermes.config import home as default_home
from hermes.errors import HermesError
from hermes.state import Lock

from . import UNKNOWN, Decision, Request
from .redact import MARK, found_in, redact, secrets_in

__all__ = ["AuditLog"]

MAX_SIZE = 10 << 20
KEPT = 3  # older files
MAX_TEXT = 8 << 10  # of a command, in characters


class AuditLog:
    """The log of one hermes home, written to by one client."""

    def __init__(
        self,
        home: Path | None = None,
        *,
        client: str = "",
        sandbox: str = "",
        secrets: Iterable[str] = (),
        max_size: int = MAX_SIZE,
        kept: int = KEPT,
    ) -> None:
        """Nothing is opened yet.

        :param client: tells this client from others of the same process
        :param secrets: what is never written
        """
        root = home or default_home()
        self.path = root / "audit.jsonl"
        self._locks = root / "state" / "locks"
        self._client = client
        self._sandbox = sandbox
        self._secrets = tuple(secrets)
        self._max_size = max_size
        self._kept = kept

    def note(self, request: Request, decision: Decision, answer: str, how: str) -> None:
        """Write one entry. Blocks.

        :raises HermesError: code ``audit_unwritable``
        """
        secrets = (*self._secrets, *secrets_in(os.environ))
        words = found_in(request.text)  # a pipe's two ends may tell only together that a word is one
        entry = {
            "time": round(time.time(), 3),
            "user": _user(),
            "pid": os.getpid(),
            "client": self._client,
            "session": request.session,
            "backend": request.backend,
            "host": request.host,
            "sandbox": self._sandbox,
            "cwd": None if request.cwd is None else redact(request.cwd, secrets),
            "kind": request.kind,
            "text": _short(redact(request.text, secrets)),
            "programs": [
                _short(redact(" ".join(_quoted(word, words) for word in program.argv), secrets))
                for program in decision.programs[:50]
            ],
            "action": decision.action,
            "rule": decision.rule,
            "reason": redact(decision.reason, secrets),
            "severity": decision.severity,
            "answer": answer,
            "how": how,
        }
        line = json.dumps(entry, ensure_ascii=True) + "\n"
        try:
            self._append(line.encode("ascii"))
        except OSError as error:
            raise HermesError(
                f"{self.path} cannot be written: {error.strerror or error}",
                code="audit_unwritable",
                hint="What is asked about runs only when it is logged: mend the file, or set HERMES_HOME.",
            ) from error

    def _append(self, line: bytes) -> None:
        fd = self._opened()
        try:
            if os.fstat(fd).st_size + len(line) > self._max_size:
                self._rotate()
                os.close(fd)
                fd = -1
                fd = self._opened()
            written = os.write(fd, line)
            if written != len(line):  # a full disk takes a part
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            if fd >= 0:
                os.close(fd)

    def _opened(self) -> int:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(self.path, flags, 0o600)
        try:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode):
                raise OSError(0, "it is not a file")
            if facts.st_uid != os.geteuid():
                raise OSError(0, f"it belongs to user {facts.st_uid}")
            if facts.st_mode & 0o077:
                os.fchmod(fd, 0o600)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _rotate(self) -> None:
        self._locks.mkdir(mode=0o700, parents=True, exist_ok=True)
        with Lock(self._locks / "audit.lock", timeout=10.0):
            with contextlib.suppress(FileNotFoundError):
                if self.path.stat().st_size <= self._max_size // 2:
                    return  # another process was faster
            for number in range(self._kept, 0, -1):
                source = self._older(number - 1) if number > 1 else self.path
                with contextlib.suppress(FileNotFoundError):
                    os.replace(source, self._older(number))

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def files(self) -> list[Path]:
        """Return the files that there are, the oldest first."""
        found = [self._older(number) for number in range(self._kept, 0, -1)] + [self.path]
        return [path for path in found if path.exists()]

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield all entries, the oldest first; lines that are none are left out.

        :raises HermesError: code ``audit_unreadable``
        """
        for path in self.files():
            try:
                with open(path, "rb") as file:
                    for line in file:
                        entry = parsed(line)
                        if entry is not None:
                            yield entry
            except OSError as error:
                raise HermesError(
                    f"{path} cannot be read: {error.strerror or error}", code="audit_unreadable"
                ) from error


def parsed(line: bytes) -> dict[str, Any] | None:
    """Return the entry in a line, None for one that is not whole."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _quoted(word: str, secrets: frozenset[str]) -> str:
    if word in secrets:
        return MARK
    return word if UNKNOWN in word and word.isprintable() else shlex.quote(word)


def _short(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}[... {len(text) - 2 * half} characters ...]{text[-half:]}"
