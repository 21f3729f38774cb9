"""Where the guest keeps its socket and its scratch files."""

import os
import pwd
from typing import List

SOCKET = "guest.sock"
LABEL = "sandbox.json"


def private_dir(path: str) -> None:
    """Make a directory that is ours alone; one that others may look into is refused."""
    umask = os.umask(0o077)
    try:
        os.makedirs(path, exist_ok=True)
    finally:
        os.umask(umask)
    if not is_private(path):
        raise PermissionError("%s is not a directory of ours alone" % path)


def is_private(path: str) -> bool:
    """Return whether a path is a directory, not a link to one, that is ours alone."""
    info = os.lstat(path)
    return info.st_uid == os.geteuid() and info.st_mode & 0o170077 == 0o040000


def default_dir(ident: str) -> str:
    """Return a place for a sandbox's socket and FIFOs: in memory where there is such a place.

    On a disk each write to a FIFO updates the inode's times, which costs more than the write.
    """
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm"):
        if os.path.isabs(base) and os.path.isdir(base) and os.access(base, os.W_OK | os.X_OK):
            break
    else:
        base = "/tmp"
    return os.path.join(base, "hermes-%d" % os.geteuid(), ident)


def run_dirs(ident: str) -> List[str]:
    """Return where the socket of a sandbox may be on a machine that its user logs in to, best first.

    Where a login manager counts this user's logins it removes his files in memory after the last of them, so
    they come last there; it does not where he may linger.
    """
    bases = ["/dev/shm", "/tmp"]
    if os.environ.get("XDG_SESSION_ID") and not os.path.exists("/var/lib/systemd/linger/" + _user()):
        bases.reverse()
    return ["%s/hermes-%d/%s" % (base, os.geteuid(), ident) for base in bases]


def own_dirs(ident: str) -> List[str]:
    """Return where a sandbox's own files may be on such a machine, best first: on a disk, and kept."""
    home = os.path.expanduser("~")
    first = [os.path.join(home, ".hermes-sandboxes", ident)] if os.path.isabs(home) else []
    return [*first, *("%s/hermes-%d-files/%s" % (base, os.geteuid(), ident) for base in ("/var/tmp", "/tmp"))]


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""
