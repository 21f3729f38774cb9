"""What is asked for: read, refused with its reason, and looked through for what reaches the host."""

from __future__ import annotations

import os
import pwd
import socket
from pathlib import Path
from typing import Any

import pytest

from hermes.backends._workspace import checked_workspace, reaches_host
from hermes.backends.base import Spec
from hermes.backends.docker import DockerBackend
from hermes.backends.docker._options import Mount, parse_args, parse_mount
from hermes.backends.docker._plan import plan_for
from hermes.config import Config, Docker
from hermes.errors import ConfigError, UnsupportedError
from hermes.guest.dirs import default_dir


def backend(docker: Docker | None = None, **spec: Any) -> DockerBackend:
    options = {
        key: spec.pop(key) for key in list(spec) if key in Docker.__struct_fields__ and key not in ("image",)
    }
    config = Config(docker=docker or Docker())
    return DockerBackend(Spec(name="x", id="0123456789abcdef", options=options, **spec), config)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("/a:/b", Mount("/a", "/b")),
        ("/a:/b:ro", Mount("/a", "/b", True)),
        ("/a:/b/../c/:rw", Mount("/a", "/c")),
        ("/a:/b:ro,z", Mount("/a", "/b", True)),
        ("cache:/root/.cache", Mount("cache", "/root/.cache")),
        ("/with space:/b", Mount("/with space", "/b")),
    ],
)
def test_mounts(written: str, meant: Mount) -> None:
    assert parse_mount(written) == meant


def test_a_mounts_source_may_be_written_from_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_mount("./data:/data").source == str(tmp_path / "data")
    assert parse_mount("~/data:/data").source == str(Path.home() / "data")


@pytest.mark.parametrize(
    "written",
    [
        *("", "/a", "/a:", ":/b", "/a:b", "/a:/", "/a:/b:rx", "/a:/b:ro:x", "a/b:/c", "-v:/c", "/a:/b/../.."),
        *("/a:/proc", "/a:/sys/fs", "/a:/dev/shm", "/a:/run/hermes", "/a:/run/hermes/guest", "/a:/x/../proc"),
    ],
)
def test_what_is_no_mount_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match="nothing was started"):
        parse_mount(written)


def test_a_directory_is_not_taken_for_a_volume(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The volume would be made, and would outlive the sandbox."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="there is a directory 'data' here"):
        parse_mount("data:/data")
    assert parse_mount("./data:/data").source == str(tmp_path / "data")
    assert parse_mount("other:/data").source == "other"


def test_a_mounts_text_cannot_become_another_argument() -> None:
    assert Mount("/a,readonly", '/b"c').argument() == 'type=bind,"source=/a,readonly","target=/b""c"'
    assert Mount("cache", "/b", True).argument() == "type=volume,source=cache,target=/b,readonly"


def test_two_mounts_in_one_place_are_refused(tmp_path: Path) -> None:
    for mounts in (["/srv:/a", "/opt:/a"], ["/srv:/workspace"], ["/srv:/home/hermes"]):
        with pytest.raises(ConfigError, match="two mounts have the target"):
            backend(mounts=mounts).check_spec()


@pytest.mark.parametrize(
    ("args", "reached"),
    [
        (["--hostname", "x"], []),
        (["--dns=1.1.1.1", "--add-host", "a:1.2.3.4"], []),
        (["--cap-add", "CHOWN", "--cap-add=CAP_FOWNER"], []),
        (["--security-opt", "no-new-privileges"], []),
        (["--ipc=private", "--cgroupns", "private"], []),
        (["--privileged"], ["privileged"]),
        (["--cap-add", "SYS_ADMIN"], ["SYS_ADMIN"]),
        (["--cap-add=ALL"], ["ALL"]),
        (["--device", "/dev/fuse"], ["a device"]),
        (["--pid=host"], ["processes"]),
        (["--ipc", "host"], ["memory"]),
        (["--uts=host"], ["host name"]),
        (["--userns", "host"], ["users"]),
        (["--security-opt", "seccomp=unconfined"], ["seccomp"]),
        (["--security-opt=apparmor=unconfined"], ["apparmor"]),
        (["--security-opt", "no-new-privileges=false"], ["no-new-privileges"]),
        (["-v", "/var/run/docker.sock:/var/run/docker.sock"], ["docker.sock"]),
        (["--volume=/:/host"], ["whole file system"]),
        (["--mount", "type=bind,source=/etc,target=/host-etc,readonly"], ["system"]),
        (["--volumes-from", "other"], ["other"]),
        (["--pid=container:other"], ["other"]),
        (["--annotation=io.katacontainers.config.hypervisor.path=/x"], ["hypervisor.path=/x"]),
    ],
    ids=" ".join,
)
def test_arguments_that_reach_the_host_are_named(args: list[str], reached: list[str]) -> None:
    try:
        found = parse_args(args)
    except ConfigError as error:
        # Refusing what hermes does not know is as safe as naming it.
        assert reached and "does not know" in error.message
        return
    assert len(found.reasons) == len(reached), found.reasons
    for reason, word in zip(found.reasons, reached, strict=True):
        assert word.lower() in reason.lower()
    place = backend(args=args)
    assert place.capabilities.judged is bool(reached)
    assert place.capabilities.reaches_host == tuple(found.reasons)
    assert place.capabilities.isolation == ("none" if reached else "container")


@pytest.mark.parametrize(
    "args",
    [
        *(["--user", "0"], ["-u=0"], ["--network=host"], ["--net", "host"], ["--memory", "1g"], ["-m=1g"]),
        *(["--cpus=2"], ["--pids-limit", "1"], ["--gpus", "all"], ["--runtime=x"], ["--env", "A=b"]),
        *(
            ["-e", "A"],
            ["--env-file", "x"],
            ["--read-only=false"],
            ["--workdir=/"],
            ["--rm"],
            ["--name", "x"],
        ),
        *(["--restart=always"], ["--no-such"], ["--entrypoint", "x"], ["--detach"], ["image"], ["-it"], [""]),
        *(["--hostname"], ["--"], ["--mount", "type=tmpfs,target=/x"], ["--mount", "source=/a"]),
        *(["--label", "hermes.id=x"], ["-l", "hermes.home=x"], ["--pull=always"], ["--platform=x", "sh"]),
    ],
    ids=" ".join,
)
def test_arguments_that_hermes_owns_or_does_not_know_are_refused(args: list[str]) -> None:
    with pytest.raises(ConfigError, match="nothing was started"):
        parse_args(args)


def test_paths_that_reach_the_host(
    tmp_path: Path, hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hermes_home.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("/")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(hermes_home.parent / "s"))
        for path in (
            *("/", "/proc", "/sys/kernel", "/dev", "/etc", "/etc/ssl", "/home", "/root", "/boot", "/var/run"),
            *("/var/lib/docker", "/var/lib/docker/volumes", "/var/lib", "/run", "/var/run/docker.sock"),
            *("~", "~/.ssh", "~/.ssh/keys", "~/.aws", "~/.kube", "/home/somebody", str(tmp_path / "link")),
            *(str(hermes_home), str(hermes_home / "state"), str(hermes_home.parent), "/dev/null"),
            str(hermes_home.parent / "s"),
        ):
            assert reaches_host(path), path
    for path in (
        str(tmp_path),
        str(tmp_path / "none"),
        "/srv",
        "/opt/data",
        "~/project",
        "/home/a/project",
    ):
        assert reaches_host(path) is None, path
    for path in ("/usr/local/bin", "/var", "~/.bashrc", "~/.config/x", "/lib"):
        assert reaches_host(path), path
    for path in ("/usr/local/bin", "~/.bashrc", "/lib"):
        assert reaches_host(path, read_only=True) is None, path
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine/docker.sock")
    assert "engine" in (reaches_host(str(tmp_path / "engine")) or "")


@pytest.mark.parametrize("name", ["XDG_RUNTIME_DIR", "HOME", "TMPDIR", "DOCKER_HOST", "XDG_CONFIG_HOME"])
@pytest.mark.parametrize("value", ["", "relative"])
def test_an_empty_variable_names_no_place(
    name: str, value: str, tmp_path: Path, hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a relative one, which means nothing either, the directory we are in is not taken for its place."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, value)
    assert checked_workspace("here", str(tmp_path)) == str(tmp_path)
    keys = os.path.join(pwd.getpwuid(os.geteuid()).pw_dir, ".ssh")
    assert reaches_host(keys)
    assert os.path.isabs(default_dir("x"))


def test_mounts_that_reach_the_host_make_it_judged(tmp_path: Path) -> None:
    assert backend(mounts=[f"{tmp_path}:/data"]).capabilities.judged is False
    place = backend(mounts=["/:/host:ro", f"{tmp_path}:/data"])
    assert place.capabilities.judged
    assert place.capabilities.reaches_host == ("/ is mounted: it is the whole file system",)


@pytest.mark.parametrize(
    "wanted", ["/", "~", "/root", "/home", "/etc", "~/.ssh", "/nonexistent", "HOME", "FILE"]
)
def test_workspaces_that_give_away_the_host_are_refused(
    wanted: str, tmp_path: Path, hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hermes_home.mkdir(0o700)
    (hermes_home / "project").mkdir(parents=True)
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = {"HOME": str(hermes_home / "project"), "FILE": str(tmp_path / "file")}.get(wanted, wanted)
    with pytest.raises(ConfigError, match="nothing was started"):
        backend(workspace=path, here=str(tmp_path)).check_spec()
    if os.path.isdir(os.path.expanduser(path)):
        with pytest.raises(ConfigError, match="cannot be the workspace"):
            checked_workspace("here", os.path.expanduser(path))


def test_workspaces_of_a_project(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert checked_workspace("here", str(tmp_path)) == str(tmp_path)
    assert checked_workspace("sub", str(tmp_path)) == str(tmp_path / "sub")
    (tmp_path / "link").symlink_to("sub")
    assert checked_workspace(str(tmp_path / "link"), None) == str(tmp_path / "sub")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"user": "a b"}, "is no user"),
        ({"user": "-1"}, "is no user"),
        ({"user": "1:2:3"}, "is no user"),
        ({"user": "1234", "writable_root": True}, "root inside"),
        ({"dockerfile": "/a", "devcontainer": "/b"}, "there is one image"),
        ({"dockerfile": "/nonexistent"}, "cannot be read"),
        ({"dockerfile": "/dev/zero"}, "cannot be read: it is not a file"),
        ({"devcontainer": "/dev/zero"}, "cannot be read: it is not a file"),
        ({"image": "--privileged"}, "a name that no image has"),
        ({"image": "-v/:/host"}, "a name that no image has"),
        ({"image": ""}, "a name that no image has"),
        ({"image": "Ubuntu"}, "the image .Ubuntu. has a name that no image has"),
        ({"limits": {"memory": 1 << 20}}, r"limits\.memory is 1m; a sandbox needs 32m"),
        ({"limits": {"memory": 1536}}, r"limits\.memory is 1536; a sandbox needs 32m"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        backend(**options).check_spec()
    assert "nothing was started" in caught.value.message


def test_an_image_that_setup_pinned_makes_way(tmp_path: Path) -> None:
    """Nobody chose it; one that somebody named does not."""
    (tmp_path / "Dockerfile").write_text("FROM x\n")
    pin = f"nikolaik/python-nodejs@sha256:{'0' * 64}"
    spec = Spec(name="x", id="0" * 16)
    plan = plan_for(spec, Docker(image=pin, dockerfile=str(tmp_path)), "off")
    assert plan.image.dockerfile == str(tmp_path / "Dockerfile")
    assert plan_for(spec, Docker(image=pin), "off").image.reference == pin
    with pytest.raises(ConfigError, match="there is one image"):
        plan_for(spec, Docker(image="debian:12", dockerfile=str(tmp_path)), "off")


def test_unknown_options_are_refused() -> None:
    place = DockerBackend(Spec(name="x", id="0123456789abcdef", options={"privilegd": True}), Config())
    with pytest.raises(ConfigError, match="privilegd"):
        place.check_spec()


def test_limits_that_no_engine_enforces_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="'disk'"):
        backend(limits={"disk": 1 << 30}).check_spec()


def test_settings_hold_no_secrets() -> None:
    place = backend(env={"TOKEN": "s3cr3t"})
    assert "s3cr3t" not in repr(place.settings())


@pytest.mark.parametrize(
    "argument",
    [
        "--init",
        "--memory-swap=-1",
        "--tmpfs=/workspace",
        "--tmpfs=/run/hermes:exec",
        "--mount=type=volume,source=v,target=/v,volume-opt=device=/",
        "--mount=type=image,source=i,target=/i",
        "--mount=type=bind,source=/tmp,target=/t,bind-propagation=rshared",
        "--volume=/tmp:/scratch",
        "--volume=/tmp://run/hermes",
        "--foo",
        "--privileged=false",
        "--publish-all=false",
    ],
)
def test_arguments_that_would_undo_something_are_refused(argument: str) -> None:
    with pytest.raises(ConfigError, match="nothing was started"):
        parse_args([argument])


@pytest.mark.parametrize("value", ["no-new-privileges:0", "no-new-privileges=FALSE", "no-new-privileges:x"])
def test_a_protection_is_on_only_when_it_says_so(value: str) -> None:
    assert parse_args([f"--security-opt={value}"]).reasons
    assert not parse_args(["--security-opt=no-new-privileges:true"]).reasons


def test_a_mount_in_what_the_sandbox_can_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    spec = Spec(
        name="x",
        id="0" * 16,
        workspace=str(tmp_path),
        options={"mounts": (f"{tmp_path}/data:/data",)},
    )
    with pytest.raises(ConfigError, match="put a link to anywhere in its place"):
        plan_for(spec, Docker(), "off")


@pytest.mark.parametrize("limits", [{"memory": 6 << 20}, {"pids": 3}, {"cpus": 0.0001}])
def test_limits_that_no_shell_can_live_with_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="a sandbox needs"):
        plan_for(Spec(name="x", id="0" * 16, limits=limits), Docker(), "off")
