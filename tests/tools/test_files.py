"""`read_file`, `write_file`, `patch` and `search_files`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hermes.approval import Decision, Request
from hermes.credentials.scrub import MARK
from tools._use import Tools, tools


async def test_reading_lines(tmp_path: Path) -> None:
    async with tools(tmp_path) as use:
        (use.home / "a.txt").write_bytes(b"one\r\ntwo\n\xfftree\n\nfive")
        found = await use("read_file", path="a.txt")
        assert found.data["content"] == "one\ntwo\n\ufffdtree\n\nfive"
        assert (found.data["first"], found.data["last"], found.data["more"]) == (1, 5, False)
        assert "     3\t\ufffdtree\n     4\t\n     5\tfive\n</data-" in found.text
        part = await use("read_file", path="a.txt", offset=2, limit=2)
        assert part.data["content"] == "two\n\ufffdtree" and part.data["more"]
        assert "offset=4" in part.text
        beyond = await use("read_file", path="a.txt", offset=9)
        assert not beyond.failed and "it has 5 lines" in beyond.text
        (use.home / "empty").touch()
        assert (await use("read_file", path="empty")).text.endswith("empty")
        (use.home / "ends").write_text("x\n")
        assert (await use("read_file", path=str(use.home / "ends"))).data["last"] == 1


async def test_reading_what_is_large(tmp_path: Path) -> None:
    async with tools(tmp_path, {"tool_use.max_output": 8192}) as use:
        lines = [f"{n} {'x' * 50}" for n in range(1, 100_001)]
        (use.home / "big").write_text("\n".join(lines) + "\n")
        found = await use("read_file", path="big")
        assert found.data["more"] and 20 < found.data["last"] < 200
        for first in (found.data["last"] + 1, 50_000, 99_999):
            part = await use("read_file", path="big", offset=first, limit=3)
            assert part.data["content"].split("\n") == lines[first - 1 : first + 2]
            assert part.data["more"] == (first < 99_999)
        assert "there is no such line" not in part.text
        beyond = await use("read_file", path="big", offset=100_001)
        assert "no line 100001" in beyond.text
        (use.home / "long").write_text("y" * 5_000_000 + "\nsecond\n")
        wide = await use("read_file", path="long", limit=1)
        assert "left out" in wide.data["content"] and len(wide.data["content"]) <= 2000


async def test_reading_what_is_no_text(tmp_path: Path) -> None:
    async with tools(tmp_path) as use:
        (use.home / "bin").write_bytes(bytes(range(256)) * 100)
        found = await use("read_file", path="bin")
        assert found.data["binary"] and "25600 bytes" in found.text and "00010203" in found.text
        for path, code in (
            (".", "is_a_directory"),
            ("nothing", "not_found"),
            ("/etc/passwd/x", "not_a_directory"),
        ):
            assert (await use("read_file", path=path)).data["error"]["code"] == code
        os.mkfifo(use.home / "fifo")
        assert (await use("read_file", path="fifo")).failed


async def test_reading_is_judged_as_the_command_would_be(tmp_path: Path) -> None:
    asked: list[str] = []

    def no(request: Request, decision: Decision) -> bool:
        asked.append(request.text)
        return False

    async with tools(tmp_path, approval="ask", on_approval=no) as use:
        (use.home / "fine").write_text("x\n")
        assert (await use("read_file", path="fine")).data["content"] == "x"
        assert not asked
        key = os.path.expanduser("~/.ssh/id_rsa")
        found = await use("read_file", path=key)
        assert found.data["status"] == "refused" and asked == [f"cat -- {key}"]
        assert (await use("patch", path=key, edits=[{"old": "a", "new": "b"}])).data["status"] == "refused"
        assert (await use("search_files", pattern="BEGIN", path=key)).data["status"] == "refused"


async def test_secrets_are_taken_out_of_what_is_read(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    async with tools(tmp_path) as use:
        (use.home / "conf").write_text(f"x = 1\ntoken = {token}\n")
        for tool, arguments in (
            ("read_file", {"path": "conf"}),
            ("search_files", {"pattern": "token"}),
            ("terminal", {"command": "cat conf"}),
        ):
            found = await use(tool, **arguments)
            assert token not in found.text and token not in str(found.data)
            assert MARK.decode() in found.text, tool
        assert "patch, not write_file" in (await use("read_file", path="conf")).text


async def test_writing(tmp_path: Path) -> None:
    async with tools(tmp_path) as use:
        found = await use("write_file", path="new/dir/a.txt", content="über\n")
        assert found.data["files"] == [
            {"path": "new/dir/a.txt", "bytes": 6, "change": "made", "added": None, "removed": None}
        ]
        path = use.home / "new/dir/a.txt"
        path.chmod(0o755)
        assert (await use("write_file", path="new/dir/a.txt", content="x\n")).data["files"][0][
            "change"
        ] == "replaced"
        await use("write_file", path="new/dir/a.txt", content="y\n", append=True)
        assert path.read_text() == "x\ny\n" and path.stat().st_mode & 0o777 == 0o755
        assert (await use("write_file", path="new", content="")).data["error"]["code"] == "is_a_directory"


async def test_writing_is_asked_about(tmp_path: Path) -> None:
    async with tools(tmp_path, approval="ask") as use:
        await use("write_file", path="fine", content="x")
        for tool, arguments in (
            ("write_file", {"path": "/etc/passwd", "content": "x"}),
            ("patch", {"diff": "--- /dev/null\n+++ /etc/cron.d/x\n@@ -0,0 +1 @@\n+x\n"}),
        ):
            found = await use(tool, **arguments)
            assert found.data["status"] == "refused", found.text
        assert not Path("/etc/cron.d/x").exists()


async def patched(use: Tools, content: str, **arguments: object) -> str:
    (use.home / "f").write_bytes(content.encode())
    found = await use("patch", **arguments)
    assert not found.failed, found.text
    return (use.home / "f").read_bytes().decode()


async def test_edits(tmp_path: Path) -> None:
    async with tools(tmp_path) as use:
        edits = [{"old": "one", "new": "1"}, {"old": "1\ntwo", "new": "1\n2\n"}]
        assert await patched(use, "one\ntwo\nthree", path="f", edits=edits) == "1\n2\n\nthree"
        assert await patched(use, "aXbXc", path="f", edits=[{"old": "X", "new": "", "all": True}]) == "abc"
        # The text of a file with CRLF is given with plain line feeds.
        assert (
            await patched(use, "a\r\nb\r\n", path="f", edits=[{"old": "a\nb", "new": "c\nd"}]) == "c\r\nd\r\n"
        )
        (use.home / "raw").write_bytes(b"\xff a \xfe")
        await use("patch", path="raw", edits=[{"old": " a ", "new": " b "}])
        assert (use.home / "raw").read_bytes() == b"\xff b \xfe"


@pytest.mark.parametrize(
    ("content", "edits", "said"),
    [
        ("x\nx\nx\n", [{"old": "x", "new": "y"}], "3 times in f, at lines 1, 2, 3"),
        ("def f(self):\n", [{"old": "def g(self):", "new": ""}], "Most like its first line is line 1"),
        ("    return 1\n", [{"old": "\treturn 1", "new": ""}], "white space"),
        ("abc", [{"old": "zzzzz", "new": ""}], "Nothing in it is similar"),
        ("a b", [{"old": "a", "new": "c"}, {"old": "a", "new": "c"}], "edit 2 of 2"),
    ],
)
async def test_edits_that_do_not_fit(tmp_path: Path, content: str, edits: list[object], said: str) -> None:
    async with tools(tmp_path) as use:
        (use.home / "f").write_text(content)
        found = await use("patch", path="f", edits=edits)
        assert found.data["error"]["code"] == "patch_does_not_fit" and said in found.text, found.text
        assert "nothing was changed" in found.text
        assert (use.home / "f").read_text() == content


async def test_diffs(tmp_path: Path) -> None:
    async with tools(tmp_path) as use:
        before = "".join(f"line {n}\n" for n in range(1, 41))
        diff = (
            "diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n"
            "@@ -1,3 +1,4 @@ def x\n line 1\n+new\n line 2\n line 3\n"
            "@@ -30,2 +31 @@\n-line 30\n line 31\n"
        )
        after = before.replace("line 1\n", "line 1\nnew\n", 1).replace("line 30\n", "")
        assert await patched(use, before, diff=diff) == after
        # Moved down, to the one place where it fits.
        assert await patched(use, "top\n" * 5 + before, diff=diff) == "top\n" * 5 + after
        assert await patched(use, before.replace("\n", "\r\n"), diff=diff) == after.replace("\n", "\r\n")
        end = (
            "--- f\n+++ f\n@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"
        )
        assert await patched(use, "a\nb", diff=end) == "a\nc"
        (use.home / "b").mkdir()
        (use.home / "b/x").write_text("a\n")
        await use("patch", diff="--- b/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+c\n")
        await use("patch", diff="--- a/b/x\n+++ b/b/x\n@@ -1 +1 @@\n-c\n+d\n")
        assert (use.home / "b/x").read_text() == "d\n"
        made = await use("patch", diff="--- /dev/null\n+++ b/sub/new\n@@ -0,0 +1,2 @@\n+x\n+y\n")
        assert (use.home / "sub/new").read_text() == "x\ny\n" and made.data["files"][0]["change"] == "made"


async def test_a_diff_is_as_patch_and_git_do_it(tmp_path: Path) -> None:
    """Diffs that `diff` writes between invented versions give the second version."""
    import random
    import subprocess

    draw = random.Random(7)
    async with tools(tmp_path) as use:
        for _ in range(12):
            old = [f"{draw.choice('abc')}\n" for _ in range(draw.randrange(30))]
            new = [line for line in old if draw.random() > 0.2]
            for _ in range(draw.randrange(6)):
                new.insert(draw.randrange(len(new) + 1), f"{draw.choice('xyz')}\n")
            (use.home / "f").write_text("".join(old))
            (tmp_path / "new").write_text("".join(new))
            diff = subprocess.run(  # noqa: ASYNC221
                ["diff", "-u", "--label", "f", "--label", "f", use.home / "f", tmp_path / "new"],
                capture_output=True, text=True, check=False,
            ).stdout  # fmt: skip
            if diff:
                found = await use("patch", diff=diff)
                assert not found.failed, (diff, found.text)
                assert (use.home / "f").read_text() == "".join(new), diff


@pytest.mark.parametrize(
    ("diff", "said"),
    [
        ("hello", "no unified diff"),
        ("@@ -1 +1 @@\n-a\n+b\n", "does not say which file"),
        ("--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\n+b\n", "as many lines"),
        ("--- f\n+++ f\n@@ -1 +1 @@\n-q\n+b\n", "does not fit"),
        ("--- f\n+++ f\n@@ nonsense @@\n", "no range"),
        ("--- f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "removes"),
        ("diff --git a/f b/g\nrename from f\nrename to g\n", "rename"),
        ("--- /dev/null\n+++ f\n@@ -0,0 +1 @@\n+a\n", "there already"),
        ("--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n--- f\n+++ f\n@@ -1 +1 @@\n-b\n+c\n", "twice"),
    ],
)
async def test_diffs_that_do_not_fit(tmp_path: Path, diff: str, said: str) -> None:
    async with tools(tmp_path) as use:
        (use.home / "f").write_text("a\n")
        found = await use("patch", diff=diff)
        assert found.failed and said in found.text, found.text
        assert "nothing was changed" in found.text
        assert (use.home / "f").read_text() == "a\n"


async def test_of_several_files_all_change_or_none(tmp_path: Path) -> None:
    async with tools(tmp_path) as use:
        (use.home / "f").write_text("a\n")
        (use.home / "g").write_text("other\n")
        good = "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n"
        found = await use("patch", diff=good + "--- g\n+++ g\n@@ -1 +1 @@\n-a\n+b\n")
        assert found.failed and (use.home / "f").read_text() == "a\n"
        # What goes wrong while they are written is taken back.
        made = "--- /dev/null\n+++ new\n@@ -0,0 +1 @@\n+x\n"
        for last in ("--- /dev/null\n+++ /proc/x\n@@ -0,0 +1 @@\n+x\n", made.replace("new", "g/under")):
            found = await use("patch", diff=good + made + last)
            assert found.failed and "the other files are as they were" in found.text, found.text
            assert (use.home / "f").read_text() == "a\n" and not (use.home / "new").exists()
        both = await use("patch", path="f", diff=good)
        assert both.data["error"]["code"] == "arguments_invalid"


@pytest.fixture(params=["rg", "grep"])
def program(request: pytest.FixtureRequest) -> str:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not here")
    return str(request.param)


async def test_searching_content(tmp_path: Path, program: str) -> None:
    async with tools(tmp_path) as use:
        if program == "grep":  # as where there is no rg
            await use.box.run("true")
            folder = tmp_path / "bin"
            folder.mkdir()
            (folder / "rg").write_text("#!/bin/sh\nexit 127\n")
            (folder / "rg").chmod(0o755)
            use.box._base["base_env"] = {
                **use.box._base["base_env"],
                "PATH": f"{folder}:{os.environ['PATH']}",
            }
        (use.home / "src").mkdir()
        (use.home / "src/a.py").write_text("import os\ndef f():\n    return os.sep\n# a+b: (x)\n")
        (use.home / "src/b:1-c.txt").write_text("def g\nDEF h\n")
        (use.home / "src/bin").write_bytes(b"\0def \0")
        found = await use("search_files", pattern="^def [a-z]+", path="src")
        hits = {(one["path"], one["line"], one["text"]) for one in found.data["matches"]}
        assert hits == {("src/a.py", 2, "def f():"), ("src/b:1-c.txt", 1, "def g")}
        assert "src/a.py:2:def f():" in found.text
        found = await use("search_files", pattern="def", glob="*.txt", ignore_case=True)
        assert len(found.data["matches"]) == 2
        found = await use("search_files", pattern="a+b: (", literal=True)
        assert [one["line"] for one in found.data["matches"]] == [4]
        found = await use("search_files", pattern="def f", context=1)
        assert [(one["line"], one["near"]) for one in found.data["matches"]] == [
            (1, True),
            (2, False),
            (3, True),
        ]
        assert (await use("search_files", pattern="nowhere")).text == "nothing matched"
        assert (await use("search_files", pattern="-e", literal=True)).data["matches"] == []
        wrong = await use("search_files", pattern="a(")
        assert wrong.failed and "literal=true" in wrong.text
        assert (await use("search_files", pattern="x", path="none")).data["error"]["code"] == "not_found"


async def test_many_matches_are_bounded(tmp_path: Path) -> None:
    async with tools(tmp_path, {"tool_use.max_output": 8192}) as use:
        (use.home / "many").write_text("match\n" * 500_000)
        found = await use("search_files", pattern="match", limit=5)
        assert len(found.data["matches"]) == 5 and found.data["more"] and "and more" in found.text
        (use.home / "many").write_text(("match" * 1000 + "\n") * 2000)
        found = await use("search_files", pattern="match", limit=1000)
        assert 0 < len(found.data["matches"]) < 1000 and found.data["more"]


async def test_searching_paths(tmp_path: Path) -> None:
    async with tools(tmp_path) as use:
        for name in ("a.py", "sub/b.py", "sub/deep/c.py", "sub/d.txt"):
            path = use.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        found = await use("search_files", pattern="**/*.py", target="files")
        assert found.data["paths"] == ["a.py", "sub/b.py", "sub/deep/c.py"]
        found = await use("search_files", pattern="*.py", target="files", path="sub", limit=1)
        assert found.data["paths"] == ["b.py"] and not found.data["more"]
        found = await use("search_files", pattern="**/*", target="files", limit=2)
        assert len(found.data["paths"]) == 2 and found.data["more"]
        assert (await use("search_files", pattern="*.c", target="files")).text == "nothing matched"
        missing = await use("search_files", pattern="*", target="files", path="none")
        assert missing.data["error"]["code"] == "not_found"
