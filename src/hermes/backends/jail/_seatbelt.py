"""A profile for macOS's ``sandbox-exec`` that holds a command about as a jail does. Never tried: unverified.

hermes has no jail on macOS, since its guest asks the kernel of Linux. The profile can be used by hand::

    python -m hermes.backends.jail._seatbelt PROJECT >profile.sb
    sandbox-exec -f profile.sb bash

What it says of files is that the last rule that fits decides.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

__all__ = ["profile"]

_SYSTEM = (
    "/System",
    "/usr",
    "/bin",
    "/sbin",
    "/Library/Apple",
    "/Library/Developer",
    "/Library/Frameworks",
    "/opt/homebrew",
    "/private/etc",
    "/private/var/db/dyld",
    "/private/var/db/timezone",
    "/private/var/select",
)
_DEVICES = ("null", "zero", "random", "urandom", "tty", "ptmx", "dtracehelper")
_SECRET = ("/private/etc/master.passwd", "/private/etc/sudoers", "/private/etc/ssh")
_SERVICES = ("com.apple.system.opendirectoryd.libinfo", "com.apple.system.notification_center")

_BASE = """(version 1)
(deny default)
; Programs, and signals among them.
(allow process-exec process-fork)
(allow signal process-info* (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow pseudo-tty)
; That a file is there may be seen everywhere: without it no path can be resolved.
(allow file-read-metadata)
(allow file-read* (literal "/"))
"""


def profile(
    writable: Iterable[str], readable: Iterable[str] = (), *, kept: Iterable[str] = (), network: bool = False
) -> str:
    """Return the profile: the system is read, nothing of the user is seen but what is named.

    :param writable: absolute paths of what may be read and changed, with all that is below
    :param readable: of what may be read
    :param kept: of what lies in those and stays as it is
    :param network: whether there is one, which is then that of the machine; nothing less can be had
    :raises ValueError: a path that cannot be written in a profile, or is not absolute
    """
    changed = [_real(path) for path in writable]
    lines = [_BASE + "; What is read."]
    lines.append(_rule("allow", "file-read*", "subpath", [*_SYSTEM, *map(_real, readable), *changed]))
    lines.append(_rule("deny", "file-read*", "subpath", _SECRET))
    lines.append("; What is changed.")
    lines.append(_rule("allow", "file-write*", "subpath", changed))
    lines.append(_rule("allow", "file-read* file-write* file-ioctl", "literal", _devices()))
    stays = [_real(path) for path in kept]
    if stays:
        lines.append("; What stays as it is of that, and is not moved away with what it lies in.")
        lines.append(_rule("deny", "file-write*", "subpath", stays))
        around = [above for path in stays for above in _above(path, changed)]
        lines.append(_rule("deny", "file-write-unlink", "literal", list(dict.fromkeys(around))))
    lines.append("; Services, each of which is a way out: these two say who a user is, and what changed.")
    lines.append(_rule("allow", "mach-lookup", "global-name", _SERVICES))
    if network:
        lines.append("(allow network* system-socket)")
    return "\n".join(line for line in lines if line) + "\n"


def _devices() -> list[str]:
    return [f"/dev/{name}" for name in _DEVICES]


def _above(path: str, roots: Sequence[str]) -> list[str]:
    """Return the directories between a path and the root that it lies in, with that."""
    found = []
    while path not in roots and path != "/":
        path = os.path.dirname(path)
        found.append(path)
    return found


def _real(path: str) -> str:
    if not os.path.isabs(path):
        raise ValueError(f"not an absolute path: {path!r}")
    return os.path.realpath(path)  # /tmp and /var are links there, and rules are about what they lead to


def _rule(verb: str, operations: str, kind: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"({verb} {operations}\n" + "\n".join(f"    ({kind} {_text(name)})" for name in names) + ")"


def _text(name: str) -> str:
    if any(ord(c) < 32 or c == "\x7f" for c in name):
        raise ValueError(f"a path with control characters cannot be written in a profile: {name!r}")
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main() -> None:
    """Print the profile for the project that is named, or the directory one is in."""
    from hermes.workspace._protect import BARE, FILES, FOLDERS

    here = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ".")
    names = sorted(FILES | FOLDERS | {f".git/{name}" for name in BARE})
    kept = [os.path.join(here, name) for name in names]
    try:
        print(profile([here, os.environ.get("TMPDIR", "/tmp")], kept=kept), end="")
    except ValueError as error:
        sys.exit(f"hermes: {error}; there is no profile")


if __name__ == "__main__":
    main()
