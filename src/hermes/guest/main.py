"""Bootstrap: find or start this sandbox's guest, then be the relay between it and the client."""

import fcntl
import os
import shutil
import signal
import socket
import traceback
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import relay
from .dirs import LABEL, SOCKET, default_dir, private_dir

Take = Callable[[bytes], None]

# Further modules are imported where they are needed: compiling them takes longer than the rest of a start.


def listen(options: Dict[str, Any], take: Optional[Take]) -> Tuple[socket.socket, Optional[int]]:
    """Return a connection to the guest, which is started if it does not run, and where it reads the rest."""
    run_dir = options["run_dir"]
    if options.get("attach_only") and not os.path.isdir(run_dir):
        raise FileNotFoundError("no guest runs in %s" % run_dir)
    private_dir(os.path.dirname(run_dir))
    private_dir(run_dir)
    os.chdir(run_dir)  # a socket's path may have 107 bytes only
    lock = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        client = socket.socket(socket.AF_UNIX)
        try:
            client.connect(SOCKET)
            return client, None
        except OSError:
            client.close()
        if options.get("attach_only"):
            raise FileNotFoundError("no guest runs in %s" % run_dir)
        for name in os.listdir("."):  # what a killed guest left
            if name != "lock":
                shutil.rmtree(name, ignore_errors=True)
                if os.path.lexists(name):
                    os.unlink(name)
        private_dir(options["state_dir"])
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(SOCKET)
        os.chmod(SOCKET, 0o600)
        late = start_guest(options, listener, take)
        listener.close()
        client = socket.socket(socket.AF_UNIX)
        client.connect(SOCKET)
        return client, late
    finally:
        os.close(lock)


def start_guest(options: Dict[str, Any], listener: socket.socket, take: Optional[Take]) -> Optional[int]:
    """Fork the guest as a daemon, wait until it listens, and return a pipe to it where *take* waits for more.

    It has to do that itself: the system tells those who connect the pid of the process that listened.
    """
    listening, report = os.pipe()
    late, late_in = os.pipe() if take is not None else (None, None)
    child = os.fork()
    if child:
        os.close(report)
        if late is not None:
            os.close(late)
        os.waitpid(child, 0)
        os.read(listening, 1)
        os.close(listening)
        return late_in
    os.close(listening)
    if late_in is not None:
        os.close(late_in)
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        log = os.open(
            os.path.join(options["state_dir"], "guest.log"),
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW,
            0o600,
        )
        null = os.open("/dev/null", os.O_RDWR)
        for fd, number in ((null, 0), (null, 1), (log, 2)):
            os.dup2(fd, number)
        listener.listen(64)
        os.close(report)  # what clients say meanwhile waits in the socket
        os.chdir("/")
        serve(options, listener, late, take)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def serve(
    options: Dict[str, Any], listener: socket.socket, late: Optional[int], take: Optional[Take]
) -> None:
    import resource

    from .proc import become_subreaper, close_all_but, reap
    from .server import Guest

    close_all_but({0, 1, 2, listener.fileno(), 0 if late is None else late})
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    become_subreaper()
    # What a command that crashes had in its memory is not to be left on a disk, unless somebody asks for it.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    guest = Guest(options)
    if late is None or take is None:
        guest.load = load
    else:
        guest.remove = bool(options.get("fresh"))  # it may never get a client that would tell it to
        receive(guest, late, take)
    wake, wake_in = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_in, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: guest.loop.stop())
    signal.set_wakeup_fd(wake_in)

    def woken() -> None:
        os.read(wake, 4096)
        reap()

    guest.loop.add_reader(wake, woken)
    if options.get("host"):
        guest.label = os.path.join(options["own"], LABEL)
        guest.waits += 1
    try:
        guest.serve(listener)
    finally:
        listener.close()
        if guest.credentials is not None:
            guest.credentials.remove()
        if options.get("host"):
            from . import host

            host.leave(guest)
        else:
            shutil.rmtree(guest.state_dir, ignore_errors=True)
            shutil.rmtree(guest.run_dir, ignore_errors=True)


def receive(guest: Any, late: int, take: Take) -> None:
    """Take in what does the work, as it arrives; what clients ask before waits.

    If it does not arrive, the client that started this guest left in the middle, and nobody can use it.
    """
    parts: List[bytes] = []
    guest.waits += 1

    def go_on(guest: Any) -> None:
        load(guest)
        guest.release()

    def readable() -> None:
        data = os.read(late, 1 << 16)
        parts.append(data)
        if data:
            return
        guest.loop.remove_reader(late)
        os.close(late)
        try:
            take(b"".join(parts))
        except Exception:
            guest.loop.stop()
            raise
        guest.remove = False
        guest.load = go_on
        if guest.clients:
            guest.loop.call_soon(guest.load_now)

    guest.loop.add_reader(late, readable)


def load(guest: Any) -> None:
    """Import what does the work, once the first client was greeted."""
    if guest.label:
        from . import login

        login.read(guest)
    from . import files, glob, ops, parts, ports, tree

    del files, glob, parts, ports, tree  # imported for the operations that they register
    ops.install(guest)


def main(options: Dict[str, Any], size: int = 0, take: Optional[Take] = None) -> None:
    """Announce the guest on stdout, one line after the marker, then relay.

    :param size: of what the client sends before its first frame
    :param take: makes modules of that, in the guest
    """
    try:
        if options.get("host"):
            from . import host

            host.settle(options)
        else:
            settle(options)
        peer, late = listen(options, take)
    except Exception as error:
        missing = isinstance(error, FileNotFoundError)
        text = "%s: %s" % (type(error).__name__, error)
        relay.tell({"error": text, "missing": missing, "boot": relay.boot_id()})
        return
    relay.serve(options, peer, size, late)


def settle(options: Dict[str, Any]) -> None:
    """Fill in the directories that the client left open."""
    options.setdefault("cwd", os.getcwd())
    if not os.path.isdir(options["cwd"]):
        options["cwd"] = os.path.expanduser("~")
    if not options.get("run_dir"):
        options["run_dir"] = default_dir(options["id"])
    options.setdefault("state_dir", os.path.join(options["run_dir"], "state"))
