"""Work that may take long runs in a forked child, so that the loop never waits.

A child gets its pipes and nothing else of the guest. Its verdict comes over a pipe, so it does
not matter who reaps it.
"""

import json
import os
import signal
from typing import Any, Callable, Dict, List, Optional, Tuple

from .archive import explain, write_all
from .proc import close_all_but, widen

PIPE_SIZE = 1 << 20
READ_SIZE = 1 << 18


def pipe() -> Tuple[int, int]:
    """Return a pipe with room for several chunks, where the system gives it."""
    ends = os.pipe()
    widen(ends[1], PIPE_SIZE)
    return ends


def fork(work: Callable[[], Optional[Dict[str, Any]]], keep: Tuple[int, ...]) -> Tuple[int, int]:
    """Run *work* in a child that keeps the descriptors *keep*; return its pid and its verdict's pipe."""
    verdict, out = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(verdict)
        os.close(out)
        raise
    if pid:
        os.close(out)
        return pid, verdict
    try:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            close_all_but({0, 1, 2, out}.union(keep))
            answer = work() or {}
        except BaseException as error:
            code, text = explain(error)
            answer = {"code": code, "message": text}
        write_all(out, json.dumps(answer).encode("ascii"))
    finally:
        os._exit(0)


class Child:
    """A child that serves a call; its verdict is the call's answer."""

    def __init__(
        self, guest: Any, call: Any, work: Callable[[], Optional[Dict[str, Any]]], keep: Tuple[int, ...] = ()
    ) -> None:
        self.loop = guest.loop
        self.call = call
        self._answer = b""
        self._pid, self._verdict = fork(work, keep)
        call.on_cancel = self.cancel
        self.loop.add_reader(self._verdict, self._readable)

    def cancel(self) -> None:
        """End the child; while its verdict is open and it is not reaped, the pid is its own."""
        try:
            if self._verdict >= 0 and os.waitpid(self._pid, os.WNOHANG)[0] == 0:
                os.kill(self._pid, signal.SIGTERM)
        except OSError:
            pass
        self.close()

    def close(self) -> None:
        self._verdict = self._drop(self._verdict)

    def _drop(self, fd: int) -> int:
        if fd >= 0:
            self.loop.remove_reader(fd)
            self.loop.remove_writer(fd)
            os.close(fd)
        return -1

    def _readable(self) -> None:
        data = os.read(self._verdict, READ_SIZE)
        self._answer += data
        if not data:
            self._verdict = self._drop(self._verdict)
            try:
                os.waitpid(self._pid, 0)
            except OSError:
                pass  # the guest's handler was first
            self.ended(json.loads(self._answer.decode("ascii") or "null"))

    def ended(self, answer: Optional[Dict[str, Any]]) -> None:
        """Answer the call with the verdict; None stands for a child that was killed."""
        self.close()
        if answer is None:
            self.call.fail("io", "the process that did the work was killed")
        elif "code" in answer:
            self.call.fail(answer.pop("code"), answer.pop("message"), **answer)
        else:
            self.call.reply(answer)


class Producer(Child):
    """A child whose output goes to the client as fast as the client takes it."""

    def __init__(self, guest: Any, call: Any, work: Callable[[int], Optional[Dict[str, Any]]]) -> None:
        self._data, out = pipe()
        self._last: List[Optional[Dict[str, Any]]] = []
        try:
            Child.__init__(self, guest, call, lambda: work(out), (out,))
        except OSError:
            os.close(self._data)
            raise
        finally:
            os.close(out)
        call.on_writable = self._watch
        self._watch()

    def close(self) -> None:
        Child.close(self)
        self._data = self._drop(self._data)

    def ended(self, answer: Optional[Dict[str, Any]]) -> None:
        if answer is None or "code" in answer or self._data < 0:
            Child.ended(self, answer)
        else:
            self._last = [answer]

    def _watch(self) -> None:
        if self._data >= 0:
            if self.call.writable() > 0:
                self.loop.add_reader(self._data, self._relay)
            else:
                self.loop.remove_reader(self._data)

    def _relay(self) -> None:
        room = self.call.writable()
        if not room:
            self._watch()
            return
        data = os.read(self._data, room)
        if data:
            self.call.send(data)
            self._watch()
            return
        self._data = self._drop(self._data)
        self.call.send_eof()
        if self._last:
            Child.ended(self, self._last[0])


class Consumer(Child):
    """A child that is fed what the client sends."""

    def __init__(self, guest: Any, call: Any, work: Callable[[int], Optional[Dict[str, Any]]]) -> None:
        source, self._data = pipe()
        self._waiting: List[Any] = []
        self._complete = False
        try:
            Child.__init__(self, guest, call, lambda: work(source), (source,))
        except OSError:
            os.close(self._data)
            raise
        finally:
            os.close(source)
        os.set_blocking(self._data, False)
        call.on_data = self._take
        call.on_eof = self._eof

    def close(self) -> None:
        Child.close(self)
        self._data = self._drop(self._data)

    def cancel(self) -> None:
        self.close()  # the child sees its input end too early, removes what is half written, and ends

    def _take(self, data: bytes, _chan: int) -> None:
        if self._data >= 0:
            self._waiting.append(data)
            self.loop.add_writer(self._data, self._feed)

    def _eof(self) -> None:
        self._complete = True
        if self._data >= 0:
            self.loop.add_writer(self._data, self._feed)

    def _feed(self) -> None:
        try:
            while self._waiting:
                data = self._waiting[0]
                size = os.write(self._data, data)
                self.call.grant(size)
                if size < len(data):
                    self._waiting[0] = memoryview(data)[size:]
                else:
                    self._waiting.pop(0)
        except BlockingIOError:
            return
        except OSError:
            self._waiting = []  # the child has ended early; its verdict says why
            self._complete = True
        self.loop.remove_writer(self._data)
        if self._complete:
            self._data = self._drop(self._data)
