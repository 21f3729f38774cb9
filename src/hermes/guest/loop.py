"""A small event loop on epoll, or poll where there is none: readers, writers, timers, deferred calls."""

import collections
import heapq
import itertools
import select
import sys
import time
import traceback
from typing import Any, Callable, Deque, Dict, List, Optional

READ, WRITE = select.POLLIN, select.POLLOUT
READ_OVER = READ | select.POLLHUP | select.POLLERR
WRITE_OVER = WRITE | select.POLLHUP | select.POLLERR


class Timer:
    """What :meth:`Loop.call_later` returns."""

    __slots__ = ("callback", "when")

    def __init__(self, when: float, callback: Optional[Callable[[], Any]]) -> None:
        self.when = when
        self.callback = callback

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """Runs callbacks; one that raises is reported on stderr and the loop goes on."""

    def __init__(self) -> None:
        self._unit = 1 if hasattr(select, "epoll") else 1000  # of a timeout, in seconds
        self._poll: Any = select.epoll() if hasattr(select, "epoll") else select.poll()
        self._callbacks: Dict[int, List[Optional[Callable[[], Any]]]] = {}
        self._timers: List[Any] = []
        self._order = itertools.count()
        self._soon: Deque[Callable[[], Any]] = collections.deque()
        self._running = False
        self.before_wait: Callable[[], None] = lambda: None

    def add_reader(self, fd: int, callback: Callable[[], Any]) -> None:
        self._set(fd, 0, callback)

    def remove_reader(self, fd: int) -> None:
        self._set(fd, 0, None)

    def add_writer(self, fd: int, callback: Callable[[], Any]) -> None:
        self._set(fd, 1, callback)

    def remove_writer(self, fd: int) -> None:
        self._set(fd, 1, None)

    def call_soon(self, callback: Callable[[], Any]) -> None:
        self._soon.append(callback)

    def call_later(self, seconds: float, callback: Callable[[], Any]) -> Timer:
        timer = Timer(time.monotonic() + seconds, callback)
        heapq.heappush(self._timers, (timer.when, next(self._order), timer))
        return timer

    def stop(self) -> None:
        self._running = False

    def run(self) -> None:
        self._running = True
        while self._running:
            for _ in range(len(self._soon)):
                self._call(self._soon.popleft())
            self.before_wait()
            # All looked up first: a callback may close a descriptor, and a new one get its number.
            ready = [(self._callbacks.get(fd), events) for fd, events in self._poll.poll(self._timeout())]
            for pair, events in ready:
                if pair is None:
                    continue
                if pair[0] is not None and events & READ_OVER:
                    self._call(pair[0])
                if pair[1] is not None and events & WRITE_OVER:
                    self._call(pair[1])
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                callback = heapq.heappop(self._timers)[2].callback
                if callback is not None:
                    self._call(callback)

    def _timeout(self) -> float:
        if self._soon or not self._running:
            return 0
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return -1
        # a little later rather than a little too early, which would turn the loop in vain
        wait: float = self._timers[0][0] - time.monotonic() + 0.0005
        return max(0.0, wait) * self._unit

    def _set(self, fd: int, which: int, callback: Optional[Callable[[], Any]]) -> None:
        pair = self._callbacks.get(fd)
        if pair is None:
            if callback is None:
                return
            pair = self._callbacks[fd] = [None, None]
        old = pair[:]
        pair[which] = callback
        if [bool(one) for one in old] == [bool(one) for one in pair]:
            return
        mask = (READ if pair[0] else 0) | (WRITE if pair[1] else 0)
        if not mask:
            del self._callbacks[fd]
            self._poll.unregister(fd)
        elif any(old):
            self._poll.modify(fd, mask)
        else:
            self._poll.register(fd, mask)

    @staticmethod
    def _call(callback: Callable[[], Any]) -> None:
        try:
            callback()
        except Exception:
            traceback.print_exc(file=sys.stderr)
