"""`hermes setup` gets an image from a registry or builds it, shows how far it is, and pins what it got."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from _containers import IMAGES, PLACES, asked
from _registry import Registry, registry
from cli._tool import Cli
from cli.test_setup import Talk, setup, written
from hermes.backends.docker import _image, _plan
from hermes.cli._main import main

pytestmark = [
    pytest.mark.alone,  # the engine's images come and go, with layers that those of other tests have too
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif("docker" not in PLACES, reason="docker's engine is root's"),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(IMAGES["docker"], tmp_path_factory.mktemp("registry")) as one:
        try:
            # Once before: the layers below its own are known to the engine only from then on.
            asked("docker", "pull", one.name)
            yield one
        finally:
            forget(one)


def forget(one: Registry) -> None:
    """Take away the image, whatever it is called."""
    for _ in range(20):
        left = asked("docker", "images", "--quiet", "--no-trunc", one.name.rpartition(":")[0])
        if not left:
            return
        said = subprocess.run(["docker", "rmi", "--force", *left.split()], capture_output=True, text=True)
        time.sleep(0.5)
    pytest.fail(f"the image does not go: {said}; {asked('docker', 'ps', '--all')}")


def finish(talk: Talk) -> str:
    talk.proof()
    talk.ends()
    return talk.screen


def test_a_pull_shows_how_far_it_is(cli: Cli, served: Registry) -> None:
    forget(served)
    served.pause = 0.03
    with setup(cli, "--sandbox", "docker", "--image", served.name, NO_COLOR="1") as talk:
        screen = finish(talk)
    amounts = re.findall(r"([\d.]+) MiB of 8.0 MiB", screen)
    assert len(set(amounts)) >= 3, screen
    assert [float(one) for one in amounts[:4]] == sorted(float(one) for one in amounts[:4])
    assert "\x1b[3" not in screen  # no colour
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen).split("\r")
    assert all(len(line) <= 80 for line in lines if " MiB of " in line)
    assert written(cli)["docker.image"] == served.name


def test_a_terminal_that_cannot_write_over_lines_gets_words(cli: Cli, served: Registry) -> None:
    forget(served)
    served.pause = 0.2
    arguments = ("--sandbox", "docker", "--image", served.name)
    with setup(cli, *arguments, TERM="dumb") as talk:
        screen = finish(talk)
    served.pause = 0.0
    assert "\x1b" not in screen
    said = re.findall(
        r"hermes: pulling \S+: [\d.]+ MiB of 8.0 MiB", screen.replace("\r", "").replace("\n", "")
    )
    assert 1 <= len(said) <= 3, screen


def test_a_pipe_gets_no_bar(cli: Cli, served: Registry) -> None:
    forget(served)
    done = cli("setup", "--sandbox", "docker", "--image", served.name, timeout=60)
    assert done.returncode == 0, done
    assert not re.search(rb"MiB|\x1b|\r", done.stdout + done.stderr), done
    asked("docker", "image", "inspect", served.pinned)


def test_a_registry_without_the_image(cli: Cli, served: Registry) -> None:
    missing = served.name.replace("hermes-test", "nothing").replace(":here", ":none")
    with setup(cli, "--sandbox", "docker", "--image", missing) as talk:
        talk.sees("hermes: error:")
        talk.sees("could not be pulled")
        talk.sees("Nothing was changed. Try again?")
        talk.types("n")
        talk.ends()
    assert not (cli.home / "config.yaml").exists()


def test_the_default_image_is_pinned(
    cli: Cli, served: Registry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, since no registry that the default's name leads to can be reached."""
    forget(served)
    for module in (_image, _plan):
        monkeypatch.setattr(module, "DEFAULT_IMAGE", served.name)
    monkeypatch.setattr("hermes.backends.docker.DEFAULT_IMAGE", served.name)
    assert main(["setup", "--sandbox", "docker"]) == 0, capsys.readouterr()
    assert written(cli)["docker.image"] == served.pinned
    asked("docker", "rmi", served.name)
    assert cli.out("exec", "-q", "test -s /srv/new && pwd", timeout=60) == "/workspace\n"
    cli.out("sandbox", "rm", "--all", "--yes")
    # Another content under the same tag does not matter, until it is asked for.
    forget(served)
    before, now = served.pinned, served.renewed()
    assert main(["setup"]) == 125
    assert "could not be pulled" in capsys.readouterr().err
    assert main(["setup", "--sandbox", "docker", "--renew"]) == 0, capsys.readouterr()
    assert written(cli)["docker.image"] == now != before


@pytest.mark.parametrize("place", PLACES)
def test_a_build_shows_its_steps(cli: Cli, tmp_path: Path, place: str) -> None:
    steps = [f"FROM {IMAGES[place]}", f"RUN echo {os.urandom(4).hex()} && sleep 0.5", "RUN sleep 0.5"]
    (tmp_path / "Dockerfile").write_text("\n".join([*steps, "LABEL a=b"]) + "\n")
    options = ("--sandbox", place, "--set", f"docker.dockerfile={tmp_path}")
    try:
        with setup(cli, *options, DOCKER_BUILDKIT="0") as talk:
            screen = finish(talk)
    finally:
        tags = asked(place, "images", "--quiet", "--filter", "label=a=b", check=False).split()
        subprocess.run([place, "rmi", "--force", *tags], capture_output=True, check=False)
    assert re.search(r"step 2 of 4.*step 3 of 4", screen, re.DOTALL), screen
    assert "Image" not in screen  # it is not asked for
