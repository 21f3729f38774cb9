"""What only root may read, in a jail of root's: hidden before anything of others runs, or there is none."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes.backends.jail import _channel, _cover
from hermes.backends.jail._bwrap import only_roots
from hermes.backends.jail._files import started_at
from hermes.errors import BackendError
from hermes.testing.tools import eventually, out

from .conftest import Open

pytestmark = pytest.mark.root_only


def mounted_here() -> list[str]:
    """The mounts below /etc of this machine. Blocks."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if " /etc" in line]


@pytest.mark.parametrize("rights", [True, False], ids=["by us", "by bubblewrap"])
async def test_it_is_hidden(open_box: Open, monkeypatch: pytest.MonkeyPatch, rights: bool) -> None:
    assert await asyncio.to_thread(_cover.can_cover)
    if not rights:
        monkeypatch.setattr(_channel, "can_cover", lambda: False)
    before = await asyncio.to_thread(mounted_here)
    box = await open_box(network="off")
    hidden = await asyncio.to_thread(lambda: [(path, os.path.isdir(path)) for path in only_roots("/etc")])
    assert ("/etc/shadow", False) in hidden
    assert any(is_folder for _, is_folder in hidden)
    files = [path for path, is_folder in hidden if not is_folder]
    folders = [path for path, is_folder in hidden if is_folder]
    each = "do cat $f && echo read $f; echo x >$f && echo written; umount $f && echo bare; done 2>/dev/null"
    assert (await box.exec(f"for f in {' '.join(files)}; {each}")).text == ""
    each = "do ls -A $d; echo x >$d/new && echo written $d; umount $d && echo bare $d; done 2>/dev/null"
    assert (await box.exec(f"for d in {' '.join(folders)}; {each}")).text == ""
    seen = await out(box, "cat /proc/self/mountinfo")
    options = {words[4]: words[5].split(",") for words in map(str.split, seen.splitlines())}
    for path, _ in hidden:
        assert {"ro", "nosuid", "nodev"} <= set(options[path]), path
    assert await asyncio.to_thread(mounted_here) == before


async def test_what_cannot_be_hidden_is_not_shown(open_box: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    firsts: list[int] = []

    def refuse(pid: int, folders: Mapping[str, bool]) -> None:
        firsts.append(pid)
        raise PermissionError(errno.EPERM, "Operation not permitted", "setns")

    monkeypatch.setattr(_cover, "_cover", refuse)
    with pytest.raises(BackendError, match=r"could not be hidden in the jail: .*setns.*no command was run"):
        await open_box(network="off")
    assert len(firsts) == 1

    async def ended() -> bool:
        return not await asyncio.to_thread(started_at, firsts[0])

    await eventually(ended, 5.0)


def test_a_jail_that_has_ended_meanwhile(tmp_path: Path) -> None:
    """Why it has is said by who knows."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    _cover.cover(ended.pid, str(tmp_path), ["/etc/shadow"])


def test_a_jail_that_never_comes_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cover, "_SECONDS", 0.05)
    with pytest.raises(BackendError, match="bubblewrap was not done within"):
        _cover.cover(os.getpid(), str(tmp_path), ["/etc/shadow"])
    assert Path("/etc/shadow").is_file()
