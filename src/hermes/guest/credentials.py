"""Files that commands may know, in memory where there is some; gone with the guest."""

import os
import shutil
from typing import Any, List

from .dirs import private_dir
from .server import Call, Guest, OpError

MEMORY = ("tmpfs", "ramfs")


class Credentials:
    """What is there: the directory, links to what is in it, and which state of the client's it is."""

    def __init__(self, guest: Guest) -> None:
        self.state = ""
        self.links: List[str] = []
        self.made: List[str] = []  # directories for them
        self.mounted = False
        self.dir = self._own = os.path.join(guest.run_dir, "credentials")
        memory = "/dev/shm/hermes-%d/%s" % (os.geteuid(), os.path.basename(guest.run_dir))
        if (
            not in_memory(guest.run_dir)
            and in_memory("/dev/shm")
            and os.access("/dev/shm", os.W_OK | os.X_OK)
        ):
            self.dir = self._own = os.path.join(memory, "credentials")

    def put(self, args: Any, raw: bytes) -> List[str]:
        """Take over files that changed, and the names of all that are to be here; return what went wrong."""
        self.state = ""
        if args.get("mount"):
            self.dir, self.mounted = args["mount"], True
        else:
            private_dir(os.path.dirname(os.path.dirname(self.dir)))
            private_dir(os.path.dirname(self.dir))
            private_dir(self.dir)
            at = 0
            for name, mode, size in args["files"]:
                self._write(name, mode, raw[at : at + size])
                at += size
            self._keep(set(args["names"]))
        problems = self._link(args.get("links") or {})
        self.state = args["state"]
        return problems

    def _write(self, name: str, mode: int, data: bytes) -> None:
        path = os.path.join(self.dir, name)
        private_dir(os.path.dirname(path))
        draft = path + ".hermes-new"
        if os.path.lexists(draft):
            os.unlink(draft)
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(data)
        os.rename(draft, path)

    def _keep(self, names: Any) -> None:
        for inner, folders, files in os.walk(self.dir, topdown=False):
            for name in files + folders:
                path = os.path.join(inner, name)
                if os.path.isdir(path) and not os.path.islink(path):
                    if not os.listdir(path):
                        os.rmdir(path)
                elif os.path.relpath(path, self.dir) not in names:
                    os.unlink(path)

    def _link(self, links: Any) -> List[str]:
        problems = []
        for wish, name in links.items():
            path = os.path.join(os.path.expanduser("~"), os.path.expanduser(wish))
            target = os.path.join(self.dir, name)
            try:
                if os.path.islink(path) and (path in self.links or os.readlink(path) == target):
                    os.unlink(path)
                self._make(os.path.dirname(path))
                os.symlink(target, path)
                self.links.append(path)
            except OSError as error:
                problems.append("%s: %s" % (path, error.strerror or error))
        return problems

    def _make(self, folder: str) -> None:
        if not os.path.isdir(folder):
            self._make(os.path.dirname(folder))
            os.mkdir(folder, 0o700)
            self.made.append(folder)

    def remove(self) -> None:
        """Take everything away again."""
        for path in self.links:
            if os.path.islink(path):
                os.unlink(path)
        for path in reversed(self.made):
            if os.path.isdir(path) and not os.listdir(path):
                os.rmdir(path)
        self.links, self.made, self.state = [], [], ""
        if not self.mounted:
            shutil.rmtree(self._own, ignore_errors=True)
            above = os.path.dirname(self._own)
            if os.path.isdir(above) and not os.listdir(above):
                os.rmdir(above)


def in_memory(path: str) -> bool:
    """Return whether a directory's files are in memory, as far as the system tells."""
    best, kind = "", ""
    try:
        with open("/proc/self/mounts") as file:
            for line in file:
                _, at, system = line.split(" ")[:3]
                if (path + "/").startswith(at.rstrip("/") + "/") and len(at) >= len(best):
                    best, kind = at, system
    except (OSError, ValueError):
        pass
    return kind in MEMORY


def held(guest: Guest) -> Credentials:
    """Return what this guest has, which is nothing at first."""
    if guest.credentials is None:
        guest.credentials = Credentials(guest)
    found: Credentials = guest.credentials
    return found


def serve(guest: Guest, call: Call) -> None:
    """Take over what a client sends, or take all of it away."""
    found = held(guest)
    if call.args.get("remove"):
        if call.args["remove"] != "disk" or not in_memory(found.dir):
            found.remove()
        call.reply()
        return
    try:
        problems = found.put(call.args, call.raw)
    except OSError as error:
        raise OpError("credentials_failed", "%s: %s" % (found.dir, error.strerror or error)) from None
    call.reply({"dir": found.dir, "problems": problems})
