"""Images that are built: from a Dockerfile, and from what a ``devcontainer.json`` says."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from _containers import IMAGES, ONE_ENGINE, engine, sandbox, text
from hermes.backends.docker._context import sources
from hermes.backends.docker._devcontainer import load, with_container
from hermes.backends.docker._image import from_dockerfile
from hermes.errors import BackendError, ConfigError, SandboxDiffers

EVERYTHING = """
// What a project says of its container.
{
  "name": "project", /* a comment, with "quotes" and // more */
  "image": "example/image:1", // trailing
  "containerEnv": {"A": "1", "URL": "http://a//b", "HERE": "${localWorkspaceFolder}"},
  "remoteEnv": {"B": "${localEnv:CANARY_B:default}", "C": "${containerWorkspaceFolderBasename}",},
  "remoteUser": "vscode",
  "mounts": [
    "source=${localWorkspaceFolder}/data,target=/data,type=bind,readonly",
    {"source": "cache-${localWorkspaceFolderBasename}", "target": "/cache", "type": "volume"},
  ],
  "runArgs": ["--cap-add=SYS_PTRACE", "--hostname", "dev"],
  "postCreateCommand": "echo 'a // b' > /workspace/made",
  "customizations": {"vscode": {"extensions": ["a", "b",]}},
  "forwardPorts": [3000],
}
"""


def written(folder: Path, content: object, name: str = ".devcontainer/devcontainer.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_all_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    written(folder, EVERYTHING)
    found = load(str(folder), str(folder), "/workspace")
    assert found.image.reference == "example/image:1"
    assert found.user == "vscode"
    assert found.env == {
        **{"A": "1", "URL": "http://a//b", "HERE": str(folder)},
        **{"B": "default", "C": "workspace"},
    }
    assert [(m.source, m.target, m.read_only) for m in found.mounts] == [
        (f"{folder}/data", "/data", True),
        ("cache-project", "/cache", False),
    ]
    assert found.args == ("--cap-add=SYS_PTRACE", "--hostname", "dev")
    assert found.post_create == (("/bin/sh", "-c", "echo 'a // b' > /workspace/made"),)


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("make && true", (("/bin/sh", "-c", "make && true"),)),
        (["make", "a b"], (("make", "a b"),)),
        ({"a": "x", "b": ["y", "z"]}, (("/bin/sh", "-c", "x"), ("y", "z"))),
        ("", ()),
        (None, ()),
    ],
)
def test_commands_after_the_start(
    tmp_path: Path, command: object, meant: tuple[tuple[str, ...], ...]
) -> None:
    written(tmp_path, {"image": "i", "postCreateCommand": command}, ".devcontainer.json")
    assert load(str(tmp_path), str(tmp_path), "/workspace").post_create == meant


@pytest.mark.parametrize(
    "content",
    [
        *(
            {"dockerComposeFile": "x"},
            {"image": "i", "features": {"a": {}}},
            {"service": "x"},
            {},
            [],
            "{",
            "[1",
        ),
        *(
            {"image": 1},
            {"image": "i", "mounts": "x"},
            {"image": "i", "mounts": [1]},
            {"image": "i", "runArgs": 1},
        ),
        *({"image": "i", "containerEnv": ["A"]}, {"image": "i", "postCreateCommand": 1}),
        {"build": {"dockerfile": "missing"}},
        *({"build": {"dockerfile": "devcontainer.json", **one}} for one in ({"args": ["x"]}, {"target": 5})),
        *({"image": "i", "containerEnv": {name: "x"}} for name in ("A=B", "", "A\0", "a.b")),
        {"image": "i", "remoteEnv": {"A": "\0"}},
        *({"image": "i", "postCreateCommand": one} for one in (["a\0"], "\0", [["a"]], {"a": {"b": "c"}})),
        "[" * 100000,
    ],
    ids=lambda content: repr(content)[:60],
)
def test_what_cannot_be_done_is_refused(tmp_path: Path, content: object) -> None:
    path = written(tmp_path, content)
    with pytest.raises(ConfigError, match="nothing was started") as caught:
        load(str(path), str(tmp_path), "/workspace")
    assert str(tmp_path) in caught.value.message


def test_who_commands_run_as(tmp_path: Path) -> None:
    path = written(tmp_path, {"image": "i", "containerUser": "root", "remoteUser": "dev"})
    assert load(str(path), str(tmp_path), "/workspace").user == "dev"


def test_options_of_a_build_that_are_not_used_are_named(tmp_path: Path) -> None:
    build = {"dockerfile": "D", "options": ["--network=host"], "cacheFrom": "x", "args": {"A": None}}
    path = written(tmp_path, {"build": build})
    path.with_name("D").write_text("FROM x\n")
    found = load(str(path), str(tmp_path), "/workspace")
    assert found.ignored == ("build.options", "build.cacheFrom")
    assert found.image.build_args == ()


def test_variables_made_of_the_containers_own(tmp_path: Path) -> None:
    own = {"A": "1", "P": "/own"}
    remote = {"B": "${containerEnv:A}2", "P": "${containerEnv:P}:${containerEnv:PATH}"}
    path = written(tmp_path, {"image": "i", "containerEnv": own, "remoteEnv": remote})
    found = load(str(path), str(tmp_path), "/workspace").env
    assert found == {"A": "1", "B": "12", "P": "/own:${containerEnv:PATH}"}
    assert with_container(found, {"PATH": "/bin"}, complete=True)["P"] == "/own:/bin"
    others = {"C": "${containerEnv:NONE}x", "D": "${containerEnv:NONE:y}"}
    assert with_container(others, {}, complete=True) == {"C": "x", "D": "y"}


def test_a_folder_without_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no devcontainer\.json"):
        load(str(tmp_path), str(tmp_path), "/workspace")


def test_another_content_of_a_dockerfile_is_another_image(tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text("FROM a\n")
    first = from_dockerfile(str(file))
    assert from_dockerfile(str(tmp_path)) == first
    file.write_text("FROM b\n")
    assert from_dockerfile(str(file)).reference != first.reference
    assert from_dockerfile(str(file), build_args=("A=1",)).reference != from_dockerfile(str(file)).reference


COPIES = r"""
FROM a AS base
# COPY comment /x
COPY --chown=1:1 one \
  two/*.txt /there/
ADD ["with space", "/there"]
COPY --from=base /etc /etc
ADD https://example.org/x /x
RUN echo COPY not
COPY <<EOF /y
EOF
"""


def test_what_a_dockerfile_copies() -> None:
    assert sources(COPIES) == ["one", "two/*.txt", "with space"]
    assert sources("ARG X\nCOPY $X/a b /c") == [".", "b"]
    assert sources("RUN --mount=type=bind,target=/src make") == ["."]
    assert sources("RUN --mount=type=cache,target=/root make") == []
    assert sources("RUN --mount=type=bind,from=base,target=/x make") == []


def _edit(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("line", "name", "noticed"),
    [
        ("COPY extra /extra", "extra", True),
        ("COPY extra /extra", "other", False),
        ("COPY . /all", "deep/down/file", True),
        ("COPY sub /all", "sub/new", True),
        ("COPY sub /all", "sub/skipped.log", False),
        ("COPY sub /all", "sub/kept.log", True),
        ("COPY sub /all", "sub/node_modules/x/y", False),
        ("ADD s?b/*.txt /all/", "sub/a.txt", True),
        ("ADD s?b/*.txt /all/", "sub/a.md", False),
        ("COPY ../outside /x", "../outside", False),
        ("COPY --from=x extra /extra", "extra", False),
    ],
)
def test_a_change_of_what_is_copied_is_another_image(
    tmp_path: Path, line: str, name: str, noticed: bool
) -> None:
    folder = tmp_path / "project"
    _edit(folder / "Dockerfile", f"FROM a\n{line}\n")
    _edit(folder / ".dockerignore", "# not these\n**/*.log\n!**/kept.log\n**/node_modules\n")
    for one in ("extra", "other", "deep/down/file", "sub/a.txt", "sub/a.md", "sub/kept.log", "../outside"):
        _edit(folder / one, "first")
    before = from_dockerfile(str(folder))
    assert from_dockerfile(str(folder)) == before
    _edit(folder / name, "second")
    assert (from_dockerfile(str(folder)) != before) is noticed


def test_the_workspace_is_no_part_of_its_own_image(tmp_path: Path) -> None:
    """Only single files of it are: each command would make another image."""
    _edit(tmp_path / "Dockerfile", "FROM a\nCOPY . /all\nCOPY needs.txt /needs\n")
    _edit(tmp_path / "needs.txt", "a")
    before = from_dockerfile(str(tmp_path), workspace=str(tmp_path))
    _edit(tmp_path / "made", "by a command")
    assert from_dockerfile(str(tmp_path), workspace=str(tmp_path)) == before
    _edit(tmp_path / "needs.txt", "b")
    assert from_dockerfile(str(tmp_path), workspace=str(tmp_path)) != before


def test_what_is_much_is_compared_by_size_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.backends.docker._context.CONTENT_MOST", 10)
    _edit(tmp_path / "Dockerfile", "FROM a\nCOPY big /big\n")
    _edit(tmp_path / "big", "x" * 20)
    before = from_dockerfile(str(tmp_path))
    assert from_dockerfile(str(tmp_path)) == before
    os.utime(tmp_path / "big", (1, 1))
    assert from_dockerfile(str(tmp_path)) != before


async def removed(place: str, dockerfile: Path, *about: object) -> None:
    """Remove what was built from a Dockerfile."""
    image = await asyncio.to_thread(from_dockerfile, str(dockerfile), *about)  # type: ignore[arg-type]
    await engine(place, "rmi", "--force", image.reference, check=False)


@pytest.mark.timeout(120)
async def test_a_dockerfile_is_built_and_its_change_is_noticed(place: str, tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text(f"FROM {IMAGES[place]}\nRUN echo one > /built\nCOPY extra /extra\n")
    (tmp_path / "extra").write_text("extra\n")
    lines: list[str] = []
    try:
        async with sandbox(place, name="built", dockerfile=str(file), on_progress=lines.append) as box:
            assert await text(box, "cat /built /extra") == "one\nextra"
            assert any(line.startswith("building ") for line in lines)
            await box.run("echo kept >/workspace/a")
            lines.clear()
        async with sandbox(place, name="built", dockerfile=str(file), on_progress=lines.append) as box:
            assert await text(box, "cat /built") == "one"
            assert not lines
        first = (await asyncio.to_thread(from_dockerfile, str(file))).reference
        (tmp_path / "extra").write_text("more\n")
        with pytest.raises(SandboxDiffers, match="image: "):
            await sandbox(place, name="built", dockerfile=str(file)).open()
        async with sandbox(place, name="built", dockerfile=str(file), recreate=True) as box:
            assert await text(box, "cat /extra /workspace/a") == "more\nkept"
        await engine(place, "rmi", "--force", first)
        first = (await asyncio.to_thread(from_dockerfile, str(file))).reference
        file.write_text(f"FROM {IMAGES[place]}\nRUN echo two > /built\n")
        with pytest.raises(SandboxDiffers, match="image: "):
            await sandbox(place, name="built", dockerfile=str(file)).open()
        async with sandbox(place, name="built", dockerfile=str(file), recreate=True) as box:
            assert await text(box, "cat /built /workspace/a") == "two\nkept"
            await box.destroy()
        await engine(place, "rmi", "--force", first)
    finally:
        await removed(place, file)


@pytest.mark.docker_engine
async def test_a_build_that_fails_says_what_it_printed(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGES['docker']}\nRUN echo this went wrong >&2; exit 3\n")
    with pytest.raises(BackendError, match=r"could not be built from \S+: (?!DEPRECATED)") as caught:
        await sandbox("docker", dockerfile=str(tmp_path)).open()
    assert caught.value.code == "image_missing"


@pytest.mark.timeout(120)
@ONE_ENGINE
async def test_a_devcontainer_as_a_whole(place: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("data\n")
    project.mkdir()
    (project / ".devcontainer").mkdir()
    (project / ".devcontainer" / "Dockerfile").write_text(
        f"FROM {IMAGES[place]}\nARG WHO\nRUN echo $WHO > /who\n"
    )
    written(
        project,
        {
            "build": {"dockerfile": "Dockerfile", "args": {"WHO": "them"}},
            "containerEnv": {"GREETING": "hello"},
            "mounts": ["source=${localWorkspaceFolder}/../data,target=/data,type=bind,readonly"],
            "postCreateCommand": {
                "one": "echo $GREETING >/workspace/made",
                "two": ["touch", "/workspace/two"],
            },
        },
    )
    box = sandbox(place, workspace=str(project), devcontainer=".")
    try:
        async with box:
            assert await text(box, "cat /who /data/file made; echo $GREETING; ls two") == (
                "them\ndata\nhello\nhello\ntwo"
            )
            assert (await box.run("touch /data/x")).exit_code == 1
            assert box.describe()["reaches_host"] == []
        assert (project / "made").read_text() == "hello\n"
    finally:
        folder = project / ".devcontainer"
        await removed(place, folder / "Dockerfile", str(folder), ("WHO=them",))


@ONE_ENGINE
async def test_variables_are_the_containers_and_not_the_clients(place: str, tmp_path: Path) -> None:
    """One that names a library to load, or another engine, would otherwise do so on this machine."""
    env = {"DOCKER_API_VERSION": "1.1", "CONTAINERS_STORAGE_CONF": "/nowhere", "ODD": "a 'b' $c"}
    asked = {"containerEnv": env, "remoteEnv": {"PATH": "${containerEnv:PATH}:/more"}}
    written(tmp_path, {"image": IMAGES[place], **asked, "postCreateCommand": "env >/workspace/env"})
    async with sandbox(place, devcontainer=str(tmp_path)) as box:
        for said in (await text(box, "cat env"), await text(box, "env")):
            lines = said.splitlines()
            assert {f"{name}={value}" for name, value in env.items()} <= set(lines)
            assert any(re.fullmatch("PATH=.*/bin:/more", line) for line in lines)
            assert "HERMES_ENV" not in said


@ONE_ENGINE
async def test_other_variables_and_commands_are_other_settings(place: str, tmp_path: Path) -> None:
    base = {"image": IMAGES[place], "containerEnv": {"SECRET": "old"}, "postCreateCommand": "true"}
    for changed, word in (
        ({"containerEnv": {"SECRET": "new"}}, "environment"),
        (
            {"postCreateCommand": "echo"},
            "post-create",
        ),
    ):
        written(tmp_path, base)
        async with sandbox(place, name="same", devcontainer=str(tmp_path)) as box:
            written(tmp_path, base | changed)
            with pytest.raises(SandboxDiffers, match=f"settings .{word}: ") as caught:
                await sandbox(place, name="same", devcontainer=str(tmp_path)).open()
            assert not re.search("old|new", caught.value.message)
            await box.destroy()


@pytest.mark.docker_engine
async def test_a_command_after_the_start_that_fails_leaves_nothing(tmp_path: Path, hermes_home: Path) -> None:
    written(tmp_path, {"image": IMAGES["docker"], "postCreateCommand": "echo why >&2; exit 7"})
    with pytest.raises(BackendError, match="exit code 7: why"):
        await sandbox("docker", name="post", devcontainer=str(tmp_path)).open()
    assert list((hermes_home / "sandboxes").glob("*")) == []


@pytest.mark.docker_engine
@pytest.mark.parametrize(
    ("command", "hinted"),
    [("exit 7", False), ("touch /usr/x", True), ("echo x: Permission denied; exit 1", True)],
)
async def test_the_writable_root_is_advised_where_it_helps(
    tmp_path: Path, command: str, hinted: bool
) -> None:
    written(tmp_path, {"image": IMAGES["docker"], "postCreateCommand": command})
    with pytest.raises(BackendError, match="post-create") as caught:
        await sandbox("docker", devcontainer=str(tmp_path), user="1000").open()
    assert ("writable_root" in (caught.value.hint or "")) is hinted
    assert hinted or command in (caught.value.hint or "")


@pytest.mark.docker_engine
async def test_what_is_not_done_is_said_once(tmp_path: Path) -> None:
    asked = {"onCreateCommand": "x", "initializeCommand": ["x"], "workspaceFolder": "/code", "capAdd": []}
    file = written(tmp_path, {"image": IMAGES["docker"], **asked})
    options: dict[str, Any] = {"name": "silent", "devcontainer": str(tmp_path)}
    with pytest.warns(UserWarning) as caught:
        box = await sandbox("docker", **options).open()
    said = [str(one.message) for one in caught]
    await box.close()
    assert said == [f"of {file} nothing is done with initializeCommand, onCreateCommand, workspaceFolder"]
    async with sandbox("docker", **options) as box:  # and no warning, which would be an error here
        await box.destroy()


@pytest.mark.parametrize(
    "build", [{"dockerfile": "../../Dockerfile"}, {"dockerfile": "D", "context": "../.."}]
)
def test_a_devcontainer_is_built_from_its_project_alone(tmp_path: Path, build: dict[str, str]) -> None:
    """The file may come from anywhere, and a build can copy whatever is in its context."""
    project = tmp_path / "project"
    (project / ".devcontainer").mkdir(parents=True)
    (project / ".devcontainer" / "D").write_text("FROM x\n")
    (tmp_path / "Dockerfile").write_text("FROM x\nCOPY . /stolen\n")
    written(project, {"build": build})
    with pytest.raises(ConfigError, match="lies outside of"):
        load(str(project), str(project), "/workspace")


@pytest.mark.docker_engine
async def test_a_volume_that_is_a_directory_of_this_machine(tmp_path: Path) -> None:
    name = f"hermes-test-{tmp_path.name}"
    make = ["docker", "volume", "create", "-o", "type=none", "-o", "o=bind", "-o", "device=/", name]
    await asyncio.to_thread(subprocess.run, make, check=True, stdout=subprocess.DEVNULL)
    try:
        async with sandbox("docker", mounts=[f"{name}:/host"]) as box:
            assert box.describe()["isolation"] == "none"
            assert box.describe()["reaches_host"] == [f"the volume {name} is /: it is the whole file system"]
    finally:
        await asyncio.to_thread(subprocess.run, ["docker", "volume", "rm", name], stdout=subprocess.DEVNULL)


@pytest.mark.docker_engine
async def test_a_mount_that_was_led_elsewhere_meanwhile(tmp_path: Path) -> None:
    """What writes around a mount's source may put a link in its place: it is not mounted again."""
    data = tmp_path / "data"
    data.mkdir()
    box = await sandbox("docker", name="led", mounts=[f"{data}:/data"]).open()
    try:
        await box.suspend()
        data.rename(tmp_path / "old")
        data.symlink_to("/")
        with pytest.raises(BackendError, match="leads elsewhere now"):
            await box.resume()
        with pytest.raises(SandboxDiffers):
            await sandbox("docker", name="led", mounts=[f"{data}:/data"]).open()
    finally:
        await box.destroy()
