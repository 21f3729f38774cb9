"""Sessions: one long-lived bash (or sh) each, in which commands are evaluated one after the other.

The shell reads lines that we write to a pipe. Each line sources the command from a file, with its
own stdout, stderr and stdin, at top level, then reports exit code and cwd over a FIFO that no
command has open. After the report the shell dumps its state; when it dies, a successor starts
from the last dump.
"""

import collections
import errno
import fcntl
import os
import re
import select
import shutil
import signal
import termios
import time
from typing import Any, Deque, Dict, List, Optional, Set

from .driver import (
    BASH,
    BASH_JOBS,
    DONE,
    DONE_PLAIN,
    OUR_FUNCTIONS,
    PLAIN,
    REST,
    SH,
    SH_JOBS,
    State,
    change_directory,
    programs,
    quote,
    set_variables,
)
from .proc import (
    TICKS,
    Nanny,
    catches,
    descendants,
    exit_code,
    kill_all,
    mark_of,
    no_room,
    processes,
    send_signal,
    uptime,
    widen,
)
from .server import Guest, OpError
from .task import DRAIN_GRACE, ERR, OUT, PIPE_SIZE, Reader, Task

STOP = signal.SIGURG  # ignored by default: harmless when a command resets its trap
STOP_GRACE = 1.0  # seconds a shell gets to unwind before it is killed
START_SECONDS = 10.0  # until a shell that was started is ready
JOBS_SECONDS = 1.0  # until it says what a command left in the background
HELD_MOST = 1 << 20  # bytes that are looked through for the shell's own
DUMP_SECONDS = 3.0  # without a byte of what the session has defined after a command


class Starts:
    """Tells processes that start from now on from earlier ones: by time and, within a clock tick, by pid."""

    _loadavg = -1

    def __init__(self) -> None:
        try:
            self.ticks = int(uptime() * TICKS)
            if Starts._loadavg < 0:
                Starts._loadavg = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)
            self.last_pid = int(os.pread(Starts._loadavg, 100, 0).split()[-1])
        except (OSError, ValueError, IndexError):
            self.ticks = self.last_pid = 0

    def before(self, pid: int, start: int) -> bool:
        return start < self.ticks or (start == self.ticks and pid <= self.last_pid)


def find_shell() -> str:
    """Return the shell that sessions use: bash, sh where there is none."""
    shell = shutil.which("bash") or shutil.which("sh")
    if shell is None:
        raise OpError("no_shell", "there is neither bash nor sh on the PATH here")
    return shell


class ShellTask(Task):
    """A command that is evaluated in a session."""

    def __init__(self, shell: "Shell", command: bytes, limit: int, merge: bool) -> None:
        Task.__init__(self, shell.guest, command.decode("utf-8", "surrogateescape"), limit, merge)
        self.shell = shell
        self.session = shell.name
        self.text = command
        self.env: Dict[str, str] = {}
        self.at: Optional[str] = None
        self.starts: Optional[Starts] = None
        self.mark = ""
        self.held: Optional[Dict[int, bytes]] = None  # what came since it is being stopped

    @property
    def pid(self) -> int:
        return self.shell.nanny.child if self.shell.nanny is not None else 0

    def stop(self, why: str) -> None:
        if not self.done:
            self.why = why
            self.shell.stop(self)

    def take(self, chan: int, data: bytes) -> None:
        if self.held is None:
            Task.take(self, chan, data)
            return
        self.held[chan] = self.held.get(chan, b"") + data
        if len(self.held[chan]) > HELD_MOST:
            Task.take(self, chan, self.held.pop(chan))

    def finish(self, code: int, cwd: str) -> None:
        self.drain()
        held, self.held = self.held, None
        for chan, data in (held or {}).items():
            Task.take(self, chan, self.shell.said.sub(b"", data))
        Task.finish(self, code, cwd)

    def stream_closed(self) -> None:
        self.shell.stream_closed(self)


class Shell:
    """One session. It survives whatever its commands do to the shell."""

    _renew: Optional[bool] = None  # whether each command needs FIFOs of its own

    def __init__(self, guest: Guest, name: str, env: Dict[str, str], cwd: str) -> None:
        self.guest = guest
        self.name = name
        self.env = env
        self.cwd = cwd
        self.created = time.time()
        self.program = find_shell()
        self.is_bash = os.path.basename(self.program) == "bash"
        self.script_fd = b"0xff" if self.is_bash else b"0xa"  # where the shell keeps the file it reads
        guest.next_shell += 1
        # Counts the commands that it was given; no other session ever has the same, of whatever name.
        self.turn = guest.next_shell << 32
        self.dir = os.path.join(guest.run_dir, str(guest.next_shell))
        os.mkdir(self.dir, 0o700)
        # What bash tells of the processes that were killed; nobody asked it, and it is not the command's.
        own = re.escape(os.fsencode(self.dir))
        # A pipeline is told of in several lines, with the text of its commands, which may be more.
        more = rb"(?:(?:[^\n]*\n){0,99}? +\d+ +(?:[A-Z]\w+ +)?\| [^\n]*\n)*"
        self.said = re.compile(own + rb"/bash: line \d+: +\d+ [^\n]*\n" + more)
        if Shell._renew is None:
            Shell._renew = self._ends_early()
        self.queue: Deque[ShellTask] = collections.deque()
        self.current: Optional[ShellTask] = None
        self.nanny: Optional[Nanny] = None
        self.nannies: List[Nanny] = []
        self.state: Optional[State] = None  # what a successor starts from
        self.first: Optional[State] = None  # the dump of a fresh shell
        self.ready = False
        self.closing = False
        self.failures = 0
        self._down = False  # there was no room for its process
        self.mark = ""  # of this shell and what it starts
        self.last = 0  # exit code of the last command: what $? is in the next
        self._number = 0  # how many commands this shell was given; it counts too
        self._reports = 0  # how many reports came from it: one more, after its start
        self._dumps = 0  # how many dumps
        self._plain = False  # the command that runs changes nothing of what is dumped, so nothing is
        self._in_a_row = False  # the last one would not have either, had it been known what was before it
        self._heard = 0.0  # when the shell began, a command ended, or a piece of its dump came (monotonic)
        self._spoiled = False  # the next dump begins with a piece of another
        self._missed = False  # the last one never came
        self._patience = 0  # milliseconds that the next command waits for the dump of the last one
        self._reported: Optional[int] = None
        self._signalled = False
        self._debug_trap = ""  # the user's, which stopping a command takes away
        self._dump: List[bytes] = []
        self._message = b""
        self._script = self._ctl = self._state = self._command = -1
        self._command_size = 1 << 62
        self._lines: List[memoryview] = []
        self._timers: List[Any] = []
        self._drain_timer: Any = None
        self._start()

    # --- starting, dying, ending

    def _start(self) -> None:
        self.ready = False
        self._signalled = False
        self._number = self._reports = self._dumps = 0
        self.guest.next_mark += 1
        self.mark = "%s.s%d" % (self.guest.id, self.guest.next_mark)
        self._message, self._dump, self._lines = b"", [], []
        self._spoiled = False
        self._heard = time.monotonic()
        os.makedirs(self.dir, 0o700, exist_ok=True)  # a command may have removed it
        for name in ("ctl", "state", "o", "e", "i"):
            self._fifo(name)
        self._ctl = self._open("ctl", os.O_RDWR)
        self._state = self._open("state", os.O_RDWR)
        widen(self._state, PIPE_SIZE)
        self.guest.loop.add_reader(self._ctl, self._control)
        read, self._script = os.pipe()
        os.set_blocking(self._script, False)
        self._command = os.open(
            os.path.join(self.dir, "bash"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
        )
        self._command_size = 0
        null = os.open("/dev/null", os.O_RDWR)
        argv = [self.program, "/dev/fd/3"]
        if self.is_bash:
            argv[1:1] = ["--norc", "--noprofile"]
        while not os.path.isdir(self.cwd):
            self.cwd = os.path.dirname(self.cwd)
        env = dict(self.env, PWD=self.cwd)
        nanny = Nanny(self.guest.loop, argv, env, self.cwd, {0: null, 1: null, 2: null, 3: read}, False)
        self.nanny = nanny
        self.nannies.append(nanny)
        os.close(read)
        os.close(null)
        nanny.on_exit = self._died
        nanny.on_end = self._cleaned
        driver = (BASH if self.is_bash else SH).replace("@DIR@", quote(self.dir)).replace("@MARK@", self.mark)
        if self.state is not None:
            self._write_file("restore", self.state.script())
            driver += '\\. "$__h_d/restore" >/dev/null 2>&1\n' + change_directory(self.cwd)
        self._send(driver + "\\:\n" + DONE)
        self.guest.loop.call_later(START_SECONDS, lambda: self._look_for_start(nanny))

    def _look_for_start(self, nanny: Nanny) -> None:
        """Kill a shell that is not ready by now: what it was to take over may be what holds it up."""
        if nanny is self.nanny and not self.ready and not self.closing:
            nanny.kill()

    @property
    def settling(self) -> bool:
        """Whether the dump after the last command is still to come."""
        self._drain_state()
        return self.ready and self.current is None and not self._fresh and not self._late

    @property
    def known(self) -> bool:
        """Whether what we have is what the last command left."""
        return self._fresh and not self._missed

    def job_state(self) -> Optional[bytes]:
        """Return a script that gives another shell this one's variables and functions."""
        return self.state.script() if self.state is not None else None

    def defined(self) -> bytes:
        """Return the part of that script which tells this session from a fresh one."""
        if self.state is None or self.first is None:
            return b""
        fresh = {line for line in self.first.script().split(b"\n") if line.startswith(b"declare -")}
        script = OUR_FUNCTIONS.sub(b"", self.state.script())
        return b"\n".join(line for line in script.split(b"\n") if line not in fresh)

    def _died(self) -> None:
        nanny = self.nanny
        assert nanny is not None and nanny.status is not None
        self._control()
        self._drain_state()
        task = self.current
        full = nanny.error is not None and nanny.error.errno == errno.EAGAIN
        if not self.ready and not full:
            self.failures += 1
            self.state = None  # perhaps it cannot be restored
        self.ready = False
        for fd in (self._ctl, self._state, self._script, self._command):
            self.guest.loop.remove_reader(fd)
            self.guest.loop.remove_writer(fd)
            os.close(fd)
        self._ctl = self._state = self._script = self._command = -1
        if task is not None:
            self._end(task, exit_code(nanny.status))
        if self.closing:
            return
        if full:  # the next command tries again
            self._down = True
            while self.queue:
                waiting = self.queue.popleft()
                waiting.refuse("no_room", no_room())
                waiting.finish(126, self.cwd)
        elif self.failures < 3:
            self._start()
        else:
            self.fail("the shell %s does not start here" % self.program)

    def fail(self, message: str) -> None:
        """Give up: every queued command is answered with an error."""
        self.closing = True
        self.guest.sessions.pop(self.name, None)
        queue, self.queue = self.queue, collections.deque()
        for task in queue:
            task.done = True
            for watch in task.watches:
                watch.call.fail("shell_failed", message)
            task.wanted = False
        self.guest.forget_tasks()

    def _cleaned(self) -> None:
        self.nannies = [nanny for nanny in self.nannies if not nanny.ended]
        if self.closing and not self.nannies:
            self.guest.closed_shells.discard(self)
            shutil.rmtree(self.dir, ignore_errors=True)

    def close(self) -> None:
        """End the shell. What it left in the background lives on, as long as the sandbox."""
        if self.closing:
            return
        self.closing = True
        self.guest.sessions.pop(self.name, None)
        self.guest.closed_shells.add(self)
        for task in list(self.queue) + ([self.current] if self.current is not None else []):
            task.stop("interrupted")
        nanny = self.nanny
        if nanny is not None and nanny.status is None:
            self._send("exit\n")
            self.guest.loop.call_later(STOP_GRACE, self._kill_program)

    def _kill_program(self) -> None:
        if self.nanny is not None and self.nanny.status is None:
            send_signal(self.nanny.child, signal.SIGKILL)

    # --- running commands

    def submit(self, task: ShellTask) -> None:
        self.turn += 1
        self.queue.append(task)
        if self._down:
            self._down = False
            self._start()
        self._next()

    def _next(self) -> None:
        if not self.ready or self.current is not None or not self.queue:
            return
        task = self.queue[0]
        names = programs(task.text) if self.is_bash and not task.env and task.at is None else None
        rewrap = self.state.rewrap() if self.state is not None else ""
        if self.state is not None and (rewrap or self._signalled or names is not None):
            self._hear()
            waits = rewrap or self._signalled or self._in_a_row
            if not self._fresh and self._patience and waits:  # the line depends on what the last one left
                self._patience -= 1
                self.guest.loop.call_later(0.001, self._next)
                return
            rewrap = self.state.rewrap()
        calm = self.state is not None and self.known and not rewrap and not self._signalled
        self._plain = calm and names is not None and self.state is not None and self.state.stays(names)
        self._in_a_row = names is not None and not self._fresh
        self.current = self.queue.popleft()
        self._reported = None
        try:
            self._write_command(task.text + b"\n")
        except OSError as error:
            self.current = None
            text = "the command could not be handed to the shell, and was not run: %s" % error
            task.refuse("no_space", text)
            task.finish(126, self.cwd)
            self.guest.loop.call_soon(self._next)
            return
        task.begin()
        self._number += 1
        task.mark = "%s.%d" % (self.mark, self._number)  # as the shell itself counts
        # Before the shell gets its line, or it would wait in its redirections for the other ends.
        try:
            task.readers.append(Reader(task, self._open("o", os.O_RDONLY), OUT, wait=True))
            if not task.merge:
                task.readers.append(Reader(task, self._open("e", os.O_RDONLY), ERR, wait=True))
        except OSError as error:
            self._replace(task, "the session's files are gone (%s)" % error.strerror)
            return
        task.starts = Starts()
        self._send(self._line(task, rewrap))
        # A short command is read when it reports, in one go; what takes longer is read as it comes.
        self._timers.append(self.guest.loop.call_later(0.001, task.let_write))
        if task.input is not None:
            self._open_input(task, 0.0005)

    def _line(self, task: ShellTask, before: str) -> str:
        after = ""
        if self._signalled:
            before += REST
            self._signalled = False
            after, self._debug_trap = self._debug_trap, ""
        prefix = ""
        if task.env:
            lines = set_variables(self.is_bash, task.env)
            before, prefix, after = before + lines[0], lines[1], lines[2] + after
        if task.at is not None:
            before += change_directory(task.at)
            after += change_directory(self.cwd)
        if (before or self._number == 1) and not (
            self.last and self.state is not None and self.state.errexit()
        ):
            before += "__h_return %d\n" % self.last
        stdin = '<"$__h_d/i" ' if task.input is not None else ""  # else the shell's own: /dev/null
        stderr = "&1" if task.merge else '"$__h_e"'
        if self._plain and not (before or after or task.merge or task.input is not None):
            return PLAIN
        done = DONE_PLAIN if self._plain else DONE
        return '%s%s\\. "$__h_b" %s>"$__h_o" 2>%s\n%s%s' % (
            before, prefix, stdin, stderr, done, after
        )  # fmt: skip

    def _open_input(self, task: ShellTask, wait: float) -> None:
        """Open the writing end as soon as the shell has opened the other."""
        if task.done:
            return
        try:
            fd = self._open("i", os.O_WRONLY)
        except OSError:
            self.guest.loop.call_later(wait, lambda: self._open_input(task, min(wait * 2, 0.05)))
            return
        assert task.input is not None
        task.input.open(fd)

    def stop(self, task: ShellTask) -> None:
        """Stop a command: kill what it started, unwind the shell to its top level."""
        if task is not self.current:
            if task in self.queue:
                self.queue.remove(task)
            task.finish(130, self.cwd)
            return
        nanny = self.nanny
        if nanny is None or not nanny.child or self._reported is not None or self._signalled:
            return
        self._signalled = True
        self._unwind(task, time.monotonic() + STOP_GRACE / 4)

    def _unwind(self, task: ShellTask, patience: float) -> None:
        """Signal the shell; not while it still dumps what the last command left, or that would be cut off."""
        nanny = self.nanny
        if self.current is not task or self._reported is not None or nanny is None:
            return
        self._drain_state()
        if not self._fresh and time.monotonic() < patience:
            self._timers.append(self.guest.loop.call_later(0.001, lambda: self._unwind(task, patience)))
            return
        self._debug_trap = self.state.debug_trap() if self.state is not None else ""
        if not (self.is_bash and catches(nanny.child, STOP)):
            self._kill_shell(task)
            return
        # The shell first: one with job control would take a frozen child for a stopped job and go on.
        task.held = {}
        send_signal(nanny.child, STOP)
        self._kill_members(task, 0.01)
        if task.input is not None:
            task.input.close()
        self._timers.append(self.guest.loop.call_later(STOP_GRACE, lambda: self._kill_shell(task)))

    def _kill_members(self, task: ShellTask, again: float) -> None:
        """Kill what a command started; again after a while, for what the shell was just about to start."""
        if self.current is task and self._reported is None:
            kill_all(lambda: self.members(task))
            self._timers.append(
                self.guest.loop.call_later(again, lambda: self._kill_members(task, again * 2))
            )

    def _kill_shell(self, task: ShellTask) -> None:
        if self.current is task and self.nanny is not None:
            send_signal(self.nanny.child, signal.SIGSTOP)
            kill_all(lambda: self.members(task))
            send_signal(self.nanny.child, signal.SIGKILL)

    def _replace(self, task: ShellTask, why: str) -> None:
        """End a shell that could not begin a command; the next one starts from the last state."""
        said = "hermes: %s; the command was not run, and the shell was replaced\n" % why
        task.spools[OUT if task.merge else ERR].append(said.encode("utf-8", "surrogateescape"))
        task.why = "failed"
        self._kill_program()

    def members(self, task: ShellTask) -> Set[int]:
        """Return the processes that belong to a command, not those that earlier ones left."""
        nanny = self.nanny
        if nanny is None or nanny.ended:
            return set()
        table = processes()
        tree = descendants(table, nanny.pid) - {nanny.child}
        mine: Dict[int, bool] = {}

        def is_mine(pid: int) -> bool:
            if pid not in mine:
                mark = mark_of(pid)
                parent = table[pid].parent
                if mark is not None and mark.startswith(self.guest.id):
                    mine[pid] = mark == task.mark
                elif parent in tree:
                    mine[pid] = is_mine(parent)
                else:
                    mine[pid] = task.starts is None or not task.starts.before(pid, table[pid].start)
            return mine[pid]

        return {pid for pid in tree if is_mine(pid)}

    def strays(self) -> Set[int]:
        """Return what earlier commands left running."""
        table = processes()
        found: Set[int] = set()
        for nanny in self.nannies:
            if nanny.child:  # else it is only about to start a shell
                found |= descendants(table, nanny.pid) - {nanny.child if nanny.status is None else 0}
        if self.current is not None:
            found -= self.members(self.current)
        return found

    # --- what the shell tells us

    def _control(self) -> None:
        try:
            self._message += os.read(self._ctl, 65536)
        except BlockingIOError:
            pass
        while b"\0" in self._message:
            first = self._message.split(b"\0", 3)
            if first[0][:1] == b"R":
                if len(first) < 4:
                    return
                self._message = b"\0".join(first[3:])
                self._report(first[0][1:], first[1], os.fsdecode(first[2]))
            elif first[0][:1] == b"C":
                self._message = self._message.partition(b"\0")[2]
                self.cwd = self._checked(os.fsdecode(first[0][1:]))
                self._reports += 1
                self._drain_soon()
            elif first[0][:1] == b"J":
                self._message = self._message.partition(b"\0")[2]
                self._jobs(first[0][1:])
            else:  # nothing of ours
                self._message = self._message.partition(b"\0")[2]

    def _checked(self, claimed: str) -> str:
        """Return the shell's directory as it names it, unless a command has set PWD to something else."""
        assert self.nanny is not None
        path = "/proc/%d/cwd" % self.nanny.child
        try:
            actual = os.readlink(path)
            if claimed == actual:  # nearly always; they differ where links are
                return claimed
            if os.path.isabs(claimed) and os.path.samestat(os.stat(claimed), os.stat(path)):
                return claimed
            return actual
        except OSError:
            return claimed or self.cwd

    def _report(self, ident: bytes, code: bytes, claimed: str) -> None:
        try:
            number, status = int(ident), int(code)
        except ValueError:
            return
        if not self.ready and number == 0:
            self.ready = True
            self.failures = 0
            self._reports = 1
            self.cwd = self._checked(claimed)
            self._drain_soon()
            self.guest.loop.call_soon(self._next)
            return
        task = self.current
        if task is None or number != self._number or self._reported is not None:
            return
        self._reported = status
        self._reports += not self._plain
        task.cwd = self._checked(claimed)
        if task.at is None:
            self.cwd = task.cwd
        if self._signalled and task.why != "exited":
            kill_all(lambda: self.members(task))
        if not self._fresh:
            self._drain_soon()
        if task.drain() or task.why != "exited":
            self._end(task, status)
        else:
            self._send(BASH_JOBS if self.is_bash else SH_JOBS)
            self._timers.append(self.guest.loop.call_later(JOBS_SECONDS, lambda: self._end(task, status)))

    def _jobs(self, pids: bytes) -> None:
        """End a command whose pipes are still open: at once when it left jobs, which may keep them for ever.

        Without jobs it is a helper such as ``>(tee log)``, which ends soon.
        """
        task, status = self.current, self._reported
        if task is None or status is None:
            return
        if pids:
            self._end(task, status)
        else:
            self._timers.append(self.guest.loop.call_later(DRAIN_GRACE, lambda: self._end(task, status)))

    def stream_closed(self, task: ShellTask) -> None:
        if task.over:  # what it left in the background has ended too
            self.guest.loop.call_soon(self.guest.forget_tasks)
        if task is not self.current or task.has_strays():
            return
        if self._reported is not None:
            self._end(task, self._reported)
        else:
            self._timers.append(self.guest.loop.call_later(0.5, lambda: self._look_for_noexec(task)))

    def _look_for_noexec(self, task: ShellTask) -> None:
        """End a shell that executes nothing, as after ``set -n``: it has our last line and waits for more."""
        if task is not self.current or self._reported is not None or self.nanny is None:
            return
        waiting = b""
        try:
            with open("/proc/%d/syscall" % self.nanny.child, "rb") as file:
                waiting = file.read()
        except OSError:
            pass
        unread = bytearray(4)
        fcntl.ioctl(self._script, termios.FIONREAD, unread)
        if waiting.split()[1:2] == [self.script_fd] and not any(unread) and not self._lines:
            self._kill_shell(task)
        else:
            self._timers.append(self.guest.loop.call_later(0.5, lambda: self._look_for_noexec(task)))

    def _end(self, task: ShellTask, status: int) -> None:
        if self.current is not task:
            return
        self.current = None
        self._patience = 1000
        self._heard = time.monotonic()
        self.last = status
        for timer in self._timers:
            timer.cancel()
        self._timers = []
        task.finish(status, task.cwd or self.cwd)
        self._hear()  # what followed the report before this one; after the answer, which need not wait
        self._miss_dump()
        # Strays keep these: the next command gets new ones.
        if (Shell._renew or task.has_strays()) and not self.closing:
            self._fifo("o")
            self._fifo("e")
        self._next()

    @property
    def _fresh(self) -> bool:
        """Whether every report was followed by its dump."""
        return self._dumps >= self._reports

    def _hear(self) -> None:
        """Read what the shell has dumped, if anything is to come."""
        if not self._fresh:
            self._drain_state()

    def _drain_state(self) -> None:
        """Read what the shell has dumped, which may wait for it: a pipe holds only so much."""
        try:
            while self._state >= 0:
                self._dump.append(os.read(self._state, PIPE_SIZE))
                self._heard = time.monotonic()
                if len(self._dump[-1]) < PIPE_SIZE:
                    break
        except BlockingIOError:
            pass
        whole, end, rest = b"".join(self._dump).rpartition(b"\0")
        if not end:
            return
        self._dump = [rest] if rest else []
        dumps = whole.split(b"\0")
        self._dumps += len(dumps)
        if self._spoiled:
            self._spoiled = False
            dumps.pop(0)
        if dumps:
            self._missed = False
            if self.first is None:
                self.first = State(dumps[0], None)
            self.state = State(dumps[-1], self.first)

    def _miss_dump(self) -> None:
        """Go on without a dump that never came whole: what a command defined may be in its way."""
        if self._dumps < self._reports - 1:
            self._dumps = self._reports - 1
            self._spoiled = bool(self._dump)
            self._missed = True

    def _drain_soon(self, pause: float = 0.005) -> None:
        if self._drain_timer is None:
            self._drain_timer = self.guest.loop.call_later(pause, self._drain_again)

    def _drain_again(self) -> None:
        self._drain_timer = None
        self._drain_state()
        if not self._fresh and self._state >= 0:
            self._drain_soon(0.1 if self._late else 0.005)

    @property
    def _late(self) -> bool:
        """Whether there is little hope that a dump goes on."""
        return time.monotonic() - self._heard > DUMP_SECONDS

    # --- small things

    def _ends_early(self) -> bool:
        """Return whether a new reader of a FIFO that had a writer takes it for ended at once, as in gVisor.

        It would close it before the shell has opened it, and the shell would wait for ever.
        """
        self._fifo("o")
        os.close(self._open("o", os.O_RDWR))
        reader = self._open("o", os.O_RDONLY)
        try:
            poll = select.poll()
            poll.register(reader, select.POLLIN)
            return bool(poll.poll(0))
        finally:
            os.close(reader)

    def _send(self, text: str) -> None:
        self._lines.append(memoryview(text.encode("utf-8", "surrogateescape")))
        self._push()

    def _push(self) -> None:
        try:
            while self._lines and self._script >= 0:
                size = os.write(self._script, self._lines[0])
                if size < len(self._lines[0]):
                    self._lines[0] = self._lines[0][size:]
                else:
                    self._lines.pop(0)
        except BlockingIOError:
            self.guest.loop.add_writer(self._script, self._writable)
        except OSError:
            pass  # the shell died; its end is reported by the nanny

    def _writable(self) -> None:
        self.guest.loop.remove_writer(self._script)
        self._push()

    def _fifo(self, name: str) -> None:
        path = os.path.join(self.dir, name)
        if os.path.exists(path):
            os.unlink(path)
        os.mkfifo(path, 0o600)

    def _open(self, name: str, flags: int) -> int:
        return os.open("%s/%s" % (self.dir, name), flags | os.O_NONBLOCK | os.O_CLOEXEC)

    def _write_command(self, data: bytes) -> None:
        # Written over and cut, never made anew: file systems flush a file that was cut to nothing first.
        view, at = memoryview(data), 0
        while at < len(data):
            at += os.pwrite(self._command, view[at:], at)
        if at < self._command_size:
            os.ftruncate(self._command, at)
        self._command_size = at

    def _write_file(self, name: str, data: bytes) -> None:
        fd = os.open(
            os.path.join(self.dir, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
        )
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os.close(fd)
