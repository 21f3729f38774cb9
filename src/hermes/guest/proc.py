"""Processes: each shell, job and terminal hangs under a nanny, a fork of the guest.

The nanny is the subreaper of all that its command starts, so daemons that left their session are
still its descendants. It reports the exit status, goes on until the last descendant is gone, and
when the guest dies it kills them all: nothing is left without an owner.
"""

import collections
import ctypes
import errno
import fcntl
import os
import re
import select
import signal
import sys
import termios
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

Process = collections.namedtuple("Process", "parent state start")

PR_SET_CHILD_SUBREAPER = 36
MARK = "HERMES_TASK"
ROUNDS = 100
CLOCK_BOOTTIME = 7
F_SETPIPE_SZ = 1031
TICKS = os.sysconf("SC_CLK_TCK")


def become_subreaper() -> bool:
    """Let orphaned descendants come to us; False where the system cannot."""
    try:
        return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def processes() -> Dict[int, Process]:
    """Return the living processes by pid; *start* is in clock ticks since boot."""
    table = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return _processes_by_ps()
    for name in names:
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                table[int(name)] = Process(int(fields[1]), fields[0].decode(), int(fields[19]))
            except (OSError, IndexError, ValueError):
                continue
    return table


def _processes_by_ps() -> Dict[int, Process]:
    table = {}
    with os.popen("ps -axo pid=,ppid=,stat=") as lines:
        for line in lines:
            pid, parent, state = line.split()[:3]
            table[int(pid)] = Process(int(parent), state[0], 0)
    return table


def descendants(table: Dict[int, Process], root: int) -> Set[int]:
    """Return the living descendants of *root*, without itself and without zombies."""
    children: Dict[int, List[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
    found, todo = set(), [root]
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid not in found:
                found.add(pid)
                todo.append(pid)
    return {pid for pid in found if table[pid].state not in "ZX"}


def mark_of(pid: int) -> Optional[str]:
    """Return the task that a process was started for, by its environment; None when it does not say."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            data = b"\0" + file.read(1 << 21)
    except OSError:
        return None
    at = data.find(b"\0" + MARK.encode() + b"=")
    if at < 0:
        return None
    start = at + len(MARK) + 2
    return data[start : data.find(b"\0", start)].decode("ascii", "replace")


def uptime() -> float:
    """Return the seconds since boot, on the clock of process start times."""
    return time.clock_gettime(CLOCK_BOOTTIME)


def started_at(pid: int) -> Optional[float]:
    """Return when a process started, in seconds since the epoch; None when that is not known."""
    process = processes().get(pid)
    try:
        return (
            time.time() - uptime() + process.start / TICKS if process is not None and process.start else None
        )
    except OSError:
        return None


def command_of(pid: int) -> str:
    """Return the command line of a process as one line of text."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def catches(pid: int, number: int) -> bool:
    """Return whether a process handles a signal itself; True where that is not known."""
    try:
        with open("/proc/%d/status" % pid, "rb") as file:
            found = re.search(rb"^SigCgt:\s*([0-9a-f]+)", file.read(), re.M)
    except OSError:
        return True
    return found is None or bool(int(found.group(1), 16) >> (number - 1) & 1)


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass


def freeze(members: Callable[[], Set[int]]) -> Set[int]:
    """Stop all members, also those that come while we do it, and return them."""
    frozen: Set[int] = set()
    for _ in range(ROUNDS):
        new = members() - frozen
        if not new:
            break
        for pid in new:
            send_signal(pid, signal.SIGSTOP)
        frozen |= new
    return frozen


def kill_all(members: Callable[[], Set[int]]) -> int:
    """Freeze all members, then kill them: none can start another in between. Return their number."""
    frozen = freeze(members)
    for pid in frozen:
        send_signal(pid, signal.SIGKILL)
    return len(frozen)


def reap() -> None:
    """Collect ended children of the guest: nannies, and orphans that a killed nanny left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def no_room() -> str:
    """Return what to say when the system gives no further process."""
    limit = ""
    for path in ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"):
        try:
            with open(path) as file:
                text = file.read().strip()
        except OSError:
            continue
        if text.isdigit():
            limit = ": limits.pids is " + text
    return "the sandbox has no room for another process%s; nothing was run" % limit


class Nanny:
    """The guest's handle of one nanny and the one command it started."""

    life: Optional[List[int]] = None

    def __init__(
        self, loop: Any, argv: Sequence[str], env: Dict[str, str], cwd: str, fds: Dict[int, int], tty: bool
    ):
        """Start *argv* with *fds* (its number: ours); with *tty*, its standard input becomes its terminal.

        The caller closes its own copies of the descriptors.
        """
        if Nanny.life is None:
            Nanny.life = list(os.pipe())
        self.loop = loop
        self.child = 0  # pid of the command; 0 until known
        self.status: Optional[int] = None
        self.error: Optional[OSError] = None
        self.on_exit: Optional[Callable[[], None]] = None
        self.on_end: Optional[Callable[[], None]] = None
        self.ended = False
        self._text = b""
        self._fd, report = os.pipe()
        os.set_blocking(self._fd, False)
        try:
            self.pid = os.fork()
        except OSError as error:  # told as the nanny tells it that it can start nothing
            self.pid = -1
            os.write(report, b"E%d\n" % (error.errno or errno.EAGAIN))
        if not self.pid:
            try:
                _nanny(argv, env, cwd, fds, tty, report, Nanny.life[0])
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(70)
        os.close(report)
        loop.add_reader(self._fd, self._read)

    def tree(self) -> Set[int]:
        """Return the living processes under the nanny."""
        return set() if self.ended else descendants(processes(), self.pid)

    def kill(self) -> int:
        """Kill everything under the nanny and return how many it was."""
        return kill_all(self.tree)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 4096)
        except BlockingIOError:
            return
        self._text += data
        lines = self._text.split(b"\n")
        self._text = lines.pop()
        for line in lines:
            number = int(line[1:])
            if line[:1] == b"P":
                self.child = number
            elif line[:1] == b"E":
                self.error = OSError(number, os.strerror(number))
            elif self.status is None:
                self._exited(number)
        if not data:
            self.loop.remove_reader(self._fd)
            os.close(self._fd)
            self.ended = True
            if self.status is None:
                self._exited(signal.SIGKILL)  # the nanny itself was killed
            if self.on_end is not None:
                self.on_end()

    def _exited(self, status: int) -> None:
        self.status = status
        if self.on_exit is not None:
            self.on_exit()


def widen(fd: int, size: int) -> None:
    """Let a pipe hold more, where the system does that."""
    try:
        fcntl.fcntl(fd, F_SETPIPE_SZ, size)
    except OSError:
        pass


def exit_code(status: int) -> int:
    """Return a shell's exit code for a wait status: 128 + n for signal n."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def close_all_but(keep: Set[int]) -> None:
    """Close every descriptor of this process except some."""
    try:
        numbers = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        numbers = list(range(3, 4096))
    for number in numbers:
        if number not in keep:
            try:
                os.close(number)
            except OSError:
                pass


def _nanny(
    argv: Sequence[str], env: Dict[str, str], cwd: str, fds: Dict[int, int], tty: bool, report: int, life: int
) -> None:
    for ignored in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_IGN)
    wake, wake_in = os.pipe()
    os.set_blocking(wake_in, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_in)
    close_all_but({report, life, wake, wake_in} | set(fds.values()))
    null = os.open("/dev/null", os.O_RDWR)
    os.setsid()
    become_subreaper()
    try:
        child = os.fork()
    except OSError as error:
        os.write(report, b"E%d\n" % (error.errno or errno.EAGAIN))
        os._exit(70)
    if not child:
        _exec(argv, env, cwd, fds, tty, report)
    for number in set(fds.values()):
        os.close(number)
    for number in (0, 1, 2):
        if number not in (report, life, wake, wake_in):
            os.dup2(null, number)
    os.write(report, b"P%d\n" % child)
    poll = select.poll()
    poll.register(life, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            os._exit(0)
        if pid == child:
            os.write(report, b"X%d\n" % status)
        if pid:
            continue
        ready = [fd for fd, _ in poll.poll()]
        if wake in ready:
            try:
                os.read(wake, 4096)
            except BlockingIOError:
                pass
        if life in ready:  # the guest is gone
            kill_all(lambda: descendants(processes(), os.getpid()))
            os._exit(0)


def _exec(
    argv: Sequence[str], env: Dict[str, str], cwd: str, fds: Dict[int, int], tty: bool, report: int
) -> None:
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in range(1, signal.NSIG):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                try:
                    signal.signal(number, signal.SIG_DFL)
                except (OSError, ValueError):
                    pass
        # first out of the way of the numbers they are to get
        high = max(list(fds) + [2]) + 1
        moved = {number: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, high) for number, fd in fds.items()}
        report = fcntl.fcntl(report, fcntl.F_DUPFD_CLOEXEC, high)
        for number, fd in moved.items():
            os.dup2(fd, number)
        if tty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.chdir(cwd)
        os.execvpe(argv[0], [os.path.basename(argv[0])] + list(argv[1:]), env)
    except OSError as error:
        os.write(report, b"E%d\n" % (error.errno or errno.EIO))
    finally:
        os._exit(126)
