"""Looking after what a jail keeps from being written: programs on this machine may put another file there."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hermes.config import environment

from ._bwrap import only_roots
from ._files import WORKSPACE, Files
from ._git import nested

__all__ = ["Watch", "begin"]

Stamps = dict[str, list[int]]

# A mount goes when another file takes the name of what it was on. From outside it is made anew: in the
# namespace that owns the jail's mounts, by descriptors alone.
_MEND = """
import ctypes,fcntl,os,sys
libc=ctypes.CDLL(None,use_errno=True)
def call(number,*args):
    args=[ctypes.c_char_p(a) if isinstance(a,bytes) else ctypes.c_long(a) for a in args]
    result=libc.syscall(ctypes.c_long(number),*args)
    if result<0:raise OSError(ctypes.get_errno(),os.strerror(ctypes.get_errno()))
    return result
pid,source,path=sys.argv[1],*map(os.fsencode,sys.argv[2:])
spaces=os.open('/proc/%s/ns/mnt'%pid,os.O_RDONLY)
for space,kind in ((fcntl.ioctl(spaces,0xB701),0x10000000),(spaces,0x20000)):
    if libc.setns(space,kind):raise OSError(ctypes.get_errno(),'setns')
if source==b'tmpfs':
    if libc.mount(b'tmpfs',path,b'tmpfs',1,None):raise OSError(ctypes.get_errno(),'mount')
else:
    tree=call(428,-100,source,0x80101)
    call(442,tree,b'',0x1000,(7).to_bytes(8,'little')+bytes(24),32)
    call(429,tree,b'',-100,path,4)
"""


def begin(files: Files, pid: int, here: str | None, kept: list[str], hidden: list[str]) -> None:
    """Remember how it all is when a jail begins. Blocks, for a moment."""
    folders = {os.path.dirname(path) for path in (*(f"{here}/{one}" for one in kept), *hidden)}
    folders |= {here} if here else set()
    seen = sorted(_telling(here)) if here else []
    note = {"kept": kept, "gone": [], "stamps": _stamps(folders), "seen": seen}
    files.note(pid, json.dumps(note))


class Watch:
    """Looks after one jail, for one client of it."""

    def __init__(self, files: Files, here: str | None) -> None:
        self._files, self._here = files, here
        self._stamps: Stamps | None = None

    def still(self, *, done: bool) -> bool:
        """Return whether nothing can have changed since the last look. Does not block, but for ``stat``."""
        if done and self._here is None:
            return True  # files of the system are hidden anew without a word, before the next command
        return self._stamps is not None and _stamps(self._stamps) == self._stamps

    def look(self) -> list[str]:
        """Protect anew what has to be, and return what people have to know. Blocks, for a moment."""
        said: list[str] = []
        stamps: Stamps = {}
        for pid, path, note in _notes(self._files):
            now = _stamps(note["stamps"])
            stamps |= now
            if now == note["stamps"]:
                continue
            said += self._mended(pid, note)
            if self._here:
                said += self._new(note)
            note["stamps"] = now
            with contextlib.suppress(OSError):
                path.write_text(json.dumps(note), "utf-8")
        self._stamps = stamps
        return said

    def _mended(self, pid: int, note: dict[str, Any]) -> list[str]:
        root, said, todo = f"/proc/{pid}/root", [], []
        for one in note["kept"]:
            inside = f"{WORKSPACE}/{one}"
            try:
                if not os.statvfs(root + inside).f_flag & os.ST_RDONLY:
                    todo.append((inside, inside, f"{self._here}/{one}"))
            except FileNotFoundError:
                if one not in note["gone"]:
                    note["gone"].append(one)
                    said.append(
                        f"{self._here}/{one} was removed on this machine: commands in the jail can put "
                        "something else there until the sandbox is suspended"
                    )
            except OSError:
                continue  # the jail has ended
        for path in only_roots("/etc") if os.geteuid() == 0 else ():
            with contextlib.suppress(OSError):
                if os.path.samestat(os.lstat(path), os.lstat(root + path)):
                    todo.append(("tmpfs" if os.path.isdir(path) else "/dev/null", path, path))
        for source, inside, path in todo:
            hides = source != inside
            done = _mend(pid, source, inside)
            if hides and done:
                continue  # nothing to be done about it, and this machine's own programs do it now and then
            was = f"could be {'read' if hides else 'written to'} from in it since"
            now = "is read-only again" if done else "still can be; suspend the sandbox"
            more = "" if hides else "; look at what it holds"
            said.append(f"{path} was replaced while a jail ran, {was}, and {now}{more}")
        return said

    def _new(self, note: dict[str, Any]) -> list[str]:
        assert self._here is not None
        new = sorted(set(_telling(self._here)) - set(note["seen"]))
        note["seen"] += new
        return [
            f"{self._here}/{one} is new: "
            + (
                "git on this machine runs what that repository says; look at it before you run git here"
                if one.endswith("/.git")
                else "programs on this machine read it by themselves; look at it first"
            )
            for one in new
        ]


def _telling(here: str) -> Iterator[str]:
    """Yield what in a project programs on this machine heed by themselves."""
    from hermes.workspace._protect import FILES, FOLDERS

    with contextlib.suppress(OSError):
        yield from set(os.listdir(here)) & ((FILES | FOLDERS) - {".env"})
    yield from (f"{one}/.git" for one in nested(here))


def _notes(files: Files) -> Iterator[tuple[int, Path, dict[str, Any]]]:
    for path in (files.base / "processes").glob("*-*"):
        with contextlib.suppress(OSError, ValueError):
            note = json.loads(path.read_text("utf-8"))
            if isinstance(note, dict) and os.path.isdir(f"/proc/{path.name.partition('-')[0]}"):
                yield int(path.name.partition("-")[0]), path, note


def _stamps(folders: Iterable[str]) -> Stamps:
    found = {}
    for folder in folders:
        try:
            facts = os.stat(folder)
            found[folder] = [facts.st_mtime_ns, facts.st_ino]
        except OSError:
            found[folder] = []
    return found


def _mend(pid: int, source: str, path: str) -> bool:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _MEND, str(pid), source, path],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd="/",
        env=environment(),
        check=False,
    )
    return done.returncode == 0
