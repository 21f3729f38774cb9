"""What skills and dotfiles cost: 600 files to a machine that is 50 ms away, one, and none."""

from __future__ import annotations

import secrets
import shutil
import time
from pathlib import Path

import pytest

from _ssh import far
from bench._report import goal, report
from hermes import Sandbox

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

FILES = 600


async def test_skills_far_away(hermes_home: Path) -> None:
    host, name = far(), f"s{secrets.token_hex(6)}"
    folder = hermes_home / "skills" / name
    for number in range(FILES):
        path = folder / f"skill-{number % 60}" / f"file-{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"line {number} of a skill\n" * 150)
    hermes_home.chmod(0o700)

    async def opened(**more: object) -> tuple[Sandbox, float]:
        box = Sandbox("ssh", name=name, approval="off", **{**host.options(), **more})
        began = time.perf_counter()
        await box.open()
        return box, time.perf_counter() - began

    aside = folder.rename(hermes_home / "aside")
    folder.parent.rmdir()
    box, plain = await opened()  # the guest is there from now on
    try:
        await box.close()
        box, plain = await opened()
        began = time.perf_counter()
        await box.run("true")
        usual = time.perf_counter() - began
        folder.parent.mkdir()
        aside.rename(folder)
        began = time.perf_counter()
        await box.run("true")
        first = time.perf_counter() - began
        there = await box.run(f"find ~/.hermes/skills/{name} -type f | wc -l")
        assert there.text.strip() == str(FILES)
        await box.close()
        box, unchanged = await opened()
        (folder / "skill-1" / "file-1.md").write_text("changed\n")
        box.travel._next = 0.0
        began = time.perf_counter()
        await box.run("true")
        one = time.perf_counter() - began
    finally:
        shutil.rmtree(hermes_home / "skills")
        await box.run(f"rm -rf ~/.hermes/skills/{name} ~/.hermes/.sent-*")
        await box.destroy()
    report(
        "skills",
        [],
        command_s=round(usual, 3),
        first_command_with_600_new_files_s=round(first, 3),
        command_with_one_changed_s=round(one, 3),
        open_with_600_unchanged_s=round(unchanged, 3),
        open_without_any_s=round(plain, 3),
        first=goal(first < 2, "600 files in under 2 s at 50 ms"),
    )
