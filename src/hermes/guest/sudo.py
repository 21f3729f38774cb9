"""Passwords for sudo: the real one's own question is answered, and nothing else is.

Without a terminal sudo starts the program that SUDO_ASKPASS names, as the user, and reads the password from
a pipe that is the program's standard output. Ours hands that pipe to the guest, which writes the password
into it once it is proved to be sudo's. So no process of the user's, our own program included, ever has it.
"""

import array
import fcntl
import hashlib
import os
import signal
import socket
import stat
import struct
import sys
import time
from typing import Any, Dict, List, Optional, Set, Tuple

from .driver import quote
from .frames import pack, unpack
from .proc import catches, processes
from .server import Call, Guest, OpError
from .task import Process

SOCKET = "sudo.sock"
NAMES = ("sudo", "sudoedit")
MAX_ARGV = 1 << 16
POLL = 0.01
SLOW = 1.0  # seconds: a refused password takes longer than that in sudo, an accepted one does not
TRIES = 2  # so many slow ends without a command are no chance

ASKPASS = """import array, os, socket, sys
try:
    os.chdir(%r)
    guest = socket.socket(socket.AF_UNIX)
    guest.connect(%r)
    guest.sendmsg([b"?"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])
    said = guest.makefile(errors="replace").read()
except OSError as error:
    said = "the sandbox does not answer: %%s" %% error
if said:
    sys.exit("hermes: no password for sudo: " + said)
"""

Ident = Tuple[int, int]  # pid and time of start


class Unproved(Exception):
    """What asks is not the real sudo at its own question."""


class Question:
    """One question of one sudo: where the answer goes, and what is known of who asks."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.fd = -1
        self.helper = 0
        self.sudo: Ident = (0, 0)
        self.argv: List[str] = []
        self.key = ""  # the session's; what runs in no session is together
        self.command: Optional[str] = None
        self.client = ""
        self.giver: Optional[Call] = None

    def end(self, message: str) -> None:
        """Let the helper end; with a message it says that, and sudo goes without."""
        try:
            self.sock.sendall(message.encode("utf-8", "replace"))
        except OSError:
            pass
        self.sock.close()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Sudo:
    """All questions of one guest, and the clients that may answer them."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest
        self.givers: List[Call] = []
        self.questions: Dict[int, Question] = {}
        self._next = 0
        self._locked: Dict[str, str] = {}
        self._given: Set[Ident] = set()
        self._unsettled: Dict[str, Question] = {}  # answered, and it is not known yet how that went
        self._waiting: List[Question] = []
        self._doubts: Dict[str, int] = {}
        pipe = os.pipe()
        self._pipes = os.fstat(pipe[0]).st_dev
        for fd in pipe:
            os.close(fd)
        self.program = self._install()
        self._listener = self._listen()

    def env(self, env: Dict[str, str]) -> Dict[str, str]:
        """Return what lets sudo ask us. It looks only whether DISPLAY is there, not what it says."""
        if not self.givers:
            return {}
        return {"SUDO_ASKPASS": self.program, "DISPLAY": env.get("DISPLAY", "")}

    def _install(self) -> str:
        """Write the program that sudo starts, in a directory where programs may be started."""
        # Programs with root's rights lose it, and an interpreter may need it to start.
        libraries = "LD_LIBRARY_PATH=%s " % quote(os.environ.get("LD_LIBRARY_PATH", ""))
        for directory in (self.guest.run_dir, self.guest.state_dir):
            paths = [os.path.join(directory, name) for name in ("askpass", "askpass.py")]
            run = "#!/bin/sh\n%sexec %s -I -S %s\n" % (
                libraries if "LD_LIBRARY_PATH" in os.environ else "",
                quote(sys.executable),
                quote(paths[1]),
            )
            for path, text in zip(paths, (run, ASKPASS % (self.guest.run_dir, SOCKET))):
                with open(path, "w") as file:
                    os.chmod(path, 0o700)
                    file.write(text)
            if os.access(paths[0], os.X_OK):  # not where it is mounted noexec
                return paths[0]
        raise OpError("sudo_unusable", "programs can run in none of the guest's directories")

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        here = os.getcwd()
        os.chdir(self.guest.run_dir)  # a socket's path may have 107 bytes only
        try:
            listener.bind(SOCKET)
            os.chmod(SOCKET, 0o600)
        finally:
            os.chdir(here)
        listener.listen(16)
        listener.setblocking(False)
        self.guest.loop.add_reader(listener.fileno(), self._accept)
        return listener

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        question = Question(sock)
        self.guest.loop.add_reader(sock.fileno(), lambda: self._asked(question))

    # --- a question

    def _asked(self, question: Question) -> None:
        """Take what a helper sends: its standard output. Later only its end comes."""
        if question.fd >= 0:  # it was ended while it waited
            self._drop(question, "")
            self._settled(question)
            return
        try:
            question.fd = take_descriptor(question.sock)
            self._prove(question)
            self._ask(question)
        except Unproved as why:
            self._drop(question, "%s" % why)
        except (OSError, LookupError, ValueError) as error:
            self._drop(question, "who asks cannot be told: %s" % error)

    def _drop(self, question: Question, message: str) -> None:
        if question.sock.fileno() >= 0:
            self.guest.loop.remove_reader(question.sock.fileno())
        question.end(message)
        self.questions = {key: one for key, one in self.questions.items() if one is not question}
        if question in self._waiting:
            self._waiting.remove(question)

    def _prove(self, question: Question) -> None:
        """Make sure that the real sudo asks, and waits at the other end of this very pipe.

        :raises Unproved: it is anything else
        """
        data = question.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        question.helper, uid, _ = struct.unpack("iII", data)
        info = os.fstat(question.fd)
        # Only a program with root's rights makes a pipe of root's, and nobody else can open the end to read.
        if not (
            stat.S_ISFIFO(info.st_mode)
            and info.st_dev == self._pipes
            and info.st_uid == 0
            and not info.st_mode & 0o077
            and fcntl.fcntl(question.fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
        ):
            raise Unproved("it was not sudo that asked")
        table = processes()
        if uid != os.geteuid() or question.helper not in table:
            raise Unproved("it was not sudo that asked")
        pid = table[question.helper].parent
        name, uids = names_and_uids(pid)
        # It is ours and has root's rights, so it has them by its file.
        if name not in NAMES or uids[:2] != [uid, 0]:
            raise Unproved("it was not sudo that asked")
        if environment_has(question.helper, b"SUDO_COMMAND") or not asks(pid):
            raise Unproved("sudo runs it as a command")
        if any(stat_of(one)[4] != b"0" for one in (pid, question.helper)):
            raise Unproved("this sudo has a terminal, and can ask there")
        question.sudo = (pid, table[pid].start)
        question.argv = arguments(pid)
        self._find_task(question, table)

    def _find_task(self, question: Question, table: Dict[int, Any]) -> None:
        above, pid = set(), question.sudo[0]
        while pid in table and pid not in above:
            above.add(pid)
            pid = table[pid].parent
        guest = self.guest
        for shell in list(guest.sessions.values()) + list(guest.closed_shells):
            if any(nanny.pid in above and not nanny.ended for nanny in shell.nannies):
                question.key = shell.dir
                task = shell.current
                if task is not None and question.sudo[0] in shell.members(task):
                    question.command, question.client = task.command, task.by
                return
        for task in guest.tasks.values():
            if isinstance(task, Process) and task.nanny.pid in above and not task.nanny.ended:
                question.command, question.client = task.command, task.by
                return
        raise Unproved("no command of this sandbox started this sudo")

    def _ask(self, question: Question) -> None:
        if question.sudo in self._given:
            # It was given one: that was wrong, or this is another question, whose answer we do not have.
            self._lock(question.key, "the password was wrong (or sudo wanted something else)")
        if question.key in self._locked:
            why = self._locked[question.key]
            self._drop(question, "%s, and none is given any more in this session" % why)
            return
        if question.key in self._unsettled:  # with a wrong one two would have tried it
            self._waiting.append(question)
            return
        givers = [call for call in self.givers if call.connected]
        if not givers:
            self._drop(question, "no hermes that has one is connected")
            return
        mine = [call for call in givers if call.client.id == question.client]
        self._next += 1
        self.questions[self._next] = question
        self._unsettled[question.key] = question
        question.giver = (mine or givers)[-1]
        digest = None
        if question.command is not None:
            text = question.command.encode("utf-8", "surrogateescape")
            digest = hashlib.sha256(text).hexdigest()
        question.giver.send(pack({"id": self._next, "argv": question.argv, "command": digest}))

    def leave(self, giver: Call) -> None:
        """Do without a client that has gone."""
        self.givers.remove(giver)
        for question in [one for one in self.questions.values() if one.giver is giver]:
            self._drop(question, "the hermes that has one has gone")
            self._settled(question)

    # --- the answer

    def answered(self, body: bytes) -> None:
        """Take a client's answer: a password, or why there is none."""
        answer, password = unpack(body)
        question = self.questions.pop(int(answer["id"]), None)
        if question is None:
            return
        if not password:
            self._drop(question, str(answer.get("message") or "it was refused"))
            self._settled(question)
            return
        try:
            if not is_alive(question.sudo) or not asks(question.sudo[0]):
                raise Unproved("sudo does not ask any more")
            os.set_blocking(question.fd, False)
            self._given = {one for one in self._given if is_alive(one)} | {question.sudo}
            os.write(question.fd, password + b"\n")
        except (OSError, Unproved) as why:
            self._drop(question, "%s" % why)
            self._settled(question)
            return
        self._drop(question, "")
        self._follow(question, time.monotonic())

    def _follow(self, question: Question, since: float) -> None:
        """Wait until it can be told how sudo liked its password."""
        pid, key = question.sudo[0], question.key
        if not is_alive(question.sudo):
            slow = time.monotonic() - since > SLOW
            self._doubts[key] = self._doubts.get(key, 0) + 1 if slow else 0
            if self._doubts[key] >= TRIES:
                self._lock(key, "sudo did not take it")
        elif runs_something(pid, question.helper):
            self._doubts[key] = 0
        elif key not in self._locked:
            self.guest.loop.call_later(POLL, lambda: self._follow(question, since))
            return
        self._settled(question)

    def _settled(self, question: Question) -> None:
        if self._unsettled.get(question.key) is question:
            del self._unsettled[question.key]
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self._ask(one)

    def _lock(self, key: str, why: str) -> None:
        self._locked.setdefault(key, why)


def take_descriptor(sock: socket.socket) -> int:
    """Return the one descriptor that a peer sends."""
    fds = array.array("i")
    _, control, _, _ = sock.recvmsg(16, socket.CMSG_SPACE(4 * fds.itemsize), socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    for extra in fds[1:]:
        os.close(extra)
    if not fds:
        raise Unproved("it was not sudo that asked")
    return fds[0]


def names_and_uids(pid: int) -> Tuple[str, List[int]]:
    """Return the name of a process and its real, effective, saved and file system's user."""
    with open("/proc/%d/status" % pid) as file:
        facts = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    return facts["Name"], [int(uid) for uid in facts["Uid"].split()]


def stat_of(pid: int) -> List[bytes]:
    """Return what the system says of a process, from its state on."""
    with open("/proc/%d/stat" % pid, "rb") as file:
        return file.read().rpartition(b")")[2].split()


def is_alive(one: Ident) -> bool:
    try:
        facts = stat_of(one[0])
    except OSError:
        return False
    return int(facts[19]) == one[1] and facts[0] not in b"ZX"


def asks(pid: int) -> bool:
    """Return whether a sudo may be at its question: not stopped, and not one that runs its command.

    Where it logs output what it runs has a pipe of root's too. But then it handles job control.
    """
    return stat_of(pid)[0] not in b"TtZX" and not catches(pid, signal.SIGCONT)


def environment_has(pid: int, name: bytes) -> bool:
    with open("/proc/%d/environ" % pid, "rb") as file:
        return b"\0" + name + b"=" in b"\0" + file.read(1 << 21)


def arguments(pid: int) -> List[str]:
    with open("/proc/%d/cmdline" % pid, "rb") as file:
        data = file.read(MAX_ARGV + 1)
    if len(data) > MAX_ARGV:
        raise Unproved("its command is too long to be judged")
    return [os.fsdecode(word) for word in data.split(b"\0")[:-1]]


def runs_something(pid: int, helper: int) -> bool:
    """Return whether sudo has a child besides the one that asked; True where that is not told."""
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
            return bool({int(child) for child in file.read().split()} - {helper})
    except OSError:
        return True


def serve(guest: Guest, call: Call) -> None:
    """Let a client answer the questions of sudo: each comes as data, and so does its answer."""
    if os.geteuid() == 0 or not hasattr(socket, "SO_PEERCRED"):
        raise OpError("sudo_needless", "sudo asks root for no password")
    if guest.sudo is None:
        guest.sudo = Sudo(guest)
    guest.sudo.givers.append(call)

    def take(body: bytes, _chan: int) -> None:
        call.grant(len(body))
        guest.sudo.answered(body)

    call.on_data = take
    call.on_cancel = call.on_detach = lambda: guest.sudo.leave(call)
