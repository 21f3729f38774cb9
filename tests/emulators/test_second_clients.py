"""The emulators, asked by the providers' SDKs of another language, which overlook other things."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from _emulators import emulated

SCRIPTS = Path(__file__).parents[1] / "npm"
MODAL = {
    "run": {"out": "/workspace\n", "err": "bad\n", "code": 3},
    "input": {"out": "HELLO", "err": "", "code": 0},
    "file": True,
    "inside": {"out": "256\n", "err": "", "code": 0},
    "files": [["file", "file", 256]],
    "stat": "directory",
    "missing": "SandboxFilesystemNotFoundError",
    "left": ["empty"],
    "listed": [True],
    "tags": {"by": "npm"},
    "named": True,
    "taken": "AlreadyExistsError",
    "running": None,
    "ended": 137,
    "restored": ["empty"],
}
DAYTONA = {
    "run": [3, "here\nbad\n"],
    "slow": "DaytonaProcessExecutionTimeoutError",
    "session": [4, "/tmp\nyes\n", "bad\n"],
    "pty": 5,
    "size": True,
    "file": True,
    "files": [["file", False, 256]],
    "missing": "DaytonaFileNotFoundError",
    "left": 0,
    "preview": [True, True],
    "ssh": True,
    "listed": [True],
    "named": True,
    "taken": "DaytonaConflictError",
    "stopped": "stopped",
    "kept": "/root/deep",
    "gone": "DaytonaNotFoundError",
}
VERCEL = {
    "run": [3, "here\n/vercel/sandbox\n", "bad\n"],
    "logs": [["stdout", "first\n"], ["stderr", "second\n"]],
    "waited": 0,
    "killed": 143,
    "file": True,
    "missing": None,
    "inside": [0, "file\n256\n", ""],
    "runtime": ["node22", None, [0, "/vercel/sandbox\n", ""]],
    "refused": 400,
    "listed": [["box"], []],
    "named": "box",
    "taken": 409,
    "snapshot": "created",
    "restored": 256,
    "stopped": "stopping",
    "left": [],
}


@pytest.mark.parametrize(
    ("cloud", "expected"),
    [("modal", MODAL), ("daytona", DAYTONA), ("vercel", VERCEL)],
    ids=["modal", "daytona", "vercel"],
)
def test_the_sdk_of_another_language(cloud: str, expected: dict[str, Any], tmp_path: Path) -> None:
    modules = os.environ.get("PARTS_NPM")
    if modules is None:
        pytest.skip("the part 'npm' is not here")
    # It looks for its modules beside the script.
    (tmp_path / "node_modules").symlink_to(modules)
    script = shutil.copy(SCRIPTS / f"{cloud}.mjs", tmp_path)
    with emulated(cloud) as running:
        done = subprocess.run(
            [os.environ["PARTS_NODE"], script],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **running.settings},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == expected
