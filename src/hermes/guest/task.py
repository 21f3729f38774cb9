"""Tasks: a command with its output, input and result, whether it runs in a session or by itself."""

import errno
import fcntl
import os
import signal
import struct
import termios
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from .proc import MARK, Nanny, exit_code, no_room, send_signal, widen
from .server import FINISHED_KEPT, Call, Guest, OpError
from .spool import TAIL, Spool

OUT, ERR = 1, 2
PIPE_SIZE = 1 << 18
LAG = 4 << 20  # bytes a live reader may be behind before the command has to wait for it
SPILLS_KEPT = 64
DRAIN_GRACE = 0.1  # seconds for helpers such as >(tee log), which end just after their command


class Reader:
    """Reads one pipe of a task into its spool."""

    def __init__(self, task: "Task", fd: int, chan: int, wait: bool = False) -> None:
        """Begin to read; with *wait* only when :meth:`resume` says so."""
        self.task = task
        self.fd = fd
        self.chan = chan
        self._watching = False
        self._wide = False
        if not wait:
            self.resume()

    def resume(self) -> None:
        if self.fd >= 0 and not self._watching:
            self._watching = True
            self.task.guest.loop.add_reader(self.fd, self.read)

    def pause(self) -> None:
        if self._watching:
            self._watching = False
            self.task.guest.loop.remove_reader(self.fd)

    def read(self) -> bool:
        """Read what one call gives; False when there is nothing now or no more."""
        if self.fd < 0:
            return False
        try:
            data = os.read(self.fd, PIPE_SIZE)
        except BlockingIOError:
            return False
        except OSError:  # EIO: the last process left the terminal
            data = b""
        if not data:
            self.close()
            self.task.stream_closed()
            return False
        if not self._wide and len(data) >= 65536:
            self._wide = True
            widen(self.fd, PIPE_SIZE)
        self.task.take(self.chan, data)
        return True

    def close(self) -> None:
        if self.fd >= 0:
            self.pause()
            os.close(self.fd)
            self.fd = -1
            self.task.readers.remove(self)


class Input:
    """What is still to be written to a task's standard input."""

    def __init__(self, guest: Guest, tty: bool = False) -> None:
        self.guest = guest
        self.fd = -1
        self.tty = tty
        self._queue: List[Any] = []
        self._eof = False
        self._closed = False
        self._watching = False

    def open(self, fd: int) -> None:
        """Begin writing, now that the process has its end."""
        self.fd = fd
        os.set_blocking(fd, False)
        self._push()

    def write(self, data: bytes, done: Callable[[], None]) -> None:
        """Write; *done* is called when the process took it, or cannot take it any more."""
        if self._closed or self._eof:
            done()
            return
        self._queue.append([memoryview(data), done])
        if self.fd >= 0:
            self._push()

    def finish(self) -> None:
        """Let the process see the end of its input after what is queued."""
        if self.tty:
            self.write(b"\x04", lambda: None)
            return
        self._eof = True
        if self.fd >= 0:
            self._push()

    def _push(self) -> None:
        try:
            while self._queue:
                view, done = self._queue[0]
                size = os.write(self.fd, view)
                if size < len(view):
                    self._queue[0][0] = view[size:]
                    continue
                self._queue.pop(0)
                done()
        except BlockingIOError:
            if not self._watching:
                self._watching = True
                self.guest.loop.add_writer(self.fd, self._push)
            return
        except OSError:
            self.close()
            return
        if self._watching:
            self._watching = False
            self.guest.loop.remove_writer(self.fd)
        if self._eof:
            self.close()

    def close(self) -> None:
        self._closed = True
        if self.fd >= 0:
            if not self.tty:  # a terminal's descriptor belongs to its reader
                self.guest.loop.remove_writer(self.fd)
                os.close(self.fd)
            elif self._watching:
                self.guest.loop.remove_writer(self.fd)
            self.fd = -1
        queue, self._queue = self._queue, []
        for _, done in queue:
            done()


class Watch:
    """A client that wants a task's output: live from an offset, or head and tail at the end."""

    def __init__(self, task: "Task", call: Call, live: bool, limit: int, offsets: Dict[int, int]) -> None:
        self.task = task
        self.call = call
        self.live = live
        self.limit = limit
        self.ranges: List[Any] = [[chan, offsets.get(chan, 0), None] for chan in task.spools] if live else []
        self.heads: Dict[str, int] = {}
        call.on_writable = self.pump

    def lag(self) -> int:
        """Bytes that wait for this reader; none when nobody is connected to read them."""
        if not self.live or not self.call.connected:
            return 0
        return int(max(self.task.spools[chan].size - at for chan, at, _ in self.ranges))

    def pump(self) -> None:
        """Send what credit allows, and the result after the last byte of an ended task."""
        if self.task.done and not self.live:
            self._cut()
        for one in self.ranges:
            chan, at, end = one
            spool = self.task.spools[chan]
            while at < (spool.size if end is None else end):
                room = self.call.writable()
                if not room:
                    return
                on = spool.next_offset(at)
                if on > at and end is None:  # a reader of the whole is told where some is missing
                    said = spool.notice(on - at)
                    if len(said) >= room:
                        return
                    self.call.send(said, chan)
                    room -= len(said)
                at = one[1] = on
                data = spool.read(at, min(room, (spool.size if end is None else end) - at))
                if not data:
                    break
                self.call.send(data, chan)
                at = one[1] = at + len(data)
        self.task.let_write()
        if self.task.done:
            self.task.watches.remove(self)
            outcome = self.task.outcome()
            if self.heads:
                outcome["heads"] = self.heads
            self.call.on_writable = None
            self.task.answered(self.call, outcome)

    def _cut(self) -> None:
        if self.ranges:
            return
        for chan, spool in self.task.spools.items():
            if not spool.size:
                continue
            if spool.size <= self.limit and not spool.dropped:
                self.ranges.append([chan, 0, spool.size])
            else:
                head = min(self.limit // 2, spool.kept)
                tail = max(head, spool.size - (self.limit - self.limit // 2))
                self.ranges += [[chan, 0, head], [chan, tail, spool.size]]
                self.heads[str(chan)] = head


class Task:
    """One command. Subclasses know how it runs and how it is stopped."""

    kind = "run"
    session: Optional[str] = None
    duration = 0.0
    state = "queued"  # then running, exited, timed_out, interrupted, expired
    why = "exited"
    refused: Tuple[str, ...] = ()  # why it was never begun: code and message
    by = ""  # the client that started it
    exit_code: Optional[int] = None
    out_of_memory = False
    cwd = ""
    tty = -1
    input: Optional[Input] = None
    timeout: Optional[float] = None
    done = False
    wanted = True  # somebody may still ask for it after its end
    _kills = 0
    _timer: Any = None
    _feeder: Optional[Call] = None

    def __init__(self, guest: Guest, command: str, limit: int, merge: bool) -> None:
        self.guest = guest
        guest.next_task += 1
        self.id = guest.next_task
        self.command = command
        self.limit = limit
        self.merge = merge
        self.created = self.started = time.time()
        self._clock = time.monotonic()
        self.spools: Dict[int, Spool] = {}
        prefix = "%s/%d" % (guest.state_dir, self.id)
        self.spools[OUT] = Spool(prefix + ".out", guest.quota)
        if not merge:
            self.spools[ERR] = Spool(prefix + ".err", guest.quota)
        self.readers: List[Reader] = []  # those that are open
        self.watches: List[Watch] = []
        guest.tasks[self.id] = self

    @property
    def pid(self) -> int:
        return 0

    def begin(self) -> None:
        """Note that the command runs now; its timeout counts from here."""
        self.state = "running"
        self.started = time.time()
        self._clock = time.monotonic()
        if self.guest.memory is not None:
            self._kills = self.guest.memory.count()
        if self.timeout is not None:
            self._timer = self.guest.loop.call_later(self.timeout, lambda: self.stop("timed_out"))

    def stop(self, why: str) -> None:
        """End the command and everything it started."""
        raise NotImplementedError

    def has_strays(self) -> bool:
        """Return whether processes that the command left in the background still hold its output."""
        return bool(self.readers)

    def finish(self, code: int, cwd: str) -> None:
        """Note the end of the command; readers get the rest of its output, then the result."""
        if self.done:
            return
        if self._timer is not None:
            self._timer.cancel()
        self.duration = time.monotonic() - self._clock
        self.exit_code = {"timed_out": 124, "interrupted": 130, "expired": 124, "failed": 126}.get(
            self.why, code
        )
        if self.guest.memory is not None and self.exit_code:
            self.out_of_memory = self.guest.memory.count() > self._kills
        self.cwd = cwd
        self.drain()
        self.state = self.why
        self.done = True
        if self.input is not None:
            self.input.close()
        if self.truncated:
            for spool in self.spools.values():
                spool.keep_on_disk()
        for watch in list(self.watches):
            watch.pump()
        self.guest.flush()  # the client need not wait while we clean up
        if not self.wanted or len(self.guest.tasks) > FINISHED_KEPT:
            self.guest.loop.call_soon(self.guest.forget_tasks)

    def drain(self) -> bool:
        """Read what the pipes hold now; True when no process has any of them open any more."""
        for reader in self.readers[:]:
            for _ in range(4):  # more than a pipe holds: whatever a writer adds meanwhile is not waited for
                if not reader.read():
                    break
        return not self.readers

    @property
    def truncated(self) -> bool:
        """Whether a result cannot hold the whole output."""
        for spool in self.spools.values():  # noqa: SIM110  # a generator would take longer
            if spool.size > self.limit or spool.dropped:
                return True
        return False

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.done and not self.watches and not self.has_strays()

    def listing(self) -> Dict[str, Any]:
        """Return the result so far and what tells the task from others."""
        return dict(self.result(), command=self.command[:4096], strays=self.done and self.has_strays())

    def result(self) -> Dict[str, Any]:
        """Return what a client gets to know about the task, whether it has ended or not."""
        return dict(
            self.outcome(),
            id=self.id,
            kind=self.kind,
            tty=self.tty >= 0,
            session=self.session,
            pid=self.pid,
            started=self.started,
            sizes={str(chan): spool.size for chan, spool in self.spools.items()},
        )

    def outcome(self) -> Dict[str, Any]:
        """Return what somebody who waited for the end gets to know."""
        outcome: Dict[str, Any] = {
            "state": self.state,
            "exit_code": self.exit_code,
            "duration": self.duration if self.done else time.monotonic() - self._clock,
            "cwd": self.cwd,
        }
        if self.out_of_memory:
            outcome["out_of_memory"] = True
        if self.truncated:
            outcome["truncated"] = True
            outcome["sizes"] = {str(chan): spool.size for chan, spool in self.spools.items()}
            outcome["spill"] = {
                str(chan): [spool.path, spool.size, spool.dropped, spool.error]
                for chan, spool in self.spools.items()
            }
        return outcome

    def watch(self, call: Call, live: bool, offsets: Optional[Dict[int, int]] = None) -> None:
        """Answer *call* with the output and the result."""
        if self.refused:
            call.fail(*self.refused)
            return
        watch = Watch(self, call, live, self.limit, offsets or {})
        self.watches.append(watch)

        def leave() -> None:
            self._unwatch(watch)
            if self._feeder is call and self.input is not None and self.kind == "run":
                self.input.finish()

        call.on_detach = call.on_cancel = leave
        if live or self.done:
            watch.pump()

    def refuse(self, code: str, text: str) -> None:
        """Answer everybody who waits for the command that it was never begun."""
        self.refused = (code, text)
        for watch in self.watches:
            watch.call.fail(code, text)

    def _unwatch(self, watch: Watch) -> None:
        if watch in self.watches:
            self.watches.remove(watch)
        if self.over:
            self.guest.loop.call_soon(self.guest.forget_tasks)
        self.let_write()

    def answered(self, call: Call, outcome: Dict[str, Any]) -> None:
        """Send the outcome; a task that ran for this call alone has served its purpose once that was read."""
        call.reply(outcome)
        if self.kind == "run" and call.task is self:
            call.client.told.append((call.client.link.sent, self))

    def take(self, chan: int, data: bytes) -> None:
        """Add to the output."""
        self.spools[chan].append(data)
        self.output_came()

    def output_came(self) -> None:
        for watch in self.watches:
            if watch.live:
                watch.pump()
        if self._too_far_behind():
            for reader in self.readers:
                reader.pause()

    def _too_far_behind(self) -> bool:
        """Whether a live reader has to catch up first: what is not on disk is kept for it in memory only."""
        limit = TAIL // 2 if any(spool.error is not None for spool in self.spools.values()) else LAG
        return any(watch.lag() > limit for watch in self.watches)

    def let_write(self) -> None:
        """Go on reading when no live reader is too far behind."""
        if self.readers and not self._too_far_behind():
            for reader in self.readers:
                reader.resume()

    def stream_closed(self) -> None:
        """Called when a pipe of the task has no writer left."""

    def take_input(self, call: Call) -> None:
        """Let a call's stream be the standard input, which ends when the client is lost for good."""
        target = self.input
        assert target is not None
        self._feeder = call
        call.on_data = lambda data, chan: target.write(data, lambda: call.grant(len(data)))
        call.on_eof = target.finish

    def close(self) -> None:
        """Release everything. A long output stays on disk while it may be paged."""
        for reader in self.readers[:]:
            reader.close()
        if self.input is not None:
            self.input.close()
        keep = self.kind == "run" and self.truncated and any(spool.on_disk for spool in self.spools.values())
        for spool in self.spools.values():
            spool.close(remove=not keep)
        if keep:
            self.guest.spills.append([spool.path for spool in self.spools.values()])
            while len(self.guest.spills) > SPILLS_KEPT:
                for path in self.guest.spills.pop(0):
                    remove_quietly(path)


def remove_quietly(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


class Process(Task):
    """A task with a process tree of its own: a one-off command, a job, a terminal."""

    def __init__(
        self,
        guest: Guest,
        kind: str,
        argv: List[str],
        command: str,
        env: Dict[str, str],
        cwd: str,
        limit: int,
        merge: bool,
        stdin: bool,
        size: Optional[List[int]] = None,
    ) -> None:
        Task.__init__(self, guest, command, limit, merge or size is not None)
        self.kind = kind
        self.cwd = cwd
        env = dict(env)
        env[MARK] = "%s.%d" % (guest.id, self.id)
        fds = self._open_tty(size) if size is not None else self._open_pipes(stdin)
        self.nanny = Nanny(guest.loop, argv, env, cwd, fds, size is not None)
        for fd in set(fds.values()):
            os.close(fd)
        self.nanny.on_exit = self._exited
        self.nanny.on_end = self._ended
        self.scripts: List[str] = []  # files that its shell reads, and nobody after its end

    def _open_tty(self, size: List[int]) -> Dict[int, int]:
        self.tty, slave = os.openpty()
        os.set_blocking(self.tty, False)
        set_size(self.tty, size)
        self.readers = [Reader(self, self.tty, OUT)]
        self.input = Input(self.guest, tty=True)
        self.input.open(self.tty)
        return {0: slave, 1: slave, 2: slave}

    def _open_pipes(self, stdin: bool) -> Dict[int, int]:
        fds = {}
        if stdin:
            fds[0], write = os.pipe()
            self.input = Input(self.guest)
            self.input.open(write)
        else:
            fds[0] = os.open("/dev/null", os.O_RDONLY)
        for chan in self.spools:
            read, fds[chan] = os.pipe()
            os.set_blocking(read, False)
            self.readers.append(Reader(self, read, chan))
        if self.merge:
            fds[ERR] = fds[OUT]
        return fds

    def stop(self, why: str) -> None:
        if self.done:
            return
        self.why = why
        if self.nanny.child:
            self.nanny.kill()
        else:  # it is being started
            self.guest.loop.call_later(0.005, lambda: self.stop(why))

    @property
    def pid(self) -> int:
        return self.nanny.child

    def has_strays(self) -> bool:
        return not self.nanny.ended

    def signal(self, number: int) -> None:
        """Send a signal to the command itself (a terminal: to its foreground processes)."""
        if self.tty >= 0 and not self.done:
            try:
                os.killpg(os.tcgetpgrp(self.tty), number)
                return
            except OSError:
                pass
        if self.nanny.child and not self.done:
            send_signal(self.nanny.child, number)

    def close(self) -> None:
        Task.close(self)
        for suffix in (".sh", ".state"):
            remove_quietly("%s/%d%s" % (self.guest.state_dir, self.id, suffix))

    def _exited(self) -> None:
        if self.nanny.error is not None:
            self.why = "failed"
            text = str(self.nanny.error)
            if self.nanny.error.errno == errno.EAGAIN:
                text = no_room()
                self.refuse("no_room", text)
            self.spools[OUT if self.merge else ERR].append(("hermes: %s\n" % text).encode())
        self.guest.loop.call_soon(self._drain)

    def _drain(self) -> None:
        if self.drain() or self.why != "exited":
            self._finish()
        else:
            self.guest.loop.call_later(DRAIN_GRACE, self._finish)

    def stream_closed(self) -> None:
        if self.nanny.status is not None and not self.readers:
            self._finish()

    def _finish(self) -> None:
        assert self.nanny.status is not None
        while self.scripts:
            remove_quietly(self.scripts.pop())
        self.finish(exit_code(self.nanny.status), self.cwd)

    def _ended(self) -> None:
        self.drain()
        for reader in self.readers[:]:
            reader.close()
        self.guest.loop.call_soon(self.guest.forget_tasks)


def set_size(fd: int, size: List[int]) -> None:
    """Set a terminal's rows and columns; its foreground processes get SIGWINCH."""
    rows, cols = (max(1, min(int(one), 0xFFFF)) for one in size)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def signal_number(name: Any) -> int:
    """Return the number of a signal given as ``"TERM"``, ``"SIGTERM"`` or 15."""
    if isinstance(name, int):
        return name
    number = getattr(signal, "SIG" + str(name).upper().replace("SIG", "", 1), None)
    if number is None:
        raise OpError("bad_request", "there is no signal %r" % name)
    return int(number)
