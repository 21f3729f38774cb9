"""`hermes setup` as a new user meets it: on a terminal, with real places, from nothing to a command that ran.

Each test is a transcript: what the screen says in order, and what is typed.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from _containers import IMAGES, PLACES
from _ssh import near
from cli._tool import HERMES, Cli
from cli.test_shell import Terminal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

ISOLATION = "Does isolation matter"
PROOF = re.compile(r"Proof: a command ran on (\S+) \(\S+ \S+\) in (\S+), [\d.]+ s with the start")


class Talk:
    """A conversation with `hermes setup`; ``screen`` is all that was to be seen so far."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self.screen = ""

    def sees(self, text: str) -> None:
        self.screen += self._terminal.expect(text, seconds=25.0) + text

    def types(self, text: str = "", end: str = "\r") -> None:
        self._terminal.type(text + end)

    def gives_up(self) -> None:
        """Press Ctrl-C until it is answered: one just before a program begins to read is lost."""
        end = time.monotonic() + 25.0
        while True:
            self.types("\x03", end="")
            if self._terminal.shows("nothing was changed.", seconds=1.0):
                break
            assert time.monotonic() < end, self._terminal.seen
        self.sees("nothing was changed.")

    def proof(self) -> tuple[str, str]:
        """The machine and the directory that the proof names."""
        self.sees("hermes: try: hermes exec")
        plain = " ".join(re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "", self.screen).split())
        found = PROOF.search(plain)
        assert found is not None, plain
        return found[1], found[2]

    def ends(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._terminal.fd, 4096):
                self.screen += data.decode("utf-8", "replace")


@contextlib.contextmanager
def setup(cli: Cli, *args: str, **environment: str) -> Iterator[Talk]:
    words = [f"{name}={value}" for name, value in environment.items()]
    screen = Terminal(["/usr/bin/env", *words, *HERMES, "setup", *args], cli)
    try:
        yield Talk(screen)
    finally:
        with contextlib.suppress(ChildProcessError):
            screen.close()


def written(cli: Cli) -> dict[str, object]:
    return {row["key"]: row["value"] for row in cli.json("config", "show", "--json")["settings"]}


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A PATH with a shell, and with no program of any place."""
    for name in ("sh", "bash", "env", "uname", "date", "stty", "mkdir", "cat", "rm"):
        for folder in ("/usr/bin", "/bin"):
            if os.path.exists(f"{folder}/{name}") and not (tmp_path / name).exists():
                (tmp_path / name).symlink_to(f"{folder}/{name}")
    return str(tmp_path)


def test_docker(cli: Cli) -> None:
    if "docker" not in PLACES:
        pytest.skip("docker's engine is root's")
    with setup(cli) as talk:
        talk.sees(ISOLATION)
        talk.types()
        talk.sees("1) I work on this machine (most people): docker")
        talk.sees("Number [1]:")
        talk.types()
        talk.sees("Recommended: docker. A container keeps commands away from your files")
        talk.sees("Place [docker]:")
        talk.types()
        talk.sees("Image (Enter: the usual):")
        talk.types(IMAGES["docker"])
        machine, cwd = talk.proof()
    assert machine != os.uname().nodename
    assert cwd == "/workspace"
    assert written(cli)["sandbox"] == "docker"
    assert written(cli)["docker.image"] == IMAGES["docker"]
    assert cli.out("exec", "-q", "pwd") == "/workspace\n"
    with setup(cli) as talk:  # again: what is there is the default
        talk.sees("Configured now: docker.")
        talk.sees(ISOLATION)
        talk.types()
        talk.types()
        talk.sees("Place [docker]:")
        talk.types()
        talk.sees(f"Image [{IMAGES['docker']}]:")
        talk.types()
        talk.proof()
    assert (
        cli.home / "config.yaml"
    ).read_text() == f"sandbox: docker\ndocker:\n  image: {IMAGES['docker']}\n"


def test_podman_when_it_is_named(cli: Cli) -> None:
    with setup(cli, "--sandbox", "podman", "--image", IMAGES["podman"]) as talk:
        machine, _ = talk.proof()
    assert machine != os.uname().nodename
    assert written(cli)["sandbox"] == "podman"


def test_ssh(cli: Cli) -> None:
    host = near()
    with setup(cli, "--set", f"ssh.config_file={host.config}") as talk:
        talk.sees(ISOLATION)
        talk.types()
        talk.sees("Number [1]:")
        talk.types("5")
        talk.sees("Recommended: ssh. Commands run on the machine that they are about")
        talk.sees("Place [")
        talk.types("ssh")
        talk.sees("Host:")
        talk.types("near")
        talk.sees("User there [")
        talk.types("nobody-of-that-name")
        talk.sees("Port (Enter: the usual):")
        talk.types("x")
        talk.sees("ssh.port: expected a whole number")
        talk.types()
        talk.sees("File of the private key (Enter: the usual):")
        talk.types()
        talk.sees("hermes: error:")
        talk.sees("Nothing was changed. Try again?")
        talk.types()
        assert not (cli.home / "config.yaml").exists()
        talk.sees(ISOLATION)
        talk.types()
        talk.sees("Number [1]:")
        talk.types("5")
        talk.sees("Place [")
        talk.types("ssh")
        talk.sees("Host:")
        talk.types("near")
        talk.sees("User there [")
        talk.types(host.user)
        talk.sees("Port")
        talk.types()
        talk.sees("private key")
        talk.types(host.key)
        talk.proof()
    found = written(cli)
    assert (found["sandbox"], found["ssh.host"], found["ssh.user"]) == ("ssh", "near", host.user)
    assert (found["ssh.key"], found["ssh.config_file"]) == (host.key, host.config)
    assert cli.out("exec", "-q", "id -un") == f"{host.user}\n"


def test_singularity(cli: Cli) -> None:
    image = os.environ.get("PARTS_SIF")
    if not image:
        pytest.skip("no image file: scripts/parts start apptainer")
    with setup(cli) as talk:
        talk.sees(ISOLATION)
        talk.types()
        talk.sees("4) A cluster: SLURM, no docker: singularity")
        talk.sees("Number [1]:")
        talk.types("4")
        talk.sees("Recommended: singularity. It runs containers for ordinary users")
        talk.sees("Place [singularity]:")
        talk.types()
        talk.sees("Image (Enter: the usual):")
        talk.types(image)
        talk.proof()
    assert written(cli)["sandbox"] == "singularity"
    assert "Debian" in cli.out("exec", "-q", "cat /etc/os-release")


def test_jail(cli: Cli) -> None:
    with setup(cli) as talk:
        talk.sees(ISOLATION)
        talk.types()
        talk.sees("7) I work on this machine, and it has no docker: jail")
        talk.sees("Number [1]:")
        talk.types("7")
        talk.sees("Recommended: jail. Commands run here, as you, and see nothing of yours")
        talk.sees("Place [jail]:")
        talk.types()
        talk.proof()
    assert written(cli)["sandbox"] == "jail"
    assert cli("exec", "-q", f"ls {cli.home}").returncode != 0


def test_local_only_when_it_is_understood(cli: Cli) -> None:
    with setup(cli) as talk:
        talk.sees(ISOLATION)
        talk.types("n")
        talk.sees("Place [local]:")
        talk.types()
        talk.sees("local isolates nothing: commands run as your user, in your files.")
        talk.sees("Is that what you want? [y/N]:")
        talk.types()
        talk.sees("Place [local]:")
        assert not (cli.home / "config.yaml").exists()
        talk.types()
        talk.sees("[y/N]:")
        talk.types("y")
        machine, _ = talk.proof()
    assert machine == os.uname().nodename
    assert written(cli)["sandbox"] == "local"


@pytest.mark.parametrize(
    ("number", "place", "lack"),
    [
        ("2", "daytona", "there are no credentials for Daytona"),
        ("3", "modal", "the tokens of Modal are missing"),
    ],
)
def test_what_a_recommended_place_lacks_is_said(
    cli: Cli, bare: str, number: str, place: str, lack: str
) -> None:
    with setup(cli, PATH=bare) as talk:
        talk.sees("Usable here now: local, jail.")
        talk.sees(ISOLATION)
        talk.types()
        talk.sees("Number [1]:")
        talk.types(number)
        talk.sees(f"Recommended: {place}.")
        talk.sees(f"But it cannot be used now: {lack}")
        talk.sees(f"Place [{place}]:")
        talk.types("dockerr")
        talk.sees("There is no place 'dockerr'. Did you mean 'docker'?")
        talk.gives_up()
    assert not (cli.home / "config.yaml").exists()


def test_a_machine_with_nothing_says_what_is_missing(cli: Cli, bare: str) -> None:
    with setup(cli, PATH=bare) as talk:
        talk.sees("Usable here now: local, jail.")
        talk.sees(ISOLATION)
        talk.types()
        talk.sees("Number [1]:")
        talk.types()
        talk.sees("Recommended: docker.")
        talk.sees("But it cannot be used now:")
        talk.sees("jail can be used now.")
        talk.sees("Place [jail]:")
        talk.types("docker")
        talk.sees("Image")
        talk.types()
        talk.sees("hermes: error:")
        talk.sees("Nothing was changed. Try again?")
        talk.types("n")
        talk.ends()
    assert not (cli.home / "config.yaml").exists()


@pytest.mark.parametrize("after", [ISOLATION, "Number [1]:", "Place [", "Is that what you want"])
def test_ctrl_c_changes_nothing(cli: Cli, after: str) -> None:
    cli.home.mkdir()
    before = "# mine\nsandbox: docker\n"
    (cli.home / "config.yaml").write_text(before)
    answers = {ISOLATION: "n" if after.startswith("Is") else "", "Number [1]:": "", "Place [": "local"}
    with setup(cli) as talk:
        for question, answer in answers.items():
            if after.startswith("Is") and question.startswith("Number"):
                continue
            talk.sees(question)
            if question == after:
                break
            talk.types(answer)
        else:
            talk.sees(after)
        talk.gives_up()
    assert (cli.home / "config.yaml").read_text() == before
    assert not (cli.home / ".env").exists()


def test_ctrl_c_while_it_gets_ready_changes_nothing(cli: Cli, tmp_path: Path) -> None:
    slow = tmp_path / "docker"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    process = cli.start("setup", "--sandbox", "docker", "--set", f"docker.program={slow}")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(3)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    assert not (cli.home / "config.yaml").exists()


def test_without_a_terminal_flags_say_the_same(cli: Cli) -> None:
    host = near()
    flags = ["--sandbox", "ssh", "--host", "near", "--user", host.user, "--key", host.key]
    done = cli("setup", "--non-interactive", *flags, "--set", f"ssh.config_file={host.config}")
    assert done.returncode == 0, done
    assert f"ssh: ready: {host.user}@near answers" in done.stdout.decode()
    assert "ssh: a command ran on " in done.stdout.decode()
    assert written(cli)["sandbox"] == "ssh"
    assert cli.out("exec", "-q", "id -un") == f"{host.user}\n"


def test_what_does_not_work_is_not_written(cli: Cli, bare: str) -> None:
    env = {**os.environ, "PATH": bare}
    done = cli("setup", "--sandbox", "docker", env=env)
    assert done.returncode == 125
    assert b"hermes: error:" in done.stderr
    assert not (cli.home / "config.yaml").exists()
    done = cli("setup", "--sandbox", "daytona", "--non-interactive")
    assert done.returncode == 125
    assert "there are no credentials for Daytona: DAYTONA_API_KEY is not set" in done.stderr.decode()
    assert not (cli.home / "config.yaml").exists()
    done = cli("setup", "--host", "x")
    assert "are for --sandbox ssh; nothing was changed" in done.stderr.decode()
    found = cli.json("setup", "--sandbox", "local", "--json")
    assert found["proof"]["machine"] == os.uname().nodename
    assert written(cli)["sandbox"] == "local"
