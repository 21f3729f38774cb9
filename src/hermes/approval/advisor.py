"""The advisor: a program of the user's that comments on what is asked. It decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Sequence

from hermes.config import environment

from . import Decision, Request
from .redact import redact

__all__ = ["Advisor"]

SECONDS = 20.0
MAX_COMMENT = 2000  # characters


class Advisor:
    """Runs a program that gets the decision as JSON on its standard input and prints a comment."""

    def __init__(self, argv: Sequence[str], *, seconds: float = SECONDS) -> None:
        self._argv = tuple(argv)
        self._seconds = seconds

    async def __call__(self, request: Request, decision: Decision) -> str:
        """Return what the program says, or in its place what was wrong with it."""
        facts = {
            "kind": request.kind,
            "text": redact(request.text),
            "cwd": request.cwd,
            "backend": request.backend,
            "programs": [[redact(word) for word in one.argv] for one in decision.programs],
            "reason": decision.reason,
            "rule": decision.rule,
            "severity": decision.severity,
        }
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # without our terminal
                env=environment(),
            )
        except OSError as error:
            return f"(the advisor cannot be run: {error.strerror or error})"
        try:
            async with asyncio.timeout(self._seconds):
                out, _ = await process.communicate(json.dumps(facts).encode())
        except TimeoutError:
            return f"(the advisor said nothing within {self._seconds:g} s)"
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            return f"(the advisor failed with exit code {process.returncode})"
        return out.decode("utf-8", "replace").strip()[:MAX_COMMENT]
