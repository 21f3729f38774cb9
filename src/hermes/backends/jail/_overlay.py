"""A directory of this machine that a jail changes beside it only: an overlay, mounted before the jail is.

It is mounted in a user namespace of its own, which the jail's lies in: bubblewrap can mount overlays since
its version 0.11 only, and none of a directory that was looked at first.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import stat
from pathlib import Path
from typing import Any

from hermes._tasks import settled
from hermes.config import home, make_private
from hermes.errors import BackendError

from .._command import run_client
from .._workspace import make_own, remove_trees
from ._files import PREFIX

__all__ = ["FOLDER", "enter", "failed", "merged", "original", "try_out", "upper"]

FOLDER = "overlay"
_OF = "of.json"
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_MARK = "hermes-overlay: "
# What was entered is looked at and mounted, whatever its path leads to by then.
_MOUNT = f"""cd -- "$1" && [ "$(stat -c %d:%i .)" = "$2" ] || {{
    echo "{_MARK}changed" >&2; exit 1
}}
mount -i -t overlay -o "userxattr,lowerdir=.,upperdir=$3/upper,workdir=$3/work" overlay "$3/merged" || {{
    echo "{_MARK}not mounted" >&2; exit 1
}}
cd /; shift 3; exec "$@"
"""


def merged(base: Path) -> str:
    """Return where the directory with its changes is, for the jail alone."""
    return str(base / FOLDER / "merged")


def upper(base: Path) -> str:
    """Return the directory that holds the changes."""
    return str(base / FOLDER / "upper")


def original(base: Path) -> str | None:
    """Return the directory that the changes are changes of; None when there is no overlay. Blocks."""
    try:
        found = json.loads((base / FOLDER / _OF).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    here: Any = found.get("here") if isinstance(found, dict) else None
    return here if isinstance(here, str) else None


def enter(base: Path, here: str, identity: str) -> list[str]:
    """Make the directories, and return the beginning of a command line that has the overlay. Blocks.

    :param identity: device and inode of *here*, as it was looked at
    :raises BackendError: it cannot be had
    """
    folder = base / FOLDER
    if set(str(folder)) & set(',"\\\n'):
        raise BackendError(
            f"an overlay cannot lie in {folder}, whose name would be taken apart; nothing was run",
            hint="Move HERMES_HOME, or leave out jail.overlay.",
        )
    found = {name: shutil.which(name, path=_PATH) for name in ("unshare", "mount", "stat")}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise BackendError(
            f"an overlay needs the programs unshare, mount and stat; missing here: {', '.join(missing)}; "
            "nothing was run",
            hint="Install util-linux and coreutils, or leave out jail.overlay.",
        )
    for name in ("", "upper", "work", "merged"):
        make_own(folder / name, os.geteuid(), os.getegid())
    (folder / "upper").chmod(stat.S_IMODE(os.stat(here).st_mode) & 0o777 | 0o700)  # that of /workspace inside
    before = original(base)
    if before != here:
        if before is not None and any((folder / "upper").iterdir()):
            raise BackendError(
                f"this sandbox has changes of {before}, not of {here}; nothing was run",
                hint="Apply or discard them first ('hermes diff --name'), or use another name.",
            )
        temp = folder / f"{_OF}.new"
        temp.write_text(json.dumps({"here": here}), "utf-8")
        temp.replace(folder / _OF)
    unshare = [str(found["unshare"]), "--user", "--map-root-user", "--mount"]
    return [*unshare, "/bin/sh", "-c", _MOUNT, "sh", here, identity, str(folder)]


async def try_out(bwrap: str) -> None:
    """Write to a directory beside it, in a jail that is nothing but this.

    :raises BackendError: an overlay cannot be had here
    """
    # By this name `prune` knows what a crash leaves.
    base = await asyncio.to_thread(lambda: home() / "sandboxes" / f"{PREFIX}{secrets.token_hex(8)}")
    try:
        begin = await settled(asyncio.to_thread(_prepared, base))
        inside = merged(base)
        words = ["--unshare-user", "--ro-bind", "/", "/", "--bind", inside, inside, "--chdir", inside]
        words += ["--uid", str(os.geteuid()), "--gid", str(os.getegid())]
        write = ["/bin/sh", "-c", "echo new >file"]
        done = await run_client([*begin, bwrap, *words, "--", *write], timeout=10.0)
        if done.code != 0:
            raise failed(done.said) or _unavailable(done.said)
        if not await asyncio.to_thread(_is_beside, base):
            raise _unavailable("what is written to one is not kept beside the directory")
    except OSError as error:
        raise _unavailable(f"{base}: {error.strerror}") from error
    finally:
        await settled(asyncio.to_thread(remove_trees, [base]))


def _prepared(base: Path) -> list[str]:
    here = base / "workspace"
    for one in (base.parent, base, here):
        make_private(one)
    (here / "file").write_text("old\n", "ascii")
    facts = os.stat(here)
    return enter(base, str(here), f"{facts.st_dev}:{facts.st_ino}")


def _is_beside(base: Path) -> bool:
    found = [base / "workspace" / "file", Path(upper(base), "file")]
    return [one.read_text("ascii") if one.exists() else "" for one in found] == ["old\n", "new\n"]


def failed(said: str) -> BackendError | None:
    """Return why there is no overlay, from what was said on stderr; None when that is not what failed."""
    if f"{_MARK}changed" in said:
        return BackendError(
            "the workspace was changed while it was mounted into the jail; nothing was run",
            code="workspace_changed",
            hint="Something else works in that directory: try again.",
        )
    if not said.startswith("unshare: ") and _MARK not in said:
        return None
    why = said.partition("\n")[0].partition(_MARK)[0] or said
    return _unavailable(why.strip())


def _unavailable(why: str) -> BackendError:
    return BackendError(
        f"an overlay cannot be mounted here ({why}); nothing was run",
        code="overlay_unavailable",
        hint="It needs Linux 5.11 or newer, user namespaces, and HERMES_HOME on a file system that keeps "
        "attributes, such as ext4, xfs or btrfs: no NFS, no overlay of a container. Without jail.overlay "
        "commands write to the project itself, and are asked about.",
    )
