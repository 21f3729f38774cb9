"""Whole tasks in every place: a model that follows a script, and what then lies in the files."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path

import pytest

import hermes
from _containers import ONE_ENGINE, asked, container
from chat._loop import turn
from chat._server import Say, Script, Server, call
from credentials.conftest import Open

pytestmark = pytest.mark.timeout(240)

PROJECT = {
    "prices/__init__.py": "",
    "prices/total.py": '''\
"""Sums of prices, in cents."""


def total(prices, discount=0):
    """Return the sum of the prices less a discount in percent, rounded to whole cents."""
    result = sum(prices)
    return result * discount // 100


def cheapest(prices):
    return max(prices)
''',
    "tests/test_total.py": """\
import unittest

from prices.total import cheapest, total


class Totals(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(total([100, 250]), 350)

    def test_discount(self):
        self.assertEqual(total([999], discount=50), 500)

    def test_cheapest(self):
        self.assertEqual(cheapest([3, 1, 2]), 1)


if __name__ == "__main__":
    unittest.main()
""",
    "tests/__init__.py": "",
}
CHECK = "PYTHONDONTWRITEBYTECODE=1 python3 -m unittest"


def repository(path: Path) -> Path:
    """Make a small repository whose tests fail."""
    for name, text in PROJECT.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    git = ["git", "-C", str(path), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for argv in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "prices"]):
        subprocess.run([*git, *argv], check=True)
    return path


async def test_a_failing_test_is_made_to_pass(
    place: str, open_in: Open, model: Server, hermes_home: Path, tmp_path: Path
) -> None:
    box = await open_in(place)
    folder = await asyncio.to_thread(repository, tmp_path / "project")
    await box.files.put(folder, "project")

    def script() -> Script:
        seen = yield call("terminal", "I run the tests.", command=f"cd project && {CHECK}")
        failed = re.findall(r"FAIL: (test_\w+)", seen.last)
        assert "exit code 1" in seen.last and sorted(failed) == ["test_cheapest", "test_discount", "test_sum"]
        seen = yield call("search_files", pattern="def cheapest", path="project")
        path = re.search(r"^(\S*total\.py):\d+:", seen.last, re.M)
        assert path is not None, seen.last
        seen = yield call("read_file", path=path[1])
        assert "return max(prices)" in seen.last
        # Both at once; and the first of the edits does not fit, as it happens.
        edits = [{"old": "return maximum(prices)", "new": "return min(prices)"}]
        seen = yield call("patch", path=path[1], edits=edits)
        assert "error" in seen.last
        edits = [
            {"old": "return max(prices)", "new": "return min(prices)"},
            {"old": "return result * disc", "new": "return result - result * disc"},
        ]
        seen = yield call("patch", path=path[1], edits=edits)
        seen = yield call("terminal", command=CHECK)  # in the directory of the session still
        assert "exit code 0" in seen.last and "OK" in seen.last, seen.last
        yield Say("All tests pass now.")

    model.play(script)
    view = await turn(box, model, "make the failing tests of this repository pass")
    assert "All tests pass now." in view.said and not model.unexpected
    text = await box.files.read("project/prices/total.py")
    wanted = PROJECT["prices/total.py"].replace("max(", "min(")
    wanted = wanted.replace("return result * disc", "return result - result * disc")
    assert text.decode() == wanted
    for name in ("tests/test_total.py", "prices/__init__.py"):
        assert (await box.files.read(f"project/{name}")).decode() == PROJECT[name]
    result = await box.exec(f"cd project && {CHECK}", merge_stderr=True)
    assert result.exit_code == 0, result.text


async def test_what_fills_the_disk_is_found_and_removed(
    place: str, open_in: Open, model: Server, hermes_home: Path
) -> None:
    box = await open_in(place)
    for folder, size in (("a/b", 20_000), ("cache/deep/er", 6_000_000), ("c", 90_000)):
        await box.files.write(f"disk/{folder}/file.bin", b"x" * size)
    await box.files.write("disk/cache/deep/keep.txt", b"mine")

    def script() -> Script:
        seen = yield call("terminal", command="df -Pk disk | tail -1; du -ak disk | sort -n | tail -8")
        sizes = re.findall(r"^(\d+)\s+(\S+\.bin)$", seen.last, re.M)
        size, path = max((int(size), path) for size, path in sizes)
        assert size > 5000, seen.last
        seen = yield call("terminal", command=f"rm -- {path}")
        assert "exit code 0" in seen.last
        seen = yield call("terminal", command="du -sk disk")
        assert int(re.findall(r"^(\d+)\s+disk$", seen.last, re.M)[0]) < 1000
        seen = yield call("search_files", target="files", pattern="**/*.bin", path="disk")
        yield Say(f"{path} did; it is gone.")

    model.play(script)
    view = await turn(box, model, "find what fills the disk")
    assert "disk/cache/deep/er/file.bin did" in view.said and not model.unexpected
    found = sorted(await box.files.glob("**/*.*", root="disk"))
    assert [path.removeprefix("disk/") for path in found] == [
        "a/b/file.bin",
        "c/file.bin",
        "cache/deep/keep.txt",
    ]


SERVER = """\
import http.server, time
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello from " + self.path.encode())
time.sleep(0.7)
server = http.server.HTTPServer(("127.0.0.1", 0), Hello)
print("port", server.server_port, flush=True)
server.serve_forever()
"""
QUERY = """\
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
answer = opener.open("http://127.0.0.1:%s/there" % sys.argv[1]).read()
open("answer", "wb").write(answer)
"""


async def test_a_server_is_started_waited_for_queried_and_stopped(
    place: str, open_in: Open, model: Server, hermes_home: Path
) -> None:
    box = await open_in(place)
    jobs: list[str] = []

    def script() -> Script:
        yield call("write_file", path="server.py", content=SERVER)
        yield call("write_file", path="query.py", content=QUERY)
        seen = yield call("terminal", command="python3 server.py", background=True)
        job = re.search(r"job (\S+) runs in the background", seen.last)
        assert job is not None, seen.last
        jobs.append(job[1])
        port = None
        while port is None:
            seen = yield call("process", action="wait", id=job[1], timeout=0.5)
            assert "still runs" in seen.last, seen.last
            port = re.search(r"port (\d+)", seen.last)
        seen = yield call("terminal", command=f"python3 query.py {port[1]} && cat answer")
        assert "hello from /there" in seen.last, seen.last
        seen = yield call("process", action="kill", id=job[1])
        assert "was ended" in seen.last
        seen = yield call("terminal", command=f"python3 query.py {port[1]}")
        assert "exit code 1" in seen.last and "refused" in seen.last
        seen = yield call("process", action="list")
        yield Say("It said hello, and is stopped.")

    model.play(script)
    view = await turn(box, model, "start the server, wait for it, query it, stop it")
    assert "It said hello" in view.said and not model.unexpected
    assert await box.files.read("answer") == b"hello from /there"
    states = {one.id: one.state for one in await box.jobs()}
    assert states.get(jobs[0], "gone") not in ("running", "queued")


@ONE_ENGINE
async def test_a_place_that_is_gone_ends_the_turn(
    place: str, open_in: Open, model: Server, hermes_home: Path
) -> None:
    box = await open_in(place)

    def script() -> Script:
        yield call("terminal", command="echo here")
        asked(place, "rm", "--force", container(box))
        yield Say("", [("terminal", {"command": "echo again"}), ("terminal", {"command": "echo more"})])
        yield Say("never")

    model.play(script)
    with pytest.raises(hermes.SandboxGone):
        await turn(box, model)
    assert len(model.seen) == 2
    (path,) = await asyncio.to_thread(lambda: [*(hermes_home / "chats").glob("*.jsonl")])
    kept = await asyncio.to_thread(path.read_text)
    first, second = json.loads(kept.splitlines()[-1])["message"]["parts"]
    assert first["content"].startswith("The place does not work:")
    assert second["content"] == "It was not run: the turn was ended before."
