"""The backend of deepagents: each method of its protocol, and an agent whose model is told what to say."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends.protocol import FileDownloadResponse, FileUploadResponse
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage

from adapters._places import PLACES, documented, settings
from hermes import places
from hermes.adapters.deepagents import HermesBackend
from hermes.config import load
from hermes.errors import SandboxGone
from hermes.state import Store


@pytest.fixture(scope="module", params=PLACES)
def backend(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HermesBackend]:
    """One sandbox for all of the methods."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMES_HOME", str(tmp_path_factory.mktemp("hermes")))
        patch.setenv("HERMES_ALLOW_ROOT", "1")
        options = settings(request.param).get(request.param, {})
        with HermesBackend(request.param, workspace="private", **options) as opened:
            yield opened


@pytest.fixture
def root(backend: HermesBackend) -> str:
    """A directory inside with two files."""
    path: str = backend.execute("mktemp -d").output.strip()
    for name, text in (
        ("sums.py", "def add(a, b):\n    return a - b\n"),
        ("sub/notes.txt", "one\ntwo add(\n"),
    ):
        assert backend.write(f"{path}/{name}", text).error is None
    return path


def test_execute(backend: HermesBackend) -> None:
    found = backend.execute("echo out; echo err >&2; exit 3")
    assert (found.output, found.exit_code, found.truncated) == ("out\nerr\n", 3, False)
    found = backend.execute("echo begun; sleep 60", timeout=1)
    assert found.exit_code == 124 and found.output == "begun\n\n[it was ended by its time limit]"
    assert backend.execute("sleep 0.1; echo done", timeout=0).output == "done\n"
    backend.execute("cd /; X=1")  # each command has a shell of its own
    assert backend.execute("echo [$X]").output == "[]\n"
    found = backend.execute("head -c 6000000 /dev/zero | tr '\\0' x")
    assert found.truncated and found.exit_code == 0
    assert backend.id != ""


def test_ls_read_and_write(backend: HermesBackend, root: str) -> None:
    entries = backend.ls(root).entries
    assert entries is not None
    assert sorted((one["path"], one.get("is_dir")) for one in entries) == [
        (f"{root}/sub", True),
        (f"{root}/sums.py", False),
    ]
    found = backend.read(f"{root}/sums.py", offset=1, limit=1)
    assert found.file_data is not None and found.file_data["content"].strip() == "return a - b"
    assert (found.start_line, found.total_lines) == (2, 2)
    assert "file_not_found" in str(backend.read(f"{root}/missing").error)
    assert backend.write(f"{root}/sums.py", "replaced\n").path == f"{root}/sums.py"
    assert backend.download_files([f"{root}/sums.py"])[0].content == b"replaced\n"
    assert backend.write("/proc/nothing/here", "text").error is not None
    backend.upload_files([(f"{root}/one.png", b"\x89PNG\r\n\x1a\n\xff")])
    image = backend.read(f"{root}/one.png").file_data
    assert image is not None and base64.b64decode(image["content"]) == b"\x89PNG\r\n\x1a\n\xff"


def test_edit(backend: HermesBackend, root: str) -> None:
    path = f"{root}/sums.py"
    assert backend.edit(path, "a - b", "a + b").occurrences == 1
    assert backend.edit(path, "missing", "x").error is not None
    assert backend.edit(path, "a", "b").error is not None  # more than one
    assert backend.edit(path, "a", "c", replace_all=True).occurrences == 3
    long = "x" * 200_000
    assert backend.edit(path, "return", long).error is None  # by files of its own
    assert long in (backend.download_files([path])[0].content or b"").decode()


def test_grep_and_glob(backend: HermesBackend, root: str) -> None:
    matches = backend.grep("add(", root).matches
    assert matches is not None
    assert sorted((one["path"], one["line"], one["text"]) for one in matches) == [
        (f"{root}/sub/notes.txt", 2, "two add("),
        (f"{root}/sums.py", 1, "def add(a, b):"),
    ]
    assert [one["path"] for one in backend.grep("add(", root, glob="*.py").matches or []] == [
        f"{root}/sums.py"
    ]
    assert [one["path"] for one in backend.glob("**/*.txt", root).matches or []] == [f"{root}/sub/notes.txt"]


def test_delete(backend: HermesBackend, root: str) -> None:
    assert backend.delete(f"{root}/sub").path == f"{root}/sub"
    assert backend.delete(f"{root}/sub").error is not None
    assert [one["path"] for one in backend.ls(root).entries or []] == [f"{root}/sums.py"]


def test_upload_and_download(backend: HermesBackend, root: str) -> None:
    data = bytes(range(256)) * 1000
    sent = backend.upload_files([(f"{root}/new/data", data), ("relative", b""), (root, b"")])
    assert sent == [
        FileUploadResponse(f"{root}/new/data"),
        FileUploadResponse("relative", error="invalid_path"),
        FileUploadResponse(root, error="is_directory"),
    ]
    got = backend.download_files([f"{root}/new/data", f"{root}/missing", root, "relative"])
    assert got == [
        FileDownloadResponse(f"{root}/new/data", content=data),
        FileDownloadResponse(f"{root}/missing", error="file_not_found"),
        FileDownloadResponse(root, error="is_directory"),
        FileDownloadResponse("relative", error="invalid_path"),
    ]


async def test_the_same_without_blocking(backend: HermesBackend, root: str) -> None:
    slow, quick = await asyncio.gather(
        backend.aexecute("sleep 0.3; echo slow"), backend.aread(f"{root}/sub/notes.txt")
    )
    assert slow.output == "slow\n" and quick.file_data is not None
    assert (await backend.aedit(f"{root}/sums.py", "a - b", "a + b")).occurrences == 1
    assert [one["path"] for one in (await backend.aglob("*.py", root)).matches or []] == [f"{root}/sums.py"]


def test_output_that_is_too_long_stays_inside(backend: HermesBackend, root: str) -> None:
    kept = f"{root}/output"
    found = backend.execute_with_offload("seq 100000; exit 3", kept, max_inline_bytes=2000)
    assert found.offloaded and found.response.exit_code == 3
    assert backend.execute(f"tail -n 1 {kept}").output == "100000\n"


class Model(GenericFakeChatModel):
    """It knows of tools, and calls those that it is told to."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


def test_an_agent_does_a_task(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HERMES_APPROVALS")
    path = "/tmp/" + tmp_path.name + "-sums.py"
    calls = [
        ("write_file", {"file_path": path, "content": "print(20 - 22)\n"}),
        ("edit_file", {"file_path": path, "old_string": "20 - 22", "new_string": "20 + 22"}),
        ("execute", {"command": f"python3 {path}; rm -rf {path}"}),  # nobody is asked
    ]
    messages = [
        AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": str(at), "type": "tool_call"}])
        for at, (name, arguments) in enumerate(calls)
    ]
    with HermesBackend("local", workspace="private") as mine:
        agent = create_deep_agent(model=Model(messages=iter([*messages, AIMessage("done")])), backend=mine)
        ended = agent.invoke({"messages": [{"role": "user", "content": "Mend it."}]})
    told = [str(one.content) for one in ended["messages"] if isinstance(one, ToolMessage)]
    assert len(told) == 3 and "42" in told[2]


def test_refused_and_gone(tmp_path: Path, hermes_home: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    with HermesBackend("local", workspace="private", approval="ask") as asking:
        found = asking.execute(f"rm -rf {kept}")
        assert found.exit_code == 121 and "nobody to ask" in found.output and kept.is_dir()
        store = Store(hermes_home)
        [record] = store.all()
        asyncio.run(places.remove(record, load(), store))
        with pytest.raises(SandboxGone):
            asking.execute("true")


def test_the_code_of_the_documentation() -> None:
    calls = [("write_file", {"file_path": "/tmp/sudoku.py", "content": "print(9 * 9)\n"}),
             ("execute", {"command": "python3 /tmp/sudoku.py; rm /tmp/sudoku.py"})]  # fmt: skip
    messages = [AIMessage("", tool_calls=[{"name": name, "args": args, "id": name}]) for name, args in calls]
    model = Model(messages=iter([*messages, AIMessage("done")]))
    place = '"docker", image="python:3.12"'
    others = {'model="anthropic:claude-sonnet-4-5"': "model=model", place: '"local", workspace="private"'}
    code = documented("deepagents", others).replace("agent.invoke(", "ended = agent.invoke(")
    names: dict[str, Any] = {"model": model}
    exec(compile(code, "adapters.md", "exec"), names)
    results = [one.content for one in names["ended"]["messages"] if isinstance(one, ToolMessage)]
    assert "81" in str(results[-1])
