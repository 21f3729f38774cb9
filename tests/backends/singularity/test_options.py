"""Binds, arguments and the place of files: what they mean, and what is refused. Nothing is started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hermes import backends
from hermes.backends.base import Spec
from hermes.backends.singularity import SingularityBackend, workdir
from hermes.backends.singularity._client import Client
from hermes.backends.singularity._image import parse_image
from hermes.backends.singularity._options import Bind, parse_args, parse_bind
from hermes.backends.singularity._slurm import ENDED
from hermes.config import Config
from hermes.errors import BackendError, ConfigError, UnsupportedError


def backend(tmp_path: Path, **spec: Any) -> SingularityBackend:
    spec.setdefault("image", str(tmp_path))
    return SingularityBackend(Spec(name="x", id="0" * 16, **spec), Config())


@pytest.mark.parametrize(
    ("text", "bind"),
    [
        ("/data", Bind("/data", "/data")),
        ("/data:/in", Bind("/data", "/in")),
        ("/data:/in:ro", Bind("/data", "/in", True)),
        ("/data/../x:/in/", Bind("/x", "/in")),
    ],
)
def test_a_bind(text: str, bind: Bind) -> None:
    assert parse_bind(text) == bind


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":/in",
        "/a:/b:rx",
        "/a,/b",
        "/a:in",
        "/a:/",
        "/a:/proc/x",
        "/a:/run/hermes",
        "/a:/workspace/b",
        "/a:/tmp",
    ],
)
def test_no_bind(text: str) -> None:
    with pytest.raises(ConfigError, match="nothing was started"):
        parse_bind(text)


def test_a_bind_becomes_one_argument_whatever_its_path_holds() -> None:
    assert Bind('/a,"b', "/c", True).arguments() == ("--mount", 'type=bind,"source=/a,""b",destination=/c,ro')


def test_arguments() -> None:
    found = parse_args(["--hostname", "box", "--dns=1.1.1.1", "--uts", "--bind", "/data:/in:ro"])
    assert found.args == ["--hostname=box", "--dns=1.1.1.1", "--uts"]
    assert found.binds == [Bind("/data", "/in", True)]
    assert found.reasons == []


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--keep-privs"], "root inside keeps its privileges"),
        (["--add-caps", "CAP_SYS_ADMIN"], "it has the capability CAP_SYS_ADMIN"),
        (["--netns-path=/run/netns/x"], "it is in the network /run/netns/x"),
        (["--security", "uid:0"], "its security settings are changed: uid:0"),
        (["--security", "seccomp:/p"], "its security settings are changed: seccomp:/p"),
    ],
)
def test_arguments_that_reach_the_host(args: list[str], why: str) -> None:
    assert parse_args(args).reasons == [why]


@pytest.mark.parametrize("args", [["--add-caps", "CAP_CHOWN"], ["--security", "apparmor:x"]])
def test_arguments_that_look_as_if(args: list[str]) -> None:
    assert parse_args(args).reasons == []


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["--net"], "'network'"),
        (["--memory", "1g"], "'limits'"),
        (["-o", "x"], "'persistent'"),
        (["--nv"], "'singularity.nv'"),
        (["--env", "A=1"], "'env'"),
        (["--no-such"], "Known:"),
        (["--dns"], ""),
        (["word"], ""),
        (["--uts=1"], ""),
    ],
)
def test_arguments_that_are_refused(args: list[str], hint: str) -> None:
    with pytest.raises(ConfigError, match="nothing was started") as caught:
        parse_args(args)
    assert hint in str(caught.value)


@pytest.mark.parametrize("network", ["host", "internal"])
def test_networks_that_it_cannot_make(tmp_path: Path, network: str) -> None:
    with pytest.raises(UnsupportedError, match=f"cannot do network: {network}; nothing was started"):
        backend(tmp_path, network=network).check_spec()


@pytest.mark.parametrize("workspace", ["/", "~", "/proc", "/etc"])
def test_workspaces_that_would_give_the_host_away(tmp_path: Path, workspace: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the workspace of a sandbox"):
        backend(tmp_path, workspace=workspace).check_spec()


@pytest.mark.parametrize("source", ["/", "~", "/dev/null", "/home"])
def test_binds_that_reach_the_host_are_named(tmp_path: Path, source: str) -> None:
    place = backend(tmp_path, options={"binds": [f"{source}:/host"]})
    place.check_spec()
    can = place.capabilities
    assert (can.judged, can.isolation) == (True, "none")
    assert "is bound: " in can.reaches_host[0]


def test_a_plain_bind_is_not_judged(tmp_path: Path) -> None:
    place = backend(tmp_path, options={"binds": ["/usr/share:/host:ro"]})
    place.check_spec()
    assert not place.capabilities.judged
    assert place.settings()["singularity.binds"] == ["/usr/share:/host:ro"]


def test_unknown_options_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown key 'bind'") as caught:
        backend(tmp_path, options={"bind": []}).check_spec()
    assert "Did you mean 'binds'?" in str(caught.value)


def test_a_bind_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="to be bound"):
        backend(tmp_path, options={"binds": [f"{tmp_path}/none:/in"]}).check_spec()


def test_disk_is_not_limited(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="'disk'"):
        backend(tmp_path, limits={"disk": 1}).check_spec()


@pytest.mark.root_only
@pytest.mark.parametrize("limit", [("memory", 1 << 20), ("pids", 3), ("cpus", 0.0001)])
def test_limits_that_no_shell_can_live_with_are_refused(tmp_path: Path, limit: tuple[str, float]) -> None:
    with pytest.raises(ConfigError, match=rf"limits\.{limit[0]} is .*; a sandbox needs .*; nothing was"):
        backend(tmp_path, limits=dict([limit])).check_spec()


def test_what_is_neither_a_file_nor_a_directory_is_no_image(tmp_path: Path) -> None:
    """A client would wait for what nobody writes into it."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="neither a file nor a directory"):
        parse_image(str(tmp_path / "pipe"), None)


@pytest.mark.user_only
def test_limits_that_an_ordinary_user_cannot_set_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.backends.singularity.enforceable", frozenset)
    for limit in ("cpus", "memory", "pids"):
        with pytest.raises(UnsupportedError, match=f"the limit '{limit}' for this user.*nothing was started"):
            backend(tmp_path, limits={limit: 1}).check_spec()


@pytest.mark.root_only
def test_fakeroot_is_refused_to_root(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="for ordinary users"):
        backend(tmp_path, options={"fakeroot": True}).check_spec()


# --- images


@pytest.mark.parametrize(
    "text",
    ["docker://debian:stable", "oras://x/y", "docker-daemon:debian:stable", "docker-daemon://debian:stable"],
)
def test_images_to_be_converted(text: str) -> None:
    found = parse_image(text, None)
    assert found.path is None
    assert found.source == text.replace("docker-daemon://", "docker-daemon:")


def test_images_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "a.sif").write_text("")
    assert parse_image("a.sif", str(tmp_path)).path == f"{tmp_path}/a.sif"
    (tmp_path / "a.tar").write_text("")
    assert parse_image("docker-archive:a.tar", str(tmp_path)).source == f"docker-archive:{tmp_path}/a.tar"


def test_no_image(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no image 'debian:stable'") as caught:
        parse_image("debian:stable", str(tmp_path))
    assert "docker://debian:stable" in str(caught.value)
    with pytest.raises(ConfigError, match="there is no file"):
        parse_image("docker-archive:none.tar", str(tmp_path))


# --- the work directory


def test_the_first_usable_directory_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hermes_home: Path
) -> None:
    path, passed = workdir.choose()
    assert path == hermes_home / "sandboxes" / "singularity"
    assert [name for name, _ in passed][:2] == ["TERMINAL_SCRATCH_DIR", "TERMINAL_SANDBOX_DIR"]
    assert passed[0][1] == "it is not set"
    monkeypatch.setenv("TERMINAL_SANDBOX_DIR", str(tmp_path / "b"))
    assert workdir.choose()[0] == tmp_path / "b" / "singularity"
    monkeypatch.setenv("TERMINAL_SCRATCH_DIR", str(tmp_path / "a"))
    assert workdir.choose() == (tmp_path / "a", [])
    monkeypatch.setenv("TERMINAL_SCRATCH_DIR", "relative")
    path, passed = workdir.choose()
    assert (path, passed) == (
        tmp_path / "b" / "singularity",
        [("TERMINAL_SCRATCH_DIR", "'relative' is no absolute path")],
    )


def test_a_directory_that_cannot_be_written_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hermes_home: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TERMINAL_SCRATCH_DIR", str(tmp_path / "file"))
    path, passed = workdir.choose()
    assert path.is_relative_to(hermes_home)
    assert passed[0][0] == "TERMINAL_SCRATCH_DIR"
    assert "cannot be written to" in passed[0][1]


def test_no_directory_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workdir, "MIN_FREE", 1 << 80)
    monkeypatch.setenv("TERMINAL_SCRATCH_DIR", str(tmp_path))
    with pytest.raises(BackendError, match="MiB left") as caught:
        workdir.choose()
    assert "TERMINAL_SCRATCH_DIR" in str(caught.value)


# --- names, environment, jobs


def test_the_other_name_is_the_same_backend() -> None:
    assert backends.load("apptainer") is SingularityBackend
    assert backends.canonical("apptainer:x") == "singularity:x"
    assert backends.canonical("ssh:apptainer") == "ssh:apptainer"


def test_the_client_gets_nothing_that_changes_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("APPTAINER_BIND", "SINGULARITY_BINDPATH", "APPTAINERENV_X", "APPTAINER_NO_MOUNT", "SECRET"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("APPTAINER_CACHEDIR", "/cache")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    found = Client("/usr/bin/apptainer").environment()
    assert found["APPTAINER_CACHEDIR"] == "/cache"
    assert not {
        "APPTAINER_BIND",
        "SINGULARITY_BINDPATH",
        "APPTAINERENV_X",
        "APPTAINER_NO_MOUNT",
        "SECRET",
    } & set(found)
    assert not [name for name in found if "CUDA" in name]
    assert Client("x").environment(gpus=True)["APPTAINERENV_CUDA_VISIBLE_DEVICES"] == "1"


def test_what_slurm_may_say_of_the_end_is_told_apart() -> None:
    assert "time limit" in ENDED["TIMEOUT"]
    assert "cancelled" in ENDED["CANCELLED"]
    assert "node" in ENDED["NODE_FAIL"]
    assert "memory" in ENDED["OUT_OF_MEMORY"]
