"""Where the guest keeps its socket and its scratch files."""

import os

SOCKET = "guest.sock"


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
        if base and os.path.isdir(base) and os.access(base, os.W_OK | os.X_OK):
            break
    else:
        base = "/tmp"
    return os.path.join(base, "hermes-%d" % os.geteuid(), ident)
