"""Where the guest keeps what commands may know, and what of it goes when a client leaves."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermes.guest import credentials


def call(args: dict[str, Any], raw: bytes = b"") -> Any:
    return SimpleNamespace(args=args, raw=raw, reply=lambda *_: None)


@pytest.mark.parametrize(("memory", "left"), [(True, ["a"]), (False, [])])
def test_what_is_on_a_disk_goes_when_its_client_leaves(
    memory: bool, left: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place that keeps its files when it is left must not keep these; in memory they stay for what runs."""
    (tmp_path / "run").mkdir(0o700)
    monkeypatch.setattr(credentials, "in_memory", lambda path: memory)
    guest: Any = SimpleNamespace(run_dir=str(tmp_path / "run"), credentials=None)
    sent = {"state": "s", "files": [["a", 0o600, 1]], "names": ["a"], "links": {str(tmp_path / "link"): "a"}}
    credentials.serve(guest, call(sent, b"x"))
    folder = guest.credentials.dir
    assert folder == str(tmp_path / "run" / "credentials") and os.listdir(folder) == ["a"]
    credentials.serve(guest, call({"remove": "disk"}))
    assert (os.listdir(folder) if os.path.isdir(folder) else []) == left
    assert os.path.lexists(tmp_path / "link") is memory
    assert guest.credentials.state == ("s" if memory else "")
    credentials.serve(guest, call({"remove": True}))
    assert not os.path.lexists(folder) and not os.path.lexists(tmp_path / "link")
