"""A clock that can be moved on, so that nobody waits for an emulated expiry."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

__all__ = ["Clock", "Timer"]


class Timer:
    """What happens at a time of the emulated clock; see :meth:`Clock.call_at`."""

    def __init__(self, at: float, then: Callable[[], None]) -> None:
        self.at = at
        self.then = then

    def cancel(self) -> None:
        """Let it not happen."""
        self.then = lambda: None


class Clock:
    """Seconds since 1970 that go by as real ones do, and faster when told so."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._timers: list[Timer] = []
        self._waiting: asyncio.TimerHandle | None = None

    def time(self) -> float:
        """Return the emulated time."""
        return time.time() + self._ahead

    def call_at(self, at: float, then: Callable[[], None]) -> Timer:
        """Call something at an emulated time, on the event loop."""
        timer = Timer(at, then)
        self._timers.append(timer)
        self._look()
        return timer

    async def sleep(self, seconds: float) -> None:
        """Wait for so many emulated seconds."""
        over = asyncio.Event()
        timer = self.call_at(self.time() + seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    def advance(self, seconds: float) -> None:
        """Let the time pass at once. What is due happens in its order, at its own emulated time."""
        end = self._ahead + seconds
        while due := [t for t in self._timers if t.at <= time.time() + end]:
            first = min(due, key=lambda t: t.at)
            self._timers.remove(first)
            self._ahead = max(self._ahead, first.at - time.time())
            first.then()
        self._ahead = max(self._ahead, end)
        self._look()

    def _look(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        if self._timers:
            wait = min(t.at for t in self._timers) - self.time()
            self._waiting = asyncio.get_running_loop().call_later(max(wait, 0), self._due)

    def _due(self) -> None:
        self._waiting = None
        self.advance(0)
