"""Which of this machine's files a sandbox may see, and its own directories here."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import stat
import subprocess
from collections.abc import Iterable
from pathlib import Path

from hermes.config import home, make_private
from hermes.errors import BackendError, ConfigError

__all__ = [
    *("checked_workspace", "give_own", "make_own"),
    *("reaches_host", "remove_trees", "check_nesting", "unchanged", "lost_files"),
]

SOCKETS = (
    "/var/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
)
ENGINE_DATA = ("/var/lib/docker", "/var/lib/containers", "/var/lib/containerd")
SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/boot", "/run", "/var/run")
PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/var/lib", "/var/spool")
"""What this machine runs: harmless to see, not to change."""
PRIVATE = (".ssh", ".gnupg", ".aws", ".kube", ".config/gcloud")


def reaches_host(path: str, *, read_only: bool = False) -> str | None:
    """Return why a sandbox that sees this path is none, or None when it may: the path is then only its own.

    A path that contains a dangerous one is as dangerous. Blocks, for a moment.
    """
    real = os.path.realpath(os.path.expanduser(path))
    if real == "/":
        return "it is the whole file system"
    with contextlib.suppress(OSError):
        mode = os.stat(real).st_mode
        if not read_only and stat.S_ISDIR(mode) and mode & stat.S_ISVTX and mode & stat.S_IWOTH:
            return "it is shared by all users and programs of this machine, and holds their sockets"
        if stat.S_ISSOCK(mode):
            return "it is a socket"
        if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
            return "it is a device"
    users = _homes()
    sockets = [*SOCKETS, f"/run/user/{os.geteuid()}/podman/podman.sock"]
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime):  # an empty one means none, a relative one nothing
        sockets.append(os.path.join(runtime, "podman/podman.sock"))
    endpoint = os.environ.get("DOCKER_HOST", "")
    if endpoint.startswith("unix://"):
        sockets.append(endpoint.removeprefix("unix://"))
    if _touches(real, [home()]):
        return "it holds the files of hermes itself"
    if _contains(real, sockets) or _touches(real, ENGINE_DATA):
        return "it gives control over the container engine"
    if _touches(real, SYSTEM) or (not read_only and _touches(real, PROGRAMS)):
        return "it belongs to the system"
    for user in users:
        settings = os.path.relpath(real, os.path.realpath(user)).split("/")[0]
        if not read_only and settings.startswith(".") and settings not in (".", "..", ".cache"):
            return "it holds your settings"
    if _touches(real, [os.path.join(user, name) for user in users for name in PRIVATE]):
        return "it holds keys"
    if _contains(real, [*users, "/root", "/home", "/Users"]) or os.path.dirname(real) in ("/home", "/Users"):
        return "it is, or contains, a home directory"
    return None


def _homes() -> list[str]:
    """Return the home that ``HOME`` names, where it names one, and that of the account."""
    found = [home for home in (os.environ.get("HOME", ""),) if os.path.isabs(home)]
    with contextlib.suppress(KeyError):
        found.append(pwd.getpwuid(os.geteuid()).pw_dir)
    return found


def lost_files(base: str | Path) -> str:
    """Say what is lost where a sandbox's own directory is not there any more, empty where it is. Blocks."""
    return "" if os.path.isdir(base) else f"its files are lost: its directory, {base}, was removed"


def unchanged(sources: Iterable[str]) -> None:
    """Check that paths of this machine still lead to themselves, and not by a link elsewhere. Blocks.

    :raises BackendError: one does not; it must not be mounted again
    """
    for source in sources:
        if os.path.realpath(source) != source:
            raise BackendError(
                f"{source} leads elsewhere now: to {os.path.realpath(source)}; nothing was started",
                hint="Something may have put a link in its place. Mend it, or remove the sandbox.",
            )


def check_nesting(mounts: Iterable[tuple[str, bool]]) -> None:
    """Check that no mount lies in another that the sandbox may write to: it could lead it elsewhere.

    :param mounts: source and whether it is read-only
    :raises ConfigError: one does
    """
    known = list(mounts)
    for source, _ in known:
        for outer, read_only in known:
            if not read_only and source != outer and Path(source).is_relative_to(outer):
                raise ConfigError(
                    f"{source} lies in {outer}, which the sandbox can write to: it could put a link to "
                    "anywhere in its place; nothing was started",
                    hint="Move it, or mount what is around it read-only.",
                )


def _contains(path: str, others: Iterable[str | Path]) -> bool:
    """Return whether the path is one of the others or above it."""
    return any(Path(os.path.realpath(other)).is_relative_to(path) for other in others)


def _touches(path: str, others: Iterable[str | Path]) -> bool:
    """Return whether the path is one of the others, above it or below it."""
    below = any(Path(path).is_relative_to(os.path.realpath(other)) for other in others)
    return below or _contains(path, others)


def checked_workspace(workspace: str, here: str | None) -> str:
    """Return the absolute path of a directory of this machine that becomes the workspace.

    :param workspace: ``here`` or a path
    :raises ConfigError: there is no such directory, or it would give away the host; nothing was started
    """
    base = here or os.getcwd()
    path = base if workspace == "here" else os.path.join(base, os.path.expanduser(workspace))
    path = os.path.realpath(path)
    if not path.isprintable():
        raise ConfigError(
            f"the workspace {path!a} has a name that cannot be passed on; nothing was started",
            hint="Rename it, or use --workspace private.",
        )
    if not os.path.isdir(path):
        raise ConfigError(f"the workspace {path} is not a directory; nothing was started")
    why = reaches_host(path)
    if why is not None:
        raise ConfigError(
            f"{path} cannot be the workspace of a sandbox: {why}; nothing was started",
            hint="Name a directory of the project, or use --workspace private.",
        )
    return path


def make_own(path: Path, uid: int, gid: int) -> None:
    """Make a directory of mode 0700 that belongs to a user; only root can make it another's. May be there."""
    make_private(path)
    if (uid, gid) != (os.geteuid(), os.getegid()):
        os.chown(path, uid, gid)


def give_own(path: Path, uid: int, gid: int) -> None:
    """Give a directory of :func:`make_own`, with all that is in it, to another user. Only root can. Blocks.

    No sandbox may run that has it. No link in it is followed, and no depth is too great.

    :raises BackendError: it cannot be given
    """
    if os.geteuid() != 0 or os.lstat(path).st_uid == uid:
        return
    done = subprocess.run(
        ["chown", "-hR", f"{uid}:{gid}", str(path)],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()[-300:]
        raise BackendError(f"the files in {path} cannot be given to the user {uid}: {said}")


def remove_trees(paths: Iterable[str | Path]) -> list[str]:
    """Remove directories with all they hold, and return those of which something is left. Blocks.

    What is in them may have been made to resist: rights are taken back, no depth is too great, and no link
    is followed.
    """
    left = []
    for path in paths:
        with contextlib.suppress(RecursionError):
            shutil.rmtree(path, ignore_errors=True)
        if os.path.lexists(path):
            with contextlib.suppress(OSError):
                _flatten(path)
                os.rmdir(path)
        if os.path.lexists(path):
            left.append(str(path))
    return left


def _flatten(path: str | Path) -> None:
    """Empty a directory however deep it is: what is in a directory in it moves up before that one goes."""
    top = _opened(os.fspath(path))
    try:
        while names := os.listdir(top):
            for name in names:
                if not _is_directory(name, top):
                    os.unlink(name, dir_fd=top)
                    continue
                inner = _opened(name, top)
                try:
                    for one in os.listdir(inner):
                        if _is_directory(one, inner):
                            os.close(_opened(one, inner))  # moving it changes it
                            os.rename(one, secrets.token_hex(16), src_dir_fd=inner, dst_dir_fd=top)
                        else:
                            os.unlink(one, dir_fd=inner)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)


def _is_directory(name: str, folder: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _opened(path: str, folder: int | None = None) -> int:
    """Open a directory, and no link to one, with the right to change it where it is ours."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    held = os.open(path, flags | getattr(os, "O_PATH", 0), dir_fd=folder)
    try:
        with contextlib.suppress(OSError):
            os.chmod(f"/proc/self/fd/{held}" if hasattr(os, "O_PATH") else held, 0o700)
        return os.open(".", flags | os.O_RDONLY, dir_fd=held)
    finally:
        os.close(held)
