"""The guest on every interpreter that this machine has: what it does in each place, in short."""

from __future__ import annotations

from pathlib import Path

import hermes
from hermes.config import Config, Local


async def test_the_guest_works_on(guest_python: str, tmp_path: Path) -> None:
    config = Config(local=Local(python=guest_python))
    async with hermes.Sandbox("local", approval="off", cwd=str(tmp_path), config=config) as box:
        version = await box.exec([guest_python, "-c", "import platform; print(platform.python_version())"])
        assert box.describe()["python"] == version.text.strip()

        await box.run("x=1; cd /; f() { echo $x; }")
        assert (await box.run("f; pwd; exit 3")).stdout == b"1\n/\n"
        assert (await box.run("f; kill -9 $$")).exit_code == 137
        assert (await box.run("cat; f", stdin=b"in ")).stdout == b"in 1\n"
        stopped = await box.run("setsid sleep 60 & sleep 60", timeout=0.3)
        assert stopped.timed_out and stopped.duration < 5
        assert [one for one in await box.jobs() if one.kind == "stray"] == []
        assert (await box.run("f")).stdout == b"1\n"

        long = await box.run("seq 300000", max_output=1000)
        assert long.truncated and long.spill is not None
        assert (await long.spill.read(0, 6)) == b"1\n2\n3\n"

        job = await box.start("read a; echo $a; exit 5")
        await job.write("word\n")
        assert (await job.wait()).exit_code == 5
        assert await job.output() == b"word\n"
        async with await box.pty("stty size", rows=11, cols=33) as terminal:
            assert b"11 33" in b"".join([data async for data in terminal])

        await box.files.write("a/b.txt", b"x" * 300_000)
        assert await box.files.read("a/b.txt") == b"x" * 300_000
        assert [one.name for one in await box.files.list("a")] == ["b.txt"]
        assert await box.files.glob("**/*.txt") == ["a/b.txt"]
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "file").write_bytes(b"y" * 100)
        await box.files.put(tmp_path / "in", "copy")
        await box.files.get("copy", tmp_path / "out")
        assert (tmp_path / "out" / "file").read_bytes() == b"y" * 100
        await box.files.remove("a", recursive=True)
        assert not await box.files.exists("a")
